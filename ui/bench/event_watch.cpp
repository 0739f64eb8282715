// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/bench/event_watch.h"

#include <QMetaEnum>
#include <QThread>

#include <sys/resource.h>

#include <ctime>
#include <utility>

namespace planloom::ui {

double threadMilliseconds()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

std::int64_t threadPages()
{
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_minflt;
}

bool EventWatch::measure(const QObject *receiver, const QEvent *event, const std::function<bool()> &handle)
{
    const int loop = QThread::currentThread()->loopLevel();
    if (!m_frames.empty() && m_frames.back().loop >= loop)
        return handle();
    // The receiver may be gone when the event has been handled.
    const char *const kind = receiver->metaObject()->className();
    const QString name = receiver->objectName();
    const int type = event->type();
    m_frames.push_back({loop});
    const std::int64_t pagesBefore = threadPages();
    const double begin = threadMilliseconds();
    const bool handled = handle();
    const double whole = threadMilliseconds() - begin;
    const std::int64_t pages = threadPages() - pagesBefore;
    const Frame within = m_frames.back();
    m_frames.pop_back();
    if (!m_frames.empty()) {
        m_frames.back().nested += whole;
        m_frames.back().nestedPages += pages;
    }
    note(kind, name, type, whole - within.nested, pages - within.nestedPages);
    return handled;
}

void EventWatch::note(const char *receiver, const QString &name, int type, double milliseconds, std::int64_t pages)
{
    ++m_events;
    if (milliseconds <= m_slowest.milliseconds && milliseconds <= m_limit)
        return;
    const char *const key = QMetaEnum::fromType<QEvent::Type>().valueToKey(type);
    const HandledEvent event{QLatin1String(receiver) + (name.isEmpty() ? QString() : QLatin1Char(' ') + name),
                             key ? QString::fromLatin1(key) : QString::number(type), milliseconds, pages};
    if (milliseconds > m_slowest.milliseconds)
        m_slowest = event;
    if (milliseconds <= m_limit)
        return;
    ++m_slow;
    if (m_tell)
        m_tell(event);
}

void EventWatch::onSlow(double limit, std::function<void(const HandledEvent &)> tell)
{
    m_limit = limit;
    m_tell = std::move(tell);
}

void EventWatch::reset()
{
    m_events = m_slow = 0;
    m_slowest = {};
}

bool WatchedApplication::notify(QObject *receiver, QEvent *event)
{
    if (QThread::currentThread() != thread())
        return QApplication::notify(receiver, event);
    return m_watch.measure(receiver, event, [&] { return QApplication::notify(receiver, event); });
}

} // namespace planloom::ui
