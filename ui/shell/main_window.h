// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QDockWidget>
#include <QLabel>
#include <QList>
#include <QMainWindow>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <QStringList>
#include <QToolBar>

#include "ui/shell/command_palette.h"
#include "ui/shell/message_bar.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/view.h"
#include "ui/state/latest_job.h"
#include "ui/state/studio_state.h"

#include <functional>
#include <memory>
#include <vector>

namespace planloom::ui {

class Autosave;
class HelpWindow;
class MemoryView;
class RunView;
class TimelineView;

/// The studio's window: one dock per view, menus, message bar, status line.
class MainWindow final : public QMainWindow {
    Q_OBJECT

public:
    explicit MainWindow(StudioState *state);
    ~MainWindow() override;

    void open(const QStringList &namesOrPaths);
    /// Geometry and docks of the last session. Before the window is shown: the widths of docks in a maximised window
    /// are those of its final size. False if there are none: resetLayout() once it is shown.
    bool restoreLayout();
    /// Theme and the open documents: first the recovered unsaved plan, unless @p otherFiles are about
    /// to be opened.
    void restoreSession(bool otherFiles = false);
    /// From now on unsaved plans are kept in @p folder (autosave.h).
    void keepUnsaved(const QString &folder);
    void saveSession();
    void resetLayout(); ///< docks as on the first start
    [[nodiscard]] const QList<QDockWidget *> &docks() const { return m_docks; }
    [[nodiscard]] View *view(const QString &dockName) const; ///< "Timeline", ...; nullptr if there is none
    [[nodiscard]] MessageBar *messageBar() { return m_messages; }
    [[nodiscard]] QString statusText() const { return m_facts->text(); }
    /// Everything that the palette offers now.
    [[nodiscard]] std::vector<Command> commands();
    /// Writes the view as .png or .svg. False and a message on failure.
    bool exportView(View *view, const QString &path);
    /// False: ask neither about an unsaved plan that would be lost nor about a run that closing would stop, and list no
    /// runs: the window is not a user's.
    void setAsks(bool asks);

    // Actions of menus, for the demo and for tests.
    void askForPlan();
    /// A request as from the dialog of askForPlan(). Empty names keep the model or the cluster that is open.
    void findPlan(const QString &model, const QString &cluster, const PlanRequest &request,
                  const std::vector<std::string> &loss = {});
    void askForTraining();
    void askForFiles();
    void askForRun();
    void askToResume();
    void askForPlanOfTrace();
    void askForExport();
    void askForLaidTrace();
    /// A window with how the trace lies over the plan, if one does.
    void showLaidTrace();
    /// The plan in @p path, which is said to have made the trace that is open. A warning if another plan did.
    void openPlanOfTrace(const QString &path);
    void showPalette(const QString &text = {});
    void showHelp(const QString &page);

protected:
    void closeEvent(QCloseEvent *event) override;
    void dragEnterEvent(QDragEnterEvent *event) override;
    void dropEvent(QDropEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    QAction *action(QMenu *menu, const QString &text, const QKeySequence &key, const QString &iconName,
                    const std::function<void()> &run);
    QDockWidget *addView(View *view, const QString &name);
    void makeViews();
    void makeMenus();
    void makeFileMenu();
    void makeEditAndPlanMenus();
    void makeViewMenu();
    void makeHelpMenu();
    void makeToolBar();
    void makeStatusBar();
    void makeStartPage();
    void openModelMenu(QMenu *menu);
    void openClusterMenu(QMenu *menu);
    void openRecentMenu();
    bool savePlan(bool ask);
    /// Before the open plan is replaced by something that undo does not restore. False: the user keeps it.
    [[nodiscard]] bool mayDropPlan();
    [[nodiscard]] bool mayStopRun();
    void exportText(const QString &title, const QString &suffix, const std::function<Result<std::string>()> &make);
    void exportTimeline();
    void exportPerfetto();
    void exportGraph();
    void exportCurrentView();
    void focusView(QDockWidget *dock);
    void setTheme(int kind);
    void refreshActions();
    void refreshStatus();
    void refreshTitle();
    void refreshIcons();
    [[nodiscard]] View *currentView() const;

    StudioState *m_state;
    QList<QDockWidget *> m_docks;
    QList<QAction *> m_actions; ///< with icons: data() is the icon's name
    MessageBar *m_messages;
    ElidedLabel *m_facts;
    QLabel *m_busy;
    QProgressBar *m_progress;
    QPushButton *m_cancel;
    QMenu *m_models = nullptr;
    QMenu *m_clusters = nullptr;
    QMenu *m_recent = nullptr;
    QMenu *m_docksMenu = nullptr;
    QAction *m_save = nullptr;
    QAction *m_plan = nullptr;
    QAction *m_train = nullptr;
    QAction *m_stop = nullptr;
    QAction *m_resume = nullptr;
    QAction *m_laid = nullptr;
    QList<QAction *> m_needPlan;
    HelpWindow *m_help = nullptr;
    std::unique_ptr<Autosave> m_autosave;
    PlanRequest m_lastRequest;
    agent::TrainRequest m_lastTraining;
    bool m_hasPlanned = false; ///< m_lastRequest comes from the user
    bool m_asks = true;
    LatestJob m_snapshotJob{tr("Reading a memory snapshot")}; ///< last: its thread ends first
};

} // namespace planloom::ui
