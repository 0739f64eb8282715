// SPDX-License-Identifier: Apache-2.0
// LSTM and its gradient. Gates lie as ONNX has them: input, output, forget, cell.
#include "executor/device/cpu/onednn.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/recurrent.h"
#include "executor/device/cpu/simd.h"
#include "executor/device/meanwhile.h"

#include <algorithm>

namespace planloom::device {

namespace {

/// One sample's gates at one step, and the cell's results. H numbers each; `bias` and `peephole` may be
/// nullptr.
struct Cell {
    std::int64_t hidden;
    const GateFunction *functions; ///< of gates, cell input and hidden state
    float clip;
    bool coupled;          ///< attribute input_forget: forget = 1 - input
    const float *bias;     ///< 2 x 4H
    const float *peephole; ///< 3H: input, output, forget

    void forward(const float *recurrent, const float *before, float *gates, float *state, float *y) const;
    void backward(const float *gates, const float *before, const float *state, const float *dh, float *dstate,
                  float *dgates, float *work) const;
};

PLANLOOM_CLONES void join(const float *recurrent, const float *bias, std::int64_t n, float *gates)
{
    if (!bias) {
        for (std::int64_t i = 0; i < n; ++i)
            gates[i] += recurrent[i];
        return;
    }
    for (std::int64_t i = 0; i < n; ++i)
        gates[i] += recurrent[i] + bias[i] + bias[n + i];
}

PLANLOOM_CLONES void addProduct(const float *a, const float *b, std::int64_t n, float *y)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] += a[i] * b[i];
}

PLANLOOM_CLONES void nextState(const float *gates, const float *before, std::int64_t n, float *state)
{
    for (std::int64_t i = 0; i < n; ++i)
        state[i] = gates[2 * n + i] * before[i] + gates[i] * gates[3 * n + i];
}

PLANLOOM_CLONES void multiply(const float *a, std::int64_t n, float *y)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] *= a[i];
}

void Cell::forward(const float *recurrent, const float *before, float *gates, float *state, float *y) const
{
    const std::int64_t n = hidden;
    join(recurrent, bias, 4 * n, gates);
    if (peephole) {
        addProduct(peephole, before, n, gates);
        addProduct(peephole + 2 * n, before, n, gates + 2 * n);
    }
    clampAll(clip, gates, n);
    clampAll(clip, gates + 2 * n, 2 * n);
    functions[0].apply(gates, n);
    functions[0].apply(gates + 2 * n, n);
    functions[1].apply(gates + 3 * n, n);
    for (std::int64_t i = 0; coupled && i < n; ++i)
        gates[2 * n + i] = 1.0F - gates[i];
    nextState(gates, before, n, state);
    if (peephole)
        addProduct(peephole + n, state, n, gates + n);
    clampAll(clip, gates + n, n);
    functions[0].apply(gates + n, n);
    std::copy_n(state, n, y);
    functions[2].apply(y, n);
    multiply(gates + n, n, y);
}

/// Gradients with respect to the four gates' results, and to the state before; `active` is f(state).
PLANLOOM_CLONES void split(const float *gates, const float *before, const float *dstate, std::int64_t n, float *dgates,
                           float *dbefore)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float d = dstate[i];
        dgates[i] = d * gates[3 * n + i];
        dgates[2 * n + i] = d * before[i];
        dgates[3 * n + i] = d * gates[i];
        dbefore[i] = d * gates[2 * n + i];
    }
}

void Cell::backward(const float *gates, const float *before, const float *state, const float *dh, float *dstate,
                    float *dgates, float *work) const
{
    const std::int64_t n = hidden;
    float *active = work;
    float *through = work + n;
    std::copy_n(state, n, active);
    functions[2].apply(active, n);
    for (std::int64_t i = 0; i < n; ++i) {
        dgates[n + i] = dh[i] * active[i];
        through[i] = dh[i] * gates[n + i];
    }
    functions[0].scaleByDerivative(gates + n, dgates + n, n);
    functions[2].scaleByDerivative(active, through, n);
    for (std::int64_t i = 0; i < n; ++i)
        through[i] += dstate[i];
    if (peephole)
        addProduct(peephole + n, dgates + n, n, through);
    split(gates, before, through, n, dgates, dstate);
    functions[0].scaleByDerivative(gates, dgates, n);
    functions[0].scaleByDerivative(gates + 2 * n, dgates + 2 * n, n);
    functions[1].scaleByDerivative(gates + 3 * n, dgates + 3 * n, n);
    if (peephole) {
        addProduct(peephole, dgates, n, dstate);
        addProduct(peephole + 2 * n, dgates + 2 * n, n, dstate);
    }
}

/// Optional inputs behind X, W, R: where they are.
enum Input : std::size_t { kX, kW, kR, kBias, kLengths, kHidden, kState, kPeephole };

const std::vector<std::string> kDefaults{"sigmoid", "tanh", "tanh"};

Cell cellOf(const Recurrence &how, bool coupled, std::int64_t direction, const float *bias, const float *peephole)
{
    return {how.hidden,
            &how.functions[static_cast<std::size_t>(3 * direction)],
            how.clip,
            coupled,
            bias ? bias + direction * 2 * how.width() : nullptr,
            peephole ? peephole + direction * 3 * how.hidden : nullptr};
}

class Forward final : public Kernel {
public:
    Forward(const Recurrence &how, const Request &request)
        : m_how(how),
          m_lengths(how, request, kLengths),
          m_x(how),
          m_line(how),
          m_recurrent(static_cast<std::size_t>(how.batch * how.width())),
          m_state(static_cast<std::size_t>(how.state())),
          m_coupled(request.op.integer("input_forget") != 0)
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_lengths.read(in);
        const float *x = m_x.read(floats(in[kX]));
        for (std::int64_t d = 0; d < m_how.directions; ++d)
            runDirection(in, out, x, d);
    }

private:
    static const float *optional(Inputs in, std::size_t i) { return i < in.size() ? floats(in[i]) : nullptr; }

    void runDirection(Inputs in, Outputs out, const float *x, std::int64_t d)
    {
        const std::int64_t width = m_how.width();
        float *gates = floats(out[3]) + d * m_how.rows() * width;
        float *states = floats(out[4]) + d * m_how.rows() * m_how.hidden;
        onednn::gemm(false, true, m_how.rows(), width, m_how.features, 1, x, m_how.features,
                     floats(in[kW]) + d * width * m_how.features, m_how.features, 0, gates, width);
        const Cell cell = cellOf(m_how, m_coupled, d, optional(in, kBias), optional(in, kPeephole));
        Meanwhile::turn();
        readState(m_how, d, optional(in, kHidden), m_line.before(m_how.time(0, d), d));
        readState(m_how, d, optional(in, kState), m_state.data());
        const float *before = m_state.data();
        for (std::int64_t s = 0; s < m_how.steps; ++s) {
            const std::int64_t t = m_how.time(s, d);
            onednn::gemm(false, true, m_how.batch, width, m_how.hidden, 1, m_line.before(t, d), m_how.hidden,
                         floats(in[kR]) + d * width * m_how.hidden, m_how.hidden, 0, m_recurrent.data(), width);
            step(cell, t, d, before, gates + t * m_how.batch * width, states + t * m_how.state(), floats(out[0]));
            before = states + t * m_how.state();
            Meanwhile::turn();
        }
        const float *hidden = m_how.steps > 0 ? m_line.after(m_how.time(m_how.steps - 1, d), d) : m_line.before(0, 0);
        writeState(m_how, d, hidden, floats(out[1]));
        writeState(m_how, d, before, floats(out[2]));
    }

    void step(const Cell &cell, std::int64_t t, std::int64_t d, const float *before, float *gates, float *states,
              float *y)
    {
        const std::int64_t h = m_how.hidden;
        parallelFor(m_how.batch, rowGrain(4 * m_how.width()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                float *hidden = m_line.after(t, d) + n * h;
                float *result = y + m_how.outputRow(t, d, n);
                if (!m_lengths.covers(t, n)) { // the states stay as they are
                    std::copy_n(m_line.before(t, d) + n * h, h, hidden);
                    std::copy_n(before + n * h, h, states + n * h);
                    std::fill_n(gates + n * 4 * h, 4 * h, 0.0F);
                    std::fill_n(result, h, 0.0F);
                    continue;
                }
                cell.forward(m_recurrent.data() + n * 4 * h, before + n * h, gates + n * 4 * h, states + n * h, hidden);
                std::copy_n(hidden, h, result);
            }
        });
    }

    Recurrence m_how;
    Lengths m_lengths;
    TimeMajor m_x;
    StateLine m_line;
    std::vector<float> m_recurrent; ///< (batch, 4H): this step's recurrent product
    std::vector<float> m_state;     ///< the initial cell state
    bool m_coupled;
};

/// Inputs: dY, dY_h, dY_c, then those of the forward pass, then Y, Gates, States.
class Backward final : public Kernel {
public:
    static constexpr std::size_t kFirst = 3;

    Backward(const Recurrence &how, const Request &request)
        : m_how(how),
          m_lengths(how, request, kFirst + kLengths),
          m_x(how),
          m_dx(how),
          m_line(how),
          m_dgates(static_cast<std::size_t>(how.rows() * how.width())),
          m_dhidden(static_cast<std::size_t>(how.state())),
          m_dstate(static_cast<std::size_t>(how.state())),
          m_initial(static_cast<std::size_t>(how.state())),
          m_work(static_cast<std::size_t>(3 * how.state()))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_lengths.read(in);
        const float *x = m_x.read(floats(in[kFirst + kX]));
        float *dx = m_dx.collect(floats(out[0]));
        for (std::int64_t d = 0; d < m_how.directions; ++d) {
            throughTime(in, d);
            weights(in, out, x, dx, d);
        }
        m_dx.write(floats(out[0]));
    }

private:
    static const float *forward(Inputs in, std::size_t i) { return floats(in[kFirst + i]); }

    /// All steps, last one first: fills m_dgates and leaves the gradients of the initial states.
    void throughTime(Inputs in, std::int64_t d)
    {
        const std::int64_t width = m_how.width();
        const std::size_t saved = in.size() - 3;
        readStates(m_how, d, m_lengths, floats(in[saved]), forward(in, kHidden), m_line);
        readState(m_how, d, forward(in, kState), m_initial.data());
        readState(m_how, d, floats(in[1]), m_dhidden.data());
        readState(m_how, d, floats(in[2]), m_dstate.data());
        const Cell cell = cellOf(m_how, false, d, nullptr, forward(in, kPeephole));
        const float *states = floats(in[saved + 2]) + d * m_how.rows() * m_how.hidden;
        for (std::int64_t s = m_how.steps; s-- > 0;) {
            const std::int64_t t = m_how.time(s, d);
            const float *before = s > 0 ? states + m_how.time(s - 1, d) * m_how.state() : m_initial.data();
            step(cell, t, d, floats(in[0]), floats(in[saved + 1]) + (d * m_how.rows() + t * m_how.batch) * width,
                 before, states + t * m_how.state());
            onednn::gemm(false, false, m_how.batch, m_how.hidden, width, 1, m_dgates.data() + t * m_how.batch * width,
                         width, forward(in, kR) + d * width * m_how.hidden, m_how.hidden, 1, m_dhidden.data(),
                         m_how.hidden);
            Meanwhile::turn();
        }
    }

    void step(const Cell &cell, std::int64_t t, std::int64_t d, const float *dy, const float *gates,
              const float *before, const float *states)
    {
        const std::int64_t h = m_how.hidden;
        parallelFor(m_how.batch, rowGrain(4 * m_how.width()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                float *dgates = m_dgates.data() + (t * m_how.batch + n) * 4 * h;
                if (!m_lengths.covers(t, n)) {
                    std::fill_n(dgates, 4 * h, 0.0F);
                    continue; // gradients of the states pass
                }
                float *dhidden = m_dhidden.data() + n * h;
                if (dy) {
                    const float *own = dy + m_how.outputRow(t, d, n);
                    for (std::int64_t i = 0; i < h; ++i)
                        dhidden[i] += own[i];
                }
                cell.backward(gates + n * 4 * h, before + n * h, states + n * h, dhidden, m_dstate.data() + n * h,
                              dgates, m_work.data() + n * 3 * h);
                std::fill_n(dhidden, h, 0.0F);
            }
        });
    }

    void weights(Inputs in, Outputs out, const float *x, float *dx, std::int64_t d)
    {
        const std::int64_t rows = m_how.rows();
        const std::int64_t width = m_how.width();
        const std::int64_t features = m_how.features;
        const std::int64_t h = m_how.hidden;
        onednn::gemm(false, false, rows, features, width, 1, m_dgates.data(), width,
                     forward(in, kW) + d * width * features, features, d == 0 ? 0.0F : 1.0F, dx, features);
        Meanwhile::turn();
        onednn::gemm(true, false, width, features, rows, 1, m_dgates.data(), width, x, features, 0,
                     floats(out[1]) + d * width * features, features);
        Meanwhile::turn();
        onednn::gemm(true, false, width, h, rows, 1, m_dgates.data(), width, m_line.allBefore(d), h, 0,
                     floats(out[2]) + d * width * h, h);
        std::size_t next = 3;
        if (forward(in, kBias)) {
            float *bias = floats(out[next++]) + d * 2 * width;
            columnSums(m_dgates.data(), rows, width, bias);
            std::copy_n(bias, width, bias + width);
        }
        if (forward(in, kHidden))
            writeState(m_how, d, m_dhidden.data(), floats(out[next++]));
        if (forward(in, kState))
            writeState(m_how, d, m_dstate.data(), floats(out[next++]));
        if (forward(in, kPeephole))
            peepholes(in, d, floats(out[next]) + d * 3 * h);
    }

    void peepholes(Inputs in, std::int64_t d, float *result)
    {
        const std::int64_t h = m_how.hidden;
        const float *states = floats(in[in.size() - 1]) + d * m_how.rows() * h;
        std::fill_n(result, 3 * h, 0.0F);
        for (std::int64_t s = 0; s < m_how.steps; ++s) {
            const std::int64_t t = m_how.time(s, d);
            const float *before = s > 0 ? states + m_how.time(s - 1, d) * m_how.state() : m_initial.data();
            for (std::int64_t n = 0; n < m_how.batch; ++n) {
                const float *dgates = m_dgates.data() + (t * m_how.batch + n) * 4 * h;
                addProduct(dgates, before + n * h, h, result);
                addProduct(dgates + h, states + (t * m_how.batch + n) * h, h, result + h);
                addProduct(dgates + 2 * h, before + n * h, h, result + 2 * h);
            }
        }
    }

    Recurrence m_how;
    Lengths m_lengths;
    TimeMajor m_x, m_dx;
    StateLine m_line;
    std::vector<float> m_dgates;            ///< (rows, 4H)
    std::vector<float> m_dhidden, m_dstate; ///< (batch, H), of the states after the step at hand
    std::vector<float> m_initial;           ///< the initial cell state
    std::vector<float> m_work;
};

/// dX, dW, dR and the gradients of those optional inputs that are given.
Status checkGradients(const Request &request, std::size_t first, std::initializer_list<std::size_t> optional)
{
    std::vector<std::size_t> of{first + kX, first + kW, first + kR};
    for (const std::size_t i : optional)
        if (request.hasInput(first + i))
            of.push_back(first + i);
    if (request.outputs.size() != of.size())
        return wrong(request,
                     "makes " + std::to_string(of.size()) + " gradients, not "
                         + std::to_string(request.outputs.size()));
    for (std::size_t i = 0; i < of.size(); ++i)
        if (request.out(i) != request.in(of[i]))
            return wrong(request, "gradient " + std::to_string(i) + " is not shaped like its input");
    return {};
}

Made makeLstm(const Request &request)
{
    auto how = recurrenceOf(request, 0, 4, kDefaults, 2);
    if (!how)
        return how.error();
    if (request.hasInput(kPeephole) && request.inputs[kPeephole].elements() != how->directions * 3 * how->hidden)
        return wrong(request, "peephole weights " + text(request.in(kPeephole)) + " do not fit");
    if (request.outputs[3].elements() != how->directions * how->rows() * how->width()
        || request.outputs[4].elements() != how->directions * how->rows() * how->hidden)
        return wrong(request, "outputs do not fit the input " + text(request.in(0)));
    return Made(std::unique_ptr<Kernel>(std::make_unique<Forward>(*how, request)));
}

Made makeLstmGrad(const Request &request)
{
    if (request.inputs.size() != Backward::kFirst + 8 + 3)
        return wrong(request, "takes 14 inputs");
    auto how = recurrenceOf(request, Backward::kFirst, 4, kDefaults, 2);
    if (!how)
        return how.error();
    if (how->clip > 0 || request.op.integer("input_forget") != 0)
        return cannot(request, "clipped or coupled gates are not trained");
    if (const Status fits = checkGradients(request, Backward::kFirst, {kBias, kHidden, kState, kPeephole}); !fits)
        return fits.error();
    return Made(std::unique_ptr<Kernel>(std::make_unique<Backward>(*how, request)));
}

constexpr KernelEntry kEntries[] = {
    {"LSTM", "ffff?*?f?f?f?", "fffff", makeLstm},
    {"LSTMGrad", "f?f?f?ffff?*?f?f?f?fff", "f+", makeLstmGrad},
};

} // namespace

std::span<const KernelEntry> lstmKernels() { return kEntries; }

} // namespace planloom::device
