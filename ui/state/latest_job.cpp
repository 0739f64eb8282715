// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/latest_job.h"

namespace planloom::ui {

void LatestJob::ask(Job::Work work)
{
    abandon();
    m_wanted = std::move(work);
    if (!m_job.running())
        begin();
}

void LatestJob::abandon()
{
    m_wanted = nullptr;
    m_abandoned = true;
    m_job.cancel();
}

void LatestJob::begin()
{
    m_abandoned = false;
    m_job.start(m_title, [this, work = std::exchange(m_wanted, nullptr)](Progress &progress) -> Job::Completion {
        return [this, completion = work(progress)] {
            if (m_wanted)
                return begin();
            if (!m_abandoned && completion)
                completion();
        };
    });
}

} // namespace planloom::ui
