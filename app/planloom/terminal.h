// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace planloom::cli {

/// @p text on stderr. Its reader may be gone (a closed terminal, a pipe without a reader):
/// that is no reason to end.
void say(std::string_view text);
/// @p text as a terminal shows it, and nothing that it obeys: control characters are question marks, but for tabs and
/// ends of lines. Messages hold words of files and of other machines.
std::string printable(std::string_view text);

/// From now on Ctrl-C and SIGTERM ask for a clean stop; a second one ends the process at once. Also: a reader that goes
/// away
/// (`planloom ... | head`) is a failed write, not a signal.
void catchInterrupts();
/// True once the user asked to stop. Any thread.
bool interrupted();

/// Calls @p onInterrupt, once, from a separate thread, if the user asks to stop while this exists.
class InterruptWatch {
public:
    explicit InterruptWatch(std::function<void()> onInterrupt);

private:
    std::jthread m_thread;
};

/// A bar on stderr where that is a terminal, and nothing elsewhere; stopped by Ctrl-C. The bar goes when the object
/// does. Thread contract: as Progress, one thread.
class TerminalProgress final : public Progress {
public:
    explicit TerminalProgress(bool shown);
    ~TerminalProgress() override;
    TerminalProgress(const TerminalProgress &) = delete;
    TerminalProgress &operator=(const TerminalProgress &) = delete;

    void report(double fraction, std::string_view what) override;
    [[nodiscard]] bool stopped() const override { return interrupted(); }
    /// Takes the bar away before something else is printed; the next report() draws it again.
    void clear();

private:
    using Clock = std::chrono::steady_clock;
    bool m_shown;
    bool m_drawn = false;
    Clock::time_point m_begun = Clock::now();
    Clock::time_point m_last{};
};

/// The bar's line, without the terminal's control characters: "[=====>    ]  52 %  3 s left  searching". Fraction < 0:
/// unknown.
std::string barText(double fraction, double secondsSoFar, std::string_view what, int columns);

} // namespace planloom::cli
