// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pass_clock.h"

#include "engine/compile/compile.h"
#include "engine/compile/deployment.h"
#include "engine/compile/stage_cache.h"
#include "engine/compile/task_times.h"

#include <optional>

namespace planloom::compile {

class PassClock::Impl {
public:
    Impl(plan::Plan plan, const plan::Subject &subject)
        : m_plan(std::move(plan)),
          m_subject(subject),
          m_samples(m_source)
    {
    }

    Status prepare(StageCache *stages)
    {
        if (Status valid = plan::validate(m_plan, m_subject); !valid)
            return valid;
        auto made = deploy(m_source, m_samples, {.bodies = false, .stages = stages}, false, false);
        if (!made)
            return made.error();
        m_made.emplace(*std::move(made));
        m_times.emplace(TimesInput{m_source, m_samples, m_made->stages, m_made->ranks, m_made->teams, m_made->parts});
        return {};
    }

    Passes of(std::size_t stage, double samples)
    {
        const StageInstance &first = m_made->instances[m_made->instances.ofStage[stage].front()];
        const TaskTimes::Slice slice{stage, samples, m_times->slice(first, 0).type, first.rank};
        const StageParts &parts = m_made->parts[stage];
        return {pass(first, slice, parts.forward, m_times->layers(slice, false)),
                pass(first, slice, parts.backward, m_times->layers(slice, true))};
    }

private:
    Pass pass(const StageInstance &first, const TaskTimes::Slice &slice, const std::vector<PassPart> &parts,
              Seconds layers)
    {
        Pass made{Seconds(0), Seconds(0)};
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (parts[i].boxing) {
                const CommunicatingOp &boxing = m_made->parts[slice.stage].boxing.at(parts[i].first);
                made.whole += m_times->collective(boxing, m_made->teams.teamOf(boxing.set, first.rank),
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
    Source m_source{m_plan, m_subject};
    Samples m_samples;
    std::optional<Deployment> m_made;
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
