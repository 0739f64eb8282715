// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/updates.h"

#include <Eigen/Cholesky>
#include <fmt/format.h>

namespace planloom::admm {
namespace {

/// What h_t is asked to be by the block behind it: the minimum of 1/2 h'Qh - r'h.
struct Pull {
    const Matrix &weights; ///< Q = penalty * weights' weights
    double penalty;
    Matrix target; ///< r = penalty * weights' target
};

Pull pullOn(const Worker &worker, const Parameters &parameters, const Method &method, std::size_t t)
{
    const Blocks &blocks = worker.blocks;
    if (t + 1 == blocks.h.size()) {
        const double rho = method.settings.rho;
        return {parameters.v, rho, (blocks.o - blocks.l3 / rho).colwise() - parameters.c};
    }
    const double p = method.penalty[t + 1];
    Matrix target = blocks.a[t + 1] - parameters.u * worker.samples.x[t + 1] - blocks.l1[t + 1] / p;
    target.colwise() -= parameters.b;
    return {parameters.w, p, std::move(target)};
}

} // namespace

void proximalCrossEntropy(Matrix &o, const Matrix &centre, const std::vector<int> &labels, double rho, int steps)
{
    for (int step = 0; step < steps; ++step) {
        const Matrix p = softmax(o);
        Matrix gradient = p + rho * (o - centre);
        for (Eigen::Index m = 0; m < o.cols(); ++m)
            gradient(labels[static_cast<std::size_t>(m)], m) -= 1;
        const Matrix inverse = (p.array() + rho).inverse(); // of the Hessian without its term of rank one
        const Matrix scaled = inverse.cwiseProduct(p);
        const Eigen::RowVectorXd slope = scaled.cwiseProduct(gradient).colwise().sum();
        const Eigen::RowVectorXd rest = 1 - scaled.cwiseProduct(p).colwise().sum().array();
        o -= inverse.cwiseProduct(gradient) + scaled * (slope.array() / rest.array()).matrix().asDiagonal();
    }
}

void proximalTanh(Matrix &a, const Matrix &alpha, const Matrix &beta, double p, double q, int steps)
{
    constexpr double kCurvature = 0.77; // at least 4 / (3 sqrt(3)), the largest 2 f (1 - f^2)
    const Eigen::ArrayXXd bound = p + q * (1 + kCurvature * (1 + beta.array().abs()));
    for (int step = 0; step < steps; ++step) {
        const Eigen::ArrayXXd f = tanhOf(a).array();
        a.array() -= (p * (a - alpha).array() + q * (f - beta.array()) * (1 - f.square())) / bound;
    }
}

void updateOutput(Worker &worker, const Parameters &parameters, const Method &method)
{
    Blocks &blocks = worker.blocks;
    const double rho = method.settings.rho;
    Matrix centre = (parameters.v * blocks.h.back() + blocks.l3 / rho).colwise() + parameters.c;
    if (method.settings.subproblems == Subproblems::Exact)
        proximalCrossEntropy(blocks.o, centre, worker.samples.labels, rho, method.settings.newtonSteps);
    else
        blocks.o = centre - outputGradient(blocks.o, worker.samples.labels) / rho;
}

Status updateHidden(Worker &worker, const Parameters &parameters, const Method &method, int step)
{
    const auto t = static_cast<std::size_t>(step);
    Blocks &blocks = worker.blocks;
    const double q = method.penalty[t];
    const Pull pull = pullOn(worker, parameters, method, t);
    const Matrix wanted =
        q * tanhOf(blocks.a[t]) + blocks.l2[t] + pull.penalty * (pull.weights.transpose() * pull.target);
    if (method.settings.subproblems != Subproblems::Exact) {
        const double tau = pull.penalty * pull.weights.squaredNorm();
        const Matrix curved = pull.penalty * (pull.weights.transpose() * (pull.weights * blocks.h[t]));
        blocks.h[t] = (wanted + tau * blocks.h[t] - curved) / (q + tau);
        return {};
    }
    Matrix system = pull.penalty * (pull.weights.transpose() * pull.weights);
    system.diagonal().array() += q;
    const Eigen::LLT<Matrix> factor(system);
    if (factor.info() != Eigen::Success)
        return badInput(
            fmt::format("the system of hidden step {} has no Cholesky factor at penalties {:g} and {:g}; raise mu "
                        "or lower rho",
                        step + 1, q, pull.penalty));
    blocks.h[t] = factor.solve(wanted);
    return {};
}

void updateInput(Worker &worker, const Parameters &parameters, const Method &method, int step)
{
    const auto t = static_cast<std::size_t>(step);
    Blocks &blocks = worker.blocks;
    const double p = method.penalty[t];
    const Matrix alpha = blocks.a[t] - inputResidual(worker, parameters, step) + blocks.l1[t] / p;
    const Matrix beta = blocks.h[t] - blocks.l2[t] / p;
    const int steps = method.settings.subproblems == Subproblems::Exact ? method.settings.tanhSteps : 1;
    proximalTanh(blocks.a[t], alpha, beta, p, p, steps);
}

void updateDuals(Worker &worker, const Parameters &parameters, const Method &method)
{
    Blocks &blocks = worker.blocks;
    const int steps = worker.samples.steps();
    for (int step = method.settings.duals == Duals::All ? 0 : steps - 1; step < steps; ++step) {
        const auto t = static_cast<std::size_t>(step);
        blocks.l1[t] -= method.penalty[t] * inputResidual(worker, parameters, step);
        blocks.l2[t] -= method.penalty[t] * hiddenResidual(blocks, step);
    }
    blocks.l3 -= method.settings.rho * outputResidual(blocks, parameters);
}

} // namespace planloom::admm
