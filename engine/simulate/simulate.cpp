// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/simulate.h"

#include "engine/simulate/clock.h"
#include "engine/simulate/recorder.h"

#include <nlohmann/json.hpp>

namespace planloom::simulate {
namespace {

Report makeReport(const program::Program &program, const cluster::Cluster &cluster, const Recorder &recorder, double seconds)
{
    Report report;
    report.iterationSeconds = seconds;
    report.samplesPerSecond = seconds > 0 ? static_cast<double>(program.globalBatch) / seconds : 0;
    report.lowerBoundSeconds = program.lowerBound.value();
    report.speedupOverOneDevice = seconds > 0 ? program.oneDevice.value() / seconds : 0;
    report.fits = true;
    double busy = 0;
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
        const program::Rank &rank = program.ranks[r];
        DeviceReport device;
        device.id = cluster.device(rank.device).name;
        device.peakBytes = rank.arenaBytes;
        device.capacityBytes = cluster.typeOf(rank.device).memory.value();
        device.busyFraction = seconds > 0 ? recorder.computeSeconds(r) / seconds : 0;
        device.commFraction = seconds > 0 ? recorder.communicationSeconds(r) / seconds : 0;
        report.fits = report.fits && device.peakBytes <= device.capacityBytes;
        busy += device.busyFraction;
        report.devices.push_back(std::move(device));
    }
    report.bubbleFraction = program.ranks.empty() ? 0 : 1.0 - busy / static_cast<double>(program.ranks.size());
    return report;
}

} // namespace

Result<Simulation> simulate(const program::Program &program, const cluster::Cluster &cluster, const Options &options)
{
    Recorder recorder(program, options);
    const auto seconds = CostClock(program).run(&recorder);
    if (!seconds)
        return seconds.error();
    Simulation simulation;
    simulation.report = makeReport(program, cluster, recorder, *seconds);
    recorder.into(simulation, cluster);
    return simulation;
}

Result<Simulation> simulatePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options)
{
    const auto program = program::compile(plan, subject, {.bodies = false});
    if (!program)
        return program.error();
    return simulate(*program, *subject.cluster, options);
}

Result<double> iterationSeconds(const program::Program &program) { return CostClock(program).run(nullptr); }

std::string toJson(const Report &report)
{
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const DeviceReport &device : report.devices)
        devices.push_back({{"id", device.id}, {"peak_bytes", device.peakBytes}, {"capacity_bytes", device.capacityBytes},
                           {"busy_fraction", device.busyFraction}, {"comm_fraction", device.commFraction}});
    const nlohmann::ordered_json json = {{"iteration_seconds", report.iterationSeconds}, {"samples_per_second", report.samplesPerSecond},
                                         {"bubble_fraction", report.bubbleFraction}, {"fits", report.fits}, {"devices", std::move(devices)},
                                         {"lower_bound_seconds", report.lowerBoundSeconds},
                                         {"speedup_over_one_device", report.speedupOverOneDevice}};
    return json.dump();
}

} // namespace planloom::simulate
