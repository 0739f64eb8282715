// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/service.h"

#include "executor/agent/hosts.h"
#include "executor/agent/wire.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unistd.h>

namespace planloom::agent {
namespace {

constexpr std::size_t kMostRuns = 4; ///< at a time: each has the machine's cores for itself

/// Equal in a time that does not tell how much of it is right.
bool sameToken(const std::string &a, const std::string &b)
{
    unsigned different = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        different |= static_cast<unsigned char>(a[i] ^ b[i]);
    return different == 0;
}

/// Sends a client a run's events. A client that has gone stops the run.
class EventSender {
public:
    EventSender(grpc::ServerContext &context, grpc::ServerWriter<wire::TrainEvent> &writer)
        : m_context(context),
          m_writer(writer)
    {
    }

    /// Until the run is over.
    void send(Run &run)
    {
        begin(run);
        for (bool last = false; !last;) {
            const RunNews news = run.next();
            last = news.last;
            if (!news.records.empty() || news.dropped != m_dropped)
                records(news);
            for (const RunEvent &event : news.events)
                send(toWire(event));
            if (m_gone || m_context.IsCancelled())
                run.requestStop(); // the first time counts
        }
    }
    void outcome(const Status &status)
    {
        wire::TrainEvent event;
        *event.mutable_outcome() = toWire(status);
        send(event);
    }

private:
    void begin(const Run &run)
    {
        wire::TrainEvent started;
        started.mutable_started()->set_run_id(run.id());
        started.mutable_started()->set_run_dir(run.folder());
        send(started);
        wire::TrainEvent tables;
        *tables.mutable_tables() = toWire(run.prediction().tables);
        send(tables);
    }
    void records(const RunNews &news)
    {
        constexpr std::size_t kMostRecords = 1 << 16; // 2 MB a message
        std::span<const trace::Record> left(news.records);
        do {
            const auto part = left.subspan(0, std::min(kMostRecords, left.size()));
            wire::TrainEvent event;
            *event.mutable_records() = toWire(part, news.dropped);
            send(event);
            left = left.subspan(part.size());
        } while (!left.empty());
        m_dropped = news.dropped;
    }
    void send(const wire::TrainEvent &event) { m_gone = m_gone || !m_writer.Write(event); }

    grpc::ServerContext &m_context;
    grpc::ServerWriter<wire::TrainEvent> &m_writer;
    std::int64_t m_dropped = 0;
    bool m_gone = false;
};

/// The way back to a worker, for as long as its call lasts.
class StreamConnection final : public WorkerConnection {
public:
    using Stream = grpc::ServerReaderWriter<wire::AgentMessage, wire::WorkerMessage>;
    explicit StreamConnection(Stream *stream) : m_stream(stream) {}
    void stop() override
    {
        wire::AgentMessage message;
        message.set_stop(true);
        send(message);
    }
    void metricsKept(std::int64_t steps) override
    {
        wire::AgentMessage message;
        message.set_metrics_kept(steps);
        send(message);
    }
    void lookCloser(double seconds) override
    {
        wire::AgentMessage message;
        message.set_kernel_seconds(seconds);
        send(message);
    }
    void close()
    {
        const std::lock_guard lock(m_mutex);
        m_stream = nullptr;
    }

private:
    void send(const wire::AgentMessage &message)
    {
        const std::lock_guard lock(m_mutex);
        if (m_stream)
            m_stream->Write(message);
    }

    std::mutex m_mutex;
    Stream *m_stream;
};

/// Passes a worker's message on to its run.
void report(Run &run, WorkerId worker, const wire::WorkerMessage &message)
{
    if (message.has_metrics()) // of rank 0, or of a parameter server
        run.onMetrics(worker, fromWire(message.metrics()));
    else if (message.has_validation() && worker.rank == 0)
        run.onValidation(worker, fromWire(message.validation()));
    else if (message.has_keep_metrics() && worker.rank == 0)
        run.onKeepMetrics(worker, message.keep_metrics().steps());
    else if (message.has_records())
        run.onRecords(worker, fromWire(message.records()), message.records().dropped());
    else if (message.has_evaluation() && worker.rank == 0)
        run.onEvaluation(worker, fromWire(message.evaluation()));
    else if (message.has_finished())
        run.onFinished(worker,
                       {message.finished().peak_bytes(), message.finished().beyond_arena_bytes(),
                        message.finished().shared_bytes(), message.finished().sent_bytes()},
                       message.finished().stopped_early(),
                       {codeFromWire(message.finished().code()), message.finished().error(), {}, 0});
    else
        run.onHeartbeat(worker, message.heartbeat().progress(), message.heartbeat().training());
}

} // namespace

Result<std::shared_ptr<Run>> Runs::start(const TrainRequest &request)
{
    {
        const std::lock_guard lock(m_mutex);
        if (m_closed)
            return failed("the agent is shutting down; start another one");
        if (m_runs.size() + static_cast<std::size_t>(m_starting) >= kMostRuns)
            return failed("the agent already runs as many trainings as it may at a time; wait for one to end");
        ++m_starting;
    }
    auto run = Run::make(request, m_root, m_socketPath);
    const std::lock_guard lock(m_mutex);
    --m_starting;
    if (!run)
        return run;
    m_runs.emplace((*run)->id(), *run); // before its workers ask for it
    (*run)->start();
    if (m_closed)
        (*run)->requestStop();
    return run;
}

std::shared_ptr<Run> Runs::byId(const std::string &id) const
{
    const std::lock_guard lock(m_mutex);
    const auto found = m_runs.find(id);
    return found == m_runs.end() ? nullptr : found->second;
}

std::shared_ptr<Run> Runs::byToken(const std::string &token) const
{
    for (const auto &run : all()) {
        if (sameToken(run->token(), token))
            return run;
    }
    return nullptr;
}

void Runs::remove(const std::string &id)
{
    const std::lock_guard lock(m_mutex);
    m_runs.erase(id);
}

std::vector<std::shared_ptr<Run>> Runs::all() const
{
    const std::lock_guard lock(m_mutex);
    std::vector<std::shared_ptr<Run>> list;
    for (const auto &entry : m_runs)
        list.push_back(entry.second);
    return list;
}

void Runs::close(double seconds)
{
    {
        const std::lock_guard lock(m_mutex);
        m_closed = true;
    }
    for (const auto &run : all())
        run->requestStop();
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    const auto busy = [&] { return !std::ranges::all_of(all(), [](const auto &run) { return run->over(); }); };
    while (busy() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const auto &run : all()) {
        if (!run->over())
            run->kill();
    }
    while (busy())
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

grpc::Status AgentService::Describe(grpc::ServerContext *, const wire::DescribeRequest *, wire::DescribeReply *reply)
{
    reply->set_version(PLANLOOM_VERSION);
    reply->set_pid(::getpid());
    reply->set_root(m_runs.root());
    return grpc::Status::OK;
}

grpc::Status AgentService::Train(grpc::ServerContext *context, const wire::TrainRequest *request,
                                 grpc::ServerWriter<wire::TrainEvent> *writer)
{
    EventSender sender(*context, *writer);
    auto run = m_runs.start(fromWire(*request));
    if (!run) {
        sender.outcome(run.error());
        return grpc::Status::OK;
    }
    sender.send(**run);
    m_runs.remove((*run)->id());
    sender.outcome((*run)->outcome());
    return grpc::Status::OK;
}

grpc::Status AgentService::Stop(grpc::ServerContext *, const wire::StopRequest *request, wire::StopReply *reply)
{
    const auto run = m_runs.byId(request->run_id());
    reply->set_found(run != nullptr);
    if (run && run->stopAsked())
        run->kill(); // asked again: do not wait for the step
    else if (run)
        run->requestStop();
    return grpc::Status::OK;
}

grpc::Status AgentService::LookCloser(grpc::ServerContext *, const wire::LookCloserRequest *request,
                                      wire::LookCloserReply *reply)
{
    const auto run = m_runs.byId(request->run_id());
    *reply->mutable_outcome() = toWire(run ? run->lookCloser(request->seconds())
                                           : Status(notFound("the run has ended; there is nothing to look at")));
    return grpc::Status::OK;
}

grpc::Status WorkerService::Report(grpc::ServerContext *,
                                   grpc::ServerReaderWriter<wire::AgentMessage, wire::WorkerMessage> *stream)
{
    wire::WorkerMessage message;
    if (!stream->Read(&message) || !message.has_hello())
        return {grpc::StatusCode::INVALID_ARGUMENT, "a worker must send its hello first"};
    const auto run = m_runs.byToken(message.hello().token());
    if (!run)
        return {grpc::StatusCode::PERMISSION_DENIED, "no run has this token"};
    const auto connection = std::make_shared<StreamConnection>(stream);
    // On another machine the number means another process.
    const bool here = message.hello().machine() == machineName();
    const auto worker =
        run->attach(message.hello().token(), message.hello().rank(), here ? message.hello().pid() : 0, connection);
    if (!worker)
        return {grpc::StatusCode::INVALID_ARGUMENT, worker.error().text()};
    while (stream->Read(&message))
        report(*run, *worker, message);
    connection->close();
    run->detach(*worker);
    return grpc::Status::OK;
}

} // namespace planloom::agent
