// SPDX-License-Identifier: Apache-2.0
#include "engine/program/schedule.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace planloom::program {
namespace {

/// Reads digits and moves behind them. False if there are none.
bool readNumber(std::string_view &text, std::int32_t &number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0)
        return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

/// Reads "s<stage>.F.m<micro-batch>", or ".B.", ".W.". False if it is anything else.
bool parsePass(std::string_view id, PassStep &step)
{
    if (!id.starts_with('s'))
        return false;
    id.remove_prefix(1);
    if (!readNumber(id, step.stage))
        return false;
    if (id.starts_with(".F.m"))
        step.pass = Pass::Forward;
    else if (id.starts_with(".B.m"))
        step.pass = Pass::Backward;
    else if (id.starts_with(".W.m"))
        step.pass = Pass::WeightGradient;
    else
        return false;
    id.remove_prefix(4);
    return readNumber(id, step.microBatch) && id.empty();
}

const char *letter(int done) { return done == 0 ? "F" : done == 1 ? "B" : "W"; }

/// Reads the order of one device and checks that each pass comes once and behind the one that it needs.
class CustomOrder {
public:
    CustomOrder(const plan::Plan &plan, const std::vector<std::size_t> &stages, const std::string &device) : m_plan(plan), m_device(device)
    {
        for (const std::size_t stage : stages) {
            State &state = m_states[static_cast<std::int32_t>(stage)];
            state.passes = plan::splitsBackward(plan.schedule, stage) ? 3 : 2;
            state.done.assign(static_cast<std::size_t>(plan.microBatches), 0);
        }
    }

    Result<std::vector<PassStep>> read()
    {
        const auto found = m_plan.schedule.order.find(m_device);
        if (found == m_plan.schedule.order.end())
            return badInput(fmt::format("schedule.order has no entry for device {}; list its tasks (s{}.F.m0, ...)", m_device, m_states.begin()->first));
        for (const std::string &id : found->second)
            if (const Status taken = take(id); !taken)
                return taken.error();
        for (const auto &[stage, state] : m_states)
            for (std::size_t m = 0; m < state.done.size(); ++m)
                if (state.done[m] != state.passes)
                    return badInput(fmt::format("schedule.order of {}: s{}.{}.m{} is missing", m_device, stage, letter(state.done[m]), m));
        return std::move(m_order);
    }

private:
    /// What has been listed of one stage.
    struct State {
        int passes = 2;
        std::vector<int> done; ///< per micro-batch: 1 after forward, 2 after backward, 3 after the gradients of weights
    };

    [[nodiscard]] std::string tasks() const
    {
        std::vector<std::string> ranges;
        for (const auto &[stage, state] : m_states)
            ranges.push_back(fmt::format("s{}.F.m0 to s{}.{}.m{}", stage, stage, letter(state.passes - 1), m_plan.microBatches - 1));
        return fmt::format("{}", fmt::join(ranges, ", "));
    }

    [[nodiscard]] std::string stages() const
    {
        std::vector<std::int32_t> numbers;
        for (const auto &entry : m_states)
            numbers.push_back(entry.first);
        return fmt::format("stage{} {}", numbers.size() > 1 ? "s" : "", fmt::join(numbers, ", "));
    }

    Status take(const std::string &id)
    {
        PassStep step;
        const bool known = parsePass(id, step) && m_states.contains(step.stage) && step.microBatch < m_plan.microBatches;
        const int number = step.pass == Pass::Forward ? 0 : step.pass == Pass::Backward ? 1 : 2;
        if (!known || number >= m_states[step.stage].passes)
            return badInput(fmt::format("schedule.order of {}: '{}' is no task of {}; tasks are {}", m_device, id, stages(), tasks()));
        int &done = m_states[step.stage].done[static_cast<std::size_t>(step.microBatch)];
        if (number < done)
            return badInput(fmt::format("schedule.order of {}: '{}' is listed twice", m_device, id));
        if (number > done)
            return badInput(fmt::format("schedule.order of {}: '{}' comes before its {} pass", m_device, id, done == 0 ? "forward" : "backward"));
        ++done;
        m_order.push_back(step);
        return {};
    }

    const plan::Plan &m_plan;
    const std::string &m_device;
    std::map<std::int32_t, State> m_states;
    std::vector<PassStep> m_order;
};

/// All forwards of one stage after the other, then all backwards, last stage first.
std::vector<PassStep> stageByStage(std::int64_t microBatches, const std::vector<std::size_t> &stages)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    std::vector<PassStep> order;
    for (const std::size_t stage : stages)
        for (std::int32_t m = 0; m < count; ++m)
            order.push_back({Pass::Forward, m, static_cast<std::int32_t>(stage)});
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
        for (std::int32_t m = 0; m < count; ++m)
            order.push_back({Pass::Backward, m, static_cast<std::int32_t>(*stage)});
    return order;
}

} // namespace

std::vector<PassStep> earlyBackwardOrder(std::int64_t microBatches, int depth, std::int32_t stage)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    const std::int32_t warm = std::clamp<std::int32_t>(depth, 1, count);
    std::vector<PassStep> order;
    order.reserve(static_cast<std::size_t>(count) * 2);
    for (std::int32_t m = 0; m < warm; ++m)
        order.push_back({Pass::Forward, m, stage});
    for (std::int32_t m = warm; m < count; ++m) {
        order.push_back({Pass::Backward, m - warm, stage});
        order.push_back({Pass::Forward, m, stage});
    }
    for (std::int32_t m = count - warm; m < count; ++m)
        order.push_back({Pass::Backward, m, stage});
    return order;
}

std::vector<PassStep> interleavedOrder(std::int64_t microBatches, std::int32_t rank, std::int32_t ranks, std::int32_t chunks)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    const std::int32_t groups = std::max(1, count / ranks);
    const std::int32_t largest = (count + groups - 1) / groups;
    std::vector<PassStep> forwards, backwards;
    for (std::int32_t g = 0, first = 0; g < groups; ++g) {
        const std::int32_t last = first + count / groups + (g < count % groups ? 1 : 0);
        for (std::int32_t c = 0; c < chunks; ++c) {
            for (std::int32_t m = first; m < last; ++m) {
                forwards.push_back({Pass::Forward, m, c * ranks + rank});
                backwards.push_back({Pass::Backward, m, (chunks - 1 - c) * ranks + rank});
            }
        }
        first = last;
    }
    const auto total = forwards.size();
    const auto warm = std::min(total, static_cast<std::size_t>((chunks - 1) * largest + 2 * (ranks - rank - 1)));
    std::vector<PassStep> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm));
    order.reserve(2 * total);
    for (std::size_t k = warm; k < total; ++k) {
        order.push_back(forwards[k]);
        order.push_back(backwards[k - warm]);
    }
    order.insert(order.end(), backwards.end() - static_cast<std::ptrdiff_t>(warm), backwards.end());
    return order;
}

std::vector<PassStep> zeroBubbleOrder(std::int64_t microBatches, int depth, int delay, std::int32_t stage)
{
    const auto count = static_cast<std::int32_t>(microBatches);
    std::vector<PassStep> order;
    order.reserve(static_cast<std::size_t>(count) * 3);
    for (const PassStep &step : earlyBackwardOrder(microBatches, depth, stage)) {
        order.push_back(step);
        if (step.pass == Pass::Backward && step.microBatch >= delay)
            order.push_back({Pass::WeightGradient, step.microBatch - delay, stage});
    }
    for (std::int32_t m = std::max(0, count - delay); m < count; ++m)
        order.push_back({Pass::WeightGradient, m, stage});
    return order;
}

Result<std::vector<PassStep>> passOrder(const plan::Plan &plan, const std::vector<std::size_t> &stages, const std::string &device)
{
    const std::size_t stage = stages.front();
    const auto number = static_cast<std::int32_t>(stage);
    if (plan.schedule.kind == plan::ScheduleKind::Custom)
        return CustomOrder(plan, stages, device).read();
    if (plan.schedule.kind == plan::ScheduleKind::ZeroBubbleH1)
        return zeroBubbleOrder(plan.microBatches, plan::warmupDepths(plan)[stage], number, number);
    if (stages.size() == 1)
        return earlyBackwardOrder(plan.microBatches, plan::warmupDepths(plan)[stage], number);
    if (plan.schedule.kind == plan::ScheduleKind::GPipe)
        return stageByStage(plan.microBatches, stages);
    const auto ranks = static_cast<std::int32_t>(stages[1] - stages[0]);
    return interleavedOrder(plan.microBatches, number, ranks, static_cast<std::int32_t>(stages.size()));
}

std::vector<PassStep> stepsOf(const std::vector<PassStep> &order, std::size_t stage)
{
    std::vector<PassStep> steps;
    for (const PassStep &step : order)
        if (step.stage == static_cast<std::int32_t>(stage))
            steps.push_back(step);
    return steps;
}

int mostBetween(const std::vector<PassStep> &order, Pass from, Pass to)
{
    int now = 0;
    int most = 0;
    for (const PassStep &step : order) {
        now += step.pass == from ? 1 : step.pass == to ? -1 : 0;
        most = std::max(most, now);
    }
    return most;
}

Pass closingPass(const std::vector<PassStep> &order)
{
    const auto weights = [](const PassStep &step) { return step.pass == Pass::WeightGradient; };
    return std::any_of(order.begin(), order.end(), weights) ? Pass::WeightGradient : Pass::Backward;
}

int maxInFlight(const std::vector<PassStep> &order) { return mostBetween(order, Pass::Forward, closingPass(order)); }

} // namespace planloom::program
