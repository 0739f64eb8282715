// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/model.h"

/// The sub-problems of the variables that belong to samples (the brief's table of block updates; the paper's section on
/// approximated updates). A linearised update minimises a majorant, an exact one the sub-problem, so that neither
/// raises the Lagrangian.
namespace planloom::admm {

/// argmin over o of cross-entropy + rho/2 |o - @p centre|^2: `steps` steps of Newton from @p o, each by Sherman and
/// Morrison.
void proximalCrossEntropy(Matrix &o, const Matrix &centre, const std::vector<int> &labels, double rho, int steps);
/// argmin over a of p/2 (a - alpha)^2 + q/2 (tanh(a) - beta)^2, element by element: `steps` steps on a majorant from @p
/// a.
void proximalTanh(Matrix &a, const Matrix &alpha, const Matrix &beta, double p, double q, int steps);

void updateOutput(Worker &worker, const Parameters &parameters, const Method &method);
/// Error: BadInput, the penalties of the step have no positive definite system; with their values.
Status updateHidden(Worker &worker, const Parameters &parameters, const Method &method, int step);
void updateInput(Worker &worker, const Parameters &parameters, const Method &method, int step);
/// Descends in the duals: this raises the Lagrangian.
void updateDuals(Worker &worker, const Parameters &parameters, const Method &method);

} // namespace planloom::admm
