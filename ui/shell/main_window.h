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
#include "ui/shell/key_map.h"
#include "ui/shell/layouts.h"
#include "ui/shell/message_bar.h"
#include "ui/shell/view_link.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/view.h"
#include "ui/state/load_queue.h"
#include "ui/state/studio_state.h"

#include <functional>
#include <memory>
#include <vector>

namespace planloom::ui {

class Autosave;
class GuidedTour;
class HelpWindow;
class MemoryView;
class RunView;
class TimelineView;
struct TourStep;

/// The studio's window: one dock per view, menus, message bar, status line.
class MainWindow final : public QMainWindow {
    Q_OBJECT

public:
    explicit MainWindow(StudioState *state);
    ~MainWindow() override;

    /// Files, folders, names such as zoo:gpt2, and links (view_link.h). False: the user keeps an unsaved plan, or a
    /// link is wrong.
    bool open(const QStringList &namesOrPaths);
    /// Geometry and docks of the last session. Before the window is shown: the widths of docks in a maximised window
    /// are those of its final size. False if there are none: resetLayout() once it is shown.
    bool restoreLayout();
    /// Theme and the open documents: first the recovered unsaved plan, unless @p otherFiles are about
    /// to be opened.
    void restoreSession(bool otherFiles = false);
    /// From now on unsaved plans are kept in @p folder (autosave.h).
    void keepUnsaved(const QString &folder);
    void saveSession();
    void resetLayout(); ///< docks as the layout in force has them at first
    /// Arranges the docks as they were left the last time in @p layout.
    void useLayout(Layout layout);
    [[nodiscard]] Layout currentLayout() const { return m_layout; }
    [[nodiscard]] const QList<QDockWidget *> &docks() const { return m_docks; }
    [[nodiscard]] View *view(const QString &dockName) const; ///< "Timeline", ...; nullptr if there is none
    [[nodiscard]] MessageBar *messageBar() { return m_messages; }
    [[nodiscard]] QString statusText() const { return m_facts->text(); }
    /// Commands of menus and views that have a name.
    [[nodiscard]] std::vector<NamedAction> namedActions() const;
    [[nodiscard]] KeyMap &keyMap() { return *m_keyMap; }
    /// What is open and seen, for links and scripts.
    [[nodiscard]] ViewFields viewFields() const;
    /// Error: names a view, tab or device that is not there.
    Status showFields(const ViewFields &fields);
    [[nodiscard]] ViewLink viewLink() const;
    /// False and a message if it cannot be read.
    bool openLink(const QString &text);
    /// Calls @p next when nothing is loaded, searched or simulated any more.
    void whenSettled(std::function<void()> next);
    /// Tools: what stands above the window adds to it.
    [[nodiscard]] QMenu *toolsMenu() { return m_tools; }
    /// Adds a command with a name to @p menu; its shortcut is configurable like those of the window's own.
    QAction *action(QMenu *menu, const char *id, const QString &text, const QKeySequence &key, const QString &iconName,
                    const std::function<void()> &run);
    void loadKeys(); ///< after commands were added
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
    void showPreferences();
    void copyLink();
    void askForLink();
    /// Of what is open, or of the sample where nothing is.
    void startTour();
    void showHelp(const QString &page);

Q_SIGNALS:
    void opened(const QStringList &namesOrPaths);
    void planAsked(const QString &model, const QString &cluster, const planloom::ui::PlanRequest &request,
                   const std::vector<std::string> &loss);
    void saved(const QString &path); ///< the plan

protected:
    void closeEvent(QCloseEvent *event) override;
    void dragEnterEvent(QDragEnterEvent *event) override;
    void dropEvent(QDropEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    static constexpr int kLayoutVersion = 4; ///< of saved docks: another number forgets them

    QDockWidget *addView(View *view, const QString &name);
    void makeViews();
    void makeMenus();
    void makeFileMenu();
    void makeEditAndPlanMenus();
    void makeViewMenu();
    void makeWindowMenu();
    void makeHelpMenu();
    void makeToolBar();
    void makeStatusBar();
    void makeStartPage();
    void nameCommands(View *view, const QString &dockName);
    void arrangeDocks();
    [[nodiscard]] QDockWidget *dockNamed(const QString &name) const;
    Status selectFields(const ViewFields &fields);
    [[nodiscard]] std::vector<TourStep> tourSteps();
    [[nodiscard]] QWidget *toolButton(const char *iconName);
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
    QMenu *m_tools = nullptr;
    QToolBar *m_toolBar = nullptr;
    QList<QAction *> m_layoutActions; ///< by Layout
    Layout m_layout = Layout::Plan;
    QHash<QString, QByteArray> m_layouts; ///< docks as they were left, by layoutName()
    std::unique_ptr<KeyMap> m_keyMap;
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
    LoadQueue m_snapshots; ///< last: its thread ends first
};

} // namespace planloom::ui
