// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/child.h"
#include "executor/remote/target.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::remote {

/// An anonymous file in memory, for what a child reads or says. Thread contract: one thread.
class MemoryFile {
public:
    explicit MemoryFile(const std::string &contents = {});
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;
    ~MemoryFile();
    [[nodiscard]] int descriptor() const { return m_fd; }
    /// Its first 64 KiB.
    [[nodiscard]] std::string text() const;

private:
    int m_fd = -1;
};

/// ssh's own exit status; others are the other end's.
inline constexpr int kSshFailed = 255;
/// Seconds in which a request is answered that needs no work.
inline constexpr double kAnswerSeconds = 30;

/// A session of `planloom host` with both ends of its pipes; it ends with this object. Thread contract: one thread.
class Session {
public:
    /// `ssh` asks for no password, makes no terminal, and gives up a connection that is silent for about ten seconds.
    /// @p request is the first line that the other end reads. Errors: NotFound (no ssh here), Io.
    static Result<Session> open(const Target &target, const std::string &request);
    /// To one of the hosts of a run, which is given up after six silent seconds. @p socket: a path over there, where no
    /// file is yet, that leads to the socket @p local here as long as the session lasts; none where @p local is empty.
    static Result<Session> openToHost(const Target &target, const std::string &request, const std::string &socket,
                                      const std::string &local);
    Session(Session &&other) noexcept;
    Session &operator=(Session &&) = delete;
    ~Session();

    /// What came since the last call; waits up to @p milliseconds for the first of it.
    std::string read(int milliseconds) { return m_child.read(milliseconds); }
    /// The other end has ended. ssh itself stays as long as something is connected to a forwarded socket.
    [[nodiscard]] bool outputEnded() const { return m_child.outputEnded(); }
    /// Its end, once it has ended; never waits.
    std::optional<agent::Exit> poll() { return m_child.poll(); }
    /// A line for the other end. False: it takes none any more.
    [[nodiscard]] bool say(const std::string &line) const;
    /// No more lines come.
    void close();
    /// What ssh said on stderr.
    [[nodiscard]] std::string errors() const { return m_errors->text(); }

private:
    static Result<Session> start(Result<agent::Command> command, const std::string &request);
    Session(agent::Child child, int input, std::unique_ptr<MemoryFile> errors)
        : m_child(std::move(child)),
          m_input(input),
          m_errors(std::move(errors))
    {
    }
    agent::Child m_child;
    int m_input = -1;
    std::unique_ptr<MemoryFile> m_errors;
};

/// Where the other end's reply stands in @p output, in which a login may have printed lines before it; npos: it is not
/// there yet.
std::size_t findReply(std::string_view output);
/// The error in a reply. Nothing: there is none.
Status errorIn(const std::string &reply, const Target &target);

/// One request of `planloom host` (host.h) and its reply, both JSON, in a session of its own. Errors: those of
/// explain(); Failed (no reply within @p seconds; Cancelled where @p stop was set meanwhile); what the other end says.
Result<std::string> ask(const Target &target, const std::string &request, double seconds,
                        const std::atomic<bool> *stop = nullptr);

/// A file that sftp carries. Both paths are absolute; @p there has only the characters of isSafePath() (items.h).
struct Copy {
    std::string here;
    std::string there;
    bool goOn = false; ///< a part of it arrived before
};
/// Sends files, one after the other. What has arrived stays where it is cut off. Errors: NotFound (no sftp here), those
/// of explain(), Cancelled. @p progress: told about how many bytes went out so far, several times a second.
Status send(const Target &target, const std::vector<Copy> &files, const std::atomic<bool> &stop,
            const std::function<void(std::int64_t)> &progress = {});

/// Why a session ended, in a sentence, by ssh's exit status and what it said on stderr.
Error explain(const Target &target, const agent::Exit &exit, const std::string &said);

/// Whether a session ended because nothing comes from its host any more: it was cut off, or has no power.
bool isSilence(const agent::Exit &exit, std::string_view said);

/// ask() for what only the same version understands. Errors: those of ask(); Unsupported (another version over there).
Result<std::string> askSameVersion(const Target &target, const std::string &request, double seconds,
                                   const std::atomic<bool> *stop = nullptr);

} // namespace planloom::remote
