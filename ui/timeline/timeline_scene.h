// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRect>

#include "ui/timeline/time_axis.h"
#include "ui/timeline/timeline_model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::ui {

/// The part of a timeline to paint, and its highlights.
struct TimelineScene {
    const TimelineModel *model = nullptr;
    TimeAxis axis;
    int scroll = 0; ///< pixels of content above the viewport
    int pinned = 0; ///< pixels at the top of the content that do not scroll
    QRect area;     ///< where rows go, in widget coordinates; the ruler is above it, the labels to its left
    std::string selectedTask;
    std::string selectedDevice; ///< a device's name; empty: none
    int selectedStage = -1;

    /// The pinned rows and the others, each with an area and a scroll of its own.
    [[nodiscard]] std::vector<TimelineScene> parts() const;
    /// Where pixel @p y of the content is drawn; of rows that scroll also below the pinned ones.
    [[nodiscard]] int screenY(int y) const { return area.y() + (y < pinned ? y : y - scroll); }
    /// @p time, nanoseconds as shown, as a pixel of the widget, at most @p beyond pixels outside of the area.
    [[nodiscard]] int screenX(std::int64_t time, int beyond = 100'000) const;
    /// Whether a part of the row is seen.
    [[nodiscard]] bool shows(const TimelineModel::Row &row) const;
    /// Where @p slice is drawn, at least a pixel wide; empty if its row is hidden.
    [[nodiscard]] QRect boxOf(const TimelineModel::Slice &slice) const;
};

} // namespace planloom::ui
