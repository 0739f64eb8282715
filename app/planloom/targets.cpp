// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"
#include "executor/device/plugin/library.h"
#include "executor/remote/client.h"
#include "executor/remote/host.h"
#include "executor/remote/kept_run.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

Status listTargets(Output &output)
{
    const auto targets = remote::readTargets(remote::targetsFile());
    if (!targets)
        return targets.error();
    Table table({"TARGET", "URL", "PROGRAM"});
    ordered_json all = ordered_json::array({{{"name", "local"}, {"url", "local"}}});
    table.row({"local", "local", "this one"});
    for (const remote::Target &target : *targets) {
        table.row({target.name, target.url(), target.program});
        all.push_back(ordered_json::parse(remote::toJson(target)));
    }
    table.print(output);
    output.result(ordered_json{{"targets", all}});
    return {};
}

Status addTarget(const TargetsOptions &options, Output &output)
{
    auto made = remote::targetFromUrl(options.url);
    auto targets = remote::readTargets(remote::targetsFile());
    if (!made || !targets)
        return made ? targets.error() : made.error();
    if (made->isLocal())
        return badInput("local is always there; add an ssh://user@host[:port]");
    made->name = options.name;
    if (!options.program.empty())
        made->program = options.program;
    if (!options.sshConfig.empty())
        made->sshConfig = absolutePath(options.sshConfig);
    if (const Status good = remote::check(*made); !good)
        return good;
    std::erase_if(*targets, [&](const remote::Target &target) { return target.name == options.name; });
    targets->push_back(*made);
    if (const Status written = remote::writeTargets(*targets, remote::targetsFile()); !written)
        return written;
    output.line(fmt::format("target        {}: {}; planloom targets check {} says what is there", made->name,
                            made->url(), made->name));
    output.result(ordered_json{{"added", ordered_json::parse(remote::toJson(*made))}});
    return {};
}

Status removeTarget(const TargetsOptions &options, Output &output)
{
    auto targets = remote::readTargets(remote::targetsFile());
    if (!targets)
        return targets.error();
    if (std::erase_if(*targets, [&](const remote::Target &target) { return target.name == options.name; }) == 0)
        return notFound(fmt::format("there is no target '{}'; see planloom targets", options.name));
    if (const Status written = remote::writeTargets(*targets, remote::targetsFile()); !written)
        return written;
    output.result(ordered_json{{"removed", options.name}});
    return {};
}

Status checkTarget(const TargetsOptions &options, Output &output)
{
    const auto target = remote::findTarget(options.name, remote::targetsFile());
    if (!target)
        return target.error();
    if (target->isLocal())
        return badInput("local is this machine; planloom inspect local says what it has");
    const auto found = remote::describe(*target);
    if (!found)
        return found.error();
    const std::string gpus =
        found->gpus.empty() ? "none that can be used" : fmt::format("{}", fmt::join(found->gpus, ", "));
    output.line(fmt::format("host          {} by {}", found->host, target->url()));
    output.line(fmt::format("planloom      {}, as here", found->version));
    output.line(fmt::format("slots         {} cores", found->cores));
    output.line(fmt::format("memory        {} available", format(Bytes(found->memoryAvailable))));
    output.line(fmt::format("disk          {} free", format(Bytes(found->freeBytes))));
    output.line("GPUs          " + gpus);
    output.line(found->mpirun ? "mpirun        there"
                              : "mpirun        missing: plans of several ranks need it (Debian: openmpi-bin)");
    output.result(ordered_json{{"target", ordered_json::parse(remote::toJson(*target))},
                               {"host", found->host},
                               {"version", found->version},
                               {"slots", found->cores},
                               {"memory_available", found->memoryAvailable},
                               {"free_bytes", found->freeBytes},
                               {"gpus", found->gpus},
                               {"mpirun", found->mpirun}});
    return {};
}

Status cleanTarget(const TargetsOptions &options, Output &output)
{
    const auto target = remote::findTarget(options.name, remote::targetsFile());
    if (!target)
        return target.error();
    if (target->isLocal())
        return badInput("local is this machine; runs here lie where --run-dir put them");
    const auto cleaned = remote::cleanUp(*target, options.days);
    if (!cleaned)
        return cleaned.error();
    output.line(fmt::format("removed       {} runs and {} of their data and models, {}", cleaned->runs, cleaned->items,
                            format(Bytes(cleaned->bytes))));
    output.line(fmt::format("left          {} runs that ended, {} that go on", cleaned->kept, cleaned->running));
    output.result(ordered_json{{"runs", cleaned->runs},
                               {"items", cleaned->items},
                               {"bytes", cleaned->bytes},
                               {"kept", cleaned->kept},
                               {"running", cleaned->running}});
    return {};
}

} // namespace

Status targets(const TargetsOptions &options, Output &output)
{
    if (options.action == "add")
        return addTarget(options, output);
    if (options.action == "remove")
        return removeTarget(options, output);
    if (options.action == "check")
        return checkTarget(options, output);
    if (options.action == "clean")
        return cleanTarget(options, output);
    return listTargets(output);
}

int host(const HostOptions &options)
{
    if (!options.keep.empty())
        return remote::keepRun(options.keep);
    const auto gpus = device::cudaDevices();
    return remote::serveHost(gpus ? *gpus : std::vector<std::string>());
}

} // namespace planloom::cli
