// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace planloom::agent {
namespace {

struct Pipe {
    int ends[2] = {-1, -1};
    Pipe() = default;
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;
    ~Pipe()
    {
        close(0);
        close(1);
    }
    bool open() { return ::pipe2(ends, O_CLOEXEC) == 0; }
    void close(int end)
    {
        if (ends[end] >= 0)
            ::close(std::exchange(ends[end], -1));
    }
    int release(int end) { return std::exchange(ends[end], -1); }
};

std::vector<char *> pointers(std::vector<std::string> &texts)
{
    std::vector<char *> list;
    for (std::string &text : texts)
        list.push_back(text.data());
    list.push_back(nullptr);
    return list;
}

/// Between fork and exec: only calls that are safe in the child of a process with threads.
[[noreturn]] void becomeCommand(const Command &command, char *const *argv, char *const *envp, int output, int failure,
                                pid_t parent)
{
    ::setpgid(0, 0);
    if (command.dieWithThread) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent)
            ::_exit(127);
    }
    for (int number = 1; number < NSIG; ++number)
        ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(command.standardInput >= 0 ? command.standardInput : nothing, 0);
    ::dup2(output >= 0 ? output : nothing, 1);
    if (command.standardError >= 0)
        ::dup2(command.standardError, 2);
    else if (output >= 0)
        ::dup2(output, 2);
    ::close_range(3, static_cast<unsigned>(failure) - 1, 0);
    ::close_range(static_cast<unsigned>(failure) + 1, ~0U, 0);
    ::execve(command.program.c_str(), argv, envp);
    const int reason = errno;
    [[maybe_unused]] const auto put = ::write(failure, &reason, sizeof reason);
    ::_exit(127);
}

} // namespace

std::string describe(const Exit &exit)
{
    if (exit.signal != 0)
        return fmt::format("killed by signal {} ({})", exit.signal, strsignal(exit.signal));
    return fmt::format("exit status {}", exit.status);
}

Result<Child> Child::start(const Command &command)
{
    Pipe output;
    Pipe failure;
    if ((command.captureOutput && !output.open()) || !failure.open())
        return ioError(fmt::format("{} cannot be started: {}", command.program, systemReason()));
    std::vector<std::string> arguments = command.arguments;
    arguments.insert(arguments.begin(), command.program);
    std::vector<std::string> environment = command.environment;
    const auto argv = pointers(arguments);
    const auto envp = pointers(environment);
    const pid_t parent = ::getpid();
    Child child;
    child.m_pid = ::fork();
    if (child.m_pid == 0)
        becomeCommand(command, argv.data(), envp.data(), output.ends[1], failure.ends[1], parent);
    if (child.m_pid < 0)
        return ioError(fmt::format("{} cannot be started: {}", command.program, systemReason()));
    ::setpgid(child.m_pid, child.m_pid); // also done by the child; the first one takes effect
    output.close(1);
    failure.close(1);
    int reason = 0;
    if (::read(failure.ends[0], &reason, sizeof reason) == sizeof reason) {
        const Error error{reason == ENOENT ? ErrorCode::NotFound : ErrorCode::Io,
                          fmt::format("{} cannot be started: {}", command.program, std::strerror(reason)),
                          {},
                          0};
        return error;
    }
    child.m_output = output.release(0);
    if (child.m_output >= 0)
        ::fcntl(child.m_output, F_SETFL, O_NONBLOCK);
    return child;
}

Child::Child(Child &&other) noexcept
    : m_pid(std::exchange(other.m_pid, -1)),
      m_output(std::exchange(other.m_output, -1)),
      m_exit(std::exchange(other.m_exit, std::nullopt))
{
}

Child &Child::operator=(Child &&other) noexcept
{
    std::swap(m_pid, other.m_pid);
    std::swap(m_output, other.m_output);
    std::swap(m_exit, other.m_exit);
    return *this;
}

Child::~Child()
{
    if (m_pid > 0 && !m_exit) {
        signalGroup(SIGKILL);
        while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR)
            continue;
    }
    if (m_output >= 0)
        ::close(m_output);
}

std::string Child::read(int milliseconds)
{
    pollfd wait{m_output, POLLIN, 0}; // a negative descriptor only waits
    std::string text;
    if (::poll(&wait, 1, milliseconds) <= 0)
        return text;
    std::array<char, 4096> part{};
    for (;;) {
        const auto got = ::read(m_output, part.data(), part.size());
        if (got > 0)
            text.append(part.data(), static_cast<std::size_t>(got));
        else if (got < 0 && errno == EINTR)
            continue;
        else if (got < 0)
            return text;
        else
            break;
    }
    ::close(std::exchange(m_output, -1));
    return text;
}

std::optional<Exit> Child::poll()
{
    int status = 0;
    if (m_exit || m_pid <= 0 || ::waitpid(m_pid, &status, WNOHANG) != m_pid)
        return m_exit;
    m_exit = WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
    return m_exit;
}

void Child::signalGroup(int signal) const
{
    if (m_pid > 0)
        ::kill(-m_pid, signal);
}

std::vector<std::string> allowedEnvironment()
{
    constexpr std::array<std::string_view, 14> kNames{
        "PATH",         "HOME",         "USER",          "LOGNAME",         "LANG",
        "LC_ALL",       "LC_CTYPE",     "TMPDIR",        "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH",
        "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"};
    constexpr std::array<std::string_view, 6> kPrefixes{"OMPI_", "PMIX_", "OMP_", "GOMP_", "DNNL_", "PLANLOOM_"};
    std::vector<std::string> allowed;
    for (char **variable = environ; *variable; ++variable) {
        const std::string_view text(*variable);
        const std::string_view name = text.substr(0, text.find('='));
        const bool named = std::ranges::find(kNames, name) != kNames.end();
        const bool prefixed =
            std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
        if (named || prefixed)
            allowed.emplace_back(text);
    }
    return allowed;
}

Result<std::string> findProgram(const std::string &name)
{
    const char *set = std::getenv("PATH");
    std::string_view path = set ? set : "/usr/local/bin:/usr/bin:/bin";
    while (!path.empty()) {
        const auto end = std::min(path.find(':'), path.size());
        const std::string candidate = std::string(path.substr(0, end)) + "/" + name;
        if (candidate.front() == '/' && ::access(candidate.c_str(), X_OK) == 0)
            return candidate;
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return notFound(fmt::format("the program '{}' is not on PATH; install it (Debian: openmpi-bin has mpirun)", name));
}

Result<std::string> planloomBinary()
{
    if (const char *set = std::getenv("PLANLOOM_BINARY"); set && *set)
        return std::string(set);
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    const std::string beside = (self.parent_path() / "planloom").string();
    if (error || ::access(beside.c_str(), X_OK) != 0)
        return notFound(
            fmt::format("the planloom command is not at {}; install it there or set PLANLOOM_BINARY", beside));
    return beside;
}

} // namespace planloom::agent
