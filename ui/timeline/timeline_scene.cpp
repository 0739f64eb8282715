// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_scene.h"

#include <algorithm>
#include <cmath>

namespace planloom::ui {

std::vector<TimelineScene> TimelineScene::parts() const
{
    if (pinned <= 0)
        return {*this};
    TimelineScene top = *this;
    top.scroll = 0;
    top.area.setHeight(std::min(pinned, area.height()));
    TimelineScene rest = *this;
    rest.scroll += pinned;
    rest.area.setTop(top.area.bottom() + 1);
    top.pinned = rest.pinned = 0;
    return {top, rest};
}

int TimelineScene::screenX(std::int64_t time, int beyond) const
{
    const double pixel = axis.toPixel(static_cast<double>(time));
    return area.x() + static_cast<int>(std::floor(std::clamp<double>(pixel, -beyond, area.width() + beyond)));
}

bool TimelineScene::shows(const TimelineModel::Row &row) const
{
    const int y = screenY(row.y);
    return y + row.height > area.y() + (row.y < pinned ? 0 : pinned) && y <= area.bottom();
}

QRect TimelineScene::boxOf(const TimelineModel::Slice &slice) const
{
    const auto row = model->rowOf(slice);
    if (!row)
        return {};
    const trace::Record record = model->record(slice);
    const int x = screenX(record.start);
    const int right = std::max(screenX(record.start + record.duration), x + 1);
    const TimelineModel::Row &at = model->rows()[*row];
    return {x, screenY(at.y), right - x, at.height};
}

} // namespace planloom::ui
