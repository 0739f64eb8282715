// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPainter>
#include <QString>

#include "ui/state/selection.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/timeline_viewport.h"

#include <optional>
#include <utility>
#include <vector>

namespace planloom::ui {

/// What is drawn over the picture of the rows: the selected range with its totals, marks, and a frame around the slice
/// under the mouse and its counterpart.
class TimelineOverlay {
public:
    struct Mark {
        std::int64_t time = 0;
        QString name;
    };

    explicit TimelineOverlay(const TimelineModel &model) : m_model(model) {}

    /// False: totals of the range are not complete yet; to be painted again soon.
    [[nodiscard]] bool paint(QPainter &painter, const TimelineViewport &view, int height);

    [[nodiscard]] const std::optional<TimeRange> &range() const { return m_range; }
    void setRange(const std::optional<TimeRange> &range) { m_range = range; }
    /// True if that is another one.
    bool setHover(const std::optional<TimelineModel::Slice> &slice);
    [[nodiscard]] const std::vector<Mark> &marks() const { return m_marks; }
    /// @p name: empty: a number.
    void addMark(std::int64_t time, const QString &name);
    /// The one nearest to @p time. False: there is none.
    bool removeMark(double time);
    /// Where the last member came to a collective: a small triangle at the ruler. Names are not shown.
    void setLateMarks(std::vector<Mark> marks) { m_late = std::move(marks); }
    [[nodiscard]] const std::vector<Mark> &lateMarks() const { return m_late; }
    /// The model's contents changed.
    void forget();

private:
    /// The slices within the selected range: of many rows they are summed up in pieces.
    struct RangeTotals {
        TimeRange range;
        std::int64_t offset = 0;
        std::size_t rows = 0;            ///< of the model
        std::size_t next = 0;            ///< rows that have been added
        TimelineModel::Totals totals[2]; ///< per clock (measured: 1)
    };

    bool paintRange(QPainter &painter, const TimelineViewport &view, int height);
    /// Adds some more rows. True if all have been added.
    bool addTotals();
    [[nodiscard]] QString rangeText() const;
    void paintMarks(QPainter &painter, const TimelineViewport &view, int height) const;
    void paintLateMarks(QPainter &painter, const TimelineViewport &view) const;
    void paintHover(QPainter &painter, const TimelineViewport &view) const;

    const TimelineModel &m_model;
    std::optional<TimeRange> m_range;
    std::optional<RangeTotals> m_totals;
    std::optional<TimelineModel::Slice> m_hover;
    std::vector<Mark> m_marks;
    std::vector<Mark> m_late;
};

} // namespace planloom::ui
