// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/grpc_worker_channel.h"

#include "agent.grpc.pb.h"
#include "engine/base/log.h"
#include "executor/agent/hosts.h"
#include "executor/agent/wire.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <thread>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kHeartbeat = 1s;
constexpr auto kConnectLimit = 10s;
constexpr auto kLastMessage = 5s; ///< for the agent to take the last message

class GrpcWorkerChannel final : public runtime::WorkerChannel {
public:
    GrpcWorkerChannel(const std::string &socketPath, std::string token) : m_token(std::move(token))
    {
        grpc::ChannelArguments arguments;
        arguments.SetMaxReceiveMessageSize(kLargestMessage);
        m_channel =
            grpc::CreateCustomChannel("unix:" + socketPath, grpc::experimental::LocalCredentials(UDS), arguments);
        m_stub = wire::Workers::NewStub(m_channel);
    }
    GrpcWorkerChannel(const GrpcWorkerChannel &) = delete;
    GrpcWorkerChannel &operator=(const GrpcWorkerChannel &) = delete;
    ~GrpcWorkerChannel() override { close(); }

    void hello(int rank, std::int64_t pid) override
    {
        if (!m_channel->WaitForConnected(std::chrono::system_clock::now() + kConnectLimit)) {
            m_stop = true;
            return;
        }
        m_stream = m_stub->Report(&m_context);
        m_reader = std::jthread([this] { readStops(); });
        wire::WorkerMessage message;
        message.mutable_hello()->set_token(m_token);
        message.mutable_hello()->set_rank(rank);
        message.mutable_hello()->set_pid(pid);
        message.mutable_hello()->set_machine(machineName());
        send(message);
    }

    void metrics(const run::StepMetrics &report) override
    {
        wire::WorkerMessage message;
        *message.mutable_metrics() = toWire(report);
        send(message);
    }

    void validation(const run::Validation &report) override
    {
        wire::WorkerMessage message;
        *message.mutable_validation() = toWire(report);
        send(message);
    }

    void keepMetrics(std::int64_t steps) override
    {
        wire::WorkerMessage message;
        message.mutable_keep_metrics()->set_steps(steps);
        send(message);
    }

    [[nodiscard]] std::optional<std::int64_t> metricsKept() override
    {
        if (!m_stream || m_broken || m_ended)
            return std::nullopt;
        return m_metricsKept;
    }

    void progress(std::int64_t done, bool training) override
    {
        m_done = done;
        m_training = training;
    }

    void stoppedEarly() override { m_stoppedEarly = true; }

    void records(std::span<const trace::Record> records, std::int64_t dropped) override
    {
        constexpr std::size_t kMostRecords = 1 << 16; // 2 MB a message
        do {
            const auto part = records.subspan(0, std::min(kMostRecords, records.size()));
            wire::WorkerMessage message;
            *message.mutable_records() = toWire(part, dropped);
            send(message);
            records = records.subspan(part.size());
        } while (!records.empty());
    }

    void evaluation(const run::Validation &report) override
    {
        wire::WorkerMessage message;
        *message.mutable_evaluation() = toWire(report);
        send(message);
    }

    void sent(std::int64_t bytes) override { m_sentBytes = bytes; }

    void failing(ErrorCode code) override { m_code = code; }

    void finished(const runtime::MemoryUse &memory, const std::string &errorText) override
    {
        wire::WorkerMessage message;
        message.mutable_finished()->set_peak_bytes(memory.arena);
        message.mutable_finished()->set_beyond_arena_bytes(memory.beyondArena());
        message.mutable_finished()->set_shared_bytes(memory.shared);
        message.mutable_finished()->set_sent_bytes(m_sentBytes);
        message.mutable_finished()->set_error(errorText);
        message.mutable_finished()->set_code(static_cast<int>(m_code));
        message.mutable_finished()->set_stopped_early(m_stoppedEarly);
        send(message);
        if (!errorText.empty() && (!m_stream || m_broken))
            log(LogLevel::Error, errorText); // for the run's log, at least
        close();
    }

    [[nodiscard]] double takeKernelsAsked() override { return m_kernelsAsked.exchange(0); }

    [[nodiscard]] bool stopRequested() override
    {
        if (!m_stop && m_stream && std::chrono::steady_clock::now() - m_beaten > kHeartbeat) {
            wire::WorkerMessage message;
            message.mutable_heartbeat()->set_progress(m_done);
            message.mutable_heartbeat()->set_training(m_training);
            send(message);
            m_beaten = std::chrono::steady_clock::now();
        }
        return m_stop;
    }

private:
    void send(const wire::WorkerMessage &message)
    {
        if (m_stream && !m_broken && !m_stream->Write(message)) {
            m_broken = true;
            m_stop = true;
        }
    }

    void readStops()
    {
        wire::AgentMessage message;
        while (m_stream->Read(&message)) {
            if (message.stop())
                m_stop = true;
            if (message.kernel_seconds() > 0)
                m_kernelsAsked = message.kernel_seconds();
            if (message.metrics_kept() > 0)
                m_metricsKept = message.metrics_kept();
        }
        m_stop = true; // the agent is gone
        m_ended = true;
        m_ended.notify_all();
    }

    void close()
    {
        if (!m_stream)
            return;
        if (!m_broken)
            m_stream->WritesDone();
        // The agent ends the call once it has read everything; one that hangs is not waited for.
        std::jthread watchdog([this](const std::stop_token &stop) {
            const auto until = std::chrono::steady_clock::now() + kLastMessage;
            while (!stop.stop_requested() && std::chrono::steady_clock::now() < until)
                std::this_thread::sleep_for(5ms);
            if (!stop.stop_requested())
                m_context.TryCancel();
        });
        m_ended.wait(false);
        watchdog = {};
        m_reader = {};
        m_stream->Finish();
        m_stream = nullptr;
    }

    const std::string m_token;
    std::shared_ptr<grpc::Channel> m_channel;
    std::unique_ptr<wire::Workers::Stub> m_stub;
    grpc::ClientContext m_context;
    std::unique_ptr<grpc::ClientReaderWriter<wire::WorkerMessage, wire::AgentMessage>> m_stream;
    std::atomic<bool> m_stop{false};
    std::atomic<bool> m_ended{false};
    std::atomic<std::int64_t> m_metricsKept{0};
    std::atomic<double> m_kernelsAsked{0};
    bool m_broken = false;
    ErrorCode m_code = ErrorCode::Failed;
    std::chrono::steady_clock::time_point m_beaten;
    std::int64_t m_done = 0;
    bool m_training = false;
    bool m_stoppedEarly = false;
    std::int64_t m_sentBytes = 0;
    std::jthread m_reader;
};

} // namespace

std::unique_ptr<runtime::WorkerChannel> connectWorkerChannel(const std::string &socketPath, const std::string &token)
{
    return std::make_unique<GrpcWorkerChannel>(socketPath, token);
}

} // namespace planloom::agent
