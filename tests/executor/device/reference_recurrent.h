// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

namespace planloom::reference {

/// One direction of a recurrent layer, a sample at a time.
class Recurrent {
public:
    Recurrent(const Call &call, std::int64_t gates, std::size_t states) : m_call(call), m_gates(gates), m_states(states)
    {
        m_batchFirst = call.op.integer("layout") != 0;
        m_steps = call.in[0].dims[m_batchFirst ? 1 : 0];
        m_batch = call.in[0].dims[m_batchFirst ? 0 : 1];
        m_features = call.in[0].dims[2];
        m_hidden = call.in[2].dims[2];
        m_directions = call.in[2].dims[0];
    }

    /// Calls cell(states, time) in order of processing: it moves the states, h and LSTM's c, one step on.
    template <class Cell>
    void run(Cell cell)
    {
        for (std::int64_t d = 0; d < m_directions; ++d)
            for (std::int64_t n = 0; n < m_batch; ++n)
                runSample(d, n, cell);
    }

    [[nodiscard]] double input(std::int64_t gate, std::int64_t t) const
    {
        double sum = 0;
        for (std::int64_t i = 0; i < m_features; ++i)
            sum += m_call.in[1].at({m_direction, gate, i})
                * m_call.in[0].at(m_batchFirst ? Dims{m_sample, t, i} : Dims{t, m_sample, i});
        return sum + bias(gate);
    }
    [[nodiscard]] double recurrent(std::int64_t gate, const std::vector<double> &h) const
    {
        double sum = 0;
        for (std::int64_t i = 0; i < m_hidden; ++i)
            sum += m_call.in[2].at({m_direction, gate, i}) * h[static_cast<std::size_t>(i)];
        return sum + bias(m_gates * m_hidden + gate);
    }
    [[nodiscard]] double peephole(std::int64_t gate, std::int64_t i) const
    {
        return m_call.has(7) ? m_call.in[7].at({m_direction, gate * m_hidden + i}) : 0;
    }
    [[nodiscard]] double bias(std::int64_t i) const { return m_call.has(3) ? m_call.in[3].at({m_direction, i}) : 0; }
    [[nodiscard]] std::int64_t hidden() const { return m_hidden; }

private:
    [[nodiscard]] Dims stateIndex(std::int64_t i) const
    {
        return m_batchFirst ? Dims{m_sample, m_direction, i} : Dims{m_direction, m_sample, i};
    }

    template <class Cell>
    void runSample(std::int64_t d, std::int64_t n, Cell cell)
    {
        m_direction = d;
        m_sample = n;
        std::vector<std::vector<double>> states(m_states, std::vector<double>(static_cast<std::size_t>(m_hidden)));
        for (std::size_t k = 0; k < m_states; ++k)
            for (std::int64_t i = 0; i < m_hidden; ++i)
                states[k][static_cast<std::size_t>(i)] = m_call.has(5 + k) ? m_call.in[5 + k].at(stateIndex(i)) : 0;
        const std::int64_t length = m_call.has(4) ? static_cast<std::int64_t>(m_call.in[4][n]) : m_steps;
        const bool reversed = d == 1 || m_call.op.text("direction") == "reverse";
        for (std::int64_t s = 0; s < length; ++s) {
            const std::int64_t t = reversed ? length - 1 - s : s;
            cell(states, t);
            for (std::int64_t i = 0; i < m_hidden; ++i)
                m_call.out[0].at(m_batchFirst ? Dims{n, t, d, i} : Dims{t, d, n, i}) =
                    states[0][static_cast<std::size_t>(i)];
        }
        for (std::size_t k = 0; k < m_states; ++k)
            for (std::int64_t i = 0; i < m_hidden; ++i)
                m_call.out[1 + k].at(stateIndex(i)) = states[k][static_cast<std::size_t>(i)];
    }

    const Call &m_call;
    std::int64_t m_gates, m_steps = 0, m_batch = 0, m_features = 0, m_hidden = 0, m_directions = 1, m_direction = 0,
                          m_sample = 0;
    std::size_t m_states;
    bool m_batchFirst = false;
};

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

inline void lstm(const Call &c)
{
    Recurrent layer(c, 4, 2);
    const std::int64_t n = layer.hidden();
    layer.run([&](std::vector<std::vector<double>> &states, std::int64_t t) {
        const std::vector<double> h = states[0];
        for (std::int64_t i = 0; i < n; ++i) {
            double &cell = states[1][static_cast<std::size_t>(i)];
            const auto gate = [&](std::int64_t g) { return layer.input(g * n + i, t) + layer.recurrent(g * n + i, h); };
            const double in = logistic(gate(0) + layer.peephole(0, i) * cell);
            const double forget = logistic(gate(2) + layer.peephole(2, i) * cell);
            const double proposal = std::tanh(gate(3));
            cell = forget * cell + in * proposal;
            const double out = logistic(gate(1) + layer.peephole(1, i) * cell);
            states[0][static_cast<std::size_t>(i)] = out * std::tanh(cell);
        }
    });
}

inline void gru(const Call &c)
{
    Recurrent layer(c, 3, 1);
    const std::int64_t n = layer.hidden();
    const bool after = c.op.integer("linear_before_reset") != 0;
    layer.run([&](std::vector<std::vector<double>> &states, std::int64_t t) {
        const std::vector<double> h = states[0];
        std::vector<double> reset(h.size());
        std::vector<double> scaled(h.size());
        for (std::int64_t i = 0; i < n; ++i) {
            reset[static_cast<std::size_t>(i)] = logistic(layer.input(n + i, t) + layer.recurrent(n + i, h));
            scaled[static_cast<std::size_t>(i)] = reset[static_cast<std::size_t>(i)] * h[static_cast<std::size_t>(i)];
        }
        for (std::int64_t i = 0; i < n; ++i) {
            const double update = logistic(layer.input(i, t) + layer.recurrent(i, h));
            const double recurrent = after ? reset[static_cast<std::size_t>(i)] * layer.recurrent(2 * n + i, h)
                                           : layer.recurrent(2 * n + i, scaled);
            const double proposal = std::tanh(layer.input(2 * n + i, t) + recurrent);
            states[0][static_cast<std::size_t>(i)] = (1 - update) * proposal + update * h[static_cast<std::size_t>(i)];
        }
    });
}

inline void rnn(const Call &c)
{
    Recurrent layer(c, 1, 1);
    layer.run([&](std::vector<std::vector<double>> &states, std::int64_t t) {
        const std::vector<double> h = states[0];
        for (std::int64_t i = 0; i < layer.hidden(); ++i) {
            const double x = layer.input(i, t) + layer.recurrent(i, h);
            states[0][static_cast<std::size_t>(i)] =
                c.op.text("activations") == "Softsign" ? x / (1 + std::fabs(x)) : std::tanh(x);
        }
    });
}

inline void addRecurrent(Table &t)
{
    t["LSTM"] = lstm;
    t["GRU"] = gru;
    t["RNN"] = rnn;
}

} // namespace planloom::reference
