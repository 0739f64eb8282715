// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/fingerprint.h"

#include "engine/base/files.h"
#include "engine/plan/stage_settings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace planloom::plan {
namespace {

constexpr std::size_t kSubjects = 8; // an undo or two back to a cluster before its edits

/// Whether stages on devices of their own compute in an order that follows from their warm-up depths. Every kind has a
/// case: one that were taken for such an order would share the fingerprint of another.
bool isByDepth(ScheduleKind kind)
{
    switch (kind) {
    case ScheduleKind::GPipe:
    case ScheduleKind::OneF1B:
    case ScheduleKind::DappleA:
    case ScheduleKind::DappleB:
    case ScheduleKind::Interleaved1F1B: return true;
    case ScheduleKind::ZeroBubbleH1:
    case ScheduleKind::Custom: return false;
    }
    return false;
}

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
    const bool byDepth = !shared && isByDepth(schedule.kind);
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

/// What a job adds to the figures.
std::string jobKey(const Plan &plan)
{
    if (!plan.job)
        return {};
    const SampledJob &job = *plan.job;
    std::string text = fmt::format("|job {} {}x{} {} {} {} {} {} {} {} {} {}|{}", job.graph.sha256, job.fanout.first,
                                   job.fanout.second, job.seed, job.prefetch, gnn::name(job.transfers), job.chunkBytes,
                                   job.drawSeconds, job.rowSeconds, job.sampleSeconds, job.updateSeconds,
                                   fmt::join(job.volumes.features, ","), fmt::join(job.volumes.batches, ","));
    for (const PlacedRole &role : plan.roles)
        text += fmt::format("|{} {} {} {} {}", role.name, gnn::name(role.kind), role.machine, role.part, role.trainer);
    return text;
}

/// Snapshots are compared by identity: nothing in them changes.
bool same(const Subject &a, const Subject &b)
{
    return a.graph == b.graph && a.cluster == b.cluster && a.profile == b.profile;
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
    if (plan.admm)
        text += "|" + textOf(*plan.admm);
    if (plan.then)
        text += fmt::format("|then {} {}", plan.then->after, optimizerKey(plan.then->optimizer));
    return text + jobKey(plan);
}

std::string subjectHash(const Subject &subject)
{
    return sha256(graph::toJson(*subject.graph) + cluster::toJson(*subject.cluster, false)
                  + (subject.profile ? cost::toJson(*subject.profile) : std::string()));
}

std::string fingerprint(const Document &document)
{
    return sha256(subjectHash(document.subject) + simulationKey(document.plan));
}

void Fingerprints::add(const Subject &subject, std::string hash)
{
    std::erase_if(m_entries, [&](const Entry &entry) { return same(entry.subject, subject); });
    m_entries.push_front({subject, std::move(hash)});
    if (m_entries.size() > kSubjects)
        m_entries.pop_back();
}

bool Fingerprints::knows(const Subject &subject) const { return find(subject) != nullptr; }

const Fingerprints::Entry *Fingerprints::find(const Subject &subject) const
{
    const auto found = std::find_if(m_entries.begin(), m_entries.end(),
                                    [&](const Entry &entry) { return same(entry.subject, subject); });
    return found == m_entries.end() ? nullptr : &*found;
}

std::string Fingerprints::of(const Document &document) const
{
    const Entry *entry = find(document.subject);
    return entry ? sha256(entry->hash + simulationKey(document.plan)) : std::string();
}

} // namespace planloom::plan
