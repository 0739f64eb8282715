// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/match.h"

#include <array>
#include <cmath>
#include <numbers>

namespace planloom::import {
namespace {

using graph::Op;

constexpr std::size_t kDegrees = 4;
constexpr int kMostActivationSteps = 8; ///< more than any way of writing GELU takes, on each side of its Erf or Tanh

/// A polynomial in x and in E, the result of Erf or Tanh: the coefficient of x^i E^j is at [i][j]. All orders of
/// writing a formula give the same one.
struct Polynomial {
    std::array<std::array<double, 2>, kDegrees> at{};

    [[nodiscard]] bool near(const Polynomial &other) const
    {
        for (std::size_t i = 0; i < kDegrees; ++i)
            for (std::size_t j = 0; j < 2; ++j)
                if (!nearly(at[i][j], other.at[i][j]))
                    return false;
        return true;
    }
};

Polynomial term(double factor, std::size_t x, std::size_t e)
{
    Polynomial made;
    made.at[x][e] = factor;
    return made;
}

Polynomial sum(const Polynomial &a, const Polynomial &b)
{
    Polynomial made;
    for (std::size_t i = 0; i < kDegrees; ++i)
        for (std::size_t j = 0; j < 2; ++j)
            made.at[i][j] = a.at[i][j] + b.at[i][j];
    return made;
}

std::optional<Polynomial> product(const Polynomial &a, const Polynomial &b)
{
    Polynomial made;
    for (std::size_t i = 0; i < 2 * kDegrees; ++i) {
        const std::size_t x = i / 2, e = i % 2;
        for (std::size_t k = 0; k < 2 * kDegrees; ++k) {
            const double value = a.at[x][e] * b.at[k / 2][k % 2];
            if (value == 0)
                continue;
            if (x + k / 2 >= kDegrees || e + k % 2 > 1)
                return {};
            made.at[x + k / 2][e + k % 2] += value;
        }
    }
    return made;
}

/// Reads the operators that make a tensor as a polynomial and keeps which they were.
class PolynomialReader {
public:
    PolynomialReader(const PatternGraph &in, TensorId x, TensorId e) : m_in(in), m_x(x), m_e(e) {}

    std::optional<Polynomial> read(TensorId id, int steps = kMostActivationSteps)
    {
        if (id == m_x)
            return term(1, 1, 0);
        if (id == m_e)
            return term(1, 0, 1);
        if (const auto number = m_in.number(id))
            return term(*number, 0, 0);
        const Op *op = m_in.source(id);
        if (!op || steps == 0 || op->inputs.size() != 2)
            return {};
        m_ops.insert(op->id);
        const auto a = read(op->inputs[0], steps - 1);
        if (!a)
            return {};
        if (const auto number = m_in.number(op->inputs[1]); number && op->type == "Div" && *number != 0)
            return product(*a, term(1 / *number, 0, 0));
        if (const auto number = m_in.number(op->inputs[1]); number && op->type == "Pow")
            return power(*a, *number);
        const auto b = op->type == "Add" || op->type == "Mul" ? read(op->inputs[1], steps - 1) : std::nullopt;
        if (!b)
            return {};
        return op->type == "Add" ? sum(*a, *b) : product(*a, *b);
    }

    [[nodiscard]] const std::set<OpId> &ops() const { return m_ops; }

private:
    static std::optional<Polynomial> power(const Polynomial &base, double exponent)
    {
        if (exponent != 2 && exponent != 3)
            return {};
        const auto square = product(base, base);
        return exponent == 2 || !square ? square : product(*square, base);
    }

    const PatternGraph &m_in;
    TensorId m_x, m_e;
    std::set<OpId> m_ops;
};

/// The variable of the polynomial in Erf or Tanh.
void collectRoots(const PatternGraph &in, TensorId id, int steps, std::set<TensorId> &roots)
{
    if (!id.valid() || in.number(id) || !roots.insert(id).second || steps == 0)
        return;
    const Op *op = in.source(id);
    if (op && (op->type == "Add" || op->type == "Mul" || op->type == "Div" || op->type == "Pow"))
        for (const TensorId input : op->inputs)
            collectRoots(in, input, steps - 1, roots);
}

/// Follows the products behind @p op until they are x (1 + E) / 2.
std::optional<Pattern> matchBehind(const PatternGraph &in, const Op &op, TensorId x)
{
    const Polynomial wanted = sum(term(0.5, 1, 0), term(0.5, 1, 1));
    TensorId at = op.outputs[0];
    for (int step = 0; step < kMostActivationSteps; ++step) {
        const auto readers = in.graph().consumers(at);
        if (readers.size() != 1)
            return {};
        at = in.graph().op(readers[0]).outputs[0];
        PolynomialReader reader(in, x, op.outputs[0]);
        const auto made = reader.read(at);
        if (made && made->near(wanted))
            return Pattern{{{"Gelu", {x}, {}}}, at, reader.ops(), {}};
    }
    return {};
}

} // namespace

std::optional<Pattern> matchGelu(const PatternGraph &in, const Op &op)
{
    const bool tanh = op.type == "Tanh";
    const double slope = tanh ? std::sqrt(2 / std::numbers::pi) : 1 / std::numbers::sqrt2;
    const Polynomial wanted = sum(term(slope, 1, 0), term(tanh ? 0.044715 * slope : 0, 3, 0));
    std::set<TensorId> roots;
    collectRoots(in, op.inputs[0], kMostActivationSteps, roots);
    for (const TensorId x : roots) {
        PolynomialReader reader(in, x, TensorId());
        const auto argument = reader.read(op.inputs[0]);
        if (!argument || !argument->near(wanted))
            continue;
        auto pattern = matchBehind(in, op, x);
        if (!pattern)
            continue;
        pattern->ops.insert(reader.ops().begin(), reader.ops().end());
        pattern->ops.insert(op.id);
        pattern->steps[0].attributes["approximate"] = std::string(tanh ? "tanh" : "none");
        if (in.graph().tensor(pattern->output).shape == in.graph().tensor(x).shape && in.closed(*pattern))
            return pattern;
    }
    return {};
}

std::optional<Pattern> matchSilu(const PatternGraph &in, const Op &op)
{
    const auto readers = in.graph().consumers(op.outputs[0]);
    if (readers.size() != 1)
        return {};
    const Op &mul = in.graph().op(readers[0]);
    const TensorId x = op.inputs[0];
    const TensorId y = op.outputs[0];
    const bool product =
        mul.type == "Mul" && ((mul.inputs[0] == x && mul.inputs[1] == y) || (mul.inputs[0] == y && mul.inputs[1] == x));
    Pattern pattern{{{"Silu", {x}, {}}}, mul.outputs[0], {op.id, mul.id}, {}};
    return product && in.closed(pattern) ? std::optional(pattern) : std::nullopt;
}

} // namespace planloom::import
