// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace planloom::bench {

inline double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Processor time of this process so far, on all cores.
inline double processorSeconds()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double cores() { return static_cast<double>(std::max(1U, std::thread::hardware_concurrency())); }

struct Spent {
    double clock = 0;
    double processor = 0; ///< per core
};

/// The time of @p work, by both clocks.
template <class Work>
Spent spentBy(const Work &work)
{
    const double begin = now();
    const double processorBegin = processorSeconds();
    work();
    return {now() - begin, (processorSeconds() - processorBegin) / cores()};
}

inline double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

/// Steps of one side.
struct Times {
    std::vector<double> clock;
    std::vector<double> processor;

    void add(const Spent &spent)
    {
        clock.push_back(spent.clock);
        processor.push_back(spent.processor);
    }
};

/// PyTorch in a separate process, which makes one step for each line it is sent and answers "LOSS SECONDS
/// PROCESSOR_SECONDS".
class Peer {
public:
    Peer(const std::string &python, const std::string &script, const std::vector<std::string> &arguments)
    {
        int request[2];
        int reply[2];
        if (pipe(request) != 0 || pipe(reply) != 0)
            return;
        m_process = fork();
        if (m_process == 0) {
            dup2(request[0], STDIN_FILENO);
            dup2(reply[1], STDOUT_FILENO);
            for (const int end : {request[0], request[1], reply[0], reply[1]})
                close(end);
            std::vector<char *> all{const_cast<char *>(python.c_str()), const_cast<char *>(script.c_str())};
            for (const std::string &argument : arguments)
                all.push_back(const_cast<char *>(argument.c_str()));
            all.push_back(nullptr);
            execv(python.c_str(), all.data());
            _exit(127);
        }
        close(request[0]);
        close(reply[1]);
        m_request = fdopen(request[1], "w");
        m_reply = fdopen(reply[0], "r");
    }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    ~Peer()
    {
        if (m_request != nullptr)
            std::fclose(m_request);
        if (m_reply != nullptr)
            std::fclose(m_reply);
        if (m_process > 0)
            waitpid(m_process, nullptr, 0);
    }

    /// Waits until it prints "ready" after its preparations. False if the peer is gone.
    bool waitUntilReady()
    {
        char word[16] = {};
        return m_reply != nullptr && std::fscanf(m_reply, "%15s", word) == 1 && std::string(word) == "ready";
    }

    /// False if the peer is gone.
    bool step(double *loss, Spent *spent)
    {
        if (m_request == nullptr || std::fputs("step\n", m_request) < 0 || std::fflush(m_request) != 0)
            return false;
        if (std::fscanf(m_reply, "%lf %lf %lf", loss, &spent->clock, &spent->processor) != 3)
            return false;
        spent->processor /= cores();
        return true;
    }

private:
    pid_t m_process = -1;
    std::FILE *m_request = nullptr;
    std::FILE *m_reply = nullptr;
};

} // namespace planloom::bench
