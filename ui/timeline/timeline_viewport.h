// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPoint>
#include <QRect>
#include <QSize>

#include "ui/state/selection.h"
#include "ui/timeline/time_axis.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/timeline_scene.h"

#include <functional>
#include <optional>
#include <vector>

namespace planloom::ui {

/// The part of a TimelineModel that a widget of some size shows: a stretch of time and some of the rows, below the
/// ruler and right of the labels. Knows where each slice is drawn, and which views were shown before.
class TimelineViewport {
public:
    /// @p changed: called when another part is shown.
    TimelineViewport(const TimelineModel &model, std::function<void()> changed)
        : m_model(model),
          m_changed(std::move(changed))
    {
    }

    [[nodiscard]] const TimeAxis &axis() const { return m_axis; }
    [[nodiscard]] int scroll() const { return m_scroll; } ///< pixels of content above
    /// Pixels at the top that do not scroll: of the pinned rows, where these leave room for others.
    [[nodiscard]] int pinned() const;
    [[nodiscard]] TimelineScene scene() const; ///< what is seen, without highlights
    [[nodiscard]] bool follows() const { return m_follow; }
    /// Where rows are drawn, in the widget.
    [[nodiscard]] QRect rows() const;
    [[nodiscard]] double timeAt(int x) const { return m_axis.toTime(x - rows().x()); }
    [[nodiscard]] std::optional<std::size_t> rowAt(int y) const;
    [[nodiscard]] std::optional<TimelineModel::Slice> sliceAt(const QPoint &at) const;
    /// Where slice @p slice is drawn, in widget coordinates; empty if its row is hidden.
    [[nodiscard]] QRect boxOf(const TimelineModel::Slice &slice) const;

    void resize(QSize widget);
    /// The model's contents changed; @p keepView: shows the same stretch of time as before.
    void modelChanged(QSize widget, bool keepView);
    /// Shows the newest steps whenever the model changes, until the user moves.
    void follow(bool follow) { m_follow = follow && m_model.hasMeasured(); }

    void setScroll(int y);
    void scrollBy(int pixels);
    void setBegin(double begin);
    void pan(double pixels);
    void drag(QPoint by); ///< pixels
    void zoomBy(double factor);
    void zoomAt(double factor, double x); ///< around the time at @p x of the widget
    void showAll();
    void showRange(double begin, double end); ///< nanoseconds
    void showStep(int step);
    void fit(const TimelineModel::Slice &slice);
    /// The range, else the slice, else all; again: back to all.
    void focus(const std::optional<TimeRange> &range, const std::optional<TimelineModel::Slice> &slice);
    void reveal(const TimelineModel::Slice &slice); ///< scrolls and pans so that it can be seen
    void remember();                                ///< for back()
    void back();

private:
    void show(const TimelineModel::Slice &slice);
    void moved();
    void changed();

    const TimelineModel &m_model;
    std::function<void()> m_changed;
    QSize m_size;
    TimeAxis m_axis;
    int m_scroll = 0;
    bool m_follow = false;
    std::vector<TimeAxis> m_history;
};

} // namespace planloom::ui
