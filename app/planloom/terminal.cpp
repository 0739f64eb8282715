// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/terminal.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace planloom::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kFirstDraw = std::chrono::milliseconds(300); // shorter work needs no bar
constexpr auto kWatch = std::chrono::milliseconds(20);
constexpr int kBarWidth = 24;

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

void onSignal(int signal)
{
    if (!g_interrupted.exchange(true))
        return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

int columnsOf(int fd)
{
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

void say(std::string_view text)
{
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

std::string printable(std::string_view text)
{
    constexpr unsigned char kDelete = 0x7f, kC1 = 0xc2, kC1First = 0x80, kC1Last = 0x9f; // C1 as in UTF-8
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
        const bool two = byte == kC1 && next >= kC1First && next <= kC1Last;
        const bool obeyed = two || byte == kDelete || (byte < ' ' && byte != '\n' && byte != '\t');
        shown += obeyed ? '?' : text[i];
        i += two ? 1 : 0;
    }
    return shown;
}

void catchInterrupts()
{
    struct sigaction action {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return g_interrupted.load(std::memory_order_relaxed); }

InterruptWatch::InterruptWatch(std::function<void()> onInterrupt)
    : m_thread([call = std::move(onInterrupt)](const std::stop_token &stop) {
          // A signal handler may not notify a condition variable, so the flag is polled.
          while (!stop.stop_requested() && !interrupted())
              std::this_thread::sleep_for(kWatch);
          if (interrupted())
              call();
      })
{
}

TerminalProgress::TerminalProgress(bool shown) : m_shown(shown && ::isatty(STDERR_FILENO) == 1) {}
TerminalProgress::~TerminalProgress() { clear(); }

void TerminalProgress::report(double fraction, std::string_view what)
{
    if (!m_shown)
        return;
    const auto now = Clock::now();
    if (now - m_begun < kFirstDraw || (m_drawn && now - m_last < kRedraw))
        return;
    m_last = now;
    m_drawn = true;
    const double seconds = std::chrono::duration<double>(now - m_begun).count();
    say(fmt::format("\r\033[K{}", barText(fraction, seconds, what, columnsOf(STDERR_FILENO))));
}

void TerminalProgress::clear()
{
    if (!m_drawn)
        return;
    m_drawn = false;
    say("\r\033[K");
}

std::string barText(double fraction, double secondsSoFar, std::string_view what, int columns)
{
    std::string line;
    if (fraction >= 0) {
        const double done = std::min(fraction, 1.0);
        const int full = static_cast<int>(done * kBarWidth);
        line = fmt::format("[{:=<{}}{}{: <{}}] {:3.0f} %", "", full, full < kBarWidth ? ">" : "", "",
                           std::max(0, kBarWidth - full - 1), done * 100);
        if (done > 0.02 && done < 1)
            line += fmt::format("  {:.0f} s left", secondsSoFar * (1 - done) / done);
    } else {
        line = fmt::format("{:.0f} s", secondsSoFar);
    }
    line += fmt::format("  {}", what);
    if (static_cast<int>(line.size()) >= columns)
        line.resize(static_cast<std::size_t>(std::max(0, columns - 1)));
    return line;
}

} // namespace planloom::cli
