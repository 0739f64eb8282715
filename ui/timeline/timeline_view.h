// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStackedWidget>
#include <QToolBar>

#include "ui/state/latest_job.h"
#include "ui/widgets/view.h"
#include "ui/timeline/legend.h"
#include "ui/timeline/path_line.h"
#include "ui/timeline/range_panel.h"
#include "ui/timeline/scrolled_canvas.h"
#include "ui/timeline/task_search.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/trace_analysis.h"
#include "ui/widgets/data_table.h"

#include <functional>
#include <memory>
#include <vector>

namespace planloom::ui {

/// The Timeline dock: predicted and measured slices of every device, as a picture and as a table.
class TimelineView final : public View {
    Q_OBJECT

public:
    explicit TimelineView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Timeline"); }
    [[nodiscard]] QList<QAction *> commands() const override { return m_commands; }
    [[nodiscard]] QWidget *focusTarget() override
    {
        return m_startPage && m_pages->currentWidget() == m_startPage ? m_startPage : m_canvas;
    }
    [[nodiscard]] QSize pictureSize() const override;
    [[nodiscard]] QString pictureNote() const override;
    void paintPicture(QPainter &painter) override;
    /// Shown while there is neither a plan nor a measurement. The view owns it from now on.
    void setStartPage(QWidget *page);
    [[nodiscard]] QString footerText() const { return m_footer->text(); }
    [[nodiscard]] QString pathSums() const { return m_pathLine->text(); }
    /// Opens the trace of the run's other course; hidden: it has none.
    [[nodiscard]] QPushButton *otherCourseButton() { return m_otherCourse; }
    [[nodiscard]] RangePanel *rangePanel() { return m_rangePanel; }
    [[nodiscard]] AnalysisPanel *analysisPanel() { return m_analysisPanel; }
    [[nodiscard]] TimelineCanvas *canvas() { return m_canvas; }
    [[nodiscard]] TimelineModel &model() { return m_model; }

Q_SIGNALS:
    void helpAsked();
    void planOfTraceAsked(); ///< open the plan that made the measured trace

protected:
    void changeEvent(QEvent *event) override;

private:
    QAction *command(const QString &text, const QString &iconName, const QString &toolTip,
                     const std::function<void()> &run);
    void makeToolBar();
    void makeBody();
    void connectState();
    void onSimulation();
    void onDocument();
    bool showSource();
    void onMeasuredReset();
    bool indexRest();
    void indexFrom(const std::function<std::shared_ptr<trace::Index>()> &begin, std::size_t first);
    void onMeasuredAppended(std::size_t first);
    void onRunChanged();
    void onSelection();
    void onPicked(const std::string &task, const std::string &device);
    void onRange(std::optional<TimeRange> range);
    void setStep(int step);
    void refreshStepBox();
    void refreshFooter();
    void refreshTable();
    void refreshContents();
    void writeTable(const QString &title, const QString &name, const std::string &csv);
    void refreshPage();
    void search(int by);
    [[nodiscard]] std::string deviceName(DeviceId id) const;

    TimelineModel m_model;
    TimelineCanvas *m_canvas;
    QToolBar *m_bar;
    QSpinBox *m_stepBox;
    QAction *m_stepBoxAction = nullptr;
    QComboBox *m_whose; ///< the open plan, or what was measured of another
    QAction *m_whoseAction = nullptr;
    QAction *m_follow = nullptr;
    QAction *m_asTable = nullptr;
    QAction *m_path = nullptr;
    QAction *m_rangeTable = nullptr;
    QAction *m_analysisTable = nullptr;
    QLineEdit *m_search;
    PathLine *m_pathLine; ///< sums of the critical path
    QLabel *m_footer;
    QPushButton *m_openPlan; ///< of a trace whose plan has not been found
    QPushButton *m_otherCourse;
    Legend *m_legend;
    RangePanel *m_rangePanel;
    AnalysisPanel *m_analysisPanel;
    TraceAnalysis *m_analysis;
    QWidget *m_picture; ///< canvas, scroll bars and the range's table
    QStackedWidget *m_pages;
    DataTable *m_table;
    QWidget *m_startPage = nullptr;
    QList<QAction *> m_commands;
    std::shared_ptr<const simulate::Simulation> m_shown; ///< the prediction
    std::vector<TimelineModel::Slice> m_tableSlices;     ///< by row of the table
    TaskSearch m_found{m_model};
    std::optional<TimeRange> m_rangeOf; ///< of m_rangePanel
    bool m_autoStep = true;             ///< the anchor goes along with a run
    bool m_runActive = false;
    bool m_outdated = false;                                 ///< StudioState::simulationOutdated()
    LatestJob m_reindex{tr("Indexing the rest of the run")}; ///< last: its thread ends first
};

} // namespace planloom::ui
