// SPDX-License-Identifier: Apache-2.0
#include "engine/program/slots.h"

#include <algorithm>
#include <deque>

namespace planloom::program {
namespace {

/// Hands out slots first come, first served: the one that has been free the longest goes next.
class Registers {
public:
    Registers(std::int32_t count, std::int64_t microBatches)
        : m_lastUser(static_cast<std::size_t>(count), -1), m_slotOf(static_cast<std::size_t>(microBatches), -1)
    {
        for (std::int32_t s = 0; s < count; ++s)
            m_free.push_back(s);
    }

    /// Returns the micro-batch that had the slot before.
    std::int32_t take(std::int32_t microBatch)
    {
        const std::int32_t slot = m_free.front();
        m_free.pop_front();
        m_slotOf[static_cast<std::size_t>(microBatch)] = slot;
        return std::exchange(m_lastUser[static_cast<std::size_t>(slot)], microBatch);
    }
    void give(std::int32_t microBatch) { m_free.push_back(slotOf(microBatch)); }
    [[nodiscard]] std::int32_t slotOf(std::int32_t microBatch) const { return m_slotOf[static_cast<std::size_t>(microBatch)]; }

private:
    std::deque<std::int32_t> m_free;
    std::vector<std::int32_t> m_lastUser;
    std::vector<std::int32_t> m_slotOf;
};

class SlotPlanner {
public:
    SlotPlanner(const std::vector<PassStep> &order, std::int64_t microBatches, int inFlightBefore, int registers) : m_order(order), m_microBatches(microBatches)
    {
        const auto all = static_cast<std::int32_t>(microBatches);
        const std::int32_t flight = maxInFlight(order);
        count(Area::Persistent) = 1;
        count(Area::Workspace) = 1;
        count(Area::Frame) = flight;
        // An input stays until its backward pass: fewer slots than are in flight would never be enough.
        count(Area::Inbox) = std::min(all, registers > 0 ? std::max(flight, registers) : std::max(flight + 1, inFlightBefore));
        for (const Area area : {Area::Outbox, Area::GradientInbox, Area::GradientOutbox})
            count(area) = std::min(all, registers > 0 ? registers : kTransferRegisters);
        m_plan.slotTable.resize(static_cast<std::size_t>(microBatches));
    }

    SlotPlan plan()
    {
        heldUntilBackward(Area::Inbox);
        heldUntilBackward(Area::Frame);
        inTurn(Area::Outbox, true);
        inTurn(Area::GradientInbox, false);
        inTurn(Area::GradientOutbox, false);
        return std::move(m_plan);
    }

private:
    std::int32_t &count(Area area) { return m_plan.counts[static_cast<std::size_t>(area)]; }
    void note(Area area, std::int32_t microBatch, std::int32_t slot, std::int32_t previous)
    {
        m_plan.slotTable[static_cast<std::size_t>(microBatch)].slot[static_cast<std::size_t>(area)] = slot;
        m_plan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(microBatch)] = previous;
    }
    void begin(Area area) { m_plan.previous[static_cast<std::size_t>(area)].assign(static_cast<std::size_t>(m_microBatches), -1); }

    /// Taken by forward, given back by backward.
    void heldUntilBackward(Area area)
    {
        begin(area);
        Registers registers(count(area), m_microBatches);
        for (const PassStep &step : m_order) {
            if (!step.forward) {
                registers.give(step.microBatch);
                continue;
            }
            const std::int32_t previous = registers.take(step.microBatch);
            note(area, step.microBatch, registers.slotOf(step.microBatch), previous);
        }
    }

    /// Taken and given back in the order of one pass.
    void inTurn(Area area, bool forward)
    {
        begin(area);
        std::vector<std::int32_t> users(static_cast<std::size_t>(count(area)), -1);
        std::size_t next = 0;
        for (const PassStep &step : m_order) {
            if (step.forward != forward)
                continue;
            note(area, step.microBatch, static_cast<std::int32_t>(next), users[next]);
            users[next] = step.microBatch;
            next = (next + 1) % users.size();
        }
    }

    const std::vector<PassStep> &m_order;
    std::int64_t m_microBatches;
    SlotPlan m_plan;
};

} // namespace

SlotPlan planSlots(const std::vector<PassStep> &order, std::int64_t microBatches, int inFlightBefore, int registers)
{
    return SlotPlanner(order, microBatches, inFlightBefore, registers).plan();
}

} // namespace planloom::program
