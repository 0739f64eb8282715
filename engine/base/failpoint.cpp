// SPDX-License-Identifier: Apache-2.0
#include "engine/base/failpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace planloom {
namespace {

enum class Action : std::uint8_t { None, Kill, Stop, Error, Full, Sleep };

struct Point {
    Action action = Action::None;
    std::int64_t pass = 0; ///< 0: every pass
    std::int64_t milliseconds = 0;
    std::atomic<std::int64_t> passes{0};
};

using Points = std::array<Point, std::size(kFailpoints)>;

Error wrongEntry(std::string_view entry)
{
    return badInput("'" + std::string(entry) + "' is not a failpoint; write NAME=kill|stop|error|full|sleep:MS, with @N for the N-th pass only");
}

bool readNumber(std::string_view text, std::int64_t &value)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

bool readAction(std::string_view text, Point &point)
{
    if (text.starts_with("sleep:")) {
        point.action = Action::Sleep;
        return readNumber(text.substr(6), point.milliseconds);
    }
    point.action = text == "kill" ? Action::Kill : text == "stop" ? Action::Stop : text == "error" ? Action::Error : text == "full" ? Action::Full : Action::None;
    return point.action != Action::None;
}

Status armOne(std::string_view entry, Points &points)
{
    const std::size_t equals = entry.find('=');
    const auto *found = std::find(std::begin(kFailpoints), std::end(kFailpoints), entry.substr(0, equals));
    if (equals == std::string_view::npos || found == std::end(kFailpoints))
        return wrongEntry(entry);
    Point &point = points[static_cast<std::size_t>(found - std::begin(kFailpoints))];
    std::string_view action = entry.substr(equals + 1);
    if (const std::size_t at = action.find('@'); at != std::string_view::npos) {
        if (!readNumber(action.substr(at + 1), point.pass) || point.pass == 0)
            return wrongEntry(entry);
        action = action.substr(0, at);
    }
    return readAction(action, point) ? Status() : wrongEntry(entry);
}

Status arm(std::string_view text, Points &points)
{
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(';'), text.size());
        const std::string_view entry = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (entry.empty())
            continue;
        if (Status armed = armOne(entry, points); !armed)
            return armed;
    }
    return {};
}

/// A mistake in the variable ends the program: a test that believes that it injects faults must not pass without them.
Points &table()
{
    static Points points;
    [[maybe_unused]] static const bool armed = [] {
        const char *text = std::getenv("PLANLOOM_FAILPOINTS");
        if (const Status status = arm(text != nullptr ? text : "", points); !status) {
            std::fprintf(stderr, "PLANLOOM_FAILPOINTS: %s\n", status.error().message.c_str());
            std::_Exit(2);
        }
        return true;
    }();
    return points;
}

} // namespace

bool failpointsWork()
{
#ifdef PLANLOOM_FAILPOINTS
    return true;
#else
    return false;
#endif
}

Status armFailpoints(std::string_view text)
{
    Points &points = table();
    for (Point &point : points) {
        point.action = Action::None;
        point.pass = 0;
        point.passes = 0;
    }
    return arm(text, points);
}

Status passFailpoint(std::size_t index)
{
    Point &point = table()[index];
    const std::int64_t pass = ++point.passes;
    if (point.action == Action::None || (point.pass != 0 && point.pass != pass))
        return {};
    switch (point.action) {
    case Action::Kill: std::raise(SIGKILL); break;
    case Action::Stop: std::raise(SIGSTOP); break;
    case Action::Sleep: std::this_thread::sleep_for(std::chrono::milliseconds(point.milliseconds)); break;
    case Action::Error: return ioError("failpoint " + std::string(kFailpoints[index]));
    case Action::Full: return ioError(std::string(std::strerror(ENOSPC)) + " (failpoint " + std::string(kFailpoints[index]) + ")");
    case Action::None: break;
    }
    return {};
}

} // namespace planloom
