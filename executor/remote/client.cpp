// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/client.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/trace/trace.h"
#include "executor/agent/hosts.h"
#include "executor/agent/run_folder.h"
#include "executor/remote/load.h"
#include "executor/remote/mirror.h"
#include "executor/remote/places.h"
#include "executor/remote/ssh.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <thread>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

using Clock = std::chrono::steady_clock;

constexpr double kCleanSeconds = 600;
constexpr std::chrono::seconds kSilent{60};   ///< the other end says every second that it is alive
constexpr std::chrono::seconds kTryAgain{60}; ///< to connect again

/// A run over there and its folder here.
class Mirrored {
public:
    Mirrored(Target target, std::string run, std::string folder, Note note, bool anew = false)
        : m_target(std::move(target)),
          m_run(std::move(run)),
          m_folder(std::move(folder)),
          m_note(std::move(note)),
          m_anew(anew)
    {
    }

    Status follow(const agent::RunEvents &events, const std::string &checkpoints, const std::atomic<int> &stops);

private:
    void tell(std::string_view line, const agent::RunEvents &events);
    void tellTables(const agent::RunEvents &events) const;
    Result<std::string> begin(Session &session, const std::atomic<int> &stops);
    Status followOnce(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops);
    Status followOn(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops);
    void passStops(const std::atomic<int> &stops);
    [[nodiscard]] Error lost(const Error &why) const;

    const Target m_target;
    const std::string m_run;
    const std::string m_folder;
    const Note m_note;
    bool m_anew = false;                                           ///< nothing that is here counts
    int m_stopped = 0;                                             ///< stops that were passed on
    bool m_connected = false;                                      ///< the other end has answered
    std::optional<std::chrono::steady_clock::time_point> m_lostAt; ///< it did no more
    std::optional<Status> m_outcome;
};

Error Mirrored::lost(const Error &why) const
{
    return ioError(fmt::format("the connection was lost ({}); the run goes on over there: planloom attach {}",
                               why.message, m_folder));
}

/// The trace's own table: what is traced over there is named by it.
void Mirrored::tellTables(const agent::RunEvents &events) const
{
    const auto trace = trace::readTrace(m_folder + "/trace.pltrace");
    if (trace && events.onTraceTables)
        events.onTraceTables(*trace);
}

void Mirrored::tell(std::string_view line, const agent::RunEvents &events)
{
    const auto document = parseJson(line);
    if (!document)
        return;
    JsonReader reader(*document);
    const std::string text = std::string(line) + "\n";
    if (reader.has("started") && events.onStarted) {
        events.onStarted(m_run, m_folder);
    } else if (reader.has("step")) {
        const auto steps = run::metricsFromJson(text);
        for (std::size_t i = 0; steps && events.onStep && i < steps->size(); ++i)
            events.onStep((*steps)[i]);
    } else if (reader.has("validation")) {
        const auto seen = run::validationsFromJson(text);
        for (std::size_t i = 0; seen && events.onValidation && i < seen->size(); ++i)
            events.onValidation((*seen)[i]);
    } else if (reader.has("note")) {
        m_note(reader.text("note"));
    } else if (reader.has("state") && events.onState) {
        const auto state = static_cast<agent::RunState>(reader.integer("state", 0, 5));
        events.onState(state, reader.text("message", std::string()));
    } else if (reader.has("summary") && events.onSummary) {
        if (auto summary = run::summaryFromJson(reader.object("summary").value().dump())) {
            summary->tracePath = m_folder + "/trace.pltrace";
            tellTables(events);
            events.onSummary(*summary);
        }
    } else if (reader.has("outcome")) {
        JsonReader outcome = reader.object("outcome");
        constexpr auto kLast = static_cast<std::int64_t>(ErrorCode::Failed);
        m_outcome = outcome.flag("ok", false)
            ? Status()
            : Status(Error{static_cast<ErrorCode>(outcome.integerOr("code", kLast, 0, kLast)), outcome.text("message"),
                           outcome.text("file", std::string()),
                           static_cast<int>(outcome.integerOr("line", 0, 0, 1 << 30))});
    }
}

void Mirrored::passStops(const std::atomic<int> &stops)
{
    for (; m_stopped < stops.load(); ++m_stopped) {
        const auto reply = ask(m_target, Json{{"do", "stop"}, {"run", m_run}}.dump(), kAnswerSeconds);
        if (!reply)
            m_note(fmt::format("the stop did not arrive: {}", reply.error().text()));
    }
}

/// Waits for a session's reply. Errors: those of explain(), what the other end says, Io (silence).
Result<std::string> Mirrored::begin(Session &session, const std::atomic<int> &stops)
{
    constexpr std::size_t kMost = std::size_t{1} << 20; // of what a login prints
    std::string first;
    for (auto heard = Clock::now();;) {
        const std::optional<agent::Exit> exit = session.poll(); // before it is read to its end
        const std::string bytes = session.read(50);
        first += bytes;
        const auto at = findReply(first);
        if (const auto end = at == std::string::npos ? at : first.find('\n', at); end != std::string::npos) {
            if (const Status good = errorIn(first.substr(at, end - at), m_target); !good)
                return good.error();
            return first.substr(end + 1);
        }
        if (exit && bytes.empty()) {
            const Error why = explain(m_target, *exit, session.errors());
            return m_lostAt ? ioError(why.message) : why; // names are not resolved either while there is no network
        }
        if (first.size() > kMost)
            return failed(fmt::format("{}: the answer is no reply of planloom", m_target.url()));
        if (!bytes.empty())
            heard = Clock::now();
        if (Clock::now() - heard > kSilent)
            return ioError(fmt::format("{}: no answer for {} s", m_target.url(), kSilent.count()));
        if (stops.load() > m_stopped + 1)
            return cancelled();
    }
}

Status Mirrored::followOnce(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops)
{
    Json request{{"do", "follow"}, {"run", m_run}, {"have", Json::object()}};
    if (!m_anew)
        request["have"] = mirror.have();
    if (!checkpoints.empty())
        request["checkpoints"] = checkpoints;
    auto session = Session::open(m_target, request.dump());
    if (!session)
        return session.error();
    mirror.newSession();
    const auto first = begin(*session, stops);
    if (!first)
        return first.error();
    if (const Status taken = mirror.take(*first); !taken)
        return taken;
    m_connected = true;
    m_anew = false;
    for (auto heard = Clock::now(); !mirror.ended();) {
        passStops(stops);
        const std::optional<agent::Exit> exit = session->poll();
        const std::string bytes = session->read(50);
        if (const Status taken = mirror.take(bytes); !taken)
            return taken;
        if (exit && bytes.empty() && !mirror.ended())
            return ioError(explain(m_target, *exit, session->errors()).message);
        if (!bytes.empty())
            heard = Clock::now();
        if (Clock::now() - heard > kSilent)
            return ioError(fmt::format("{}: nothing was heard for {} s", m_target.url(), kSilent.count()));
    }
    return {};
}

/// followOnce(), again where the connection was lost: a network that was cut is back after some seconds, or not soon.
Status Mirrored::followOn(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops)
{
    while (true) {
        m_connected = false;
        const int asked = stops.load();
        const Status followed = followOnce(mirror, checkpoints, stops);
        if (followed || followed.error().code != ErrorCode::Io || !followed.error().file.empty())
            return followed; // done, refused, or the disk here
        if (m_connected || !m_lostAt) {
            m_note(fmt::format("the connection was lost ({}); it is tried again for {} s", followed.error().message,
                               kTryAgain.count()));
            m_lostAt = Clock::now();
        }
        if (Clock::now() - *m_lostAt > kTryAgain || stops.load() > std::max(asked, m_stopped))
            return lost(followed.error());
        for (int i = 0; i < 20 && stops.load() == asked; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

Status Mirrored::follow(const agent::RunEvents &events, const std::string &checkpoints, const std::atomic<int> &stops)
{
    Mirror mirror(m_folder, [&](std::string_view line) { tell(line, events); });
    constexpr int kTries = 3; // what was cut and written again while it was sent
    std::vector<std::string> damaged;
    for (int i = 0; i < kTries && (i == 0 || !damaged.empty()); ++i) {
        if (const Status followed = followOn(mirror, checkpoints, stops); !followed)
            return followed;
        damaged = mirror.removeDamaged();
    }
    m_note(fmt::format("{} bytes of the run came here", mirror.bytes()));
    if (!damaged.empty()) {
        const std::string missing = fmt::format("{}: of the run's files these arrived damaged {} times and are not "
                                                "here: {}; planloom attach {} fetches them again",
                                                m_target.url(), kTries, fmt::join(damaged, ", "), m_folder);
        if (!m_outcome || m_outcome->ok())
            return failed(missing);
        m_note(missing);
    }
    if (m_outcome)
        return *m_outcome;
    return failed(fmt::format("{}: the process that kept the run was ended; its folder holds what it did until then",
                              m_target.url()));
}

Status writeRemoteFile(const Target &target, const std::string &run, const std::string &folder)
{
    const Json file{{"schema", "planloom.remote/1"}, {"run", run}, {"target", Json::parse(toJson(target))}};
    return writeFileAtomically(folder + "/" + kRemoteFile, file.dump(2) + "\n");
}

/// Of a plan over several hosts: says which they are.
Status checkHosts(const agent::TrainRequest &request, const Note &note)
{
    const auto document = plan::documentFromJson(request.planJson);
    const auto hosts = document ? agent::hostsOf(*document) : document.error();
    if (!hosts || hosts->empty())
        return hosts ? Status() : hosts.error();
    if (const Status good = agent::checkOnHosts(document->plan, request.settings); !good)
        return good;
    std::string list;
    for (const agent::PlanHost &host : *hosts)
        list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", host.host.address, host.ranks);
    note(fmt::format("{} hosts train, with so many ranks each: {}", hosts->size(), list));
    return {};
}

class RemoteClient final : public agent::Client {
public:
    RemoteClient(Target target, Note note, NeedsModelFile needed)
        : m_target(std::move(target)),
          m_note(std::move(note)),
          m_needed(std::move(needed))
    {
    }

    Status train(const agent::TrainRequest &request, const agent::RunEvents &events) override;
    void stop() override
    {
        ++m_stops;
        m_stop = true;
    }
    Status lookCloser(double) override
    {
        return unsupported("kernels of a run on another machine are recorded from its start only, with --kernels");
    }

private:
    Result<std::string> start(const agent::TrainRequest &request, const Load &load);
    Status resume(const agent::TrainRequest &request, const agent::RunEvents &events);

    const Target m_target;
    const Note m_note;
    const NeedsModelFile m_needed;
    std::atomic<int> m_stops = 0;
    std::atomic<bool> m_stop = false;
};

Result<std::string> RemoteClient::start(const agent::TrainRequest &request, const Load &load)
{
    const auto reply = ask(m_target, runRequest("start", request, load), kAnswerSeconds);
    if (!reply)
        return reply.error();
    const auto document = parseJson(*reply);
    JsonReader reader(*document);
    std::string id = reader.text("run");
    if (reader.failed() || !isRunId(id))
        return failed(fmt::format("{}: planloom over there named no run", m_target.url()));
    return id;
}

Status RemoteClient::train(const agent::TrainRequest &request, const agent::RunEvents &events)
{
    if (request.resume)
        return resume(request, events);
    if (!request.settings.arrivals.empty())
        return unsupported("--arrivals do not travel to another machine yet; train here");
    if (const Status good = checkHosts(request, m_note); !good)
        return good;
    const auto load = loadOf(request, m_needed);
    if (!load)
        return load.error();
    if (load->model)
        m_note(fmt::format("the run needs the model's file, {}/{}{}", load->model->from, load->model->entry(),
                           load->model->files.size() > 1
                               ? fmt::format(", and {} beside it", load->model->files.size() - 1)
                               : std::string()));
    if (const Status sent = sendLoad(m_target, *load, m_note, m_stop); !sent)
        return sent;
    const auto document = parseJson(request.planJson);
    const std::string model = JsonReader(*document).object("model").text("name", std::string());
    auto folder = request.runDir.empty() ? agent::RunFolder::createBeneath(dataHome() + "/runs", model)
                                         : agent::RunFolder::create(request.runDir); // and its lock
    if (!folder)
        return folder.error();
    const auto run = m_stop ? Result<std::string>(cancelled()) : start(request, *load);
    if (!run) {
        folder->discard();
        return run.error();
    }
    if (const Status written = writeRemoteFile(m_target, *run, folder->path()); !written)
        return written;
    return Mirrored(m_target, *run, folder->path(), m_note).follow(events, {}, m_stops);
}

/// What remote.json says.
struct RemoteRun {
    Target target;
    std::string id;
};
Result<RemoteRun> readRemoteFile(const std::string &folder)
{
    const std::string path = folder + "/" + kRemoteFile;
    const auto text = readFile(path);
    if (!text)
        return notFound("holds no run that was started with planloom train --on").in(folder);
    const auto document = parseJson(*text);
    if (!document)
        return document.error().in(path);
    JsonReader reader(*document);
    std::string run = reader.text("run");
    auto target = targetFromJson(reader.object("target").value().dump());
    if (reader.failed() || !target || !isRunId(run))
        return badInput("is damaged").in(path);
    return RemoteRun{*std::move(target), std::move(run)};
}

/// Holds the folder of a mirrored run. Error: BadInput (another planloom does).
class FolderLock {
public:
    static Result<FolderLock> take(const std::string &folder)
    {
        const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0)
            return FolderLock(lock);
        if (lock >= 0)
            ::close(lock);
        return badInput("the run is mirrored here by another planloom already").in(folder);
    }
    FolderLock(FolderLock &&other) noexcept : m_lock(std::exchange(other.m_lock, -1)) {}
    FolderLock &operator=(FolderLock &&) = delete;
    ~FolderLock()
    {
        if (m_lock >= 0)
            ::close(m_lock);
    }

private:
    explicit FolderLock(int lock) : m_lock(lock) {}
    int m_lock;
};

Status RemoteClient::resume(const agent::TrainRequest &request, const agent::RunEvents &events)
{
    const std::string &folder = request.runDir;
    const auto run = readRemoteFile(folder);
    if (!run)
        return run.error();
    if (run->target.url() != m_target.url())
        return badInput(fmt::format("the run is on {}, not on {}", run->target.url(), m_target.url())).in(folder);
    const auto plan = readFile(folder + "/plan.json");
    if (!plan)
        return plan.error();
    if (*plan != request.planJson)
        return unsupported("a run on another machine goes on with its own plan; name its folder instead of a plan");
    const auto lock = FolderLock::take(folder);
    if (!lock)
        return lock.error();
    Json message{{"do", "resume"},
                 {"run", run->id},
                 {"settings", run::toJson({request.settings, {}})},
                 {"restarts", request.settings.restarts},
                 {"hung_seconds", request.settings.hungSeconds}};
    if (!request.settings.data.empty()) {
        auto data = itemOf(request.settings.data);
        if (!data)
            return data.error();
        const Load load{*std::move(data), std::nullopt};
        if (const Status sent = sendLoad(m_target, load, m_note, m_stop); !sent)
            return sent;
        message["data"] = Json::parse(toJson(load.data));
    }
    const auto reply = ask(m_target, message.dump(), kAnswerSeconds);
    if (!reply)
        return reply.error();
    // Files over there are put aside, cut and written again: those here are not their beginnings.
    return Mirrored(m_target, run->id, folder, m_note, true).follow(events, {}, m_stops);
}

class FolderAttachment final : public Attachment {
public:
    FolderAttachment(Mirrored mirrored, std::string checkpoints, FolderLock lock)
        : m_mirrored(std::move(mirrored)),
          m_checkpoints(std::move(checkpoints)),
          m_lock(std::move(lock))
    {
    }
    Status follow(const agent::RunEvents &events) override { return m_mirrored.follow(events, m_checkpoints, m_stops); }
    void stop() override { ++m_stops; }

private:
    Mirrored m_mirrored;
    const std::string m_checkpoints;
    const FolderLock m_lock;
    std::atomic<int> m_stops = 0;
};

} // namespace

Result<Description> describe(const Target &target)
{
    const auto reply = askSameVersion(target, Json{{"do", "describe"}}.dump(), kAnswerSeconds);
    if (!reply)
        return reply.error();
    const auto document = parseJson(*reply);
    JsonReader reader(*document);
    Description found;
    found.version = reader.text("planloom");
    found.host = reader.text("host");
    found.cores = static_cast<int>(reader.integer("cores", 0, 1 << 20));
    found.memoryAvailable = reader.integer("memory_available", 0);
    found.freeBytes = reader.integer("free_bytes", 0);
    found.mpirun = reader.flag("mpirun", false);
    reader.each("gpus", [&](JsonReader &gpu) { found.gpus.push_back(gpu.asText()); });
    if (const Status good = reader.failure(); !good)
        return good.error();
    return found;
}

std::unique_ptr<agent::Client> connect(const Target &target, Note note, NeedsModelFile needed)
{
    return std::make_unique<RemoteClient>(target, std::move(note), std::move(needed));
}

Result<std::unique_ptr<Attachment>> attach(const AttachOptions &options, Note note)
{
    const auto run = readRemoteFile(options.folder);
    if (!run)
        return run.error();
    auto lock = FolderLock::take(options.folder);
    if (!lock)
        return lock.error();
    return std::unique_ptr<Attachment>(std::make_unique<FolderAttachment>(
        Mirrored(run->target, run->id, options.folder, std::move(note)), options.checkpoints, *std::move(lock)));
}

Result<std::optional<Target>> targetOfRun(const std::string &folder)
{
    std::error_code unknown;
    if (!fs::exists(folder + "/" + kRemoteFile, unknown))
        return std::optional<Target>();
    const auto run = readRemoteFile(folder);
    if (!run)
        return run.error();
    return std::optional<Target>(run->target);
}

Result<Cleaned> cleanUp(const Target &target, double days)
{
    const auto reply = askSameVersion(target, Json{{"do", "clean"}, {"days", days}}.dump(), kCleanSeconds);
    if (!reply)
        return reply.error();
    const auto document = parseJson(*reply);
    JsonReader reader(*document);
    constexpr std::int64_t kMost = 1 << 30;
    Cleaned cleaned;
    cleaned.runs = static_cast<int>(reader.integer("runs", 0, kMost));
    cleaned.items = static_cast<int>(reader.integer("items", 0, kMost));
    cleaned.bytes = reader.integer("bytes", 0);
    cleaned.running = static_cast<int>(reader.integer("running", 0, kMost));
    cleaned.kept = static_cast<int>(reader.integer("kept", 0, kMost));
    if (const Status good = reader.failure(); !good)
        return good.error();
    return cleaned;
}

} // namespace planloom::remote
