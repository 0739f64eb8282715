// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent.grpc.pb.h"
#include "executor/agent/run.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace planloom::agent {

/// The runs that an agent has under way. Thread-safe.
class Runs {
public:
    Runs(std::string root, std::string socketPath) : m_root(std::move(root)), m_socketPath(std::move(socketPath)) {}
    /// Errors: those of Run::make; Failed while the agent shuts down or has too many runs.
    Result<std::shared_ptr<Run>> start(const TrainRequest &request);
    [[nodiscard]] std::shared_ptr<Run> byId(const std::string &id) const;
    [[nodiscard]] std::shared_ptr<Run> byToken(const std::string &token) const;
    void remove(const std::string &id);
    /// Refuses new runs, stops the others, and kills the ones still running after @p seconds.
    void close(double seconds);
    [[nodiscard]] const std::string &root() const { return m_root; }

private:
    [[nodiscard]] std::vector<std::shared_ptr<Run>> all() const;
    const std::string m_root;
    const std::string m_socketPath;
    mutable std::mutex m_mutex;
    bool m_closed = false;
    int m_starting = 0;
    std::map<std::string, std::shared_ptr<Run>> m_runs;
};

/// For studio and command line. Thread-safe, as gRPC calls it on its threads.
class AgentService final : public wire::Agent::Service {
public:
    explicit AgentService(Runs &runs) : m_runs(runs) {}
    grpc::Status Describe(grpc::ServerContext *context, const wire::DescribeRequest *request,
                          wire::DescribeReply *reply) override;
    grpc::Status Train(grpc::ServerContext *context, const wire::TrainRequest *request,
                       grpc::ServerWriter<wire::TrainEvent> *writer) override;
    grpc::Status Stop(grpc::ServerContext *context, const wire::StopRequest *request, wire::StopReply *reply) override;
    grpc::Status LookCloser(grpc::ServerContext *context, const wire::LookCloserRequest *request,
                            wire::LookCloserReply *reply) override;

private:
    Runs &m_runs;
};

/// For workers. Thread-safe.
class WorkerService final : public wire::Workers::Service {
public:
    explicit WorkerService(Runs &runs) : m_runs(runs) {}
    grpc::Status Report(grpc::ServerContext *context,
                        grpc::ServerReaderWriter<wire::AgentMessage, wire::WorkerMessage> *stream) override;

private:
    Runs &m_runs;
};

} // namespace planloom::agent
