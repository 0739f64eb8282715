// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/measure.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/agent/launch.h"
#include "executor/agent/worker_group.h"
#include "executor/remote/guard.h"
#include "executor/remote/joined_hosts.h"
#include "executor/remote/ssh.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <thread>

namespace planloom::remote {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

// --- Here -----------------------------------------------------------------------------------------------------------

/// A request whose answer takes long, in a session that is kept alive.
Result<std::string> askAndWait(const Target &target, const std::string &request, const std::string &what,
                               Progress &progress, const std::atomic<bool> &stop)
{
    auto session = Session::open(target, request);
    if (!session)
        return session.error();
    std::string output;
    for (auto said = SteadyClock::now();;) {
        const auto exit = session->poll();
        const std::string bytes = session->read(100);
        output += bytes;
        const auto begin = findReply(output);
        if (const auto end = begin == std::string::npos ? begin : output.find('\n', begin); end != std::string::npos) {
            std::string reply = output.substr(begin, end - begin);
            if (const Status good = errorIn(reply, target); !good)
                return good.error();
            return reply;
        }
        if (exit && bytes.empty())
            return explain(target, *exit, session->errors());
        if (stop.load())
            break;
        progress.report(-1, what);
        if (SteadyClock::now() - said < std::chrono::seconds(kAliveSeconds))
            continue;
        said = SteadyClock::now();
        [[maybe_unused]] const bool there = session->say(kAlive); // if not, it has ended
    }
    session->close();
    for (const auto until = SteadyClock::now() + 15s; !session->poll() && SteadyClock::now() < until;)
        session->read(50);
    return cancelled();
}

Result<std::string> textIn(const Result<std::string> &reply, const char *field, const Target &target)
{
    if (!reply)
        return reply;
    const auto document = parseJson(*reply);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    std::string text = reader.text(field);
    if (reader.failed())
        return failed(fmt::format("{}: the answer of planloom has no {}", target.url(), field));
    return text;
}

/// The file of a model that has to travel, if there is one.
Result<std::optional<Item>> modelToSend(const OperatorsRequest &request, const NeedsModelFile &needed)
{
    if (!request.plan.empty())
        return modelOf(request.plan, needed);
    if (!request.model.starts_with('/'))
        return std::optional<Item>();
    auto item = modelItem(request.model);
    if (!item)
        return item.error();
    return std::optional<Item>(*std::move(item));
}

nlohmann::json toJson(const OperatorsRequest &request, const std::string &id)
{
    return {{"do", "operators"},
            {"run", id},
            {"plan", request.plan},
            {"model_name", request.model},
            {"device", request.device},
            {"samples", request.samples},
            {"sequence", request.sequence},
            {"ranks", request.ranks},
            {"threads", request.threads},
            {"repetitions", request.repetitions}};
}

/// The text in @p field of the answer to @p message; where there is none, nothing of it stays.
Result<std::string> measured(const Target &target, const nlohmann::json &message, const char *field,
                             const std::string &what, Progress &progress, const std::atomic<bool> &stop)
{
    auto text = textIn(askAndWait(target, message.dump(), what, progress, stop), field, target);
    if (!text && text.error().code != ErrorCode::Cancelled) { // where what measured was killed
        const nlohmann::json leave{{"do", "leave"}, {"run", message["run"]}};
        [[maybe_unused]] const auto left = ask(target, leave.dump(), kAnswerSeconds);
    }
    return text;
}

// --- Over there -----------------------------------------------------------------------------------------------------

/// Sets a flag once the session that asked is over.
class SessionWatch {
public:
    SessionWatch()
    {
        std::signal(SIGPIPE, SIG_IGN);
        std::signal(SIGHUP, SIG_IGN);
        m_thread = std::jthread([this](const std::stop_token &done) {
            constexpr int kListen = 100;
            SessionInput input;
            while (!done.stop_requested() && input.listen(kListen) == SessionInput::Said::Nothing)
                continue;
            m_over = !done.stop_requested();
        });
    }
    [[nodiscard]] const std::atomic<bool> &over() const { return m_over; }

private:
    std::atomic<bool> m_over = false;
    std::jthread m_thread;
};

/// measuringFolder(), which goes with this object.
class PrivateFolder {
public:
    explicit PrivateFolder(const std::string &id)
        : m_path(measuringFolder(id)),
          m_made(::mkdir(m_path.c_str(), 0700) == 0 ? Status() : ioError("no folder can be made: " + systemReason()))
    {
    }
    PrivateFolder(const PrivateFolder &) = delete;
    PrivateFolder &operator=(const PrivateFolder &) = delete;
    ~PrivateFolder()
    {
        std::error_code ignored;
        if (m_made)
            std::filesystem::remove_all(m_path, ignored);
    }
    [[nodiscard]] const Status &made() const { return m_made; }
    [[nodiscard]] std::string file(const char *name) const { return m_path + "/" + name; }
    [[nodiscard]] const std::string &path() const { return m_path; }

private:
    const std::string m_path;
    const Status m_made;
};

/// What @p said ends with, without the program's name.
std::string reasonIn(const std::string &said)
{
    constexpr std::string_view kError = "planloom: error: ";
    const auto at = said.rfind(kError);
    std::string line = said.substr(at == std::string::npos ? 0 : at + kError.size());
    if (at != std::string::npos)
        line.resize(std::min(line.size(), line.find('\n')));
    while (!line.empty() && (line.back() == '\n' || line.back() == ' '))
        line.pop_back();
    return line;
}

/// Until @p command ends. @p look: several times a second; its error ends it.
template <class Look>
Status runChild(const agent::Command &command, const char *what, const std::atomic<bool> &stop, int stopSignal,
                const Look &look)
{
    auto child = agent::Child::start(command);
    if (!child)
        return child.error();
    std::string said;
    Status wrong;
    auto exit = child->poll();
    for (; !exit && wrong; exit = child->poll()) {
        said += child->read(50);
        wrong = stop.load() ? Status(cancelled()) : look();
    }
    if (!wrong) { // it ends what it has started
        child->signalGroup(stopSignal);
        for (const auto until = SteadyClock::now() + 3s; !child->poll() && SteadyClock::now() < until;)
            child->read(50);
        return wrong;
    }
    said += child->read(0);
    if (exit->status == 0 && exit->signal == 0)
        return {};
    const std::string reason = reasonIn(said);
    constexpr int kWrongInput = 2; // of planloom
    if (exit->status == kWrongInput && !reason.empty())
        return badInput(reason);
    return failed(
        fmt::format("{} ended with {}{}{}", what, agent::describe(*exit), reason.empty() ? "" : ": ", reason));
}

/// The machine of each device's rank.
std::vector<std::int32_t> nodesOf(const cluster::Cluster &cluster)
{
    std::vector<std::int32_t> nodes;
    for (const cluster::Device &device : cluster.devices())
        nodes.push_back(device.node.value);
    return nodes;
}

/// The longest that messages and collectives take, on the slowest network: rings, and each pair.
std::chrono::seconds linksLimit(std::size_t hosts) { return 120s + std::chrono::seconds(10) * hosts * hosts; }

Result<std::string> linksOnHosts(const cluster::Cluster &cluster, const std::vector<agent::PlanHost> &list,
                                 const std::string &id, const std::string &folder, const std::atomic<bool> &stop)
{
    const std::string meeting = agent::meetingFolder(id);
    const auto nodes = nodesOf(cluster);
    JoinedHosts hosts;
    const auto cores = hosts.joinAll(list, cluster.nodes().size(), id, stop);
    if (!cores)
        return cores.error();
    const auto places = agent::placesOf(nodes, cluster, *cores);
    if (!places)
        return places.error();
    const agent::Scratch memory;
    const auto end =
        agent::MeetingEnd::make(meeting, folder, folder + "/none", memory.path(), agent::sshConfigOf(*places));
    if (!end)
        return end.error();
    const auto command = agent::ranksOnHostsCommand(*places,
                                                    {"transport", "--out", meeting + "/run/links.json", "--nodes",
                                                     fmt::format("{}", fmt::join(nodes, ","))},
                                                    folder, meeting);
    if (!command)
        return command.error();
    const auto until = SteadyClock::now() + linksLimit(list.size());
    const Status ran = runChild(*command, "the ranks that measure links", stop, SIGTERM, [&]() -> Status {
        hosts.tend();
        if (const auto lost = hosts.lost())
            return *lost;
        if (SteadyClock::now() > until)
            return failed(
                fmt::format("the ranks that measure links did not end within {} s", linksLimit(list.size()).count()));
        return {};
    });
    if (!ran) {
        endMeeting(meeting); // ranks that mpirun has not ended
        return ran.error();
    }
    if (const Status came = hosts.fetch(folder, stop); !came)
        return came.error();
    return readFile(folder + "/links.json");
}

} // namespace

Status checkLinks(const cluster::Cluster &cluster)
{
    const auto hosts = agent::hostsOf(cluster);
    if (!hosts)
        return hosts.error();
    if (hosts->empty() && cluster.nodes().size() > 1)
        return badInput(fmt::format("no node of the cluster {} has an address; add address (and user, port) to its "
                                    "nodes",
                                    cluster.name()));
    if (cluster.devices().size() < 2)
        return badInput(fmt::format("the cluster {} has one device; there are no links to measure", cluster.name()));
    return {};
}

Result<std::string> measureOperators(const Target &target, const OperatorsRequest &request, const Note &note,
                                     const NeedsModelFile &needed, Progress &progress, const std::atomic<bool> &stop)
{
    const auto model = modelToSend(request, needed);
    if (!model)
        return model.error();
    const auto same = askSameVersion(target, R"({"do":"describe"})", kAnswerSeconds, &stop);
    if (!same)
        return same;
    const std::string id = agent::randomHex(8);
    nlohmann::json message = toJson(request, id);
    if (*model) {
        if (const Status sent = sendLoad(target, {**model, std::nullopt}, note, stop); !sent)
            return sent.error();
        message["model"] = nlohmann::json::parse(toJson(**model));
    }
    return measured(target, message, "profile", "measuring operators on " + target.name, progress, stop);
}

Result<std::string> measureLinks(const Target &target, const cluster::Cluster &cluster, Progress &progress,
                                 const std::atomic<bool> &stop)
{
    if (const Status good = checkLinks(cluster); !good)
        return good.error();
    const auto same = askSameVersion(target, R"({"do":"describe"})", kAnswerSeconds, &stop);
    if (!same)
        return same;
    const std::string id = agent::randomHex(8);
    const nlohmann::json message{{"do", "links"}, {"run", id}, {"cluster", cluster::toJson(cluster)}};
    return measured(target, message, "links", "measuring links on " + target.name, progress, stop);
}

std::string measuringFolder(const std::string &id) { return agent::meetingFolder(id) + "-measured"; }

Result<std::string> measureOperatorsHere(const OperatorsRequest &request, const std::string &id)
{
    const PrivateFolder folder(id);
    const auto binary = agent::planloomBinary();
    if (!folder.made() || !binary)
        return folder.made() ? binary.error() : folder.made().error();
    agent::Command command;
    command.program = *binary;
    command.environment = agent::allowedEnvironment();
    command.dieWithThread = true;
    command.arguments = {"profile", "--quiet", "--device", request.device, "-o", folder.file("profile.json")};
    const auto add = [&](const char *option, std::string value) {
        command.arguments.insert(command.arguments.end(), {option, std::move(value)});
    };
    if (!request.plan.empty()) {
        if (const Status written = writeFileAtomically(folder.file("plan.json"), request.plan); !written)
            return written.error();
        add("--plan", folder.file("plan.json"));
    } else {
        add("--model", request.model);
    }
    if (!request.samples.empty())
        add("--samples", fmt::format("{}", fmt::join(request.samples, ",")));
    if (request.sequence > 0)
        add("--sequence", std::to_string(request.sequence));
    for (const auto &[option, value] : {std::pair{"--ranks", request.ranks}, std::pair{"--threads", request.threads},
                                        std::pair{"--repetitions", request.repetitions}}) {
        if (value > 0)
            add(option, std::to_string(value));
    }
    const SessionWatch session;
    const Status ran = runChild(command, "planloom profile", session.over(), SIGINT, [] { return Status(); });
    return ran ? readFile(folder.file("profile.json")) : Result<std::string>(ran.error());
}

Result<std::string> measureLinksHere(const cluster::Cluster &cluster, const std::string &id)
{
    if (const Status good = checkLinks(cluster); !good)
        return good.error();
    const auto hosts = agent::hostsOf(cluster);
    if (!hosts)
        return hosts.error();
    const PrivateFolder folder(id);
    if (!folder.made())
        return folder.made().error();
    const SessionWatch session;
    if (!hosts->empty())
        return linksOnHosts(cluster, *hosts, id, folder.path(), session.over());
    const agent::Scratch memory;
    const auto command = agent::ranksCommand(static_cast<int>(cluster.devices().size()),
                                             {"transport", "--out", folder.file("links.json"), "--nodes",
                                              fmt::format("{}", fmt::join(nodesOf(cluster), ","))},
                                             memory);
    if (!command)
        return command.error();
    const Status ran =
        runChild(*command, "the ranks that measure links", session.over(), SIGTERM, [] { return Status(); });
    return ran ? readFile(folder.file("links.json")) : Result<std::string>(ran.error());
}

} // namespace planloom::remote
