// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/trace_report.h"

#include "engine/analysis/clock_skew.h"
#include "engine/analysis/device_time.h"
#include "engine/analysis/kernel_changes.h"
#include "engine/analysis/lateness.h"
#include "engine/base/units.h"
#include "engine/import/trace/foreign_trace.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

constexpr std::size_t kMostRows = 10;       // that are printed of a table
constexpr std::size_t kMostRowsJson = 1000; // in --json

double inSeconds(double nanoseconds) { return nanoseconds * 1e-9; }

std::string timeText(double nanoseconds) { return format(Seconds(inSeconds(nanoseconds))); }
std::string timeText(std::int64_t nanoseconds) { return timeText(static_cast<double>(nanoseconds)); }

std::string signedText(double nanoseconds) { return (nanoseconds < 0 ? "-" : "+") + timeText(std::abs(nanoseconds)); }

const std::string &deviceOf(const trace::Trace &trace, std::int32_t rank)
{
    static const std::string unknown = "?";
    const auto at = static_cast<std::size_t>(rank);
    return at < trace.ranks.size() ? trace.ranks[at].device : unknown;
}

void andMore(std::size_t all, const char *what, Output &output)
{
    if (all > kMostRows)
        output.line(fmt::format("and {} more {}", all - kMostRows, what));
}

ordered_json reportDevices(const trace::Trace &trace, const analysis::Collectives &collectives, Output &output)
{
    const auto devices = analysis::deviceTimes(trace, {trace.begin(), trace.end()}, collectives);
    Table table({"DEVICE", "COMPUTES", "MOVES DATA", "WAITS", "NO WORK", "COMMUNICATION", "HIDDEN"});
    ordered_json rows = ordered_json::array();
    const auto cells = [&](const std::string &name, const analysis::DeviceTime &device) {
        const auto part = [&](std::int64_t time) {
            return percent(device.window > 0 ? static_cast<double>(time) / static_cast<double>(device.window) : 0);
        };
        table.row({name, part(device.computing), part(device.moving), part(device.waiting), part(device.withoutWork),
                   timeText(device.communication),
                   device.communication > 0 ? percent(device.hiddenShare()) : std::string("-")});
    };
    for (const analysis::DeviceTime &device : devices) {
        if (rows.size() < kMostRows)
            cells(deviceOf(trace, device.rank), device);
        rows.push_back(ordered_json{{"device", deviceOf(trace, device.rank)},
                                    {"seconds", inSeconds(static_cast<double>(device.window))},
                                    {"computing", inSeconds(static_cast<double>(device.computing))},
                                    {"moving", inSeconds(static_cast<double>(device.moving))},
                                    {"waiting", inSeconds(static_cast<double>(device.waiting))},
                                    {"without_work", inSeconds(static_cast<double>(device.withoutWork))},
                                    {"communication", inSeconds(static_cast<double>(device.communication))},
                                    {"hidden", inSeconds(static_cast<double>(device.hidden))}});
    }
    if (devices.empty())
        return rows;
    cells("all", analysis::total(devices));
    output.line();
    table.print(output);
    andMore(devices.size(), "devices, which are in the last row", output);
    return rows;
}

ordered_json reportCollectives(const trace::Trace &trace, const analysis::Collectives &collectives, Output &output)
{
    ordered_json ranks = ordered_json::array();
    if (collectives.all.empty())
        return ordered_json{{"matched", 0}, {"unmatched", collectives.unmatched}, {"ranks", ranks}};
    Table late({"CAME LAST", "OF", "OTHERS WAITED", "IT WAITED", "RANK"});
    const auto byRank = analysis::latenessByRank(trace, collectives);
    for (const analysis::RankLateness &rank : byRank) {
        if (ranks.size() < kMostRows)
            late.row({count(rank.last), count(rank.collectives), timeText(rank.caused), timeText(rank.waited),
                      deviceOf(trace, rank.rank)});
        ranks.push_back(ordered_json{{"device", deviceOf(trace, rank.rank)},
                                     {"collectives", rank.collectives},
                                     {"last", rank.last},
                                     {"caused", inSeconds(static_cast<double>(rank.caused))},
                                     {"waited", inSeconds(static_cast<double>(rank.waited))}});
    }
    output.line();
    output.line(fmt::format("{} collectives{}; {} records have no counterpart on another rank", collectives.all.size(),
                            collectives.byOrder ? ", matched by the order of names and sizes" : "",
                            collectives.unmatched));
    late.print(output);
    andMore(byRank.size(), "ranks", output);

    const auto worst = std::ranges::max_element(collectives.all, {}, &analysis::Collective::behind);
    const analysis::LateCause cause = analysis::causeOf(trace, collectives, *worst);
    const trace::Record &last = trace.records[collectives.last(*worst).record];
    const std::string name = trace.task(last.task)->id;
    std::string line = fmt::format("latest: {} came {} after the others to {} at {}", deviceOf(trace, last.rank),
                                   timeText(worst->behind), name, timeText(last.start - trace.begin()));
    if (cause.record) {
        const trace::TaskInfo *task = trace.task(trace.records[*cause.record].task);
        line += fmt::format("; {} {} {} {}", task ? task->id : "?",
                            cause.why == analysis::LateCause::Why::Work ? "took" : "was", timeText(cause.longer),
                            cause.why == analysis::LateCause::Why::Work ? "longer than on the others" : "late");
    }
    output.line(line);
    return ordered_json{{"matched", collectives.all.size()},
                        {"unmatched", collectives.unmatched},
                        {"ranks", ranks},
                        {"latest",
                         {{"device", deviceOf(trace, last.rank)},
                          {"collective", name},
                          {"behind", inSeconds(static_cast<double>(worst->behind))},
                          {"cause", cause.record ? trace.task(trace.records[*cause.record].task)->id : ""}}}};
}

ordered_json reportClocks(const analysis::ClockSkew &skew, Output &output)
{
    ordered_json clocks = ordered_json::array();
    if (skew.clocks.size() < 2)
        return clocks;
    Table table({"CLOCK", "AHEAD BY", "STANDARD ERROR", "COLLECTIVES"});
    for (const analysis::RankClock &clock : skew.clocks) {
        const bool isFirst = clocks.empty();
        if (clocks.size() < kMostRows)
            table.row({clock.name,
                       isFirst           ? "-"
                           : clock.known ? signedText(static_cast<double>(clock.ahead))
                                         : "?",
                       isFirst || !clock.known ? "-" : timeText(clock.error),
                       isFirst ? "-" : count(clock.collectives)});
        clocks.push_back(ordered_json{{"clock", clock.name},
                                      {"known", clock.known},
                                      {"ahead", inSeconds(static_cast<double>(clock.ahead))},
                                      {"error", inSeconds(clock.error)},
                                      {"collectives", clock.collectives}});
    }
    output.line();
    output.line(skew.isSkewed()
                    ? fmt::format("clocks are up to {} apart, by the ends of collectives; lateness above is "
                                  "by aligned clocks",
                                  timeText(skew.largest()))
                    : std::string("clocks agree, by the ends of collectives"));
    table.print(output);
    return clocks;
}

ordered_json reportKernels(const trace::Trace &trace, Output &output)
{
    const auto kernels = analysis::kernelsOf(trace);
    Table table({"SUM", "SHARE", "COUNT", "MEAN", "P95", "MAX", "KERNEL OR TASK"});
    ordered_json rows = ordered_json::array();
    for (std::size_t i = 0; i < std::min(kernels.size(), kMostRowsJson); ++i) {
        const analysis::Kernel &kernel = kernels[i];
        if (i < kMostRows)
            table.row({timeText(kernel.sum), percent(kernel.share), count(kernel.count), timeText(kernel.mean),
                       timeText(kernel.p95), timeText(kernel.most), kernel.name});
        rows.push_back(ordered_json{{"name", kernel.name},
                                    {"kind", trace.kind(kernel.kind).name},
                                    {"count", kernel.count},
                                    {"sum", inSeconds(static_cast<double>(kernel.sum))},
                                    {"mean", inSeconds(kernel.mean)},
                                    {"p95", inSeconds(static_cast<double>(kernel.p95))},
                                    {"max", inSeconds(static_cast<double>(kernel.most))},
                                    {"share", kernel.share}});
    }
    if (!kernels.empty()) {
        output.line();
        table.print(output);
        andMore(kernels.size(), "names", output);
    }
    return rows;
}

Result<trace::Trace> readForComparison(const std::string &path)
{
    if (std::filesystem::exists(path) && !isTraceFile(path))
        return badInput(path + ": is no trace, and the other one is; compare a trace with a trace, a plan with a plan");
    NoProgress none;
    auto read = import::readAnyTrace(path, none);
    if (!read)
        return read.error();
    return std::move(read->trace);
}

ordered_json reportChanges(const std::vector<analysis::KernelChange> &changes, Output &output)
{
    Table table({"CHANGE", "+-", "SURE", "A STEP", "MEAN A", "MEAN B", "RUNS A", "RUNS B", "KERNEL OR TASK"});
    ordered_json rows = ordered_json::array();
    for (std::size_t i = 0; i < std::min(changes.size(), kMostRowsJson); ++i) {
        const analysis::KernelChange &change = changes[i];
        if (i < 2 * kMostRows)
            table.row({change.isKnown ? fmt::format("{:+.2f} %", 100 * change.change) : std::string("-"),
                       change.isKnown ? fmt::format("{:.2f} %", 100 * change.error) : std::string("-"),
                       change.isSure ? "yes" : "no", signedText(change.perStep),
                       change.a.count > 0 ? timeText(change.a.mean) : std::string("-"),
                       change.b.count > 0 ? timeText(change.b.mean) : std::string("-"), count(change.a.count),
                       count(change.b.count), change.name});
        rows.push_back(ordered_json{{"name", change.name},
                                    {"kind", change.kind},
                                    {"change", change.isKnown ? ordered_json(change.change) : ordered_json()},
                                    {"error", change.isKnown ? ordered_json(change.error) : ordered_json()},
                                    {"sure", change.isSure},
                                    {"a_step", inSeconds(change.perStep)},
                                    {"mean_a", inSeconds(change.a.mean)},
                                    {"mean_b", inSeconds(change.b.mean)},
                                    {"count_a", change.a.count},
                                    {"count_b", change.b.count}});
    }
    table.print(output);
    if (changes.size() > 2 * kMostRows)
        output.line(fmt::format("and {} more names", changes.size() - 2 * kMostRows));
    return rows;
}

} // namespace

ordered_json reportTrace(const trace::Trace &trace, Output &output)
{
    analysis::Collectives collectives = analysis::matchCollectives(trace);
    const analysis::ClockSkew skew = analysis::clockSkew(trace, collectives);
    const trace::Trace corrected = skew.isSkewed() ? analysis::aligned(trace, skew) : trace::Trace();
    const trace::Trace &shown = skew.isSkewed() ? corrected : trace;
    if (skew.isSkewed())
        collectives = analysis::matchCollectives(shown);
    ordered_json json = ordered_json::object();
    json["devices"] = reportDevices(shown, collectives, output);
    json["hidden_share"] =
        analysis::total(analysis::deviceTimes(shown, {shown.begin(), shown.end()}, collectives)).hiddenShare();
    json["collectives"] = reportCollectives(shown, collectives, output);
    json["clocks"] = reportClocks(skew, output);
    json["kernels"] = reportKernels(shown, output);
    return json;
}

bool isTraceFile(const std::string &path)
{
    return path.ends_with(".pltrace") || import::traceFormat(path) != import::TraceFormat::None;
}

Status compareTraces(const std::string &a, const std::string &b, Output &output)
{
    const auto first = readForComparison(a);
    if (!first)
        return first.error();
    const auto second = readForComparison(b);
    if (!second)
        return second.error();
    ordered_json devices = ordered_json::object();
    for (const auto &[side, trace] : {std::pair("a", &*first), std::pair("b", &*second)}) {
        output.line(fmt::format("{}: {}", side, side[0] == 'a' ? a : b));
        devices[side] = reportDevices(*trace, analysis::matchCollectives(*trace), output);
        output.line();
    }
    const auto changes = analysis::kernelChanges(*first, *second);
    const auto sure = std::ranges::count_if(changes, &analysis::KernelChange::isSure);
    output.line(fmt::format("{} of {} kernels or tasks take another time in B, surely (1 in 20 that any of these is "
                            "chance)",
                            sure, changes.size()));
    const ordered_json rows = reportChanges(changes, output);
    output.result(ordered_json{{"a", a}, {"b", b}, {"devices", devices}, {"sure", sure}, {"kernels", rows}});
    return {};
}

} // namespace planloom::cli
