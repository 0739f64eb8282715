// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>
#include <QPoint>
#include <QString>
#include <QWidget>

#include "ui/state/selection.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/timeline_painter.h"

#include <optional>
#include <vector>

namespace planloom::ui {

/// The picture of a TimelineModel with its mouse and keyboard control. Static content is kept as a
/// pixmap, so that hovering and selecting repaint without asking the model. Keys and mouse:
/// resources/docs/studio/keys.md.
class TimelineCanvas : public QWidget {
    Q_OBJECT

public:
    struct Mark {
        std::int64_t time = 0;
        QString name;
    };

    explicit TimelineCanvas(TimelineModel *model, QWidget *parent = nullptr);

    /// The model's contents changed; @p keepView: shows the same stretch of time as before.
    void modelChanged(bool keepView);
    void setEmptyText(const QString &text); ///< in the place of rows, while there are none
    void setSelection(const Selection &selection, const std::string &device);
    [[nodiscard]] const TimeAxis &axis() const { return m_axis; }
    [[nodiscard]] int scroll() const { return m_scroll; }
    void setScroll(int y);
    void setViewBegin(double begin);
    [[nodiscard]] int rowsHeight() const;
    [[nodiscard]] bool follows() const { return m_follow; }
    void setFollow(bool follow);
    [[nodiscard]] const std::vector<Mark> &marks() const { return m_marks; }
    [[nodiscard]] const TimelinePainter &painter() const { return m_painter; }
    /// All rows over the stretch of time in view, with ruler and labels; rows beyond kMostPixels are left out.
    [[nodiscard]] QSize wholeSize() const;
    void paintWhole(QPainter &painter);
    static constexpr int kMostPixels = 16'000;
    /// Where slice @p slice is drawn, in widget coordinates; empty if its row is hidden.
    [[nodiscard]] QRect boxOf(const TimelineModel::Slice &slice) const;
    /// Text of the tooltip of @p slice.
    [[nodiscard]] QString describe(const TimelineModel::Slice &slice) const;

    void showAll();
    void zoomBy(double factor);
    void showStep(int step);
    void focusSelection(); ///< again: back to all
    void previousView();
    void reveal(const TimelineModel::Slice &slice); ///< scrolls and pans so that it can be seen
    void addMark(const QString &name);

Q_SIGNALS:
    void viewChanged();                                              ///< axis, scroll or follow
    void picked(const std::string &task, const std::string &device); ///< empty: nothing
    void rangePicked(std::optional<planloom::ui::TimeRange> range);
    void deviceClicked(const std::string &device);
    void searchAsked();
    void helpAsked();

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void leaveEvent(QEvent *event) override;
    void changeEvent(QEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    bool event(QEvent *event) override;

private:
    enum class Drag { None, Pan, Range };
    /// The slices within the selected range: of many rows they are summed up in pieces.
    struct RangeTotals {
        TimeRange range;
        std::int64_t offset = 0;
        std::size_t rows = 0;            ///< of the model
        std::size_t next = 0;            ///< rows that have been added
        TimelineModel::Totals totals[2]; ///< per clock (measured: 1)
    };

    [[nodiscard]] QRect rowsArea() const;
    [[nodiscard]] TimelineScene scene() const;
    [[nodiscard]] std::optional<TimelineModel::Slice> sliceAt(const QPoint &at) const;
    [[nodiscard]] double timeAt(int x) const;
    void userMoved();
    void remember();
    void changedView();
    void invalidate();
    void clampScroll();
    void renderCache();
    void paintOverlay(QPainter &painter);
    void paintRange(QPainter &painter, const QRect &rows);
    /// Adds some more rows. True if all have been added.
    bool addTotals();
    void paintMarks(QPainter &painter, const QRect &rows);
    void pick(const std::optional<TimelineModel::Slice> &slice);
    void fitSlice(const TimelineModel::Slice &slice);
    void step(int by, bool alongMicroBatch);
    void removeMark();
    void clear();
    [[nodiscard]] bool navigationKey(const QKeyEvent &event);
    [[nodiscard]] bool commandKey(const QKeyEvent &event);
    void describeForReaders();

    TimelineModel *m_model;
    TimelinePainter m_painter;
    TimeAxis m_axis;
    int m_scroll = 0;
    QPixmap m_cache;
    bool m_stale = true;
    bool m_follow = false;
    Selection m_selection;
    std::string m_selectedDevice;
    std::optional<TimelineModel::Slice> m_picked;
    std::optional<TimelineModel::Slice> m_hover;
    std::optional<TimeRange> m_range;
    std::optional<RangeTotals> m_totals;
    std::vector<Mark> m_marks;
    QString m_emptyText;
    std::vector<TimeAxis> m_history;
    Drag m_drag = Drag::None;
    QPoint m_press;
    QPoint m_last;
    bool m_moved = false;
};

} // namespace planloom::ui
