// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/executor/checkpoint/worker_group.h"

#include <QTest>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/// Worker groups in separate processes, to be killed. A test program that starts them calls asGroup() first in main().
namespace planloom::checkpoint::testing {

// How a worker group's process ends.
inline constexpr int kDone = 0;
inline constexpr int kNotRestored = 3;
inline constexpr int kWrongValues = 4;
inline constexpr int kNoLease = 6;

inline constexpr std::int64_t kSteps = 6;
inline constexpr std::int64_t kEvery = 2;

/// The work of a worker group: takes the lease, resumes, trains some steps and saves as it goes. Prints "published
/// STEP" once a checkpoint is agreed upon.
inline int runGroup(const std::string &runDir, unsigned seed)
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::mt19937 random(seed);
    auto ranks = randomLayout(random, 2);
    const auto lease = Lease::acquire(runDir, "group " + std::to_string(seed));
    if (!lease)
        return kNoLease;
    std::int64_t step = 0;
    const auto manifest = newestCheckpoint(runDir);
    if (manifest) {
        step = manifest->state.step;
        for (auto &pieces : ranks) {
            if (!restore(*manifest, piecesOf(pieces)))
                return kNotRestored;
            if (!isAt(pieces, step) || !(manifest->state == stateAt(step)))
                return kWrongValues;
        }
    }
    auto group = WorkerGroup::create(runDir, std::move(ranks), lease->epoch());
    if (!group)
        return kNoLease;
    const std::int64_t end = step + kSteps;
    const auto boundary = [&] {
        if ((*group)->boundary() == CheckpointWriter::Outcome::Published)
            std::printf("published %ld\n", static_cast<long>((*group)->writers.front()->step()));
        std::fflush(stdout);
    };
    bool due = false;
    while (step < end) {
        (*group)->fillAll(++step);
        due = due || step % kEvery == 0;
        if (due && (*group)->writers.front()->idle()) {
            (*group)->begin(step);
            due = false;
        }
        boundary();
    }
    while (!(*group)->writers.front()->idle()) {
        boundary();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return kDone;
}

/// A worker group's process, and the last step that it said was published.
class Process {
public:
    Process(const std::string &runDir, unsigned seed, const std::string &armed)
    {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0)
            qFatal("no pipe");
        const std::string seedText = std::to_string(seed);
        m_pid = ::fork();
        if (m_pid == 0) {
            ::dup2(ends[1], 1);
            ::setenv("PLANLOOM_FAILPOINTS", armed.c_str(), 1);
            ::execl("/proc/self/exe", "group", "--group", runDir.c_str(), seedText.c_str(), nullptr);
            std::_Exit(9);
        }
        ::close(ends[1]);
        m_out = ends[0];
    }
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;
    ~Process()
    {
        if (m_pid > 0) {
            ::kill(m_pid, SIGKILL);
            ::waitpid(m_pid, nullptr, 0);
        }
        ::close(m_out);
    }

    void signal(int number) const { ::kill(m_pid, number); }
    /// Waits until it ends, or stops where @p options say so; the wait status.
    int wait(int options = 0)
    {
        int status = 0;
        ::waitpid(m_pid, &status, options);
        if (!WIFSTOPPED(status))
            m_pid = -1;
        return status;
    }
    std::int64_t published()
    {
        std::string text;
        char chunk[256];
        ::fcntl(m_out, F_SETFL, O_NONBLOCK);
        for (ssize_t got = 0; (got = ::read(m_out, chunk, sizeof chunk)) > 0;)
            text.append(chunk, static_cast<std::size_t>(got));
        const std::size_t last = text.rfind("published ");
        return last == std::string::npos ? 0 : std::atol(text.c_str() + last + 10);
    }

private:
    pid_t m_pid = -1;
    int m_out = -1;
};

/// Checks the newest checkpoint in another layout; its step, 0 if there is none, -1 if it is wrong.
inline std::int64_t newestGoodStep(const std::string &runDir, unsigned seed)
{
    const auto manifest = newestCheckpoint(runDir);
    if (!manifest)
        return 0;
    std::mt19937 random(seed);
    for (auto &pieces : randomLayout(random))
        if (!restore(*manifest, piecesOf(pieces)) || !isAt(pieces, manifest->state.step))
            return -1;
    return manifest->state.step;
}

inline std::string describe(const std::string &armed, int status)
{
    return armed + ": "
        + (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                               : "exit " + std::to_string(WEXITSTATUS(status)));
}

} // namespace planloom::checkpoint::testing
