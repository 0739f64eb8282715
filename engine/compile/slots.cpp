// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/slots.h"

#include "engine/compile/area_lives.h"

#include <algorithm>
#include <deque>
#include <map>

namespace planloom::compile {
namespace {

/// Hands out slots first come, first served: the one that has been free the longest goes next.
class Registers {
public:
    Registers(std::int32_t count, std::int64_t microBatches)
        : m_lastUser(static_cast<std::size_t>(count), -1),
          m_slotOf(static_cast<std::size_t>(microBatches), -1)
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
    [[nodiscard]] std::int32_t slotOf(std::int32_t microBatch) const
    {
        return m_slotOf[static_cast<std::size_t>(microBatch)];
    }

private:
    std::deque<std::int32_t> m_free;
    std::vector<std::int32_t> m_lastUser;
    std::vector<std::int32_t> m_slotOf;
};

class SlotPlanner {
public:
    SlotPlanner(const std::vector<PassStep> &order, std::int64_t microBatches, const SlotRules &rules)
        : m_order(order),
          m_microBatches(microBatches),
          m_closing(closingPass(order)),
          m_keepsSent(rules.keepsSent && splits())
    {
        const auto all = static_cast<std::int32_t>(microBatches);
        const std::int32_t flight = mostBetween(order, Pass::Forward, m_closing);
        const std::int32_t open = splits() ? mostBetween(order, Pass::Backward, m_closing) : 0;
        const int registers = rules.registers;
        const std::int32_t transfers = registers > 0 ? registers : kTransferRegisters;
        count(Area::Persistent) = 1;
        count(Area::Workspace) = 1;
        count(Area::Frame) = mostBetween(order, Pass::Forward, Pass::Backward);
        count(Area::WeightStash) = splits() ? flight : 0;
        count(Area::WeightFrame) = open;
        // An input stays until its closing pass: fewer slots than are in flight would never be enough.
        count(Area::Inbox) =
            std::min(all, registers > 0 ? std::max(flight, registers) : std::max(flight + 1, rules.inFlightBefore));
        count(Area::Outbox) = std::min(all, transfers);
        count(Area::GradientInbox) = std::min(all, std::max(transfers, registers > 0 ? open : open + 1));
        count(Area::GradientOutbox) = std::min(all, m_keepsSent ? std::max(transfers, open) : transfers);
        if (rules.roomy)
            count(Area::Inbox) = count(Area::GradientInbox) = all;
        m_plan.slotTable.resize(static_cast<std::size_t>(microBatches));
    }

    SlotPlan plan()
    {
        for (const AreaLife &life : areaLives({splits(), m_keepsSent, false})) {
            if (life.taken.pass == life.given.pass)
                inTurn(life.area, life.taken.pass);
            else
                held(life.area, life.taken.pass, life.given.pass);
        }
        return std::move(m_plan);
    }

private:
    [[nodiscard]] bool splits() const { return m_closing != Pass::Backward; }
    std::int32_t &count(Area area) { return m_plan.counts[static_cast<std::size_t>(area)]; }
    void note(Area area, std::int32_t microBatch, std::int32_t slot, std::int32_t previous)
    {
        m_plan.slotTable[static_cast<std::size_t>(microBatch)].slot[static_cast<std::size_t>(area)] = slot;
        m_plan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(microBatch)] = previous;
    }
    void begin(Area area)
    {
        m_plan.previous[static_cast<std::size_t>(area)].assign(static_cast<std::size_t>(m_microBatches), -1);
    }

    /// Taken by @p taker, given back by @p giver.
    void held(Area area, Pass taker, Pass giver)
    {
        begin(area);
        Registers registers(count(area), m_microBatches);
        for (const PassStep &step : m_order) {
            if (step.pass == giver) {
                registers.give(step.microBatch);
            } else if (step.pass == taker) {
                const std::int32_t previous = registers.take(step.microBatch);
                note(area, step.microBatch, registers.slotOf(step.microBatch), previous);
            }
        }
    }

    /// Taken and given back in the order of one pass.
    void inTurn(Area area, Pass pass)
    {
        begin(area);
        std::vector<std::int32_t> users(static_cast<std::size_t>(count(area)), -1);
        std::size_t next = 0;
        for (const PassStep &step : m_order) {
            if (step.pass != pass)
                continue;
            note(area, step.microBatch, static_cast<std::int32_t>(next), users[next]);
            users[next] = step.microBatch;
            next = (next + 1) % users.size();
        }
    }

    const std::vector<PassStep> &m_order;
    std::int64_t m_microBatches;
    Pass m_closing;
    bool m_keepsSent;
    SlotPlan m_plan;
};

} // namespace

SlotPlan planSlots(const std::vector<PassStep> &order, std::int64_t microBatches, const SlotRules &rules)
{
    return SlotPlanner(order, microBatches, rules).plan();
}

JointSlots planJointSlots(const std::vector<PassStep> &order, const std::vector<std::int64_t> &stages,
                          std::int64_t microBatches)
{
    JointSlots joint;
    joint.taken.resize(stages.size());
    std::map<std::int64_t, std::size_t> indexOf;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        if (stages[i] < 0)
            continue;
        indexOf[stages[i]] = i;
        joint.taken[i].assign(static_cast<std::size_t>(microBatches), -1);
    }
    std::vector<std::int32_t> free; // the last that was given back goes first: fewer are touched
    for (const PassStep &step : order) {
        const auto found = indexOf.find(step.stage);
        if (found == indexOf.end())
            continue;
        std::int32_t &slot = joint.taken[found->second][static_cast<std::size_t>(step.microBatch)];
        if (step.forward()) {
            if (free.empty())
                free.push_back(joint.count++);
            slot = free.back();
            free.pop_back();
        } else if (step.pass == Pass::Backward) {
            free.push_back(slot);
        }
    }
    return joint;
}

} // namespace planloom::compile
