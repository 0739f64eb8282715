// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/task_search.h"

#include <QObject>

#include <algorithm>

namespace planloom::ui {

void TaskSearch::find(const QString &text)
{
    m_text = text;
    m_hits = m_model.search(text.toStdString());
    m_shown = 0;
}

void TaskSearch::refresh(std::string_view task)
{
    find(m_text);
    const auto same =
        std::ranges::find_if(m_hits, [&](const TimelineModel::Slice &hit) { return m_model.task(hit).id == task; });
    if (!task.empty() && same != m_hits.end())
        m_shown = static_cast<std::size_t>(same - m_hits.begin());
}

void TaskSearch::step(int by)
{
    const auto size = static_cast<std::ptrdiff_t>(m_hits.size());
    if (size > 0)
        m_shown = static_cast<std::size_t>((static_cast<std::ptrdiff_t>(m_shown) + by + size) % size);
}

std::optional<TimelineModel::Slice> TaskSearch::shown() const
{
    return m_hits.empty() ? std::nullopt : std::optional(m_hits[m_shown]);
}

QString TaskSearch::fact() const
{
    if (m_text.isEmpty())
        return {};
    return m_hits.empty() ? QObject::tr("no task \"%1\"").arg(m_text)
                          : QObject::tr("task %1 of %2").arg(m_shown + 1).arg(m_hits.size());
}

} // namespace planloom::ui
