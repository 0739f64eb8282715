// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/client.h"

#include "agent.grpc.pb.h"
#include "executor/agent/child.h"
#include "executor/agent/private_socket.h"
#include "executor/agent/wire.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerLimit = 10s;

/// An agent that this process started: ends when this object does, or this process.
struct LocalAgent {
    std::string folder;
    std::string socketPath;
    int lifeline = -1; ///< the agent's standard input
    std::optional<Child> child;

    LocalAgent() = default;
    LocalAgent(const LocalAgent &) = delete;
    LocalAgent &operator=(const LocalAgent &) = delete;
    ~LocalAgent();
};

LocalAgent::~LocalAgent()
{
    if (lifeline >= 0)
        ::close(lifeline);
    const auto until = std::chrono::steady_clock::now() + 20s; // it first stops its runs
    while (child && !child->poll() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(5ms);
    child.reset();
    if (!folder.empty()) {
        ::unlink(socketPath.c_str());
        ::rmdir(folder.c_str());
    }
}

class GrpcClient final : public Client {
public:
    GrpcClient(std::shared_ptr<grpc::Channel> channel, std::unique_ptr<LocalAgent> local)
        : m_local(std::move(local)),
          m_stub(wire::Agent::NewStub(channel)),
          m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
    }
    GrpcClient(const GrpcClient &) = delete;
    GrpcClient &operator=(const GrpcClient &) = delete;
    ~GrpcClient() override
    {
        if (m_wake >= 0)
            ::close(m_wake);
    }

    Status train(const TrainRequest &request, const RunEvents &events) override;
    void stop() override
    {
        const std::uint64_t one = 1; // a write is all that a signal handler may do
        [[maybe_unused]] const auto put = ::write(m_wake, &one, sizeof one);
    }

    Status lookCloser(double seconds) override;
    [[nodiscard]] std::string socket() const override { return m_local ? m_local->socketPath : std::string(); }

private:
    /// One call of train().
    struct Call {
        grpc::ClientContext context;
        std::mutex mutex;
        std::string runId;
        bool stopAsked = false;
    };
    Status attend(const TrainRequest &request, const RunEvents &events);
    void watchForStop(const std::stop_token &done, Call &call);
    void sendStop(Call &call);
    void setRunId(const std::string &id)
    {
        const std::lock_guard lock(m_idMutex);
        m_runId = id;
    }
    void dispatch(const wire::TrainEvent &event, const RunEvents &events, Call &call);

    std::unique_ptr<LocalAgent> m_local;
    std::unique_ptr<wire::Agent::Stub> m_stub;
    int m_wake;
    std::mutex m_training; ///< one train() at a time
    std::mutex m_idMutex;
    std::string m_runId; ///< of train(), once it is known; guarded by m_idMutex
};

void GrpcClient::sendStop(Call &call)
{
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswerLimit);
    wire::StopRequest request;
    request.set_run_id(call.runId);
    wire::StopReply reply;
    if (!m_stub->Stop(&context, request, &reply).ok())
        call.context.TryCancel(); // the agent takes that for a stop, too
}

void GrpcClient::watchForStop(const std::stop_token &done, Call &call)
{
    while (!done.stop_requested()) {
        pollfd wait{m_wake, POLLIN, 0};
        std::uint64_t times = 0;
        if (::poll(&wait, 1, 50) <= 0 || ::read(m_wake, &times, sizeof times) != sizeof times)
            continue;
        const std::lock_guard lock(call.mutex);
        call.stopAsked = true;
        if (!call.runId.empty())
            sendStop(call);
    }
}

void GrpcClient::dispatch(const wire::TrainEvent &event, const RunEvents &events, Call &call)
{
    if (event.has_started()) {
        {
            const std::lock_guard lock(call.mutex);
            call.runId = event.started().run_id();
            if (call.stopAsked)
                sendStop(call);
        }
        setRunId(event.started().run_id());
        if (events.onStarted)
            events.onStarted(event.started().run_id(), event.started().run_dir());
    } else if (event.has_tables() && events.onTraceTables) {
        events.onTraceTables(fromWire(event.tables()));
    } else if (event.has_records() && events.onRecords) {
        events.onRecords(fromWire(event.records()), event.records().dropped());
    } else if (event.has_step() && events.onStep) {
        events.onStep(fromWire(event.step()));
    } else if (event.has_validation() && events.onValidation) {
        events.onValidation(fromWire(event.validation()));
    } else if (event.has_state() && events.onState) {
        events.onState(stateFromWire(event.state().state()), event.state().message());
    } else if (event.has_summary() && events.onSummary) {
        events.onSummary(fromWire(event.summary()));
    }
}

Status GrpcClient::train(const TrainRequest &request, const RunEvents &events)
{
    const std::lock_guard lock(m_training);
    const Status outcome = attend(request, events);
    setRunId({});
    std::uint64_t late =
        0; // a stop that came after the run's end is not for the next one; what comes before train() is
    [[maybe_unused]] const auto got = ::read(m_wake, &late, sizeof late);
    return outcome;
}

Status GrpcClient::lookCloser(double seconds)
{
    wire::LookCloserRequest request;
    {
        const std::lock_guard lock(m_idMutex);
        request.set_run_id(m_runId);
    }
    if (request.run_id().empty())
        return failed("nothing trains at the moment; start a run first");
    request.set_seconds(seconds);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswerLimit);
    wire::LookCloserReply reply;
    if (const grpc::Status sent = m_stub->LookCloser(&context, request, &reply); !sent.ok())
        return ioError(
            fmt::format("the agent does not answer ({}); an older one knows no such request", sent.error_message()));
    return fromWire(reply.outcome());
}

Status GrpcClient::attend(const TrainRequest &request, const RunEvents &events)
{
    Call call;
    const std::jthread watcher([&](const std::stop_token &done) { watchForStop(done, call); });
    const auto reader = m_stub->Train(&call.context, toWire(request));
    std::optional<Status> outcome;
    wire::TrainEvent event;
    while (reader->Read(&event)) {
        if (event.has_outcome())
            outcome = fromWire(event.outcome());
        else
            dispatch(event, events, call);
    }
    const grpc::Status ended = reader->Finish();
    if (outcome)
        return *outcome;
    if (ended.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        return badInput("the plan is larger than an agent takes; leave out inlined weights");
    return ioError(fmt::format("the connection to the agent broke ({}); the run's folder holds everything up to then",
                               ended.error_message()));
}

Result<std::shared_ptr<grpc::Channel>> openChannel(const std::string &socketPath, Child *agent)
{
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kLargestMessage);
    arguments.SetMaxSendMessageSize(kLargestMessage);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    auto channel =
        grpc::CreateCustomChannel("unix:" + socketPath, grpc::experimental::LocalCredentials(UDS), arguments);
    const auto until = std::chrono::steady_clock::now() + kAnswerLimit;
    while (std::chrono::steady_clock::now() < until) {
        if (channel->WaitForConnected(std::chrono::system_clock::now() + 100ms))
            return channel;
        if (const auto exit = agent ? agent->poll() : std::nullopt)
            return failed(fmt::format("the agent ended at once ({}); see its output on stderr", describe(*exit)));
    }
    return ioError(fmt::format("no agent answers at {}; start it again", socketPath));
}

} // namespace

Result<std::unique_ptr<Client>> Client::startLocal(const std::string &given)
{
    const auto binary = given.empty() ? planloomBinary() : Result<std::string>(given);
    if (!binary)
        return binary.error();
    auto local = std::make_unique<LocalAgent>();
    auto folder = makePrivateFolder();
    if (!folder)
        return folder.error();
    local->folder = *folder;
    local->socketPath = *folder + "/agent.sock";
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0)
        return ioError(fmt::format("the agent cannot be started: {}", systemReason()));
    local->lifeline = pipe[1];
    Command command;
    command.program = *binary;
    command.arguments = {"agent", "--socket", local->socketPath, "--exit-with-parent"};
    command.environment = allowedEnvironment();
    if (const char *data = std::getenv("XDG_DATA_HOME"))
        command.environment.push_back(std::string("XDG_DATA_HOME=") + data);
    command.standardInput = pipe[0];
    command.captureOutput = false;
    auto child = Child::start(command);
    ::close(pipe[0]);
    if (!child)
        return child.error();
    local->child.emplace(std::move(*child));
    auto channel = openChannel(local->socketPath, &*local->child);
    if (!channel)
        return channel.error();
    return std::unique_ptr<Client>(std::make_unique<GrpcClient>(*channel, std::move(local)));
}

Result<std::unique_ptr<Client>> Client::connect(const std::string &socketPath)
{
    if (const Status good = checkSocket(socketPath); !good)
        return good.error();
    auto channel = openChannel(socketPath, nullptr);
    if (!channel)
        return channel.error();
    return std::unique_ptr<Client>(std::make_unique<GrpcClient>(*channel, nullptr));
}

} // namespace planloom::agent
