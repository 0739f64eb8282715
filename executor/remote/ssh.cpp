// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/ssh.h"

#include "engine/base/json_reader.h"
#include "executor/agent/private_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

namespace planloom::remote {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kNoProgram = 127; ///< a shell's

/// When ssh gives up a silent connection: it asks the other sshd every `interval` seconds, and ends where it has heard
/// nothing after `asked` questions and one more interval. Whatever comes is an answer.
struct Patience {
    int interval;
    int asked;
};
constexpr Patience kForTarget{3, 3}; ///< a connection that may be made again
/// A host that is lost ends its run. Six seconds leave three of the promised nine for the run to end; sshd, which
/// answers, and reports of ranks once a second are far from late even where ranks share cores.
constexpr Patience kForHost{1, 5};

/// What ssh and sftp are both told. A user's configuration may have a master connection made, which would outlive the
/// session and hold its pipes, or another command run: neither is wanted. One that is there already is used.
void addOptions(std::vector<std::string> &arguments, const Target &target, const Patience &patience = kForTarget)
{
    for (const char *option : {"BatchMode=yes", "ConnectTimeout=10", "ForwardAgent=no", "ForwardX11=no",
                               "ControlMaster=no", "RemoteCommand=none", "PermitLocalCommand=no"})
        arguments.insert(arguments.end(), {"-o", option});
    arguments.insert(arguments.end(),
                     {"-o", fmt::format("ServerAliveInterval={}", patience.interval), "-o",
                      fmt::format("ServerAliveCountMax={}", patience.asked)});
    if (!target.sshConfig.empty())
        arguments.insert(arguments.end(), {"-F", target.sshConfig});
    if (target.port > 0)
        arguments.insert(arguments.end(), {"-o", fmt::format("Port={}", target.port)});
    if (!target.user.empty())
        arguments.insert(arguments.end(), {"-o", "User=" + target.user});
}

Result<agent::Command> programCommand(const std::string &name, const Target &target,
                                      const Patience &patience = kForTarget)
{
    const auto program = agent::findProgram(name);
    if (!program)
        return notFound(fmt::format("the program '{}' is not on PATH; install it (Debian: openssh-client)", name));
    agent::Command command;
    command.program = *program;
    command.environment = agent::allowedEnvironment();
    for (const char *variable : {"SSH_AUTH_SOCK", "KRB5CCNAME"}) {
        if (const char *value = std::getenv(variable))
            command.environment.push_back(std::string(variable) + "=" + value);
    }
    command.dieWithThread = true;
    addOptions(command.arguments, target, patience);
    return command;
}

std::string lastLine(std::string text)
{
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    const auto start = text.rfind('\n');
    return start == std::string::npos ? text : text.substr(start + 1);
}

/// The line of a session's output that is ours.
std::string replyIn(const std::string &output)
{
    const auto begin = findReply(output);
    return begin == std::string::npos ? std::string() : output.substr(begin, output.find('\n', begin) - begin);
}

Result<agent::Command> sessionCommand(const Target &target, const Patience &patience = kForTarget,
                                      const std::string &socket = {}, const std::string &local = {})
{
    auto command = programCommand("ssh", target, patience);
    if (!command)
        return command;
    auto &arguments = command->arguments;
    if (local.empty())
        arguments.insert(arguments.end(), {"-o", "ClearAllForwardings=yes"});
    else
        arguments.insert(arguments.end(), {"-o", "ExitOnForwardFailure=yes", "-R", socket + ":" + local});
    // A master connection that is there would keep the socket behind the session's end, and asks in its own time
    // whether the host is there.
    if (!socket.empty())
        arguments.insert(arguments.end(), {"-o", "ControlPath=none"});
    // The only words that go through a shell over there. The program's name has no character that a shell knows.
    arguments.insert(arguments.end(), {"-T", "--", target.address, "'" + target.program + "' host"});
    return command;
}

/// Bytes that a process has written, to pipes, too; 0: not known.
std::int64_t writtenBy(pid_t process)
{
    std::ifstream file(fmt::format("/proc/{}/io", process));
    std::string word;
    while (file >> word) {
        if (std::int64_t bytes = 0; word == "wchar:" && file >> bytes)
            return bytes;
    }
    return 0;
}

} // namespace

std::size_t findReply(std::string_view output)
{
    constexpr std::string_view kBegin = "{\"planloom\":";
    if (output.starts_with(kBegin))
        return 0;
    const auto before = output.find("\n" + std::string(kBegin));
    return before == std::string_view::npos ? before : before + 1;
}

Status errorIn(const std::string &reply, const Target &target)
{
    const auto document = parseJson(reply);
    if (!document)
        return failed(
            fmt::format("{}: the answer of planloom cannot be read: {}", target.url(), document.error().message));
    JsonReader reader(*document);
    if (!reader.has("error"))
        return {};
    JsonReader error = reader.object("error");
    constexpr auto kLast = static_cast<std::int64_t>(ErrorCode::Failed);
    const auto code = static_cast<ErrorCode>(error.integerOr("code", kLast, 0, kLast));
    const std::string file = error.text("file", std::string());
    return Error{code, fmt::format("{}: {}", target.url(), error.text("message")), file,
                 static_cast<int>(error.integerOr("line", 0, 0, 1 << 30))};
}

MemoryFile::MemoryFile(const std::string &contents) : m_fd(::memfd_create("planloom", MFD_CLOEXEC))
{
    for (std::size_t done = 0; done < contents.size();) {
        const auto put = ::write(m_fd, contents.data() + done, contents.size() - done);
        if (put <= 0)
            break;
        done += static_cast<std::size_t>(put);
    }
    ::lseek(m_fd, 0, SEEK_SET);
}

MemoryFile::~MemoryFile()
{
    if (m_fd >= 0)
        ::close(m_fd);
}

std::string MemoryFile::text() const
{
    constexpr std::size_t kMost = std::size_t{1} << 16;
    std::string bytes(kMost, '\0');
    const auto got = ::pread(m_fd, bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

Error explain(const Target &target, const agent::Exit &exit, const std::string &said)
{
    const auto says = [&](const char *text) { return said.find(text) != std::string::npos; };
    const std::string where = target.url();
    const std::string words = lastLine(said);
    if (exit.signal != 0)
        return ioError(fmt::format("{}: ssh here was {}", where, agent::describe(exit)));
    if (exit.status == kNoProgram)
        return notFound(fmt::format("{}: there is no planloom over there ('{}' was not found); install it, or give its "
                                    "place with planloom targets add --program PATH",
                                    where, target.program));
    if (says("Host key verification failed") || says("REMOTE HOST IDENTIFICATION HAS CHANGED"))
        return failed(
            fmt::format("{}: the host's key is not known here, or has changed; log in once with ssh and check "
                        "it",
                        where));
    if (says("Permission denied"))
        return failed(fmt::format("{}: the key is not accepted; log in with ssh without a password first, or give "
                                  "another user",
                                  where));
    if (says("Could not resolve hostname"))
        return notFound(fmt::format("{}: no host of that name is known", where));
    for (const char *text : {"No route to host", "timed out", "Connection refused", "Network is unreachable"}) {
        if (says(text))
            return ioError(fmt::format("{}: no way leads there ({}); check address and port, and whether sshd runs",
                                       where, words));
    }
    if (exit.status == kSshFailed)
        return ioError(fmt::format("{}: ssh ended{}", where, words.empty() ? "" : ": " + words));
    return failed(fmt::format("{}: planloom over there ended with {}{}", where, agent::describe(exit),
                              words.empty() ? "" : ": " + words));
}

bool isSilence(const agent::Exit &exit, std::string_view said)
{
    constexpr std::string_view kSilent[] = {"not responding", "timed out", "No route to host", "Network is unreachable",
                                            "Host is down"};
    return exit.status == kSshFailed
        && std::ranges::any_of(kSilent, [&](std::string_view text) { return said.find(text) != said.npos; });
}

Session::Session(Session &&other) noexcept
    : m_child(std::move(other.m_child)),
      m_input(std::exchange(other.m_input, -1)),
      m_errors(std::move(other.m_errors))
{
}

Session::~Session() { close(); }

void Session::close()
{
    if (m_input >= 0)
        ::close(std::exchange(m_input, -1));
}

bool Session::say(const std::string &line) const
{
    const std::string whole = line + "\n";
    std::string_view left = whole;
    while (!left.empty()) {
        const auto put = ::write(m_input, left.data(), left.size());
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        left.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

Result<Session> Session::open(const Target &target, const std::string &request)
{
    return start(sessionCommand(target), request);
}

Result<Session> Session::openToHost(const Target &target, const std::string &request, const std::string &socket,
                                    const std::string &local)
{
    return start(sessionCommand(target, kForHost, socket, local), request);
}

Result<Session> Session::start(Result<agent::Command> command, const std::string &request)
{
    if (!command)
        return command.error();
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0)
        return ioError("no pipe can be made: " + systemReason());
    auto errors = std::make_unique<MemoryFile>();
    command->standardInput = pipe[0];
    command->standardError = errors->descriptor();
    auto child = agent::Child::start(*command);
    ::close(pipe[0]);
    if (!child) {
        ::close(pipe[1]);
        return child.error();
    }
    Session session(*std::move(child), pipe[1], std::move(errors));
    [[maybe_unused]] const bool said = session.say(request); // if not, it ends, and says why
    return session;
}

Result<std::string> ask(const Target &target, const std::string &request, double seconds, const std::atomic<bool> *stop)
{
    auto command = sessionCommand(target);
    if (!command)
        return command.error();
    const MemoryFile input(request + "\n");
    const MemoryFile errors;
    command->standardInput = input.descriptor();
    command->standardError = errors.descriptor();
    auto child = agent::Child::start(*command);
    if (!child)
        return child.error();
    constexpr std::size_t kLargestReply = std::size_t{64} << 20;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    std::string output;
    std::optional<agent::Exit> exit;
    while (!exit) {
        output += child->read(50);
        exit = child->poll();
        if (!exit && stop && stop->load())
            return cancelled();
        if (!exit && Clock::now() > until)
            return failed(fmt::format("{}: no answer for {:.0f} s", target.url(), seconds));
        if (output.size() > kLargestReply)
            return failed(fmt::format("{}: the answer is too long", target.url()));
    }
    output += child->read(0);
    std::string reply = replyIn(output);
    if (reply.empty() || exit->signal != 0 || exit->status == kSshFailed)
        return explain(target, *exit, errors.text());
    if (const Status good = errorIn(reply, target); !good)
        return good.error();
    return reply;
}

Status send(const Target &target, const std::vector<Copy> &files, const std::atomic<bool> &stop,
            const std::function<void(std::int64_t)> &progress)
{
    auto command = programCommand("sftp", target);
    const auto folder = agent::makePrivateFolder();
    if (!command || !folder)
        return command ? folder.error() : command.error();
    // sftp takes patterns for local files: it is given links of plain names.
    std::string batch;
    std::error_code ignored;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::string link = fmt::format("{}/{}", *folder, i);
        std::filesystem::create_symlink(files[i].here, link, ignored);
        batch += fmt::format("{} \"{}\" \"{}\"\n", files[i].goOn ? "reput" : "put", link, files[i].there);
    }
    const MemoryFile input(batch);
    const MemoryFile errors;
    command->standardInput = input.descriptor();
    command->standardError = errors.descriptor();
    const std::string address =
        target.address.find(':') == std::string::npos ? target.address : "[" + target.address + "]";
    command->arguments.insert(command->arguments.end(),
                              {"-o", "ClearAllForwardings=yes", "-q", "-b", "-", "--", address});
    auto child = agent::Child::start(*command);
    std::optional<agent::Exit> exit;
    while (child && !exit && !stop.load()) {
        child->read(50);
        exit = child->poll();
        if (progress && !exit)
            progress(writtenBy(child->pid()));
    }
    std::filesystem::remove_all(*folder, ignored); // the links
    if (!child)
        return child.error();
    if (!exit)
        return cancelled();
    if (exit->status == 0 && exit->signal == 0)
        return {};
    const std::string said = errors.text();
    const Error why = explain(target, *exit, said);
    if (said.find("Received message too long") != std::string::npos)
        return failed(fmt::format("{}: the login prints text over there, which sftp cannot take; let its shell print "
                                  "on terminals only",
                                  target.url()));
    if (why.code == ErrorCode::Failed && said.find("Permission denied (") == std::string::npos)
        return failed(fmt::format("{}: a file cannot be sent: {}", target.url(), lastLine(said)));
    return why;
}

Result<std::string> askSameVersion(const Target &target, const std::string &request, double seconds,
                                   const std::atomic<bool> *stop)
{
    auto reply = ask(target, request, seconds, stop);
    if (!reply)
        return reply;
    const auto document = parseJson(*reply);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    const std::string version = reader.text("planloom");
    if (version != PLANLOOM_VERSION)
        return unsupported(fmt::format("{}: planloom over there is version {}, here it is {}; install the same one",
                                       target.url(), version, PLANLOOM_VERSION));
    return reply;
}

} // namespace planloom::remote
