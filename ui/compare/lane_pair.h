// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractScrollArea>

#include "engine/trace/index.h"
#include "ui/timeline/texture.h"
#include "ui/timeline/time_axis.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// A step of A and one of B on one axis that begins with both: for each device the rows of A above those of B. The
/// wheel scrolls; with Ctrl it zooms, with Shift it moves in time; 0 shows all. A row costs O(pixels log slices).
class LanePair final : public QAbstractScrollArea {
    Q_OBJECT

public:
    using IndexPtr = std::shared_ptr<const trace::Index>;

    explicit LanePair(QWidget *parent = nullptr);
    /// Null: that side has none. @p missing: shown where both have none.
    void set(IndexPtr a, IndexPtr b, const QString &missing);
    [[nodiscard]] const TimeAxis &axis() const { return m_axis; }
    /// Rows from the top: "n0:g0 A compute".
    [[nodiscard]] QStringList rowTexts() const;
    /// Kinds that the tasks of either side have, each name once.
    [[nodiscard]] std::vector<trace::KindInfo> kinds() const;
    /// The task at @p position of the viewport: its id, kind and time; empty: none.
    [[nodiscard]] QString textAt(const QPoint &position) const;

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void changeEvent(QEvent *event) override;
    bool viewportEvent(QEvent *event) override;

private:
    struct LaneRow {
        bool isB = false;
        bool computes = false;
        std::int32_t rank = 0;
        std::uint32_t lod = 0; ///< index into the level of detail's rows
        int y = 0;
        int height = 0;
    };
    [[nodiscard]] const trace::Index &index(bool isB) const { return isB ? *m_b : *m_a; }
    void layOut();
    void addRows(bool isB, std::int32_t rank, int &y);
    void refreshScroll();
    [[nodiscard]] QRect area() const;
    [[nodiscard]] const LaneRow *rowAt(int y) const;
    void paintRow(QPainter &painter, const LaneRow &row);
    void paintLabels(QPainter &painter, const LaneRow &row) const;
    void paintRuler(QPainter &painter) const;

    IndexPtr m_a, m_b;
    QString m_missing;
    std::vector<LaneRow> m_rows;
    int m_height = 0;
    TimeAxis m_axis;
    KindStyles m_styles;
    std::vector<trace::Bar> m_bars;
};

} // namespace planloom::ui
