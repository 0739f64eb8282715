// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/joined_hosts.h"

#include "engine/base/json_reader.h"
#include "executor/agent/child.h"
#include "executor/remote/guard.h"
#include "executor/remote/mirror.h"
#include "executor/remote/this_machine.h"

#include <fmt/format.h>

namespace planloom::remote {
namespace {

using namespace std::chrono_literals;

/// planloom lies on each host where it lies here: mpirun starts it there.
Result<Target> targetOf(const cluster::Host &host)
{
    const auto program = agent::planloomBinary();
    if (!program)
        return program.error();
    Target target;
    target.address = host.address;
    target.user = host.user;
    target.port = host.port;
    target.program = *program;
    target.name = target.url();
    if (const Status good = check(target); !good)
        return good.error();
    return target;
}

} // namespace

JoinedHosts::~JoinedHosts()
{
    for (Host &host : m_hosts) {
        if (host.session)
            host.session->close(); // its guard ends what is left there
    }
    for (Host &host : m_hosts) {
        const auto until = std::chrono::steady_clock::now() + 10s;
        while (host.session && !host.session->poll() && std::chrono::steady_clock::now() < until)
            host.session->read(20);
        // A guard that was killed has left what it guarded. One that hears nothing any more leaves nothing.
        const auto exit = host.session ? host.session->poll() : std::nullopt;
        if (exit && isSilence(*exit, host.session->errors()))
            continue;
        if (host.session && (!exit || exit->status != 0 || exit->signal != 0)) {
            [[maybe_unused]] const auto left =
                ask(host.target, nlohmann::json{{"do", "leave"}, {"run", m_id}}.dump(), kAnswerSeconds);
        }
    }
}

Status JoinedHosts::join(agent::TrainRequest &request, const std::string &id, const std::string &socket,
                         const Note &note, const std::atomic<bool> &stop)
{
    const auto document = plan::documentFromJson(request.planJson);
    if (!document)
        return document.error();
    const auto hosts = agent::hostsOf(*document);
    if (!hosts || hosts->empty())
        return hosts ? Status() : hosts.error();
    if (const Status good = agent::checkOnHosts(document->plan, request.settings); !good)
        return good;
    const auto load = loadOf(request, {});
    if (!load)
        return load.error();
    m_id = id;
    const std::string message = runRequest("join", request, *load, id);
    auto cores = joinEach(*hosts, document->subject.cluster->nodes().size(), message, socket, stop,
                          [&](const Target &target, const std::string &address) {
                              const Note noteHost = [&](const std::string &line) { note(address + ": " + line); };
                              return sendLoad(target, *load, noteHost, stop);
                          });
    if (!cores)
        return cores.error();
    request.meeting.folder = agent::meetingFolder(id);
    request.meeting.cores = *std::move(cores);
    return {};
}

Result<std::vector<std::int32_t>> JoinedHosts::joinAll(const std::vector<agent::PlanHost> &hosts, std::size_t nodes,
                                                       const std::string &id, const std::atomic<bool> &stop)
{
    m_id = id;
    const std::string message = nlohmann::json{{"do", "join"}, {"run", id}}.dump();
    return joinEach(hosts, nodes, message, {}, stop, [&](const Target &target, const std::string &) {
        const auto same = askSameVersion(target, R"({"do":"describe"})", kAnswerSeconds, &stop);
        return same ? Status() : same.error();
    });
}

/// @p prepare: before a host is joined.
Result<std::vector<std::int32_t>> JoinedHosts::joinEach(const std::vector<agent::PlanHost> &hosts, std::size_t nodes,
                                                        const std::string &request, const std::string &socket,
                                                        const std::atomic<bool> &stop, const Prepare &prepare)
{
    std::vector<std::int32_t> cores(nodes, 0);
    for (const agent::PlanHost &host : hosts) {
        const auto node = static_cast<std::size_t>(host.node);
        if (isThisMachine(host.host.address)) {
            cores[node] = coresAllowed();
            continue;
        }
        auto target = targetOf(host.host);
        if (!target)
            return target.error();
        if (const Status ready = prepare(*target, host.host.address); !ready)
            return ready.error();
        m_hosts.push_back({*std::move(target), node, {}, false});
    }
    // What travels may take long; guards that hear nothing meanwhile would go.
    for (Host &host : m_hosts) {
        const auto joined = joinOne(host, request, socket, stop);
        if (!joined)
            return joined.error();
        host.joined = true;
        cores[host.node] = *joined;
    }
    return cores;
}

/// The number of its cores.
Result<int> JoinedHosts::joinOne(Host &host, const std::string &request, const std::string &socket,
                                 const std::atomic<bool> &stop)
{
    auto session = Session::openToHost(host.target, request, agent::socketOf(agent::meetingFolder(m_id)), socket);
    if (!session)
        return session.error();
    host.session.emplace(*std::move(session));
    std::string output;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kAnswerSeconds);
    while (true) {
        tend();
        const auto exit = host.session->poll();
        const std::string bytes = host.session->read(50);
        output += bytes;
        const auto begin = findReply(output);
        const auto end = begin == std::string::npos ? begin : output.find('\n', begin);
        if (end != std::string::npos) {
            const std::string reply = output.substr(begin, end - begin);
            if (const Status good = errorIn(reply, host.target); !good)
                return good.error();
            const auto document = parseJson(reply);
            constexpr std::int64_t kMostCores = 1 << 20;
            JsonReader reader(*document);
            const std::int64_t cores = reader.integer("cores", 1, kMostCores);
            if (const Status good = reader.failure(); !good)
                return good.error();
            return static_cast<int>(cores);
        }
        if (exit && bytes.empty()) {
            const std::string said = host.session->errors();
            if (said.find("remote port forwarding failed") != std::string::npos)
                return failed(fmt::format("{}: sshd there allows no forwarded sockets; a run over several hosts needs "
                                          "AllowStreamLocalForwarding",
                                          host.target.url()));
            return explain(host.target, *exit, said);
        }
        if (stop.load())
            return cancelled();
        if (const auto other = lost())
            return *other;
        if (std::chrono::steady_clock::now() > until)
            return failed(fmt::format("{}: no answer for {:.0f} s", host.target.url(), kAnswerSeconds));
    }
}

void JoinedHosts::tend()
{
    const auto now = std::chrono::steady_clock::now();
    const bool say = now - m_said > std::chrono::seconds(kAliveSeconds);
    if (say)
        m_said = now;
    for (Host &host : m_hosts) {
        if (!host.joined)
            continue;
        const auto exit = host.session->poll();
        host.session->read(0); // a guard says nothing
        const bool ended = exit.has_value() || host.session->outputEnded() || (say && !host.session->say(kAlive));
        if (!ended)
            continue;
        const std::lock_guard lock(m_mutex);
        if (!m_lost)
            m_lost = failed(fmt::format("host {} was lost: {}", host.target.address,
                                        exit ? explain(host.target, *exit, host.session->errors()).message
                                             : std::string("the process that guards it was ended")));
    }
}

std::optional<Error> JoinedHosts::lost() const
{
    const std::lock_guard lock(m_mutex);
    return m_lost;
}

Status JoinedHosts::fetch(const std::string &folder, const std::atomic<bool> &stop)
{
    std::vector<bool> told; // all of them first: those that wait for their turn hear nothing
    for (const Host &host : m_hosts)
        told.push_back(host.joined && host.session->say(kEnd));
    Status wrong;
    for (std::size_t i = 0; i < m_hosts.size(); ++i) {
        const Status came = told[i]
            ? fetchFrom(m_hosts[i], folder, stop)
            : Status(failed(
                fmt::format("what ranks wrote on {} did not come: its guard has ended", m_hosts[i].target.address)));
        if (!came && came.error().code == ErrorCode::Cancelled)
            return came;
        if (wrong)
            wrong = came;
    }
    return wrong;
}

Status JoinedHosts::fetchFrom(Host &host, const std::string &folder, const std::atomic<bool> &stop)
{
    Mirror mirror(folder, [](std::string_view) {});
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!mirror.ended() && std::chrono::steady_clock::now() < until) {
        const auto exit = host.session->poll();
        const std::string bytes = host.session->read(50);
        if (const Status taken = mirror.take(bytes); !taken)
            return taken;
        if (exit && bytes.empty())
            break;
        if (stop.load())
            return cancelled();
    }
    return mirror.ended() ? Status() : failed(fmt::format("what ranks wrote on {} did not come", host.target.address));
}

} // namespace planloom::remote
