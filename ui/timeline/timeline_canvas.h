// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>
#include <QPoint>
#include <QString>
#include <QWidget>

#include "ui/state/selection.h"
#include "ui/timeline/frame_times.h"
#include "ui/timeline/link_painter.h"
#include "ui/timeline/row_commands.h"
#include "ui/timeline/task_links.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/timeline_overlay.h"
#include "ui/timeline/timeline_painter.h"
#include "ui/timeline/timeline_path.h"
#include "ui/timeline/timeline_viewport.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::ui {

/// The picture of a TimelineModel with its mouse and keyboard control. Static content is kept as a
/// pixmap, which hovering and selecting only draw over. Keys and mouse:
/// resources/docs/studio/keys.md.
class TimelineCanvas : public QWidget {
    Q_OBJECT

public:
    explicit TimelineCanvas(TimelineModel *model, QWidget *parent = nullptr);

    /// What of the model can be seen. It may be moved.
    [[nodiscard]] TimelineViewport &viewport() { return m_viewport; }
    [[nodiscard]] const TimelineOverlay &overlay() const { return m_overlay; }
    [[nodiscard]] const TimelinePainter &painter() const { return m_painter; }
    /// The model's contents changed; @p keepView: shows the same stretch of time as before.
    void modelChanged(bool keepView);
    void setEmptyText(const QString &text); ///< in the place of rows, while there are none
    void setSelection(const Selection &selection, const std::string &device);
    void setFollow(bool follow);
    void addMark(const QString &name);
    /// At the times of late collectives; see TimelineOverlay.
    void setLateMarks(std::vector<TimelineOverlay::Mark> marks);
    /// Selects it, and scrolls and pans so that it can be seen.
    void showSlice(const TimelineModel::Slice &slice);
    /// Drawn over the rows; what is on none of them pales. Empty: none are drawn.
    void setPaths(std::vector<TimelinePath> paths);
    [[nodiscard]] const std::vector<TimelinePath> &paths() const { return m_paths; }
    /// Causes and effects of the selected slice.
    [[nodiscard]] const TaskLinks &links() const { return m_links; }
    /// Changes which rows are shown, and where.
    void choose(const RowChoices &choices);
    void showCommunication(bool show);
    /// How long frames take, from now on, in the corner of the picture.
    void showFrameTimes(bool show);
    [[nodiscard]] const FrameTimes &frameTimes() const { return m_frames; }
    /// Does it, if it can be done here; else refused() says why.
    void useRowCommand(RowCommand::What what);
    /// Of the row under the mouse, else of the selected slice.
    [[nodiscard]] std::vector<RowCommand> rowCommandsHere() const;
    /// All rows over the stretch of time in view, with ruler and labels; rows beyond kMostPixels are left out.
    [[nodiscard]] QSize wholeSize() const;
    void paintWhole(QPainter &painter);
    static constexpr int kMostPixels = 16'000;

Q_SIGNALS:
    void viewChanged();                                              ///< of the viewport
    void picked(const std::string &task, const std::string &device); ///< empty: nothing
    void rangePicked(std::optional<planloom::ui::TimeRange> range);
    void deviceClicked(const std::string &device);
    void searchAsked();
    void helpAsked();
    void pathAsked();                    ///< the critical path is to be shown, or hidden
    void rangeTableAsked();              ///< likewise the table of the range
    void analysisAsked();                ///< likewise the findings in the trace
    void rowsChosen();                   ///< choose() changed them
    void refused(const QString &reason); ///< a key that has nothing to do here

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void contextMenuEvent(QContextMenuEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void leaveEvent(QEvent *event) override;
    void changeEvent(QEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    bool event(QEvent *event) override;

private:
    enum class Drag { None, Pan, Range };

    [[nodiscard]] TimelineScene scene() const;
    void invalidate();
    void renderCache();
    void paintContent(QPainter &painter);
    void pick(const std::optional<TimelineModel::Slice> &slice);
    void step(int by, bool alongMicroBatch);
    void stepAlongLinks(int by);
    void findLinks();
    void paintSelection(QPainter &painter, const TimelineScene &of);
    void clear();
    /// The time of the picked slice, else the middle of the view.
    [[nodiscard]] double centre() const;
    [[nodiscard]] bool navigationKey(const QKeyEvent &event);
    [[nodiscard]] bool commandKey(const QKeyEvent &event);
    void describeForReaders();

    TimelineModel *m_model;
    TimelineViewport m_viewport;
    TimelineOverlay m_overlay;
    TimelinePainter m_painter;
    QPixmap m_cache;
    bool m_stale = true;
    Selection m_selection;
    std::string m_selectedDevice;
    std::optional<TimelineModel::Slice> m_picked;
    TaskLinks m_links; ///< of m_picked
    std::vector<TimelinePath> m_paths;
    QString m_emptyText;
    FrameTimes m_frames;
    bool m_showsFrames = false;
    Drag m_drag = Drag::None;
    QPoint m_press;
    QPoint m_last;
    bool m_moved = false;
};

} // namespace planloom::ui
