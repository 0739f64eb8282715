// SPDX-License-Identifier: GPL-3.0-or-later
// PLANLOOM_UI_MAIN(Test) is QTEST_MAIN for tests of the studio: an event that takes more than 50 ms of the UI thread's
// processor time, or as much more as processors are slower here, fails the test that runs.
#pragma once

#include "tests/ui/slow_events.h"
#include "ui/bench/event_watch.h"

#include <QTest>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

namespace planloom::ui::testing {

/// Processor time says something only of optimised code. Sanitizers make it several times as long, not evenly, so that
/// no factor would be right: there events are not judged.
#if defined(PLANLOOM_SANITIZED) || !defined(__OPTIMIZE__)
inline constexpr bool kEventsAreJudged = false;
#else
inline constexpr bool kEventsAreJudged = true;
#endif

/// The row of kSlowEvents that allows @p event in a function of a test; nullptr: none does.
inline const SlowEvent *allowanceOf(std::string_view test, std::string_view function, const HandledEvent &event)
{
    for (const SlowEvent &slow : kSlowEvents)
        if (test == slow.test && function == slow.function && event.receiver.toStdString().starts_with(slow.receiver)
            && event.type.toStdString() == slow.type)
            return &slow;
    return nullptr;
}

/// The most that slowness() says.
inline constexpr double kMostSlowness = 2.5;

/// How many times as long as on the machine of the limit (a core of a server of 2023) processors take at the moment:
/// 1 to kMostSlowness. Cost: a sort of 65,536 numbers, three times.
inline double slowness()
{
    constexpr double kThere = 5; // milliseconds
    double fastest = 1e9;
    for (int turn = 0; turn < 3; ++turn) {
        std::vector<std::uint32_t> numbers(1 << 16);
        std::uint32_t number = 1;
        for (std::uint32_t &each : numbers)
            each = number = number * 1664525U + 1013904223U;
        const double begin = threadMilliseconds();
        std::ranges::sort(numbers);
        fastest = std::min(fastest, threadMilliseconds() - begin);
    }
    return std::clamp(fastest / kThere, 1.0, kMostSlowness);
}

/// Fails the running function of @p test for each event above the limit that no row allows.
class EventGuard {
public:
    EventGuard(EventWatch &watch, const char *test) : m_watch(watch), m_test(test)
    {
        watch.onSlow(EventWatch::kLimit, [this](const HandledEvent &event) { judge(event); });
    }
    ~EventGuard()
    {
        if (qEnvironmentVariableIsSet("PLANLOOM_SLOWEST_EVENT"))
            std::printf("slowest event of %s: %s of %s, %.1f ms of processor time\n", m_test,
                        qPrintable(m_watch.slowest().type), qPrintable(m_watch.slowest().receiver),
                        m_watch.slowest().milliseconds);
        m_watch.onSlow(EventWatch::kLimit, {});
    }
    EventGuard(const EventGuard &) = delete;
    EventGuard &operator=(const EventGuard &) = delete;
    [[nodiscard]] int outside() const { return m_outside; } ///< slow events outside of a function

private:
    void judge(const HandledEvent &event)
    {
        const char *const function = QTest::currentTestFunction();
        if (!kEventsAreJudged || allowanceOf(m_test, function ? function : "", event))
            return;
        const double most = EventWatch::kLimit * slowness();
        if (event.milliseconds <= most)
            return;
        const QString what = QStringLiteral("%1 of %2 took %3 ms of processor time; at most %4 ms are allowed")
                                 .arg(event.type, event.receiver)
                                 .arg(event.milliseconds, 0, 'f', 1)
                                 .arg(most, 0, 'f', 1);
        if (function)
            return QTest::qFail(qPrintable(what), m_test, 0);
        ++m_outside;
        std::fprintf(stderr, "FAIL!  : %s: %s\n", m_test, qPrintable(what));
    }

    EventWatch &m_watch;
    const char *m_test;
    int m_outside = 0;
};

} // namespace planloom::ui::testing

#define PLANLOOM_UI_MAIN(Test)                                                                                         \
    int main(int argc, char *argv[])                                                                                   \
    {                                                                                                                  \
        planloom::ui::WatchedApplication app(argc, argv);                                                              \
        app.setAttribute(Qt::AA_Use96Dpi, true);                                                                       \
        planloom::ui::testing::EventGuard guard(app.watch(), #Test);                                                   \
        Test test;                                                                                                     \
        QTEST_SET_MAIN_SOURCE_PATH                                                                                     \
        const int failed = QTest::qExec(&test, argc, argv);                                                            \
        return failed + guard.outside();                                                                               \
    }
