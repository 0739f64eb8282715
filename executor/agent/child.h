// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace planloom::agent {

/// A program to run: no shell, nothing inherited but the members below.
struct Command {
    std::string program;                  ///< absolute path
    std::vector<std::string> arguments;   ///< without the program's name
    std::vector<std::string> environment; ///< "NAME=value"
    int standardInput = -1;               ///< -1: /dev/null
    bool captureOutput = true;            ///< false: standard error is shared with this process
    int standardError = -1;               ///< a descriptor; -1: as above
    bool dieWithThread = false;           ///< SIGTERM when the *thread* that calls start() ends, however it ends
};

/// How a process ended: by itself, or by a signal that is not 0.
struct Exit {
    int status = 0;
    int signal = 0;
};
/// "exit status 3", "killed by signal 9 (Killed)".
std::string describe(const Exit &exit);

/// A child process that leads its own process group. Destroying it kills the group and waits. Thread contract: one
/// thread.
class Child {
public:
    /// Errors: NotFound (no such program), Io.
    static Result<Child> start(const Command &command);
    Child(Child &&other) noexcept;
    Child &operator=(Child &&other) noexcept;
    ~Child();

    [[nodiscard]] pid_t pid() const { return m_pid; }
    /// Its output since the last call, on stdout and stderr; waits up to @p milliseconds for the first of it.
    std::string read(int milliseconds);
    /// read() has come to the end of its output, or that was not captured.
    [[nodiscard]] bool outputEnded() const { return m_output < 0; }
    /// Its end, once it has ended; never waits.
    std::optional<Exit> poll();
    void signalGroup(int signal) const;

private:
    Child() = default;
    pid_t m_pid = -1;
    int m_output = -1;
    std::optional<Exit> m_exit;
};

/// This process's variables that a started program may see: paths, locale, and the settings of MPI, OpenMP, sanitizers
/// and Planloom itself.
std::vector<std::string> allowedEnvironment();
/// The first @p name on PATH. Error: NotFound.
Result<std::string> findProgram(const std::string &name);
/// The planloom command beside the running program; PLANLOOM_BINARY overrides it. Error: NotFound.
Result<std::string> planloomBinary();

} // namespace planloom::agent
