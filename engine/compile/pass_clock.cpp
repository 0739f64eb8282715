// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pass_clock.h"

#include "engine/compile/compilation.h"
#include "engine/compile/stage_cache.h"
#include "engine/compile/task_times.h"

#include <optional>

namespace planloom::compile {

class PassClock::Impl {
public:
    Impl(plan::Plan plan, const plan::Subject &subject)
        : m_plan(std::move(plan)),
          m_subject(subject),
          m_all(m_plan, m_subject)
    {
    }

    Status prepare(StageCache *stages)
    {
        if (Status valid = plan::validate(m_plan, m_subject); !valid)
            return valid;
        if (Status prepared = compile::prepare(m_all, {.bodies = false, .stages = stages}); !prepared)
            return prepared;
        m_parts = partsOfStages(m_all);
        m_times.emplace(m_all, m_parts);
        return {};
    }

    Passes of(std::size_t stage, double samples)
    {
        const RankSite &site = m_all.sites[m_all.sitesOf[stage].front()];
        const TaskTimes::Slice slice{stage, samples, m_times->slice(site, 0).type};
        const StageParts &parts = m_parts[stage];
        return {pass(site, slice, parts.forward, m_times->layers(slice, false)),
                pass(site, slice, parts.backward, m_times->layers(slice, true))};
    }

private:
    Pass pass(const RankSite &site, const TaskTimes::Slice &slice, const std::vector<PassPart> &parts, Seconds layers)
    {
        Pass made{Seconds(0), Seconds(0)};
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (parts[i].boxing) {
                const CommunicatingOp &boxing = m_parts[slice.stage].boxing.at(parts[i].first);
                made.whole += m_times->collective(boxing, m_all.teams->teamOf(boxing.set, site.rank),
                                                  m_times->boxedBytes(slice, parts[i].first));
                continue;
            }
            const Seconds run = m_times->run(slice, parts[i], layers * parts[i].share);
            made.whole += run;
            made.computing += run;
        }
        return made;
    }

    plan::Plan m_plan;
    plan::Subject m_subject;
    Compilation m_all;
    std::vector<StageParts> m_parts;
    std::optional<TaskTimes> m_times;
};

PassClock::PassClock(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
PassClock::PassClock(PassClock &&) noexcept = default;
PassClock &PassClock::operator=(PassClock &&) noexcept = default;
PassClock::~PassClock() = default;

Result<PassClock> PassClock::make(plan::Plan plan, const plan::Subject &subject, StageCache *stages)
{
    auto impl = std::make_unique<Impl>(std::move(plan), subject);
    if (const Status prepared = impl->prepare(stages); !prepared)
        return prepared.error();
    return PassClock(std::move(impl));
}

PassClock::Passes PassClock::of(std::size_t stage, double samples) { return m_impl->of(stage, samples); }

} // namespace planloom::compile
