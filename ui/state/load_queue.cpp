// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/load_queue.h"

#include <utility>

namespace planloom::ui {

LoadQueue::LoadQueue(QObject *parent) : QObject(parent)
{
    connect(&m_job, &Job::changed, this, &LoadQueue::changed);
    connect(&m_job, &Job::changed, this, &LoadQueue::startNext);
}

void LoadQueue::add(const QString &title, Job::Work work)
{
    if (!m_job.running()) {
        m_job.start(title, std::move(work));
        return;
    }
    m_waiting.emplace_back([this, title, work = std::move(work)] { m_job.start(title, work); });
}

void LoadQueue::whenEmpty(std::function<void()> next)
{
    m_waiting.push_back(std::move(next));
    startNext();
}

void LoadQueue::startNext()
{
    while (!m_job.running() && !m_waiting.empty()) {
        const auto next = std::move(m_waiting.front());
        m_waiting.pop_front();
        next();
    }
}

} // namespace planloom::ui
