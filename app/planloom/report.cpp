// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/report.h"

#include "engine/cluster/cores.h"
#include "engine/cost/host_operators.h"
#include "engine/plan/node_spans.h"
#include "engine/plan/role_cores.h"
#include "engine/plan/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace planloom::cli {

void printReport(const simulate::Report &report, Output &output)
{
    output.line(fmt::format("iteration     {}  ({:.4g} samples/s, at least {})",
                            format(Seconds(report.iterationSeconds)), report.samplesPerSecond,
                            format(Seconds(report.lowerBoundSeconds))));
    output.line(fmt::format("bubble        {}", percent(report.bubbleFraction)));
    if (report.speedupOverOneDevice > 0)
        output.line(fmt::format("speed-up      {:.2f} over one device", report.speedupOverOneDevice));
    output.line(fmt::format("memory        {}", report.fits ? "fits" : "DOES NOT FIT"));
    Table table({"DEVICE", "PEAK", "OF", "BUSY", "COMMUNICATION"});
    for (const auto &device : report.devices) {
        const bool over = device.peakBytes > device.capacityBytes;
        table.row({device.id, format(Bytes(device.peakBytes)) + (over ? " !" : ""), format(Bytes(device.capacityBytes)),
                   percent(device.busyFraction), percent(device.commFraction)});
    }
    table.print(output);
}

void noteOnProcessors(const std::string &folder, const run::Summary &summary, Output &output)
{
    if (summary.ranksOnProcessors > 0)
        output.note(fmt::format("{}: {} of the plan's GPUs were not there; processors trained in their place, and the "
                                "measured times say nothing about the GPUs",
                                folder, summary.ranksOnProcessors));
}

std::string deviceList(const std::vector<DeviceId> &devices, const cluster::Cluster &cluster)
{
    std::string text;
    for (std::size_t i = 0; i < devices.size();) {
        std::size_t last = i;
        while (last + 1 < devices.size() && devices[last + 1].value == devices[last].value + 1)
            ++last;
        text += (text.empty() ? "" : ", ") + cluster.device(devices[i]).name;
        if (last > i)
            text += ".." + cluster.device(devices[last]).name;
        i = last + 1;
    }
    return text;
}

void printWhy(const plan::Why &why, double iterationSeconds, Output &output)
{
    output.line(fmt::format("limited by    {}: {}", why.limit, why.detail));
    const auto seconds = [](double value) { return value > 0 ? format(Seconds(value)) : std::string("-"); };
    const auto bytes = [](std::int64_t value) { return format(Bytes(value)); };
    Table times({"STAGE", "BUSIEST", "FORWARD", "BACKWARD", "RECOMPUTE", "OPTIMIZER", "BOXING", "TRANSFERS",
                 "ALL-REDUCE", "EXPOSED", "IDLE", "LIMIT"});
    Table memory({"STAGE", "PARAMETERS", "GRADIENTS", "OPTIMIZER", "ACTIVATIONS", "OTHER", "OF"});
    for (std::size_t s = 0; s < why.stages.size(); ++s) {
        const plan::StageWhy &stage = why.stages[s];
        times.row({std::to_string(s), stage.device, seconds(stage.forwardSeconds), seconds(stage.backwardSeconds),
                   seconds(stage.recomputeSeconds), seconds(stage.optimizerSeconds), seconds(stage.boxingSeconds),
                   seconds(stage.transferSeconds), seconds(stage.exchangeSeconds),
                   seconds(stage.exposedExchangeSeconds), seconds(stage.idleSeconds), stage.limit});
        memory.row({std::to_string(s), bytes(stage.parameterBytes), bytes(stage.gradientBytes),
                    bytes(stage.optimizerBytes), bytes(stage.activationBytes), bytes(stage.otherBytes),
                    bytes(stage.capacityBytes)});
    }
    times.print(output);
    memory.print(output);
    if (!why.runnerUp)
        return;
    const std::string longer = iterationSeconds > 0
        ? fmt::format(" ({:.1f} % longer)", 100 * (why.runnerUp->iterationSeconds / iterationSeconds - 1))
        : "";
    output.line(fmt::format("runner-up     {}, {}{}", why.runnerUp->notation,
                            format(Seconds(why.runnerUp->iterationSeconds)), longer));
    for (const std::string &line : why.runnerUp->differences)
        output.line("  " + line);
}

std::string unitText(const graph::ProfileUnit &unit)
{
    if (!unit.said)
        return "a sample is one minibatch of the layer profile, which names no samples; give them with "
               "--profile-samples N";
    return fmt::format("times of the layer profile are of {:g} sample{}", unit.samples, unit.samples == 1 ? "" : "s");
}

/// Of a plan with roles: which of them are on each machine, and how they work.
void printRoles(const plan::Plan &plan, const plan::Subject &subject, Output &output)
{
    const plan::SampledJob &job = *plan.job;
    output.line(fmt::format("graph         {} nodes, {} edges in {} part{}; fan-out {} x {}, prefetch {}, transfers {}",
                            job.graph.nodes, job.graph.edges, job.graph.parts, job.graph.parts == 1 ? "" : "s",
                            job.fanout.first, job.fanout.second, job.prefetch, gnn::name(job.transfers)));
    Table table({"MACHINE", "GRAPH STORES", "SAMPLERS", "TRAINERS", "SERVERS"});
    int machines = 0;
    for (const cluster::Node &node : subject.cluster->nodes()) {
        std::array<std::string, 4> names; // per gnn::RoleKind
        const auto add = [&names](gnn::RoleKind kind, const std::string &name) {
            std::string &text = names[static_cast<std::size_t>(kind)];
            text += (text.empty() ? "" : " ") + name;
        };
        for (const plan::PlacedRole &role : plan.roles)
            if (role.machine == node.name)
                add(role.kind, role.name);
        for (const DeviceId device : plan::devicesOf(plan))
            if (subject.cluster->device(device).node == node.id)
                add(gnn::RoleKind::Trainer, subject.cluster->device(device).name);
        if (!std::ranges::any_of(names, [](const std::string &text) { return !text.empty(); }))
            continue;
        table.row({node.name, names[0], names[1], names[2], names[3]});
        ++machines;
    }
    table.print(output);
    if (machines > 1)
        output.line(
            "network       times are of messages at the rates of the machines' cards; where all processes run on "
            "one machine, a run has these rates with train --paced only, and reports say so; they share its cores "
            "then, which these times do not count");
}

void printPlan(const plan::Plan &plan, const plan::Subject &subject, Output &output)
{
    output.line(fmt::format("model         {}  ({} layers)", plan.modelName, subject.layers().size()));
    if (const auto unit = graph::profileUnit(*subject.graph))
        output.line("unit          " + unitText(*unit));
    output.line(fmt::format("cluster       {}  ({} devices)", plan.clusterName, subject.cluster->devices().size()));
    const std::string blocks = plan::blockSplit(plan, subject.layers());
    output.line(fmt::format("plan          {}  by {}{}{}", plan::notation(plan), plan.planner.name,
                            blocks.empty() ? "" : ", repeated blocks split " + blocks,
                            plan.estimate.contains("stopped_early") ? "; the search was stopped early" : ""));
    output.line(fmt::format("batch         {} in {} micro-batch{}, schedule {}", plan.globalBatch, plan.microBatches,
                            plan.microBatches == 1 ? "" : "es", plan::name(plan.schedule.kind)));
    if (plan.exchange.policy != plan::ExchangePolicy::AllReduce || plan.exchange.averages())
        output.line("exchange      " + plan::textOf(plan.exchange));
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        if (plan.stages[s].memory.limits())
            output.line(
                fmt::format("memory        {}: {}", plan::stageLabel(plan, s), plan::textOf(plan.stages[s].memory)));
    for (const std::string &note : cluster::sharedCoreNotes(*subject.cluster, plan::devicesOf(plan)))
        output.line("cores         " + note);
    for (const std::string &note : plan::nodeSpanNotes(plan, *subject.cluster, plan.why ? &*plan.why : nullptr))
        output.line("slow          " + note);
    for (const std::string &note : plan::roleCoreNotes(plan, *subject.cluster))
        output.line("cores         " + note);
    const auto isGpu = [&subject](DeviceId id) { return !subject.cluster->typeOf(id).isProcessor(); };
    const std::string onHost = cost::hostOperators(*subject.graph);
    if (!onHost.empty() && std::ranges::any_of(plan::devicesOf(plan), isGpu))
        output.line("on the host   " + onHost + ": GPUs have no kernel for them; their copies there and back count");
    for (const plan::Annotation &annotation : plan.annotations)
        output.line(fmt::format("annotated     {} as {}", annotation.scope, plan::strategyText(annotation)));
    Table table({"STAGE", "LAYERS", "REPLICAS", "PARAMETERS", "RECOMPUTE", "DEVICES"});
    for (const auto &stage : plan.stages) {
        const Bytes parameters = subject.costs->parameterBytes(stage.firstLayer, stage.lastLayer);
        table.row({stage.name, fmt::format("{}..{}", stage.firstLayer, stage.lastLayer), plan::replicaText(stage),
                   format(parameters), plan::name(stage.recompute), deviceList(stage.devices, *subject.cluster)});
    }
    table.print(output);
    if (plan.job)
        printRoles(plan, subject, output);
}

} // namespace planloom::cli
