// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace planloom::simulate {

/// What one worker that computes more slowly than the others costs training by ADMM, where workers wait for each other
/// and where they wait for a parameter server. Compiles both forms once; an answer is a simulation of one of them.
class Straggler {
public:
    /// @p plan trains by ADMM; the server's barrier and delay are those of its settings.
    Straggler(const plan::Plan &plan, const plan::Subject &subject);

    [[nodiscard]] int workers() const { return m_workers; }
    /// Samples that all workers go through in a second while computations of @p worker take @p factor times as long.
    /// Errors: those of compilePlan, where @p plan cannot have this form.
    [[nodiscard]] Result<double> samplesPerSecond(admm::Parallel form, int worker, double factor) const;

private:
    int m_workers;
    Result<program::Program> m_synchronous;
    Result<program::Program> m_asynchronous;
};

} // namespace planloom::simulate
