// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/message.h"

#include "engine/admm/sums.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace planloom::admm {
namespace {

constexpr std::int64_t kFiguresOfMessage = 4; // loss, residuals, weights, Lagrangian

/// A matrix that lies row-major at @p from.
template <class Number>
Matrix rowsAt(const Number *from, std::int64_t rows, std::int64_t columns)
{
    Matrix matrix(rows, columns);
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
            matrix(r, c) = static_cast<double>(from[r * columns + c]);
    return matrix;
}

/// A symmetric matrix whose lower triangle lies row by row at @p from.
Matrix triangleAt(const double *from, std::int64_t columns)
{
    Matrix matrix(columns, columns);
    for (std::int64_t r = 0; r < columns; ++r)
        for (std::int64_t c = 0; c <= r; ++c)
            matrix(r, c) = matrix(c, r) = *from++;
    return matrix;
}

/// Writes columns [first, first + count) of @p packed row by row.
float *writeColumns(const Matrix &packed, std::int64_t first, std::int64_t count, float *to)
{
    for (Eigen::Index r = 0; r < packed.rows(); ++r)
        for (std::int64_t c = first; c < first + count; ++c)
            *to++ = static_cast<float>(packed(r, c));
    return to;
}

/// [u w b] and [v c] of an answer, as sums.h packs them.
struct PackedPair {
    Matrix in, out;
};

PackedPair packedOf(const Sizes &sizes, const float *answer)
{
    const auto [n, h, c, steps] = sizes;
    PackedPair packed{Matrix(h, n + h + 1), Matrix(c, h + 1)};
    packed.in.leftCols(n) = rowsAt(answer, h, n);
    packed.in.middleCols(n, h) = rowsAt(answer + h * n, h, h);
    packed.in.rightCols(1) = rowsAt(answer + h * (n + h), h, 1);
    const float *const out = answer + h * (n + h + 1);
    packed.out.leftCols(h) = rowsAt(out, c, h);
    packed.out.rightCols(1) = rowsAt(out + c * h, c, 1);
    return packed;
}

} // namespace

MessageLayout::MessageLayout(const Sizes &of, const Settings &settings)
    : sizes(of),
      bringsParameters(settings.proximal > 0)
{
    gramIn = sharedElements(of, "gram_in");
    productIn = sharedElements(of, "product_in");
    gramOut = sharedElements(of, "gram_out");
    productOut = sharedElements(of, "product_out");
    for (const char *name : kParameterNames)
        answer += sharedElements(of, name);
    elements = figures() + kFiguresOfMessage + (bringsParameters ? parameters() : 0);
}

ParameterServer::ParameterServer(const Sizes &sizes, const Settings &settings, std::vector<std::int64_t> samples)
    : m_settings(settings),
      m_layout(sizes, settings),
      m_samples(std::move(samples)),
      m_messages(m_samples.size(), std::vector<float>(static_cast<std::size_t>(m_layout.elements))),
      m_answer(static_cast<std::size_t>(m_layout.parameters()))
{
}

void ParameterServer::goOnFrom(std::vector<float> answer)
{
    assert(answer.size() == m_answer.size());
    m_answer = std::move(answer);
    m_solved = true;
}

void ParameterServer::take(int worker, std::span<const float> message)
{
    std::copy(message.begin(), message.end(), m_messages[static_cast<std::size_t>(worker)].begin());
    if (!m_solved && m_layout.bringsParameters) // all workers have the same
        std::copy_n(message.end() - static_cast<std::ptrdiff_t>(m_answer.size()), m_answer.size(), m_answer.begin());
}

Status ParameterServer::solve()
{
    std::vector<double> total(static_cast<std::size_t>(m_layout.figures()), 0);
    for (const std::vector<float> &message : m_messages) // in the order of workers: equal arrivals give equal bits
        for (std::size_t i = 0; i < total.size(); ++i)
            total[i] += static_cast<double>(message[i]);
    const std::int64_t in = m_layout.sizes.inputs + m_layout.sizes.hidden + 1;
    const std::int64_t out = m_layout.sizes.hidden + 1;
    const double *at = total.data();
    const Sums sumsIn{triangleAt(at, in), rowsAt(at + m_layout.gramIn, m_layout.sizes.hidden, in)};
    at += m_layout.gramIn + m_layout.productIn;
    const Sums sumsOut{triangleAt(at, out), rowsAt(at + m_layout.gramOut, m_layout.sizes.classes, out)};
    const PackedPair old = packedOf(m_layout.sizes, m_answer.data());
    const auto newIn = admm::solve(sumsIn, m_settings, old.in);
    if (!newIn)
        return newIn.error();
    const auto newOut = admm::solve(sumsOut, m_settings, old.out);
    if (!newOut)
        return newOut.error();
    m_change = m_solved ? std::sqrt((*newIn - old.in).squaredNorm() + (*newOut - old.out).squaredNorm()) : 0;
    m_solved = true;
    const auto [n, h, c, steps] = m_layout.sizes;
    float *to = writeColumns(*newIn, 0, n, m_answer.data());
    to = writeColumns(*newIn, n, h, to);
    to = writeColumns(*newIn, n + h, 1, to);
    to = writeColumns(*newOut, 0, h, to);
    writeColumns(*newOut, h, 1, to);
    return {};
}

ParameterServer::Figures ParameterServer::figures() const
{
    Figures all;
    double loss = 0;
    double residual = 0;
    double weights = 0;
    double lagrangian = 0;
    const auto samples = static_cast<double>(std::accumulate(m_samples.begin(), m_samples.end(), std::int64_t{0}));
    for (std::size_t k = 0; k < m_messages.size(); ++k) {
        const float *const own = m_messages[k].data() + m_layout.figures();
        const auto count = static_cast<double>(m_samples[k]);
        loss += static_cast<double>(own[0]) * count;
        residual += static_cast<double>(own[1]);
        weights += static_cast<double>(own[2]) * count / samples;
        lagrangian += static_cast<double>(own[3]);
    }
    all.loss = loss / samples;
    all.objective = loss + m_settings.ridge / 2 * weights;
    all.lagrangian = lagrangian + m_settings.ridge / 2 * weights;
    all.primalResidual = std::sqrt(residual);
    all.dualResidual = m_change;
    return all;
}

} // namespace planloom::admm
