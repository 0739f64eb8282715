// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/fingerprint.h"

#include "engine/base/files.h"
#include "engine/plan/stage_settings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::plan {
namespace {

/// The order of passes, whatever it is called.
std::string scheduleKey(const Plan &plan)
{
    const Schedule &schedule = plan.schedule;
    if (schedule.kind == ScheduleKind::Custom) {
        std::string text = "custom";
        for (const auto &[device, order] : schedule.order) {
            text += fmt::format(" {}=", device);
            for (const schedule::PassStep &step : order)
                text += schedule::textOf(step) + ",";
        }
        return text;
    }
    const auto groups = stageGroups(plan);
    const bool shared = std::any_of(groups.begin(), groups.end(), [](const auto &group) { return group.size() > 1; });
    const bool byDepth = !shared && schedule.kind != ScheduleKind::ZeroBubbleH1; // the kind only decides the depths
    return fmt::format("{} w{}", byDepth ? "1f1b" : name(schedule.kind), fmt::join(warmupDepths(plan), ","));
}

std::string exchangeKey(const Exchange &exchange)
{
    std::string text = textOf(exchange);
    for (const ExchangeGroup &group : exchange.groups)
        text += fmt::format(" {}={}", group.match, name(group.policy));
    return text;
}

std::string optimizerKey(const Optimizer &optimizer)
{
    std::string text = fmt::format("{} {}", optimizer.rule.name(), optimizer.clipNorm > 0 ? "clipped" : "");
    for (const auto &[name, value] : optimizer.rule.formula().settings)
        text += fmt::format(" {}={}", name, value);
    return text;
}

std::string subjectHash(const Subject &subject)
{
    return sha256(graph::toJson(*subject.graph) + cluster::toJson(*subject.cluster)
                  + (subject.profile ? cost::toJson(*subject.profile) : std::string()));
}

} // namespace

std::string simulationKey(const Plan &plan)
{
    std::string text =
        fmt::format("{}/{} {} {} {}|{}|{}|{}", plan.globalBatch, plan.microBatches, name(plan.precision),
                    plan.bucketBytes, exchangeKey(plan.exchange), optimizerKey(plan.optimizer), scheduleKey(plan),
                    plan.schedule.lanePolicy == "fifo" ? "" : plan.schedule.lanePolicy);
    for (const Stage &stage : plan.stages) {
        text += fmt::format("|{}-{} {}", stage.firstLayer, stage.lastLayer, textOf(settingsOf(stage)));
        for (const DeviceId device : stage.devices)
            text += fmt::format(" {}", device.value);
        for (const auto &[tensor, sbp] : stage.shardings)
            text += fmt::format(" {}={}", tensor, sbp);
    }
    return text;
}

std::string fingerprint(const Document &document) { return Fingerprints().of(document); }

const std::string &Fingerprints::of(const Document &document)
{
    const Subject &subject = document.subject;
    const bool sameSubject = m_subject.graph == subject.graph && m_subject.cluster == subject.cluster
        && m_subject.profile == subject.profile && !m_subjectHash.empty();
    if (!sameSubject) {
        m_subject = subject;
        m_subjectHash = subjectHash(subject);
        m_last.clear();
    }
    std::string key = simulationKey(document.plan);
    if (m_last.empty() || key != m_key) {
        m_key = std::move(key);
        m_last = sha256(m_subjectHash + m_key);
    }
    return m_last;
}

} // namespace planloom::plan
