// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/hosts.h"

#include "engine/base/files.h"
#include "executor/runtime/measured_course.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

constexpr std::string_view kMeetings = "/tmp/planloom-";

/// Hosts once each, with their ranks, in the order of the first ranks.
std::vector<std::pair<const cluster::Host *, int>> distinctHosts(std::span<const RankPlace> places)
{
    std::vector<std::pair<const cluster::Host *, int>> hosts;
    for (const RankPlace &place : places) {
        const auto found =
            std::ranges::find_if(hosts, [&](const auto &host) { return host.first->address == place.host.address; });
        if (found == hosts.end())
            hosts.emplace_back(&place.host, 1);
        else
            ++found->second;
    }
    return hosts;
}

} // namespace

namespace {

Result<std::vector<PlanHost>> hostsOfDevices(const cluster::Cluster &cluster, std::span<const DeviceId> devices)
{
    std::map<std::int32_t, int> ranks;
    for (const DeviceId device : devices)
        ++ranks[cluster.device(device).node.value];
    std::vector<PlanHost> hosts;
    const cluster::Node *without = nullptr;
    for (const auto &[index, count] : ranks) {
        const cluster::Node &node = cluster.nodes()[static_cast<std::size_t>(index)];
        if (node.host.address.empty())
            without = &node;
        else
            hosts.push_back({index, node.name, node.host, count});
    }
    if (hosts.empty() || ranks.size() == 1)
        return std::vector<PlanHost>{};
    if (without != nullptr)
        return badInput(fmt::format("node {} of the plan's cluster has no address, and {} has one; give every node an "
                                    "address, or none",
                                    without->name, hosts.front().name));
    std::map<std::string_view, std::string_view> seen; // addresses, and their nodes
    for (const PlanHost &host : hosts) {
        if (host.host.address.find(':') != std::string::npos)
            return badInput(fmt::format("node {}: Open MPI's files take no IPv6 addresses; give a name for {}",
                                        host.name, host.host.address));
        if (const auto [at, fresh] = seen.emplace(host.host.address, host.name); !fresh)
            return badInput(fmt::format("nodes {} and {} have the address {} and two ports; Open MPI's files tell "
                                        "hosts apart by their addresses alone: give each a name of its own",
                                        at->second, host.name, host.host.address));
    }
    return hosts;
}

} // namespace

Result<std::vector<PlanHost>> hostsOf(const plan::Document &document)
{
    return hostsOfDevices(*document.subject.cluster, plan::devicesOf(document.plan));
}

Result<std::vector<PlanHost>> hostsOf(const cluster::Cluster &cluster)
{
    std::vector<DeviceId> devices;
    for (const cluster::Device &device : cluster.devices())
        devices.push_back(device.id);
    return hostsOfDevices(cluster, devices);
}

Status checkOnHosts(const plan::Plan &plan, const run::Settings &settings)
{
    if (settings.checkpointEvery > 0)
        return unsupported("checkpoints of a run over several hosts would lie on each of them in part; leave out "
                           "--checkpoint-every, or train on one host");
    const char *what = plan.job            ? "roles"
        : plan.admm                        ? "ADMM"
        : runtime::decidesByMeasured(plan) ? "a course by measured times"
                                           : nullptr;
    if (what != nullptr)
        return unsupported(fmt::format("the ranks of a plan with {} read each other's files, which is not there yet "
                                       "over several hosts; train on one host",
                                       what));
    return {};
}

std::string meetingFolder(std::string_view id) { return std::string(kMeetings) + std::string(id); }

bool isMeetingFolder(std::string_view path)
{
    constexpr std::size_t kDigits = 16;
    return path.starts_with(kMeetings) && path.size() == kMeetings.size() + kDigits
        && std::ranges::all_of(path.substr(kMeetings.size()),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string socketOf(const std::string &meetingFolder) { return meetingFolder + ".sock"; }

Result<std::vector<RankPlace>> placesOf(std::span<const std::int32_t> nodes, const cluster::Cluster &cluster,
                                        std::span<const std::int32_t> cores)
{
    std::map<std::int32_t, int> ranks;
    for (const std::int32_t node : nodes)
        ++ranks[node];
    std::map<std::int32_t, int> next;
    std::vector<RankPlace> places;
    for (const std::int32_t node : nodes) {
        const auto index = static_cast<std::size_t>(node);
        if (index >= cluster.nodes().size() || index >= cores.size() || cores[index] < 1
            || cluster.nodes()[index].host.address.empty())
            return badInput(fmt::format("rank {} of the run has no host", places.size()));
        const int count = ranks[node], all = cores[index], k = next[node]++;
        const bool enough = all >= count;
        places.push_back(
            {cluster.nodes()[index].host, enough ? k * all / count : 0, enough ? (k + 1) * all / count - 1 : all - 1});
    }
    return places;
}

std::string hostFile(std::span<const RankPlace> places)
{
    std::string text;
    for (const auto &[host, ranks] : distinctHosts(places))
        text += fmt::format("{} slots={}\n", host->address, ranks);
    return text;
}

std::string rankFile(std::span<const RankPlace> places)
{
    std::string text;
    for (std::size_t rank = 0; rank < places.size(); ++rank)
        text += fmt::format("rank {}={} slot={}-{}\n", rank, places[rank].host.address, places[rank].firstCore,
                            places[rank].lastCore);
    return text;
}

std::string sshConfigOf(std::span<const RankPlace> places)
{
    std::string text;
    for (const auto &[host, ranks] : distinctHosts(places)) {
        text += "Host " + host->address + "\n";
        if (!host->user.empty())
            text += "    User " + host->user + "\n";
        if (host->port > 0)
            text += fmt::format("    Port {}\n", host->port);
    }
    // The first value of an option counts.
    return text
        + "Host *\n    BatchMode yes\n    ConnectTimeout 10\n    ServerAliveInterval 3\n    ServerAliveCountMax 3\n"
          "    ControlMaster no\n    RemoteCommand none\n    RequestTTY no\n    ForwardAgent no\n    ForwardX11 no\n"
          "    ClearAllForwardings yes\n    Include ~/.ssh/config\n    Include /etc/ssh/ssh_config\n";
}

Result<MeetingEnd> MeetingEnd::make(const std::string &folder, const std::string &runFolder,
                                    const std::string &socketPath, const std::string &memory,
                                    const std::string &sshConfig)
{
    if (::mkdir(folder.c_str(), 0700) != 0)
        return ioError(fmt::format("the folder for a run over several hosts cannot be made: {}", systemReason()))
            .in(folder);
    MeetingEnd end(folder);
    const bool linked = ::symlink(runFolder.c_str(), (folder + "/run").c_str()) == 0
        && ::symlink(socketPath.c_str(), socketOf(folder).c_str()) == 0
        && (memory.empty() ? ::mkdir((folder + "/memory").c_str(), 0700)
                           : ::symlink(memory.c_str(), (folder + "/memory").c_str()))
            == 0;
    if (!linked)
        return ioError(fmt::format("a link of a run over several hosts cannot be made: {}", systemReason())).in(folder);
    if (const Status written = writeFileAtomically(folder + "/ssh_config", sshConfig); !written)
        return written.error();
    return end;
}

MeetingEnd::MeetingEnd(MeetingEnd &&other) noexcept : m_folder(std::exchange(other.m_folder, {})) {}

MeetingEnd::~MeetingEnd()
{
    if (!m_folder.empty())
        removeMeeting(m_folder);
}

void removeMeeting(const std::string &folder)
{
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored); // links, not what they point at
    ::unlink(socketOf(folder).c_str());
}

std::string machineName()
{
    std::string kernel;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
    std::error_code error;
    return kernel + " " + std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

} // namespace planloom::agent
