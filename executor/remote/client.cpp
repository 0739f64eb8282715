// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/client.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/trace/trace.h"
#include "executor/agent/run_folder.h"
#include "executor/remote/items.h"
#include "executor/remote/mirror.h"
#include "executor/remote/places.h"
#include "executor/remote/ssh.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Note = std::function<void(const std::string &)>;

constexpr double kAnswerSeconds = 30;
constexpr double kCheckSeconds = 3600; ///< to hash what was sent
constexpr const char *kRemoteFile = "remote.json";

/// A session with both ends of its pipes.
struct Session {
    agent::Child child;
    int lifeline = -1; ///< its standard input
    std::unique_ptr<MemoryFile> errors;

    Session(agent::Child made, int input, std::unique_ptr<MemoryFile> said)
        : child(std::move(made)),
          lifeline(input),
          errors(std::move(said))
    {
    }
    Session(Session &&other) noexcept
        : child(std::move(other.child)),
          lifeline(std::exchange(other.lifeline, -1)),
          errors(std::move(other.errors))
    {
    }
    Session &operator=(Session &&) = delete;
    ~Session()
    {
        if (lifeline >= 0)
            ::close(lifeline);
    }
};

Result<Session> openSession(const Target &target, const std::string &request)
{
    auto command = sessionCommand(target);
    if (!command)
        return command.error();
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0)
        return ioError("no pipe can be made: " + systemReason());
    auto errors = std::make_unique<MemoryFile>();
    command->standardInput = pipe[0];
    command->standardError = errors->descriptor();
    auto child = agent::Child::start(*command);
    ::close(pipe[0]);
    if (!child) {
        ::close(pipe[1]);
        return child.error();
    }
    Session session(*std::move(child), pipe[1], std::move(errors));
    const std::string line = request + "\n";
    std::string_view left = line;
    while (!left.empty()) {
        const auto put = ::write(session.lifeline, left.data(), left.size());
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            break; // it ends, and says why
        left.remove_prefix(static_cast<std::size_t>(put));
    }
    return session;
}

/// A run over there and its folder here.
class Mirrored {
public:
    Mirrored(Target target, std::string run, std::string folder, Note note)
        : m_target(std::move(target)),
          m_run(std::move(run)),
          m_folder(std::move(folder)),
          m_note(std::move(note))
    {
    }

    Status follow(const agent::RunEvents &events, const std::string &checkpoints, const std::atomic<int> &stops);

private:
    void tell(std::string_view line, const agent::RunEvents &events);
    void tellTables(const agent::RunEvents &events) const;
    Status followOnce(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops);
    void passStops(const std::atomic<int> &stops);
    [[nodiscard]] Error lost(const Error &why) const;

    const Target m_target;
    const std::string m_run;
    const std::string m_folder;
    const Note m_note;
    int m_stopped = 0; ///< stops that were passed on
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

Status Mirrored::followOnce(Mirror &mirror, const std::string &checkpoints, const std::atomic<int> &stops)
{
    Json request{{"do", "follow"}, {"run", m_run}, {"have", mirror.have()}};
    if (!checkpoints.empty())
        request["checkpoints"] = checkpoints;
    auto session = openSession(m_target, request.dump());
    if (!session)
        return session.error();
    std::string first; // the reply, in front of the messages
    bool replied = false;
    for (std::optional<agent::Exit> exit; !mirror.ended();) {
        passStops(stops);
        std::string bytes = session->child.read(50);
        if (!replied) {
            first += bytes;
            const auto at = first.find("{\"planloom\":");
            const auto end = at == std::string::npos ? at : first.find('\n', at);
            if (end != std::string::npos) {
                const std::string reply = first.substr(at, end - at);
                const auto document = parseJson(reply);
                if (document && document->contains("error"))
                    return notFound(
                        fmt::format("{}: {}", m_target.url(), JsonReader(*document).object("error").text("message")));
                replied = true;
                bytes = first.substr(end + 1);
            }
        }
        if (const Status taken = replied ? mirror.take(bytes) : Status(); !taken)
            return taken;
        if (exit && bytes.empty() && !mirror.ended())
            return lost(explain(m_target, *exit, session->errors->text()));
        if (!exit)
            exit = session->child.poll();
    }
    return {};
}

Status Mirrored::follow(const agent::RunEvents &events, const std::string &checkpoints, const std::atomic<int> &stops)
{
    Mirror mirror(m_folder, [&](std::string_view line) { tell(line, events); });
    constexpr int kTries = 3; // what was cut and written again while it was sent
    for (int i = 0; i < kTries; ++i) {
        if (const Status followed = followOnce(mirror, checkpoints, stops); !followed)
            return followed;
        if (mirror.removeDamaged().empty())
            break;
    }
    m_note(fmt::format("{} bytes of the run came here", mirror.bytes()));
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

/// What a run is given, of which each part travels once.
struct Load {
    Item data;
    std::optional<Item> model;

    [[nodiscard]] std::vector<const Item *> items() const
    {
        std::vector<const Item *> all{&data};
        if (model)
            all.push_back(&*model);
        return all;
    }
    [[nodiscard]] std::string request(const char *what) const
    {
        Json list = Json::array();
        for (const Item *item : items())
            list.push_back(Json::parse(toJson(*item)));
        return Json{{"do", what}, {"items", std::move(list)}}.dump();
    }
};

Result<Load> loadOf(const agent::TrainRequest &request)
{
    auto data = itemOf(request.settings.data);
    if (!data)
        return data.error();
    const auto plan = parseJson(request.planJson);
    if (!plan)
        return plan.error();
    JsonReader reader(*plan);
    const std::string source = reader.object("model").text("source", std::string());
    std::error_code unknown;
    Load load{*std::move(data), std::nullopt};
    if (reader.failed() || !fs::path(source).is_absolute() || !fs::is_regular_file(source, unknown))
        return load;
    auto model = modelItem(source);
    if (!model)
        return model.error();
    load.model = *std::move(model);
    return load;
}

/// An absolute path that sftp takes as it is.
bool isPlainFolder(std::string_view path)
{
    return path.starts_with('/') && std::ranges::all_of(path, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.'
                   || c == '_' || c == '-';
           });
}

class RemoteClient final : public agent::Client {
public:
    RemoteClient(Target target, Note note) : m_target(std::move(target)), m_note(std::move(note)) {}

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
    Status sendLoad(const Load &load);
    Result<std::vector<Copy>> missing(const Load &load);
    Result<std::string> start(const agent::TrainRequest &request, const Load &load);

    const Target m_target;
    const Note m_note;
    std::atomic<int> m_stops = 0;
    std::atomic<bool> m_stop = false;
};

/// The files that are not over there; a note says how much that is.
Result<std::vector<Copy>> RemoteClient::missing(const Load &load)
{
    const auto reply = ask(m_target, load.request("need"), kAnswerSeconds, &m_stop);
    if (!reply)
        return reply.error();
    if (const Status good = checkVersion(m_target, *reply); !good)
        return good.error();
    const auto document = parseJson(*reply);
    JsonReader reader(*document);
    const std::string folder = reader.text("folder");
    if (!isPlainFolder(folder))
        return unsupported(fmt::format("{}: the cache over there is {}; set XDG_CACHE_HOME there to a path of letters, "
                                       "digits and ._-",
                                       m_target.url(), folder));
    std::vector<Copy> copies;
    std::int64_t all = 0, left = 0;
    const auto items = load.items();
    std::size_t i = 0;
    reader.list("items", [&](JsonReader &entry) {
        if (i >= items.size())
            return;
        const Item &item = *items[i++];
        all += item.bytes();
        if (entry.flag("here", false))
            return;
        std::size_t f = 0;
        entry.list("files", [&](JsonReader &bytes) {
            if (f >= item.files.size())
                return;
            const ItemFile &file = item.files[f++];
            const auto have = bytes.asInteger(0, file.bytes);
            left += file.bytes - have;
            if (have < file.bytes || have == 0)
                copies.push_back(
                    {item.from + "/" + file.path, folder + "/" + item.id() + ".part/" + file.path, have > 0});
        });
    });
    if (const Status good = reader.failure(); !good)
        return good.error();
    m_note(fmt::format("{} bytes are sent; {} of {} are there", left, all - left, all));
    return copies;
}

Status RemoteClient::sendLoad(const Load &load)
{
    const auto copies = missing(load);
    if (!copies)
        return copies.error();
    if (!copies->empty()) {
        if (const Status sent = send(m_target, *copies, m_stop); !sent)
            return sent;
    }
    const auto kept = ask(m_target, load.request("keep"), kCheckSeconds, &m_stop);
    return kept ? Status() : kept.error();
}

Result<std::string> RemoteClient::start(const agent::TrainRequest &request, const Load &load)
{
    Json message{{"do", "start"},
                 {"plan", request.planJson},
                 {"settings", run::toJson({request.settings, {}})},
                 {"restarts", request.settings.restarts},
                 {"hung_seconds", request.settings.hungSeconds},
                 {"data", Json::parse(toJson(load.data))}};
    if (load.model)
        message["model"] = Json::parse(toJson(*load.model));
    const auto reply = ask(m_target, message.dump(), kAnswerSeconds);
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
        return unsupported("a run on another machine cannot be resumed yet; resume it over there");
    if (!request.settings.arrivals.empty())
        return unsupported("--arrivals do not travel to another machine yet; train here");
    const auto load = loadOf(request);
    if (!load)
        return load.error();
    if (const Status sent = sendLoad(*load); !sent)
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

class FolderAttachment final : public Attachment {
public:
    FolderAttachment(Mirrored mirrored, std::string checkpoints, int lock)
        : m_mirrored(std::move(mirrored)),
          m_checkpoints(std::move(checkpoints)),
          m_lock(lock)
    {
    }
    FolderAttachment(const FolderAttachment &) = delete;
    FolderAttachment &operator=(const FolderAttachment &) = delete;
    ~FolderAttachment() override { ::close(m_lock); }
    Status follow(const agent::RunEvents &events) override { return m_mirrored.follow(events, m_checkpoints, m_stops); }
    void stop() override { ++m_stops; }

private:
    Mirrored m_mirrored;
    const std::string m_checkpoints;
    const int m_lock;
    std::atomic<int> m_stops = 0;
};

} // namespace

Result<Description> describe(const Target &target)
{
    const auto reply = ask(target, Json{{"do", "describe"}}.dump(), kAnswerSeconds);
    if (!reply)
        return reply.error();
    if (const Status good = checkVersion(target, *reply); !good)
        return good.error();
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

std::unique_ptr<agent::Client> connect(const Target &target, Note note)
{
    return std::make_unique<RemoteClient>(target, std::move(note));
}

Result<std::unique_ptr<Attachment>> attach(const AttachOptions &options, Note note)
{
    const auto text = readFile(options.folder + "/" + kRemoteFile);
    if (!text)
        return notFound("holds no run that was started with planloom train --on").in(options.folder);
    const auto document = parseJson(*text);
    if (!document)
        return document.error().in(options.folder + "/" + kRemoteFile);
    JsonReader reader(*document);
    const std::string run = reader.text("run");
    const auto target = targetFromJson(reader.object("target").value().dump());
    if (reader.failed() || !target || !isRunId(run))
        return badInput("is damaged").in(options.folder + "/" + kRemoteFile);
    const int lock = ::open(options.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (lock >= 0)
            ::close(lock);
        return badInput("the run is mirrored here by another planloom already").in(options.folder);
    }
    return std::unique_ptr<Attachment>(std::make_unique<FolderAttachment>(
        Mirrored(*target, run, options.folder, std::move(note)), options.checkpoints, lock));
}

} // namespace planloom::remote
