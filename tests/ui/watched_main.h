// SPDX-License-Identifier: GPL-3.0-or-later
// PLANLOOM_UI_MAIN(Test) is QTEST_MAIN for tests of the studio: an event that takes more than 50 ms of the UI thread's
// processor time, or as much more as processors and new memory are slower here, fails the test that runs. Settings are
// the process's own: tests that run at the same time, and the user's studio, have others.
#pragma once

#include "tests/ui/slow_events.h"
#include "ui/bench/event_watch.h"

#include <QSettings>
#include <QTemporaryDir>
#include <QTest>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
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

/// Milliseconds that a page of memory takes here when it is touched first. On a machine it is half a microsecond, which
/// the limit has in it; on one that another simulates it was 15, so that 13 MB of new memory alone take 50 ms. Cost: 8
/// MiB of it.
inline double pageMilliseconds()
{
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    void *const block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return 0;
    ::madvise(block, kBytes, MADV_NOHUGEPAGE); // small pages are the ones of which events touch many
    const std::int64_t before = threadPages();
    const double begin = threadMilliseconds();
    std::memset(block, 1, kBytes);
    const double taken = threadMilliseconds() - begin;
    const std::int64_t pages = threadPages() - before;
    ::munmap(block, kBytes);
    return taken / static_cast<double>(std::max<std::int64_t>(pages, 1));
}

/// Milliseconds that @p event may take here, where processors are so slow and a page of new memory takes @p page.
inline double mostMilliseconds(const HandledEvent &event, double slow, double page)
{
    constexpr double kPageThere = 0.0005;
    return EventWatch::kLimit * slow + static_cast<double>(event.pages) * std::max(page - kPageThere, 0.0);
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
            std::printf("slowest event of %s: %s of %s, %.1f ms of processor time, %lld pages\n", m_test,
                        qPrintable(m_watch.slowest().type), qPrintable(m_watch.slowest().receiver),
                        m_watch.slowest().milliseconds, static_cast<long long>(m_watch.slowest().pages));
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
        const double most = mostMilliseconds(event, slowness(), pageMilliseconds());
        if (event.milliseconds <= most)
            return;
        const QString what = QStringLiteral("%1 of %2 took %3 ms of processor time, at most %4 ms are allowed with %5 "
                                            "pages of new memory")
                                 .arg(event.type, event.receiver)
                                 .arg(event.milliseconds, 0, 'f', 1)
                                 .arg(most, 0, 'f', 1)
                                 .arg(event.pages);
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
        const QTemporaryDir settings;                                                                                  \
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());                            \
        planloom::ui::WatchedApplication app(argc, argv);                                                              \
        app.setAttribute(Qt::AA_Use96Dpi, true);                                                                       \
        planloom::ui::testing::EventGuard guard(app.watch(), #Test);                                                   \
        Test test;                                                                                                     \
        QTEST_SET_MAIN_SOURCE_PATH                                                                                     \
        const int failed = QTest::qExec(&test, argc, argv);                                                            \
        return failed + guard.outside();                                                                               \
    }
