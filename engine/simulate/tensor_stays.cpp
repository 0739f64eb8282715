// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/tensor_stays.h"

#include <algorithm>
#include <map>
#include <utility>

namespace planloom::simulate {
namespace {

using Where = Stay::Where;
using Key = std::pair<TensorId, std::int32_t>; ///< of a tensor of a rank: with its micro-batch

/// One rank's tensors, told of what happens to them in the order of its decisions.
class RankStays {
public:
    RankStays(const program::Program &program, const program::Rank &rank,
              const std::vector<const trace::Record *> &records)
        : m_records(records)
    {
        for (const TaskId task : rank.tasks)
            if (const auto *swap = program.task(task).as<program::Swap>(); swap != nullptr && !swap->out)
                if (const trace::Record *record = of(task)) {
                    const program::HostCopy &copy = program.copyOf(*swap);
                    const std::int32_t microBatch = copy.parameter ? -1 : program.task(task).microBatch;
                    m_back[{copy.tensor, microBatch}].push_back(record);
                }
        for (auto &[key, copies] : m_back)
            std::sort(copies.begin(), copies.end(), [](const auto *a, const auto *b) { return a->start < b->start; });
        for (const program::MemoryDecision &decision : rank.decisions)
            m_decisions[{decision.tensor, decision.microBatch}].push_back(&decision);
    }

    std::vector<Stay> of(const program::MovedTensor &tensor) const
    {
        std::vector<Stay> stays;
        const trace::Record *made = of(tensor.made);
        const trace::Record *last = of(tensor.last);
        if (made == nullptr || last == nullptr)
            return stays;
        std::int64_t now = made->start + made->duration;
        const std::int64_t end = std::max(now, last->start + last->duration);
        const auto until = [&](std::int64_t time, Where where) {
            const std::int64_t to = std::clamp(time, now, end);
            if (to > now)
                stays.push_back({where, std::exchange(now, to), to});
        };
        const Key key{tensor.tensor, tensor.microBatch};
        const auto &decisions = m_decisions.at(key);
        for (std::size_t d = 0; d < decisions.size(); ++d) {
            const trace::Record *task = of(decisions[d]->task);
            if (task == nullptr)
                break;
            if (decisions[d]->what.action == memory::Decision::Action::Recompute) {
                const trace::Record *room = of(decisions[d]->room);
                until(room != nullptr ? room->start : task->start, Where::Device);
                until(task->start + task->duration, Where::Dropped);
                continue;
            }
            if (decisions[d]->what.action == memory::Decision::Action::Drop) { // the host has it
                const trace::Record *room = of(decisions[d]->room);
                until(room != nullptr ? std::min(room->start, task->start) : task->start, Where::Device);
                until(task->start, Where::Host);
                until(task->start + task->duration, Where::Coming);
                continue;
            }
            until(task->start, Where::Device);
            until(task->start + task->duration, Where::Leaving);
            const trace::Record *back = nextBack(key, now);
            const trace::Record *next = d + 1 < decisions.size() ? of(decisions[d + 1]->task) : nullptr;
            if (back == nullptr || (next != nullptr && back->start > next->start)) // used before it had left
                continue;
            until(back->start, Where::Host);
            until(back->start + back->duration, Where::Coming);
        }
        until(end, Where::Device);
        return stays;
    }

private:
    [[nodiscard]] const trace::Record *of(TaskId task) const
    {
        return task.valid() ? m_records[task.index()] : nullptr;
    }
    [[nodiscard]] const trace::Record *nextBack(const Key &key, std::int64_t from) const
    {
        const auto copies = m_back.find(key);
        if (copies == m_back.end())
            return nullptr;
        const auto next = std::find_if(copies->second.begin(), copies->second.end(),
                                       [from](const trace::Record *record) { return record->start >= from; });
        return next == copies->second.end() ? nullptr : *next;
    }

    const std::vector<const trace::Record *> &m_records;
    std::map<Key, std::vector<const trace::Record *>> m_back; ///< copies from the host, by their starts
    std::map<Key, std::vector<const program::MemoryDecision *>> m_decisions;
};

} // namespace

std::vector<TensorStays> tensorStays(const program::Program &program, std::span<const trace::Record> records)
{
    std::vector<const trace::Record *> byTask(program.tasks.size(), nullptr);
    for (const trace::Record &record : records)
        if (record.task >= 0 && static_cast<std::size_t>(record.task) < byTask.size())
            byTask[static_cast<std::size_t>(record.task)] = &record;
    std::vector<TensorStays> all;
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
        const program::Rank &rank = program.ranks[r];
        if (rank.moved.empty())
            continue;
        const RankStays stays(program, rank, byTask);
        for (std::size_t t = 0; t < rank.moved.size(); ++t)
            all.push_back({RankId(static_cast<std::int64_t>(r)), t, stays.of(rank.moved[t])});
    }
    return all;
}

} // namespace planloom::simulate
