// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/block_graphs.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

namespace planloom::admm {

/// Expressions of an iteration's variables as operators of one graph: what updates are made of. Each reads the newest
/// value of its variables, and equal ones that updates share are made once. The settings must outlive it.
class BlockExpressions {
public:
    /// @p restarted: the graph begins behind a forward pass, so that at its beginning every h is the tanh of its a:
    /// state() of a step is h there, as long as neither has been set. With other values it would be a wrong tanh.
    BlockExpressions(const Sizes &sizes, const Method &method, bool restarted)
        : m_sizes(sizes),
          m_method(method),
          m_builder("admm"),
          m_restarted(restarted)
    {
    }

    /// The newest value of a variable: an input where none has been set.
    TensorId value(const std::string &name);
    TensorId value(const char *letter, std::int64_t step) { return value(fmt::format("{}{}", letter, step)); }
    void set(const std::string &name, TensorId tensor)
    {
        m_values[name] = tensor;
        m_changed[name] = tensor;
    }
    void set(const char *letter, std::int64_t step, TensorId tensor) { set(fmt::format("{}{}", letter, step), tensor); }
    /// The shape of an input that is no variable of the algorithm.
    void declare(const std::string &name, graph::Shape shape) { m_shapes[name] = std::move(shape); }
    [[nodiscard]] graph::Shape shapeOf(const std::string &name) const;
    /// The graph; its outputs are the variables that have been set.
    Result<graph::Graph> finish();

    /// Steps of the range at hand: all, where there are no ranges.
    [[nodiscard]] std::int64_t steps() const { return m_sizes.steps / m_method.settings.timeRanges; }
    [[nodiscard]] bool ranges() const { return m_method.settings.timeRanges > 1; }
    [[nodiscard]] bool exact() const { return m_method.settings.subproblems == Subproblems::Exact; }
    [[nodiscard]] double penalty(std::int64_t step) const
    {
        return m_method.penalty[static_cast<std::size_t>(m_sizes.steps - steps() + step - 1)];
    }

    TensorId add(TensorId a, TensorId b) { return m_builder.add("Add", {a, b}); }
    TensorId subtract(TensorId a, TensorId b) { return m_builder.add("Sub", {a, b}); }
    TensorId scaled(TensorId tensor, double factor);
    /// Times the factor and a power of the ratio of the range's penalties to those of the last one.
    TensorId scaled(TensorId tensor, double factor, int power);
    TensorId times(TensorId tensor, const std::vector<double> &factors);
    TensorId ifLast(TensorId tensor) { return ranges() ? times(tensor, ofLastRange(m_method, 1, 0)) : tensor; }
    TensorId filled(std::int64_t columns, double with);
    TensorId columns(TensorId matrix, std::int64_t first, std::int64_t last);
    /// The sum of the squares of a matrix, [1].
    TensorId squares(TensorId matrix);
    TensorId asSteps(const std::vector<TensorId> &steps);
    TensorId summedOuter(TensorId rows, TensorId targets, std::size_t steps);

    /// x u' + b: what a step's input gives without the hidden state before.
    TensorId driven(std::int64_t step);
    /// The same with it.
    TensorId arrived(std::int64_t step);
    /// The tanh of a step's input, made once for all that read it.
    TensorId state(std::int64_t step);
    /// The hidden state before the first step: of the range before, or none.
    TensorId before();
    /// What the output's residual has to be made of.
    TensorId outputMade();
    TensorId solved(TensorId system, TensorId pulled, std::int64_t step);
    TensorId rightOfLast();
    TensorId systemOfLast();
    TensorId rowsOf(const std::string &block, std::int64_t step);
    TensorId weightedMisfit(std::int64_t step);

protected:
    static const graph::Attributes kTransposed;
    const Sizes &m_sizes;
    const Method &m_method;
    graph::GraphBuilder m_builder;

private:
    bool m_restarted;
    std::map<std::string, TensorId> m_values, m_changed;
    std::map<TensorId, TensorId> m_states; ///< by the input that each is the tanh of
    std::int64_t m_drivenStep = 0;         ///< of m_driven
    TensorId m_driven;                     ///< the last one made: neighbours in a sweep read the same
    std::map<double, TensorId> m_scalars;
    std::map<std::vector<double>, TensorId> m_byRange;
    std::map<std::string, graph::Shape> m_shapes; ///< declared
};

} // namespace planloom::admm
