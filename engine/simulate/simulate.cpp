// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/simulate.h"

#include "engine/base/log.h"
#include "engine/compile/compile.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/recorder.h"
#include "engine/simulate/role_schedule.h"
#include "engine/simulate/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace planloom::simulate {
namespace {

Report makeReport(const program::Program &program, const cluster::Cluster &cluster, const Recorder &recorder,
                  double seconds)
{
    Report report;
    const double step = seconds / program.periodSteps;
    report.iterationSeconds = step;
    report.samplesPerSecond = step > 0 ? static_cast<double>(program.globalBatch) / step : 0;
    report.lowerBoundSeconds = program.lowerBound.value();
    report.speedupOverOneDevice = step > 0 ? program.oneDevice.value() / step : 0;
    report.fits = true;
    double busy = 0;
    const auto add = [&](DeviceId id, RankId rank) {
        DeviceReport device;
        device.id = cluster.device(id).name;
        device.peakBytes = program.ranks[rank.index()].arenaBytes;
        device.capacityBytes = cluster.typeOf(id).memory.value();
        device.busyFraction = seconds > 0 ? recorder.computeSeconds(rank.index()) / seconds : 0;
        device.commFraction = seconds > 0 ? recorder.communicationSeconds(rank.index()) / seconds : 0;
        report.fits = report.fits && device.peakBytes <= device.capacityBytes;
        busy += device.busyFraction;
        report.devices.push_back(std::move(device));
    };
    report.devices.reserve(std::max(program.places.size(), program.ranks.size()));
    for (const program::Program::Place &place : program.places)
        add(place.device, place.rank);
    for (std::size_t r = 0; r < program.ranks.size() && program.places.empty(); ++r)
        add(program.ranks[r].device, RankId(static_cast<std::int64_t>(r)));
    report.bubbleFraction = report.devices.empty() ? 0 : 1.0 - busy / static_cast<double>(report.devices.size());
    return report;
}

/// The figures of ranks that wait for samples and parameters: an iteration takes @p seconds.
void waitForRoles(Report &report, double seconds, std::int64_t samples)
{
    if (seconds <= 0)
        return;
    const double share = report.iterationSeconds / seconds;
    report.iterationSeconds = seconds;
    report.samplesPerSecond = static_cast<double>(samples) / seconds;
    report.bubbleFraction = 1 - (1 - report.bubbleFraction) * share;
    report.speedupOverOneDevice *= share;
    for (DeviceReport &device : report.devices) {
        device.busyFraction *= share;
        device.commFraction *= share;
    }
}

/// The first versions of a parameter server, as many as give each rank some answers.
std::vector<trace::Record> recordsOf(const VersionTimes &times, const program::Program &program)
{
    const auto shown = static_cast<std::size_t>(2 * (program.server->delay + static_cast<int>(program.ranks.size())));
    const std::int64_t end = std::llround(times.seconds[std::min(shown, times.seconds.size()) - 1] * 1e9);
    std::vector<trace::Record> records;
    std::copy_if(times.records.begin(), times.records.end(), std::back_inserter(records),
                 [end](const trace::Record &record) { return record.start + record.duration <= end; });
    return records;
}

/// A step with a parameter server is one of its versions, not an iteration of all ranks.
void goByVersions(Report &report, const program::Program &program, const VersionTimes &times)
{
    report.iterationSeconds = times.perVersion();
    report.lowerBoundSeconds = program.server->seconds;
    report.samplesPerSecond = 0;
    double busy = 0;
    for (std::size_t r = 0; r < report.devices.size(); ++r) {
        const double iterations = times.iterationsPerSecond(static_cast<int>(r));
        DeviceReport &device = report.devices[r];
        device.busyFraction = iterations * times.iteration[r];
        busy += device.busyFraction;
        const program::Body &body = program.body(program.ranks[r].bodies.front());
        report.samplesPerSecond += iterations * static_cast<double>(body.maxSamples); // of its one micro-batch
    }
    report.bubbleFraction = 1 - busy / static_cast<double>(report.devices.size());
    report.speedupOverOneDevice =
        report.samplesPerSecond * program.oneDevice.value() / static_cast<double>(program.globalBatch);
}

/// An iteration that is faster than its bound is a defect: an error in debug builds, a warning in others.
Status checkBound(const Report &report)
{
    const std::string defect = boundDefect(report);
    if (defect.empty())
        return {};
#ifdef NDEBUG
    log(LogLevel::Warning, defect);
    return {};
#else
    return failed(defect);
#endif
}

} // namespace

std::string boundDefect(const Report &report)
{
    constexpr double kRounding = 1e-9;
    if (report.iterationSeconds >= report.lowerBoundSeconds * (1 - kRounding))
        return {};
    return fmt::format("the simulated iteration takes {} s, less than the {} s that the busiest of its devices, links "
                       "and cores needs; please report this with the plan file, on which `planloom simulate PLAN` "
                       "repeats it",
                       report.iterationSeconds, report.lowerBoundSeconds);
}

const std::vector<MemoryKind> &memoryKinds()
{
    using program::Area;
    static const std::vector<MemoryKind> kinds{
        {"model state", &MemoryPoint::persistent, {Area::Persistent}},
        {"activations",
         &MemoryPoint::activations,
         {Area::Inbox, Area::Frame, Area::Outbox, Area::WeightStash, Area::Pool}},
        {"activation gradients",
         &MemoryPoint::gradients,
         {Area::GradientInbox, Area::GradientOutbox, Area::WeightFrame}},
        {"workspace", &MemoryPoint::workspace, {Area::Workspace}},
    };
    return kinds;
}

Result<Simulation> simulate(const program::Program &program, const cluster::Cluster &cluster, const Options &options)
{
    if (options.trace && program.sampled && !program.places.empty())
        return unsupported("a Program with roles whose ranks are folded has no trace, which shows each rank beside the "
                           "roles; compile it without folding");
    Recorder recorder(program, options);
    const auto seconds = CostClock(program).run(&recorder);
    if (!seconds)
        return seconds.error();
    Simulation simulation;
    simulation.report = makeReport(program, cluster, recorder, *seconds);
    if (const Status sound = program.server ? Status() : checkBound(simulation.report); !sound)
        return sound.error();
    recorder.into(simulation, cluster);
    if (options.trace && !program.server && !program.sampled)
        simulation.causes = Causes(program);
    if (program.server) {
        const auto times = versions(program, steadyVersions(program));
        if (!times)
            return times.error();
        goByVersions(simulation.report, program, *times);
        if (options.trace)
            simulation.trace.records = recordsOf(*times, program);
        simulation.trace.sort();
    }
    if (!program.sampled)
        return simulation;
    const RoleSchedule roles(program, simulation.report.iterationSeconds);
    waitForRoles(simulation.report, roles.iterationSeconds(), program.globalBatch);
    if (options.trace)
        roles.into(simulation.trace);
    return simulation;
}

Result<Simulation> simulatePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options)
{
    const bool whole = options.trace || options.memory;
    const auto program =
        compile::compilePlan(plan, subject,
                             {.bodies = false, .fold = !whole, .stages = options.stages, .times = options.times});
    if (!program)
        return program.error();
    return simulate(*program, *subject.cluster, options);
}

Result<double> iterationSeconds(const program::Program &program)
{
    if (program.server) {
        const auto times = versions(program, steadyVersions(program));
        return times ? Result<double>(times->perVersion()) : times.error();
    }
    const auto seconds = CostClock(program).run(nullptr);
    return seconds ? Result<double>(*seconds / program.periodSteps) : seconds;
}

std::string toJson(const Report &report)
{
    // Thousands of devices make long lists with few different numbers: written piece by piece, each number once.
    std::map<double, std::string> numbers;
    const auto number = [&numbers](double value) -> const std::string & {
        const auto [entry, isNew] = numbers.try_emplace(value);
        if (isNew)
            entry->second = nlohmann::json(value).dump();
        return entry->second;
    };
    std::string text;
    const auto field = [&text](const char *before, const std::string &value) { (text += before) += value; };
    field("{\"iteration_seconds\":", number(report.iterationSeconds));
    field(",\"samples_per_second\":", number(report.samplesPerSecond));
    field(",\"bubble_fraction\":", number(report.bubbleFraction));
    field(",\"fits\":", report.fits ? "true" : "false");
    const char *before = ",\"devices\":[{\"id\":";
    for (const DeviceReport &device : report.devices) {
        field(std::exchange(before, "},{\"id\":"), nlohmann::json(device.id).dump());
        field(",\"peak_bytes\":", std::to_string(device.peakBytes));
        field(",\"capacity_bytes\":", std::to_string(device.capacityBytes));
        field(",\"busy_fraction\":", number(device.busyFraction));
        field(",\"comm_fraction\":", number(device.commFraction));
    }
    text += report.devices.empty() ? ",\"devices\":[]" : "}]";
    field(",\"lower_bound_seconds\":", number(report.lowerBoundSeconds));
    field(",\"speedup_over_one_device\":",
          report.speedupOverOneDevice > 0 ? number(report.speedupOverOneDevice) : std::string("null"));
    return text + "}";
}

} // namespace planloom::simulate
