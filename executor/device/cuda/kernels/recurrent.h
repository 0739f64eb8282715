// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/elementwise.h"

// Cells of LSTM, GRU and RNN, an element of the hidden state by a thread. Inside, everything is time-major: row
// time * batch + sample. Gates lie as ONNX has them.
namespace planloom::cuda {

/// A gate's function. Its slope is computed from its result.
struct GateFunction {
    enum class Kind : std::int32_t {
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

    [[nodiscard]] PLANLOOM_KERNEL_CODE float at(float x) const
    {
        switch (kind) {
        case Kind::Sigmoid: return function::logistic(x);
        case Kind::Relu: return x < 0.0F ? 0.0F : x;
        case Kind::Affine: return alpha * x + beta;
        case Kind::LeakyRelu: return x < 0.0F ? alpha * x : x;
        case Kind::ThresholdedRelu: return x > alpha ? x : 0.0F;
        case Kind::ScaledTanh: return alpha * tanhf(beta * x);
        case Kind::HardSigmoid: return function::clamped(alpha * x + beta, 0.0F, 1.0F);
        case Kind::Elu: return x < 0.0F ? alpha * (expf(x) - 1.0F) : x;
        case Kind::Softsign: return x / (1.0F + fabsf(x));
        case Kind::Softplus: return function::Softplus::at(x, 0, 0);
        default: return tanhf(x);
        }
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float slope(float y) const
    {
        switch (kind) {
        case Kind::Sigmoid: return y * (1.0F - y);
        case Kind::Relu: return y > 0.0F ? 1.0F : 0.0F;
        case Kind::Affine: return alpha;
        case Kind::LeakyRelu: return y < 0.0F ? alpha : 1.0F;
        case Kind::ThresholdedRelu: return y != 0.0F ? 1.0F : 0.0F;
        case Kind::ScaledTanh: return beta * (alpha - y * y / alpha);
        case Kind::HardSigmoid: return y > 0.0F && y < 1.0F ? alpha : 0.0F;
        case Kind::Elu: return y < 0.0F ? y + alpha : 1.0F;
        case Kind::Softsign: return (1.0F - fabsf(y)) * (1.0F - fabsf(y));
        case Kind::Softplus: return 1.0F - expf(-y);
        default: return 1.0F - y * y;
        }
    }
};

/// A layer's sizes, and where its tensors have a state.
struct Recurrence {
    std::int64_t steps = 0, batch = 0, hidden = 0, directions = 1;
    int batchFirst = 0;
    const void *lengths = nullptr; ///< steps of each sample; nullptr: all
    int wideLengths = 1;
    float clip = 0; ///< of gates; 0: none

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t state() const { return batch * hidden; }
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool covers(std::int64_t time, std::int64_t sample) const
    {
        if (lengths == nullptr)
            return true;
        return time < (wideLengths != 0 ? static_cast<const std::int64_t *>(lengths)[sample]
                                        : std::int64_t{static_cast<const std::int32_t *>(lengths)[sample]});
    }
    /// In Y (time, direction, sample, hidden), or batch first (sample, time, direction, hidden).
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t outputAt(std::int64_t time, std::int64_t direction,
                                                             std::int64_t sample) const
    {
        return (batchFirst != 0 ? (sample * steps + time) * directions + direction
                                : (time * directions + direction) * batch + sample)
            * hidden;
    }
    /// In initial and final states.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t stateAt(std::int64_t direction, std::int64_t sample) const
    {
        return (batchFirst != 0 ? sample * directions + direction : direction * batch + sample) * hidden;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float clipped(float x) const
    {
        return clip > 0 ? function::clamped(x, -clip, clip) : x;
    }
};

/// Between a state tensor and the rows of one direction.
struct MoveState {
    Recurrence how;
    std::int64_t direction = 0;
    const float *from = nullptr; ///< nullptr: zeros
    float *to = nullptr;
    int writes = 0; ///< 0: from the tensor to rows
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(how.state(), [&](std::int64_t i) {
            const std::int64_t at = how.stateAt(direction, i / how.hidden) + i % how.hidden;
            if (writes != 0)
                to[at] = from[i];
            else
                to[i] = from != nullptr ? from[at] : 0.0F;
        });
    }
};

/// The states after all steps, of Y; behind a sample's end the initial one.
struct ReadStates {
    Recurrence how;
    std::int64_t direction = 0;
    const float *y = nullptr;
    const float *initial = nullptr; ///< (batch, hidden)
    float *states = nullptr;        ///< (steps, batch, hidden)
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(how.steps * how.state(), [&](std::int64_t i) {
            const std::int64_t time = i / how.state();
            const std::int64_t sample = i / how.hidden % how.batch;
            states[i] = how.covers(time, sample) ? y[how.outputAt(time, direction, sample) + i % how.hidden]
                                                 : initial[i % how.state()];
        });
    }
};

/// One step forward, of any of the three. Rows of `gates` are (sample, gates); what their projections of X left there
/// is replaced by the gates' results.
struct CellForward {
    enum class Part : std::int32_t {
        Lstm,
        Rnn,
        GruGates, ///< update and reset, and what the reset gate scales
        GruState, ///< the proposal and the new state
    };
    Part part = Part::Lstm;
    Recurrence how;
    std::int64_t time = 0, direction = 0;
    GateFunction functions[3];
    int coupled = 0;                  ///< LSTM: forget = 1 - input
    int resetAfter = 0;               ///< GRU
    const float *recurrent = nullptr; ///< (batch, recurrentWidth)
    std::int64_t recurrentWidth = 0;
    const float *bias = nullptr;     ///< of the direction; may be nullptr
    const float *peephole = nullptr; ///< the same
    const float *before = nullptr;   ///< hidden states (batch, hidden)
    float *after = nullptr;
    const float *cellBefore = nullptr; ///< LSTM
    float *cells = nullptr;            ///< LSTM; GRU: what the reset gate scales
    float *gates = nullptr;
    float *y = nullptr;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(how.state(), [&](std::int64_t i) {
            const std::int64_t sample = i / how.hidden;
            switch (part) {
            case Part::Lstm: lstm(i, sample, i % how.hidden); break;
            case Part::Rnn: rnn(i, sample, i % how.hidden); break;
            case Part::GruGates: gruGates(i, sample, i % how.hidden); break;
            default: gruState(i, sample, i % how.hidden); break;
            }
        });
    }

private:
    /// What came in for gate @p gate of @p count, of element @p h.
    PLANLOOM_KERNEL_CODE float joined(const float *row, std::int64_t sample, std::int64_t gate, std::int64_t count,
                                      std::int64_t h, std::int64_t firstRecurrent = 0) const
    {
        const std::int64_t n = how.hidden;
        float sum = row[gate * n + h] + recurrent[sample * recurrentWidth + (gate - firstRecurrent) * n + h];
        if (bias != nullptr)
            sum += bias[gate * n + h] + bias[(count + gate) * n + h];
        return sum;
    }
    PLANLOOM_KERNEL_CODE void publish(std::int64_t i, std::int64_t sample, std::int64_t h, float state) const
    {
        const bool covered = how.covers(time, sample);
        after[i] = covered ? state : before[i];
        y[how.outputAt(time, direction, sample) + h] = covered ? state : 0.0F;
    }
    PLANLOOM_KERNEL_CODE void lstm(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        float *row = gates + sample * 4 * n;
        const float cell = cellBefore[i];
        if (!how.covers(time, sample)) { // the states stay as they are
            for (int gate = 0; gate < 4; ++gate)
                row[gate * n + h] = 0;
            cells[i] = cell;
            publish(i, sample, h, 0);
            return;
        }
        const auto through = [&](std::int64_t gate, int hole, float state) {
            const float sum = joined(row, sample, gate, 4, h);
            return peephole != nullptr ? sum + peephole[hole * n + h] * state : sum;
        };
        const float in = functions[0].at(how.clipped(through(0, 0, cell)));
        const float forget = coupled != 0 ? 1.0F - in : functions[0].at(how.clipped(through(2, 2, cell)));
        const float proposal = functions[1].at(how.clipped(joined(row, sample, 3, 4, h)));
        const float next = forget * cell + in * proposal;
        const float out = functions[0].at(how.clipped(through(1, 1, next)));
        row[h] = in;
        row[n + h] = out;
        row[2 * n + h] = forget;
        row[3 * n + h] = proposal;
        cells[i] = next;
        publish(i, sample, h, out * functions[2].at(next));
    }
    PLANLOOM_KERNEL_CODE void rnn(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        float *row = gates + sample * how.hidden;
        row[h] = functions[0].at(how.clipped(joined(row, sample, 0, 1, h)));
        publish(i, sample, h, row[h]);
    }
    PLANLOOM_KERNEL_CODE void gruGates(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        float *row = gates + sample * 3 * n;
        row[h] = functions[0].at(how.clipped(joined(row, sample, 0, 3, h)));
        row[n + h] = functions[0].at(how.clipped(joined(row, sample, 1, 3, h)));
        cells[i] = resetAfter != 0
            ? recurrent[sample * recurrentWidth + 2 * n + h] + (bias != nullptr ? bias[5 * n + h] : 0.0F)
            : row[n + h] * before[i];
    }
    PLANLOOM_KERNEL_CODE void gruState(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        float *row = gates + sample * 3 * n;
        const float sum = resetAfter != 0
            ? row[2 * n + h] + row[n + h] * cells[i] + (bias != nullptr ? bias[2 * n + h] : 0.0F)
            : joined(row, sample, 2, 3, h, 2);
        row[2 * n + h] = functions[1].at(how.clipped(sum));
        publish(i, sample, h, (1.0F - row[h]) * row[2 * n + h] + row[h] * before[i]);
    }
};

/// One step back: gradients before the gates' functions, of the gates' results and of the state after the step. What
/// goes to the state before by way of the recurrent weights is added by a product.
struct CellBackward {
    enum class Part : std::int32_t {
        Lstm,
        Rnn,
        GruState, ///< of update and hidden gates; with resetAfter of all three
        GruReset, ///< of the reset gate, from the gradient of the scaled state
    };
    Part part = Part::Lstm;
    Recurrence how;
    std::int64_t time = 0, direction = 0;
    GateFunction functions[3];
    int resetAfter = 0;
    const float *dy = nullptr;       ///< of Y; may be nullptr
    const float *peephole = nullptr; ///< may be nullptr
    const float *gates = nullptr;
    const float *before = nullptr; ///< hidden states before the step, (batch, hidden); LSTM: cell states
    const float *cells = nullptr;  ///< LSTM: after the step; GRU: what the reset gate scales
    float *dHidden = nullptr;      ///< (batch, hidden): of the state after the step, then of the one before
    float *dCell = nullptr;        ///< LSTM: the same of the cell state; GRU: of the scaled state
    float *dGates = nullptr;       ///< (batch, gates); GRU: update and reset
    float *dProposal = nullptr;    ///< GRU: of the hidden gate, (batch, hidden)
    float *dRecurrent = nullptr;   ///< GRU with resetAfter: of the recurrent product of that gate

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(how.state(), [&](std::int64_t i) {
            const std::int64_t sample = i / how.hidden;
            const std::int64_t h = i % how.hidden;
            if (!how.covers(time, sample)) { // gradients of the states pass
                clear(i, sample, h);
                return;
            }
            if (dy != nullptr && part != Part::GruReset)
                dHidden[i] += dy[how.outputAt(time, direction, sample) + h];
            switch (part) {
            case Part::Lstm: lstm(i, sample, h); break;
            case Part::Rnn:
                dGates[i] = dHidden[i] * functions[0].slope(gates[i]);
                dHidden[i] = 0;
                break;
            case Part::GruState: gruState(i, sample, h); break;
            default: gruReset(i, sample, h); break;
            }
        });
    }

private:
    PLANLOOM_KERNEL_CODE void clear(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const int count = part == Part::Lstm ? 4 : (part == Part::Rnn ? 1 : 2);
        for (int gate = 0; gate < count; ++gate)
            dGates[sample * count * how.hidden + gate * how.hidden + h] = 0;
        if (dProposal != nullptr)
            dProposal[i] = 0;
        if (dRecurrent != nullptr)
            dRecurrent[i] = 0;
    }
    PLANLOOM_KERNEL_CODE void lstm(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        const float *row = gates + sample * 4 * n;
        float *to = dGates + sample * 4 * n;
        const float active = functions[2].at(cells[i]);
        const float out = dHidden[i] * active * functions[0].slope(row[n + h]);
        float through = dHidden[i] * row[n + h] * functions[2].slope(active) + dCell[i];
        if (peephole != nullptr)
            through += peephole[n + h] * out;
        const float in = through * row[3 * n + h] * functions[0].slope(row[h]);
        const float forget = through * before[i] * functions[0].slope(row[2 * n + h]);
        to[h] = in;
        to[n + h] = out;
        to[2 * n + h] = forget;
        to[3 * n + h] = through * row[h] * functions[1].slope(row[3 * n + h]);
        float rest = through * row[2 * n + h];
        if (peephole != nullptr)
            rest += peephole[h] * in + peephole[2 * n + h] * forget;
        dCell[i] = rest;
        dHidden[i] = 0;
    }
    PLANLOOM_KERNEL_CODE void gruState(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        const float *row = gates + sample * 3 * n;
        float *to = dGates + sample * 2 * n;
        const float d = dHidden[i];
        const float proposal = d * (1.0F - row[h]) * functions[1].slope(row[2 * n + h]);
        to[h] = d * (before[i] - row[2 * n + h]) * functions[0].slope(row[h]);
        dProposal[i] = proposal;
        dHidden[i] = d * row[h];
        if (resetAfter == 0)
            return;
        to[n + h] = proposal * cells[i] * functions[0].slope(row[n + h]);
        dRecurrent[i] = proposal * row[n + h];
    }
    PLANLOOM_KERNEL_CODE void gruReset(std::int64_t i, std::int64_t sample, std::int64_t h) const
    {
        const std::int64_t n = how.hidden;
        const float reset = gates[sample * 3 * n + n + h];
        dGates[sample * 2 * n + n + h] = dCell[i] * before[i] * functions[0].slope(reset);
        dHidden[i] += dCell[i] * reset;
    }
};

/// Gradients of peephole weights: sums over all steps and samples, each by a block.
struct PeepholeGradient {
    Recurrence how;
    const float *dGates = nullptr; ///< (steps, batch, 4 hidden)
    const float *cells = nullptr;  ///< (steps + 1, batch, hidden) in the order of time: before each step, and after
    int reversed = 0;
    float *result = nullptr; ///< 3 hidden: input, output, forget
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t w = block.index; w < 3 * how.hidden; w += block.count) {
            const std::int64_t hole = w / how.hidden;
            const std::int64_t h = w % how.hidden;
            const bool after = (hole == 1) != (reversed != 0); // slot time + 1 has the later state in time
            const float sum = block.sum<float>(how.steps * how.batch, [&](std::int64_t row) {
                return dGates[(row * 4 + hole) * how.hidden + h]
                    * cells[(row + (after ? how.batch : 0)) * how.hidden + h];
            });
            block.items(1, [&](std::int64_t) { result[w] = sum; });
        }
    }
};

} // namespace planloom::cuda
