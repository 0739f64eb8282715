// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/sums.h"

#include <Eigen/Cholesky>
#include <fmt/format.h>

namespace planloom::admm {
namespace {

Matrix &blockOf(Shared block, Parameters &parameters)
{
    return block == Shared::U ? parameters.u : block == Shared::W ? parameters.w : parameters.v;
}

/// The sum over steps of p_t (residual - dual / p_t), once times what the block multiplies.
Step stepIn(Shared block, const Worker &worker, const Parameters &parameters, const Method &method)
{
    Step step{Matrix::Zero(parameters.b.size(),
                           block == Shared::U       ? parameters.u.cols()
                               : block == Shared::W ? parameters.w.cols()
                                                    : 1),
              0};
    for (int t = 0; t < worker.samples.steps(); ++t) {
        const auto at = static_cast<std::size_t>(t);
        const double p = method.penalty[at];
        const Matrix misfit = p * inputResidual(worker, parameters, t) - worker.blocks.l1[at];
        if (block == Shared::B) {
            step.numerator += misfit.rowwise().sum();
            step.norm += p * static_cast<double>(misfit.cols());
        } else if (block == Shared::U) {
            step.numerator += misfit * worker.samples.x[at].transpose();
            step.norm += p * worker.samples.x[at].squaredNorm();
        } else if (t > 0) {
            step.numerator += misfit * worker.blocks.h[at - 1].transpose();
            step.norm += p * worker.blocks.h[at - 1].squaredNorm();
        }
    }
    return step;
}

} // namespace

Sums &Sums::operator+=(const Sums &other)
{
    gram += other.gram;
    product += other.product;
    return *this;
}

std::int64_t Sums::elements() const { return gram.rows() * (gram.rows() + 1) / 2 + product.size(); }

Sums sumsIn(const Worker &worker, const Method &method)
{
    const Eigen::Index inputs = worker.samples.x.front().rows();
    const Eigen::Index hidden = worker.blocks.a.front().rows();
    const Eigen::Index columns = inputs + hidden + 1;
    Sums sums{Matrix::Zero(columns, columns), Matrix::Zero(hidden, columns)};
    Matrix z = Matrix::Zero(columns, worker.samples.count());
    z.row(columns - 1).setOnes();
    for (std::size_t t = 0; t < worker.samples.x.size(); ++t) {
        const double p = method.penalty[t];
        z.topRows(inputs) = worker.samples.x[t];
        if (t > 0)
            z.middleRows(inputs, hidden) = worker.blocks.h[t - 1];
        sums.gram.selfadjointView<Eigen::Lower>().rankUpdate(z, p);
        sums.product += (p * worker.blocks.a[t] - worker.blocks.l1[t]) * z.transpose();
    }
    sums.gram.triangularView<Eigen::StrictlyUpper>() = sums.gram.transpose();
    return sums;
}

Sums sumsOut(const Worker &worker, const Method &method)
{
    const Blocks &blocks = worker.blocks;
    const double rho = method.settings.rho;
    const Eigen::Index hidden = blocks.h.back().rows();
    Matrix z(hidden + 1, worker.samples.count());
    z.topRows(hidden) = blocks.h.back();
    z.row(hidden).setOnes();
    return {rho * (z * z.transpose()), (rho * blocks.o - blocks.l3) * z.transpose()};
}

Result<Matrix> solve(const Sums &sums, const Settings &settings, const Matrix &old)
{
    Matrix system = sums.gram;
    system.diagonal().array() += settings.proximal;
    system.diagonal().head(system.rows() - 1).array() += settings.ridge;
    const Eigen::LLT<Matrix> factor(system);
    // A singular sum may factor by rounding alone: its reciprocal condition tells.
    constexpr double kLeastCondition = 1e-15;
    if (factor.info() != Eigen::Success || !(factor.rcond() > kLeastCondition))
        return badInput(
            fmt::format("the sums over samples, {} by {}, have no Cholesky factor at ridge {:g}; raise ridge, or "
                        "train on more samples",
                        system.rows(), system.cols(), settings.ridge));
    const Matrix right = sums.product + settings.proximal * old;
    return Matrix(factor.solve(right.transpose()).transpose());
}

Matrix packedIn(const Parameters &parameters)
{
    Matrix packed(parameters.u.rows(), parameters.u.cols() + parameters.w.cols() + 1);
    packed << parameters.u, parameters.w, parameters.b;
    return packed;
}

Matrix packedOut(const Parameters &parameters)
{
    Matrix packed(parameters.v.rows(), parameters.v.cols() + 1);
    packed << parameters.v, parameters.c;
    return packed;
}

void unpackIn(const Matrix &packed, Parameters &parameters)
{
    parameters.u = packed.leftCols(parameters.u.cols());
    parameters.w = packed.middleCols(parameters.u.cols(), parameters.w.cols());
    parameters.b = packed.rightCols(1);
}

void unpackOut(const Matrix &packed, Parameters &parameters)
{
    parameters.v = packed.leftCols(parameters.v.cols());
    parameters.c = packed.rightCols(1);
}

Step &Step::operator+=(const Step &other)
{
    numerator += other.numerator;
    norm += other.norm;
    return *this;
}

Step stepOf(Shared block, const Worker &worker, const Parameters &parameters, const Method &method)
{
    if (block == Shared::U || block == Shared::W || block == Shared::B)
        return stepIn(block, worker, parameters, method);
    const double rho = method.settings.rho;
    const Matrix misfit = rho * outputResidual(worker.blocks, parameters) - worker.blocks.l3;
    if (block == Shared::C)
        return {misfit.rowwise().sum(), rho * static_cast<double>(misfit.cols())};
    const Matrix &hidden = worker.blocks.h.back();
    return {misfit * hidden.transpose(), rho * hidden.squaredNorm()};
}

void takeStep(Shared block, const Step &step, const Settings &settings, Parameters &parameters)
{
    if (block == Shared::B || block == Shared::C) {
        Vector &bias = block == Shared::B ? parameters.b : parameters.c;
        bias += step.numerator / step.norm;
        return;
    }
    if (step.norm + settings.ridge == 0)
        return;
    Matrix &weights = blockOf(block, parameters);
    const double sign = settings.subproblems == Subproblems::Released ? -1 : 1;
    weights = (step.norm * weights + sign * step.numerator) / (step.norm + settings.ridge);
}

} // namespace planloom::admm
