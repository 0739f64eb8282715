// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"

// Shared by LSTM, GRU and RNN. Inside, everything is time-major: row t * batch + n. The input projections of all steps
// are one matrix product, the recurrent ones a product per step; backward, weight gradients are one product over all
// steps.
namespace planloom::device {

/// A gate's function. Its derivative is computed from its result.
struct GateFunction {
    enum class Kind : std::uint8_t {
        Sigmoid,
        Tanh,
        Relu,
        Affine,
        LeakyRelu,
        ThresholdedRelu,
        ScaledTanh,
        HardSigmoid,
        Elu,
        Softsign,
        Softplus
    };
    Kind kind = Kind::Tanh;
    float alpha = 0, beta = 0;

    void apply(float *x, std::int64_t n) const;
    /// dx[i] *= f'(where f gave y[i]).
    void scaleByDerivative(const float *y, float *dx, std::int64_t n) const;
};

/// Sizes and attributes of a recurrent layer.
struct Recurrence {
    std::int64_t steps = 0, batch = 0, features = 0, hidden = 0, directions = 1, gates = 1;
    bool batchFirst = false;             ///< attribute `layout`
    bool backwards = false;              ///< the only direction is the reverse one
    float clip = 0;                      ///< 0: none
    std::vector<GateFunction> functions; ///< for each direction, as many as the layer has

    [[nodiscard]] std::int64_t width() const { return gates * hidden; }
    [[nodiscard]] std::int64_t rows() const { return steps * batch; }
    [[nodiscard]] std::int64_t state() const { return batch * hidden; }
    [[nodiscard]] bool reversed(std::int64_t direction) const { return backwards || direction == 1; }
    /// The time that is processed at @p step.
    [[nodiscard]] std::int64_t time(std::int64_t step, std::int64_t direction) const
    {
        return reversed(direction) ? steps - 1 - step : step;
    }
    /// Where Y has the first element of (time, direction, sample).
    [[nodiscard]] std::int64_t outputRow(std::int64_t time, std::int64_t direction, std::int64_t sample) const
    {
        return (batchFirst ? (sample * steps + time) * directions + direction
                           : (time * directions + direction) * batch + sample)
            * hidden;
    }
    /// Where initial and final states have (direction, sample).
    [[nodiscard]] std::int64_t stateRow(std::int64_t direction, std::int64_t sample) const
    {
        return (batchFirst ? sample * directions + direction : direction * batch + sample) * hidden;
    }
};

/// Reads a layer with @p gates gates and the functions @p defaults from arguments X, W, R at inputs @p first ... first
/// + 2 (and, if there, B, sequence lengths and the states behind them). Errors: BadInput, Unsupported.
Result<Recurrence> recurrenceOf(const Request &request, std::size_t first, std::int64_t gates,
                                const std::vector<std::string> &defaults, std::size_t states);

/// A list of hidden states h(-1) ... h(steps - 1) in the order of time, so that those before each step lie together.
class StateLine {
public:
    explicit StateLine(const Recurrence &how)
        : m_how(how),
          m_values(static_cast<std::size_t>((how.steps + 1) * how.state()))
    {
    }
    float *before(std::int64_t time, std::int64_t direction) { return at(m_how.reversed(direction) ? time + 1 : time); }
    float *after(std::int64_t time, std::int64_t direction) { return at(m_how.reversed(direction) ? time : time + 1); }
    /// The states before time 0, 1, ...: (rows, hidden).
    float *allBefore(std::int64_t direction) { return at(m_how.reversed(direction) ? 1 : 0); }

private:
    float *at(std::int64_t slot) { return m_values.data() + slot * m_how.state(); }
    Recurrence m_how;
    std::vector<float> m_values;
};

/// How many steps each sample has: `sequence_lens`, or all.
class Lengths {
public:
    Lengths(const Recurrence &how, const Request &request, std::size_t input);
    void read(Inputs in);
    [[nodiscard]] bool covers(std::int64_t time, std::int64_t sample) const
    {
        return !m_given || time < m_steps[static_cast<std::size_t>(sample)];
    }

private:
    std::size_t m_input;
    bool m_given, m_wide;
    std::vector<std::int64_t> m_steps;
};

/// X in time-major order: itself, or a copy.
class TimeMajor {
public:
    explicit TimeMajor(const Recurrence &how)
        : m_how(how),
          m_copy(how.batchFirst ? static_cast<std::size_t>(how.rows() * how.features) : 0U)
    {
    }
    const float *read(const float *x);
    /// Where a time-major result may be collected, and then put into the tensor @p y.
    float *collect(float *y) { return m_how.batchFirst ? m_copy.data() : y; }
    void write(float *y);

private:
    Recurrence m_how;
    std::vector<float> m_copy;
};

/// The state (direction, all samples) from a tensor that may be left out, as contiguous rows.
void readState(const Recurrence &how, std::int64_t direction, const float *state, float *rows);
void writeState(const Recurrence &how, std::int64_t direction, const float *rows, float *state);
/// The states before each step, from the outputs of all: behind a sample's end lies the initial state.
void readStates(const Recurrence &how, std::int64_t direction, const Lengths &lengths, const float *y,
                const float *initial, StateLine &line);
/// sums[j] = the sum of x[., j] over @p rows rows.
void columnSums(const float *x, std::int64_t rows, std::int64_t columns, float *sums);
void clampAll(float limit, float *x, std::int64_t n);

} // namespace planloom::device
