// SPDX-License-Identifier: Apache-2.0
#include "engine/base/failpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace planloom {
namespace {

/// All of them. They come before main() starts, in any order.
std::vector<Failpoint *> &registry()
{
    static std::vector<Failpoint *> points;
    return points;
}

Error wrongEntry(std::string_view entry)
{
    return badInput("'" + std::string(entry)
                    + "' is not a failpoint; write NAME=kill|stop|error|full|sleep:MS, with @N for the N-th pass only");
}

bool readNumber(std::string_view text, std::int64_t &value)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

Status armOne(std::string_view entry)
{
    const std::size_t equals = entry.find('=');
    const auto found = std::ranges::find(registry(), entry.substr(0, equals), &Failpoint::name);
    if (equals == std::string_view::npos || found == registry().end() || !(*found)->arm(entry.substr(equals + 1)))
        return wrongEntry(entry);
    return {};
}

Status armAll(std::string_view text)
{
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(';'), text.size());
        const std::string_view entry = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (entry.empty())
            continue;
        if (Status armed = armOne(entry); !armed)
            return armed;
    }
    return {};
}

/// Once, before the first pass. A mistake in the variable ends the program: a test that believes that it injects faults
/// must not pass without them.
void armByEnvironment()
{
    [[maybe_unused]] static const bool armed = [] {
        const char *text = std::getenv("PLANLOOM_FAILPOINTS");
        if (const Status status = armAll(text != nullptr ? text : ""); !status) {
            std::fprintf(stderr, "PLANLOOM_FAILPOINTS: %s\n", status.error().message.c_str());
            std::_Exit(2);
        }
        return true;
    }();
}

} // namespace

Failpoint::Failpoint(const char *name) : m_name(name) { registry().push_back(this); }

bool Failpoint::readAction(std::string_view text)
{
    if (text.starts_with("sleep:")) {
        m_action = Action::Sleep;
        return readNumber(text.substr(6), m_milliseconds);
    }
    m_action = text == "kill" ? Action::Kill
        : text == "stop"      ? Action::Stop
        : text == "error"     ? Action::Error
        : text == "full"      ? Action::Full
                              : Action::None;
    return m_action != Action::None;
}

bool Failpoint::arm(std::string_view action)
{
    const std::size_t at = action.find('@');
    if (at != std::string_view::npos && (!readNumber(action.substr(at + 1), m_pass) || m_pass == 0))
        return false;
    return readAction(action.substr(0, at));
}

void Failpoint::disarm()
{
    m_action = Action::None;
    m_pass = 0;
    m_passes = 0;
}

Status Failpoint::pass()
{
    armByEnvironment();
    const std::int64_t pass = ++m_passes;
    if (m_action == Action::None || (m_pass != 0 && m_pass != pass))
        return {};
    switch (m_action) {
    case Action::Kill: std::raise(SIGKILL); break;
    case Action::Stop: std::raise(SIGSTOP); break;
    case Action::Sleep: std::this_thread::sleep_for(std::chrono::milliseconds(m_milliseconds)); break;
    case Action::Error: return ioError("failpoint " + std::string(m_name));
    case Action::Full: return ioError(std::string(std::strerror(ENOSPC)) + " (failpoint " + std::string(m_name) + ")");
    case Action::None: break;
    }
    return {};
}

std::vector<std::string_view> failpoints()
{
    std::vector<std::string_view> names;
    for (const Failpoint *point : registry())
        names.push_back(point->name());
    std::ranges::sort(names);
    return names;
}

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
    armByEnvironment(); // now, so that it does not override this one
    for (Failpoint *point : registry())
        point->disarm();
    return armAll(text);
}

} // namespace planloom
