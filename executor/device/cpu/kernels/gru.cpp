// SPDX-License-Identifier: Apache-2.0
// GRU and RNN, and their gradients. Gates lie as ONNX has them: update, reset, hidden.
#include "executor/device/cpu/onednn.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/recurrent.h"
#include "executor/device/cpu/simd.h"
#include "executor/device/meanwhile.h"

#include <algorithm>

namespace planloom::device {

namespace {

enum Input : std::size_t { kX, kW, kR, kBias, kLengths, kHidden, kInputs };
/// Of a gradient: dY and dY_h come before the forward inputs, Y and saved tensors behind.
constexpr std::size_t kFirst = 2;
constexpr std::size_t kSaved = kFirst + kInputs;

const float *optional(Inputs in, std::size_t i) { return i < in.size() ? floats(in[i]) : nullptr; }

/// y += recurrent + both halves of the bias, for n of the 'width' columns; a nullptr adds nothing.
PLANLOOM_CLONES void join(const float *recurrent, const float *bias, std::int64_t width, std::int64_t n, float *y)
{
    for (std::int64_t i = 0; recurrent && i < n; ++i)
        y[i] += recurrent[i];
    for (std::int64_t i = 0; bias && i < n; ++i)
        y[i] += bias[i] + bias[width + i];
}

/// Shared by the forward passes: the projections of all steps, the states, and the behaviour behind a sample's end.
class ForwardBase : public Kernel {
public:
    ForwardBase(Recurrence how, const Request &request)
        : m_how(std::move(how)),
          m_lengths(m_how, request, kLengths),
          m_x(m_how),
          m_line(m_how),
          m_recurrent(static_cast<std::size_t>(m_how.batch * m_how.width()))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_lengths.read(in);
        const float *x = m_x.read(floats(in[kX]));
        const std::int64_t width = m_how.width();
        for (std::int64_t d = 0; d < m_how.directions; ++d) {
            onednn::gemm(false, true, m_how.rows(), width, m_how.features, 1, x, m_how.features,
                         floats(in[kW]) + d * width * m_how.features, m_how.features, 0,
                         floats(out[2]) + d * m_how.rows() * width, width);
            readState(m_how, d, optional(in, kHidden), m_line.before(m_how.time(0, d), d));
            for (std::int64_t s = 0; s < m_how.steps; ++s) {
                step(in, out, m_how.time(s, d), d);
                Meanwhile::turn();
                publish(m_how.time(s, d), d, floats(out[0]));
            }
            const float *last = m_how.steps > 0 ? m_line.after(m_how.time(m_how.steps - 1, d), d) : m_line.before(0, 0);
            writeState(m_how, d, last, floats(out[1]));
        }
    }

protected:
    virtual void step(Inputs in, Outputs out, std::int64_t t, std::int64_t d) = 0;

    /// m_recurrent[., from ... from + n) = @p states times those rows of R.
    void multiply(Inputs in, std::int64_t d, const float *states, std::int64_t from, std::int64_t n)
    {
        const std::int64_t h = m_how.hidden;
        onednn::gemm(false, true, m_how.batch, n, h, 1, states, h, floats(in[kR]) + (d * m_how.width() + from) * h, h,
                     0, m_recurrent.data() + from, m_how.width());
    }

    template <class F>
    void forSamples(F f)
    {
        parallelFor(m_how.batch, rowGrain(4 * m_how.width()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                f(n);
        });
    }

    /// The new states to Y; behind its end a sample keeps its state and Y is 0.
    void publish(std::int64_t t, std::int64_t d, float *y)
    {
        const std::int64_t h = m_how.hidden;
        for (std::int64_t n = 0; n < m_how.batch; ++n) {
            float *result = y + m_how.outputRow(t, d, n);
            if (m_lengths.covers(t, n)) {
                std::copy_n(m_line.after(t, d) + n * h, h, result);
                continue;
            }
            std::copy_n(m_line.before(t, d) + n * h, h, m_line.after(t, d) + n * h);
            std::fill_n(result, h, 0.0F);
        }
    }

    Recurrence m_how;
    Lengths m_lengths;
    TimeMajor m_x;
    StateLine m_line;
    std::vector<float> m_recurrent; ///< (batch, width): this step's recurrent product
};

class RnnForward final : public ForwardBase {
public:
    using ForwardBase::ForwardBase;

private:
    void step(Inputs in, Outputs out, std::int64_t t, std::int64_t d) override
    {
        const std::int64_t h = m_how.hidden;
        multiply(in, d, m_line.before(t, d), 0, h);
        const float *bias = optional(in, kBias);
        forSamples([&](std::int64_t n) {
            float *gate = floats(out[2]) + (d * m_how.rows() + t * m_how.batch + n) * h;
            join(m_recurrent.data() + n * h, bias ? bias + d * 2 * h : nullptr, h, h, gate);
            clampAll(m_how.clip, gate, h);
            m_how.functions[static_cast<std::size_t>(d)].apply(gate, h);
            std::copy_n(gate, h, m_line.after(t, d) + n * h);
        });
    }
};

class GruForward final : public ForwardBase {
public:
    GruForward(const Recurrence &how, const Request &request)
        : ForwardBase(how, request),
          m_resetAfter(request.op.integer("linear_before_reset") != 0)
    {
    }

private:
    void step(Inputs in, Outputs out, std::int64_t t, std::int64_t d) override
    {
        const std::int64_t h = m_how.hidden;
        const std::int64_t row = d * m_how.rows() + t * m_how.batch;
        float *gates = floats(out[2]) + row * 3 * h;
        float *saved = floats(out[3]) + row * h;
        const float *bias = optional(in, kBias) ? optional(in, kBias) + d * 6 * h : nullptr;
        const float *before = m_line.before(t, d);
        multiply(in, d, before, 0, m_resetAfter ? 3 * h : 2 * h);
        forSamples(
            [&](std::int64_t n) { resetAndUpdate(d, bias, before + n * h, n, gates + n * 3 * h, saved + n * h); });
        if (!m_resetAfter)
            multiply(in, d, saved, 2 * h, h);
        forSamples([&](std::int64_t n) {
            hidden(d, bias, before + n * h, n, gates + n * 3 * h, saved + n * h, m_line.after(t, d) + n * h);
        });
    }

    [[nodiscard]] const GateFunction &function(std::int64_t d, std::size_t i) const
    {
        return m_how.functions[static_cast<std::size_t>(2 * d) + i];
    }

    /// `saved`: what the reset gate scales (reset after the product), or the scaled state.
    void resetAndUpdate(std::int64_t d, const float *bias, const float *before, std::int64_t n, float *gates,
                        float *saved) const
    {
        const std::int64_t h = m_how.hidden;
        const float *recurrent = m_recurrent.data() + n * 3 * h;
        join(recurrent, bias, 3 * h, 2 * h, gates);
        clampAll(m_how.clip, gates, 2 * h);
        function(d, 0).apply(gates, 2 * h);
        for (std::int64_t i = 0; i < h; ++i)
            saved[i] = m_resetAfter ? recurrent[2 * h + i] + (bias ? bias[5 * h + i] : 0.0F) : gates[h + i] * before[i];
    }

    void hidden(std::int64_t d, const float *bias, const float *before, std::int64_t n, float *gates,
                const float *saved, float *state) const
    {
        const std::int64_t h = m_how.hidden;
        float *proposal = gates + 2 * h;
        if (m_resetAfter) {
            for (std::int64_t i = 0; i < h; ++i)
                proposal[i] += gates[h + i] * saved[i] + (bias ? bias[2 * h + i] : 0.0F);
        } else {
            join(m_recurrent.data() + n * 3 * h + 2 * h, bias ? bias + 2 * h : nullptr, 3 * h, h, proposal);
        }
        clampAll(m_how.clip, proposal, h);
        function(d, 1).apply(proposal, h);
        for (std::int64_t i = 0; i < h; ++i)
            state[i] = (1.0F - gates[i]) * proposal[i] + gates[i] * before[i];
    }

    bool m_resetAfter;
};

/// Shared by the backward passes. Derived classes fill m_dgates (and m_drecurrent, where that differs) step by step.
class BackwardBase : public Kernel {
public:
    BackwardBase(Recurrence how, const Request &request, bool ownRecurrent)
        : m_how(std::move(how)),
          m_lengths(m_how, request, kFirst + kLengths),
          m_x(m_how),
          m_dx(m_how),
          m_line(m_how),
          m_dgates(static_cast<std::size_t>(m_how.rows() * m_how.width())),
          m_drecurrent(ownRecurrent ? m_dgates.size() : 0U),
          m_dhidden(static_cast<std::size_t>(m_how.state()))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        m_lengths.read(in);
        const float *x = m_x.read(floats(in[kFirst + kX]));
        float *dx = m_dx.collect(floats(out[0]));
        for (std::int64_t d = 0; d < m_how.directions; ++d) {
            readStates(m_how, d, m_lengths, floats(in[kSaved]), floats(in[kFirst + kHidden]), m_line);
            readState(m_how, d, floats(in[1]), m_dhidden.data());
            for (std::int64_t s = m_how.steps; s-- > 0;) {
                if (in[0])
                    addOwn(floats(in[0]), m_how.time(s, d), d);
                step(in, m_how.time(s, d), d);
                Meanwhile::turn();
            }
            weights(in, out, x, dx, d);
        }
        m_dx.write(floats(out[0]));
    }

protected:
    /// m_dhidden is the gradient of the state after the step; leaves there that of the one before.
    virtual void step(Inputs in, std::int64_t t, std::int64_t d) = 0;
    virtual void recurrentWeights(Inputs, std::int64_t d, float *dr)
    {
        multiplyStates(0, m_how.width(), m_line.allBefore(d), dr);
    }

    /// dR[from ... from + n) = those columns of the gradient, transposed, times @p states.
    void multiplyStates(std::int64_t from, std::int64_t n, const float *states, float *dr) const
    {
        const std::vector<float> &gradient = m_drecurrent.empty() ? m_dgates : m_drecurrent;
        onednn::gemm(true, false, n, m_how.hidden, m_how.rows(), 1, gradient.data() + from, m_how.width(), states,
                     m_how.hidden, 0, dr + from * m_how.hidden, m_how.hidden);
    }

    template <class F>
    void forSamples(std::int64_t t, F f)
    {
        parallelFor(m_how.batch, rowGrain(4 * m_how.width()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                if (m_lengths.covers(t, n))
                    f(n);
        });
    }

    void clearMasked(std::int64_t t)
    {
        for (std::int64_t n = 0; n < m_how.batch; ++n) {
            if (m_lengths.covers(t, n))
                continue;
            const std::int64_t at = (t * m_how.batch + n) * m_how.width();
            std::fill_n(m_dgates.data() + at, m_how.width(), 0.0F);
            if (!m_drecurrent.empty())
                std::fill_n(m_drecurrent.data() + at, m_how.width(), 0.0F);
        }
    }

    Recurrence m_how;
    Lengths m_lengths;
    TimeMajor m_x, m_dx;
    StateLine m_line;
    std::vector<float> m_dgates;     ///< (rows, width): before the gates' functions
    std::vector<float> m_drecurrent; ///< the same of the recurrent product, where that is another
    std::vector<float> m_dhidden;    ///< (batch, H)

private:
    void addOwn(const float *dy, std::int64_t t, std::int64_t d)
    {
        forSamples(t, [&](std::int64_t n) {
            const float *own = dy + m_how.outputRow(t, d, n);
            float *dhidden = m_dhidden.data() + n * m_how.hidden;
            for (std::int64_t i = 0; i < m_how.hidden; ++i)
                dhidden[i] += own[i];
        });
    }

    void weights(Inputs in, Outputs out, const float *x, float *dx, std::int64_t d)
    {
        const std::int64_t rows = m_how.rows();
        const std::int64_t width = m_how.width();
        const std::int64_t features = m_how.features;
        onednn::gemm(false, false, rows, features, width, 1, m_dgates.data(), width,
                     floats(in[kFirst + kW]) + d * width * features, features, d == 0 ? 0.0F : 1.0F, dx, features);
        Meanwhile::turn();
        onednn::gemm(true, false, width, features, rows, 1, m_dgates.data(), width, x, features, 0,
                     floats(out[1]) + d * width * features, features);
        Meanwhile::turn();
        recurrentWeights(in, d, floats(out[2]) + d * width * m_how.hidden);
        std::size_t next = 3;
        if (in[kFirst + kBias]) {
            float *bias = floats(out[next++]) + d * 2 * width;
            columnSums(m_dgates.data(), rows, width, bias);
            if (m_drecurrent.empty())
                std::copy_n(bias, width, bias + width);
            else
                columnSums(m_drecurrent.data(), rows, width, bias + width);
        }
        if (in[kFirst + kHidden])
            writeState(m_how, d, m_dhidden.data(), floats(out[next]));
    }
};

class RnnBackward final : public BackwardBase {
public:
    RnnBackward(const Recurrence &how, const Request &request) : BackwardBase(how, request, false) {}

private:
    void step(Inputs in, std::int64_t t, std::int64_t d) override
    {
        const std::int64_t h = m_how.hidden;
        const std::int64_t row = t * m_how.batch;
        const float *gates = floats(in[kSaved + 1]) + (d * m_how.rows() + row) * h;
        clearMasked(t);
        forSamples(t, [&](std::int64_t n) {
            float *dgates = m_dgates.data() + (row + n) * h;
            std::copy_n(m_dhidden.data() + n * h, h, dgates);
            m_how.functions[static_cast<std::size_t>(d)].scaleByDerivative(gates + n * h, dgates, h);
            std::fill_n(m_dhidden.data() + n * h, h, 0.0F);
        });
        onednn::gemm(false, false, m_how.batch, h, h, 1, m_dgates.data() + row * h, h,
                     floats(in[kFirst + kR]) + d * h * h, h, 1, m_dhidden.data(), h);
    }
};

class GruBackward final : public BackwardBase {
public:
    GruBackward(const Recurrence &how, const Request &request)
        : BackwardBase(how, request, request.op.integer("linear_before_reset") != 0),
          m_scaled(static_cast<std::size_t>(how.state()))
    {
    }

private:
    [[nodiscard]] bool resetAfter() const { return !m_drecurrent.empty(); }
    [[nodiscard]] const GateFunction &function(std::int64_t d, std::size_t i) const
    {
        return m_how.functions[static_cast<std::size_t>(2 * d) + i];
    }

    void step(Inputs in, std::int64_t t, std::int64_t d) override
    {
        const std::int64_t h = m_how.hidden;
        const std::int64_t row = t * m_how.batch;
        const float *gates = floats(in[kSaved + 1]) + (d * m_how.rows() + row) * 3 * h;
        const float *saved = floats(in[kSaved + 2]) + (d * m_how.rows() + row) * h;
        const float *weights = floats(in[kFirst + kR]) + d * 3 * h * h;
        clearMasked(t);
        forSamples(t, [&](std::int64_t n) { updateAndHidden(t, d, n, gates + n * 3 * h); });
        if (resetAfter()) {
            forSamples(t, [&](std::int64_t n) { resetOfProduct(t, d, n, gates + n * 3 * h, saved + n * h); });
            multiply(m_drecurrent.data() + row * 3 * h, 3 * h, weights, 1, m_dhidden.data());
            return;
        }
        multiply(m_dgates.data() + row * 3 * h + 2 * h, h, weights + 2 * h * h, 0, m_scaled.data());
        forSamples(t, [&](std::int64_t n) { resetOfState(t, d, n, gates + n * 3 * h); });
        multiply(m_dgates.data() + row * 3 * h, 2 * h, weights, 1, m_dhidden.data());
    }

    /// y (batch, H) = gradients (batch, n of 3H) times weights (n, H) + beta * y.
    void multiply(const float *gradients, std::int64_t n, const float *weights, float beta, float *y) const
    {
        onednn::gemm(false, false, m_how.batch, m_how.hidden, n, 1, gradients, 3 * m_how.hidden, weights, m_how.hidden,
                     beta, y, m_how.hidden);
    }

    void updateAndHidden(std::int64_t t, std::int64_t d, std::int64_t n, const float *gates)
    {
        const std::int64_t h = m_how.hidden;
        float *dgates = m_dgates.data() + (t * m_how.batch + n) * 3 * h;
        float *dhidden = m_dhidden.data() + n * h;
        const float *before = m_line.before(t, d) + n * h;
        for (std::int64_t i = 0; i < h; ++i) {
            dgates[i] = dhidden[i] * (before[i] - gates[2 * h + i]);
            dgates[2 * h + i] = dhidden[i] * (1.0F - gates[i]);
            dhidden[i] *= gates[i];
        }
        function(d, 0).scaleByDerivative(gates, dgates, h);
        function(d, 1).scaleByDerivative(gates + 2 * h, dgates + 2 * h, h);
    }

    void resetOfProduct(std::int64_t t, std::int64_t d, std::int64_t n, const float *gates, const float *saved)
    {
        const std::int64_t h = m_how.hidden;
        float *dgates = m_dgates.data() + (t * m_how.batch + n) * 3 * h;
        float *drecurrent = m_drecurrent.data() + (t * m_how.batch + n) * 3 * h;
        for (std::int64_t i = 0; i < h; ++i)
            dgates[h + i] = dgates[2 * h + i] * saved[i];
        function(d, 0).scaleByDerivative(gates + h, dgates + h, h);
        std::copy_n(dgates, 2 * h, drecurrent);
        for (std::int64_t i = 0; i < h; ++i)
            drecurrent[2 * h + i] = dgates[2 * h + i] * gates[h + i];
    }

    void resetOfState(std::int64_t t, std::int64_t d, std::int64_t n, const float *gates)
    {
        const std::int64_t h = m_how.hidden;
        float *dgates = m_dgates.data() + (t * m_how.batch + n) * 3 * h;
        const float *before = m_line.before(t, d) + n * h;
        const float *dscaled = m_scaled.data() + n * h;
        float *dhidden = m_dhidden.data() + n * h;
        for (std::int64_t i = 0; i < h; ++i) {
            dgates[h + i] = dscaled[i] * before[i];
            dhidden[i] += dscaled[i] * gates[h + i];
        }
        function(d, 0).scaleByDerivative(gates + h, dgates + h, h);
    }

    void recurrentWeights(Inputs in, std::int64_t d, float *dr) override
    {
        const std::int64_t h = m_how.hidden;
        if (resetAfter()) {
            multiplyStates(0, 3 * h, m_line.allBefore(d), dr);
            return;
        }
        multiplyStates(0, 2 * h, m_line.allBefore(d), dr);
        multiplyStates(2 * h, h, floats(in[kSaved + 2]) + d * m_how.rows() * h, dr);
    }

    std::vector<float> m_scaled; ///< (batch, H): gradient of the state that the reset gate has scaled
};

Status checkSaved(const Request &request, const Recurrence &how)
{
    if (request.outputs[2].elements() != how.directions * how.rows() * how.width())
        return wrong(request, "outputs do not fit the input " + text(request.in(0)));
    return {};
}

Status checkGradients(const Request &request, const Recurrence &how)
{
    if (how.clip > 0)
        return cannot(request, "clipped gates are not trained");
    std::vector<std::size_t> of{kX, kW, kR};
    for (const std::size_t i : {kBias, kHidden})
        if (request.hasInput(kFirst + i))
            of.push_back(i);
    if (request.outputs.size() != of.size())
        return wrong(request,
                     "makes " + std::to_string(of.size()) + " gradients, not "
                         + std::to_string(request.outputs.size()));
    for (std::size_t i = 0; i < of.size(); ++i)
        if (request.out(i) != request.in(kFirst + of[i]))
            return wrong(request, "gradient " + std::to_string(i) + " is not shaped like its input");
    return {};
}

template <class K>
Made makeForward(const Request &request, std::int64_t gates, const std::vector<std::string> &functions)
{
    auto how = recurrenceOf(request, 0, gates, functions, 1);
    if (!how)
        return how.error();
    if (const Status fits = checkSaved(request, *how); !fits)
        return fits.error();
    return Made(std::unique_ptr<Kernel>(std::make_unique<K>(*how, request)));
}

template <class K>
Made makeBackward(const Request &request, std::int64_t gates, const std::vector<std::string> &functions)
{
    auto how = recurrenceOf(request, kFirst, gates, functions, 1);
    if (!how)
        return how.error();
    if (const Status fits = checkGradients(request, *how); !fits)
        return fits.error();
    return Made(std::unique_ptr<Kernel>(std::make_unique<K>(*how, request)));
}

Made makeRnn(const Request &request) { return makeForward<RnnForward>(request, 1, {"tanh"}); }
Made makeRnnGrad(const Request &request) { return makeBackward<RnnBackward>(request, 1, {"tanh"}); }
Made makeGru(const Request &request) { return makeForward<GruForward>(request, 3, {"sigmoid", "tanh"}); }
Made makeGruGrad(const Request &request) { return makeBackward<GruBackward>(request, 3, {"sigmoid", "tanh"}); }

constexpr KernelEntry kEntries[] = {
    {"GRU", "ffff?*?f?", "ffff", makeGru},
    {"GRUGrad", "f?f?ffff?*?f?fff", "f+", makeGruGrad},
    {"RNN", "ffff?*?f?", "fff", makeRnn},
    {"RNNGrad", "f?f?ffff?*?f?ff", "f+", makeRnnGrad},
};

} // namespace

std::span<const KernelEntry> gruKernels() { return kEntries; }

} // namespace planloom::device
