// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/collectives.h"
#include "engine/cost/sparse_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <vector>

namespace planloom::testing {

inline void addTo(std::vector<double> &sum, std::span<const double> gradient)
{
    sum.resize(gradient.size());
    for (std::size_t c = 0; c < gradient.size(); ++c)
        sum[c] += gradient[c];
}

/// Adam or SGD on rows with an explicit step, in double precision.
class RowOptimizer {
public:
    using Rows = std::map<std::int64_t, std::vector<double>>;
    enum class Rule : std::uint8_t { Sgd, Adam };
    RowOptimizer(Rule rule, double rate, std::int64_t rows, std::int64_t columns,
                 const std::function<double(std::int64_t, std::int64_t)> &first)
        : m_rule(rule),
          m_rate(rate)
    {
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
                table.push_back(first(r, c));
        m_mean.assign(table.size(), 0);
        m_square.assign(table.size(), 0);
        m_columns = static_cast<std::size_t>(columns);
    }

    void update(const Rows &gradients, int step)
    {
        for (const auto &[row, gradient] : gradients)
            for (std::size_t c = 0; c < m_columns; ++c)
                updateOne(static_cast<std::size_t>(row) * m_columns + c, gradient[c], step);
    }
    [[nodiscard]] double at(std::int64_t row, std::size_t column) const
    {
        return table[static_cast<std::size_t>(row) * m_columns + column];
    }
    [[nodiscard]] double sum() const { return std::accumulate(table.begin(), table.end(), 0.0); }
    std::vector<double> table;

private:
    void updateOne(std::size_t i, double gradient, int step)
    {
        if (m_rule == Rule::Sgd) {
            table[i] -= m_rate * gradient;
            return;
        }
        m_mean[i] = 0.9 * m_mean[i] + 0.1 * gradient;
        m_square[i] = 0.999 * m_square[i] + 0.001 * gradient * gradient;
        const double mean = m_mean[i] / (1 - std::pow(0.9, step));
        table[i] -= m_rate * mean / (std::sqrt(m_square[i] / (1 - std::pow(0.999, step))) + 1e-8);
    }
    Rule m_rule;
    double m_rate;
    std::size_t m_columns = 0;
    std::vector<double> m_mean, m_square;
};

/// A table cut by columns, one part and its optimizer a worker, as an all-to-all exchanges it: parts of looked-up rows
/// go to the workers, and parts of their coalesced gradients back to the owners, which add them in order of worker.
class ColumnOwners {
public:
    ColumnOwners(RowOptimizer::Rule rule, double rate, int workers, std::int64_t rows, std::int64_t columns,
                 const std::function<double(std::int64_t, std::int64_t)> &first)
        : m_columns(columns)
    {
        for (int owner = 0; owner < workers; ++owner) {
            const cost::Segment part = cost::segmentOf(columns, workers, owner);
            m_parts.emplace_back(rule, rate, rows, part.size(),
                                 [&](std::int64_t r, std::int64_t c) { return first(r, part.begin + c); });
        }
    }
    /// A row as the all-to-all of the forward pass puts it together.
    [[nodiscard]] std::vector<double> lookUp(std::int64_t row) const
    {
        std::vector<double> whole;
        for (int owner = 0; owner < workers(); ++owner)
            for (std::int64_t c = 0; c < part(owner).size(); ++c)
                whole.push_back(m_parts[static_cast<std::size_t>(owner)].at(row, static_cast<std::size_t>(c)));
        return whole;
    }
    /// @p gradients: each worker's coalesced rows.
    void update(const std::vector<RowOptimizer::Rows> &gradients, int step)
    {
        for (int owner = 0; owner < workers(); ++owner) {
            RowOptimizer::Rows sum;
            for (const RowOptimizer::Rows &ofWorker : gradients)
                for (const auto &[row, gradient] : ofWorker)
                    addTo(sum[row],
                          std::span(gradient).subspan(static_cast<std::size_t>(part(owner).begin),
                                                      static_cast<std::size_t>(part(owner).size())));
            m_parts[static_cast<std::size_t>(owner)].update(sum, step);
        }
    }

private:
    [[nodiscard]] int workers() const { return static_cast<int>(m_parts.size()); }
    [[nodiscard]] cost::Segment part(int owner) const { return cost::segmentOf(m_columns, workers(), owner); }
    std::int64_t m_columns;
    std::vector<RowOptimizer> m_parts;
};

/// A table and a dense layer that learn the next token of a Zipf stream.
class NextToken {
public:
    static constexpr std::int64_t kRows = 12;
    static constexpr std::size_t kColumns = 4;
    static constexpr std::size_t kTokens = 6;
    static constexpr int kWorkers = 2;
    enum class Table : std::uint8_t { RowWise, Dense, AllToAll, Split, SplitByOwnIds };

    NextToken(RowOptimizer::Rule rule, double rate, Table how)
        : m_how(how),
          m_table(rule, rate, kRows, kColumns, first),
          m_owners(rule, rate, kWorkers, kRows, kColumns, first),
          m_dense(rule, rate, kColumns, kRows,
                  [](std::int64_t c, std::int64_t v) { return 0.1 * std::cos(static_cast<double>(1 + 12 * c + v)); }),
          m_bias(rule, rate, 1, kRows, [](std::int64_t, std::int64_t) { return 0.0; })
    {
        cost::ZipfIds ids(kRows);
        for (int i = 0; i < 600; ++i)
            m_stream.push_back(ids.next());
    }

    /// The loss before the update of step @p step, from 0.
    double train(int step)
    {
        RowOptimizer::Rows table, dense, bias;
        std::vector<RowOptimizer::Rows> own(kWorkers);
        double loss = 0;
        for (int worker = 0; worker < kWorkers; ++worker)
            for (std::size_t k = 0; k < kTokens; ++k)
                loss += learn(at(step, worker) + k, own[static_cast<std::size_t>(worker)], dense, bias);
        for (int r = 0; r < kRows && m_how == Table::Dense; ++r)
            table[r].resize(kColumns);
        if (m_how == Table::AllToAll)
            m_owners.update(own, step + 1);
        RowOptimizer::Rows late; // for this step's look-up: they were used as they stood
        late.swap(m_delayed);
        for (int worker = 0; worker < kWorkers; ++worker)
            for (auto &[row, gradient] : own[static_cast<std::size_t>(worker)])
                addTo(isPrior(step, worker, row) ? table[row] : m_delayed[row], gradient);
        m_table.update(table, step + 1);
        m_table.update(late, step); // the step before, whose number from 1 is this one's from 0
        m_dense.update(dense, step + 1);
        m_bias.update(bias, step + 1);
        return loss;
    }

private:
    static double first(std::int64_t row, std::int64_t column)
    {
        return 0.1 * std::sin(static_cast<double>(1 + 4 * row + column));
    }
    static std::size_t at(int step, int worker) { return kTokens * static_cast<std::size_t>(2 * step + worker); }
    [[nodiscard]] cost::RowIds rows(int step, int worker) const
    {
        return cost::uniqueRows(std::span(m_stream).subspan(at(step, worker), kTokens));
    }
    [[nodiscard]] bool isPrior(int step, int worker, std::int64_t row) const
    {
        if (m_how != Table::Split && m_how != Table::SplitByOwnIds)
            return true;
        const cost::RowIds both[] = {rows(step + 1, 0), rows(step + 1, 1)};
        const cost::RowIds next = m_how == Table::Split ? cost::unionOf(both) : both[worker];
        cost::RowIds prior, delayed;
        cost::split(rows(step, worker), next, prior, delayed);
        return std::binary_search(prior.begin(), prior.end(), row);
    }
    double learn(std::size_t place, RowOptimizer::Rows &table, RowOptimizer::Rows &dense, RowOptimizer::Rows &bias)
    {
        const std::int64_t from = m_stream[place], to = m_stream[place + 1];
        std::vector<double> looked = m_owners.lookUp(from);
        for (std::size_t c = 0; c < kColumns && m_how != Table::AllToAll; ++c)
            looked[c] = m_table.at(from, c);
        std::vector<double> p(kRows);
        for (std::size_t v = 0; v < kRows; ++v) {
            p[v] = m_bias.at(0, v);
            for (std::size_t c = 0; c < kColumns; ++c)
                p[v] += looked[c] * m_dense.at(static_cast<std::int64_t>(c), v);
            p[v] = std::exp(p[v]);
        }
        const double all = std::accumulate(p.begin(), p.end(), 0.0);
        const double loss = -std::log(p[static_cast<std::size_t>(to)] / all) / (2 * kTokens);
        std::vector<double> slope(kRows), row(kColumns);
        for (std::size_t v = 0; v < kRows; ++v)
            slope[v] = (p[v] / all - (v == static_cast<std::size_t>(to) ? 1 : 0)) / (2 * kTokens);
        for (std::size_t c = 0; c < kColumns; ++c) {
            std::vector<double> weights(kRows);
            for (std::size_t v = 0; v < kRows; ++v) {
                row[c] += m_dense.at(static_cast<std::int64_t>(c), v) * slope[v];
                weights[v] = looked[c] * slope[v];
            }
            addTo(dense[static_cast<std::int64_t>(c)], weights);
        }
        addTo(table[from], row);
        addTo(bias[0], slope);
        return loss;
    }

    Table m_how;
    std::vector<std::int64_t> m_stream;
    RowOptimizer m_table;
    ColumnOwners m_owners; ///< the table, where it is exchanged by all-to-all
    RowOptimizer m_dense, m_bias;
    RowOptimizer::Rows m_delayed;
};

} // namespace planloom::testing
