// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/difference.h"

#include "engine/plan/training.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::plan {
namespace {

/// "0-7,9": runs of consecutive ids, in order.
std::string deviceText(const std::vector<DeviceId> &devices)
{
    std::vector<std::string> runs;
    for (std::size_t i = 0; i < devices.size();) {
        std::size_t end = i + 1;
        while (end < devices.size() && devices[end].value == devices[end - 1].value + 1)
            ++end;
        runs.push_back(end - i == 1 ? fmt::format("{}", devices[i].value)
                                    : fmt::format("{}-{}", devices[i].value, devices[end - 1].value));
        i = end;
    }
    return fmt::format("{}", fmt::join(runs, ","));
}

std::string sharesText(const std::vector<double> &shares)
{
    return shares.empty() ? "equal" : fmt::format("{:.4g}", fmt::join(shares, ":"));
}

std::string stageText(const Stage &stage)
{
    return fmt::format("layers {}..{} on devices {}", stage.firstLayer, stage.lastLayer, deviceText(stage.devices));
}

std::string warmupText(const std::vector<int> &warmup)
{
    return warmup.empty() ? "by kind" : fmt::format("{}", fmt::join(warmup, ","));
}

/// To the byte: sizes that differ must not look the same.
std::string bucketText(std::int64_t bytes)
{
    if (bytes == 0)
        return "all in one";
    const std::string text = format(Bytes(bytes));
    return bytes % (1 << 20) == 0 ? text : fmt::format("{} ({} bytes)", text, bytes);
}

std::string registersText(int registers) { return registers == 0 ? "by schedule" : std::to_string(registers); }

std::string annotationsText(const std::vector<Annotation> &annotations)
{
    std::vector<std::string> parts;
    for (const Annotation &annotation : annotations)
        parts.push_back(toText(annotation));
    return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

class Lines {
public:
    void compare(const std::string &what, const std::string &a, const std::string &b)
    {
        if (a != b)
            m_lines.push_back(fmt::format("{} {} -> {}", what, a, b));
    }
    void add(std::string line) { m_lines.push_back(std::move(line)); }
    std::vector<std::string> take() { return std::move(m_lines); }

private:
    std::vector<std::string> m_lines;
};

void compareStages(Lines &lines, std::size_t index, const Stage &a, const Stage &b)
{
    const std::string stage = fmt::format("stage {}:", index);
    lines.compare(stage + " name", a.name, b.name);
    lines.compare(stage + " layers", fmt::format("{}..{}", a.firstLayer, a.lastLayer),
                  fmt::format("{}..{}", b.firstLayer, b.lastLayer));
    lines.compare(stage + " devices", deviceText(a.devices), deviceText(b.devices));
    lines.compare(stage + " replica shares", sharesText(a.replicaShares), sharesText(b.replicaShares));
    lines.compare(stage + " recompute", name(a.recompute), name(b.recompute));
    lines.compare(stage + " ZeRO", std::to_string(a.zero), std::to_string(b.zero));
    lines.compare(stage + " memory", textOf(a.memory), textOf(b.memory));
    lines.compare(stage + " registers", registersText(a.registers), registersText(b.registers));
    lines.compare(stage + " device mesh", fmt::format("[{}]", fmt::join(a.mesh, ",")),
                  fmt::format("[{}]", fmt::join(b.mesh, ",")));
    for (const auto &[tensor, text] : a.shardings) {
        const auto other = b.shardings.find(tensor);
        lines.compare(fmt::format("{} sharding of {}", stage, tensor), text,
                      other == b.shardings.end() ? "none" : other->second);
    }
    for (const auto &[tensor, text] : b.shardings) {
        if (!a.shardings.contains(tensor))
            lines.add(fmt::format("{} sharding of {} none -> {}", stage, tensor, text));
    }
}

std::string optimizerText(const Optimizer &optimizer)
{
    std::string settings;
    for (const auto &[name, value] : optimizer.rule.formula().settings)
        settings += fmt::format("{} {:g}, ", name, value);
    return fmt::format("{} (rate {:g}, {}decay {:g})", optimizer.rule.name(), optimizer.learningRate, settings,
                       optimizer.weightDecay);
}

std::string learningRateText(const LearningRateSchedule &schedule)
{
    const std::string end = schedule.totalSteps == 0 ? "the end" : fmt::format("step {}", schedule.totalSteps);
    if (schedule.kind == LearningRateSchedule::Kind::Constant)
        return fmt::format("constant after {} warm-up steps", schedule.warmupSteps);
    return fmt::format("{} to {:g} at {} after {} warm-up steps", name(schedule.kind), schedule.minimum, end,
                       schedule.warmupSteps);
}

std::string groupsText(const std::vector<ParameterGroup> &groups)
{
    std::vector<std::string> parts;
    for (const ParameterGroup &group : groups)
        parts.push_back(
            fmt::format("{} (decay {:g}, rate x {:g})", group.match, group.weightDecay, group.learningRateFactor));
    return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string exchangeText(const Exchange &exchange)
{
    std::string text = textOf(exchange);
    for (const ExchangeGroup &group : exchange.groups)
        text += fmt::format(", {}: {}", group.match, name(group.policy));
    return text;
}

std::string profileText(const cost::Profile *profile)
{
    if (profile == nullptr)
        return "none";
    return fmt::format("{} times of {} ({})", profile->ops.size() + profile->kernels.size(),
                       profile->deviceType.empty() ? "every device" : profile->deviceType, profile->source);
}

std::string trainingText(const Plan &plan)
{
    if (!plan.admm)
        return "by gradients";
    return textOf(*plan.admm)
        + (plan.then
               ? fmt::format(", after {} steps by gradients: {}", plan.then->after, optimizerText(plan.then->optimizer))
               : std::string());
}

std::string jobText(const std::optional<SampledJob> &job)
{
    if (!job)
        return "none";
    return fmt::format("gnn-sampled (graph {}, fan-out {}, {}, seed {}, prefetch {}, transfers {})",
                       job->graph.sha256.substr(0, 8), job->fanout.first, job->fanout.second, job->seed, job->prefetch,
                       gnn::name(job->transfers));
}

std::string placeText(const PlacedRole *role)
{
    if (role == nullptr)
        return "none";
    if (role->kind == gnn::RoleKind::GraphStore)
        return fmt::format("on {}, part {}", role->machine, role->part);
    return fmt::format("on {}, for trainer {}", role->machine, role->trainer);
}

const PlacedRole *roleNamed(const Plan &plan, const std::string &name)
{
    const auto found = std::find_if(plan.roles.begin(), plan.roles.end(),
                                    [&name](const PlacedRole &role) { return role.name == name; });
    return found == plan.roles.end() ? nullptr : &*found;
}

void compareJobs(Lines &lines, const Plan &a, const Plan &b)
{
    lines.compare("job", jobText(a.job), jobText(b.job));
    for (const PlacedRole &role : a.roles)
        lines.compare("role " + role.name, placeText(&role), placeText(roleNamed(b, role.name)));
    for (const PlacedRole &role : b.roles) {
        if (roleNamed(a, role.name) == nullptr)
            lines.compare("role " + role.name, "none", placeText(&role));
    }
}

void compareTraining(Lines &lines, const Plan &a, const Plan &b)
{
    lines.compare("precision", name(a.precision), name(b.precision));
    lines.compare("optimizer", optimizerText(a.optimizer), optimizerText(b.optimizer));
    lines.compare("gradients clipped to norm", fmt::format("{:g}", a.optimizer.clipNorm),
                  fmt::format("{:g}", b.optimizer.clipNorm));
    lines.compare("learning rate", learningRateText(a.optimizer.schedule), learningRateText(b.optimizer.schedule));
    lines.compare("parameter groups", groupsText(a.optimizer.groups), groupsText(b.optimizer.groups));
}

} // namespace

std::vector<std::string> difference(const Plan &a, const Plan &b)
{
    Lines lines;
    lines.compare("model", a.modelName, b.modelName);
    lines.compare("cluster", a.clusterName, b.clusterName);
    lines.compare("planner", a.planner.name, b.planner.name);
    lines.compare("annotations", annotationsText(a.annotations), annotationsText(b.annotations));
    lines.compare("global batch", std::to_string(a.globalBatch), std::to_string(b.globalBatch));
    lines.compare("micro-batches", std::to_string(a.microBatches), std::to_string(b.microBatches));
    const std::size_t both = std::min(a.stages.size(), b.stages.size());
    for (std::size_t i = 0; i < both; ++i)
        compareStages(lines, i, a.stages[i], b.stages[i]);
    for (std::size_t i = both; i < a.stages.size(); ++i)
        lines.add(fmt::format("stage {}: removed ({})", i, stageText(a.stages[i])));
    for (std::size_t i = both; i < b.stages.size(); ++i)
        lines.add(fmt::format("stage {}: added, {}", i, stageText(b.stages[i])));
    lines.compare("schedule", name(a.schedule.kind), name(b.schedule.kind));
    lines.compare("warm-up", warmupText(a.schedule.warmup), warmupText(b.schedule.warmup));
    lines.compare("lane policy", a.schedule.lanePolicy.empty() ? "fifo" : a.schedule.lanePolicy,
                  b.schedule.lanePolicy.empty() ? "fifo" : b.schedule.lanePolicy);
    if (a.schedule.order != b.schedule.order)
        lines.add("order of tasks changed");
    lines.compare("exchange", exchangeText(a.exchange), exchangeText(b.exchange));
    lines.compare("gradient buckets", bucketText(a.bucketBytes), bucketText(b.bucketBytes));
    compareTraining(lines, a, b);
    lines.compare("training", trainingText(a), trainingText(b));
    compareJobs(lines, a, b);
    return lines.take();
}

std::vector<std::string> difference(const Subject &a, const Subject &b)
{
    Lines lines;
    if (a.graph != b.graph && graph::toJson(*a.graph) != graph::toJson(*b.graph))
        lines.add("model: operators, tensors or sizes differ");
    if (a.cluster != b.cluster && cluster::toJson(*a.cluster) != cluster::toJson(*b.cluster))
        lines.add("cluster: devices or links differ");
    const cost::Profile *first = a.profile.get();
    const cost::Profile *second = b.profile.get();
    const std::string text = profileText(first), other = profileText(second);
    if (text != other)
        lines.compare("profile", text, other);
    else if (first != second && cost::toJson(*first) != cost::toJson(*second))
        lines.add("profile: other times of " + text);
    return lines.take();
}

} // namespace planloom::plan
