// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/parts.h"

#include "engine/sharding/shard.h"

#include <algorithm>
#include <map>

namespace planloom::compile {
namespace {

class Partition {
public:
    Partition(const graph::TrainingGraph &training, std::int32_t first, std::int32_t last)
        : m_training(training),
          m_last(last),
          m_start(first)
    {
        for (std::int32_t op = first; op < last; ++op)
            if (training.graph.ops()[static_cast<std::size_t>(op)].traits().communicates())
                m_waits[waitOf(training, op, last)].push_back(op);
    }

    std::vector<PassPart> make(const std::vector<std::int32_t> &ends)
    {
        auto end = ends.begin();
        for (std::int32_t op = m_start; op < m_last; ++op) {
            for (; end != ends.end() && *end < op; ++end)
                if (*end + 1 == op)
                    close(op);
            const bool boxing = m_training.graph.ops()[static_cast<std::size_t>(op)].traits().communicates();
            const auto awaited = m_waits.find(op);
            if (boxing) {
                close(op);
                PassPart part{true, op, op + 1, {}};
                if (awaited != m_waits.end())
                    part.waitsFor = boxes(awaited->second);
                m_boxOf[op] = m_parts.size();
                m_parts.push_back(std::move(part));
                m_start = op + 1;
            } else if (awaited != m_waits.end()) {
                close(op);
                m_start = op;
                const auto waits = boxes(awaited->second);
                m_pending.insert(m_pending.end(), waits.begin(), waits.end());
            }
        }
        finish();
        return std::move(m_parts);
    }

private:
    /// Ends the run that is open before operator @p op.
    void close(std::int32_t op)
    {
        if (m_start == op && m_pending.empty() && !m_parts.empty())
            return;
        m_parts.push_back({false, m_start, op, std::move(m_pending)});
        m_pending.clear();
        m_start = op;
    }

    void finish()
    {
        const auto rest = m_waits.find(m_last);
        const bool openRun = m_start < m_last || !m_pending.empty() || m_parts.empty();
        if (openRun)
            close(m_last);
        if (rest == m_waits.end() && !m_parts.back().boxing)
            return;
        m_parts.push_back(
            {false, m_last, m_last, rest == m_waits.end() ? std::vector<std::size_t>() : boxes(rest->second)});
    }

    [[nodiscard]] std::vector<std::size_t> boxes(const std::vector<std::int32_t> &ops) const
    {
        std::vector<std::size_t> parts;
        for (const std::int32_t op : ops)
            parts.push_back(m_boxOf.at(op));
        return parts;
    }

    const graph::TrainingGraph &m_training;
    std::int32_t m_last;
    std::int32_t m_start;
    std::map<std::int32_t, std::vector<std::int32_t>>
        m_waits; ///< operator -> communicating operators that it waits for
    std::map<std::int32_t, std::size_t> m_boxOf;
    std::vector<std::size_t> m_pending; ///< what the open run waits for
    std::vector<PassPart> m_parts;
};

} // namespace

std::vector<PassPart> partsOf(const graph::TrainingGraph &training, std::int32_t first, std::int32_t last,
                              const std::vector<std::int32_t> &ends)
{
    return Partition(training, first, last).make(ends);
}

std::int32_t waitOf(const graph::TrainingGraph &training, std::int32_t op, std::int32_t passEnd)
{
    std::int32_t wait = passEnd;
    for (const TensorId output : training.graph.ops()[static_cast<std::size_t>(op)].outputs)
        for (const OpId reader : training.graph.consumers(output))
            if (reader.value > op)
                wait = std::min(wait, reader.value);
    return wait;
}

} // namespace planloom::compile
