// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/agent.h"

#include "engine/base/log.h"
#include "executor/agent/grpc_worker_channel.h"
#include "executor/agent/launch.h"
#include "executor/agent/private_socket.h"
#include "executor/agent/service.h"
#include "executor/agent/wire.h"
#include "executor/runtime/worker.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

constexpr double kShutdownSeconds = 10; ///< for runs to end their step when the agent is told to go
constexpr int kMostThreads = 512;       ///< one per training and one per worker

std::string defaultRoot()
{
    if (const char *data = std::getenv("XDG_DATA_HOME"); data && *data == '/')
        return std::string(data) + "/planloom/runs";
    const char *home = std::getenv("HOME");
    return std::string(home && *home == '/' ? home : "/tmp") + "/.local/share/planloom/runs";
}

/// SIGINT and SIGTERM come as a file's bytes from now on, in this thread and its children.
int catchSignals()
{
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN); // a write over the limit is an error like that of a full disk
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return ::signalfd(-1, &set, SFD_CLOEXEC);
}

void waitForTheEnd(int signals, bool exitWithParent)
{
    pollfd wait[2] = {{signals, POLLIN, 0}, {exitWithParent ? STDIN_FILENO : -1, POLLIN, 0}};
    for (;;) {
        if (::poll(wait, 2, -1) < 0 && errno == EINTR)
            continue;
        if (wait[0].revents != 0)
            return;
        char ignored[256];
        if (wait[1].revents != 0 && ::read(STDIN_FILENO, ignored, sizeof ignored) <= 0)
            return;
    }
}

std::unique_ptr<grpc::Server> listen(const std::string &socketPath, AgentService &agent, WorkerService &workers)
{
    grpc::ResourceQuota quota("planloom-agent");
    quota.SetMaxThreads(kMostThreads);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.SetMaxSendMessageSize(kLargestMessage);
    builder.AddListeningPort("unix:" + socketPath, grpc::experimental::LocalServerCredentials(UDS));
    builder.RegisterService(&agent);
    builder.RegisterService(&workers);
    const mode_t before = ::umask(0177); // the socket is private from the start
    auto server = builder.BuildAndStart();
    ::umask(before);
    return server;
}

int serve(const std::string &socketPath, const AgentOptions &options)
{
    if (const Status ready = prepareSocket(socketPath); !ready) {
        log(LogLevel::Error, ready.error().text());
        return 2;
    }
    const int signals = catchSignals();
    Runs runs(options.root.empty() ? defaultRoot() : options.root, socketPath);
    AgentService agent(runs);
    WorkerService workers(runs);
    const auto server = listen(socketPath, agent, workers);
    if (!server) {
        log(LogLevel::Error, fmt::format("the agent cannot listen on {}", socketPath));
        return 1;
    }
    if (options.socketPath.empty()) {
        std::printf("%s\n", socketPath.c_str());
        std::fflush(stdout);
    }
    waitForTheEnd(signals, options.exitWithParent);
    runs.close(kShutdownSeconds);
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server->Wait();
    ::unlink(socketPath.c_str());
    if (options.exitWithParent) // which made the folder, and may be gone
        ::rmdir(std::filesystem::path(socketPath).parent_path().c_str());
    ::close(signals);
    return 0;
}

} // namespace

int runAgent(const AgentOptions &options)
{
    if (!options.socketPath.empty())
        return serve(options.socketPath, options);
    const auto folder = makePrivateFolder();
    if (!folder) {
        log(LogLevel::Error, folder.error().text());
        return 1;
    }
    const int status = serve(*folder + "/agent.sock", options);
    ::rmdir(folder->c_str());
    return status;
}

int runWorkerProcess(const std::string &runFolder, const std::string &socketPath, runtime::FirstValues firstValues)
{
    const char *token = std::getenv(kTokenVariable);
    if (!token || !*token) {
        log(LogLevel::Error, "a worker is started by an agent only; use 'planloom train'");
        return 2;
    }
    const auto channel = connectWorkerChannel(socketPath, token);
    ::unsetenv(kTokenVariable);
    return runtime::runWorker({runFolder, channel.get(), std::move(firstValues)});
}

} // namespace planloom::agent
