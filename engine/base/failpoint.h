// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace planloom {

/// A place where a test can make the program fail. Code names one by PLANLOOM_FAILPOINT("area.what"); from then on
/// every program that links this code knows it. The environment variable PLANLOOM_FAILPOINTS arms them:
/// "checkpoint.shard-fsync=kill@3;lease.write=error;checkpoint.prune=sleep:50", each NAME=ACTION[@N] with
///     kill      SIGKILL to this process           stop      SIGSTOP
///     error     an Io error from here             full      the same, as a full disk reports it
///     sleep:MS  a delay
/// at the N-th pass only, or at every pass where @N is left out.
class Failpoint {
public:
    /// @p name must live as long as the program; a name is given to one failpoint only.
    explicit Failpoint(const char *name);
    Failpoint(const Failpoint &) = delete;
    Failpoint &operator=(const Failpoint &) = delete;

    [[nodiscard]] std::string_view name() const { return m_name; }
    /// Counts a pass and runs the armed action. Thread-safe. Error: Io, where "error" or "full" is armed.
    Status pass();
    /// "kill@3". False, if it is no action.
    bool arm(std::string_view action);
    /// Does nothing from here on, and forgets all passes.
    void disarm();

private:
    enum class Action : std::uint8_t { None, Kill, Stop, Error, Full, Sleep };
    bool readAction(std::string_view text);

    const std::string_view m_name;
    Action m_action = Action::None;
    std::int64_t m_pass = 0; ///< 0: every pass
    std::int64_t m_milliseconds = 0;
    std::atomic<std::int64_t> m_passes{0};
};

/// Names of this program's failpoints, in the order of the alphabet; none where they are not compiled in.
std::vector<std::string_view> failpoints();
/// True where failpoints are compiled in (CMake option PLANLOOM_FAILPOINTS).
bool failpointsWork();
/// Arms as the environment variable would, and forgets all passes. Error: BadInput, naming the entry. For tests, before
/// threads start.
Status armFailpoints(std::string_view text);

namespace detail {

/// A name as a template argument.
template <std::size_t N>
struct FailpointName {
    char text[N]{};
    constexpr FailpointName(const char (&name)[N]) // NOLINT: a literal is to become one
    {
        for (std::size_t i = 0; i < N; ++i)
            text[i] = name[i];
    }
};
/// Made when the program starts, if any code that is linked uses it.
template <FailpointName Name>
inline Failpoint failpoint{Name.text};

} // namespace detail
} // namespace planloom

/// For functions that return Status or Result<T>: returns the error that is armed.
#ifdef PLANLOOM_FAILPOINTS
#define PLANLOOM_FAILPOINT(name)                                                                                       \
    do {                                                                                                               \
        if (const ::planloom::Status planloomPass = ::planloom::detail::failpoint<name>.pass(); !planloomPass)         \
            return planloomPass.error();                                                                               \
    } while (false)
#else
#define PLANLOOM_FAILPOINT(name) static_assert(sizeof(name) > 1)
#endif
