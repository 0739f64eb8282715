// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/child.h"
#include "executor/remote/target.h"

#include <atomic>
#include <string>
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

/// `ssh` with a session of `planloom host` on @p target. It asks for no password, makes no terminal, and gives up a
/// connection that is silent for 10 seconds. Error: NotFound (no ssh here).
Result<agent::Command> sessionCommand(const Target &target);

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
/// of explain(), Cancelled.
Status send(const Target &target, const std::vector<Copy> &files, const std::atomic<bool> &stop);

/// Why a session ended, in a sentence, by ssh's exit status and what it said on stderr.
Error explain(const Target &target, const agent::Exit &exit, const std::string &said);

/// Error: Unsupported, where the other end is of another version. @p reply: any of its replies.
Status checkVersion(const Target &target, const std::string &reply);

} // namespace planloom::remote
