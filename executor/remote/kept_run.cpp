// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/kept_run.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/agent/client.h"
#include "executor/remote/joined_hosts.h"
#include "executor/remote/places.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace planloom::remote {
namespace {

using nlohmann::ordered_json;

/// Lines that are at once on the disk's side of the process.
class Events {
public:
    explicit Events(const std::string &path)
        : m_fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600))
    {
    }
    Events(const Events &) = delete;
    Events &operator=(const Events &) = delete;
    ~Events() { ::close(m_fd); }
    void line(const std::string &text) const
    {
        const std::string whole = text + "\n";
        [[maybe_unused]] const auto put = ::write(m_fd, whole.data(), whole.size()); // a full disk stops no run
    }
    void line(const ordered_json &json) const
    {
        line(json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    }

private:
    int m_fd;
};

sigset_t stopSignals()
{
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP})
        sigaddset(&set, signal);
    return set;
}

/// Passes signals on to the run, and ends it by force once one of its hosts is lost.
void watchRun(const std::stop_token &done, agent::Client &client, JoinedHosts &hosts, const std::atomic<bool> &joined,
              std::atomic<bool> &stop)
{
    const sigset_t set = stopSignals();
    const timespec wait{0, 50'000'000};
    for (bool ended = false; !done.stop_requested();) {
        if (::sigtimedwait(&set, nullptr, &wait) > 0) {
            stop = true;
            client.stop();
        }
        if (!joined)
            continue;
        hosts.tend();
        if (ended || !hosts.lost())
            continue;
        ended = true;
        client.stop();
        // What stops a run at the second time comes as a second event.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        client.stop();
    }
}

/// While files come: nothing but that is ended.
void watchFetch(const std::stop_token &done, std::atomic<bool> &stop)
{
    const sigset_t set = stopSignals();
    const timespec wait{0, 50'000'000};
    while (!done.stop_requested())
        stop = ::sigtimedwait(&set, nullptr, &wait) > 0 || stop;
}

/// The lock, held until the process ends; -1: it is held already. Those who look whether it is held take it for a
/// moment.
int lockRun(const std::string &folder)
{
    const int fd = ::open((folder + "/" + kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    constexpr int kTries = 50;
    bool locked = false;
    for (int i = 0; fd >= 0 && !locked && i < kTries; ++i) {
        locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const std::string text = std::to_string(::getpid());
    return locked && ::pwrite(fd, text.data(), text.size(), 0) > 0 ? fd : -1;
}

Result<agent::TrainRequest> requestIn(const std::string &folder)
{
    auto plan = readFile(folder + "/plan.json");
    const auto request = run::readRequest(folder + "/request.json");
    const auto more = readFile(folder + "/more.json");
    if (!plan || !request || !more)
        return !plan ? plan.error() : !request ? request.error() : more.error();
    const auto document = parseJson(*more);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    agent::TrainRequest made{*std::move(plan), folder + "/run", reader.flag("resume", false), request->settings, {}};
    made.settings.restarts = reader.integerOr("restarts", 0, 0, 1 << 20);
    made.settings.hungSeconds = reader.number("hung_seconds", 0.0);
    return made;
}

agent::RunEvents eventsTo(const Events &out)
{
    agent::RunEvents events;
    events.onStarted = [&out](const std::string &id, const std::string &folder) {
        out.line(ordered_json{{"started", {{"run", id}, {"folder", folder}}}});
    };
    events.onStep = [&out](const run::StepMetrics &step) { out.line(run::toJson(step)); };
    events.onValidation = [&out](const run::Validation &seen) { out.line(run::toJson(seen)); };
    events.onState = [&out](agent::RunState state, const std::string &message) {
        out.line(ordered_json{{"state", static_cast<int>(state)}, {"message", message}});
    };
    events.onSummary = [&out](const run::Summary &summary) {
        out.line(ordered_json{{"summary", ordered_json::parse(run::toJson(summary))}});
    };
    return events;
}

Status train(const std::string &id, const std::string &folder, const Events &out)
{
    auto request = requestIn(folder);
    if (!request)
        return request.error();
    auto client = agent::Client::startLocal();
    if (!client)
        return client.error();
    const Note note = [&out](const std::string &line) { out.line(ordered_json{{"note", line}}); };
    JoinedHosts hosts;
    std::atomic<bool> joined = false, stop = false;
    Status outcome;
    {
        const std::jthread watch([&](const std::stop_token &done) { watchRun(done, **client, hosts, joined, stop); });
        outcome = hosts.join(*request, id, (*client)->socket(), note, stop);
        joined = true;
        if (outcome)
            outcome = (*client)->train(*request, eventsTo(out));
    }
    if (request->meeting.folder.empty()) // of one host, or not all of them have joined
        return outcome;
    agent::removeMeeting(request->meeting.folder); // where the agent was killed
    if (const auto lost = hosts.lost())
        return *lost;
    std::atomic<bool> enough = false;
    const std::jthread watch([&](const std::stop_token &done) { watchFetch(done, enough); });
    const Status came = hosts.fetch(request->runDir, enough);
    return outcome ? came : outcome;
}

} // namespace

int keepRun(const std::string &id)
{
    const sigset_t set = stopSignals();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    const std::string folder = keptFolder(id);
    if (!isRunId(id) || lockRun(folder) < 0)
        return 2;
    const Events out(folder + "/" + kEventsFile);
    const Status outcome = train(id, folder, out);
    const Error error = outcome ? Error{ErrorCode::Failed, {}, {}, 0} : outcome.error();
    out.line(ordered_json{{"outcome",
                           {{"ok", outcome.ok()},
                            {"code", static_cast<int>(error.code)},
                            {"message", error.message},
                            {"file", error.file},
                            {"line", error.line}}}});
    return outcome ? 0 : 1;
}

} // namespace planloom::remote
