// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <functional>
#include <string>

namespace planloom::remote {

/// Processors that this process may use, as Open MPI counts them with --use-hwthread-cpus.
int coresAllowed();

/// How often the process that keeps a run says that it is there, and how long a host waits to hear it.
inline constexpr int kAliveSeconds = 2;
inline constexpr int kAbandonedSeconds = 20;
inline constexpr const char *kAlive = R"({"do":"alive"})";
inline constexpr const char *kEnd = R"({"do":"end"})";

/// What the process at the other end of a session says on standard input, behind its request.
class SessionInput {
public:
    enum class Said {
        Nothing, ///< or that it is there
        End,     ///< kEnd
        Gone,    ///< it closed the session, or was silent for kAbandonedSeconds
    };
    /// Waits up to @p milliseconds for it. Silence is the sum of such waits: a machine that was suspended, or had no
    /// time for this process, has heard nothing meanwhile.
    Said listen(int milliseconds);

private:
    std::string m_line;
    int m_silent = 0; ///< milliseconds
};

/// A host's part in a run over several: makes @p folder (agent::meetingFolder()) with `run`, which @p write fills, and
/// `memory`; says so by @p joined with the number of cores here; and guards it: once standard input ends, is silent for
/// kAbandonedSeconds, or says `{"do":"end"}`, what is left of the run on this host is ended and removed. On "end" what
/// ranks wrote into `run` is sent first, as follow() does. Errors: Io (the folder is there), those of @p write.
Status joinMeeting(const std::string &folder, const std::function<Status(const std::string &run)> &write,
                   const std::function<void(int cores)> &joined);

/// Ends this user's processes that have the folder among their arguments, by force after two seconds, and removes it.
void endMeeting(const std::string &folder);

} // namespace planloom::remote
