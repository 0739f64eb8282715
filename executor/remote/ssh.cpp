// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/ssh.h"

#include "engine/base/json_reader.h"
#include "executor/agent/private_socket.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace planloom::remote {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kSshFailed = 255;
constexpr int kNoProgram = 127; ///< a shell's

/// What ssh and sftp are both told.
void addOptions(std::vector<std::string> &arguments, const Target &target)
{
    for (const char *option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=3", "ServerAliveCountMax=3",
                               "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"})
        arguments.insert(arguments.end(), {"-o", option});
    if (!target.sshConfig.empty())
        arguments.insert(arguments.end(), {"-F", target.sshConfig});
    if (target.port > 0)
        arguments.insert(arguments.end(), {"-o", fmt::format("Port={}", target.port)});
    if (!target.user.empty())
        arguments.insert(arguments.end(), {"-o", "User=" + target.user});
}

Result<agent::Command> programCommand(const std::string &name, const Target &target)
{
    const auto program = agent::findProgram(name);
    if (!program)
        return notFound(fmt::format("the program '{}' is not on PATH; install it (Debian: openssh-client)", name));
    agent::Command command;
    command.program = *program;
    command.environment = agent::allowedEnvironment();
    if (const char *keys = std::getenv("SSH_AUTH_SOCK"))
        command.environment.push_back(std::string("SSH_AUTH_SOCK=") + keys);
    command.dieWithThread = true;
    addOptions(command.arguments, target);
    return command;
}

std::string lastLine(std::string text)
{
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    const auto start = text.rfind('\n');
    return start == std::string::npos ? text : text.substr(start + 1);
}

/// The line of a session's output that is ours: a login may print others before it.
std::string replyIn(const std::string &output)
{
    constexpr std::string_view kBegin = "{\"planloom\":";
    const auto begin = output.starts_with(kBegin) ? 0 : output.find("\n" + std::string(kBegin)) + 1;
    if (begin == 0 && !output.starts_with(kBegin)) // found nowhere
        return {};
    return output.substr(begin, output.find('\n', begin) - begin);
}

/// The other end's own error.
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

} // namespace

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

Result<agent::Command> sessionCommand(const Target &target)
{
    auto command = programCommand("ssh", target);
    if (!command)
        return command;
    // The only words that go through a shell over there. The program's name has no character that a shell knows.
    command->arguments.insert(command->arguments.end(), {"-T", "--", target.address, "'" + target.program + "' host"});
    return command;
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

Status send(const Target &target, const std::vector<Copy> &files, const std::atomic<bool> &stop)
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
    command->arguments.insert(command->arguments.end(), {"-q", "-b", "-", "--", address});
    auto child = agent::Child::start(*command);
    std::optional<agent::Exit> exit;
    while (child && !exit && !stop.load()) {
        child->read(50);
        exit = child->poll();
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
    if (why.code == ErrorCode::Failed && said.find("Permission denied (") == std::string::npos)
        return failed(fmt::format("{}: a file cannot be sent: {}", target.url(), lastLine(said)));
    return why;
}

Status checkVersion(const Target &target, const std::string &reply)
{
    const auto document = parseJson(reply);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    const std::string version = reader.text("planloom");
    if (version != PLANLOOM_VERSION)
        return unsupported(fmt::format("{}: planloom over there is version {}, here it is {}; install the same one",
                                       target.url(), version, PLANLOOM_VERSION));
    return {};
}

} // namespace planloom::remote
