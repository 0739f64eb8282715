// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/job.h"

#include <QMetaObject>

namespace planloom::ui {

namespace {
constexpr std::chrono::milliseconds kReportInterval{50};
}

/// The Progress that the working thread sees.
class Job::Reporter final : public Progress {
public:
    explicit Reporter(Job &job) : m_job(job) {}

    void report(double fraction, std::string_view what) override
    {
        const auto now = std::chrono::steady_clock::now();
        if (now - m_last < kReportInterval)
            return;
        m_last = now;
        const QString text = QString::fromUtf8(what.data(), static_cast<qsizetype>(what.size()));
        QMetaObject::invokeMethod(
            &m_job, [job = &m_job, fraction, text] { job->setProgress(fraction, text); }, Qt::QueuedConnection);
    }
    [[nodiscard]] bool stopped() const override { return m_job.m_stop.load(std::memory_order_relaxed); }

private:
    Job &m_job;
    std::chrono::steady_clock::time_point m_last;
};

Job::Job(QObject *parent) : QObject(parent) {}

Job::~Job() { m_stop = true; }

bool Job::start(const QString &title, Work work)
{
    if (m_running)
        return false;
    m_title = title;
    m_what.clear();
    m_fraction = -1;
    m_running = true;
    m_stop = false;
    m_thread = std::jthread([this, work = std::move(work)] {
        Reporter reporter(*this);
        Completion completion = work(reporter);
        QMetaObject::invokeMethod(
            this, [this, completion = std::move(completion)] { finish(completion); }, Qt::QueuedConnection);
    });
    Q_EMIT changed();
    return true;
}

void Job::cancel() { m_stop = true; }

void Job::wait()
{
    if (m_thread.joinable())
        m_thread.join();
}

void Job::setProgress(double fraction, const QString &what)
{
    if (!m_running)
        return;
    m_fraction = fraction;
    m_what = what;
    Q_EMIT changed();
}

void Job::finish(const Completion &completion)
{
    m_running = false;
    if (completion)
        completion();
    Q_EMIT changed();
}

} // namespace planloom::ui
