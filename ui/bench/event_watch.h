// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QApplication>
#include <QEvent>
#include <QObject>
#include <QString>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace planloom::ui {

/// Processor time of the calling thread, milliseconds. Work of other threads and programs does not count in it.
double threadMilliseconds();
/// Pages of memory that the kernel has provided to the calling thread, each when it was touched first.
std::int64_t threadPages();

/// One event that the UI thread has handled.
struct HandledEvent {
    QString receiver; ///< class, and the object's name where it has one: "TimelineCanvas canvas"
    QString type;     ///< "Paint"
    double milliseconds = 0;
    std::int64_t pages = 0; ///< of memory that was new to it (threadPages)
};

/// Measures each event by the processor time that its handling takes. What is sent or posted and handled while another
/// event is handled is a part of that one, but for events of a loop of its own (a dialog's), which count for themselves
/// only. UI thread only. Cost: two readings of the thread's clock and pages an event, about a microsecond.
class EventWatch {
public:
    static constexpr double kLimit = 50; ///< milliseconds: the most that an event may take (gui.md, T12)

    /// Handles an event by @p handle, which returns what notify() does.
    bool measure(const QObject *receiver, const QEvent *event, const std::function<bool()> &handle);
    /// Called behind each event that took more than @p limit milliseconds.
    void onSlow(double limit, std::function<void(const HandledEvent &)> tell);

    [[nodiscard]] std::size_t events() const { return m_events; } ///< since the last reset()
    [[nodiscard]] std::size_t slowEvents() const { return m_slow; }
    [[nodiscard]] const HandledEvent &slowest() const { return m_slowest; }
    void reset();

private:
    struct Frame {
        int loop = 0;      ///< depth of event loops
        double nested = 0; ///< milliseconds of loops within
        std::int64_t nestedPages = 0;
    };
    void note(const char *receiver, const QString &name, int type, double milliseconds, std::int64_t pages);

    std::vector<Frame> m_frames;
    std::size_t m_events = 0;
    std::size_t m_slow = 0;
    HandledEvent m_slowest;
    double m_limit = kLimit;
    std::function<void(const HandledEvent &)> m_tell;
};

/// An application that measures the events of its thread.
class WatchedApplication final : public QApplication {
public:
    using QApplication::QApplication;
    [[nodiscard]] EventWatch &watch() { return m_watch; }
    bool notify(QObject *receiver, QEvent *event) override;

private:
    EventWatch m_watch;
};

} // namespace planloom::ui
