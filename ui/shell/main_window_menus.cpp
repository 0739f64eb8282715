// SPDX-License-Identifier: GPL-3.0-or-later
// The menus of MainWindow and their actions.
#include "engine/base/files.h"
#include "engine/export/export.h"
#include "engine/import/import.h"
#include "ui/shell/export_dialog.h"
#include "ui/shell/help_window.h"
#include "ui/shell/laid_trace_dialog.h"
#include "ui/shell/main_window.h"
#include "ui/shell/start_page.h"
#include "ui/state/plan_shape.h"
#include "ui/state/run_files.h"
#include "ui/state/whole_trace.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QActionGroup>
#include <QApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QMessageBox>
#include <QPainter>
#include <QPixmap>
#include <QSvgGenerator>

#include <utility>

namespace planloom::ui {

QAction *MainWindow::action(QMenu *menu, const char *id, const QString &text, const QKeySequence &key,
                            const QString &iconName, const std::function<void()> &run)
{
    auto *made = new QAction(text, this);
    made->setObjectName(QString::fromLatin1(id));
    made->setShortcut(key);
    connect(made, &QAction::triggered, this, run);
    if (!iconName.isEmpty()) {
        made->setData(iconName);
        made->setIcon(icon(iconName));
        m_actions << made;
    }
    menu->addAction(made);
    return made;
}

void MainWindow::makeMenus()
{
    makeFileMenu();
    makeEditAndPlanMenus();
    makeViewMenu();
    m_tools = menuBar()->addMenu(tr("&Tools"));
    m_tools->menuAction()->setVisible(false); // nothing is in it
    makeWindowMenu();
    makeHelpMenu();
}

void MainWindow::makeFileMenu()
{
    QMenu *file = menuBar()->addMenu(tr("&File"));
    action(file, "file.open", tr("&Open…"), QKeySequence::Open, QStringLiteral("open"), [this] { askForFiles(); });
    QMenu *model = m_models = file->addMenu(tr("Open &model"));
    QMenu *cluster = m_clusters = file->addMenu(tr("Open &cluster"));
    connect(model, &QMenu::aboutToShow, this, [this, model] { openModelMenu(model); });
    connect(cluster, &QMenu::aboutToShow, this, [this, cluster] { openClusterMenu(cluster); });
    action(file, "file.open-graph", tr("Open a &graph…"), {}, {}, [this] {
        const QString folder = QFileDialog::getExistingDirectory(this, tr("Open the folder of a graph"));
        if (!folder.isEmpty())
            open({folder});
    });
    m_recent = file->addMenu(tr("Open &recent"));
    connect(m_recent, &QMenu::aboutToShow, this, &MainWindow::openRecentMenu);
    openModelMenu(model);
    openClusterMenu(cluster);
    openRecentMenu();
    file->addSeparator();
    m_save = action(file, "file.save", tr("&Save plan"), QKeySequence::Save, QStringLiteral("save"),
                    [this] { savePlan(false); });
    m_needPlan << m_save << action(file, "file.save-as", tr("Save plan &as…"), QKeySequence::SaveAs, {}, [this] {
        savePlan(true);
    });
    QMenu *exports = file->addMenu(tr("&Export"));
    m_needPlan << action(exports, "file.export-plan", tr("&Plan for another program…"),
                         QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E), {}, [this] { askForExport(); });
    action(exports, "file.export-view", tr("&View as image…"), QKeySequence(Qt::CTRL | Qt::Key_E),
           QStringLiteral("export"), [this] { exportCurrentView(); });
    m_needPlan << action(exports, "file.export-chrome", tr("&Timeline as Chrome trace…"), {}, {},
                         [this] { exportTimeline(); });
    m_needPlan << action(exports, "file.export-perfetto", tr("Timeline as Pe&rfetto trace…"), {}, {},
                         [this] { exportPerfetto(); });
    action(exports, "file.export-dot", tr("&Model as Graphviz DOT…"), {}, {}, [this] { exportGraph(); });
    file->addSeparator();
    QMenu *imports = file->addMenu(tr("&Import"));
    action(imports, "file.import-setup", tr("&Configuration of another program…"), {}, {}, [this] {
        const QString path =
            QFileDialog::getOpenFileName(this, tr("Megatron-LM arguments, DeepSpeed or torchtitan configuration"), {},
                                         tr("Configurations (*.args *.sh *.txt *.json *.toml);;All files (*)"));
        if (!path.isEmpty() && m_state->importSetup(path))
            Q_EMIT opened({path});
    });
    m_needPlan << action(imports, "file.import-schedule", tr("&Pipeline schedule (PyTorch CSV)…"), {}, {}, [this] {
        const QString path = QFileDialog::getOpenFileName(this, tr("Schedule of torch.distributed.pipelining"), {},
                                                          tr("Schedules (*.csv);;All files (*)"));
        if (!path.isEmpty() && m_state->importOrder(path))
            Q_EMIT opened({path});
    });
    m_needPlan << action(imports, "file.lay-trace", tr("&Lay a trace over this plan…"), {}, {},
                         [this] { askForLaidTrace(); });
    m_laid =
        action(file, "file.laid-trace", tr("How the trace &lies over the plan…"), {}, {}, [this] { showLaidTrace(); });
    file->addSeparator();
    action(file, "file.quit", tr("&Quit"), QKeySequence::Quit, {}, [this] { close(); });
}

void MainWindow::openModelMenu(QMenu *menu)
{
    menu->clear();
    for (const auto &entry : import::zooEntries()) {
        const QString source = QStringLiteral("zoo:") + qt(entry.name);
        QAction *each = menu->addAction(source, this, [this, source] { open({source}); });
        each->setToolTip(qt(entry.about));
        each->setStatusTip(qt(entry.about));
    }
    menu->setToolTipsVisible(true);
}

void MainWindow::openClusterMenu(QMenu *menu)
{
    menu->clear();
    QStringList sources{QStringLiteral("local"), QStringLiteral("local:2"), QStringLiteral("local:4")};
    for (const std::string &name : cluster::presetNames())
        sources << QStringLiteral("preset:") + qt(name);
    for (const QString &source : std::as_const(sources))
        menu->addAction(source, this, [this, source] { open({source}); });
}

void MainWindow::openRecentMenu()
{
    m_recent->clear();
    const QStringList recent = recentFiles();
    for (const QString &name : recent)
        m_recent->addAction(name, this, [this, name] { open({name}); });
    if (recent.isEmpty())
        m_recent->addAction(tr("No recent files"))->setEnabled(false);
}

void MainWindow::makeEditAndPlanMenus()
{
    QMenu *edit = menuBar()->addMenu(tr("&Edit"));
    QAction *undo = m_state->undoStack()->createUndoAction(this);
    undo->setShortcut(QKeySequence::Undo);
    undo->setData(QStringLiteral("undo"));
    undo->setObjectName(QStringLiteral("edit.undo"));
    QAction *redo = m_state->undoStack()->createRedoAction(this);
    redo->setShortcuts({QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)});
    redo->setData(QStringLiteral("redo"));
    redo->setObjectName(QStringLiteral("edit.redo"));
    undo->setIconText(tr("Undo")); // the menu names the edit; the tool bar must not change its width
    redo->setIconText(tr("Redo"));
    for (QAction *each : {undo, redo}) {
        each->setIcon(icon(each->data().toString()));
        edit->addAction(each);
        m_actions << each;
    }
    edit->addSeparator();
    action(edit, "edit.go-to", tr("&Go to…"), QKeySequence(Qt::CTRL | Qt::Key_P), {},
           [this] { showPalette(tr("Go to ")); });
    action(edit, "edit.palette", tr("Command &palette…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P),
           QStringLiteral("palette"), [this] { showPalette(); });
    action(edit, "edit.clear-selection", tr("&Clear the selection"), {}, {}, [this] { m_state->clearSelection(); });
    edit->addSeparator();
    action(edit, "edit.preferences", tr("Pre&ferences…"), QKeySequence(Qt::CTRL | Qt::Key_Comma), {},
           [this] { showPreferences(); });

    QMenu *plan = menuBar()->addMenu(tr("&Plan"));
    m_plan = action(plan, "plan.find", tr("&Find a plan…"), QKeySequence(Qt::CTRL | Qt::Key_F5), QStringLiteral("plan"),
                    [this] { askForPlan(); });
    auto *alternatives = plan->addMenu(tr("&Alternatives"));
    connect(alternatives, &QMenu::aboutToShow, this, [this, alternatives] {
        alternatives->clear();
        for (const auto &candidate : m_state->alternatives()) {
            const QString name =
                tr("%1, iteration %2").arg(shapeText(candidate.plan), secondsText(candidate.simulatedSeconds));
            alternatives->addAction(name, this, [this, chosen = candidate.plan] {
                m_state->replacePlan(tr("Use an alternative"), chosen);
            });
        }
        if (alternatives->isEmpty())
            alternatives->addAction(tr("none"))->setEnabled(false);
    });

    QMenu *run = menuBar()->addMenu(tr("&Run"));
    m_train = action(run, "run.train", tr("&Train the plan…"), QKeySequence(Qt::Key_F5), QStringLiteral("train"),
                     [this] { askForTraining(); });
    m_stop = action(run, "run.stop", tr("&Stop after this step"), QKeySequence(Qt::SHIFT | Qt::Key_F5),
                    QStringLiteral("stop"), [this] { m_state->stopRun(); });
    m_resume = action(run, "run.resume", tr("&Resume the run…"), {}, {}, [this] { askToResume(); });
    m_resume->setStatusTip(tr("Continue the run from its newest checkpoint"));
    run->addSeparator();
    action(run, "run.open", tr("&Open a run…"), {}, {}, [this] { askForRun(); });
}

void MainWindow::makeViewMenu()
{
    m_docksMenu = menuBar()->addMenu(tr("&View"));
    int number = 1;
    for (QDockWidget *dock : std::as_const(m_docks))
        action(m_docksMenu, qPrintable(QStringLiteral("view.") + dock->objectName().toLower()), dock->windowTitle(),
               QKeySequence(QStringLiteral("Ctrl+%1").arg(number++)), {}, [this, dock] { focusView(dock); });
    m_docksMenu->addSeparator();
    QMenu *shown = m_docksMenu->addMenu(tr("&Panels"));
    for (QDockWidget *dock : std::as_const(m_docks))
        shown->addAction(dock->toggleViewAction());
    m_docksMenu->addSeparator();
    action(m_docksMenu, "view.copy-link", tr("&Copy a link to this view"), {}, {}, [this] { copyLink(); });
    action(m_docksMenu, "view.open-link", tr("Open a &link…"), QKeySequence(Qt::CTRL | Qt::Key_L), {},
           [this] { askForLink(); });
    m_docksMenu->addSeparator();
    QMenu *themes = m_docksMenu->addMenu(tr("&Theme"));
    int kind = 0;
    for (const auto &[id, name] :
         {std::pair("view.theme-system", tr("Follow system")), std::pair("view.theme-light", tr("Light")),
          std::pair("view.theme-dark", tr("Dark")), std::pair("view.theme-high-contrast", tr("High contrast"))})
        action(themes, id, name, {}, {}, [this, kind = kind++] { setTheme(kind); });
}

void MainWindow::makeWindowMenu()
{
    QMenu *window = menuBar()->addMenu(tr("&Window"));
    QMenu *layouts = window->addMenu(tr("&Layouts"));
    auto *group = new QActionGroup(this);
    const std::pair<const char *, QString> about[] = {
        {"window.layout-plan", tr("Plan and its timeline are large, model and memory stand beside them")},
        {"window.layout-watch", tr("Run and memory beside the timeline, the list of runs below")},
        {"window.layout-compare", tr("The list of runs beside two of them, compared")}};
    for (const Layout layout : {Layout::Plan, Layout::Watch, Layout::Compare}) {
        const auto &[id, tip] = about[static_cast<std::size_t>(layout)];
        QAction *each = action(layouts, id, layoutTitle(layout), {}, {}, [this, layout] { useLayout(layout); });
        each->setCheckable(true);
        each->setStatusTip(tip);
        each->setToolTip(tip);
        group->addAction(each);
        m_layoutActions << each;
    }
    layouts->setToolTipsVisible(true);
    m_layoutActions.front()->setChecked(true);
    action(window, "window.reset-layout", tr("&Reset layout"), {}, {}, [this] { resetLayout(); });
}

void MainWindow::makeHelpMenu()
{
    QMenu *help = menuBar()->addMenu(tr("&Help"));
    action(help, "help.contents", tr("&Help"), QKeySequence::HelpContents, QStringLiteral("help"),
           [this] { showHelp(QStringLiteral("studio/tour.md")); });
    action(help, "help.keys", tr("&Keys and mouse"), QKeySequence(QStringLiteral("Ctrl+?")), {},
           [this] { showHelp(QStringLiteral("studio/keys.md")); });
    action(help, "help.tour", tr("Guided &tour"), {}, {}, [this] { startTour(); });
    help->addSeparator();
    action(help, "help.about", tr("&About Planloom"), {}, {}, [this] {
        QMessageBox::about(
            this, tr("About Planloom"),
            tr("<b>Planloom %1</b><p>Plans, simulates, runs and explains the parallel training of neural networks.</p>"
               "<p>The studio is free software under the GNU General Public License, version 3 or later; the engine is "
               "under the "
               "Apache License 2.0.</p>")
                .arg(QCoreApplication::applicationVersion()));
    });
}

void MainWindow::makeToolBar()
{
    auto *bar = m_toolBar = addToolBar(tr("Main"));
    bar->setObjectName(QStringLiteral("MainToolBar"));
    bar->setMovable(false);
    bar->setIconSize({20, 20});
    bar->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    const auto find = [this](const char *name) {
        for (QAction *each : std::as_const(m_actions)) {
            if (each->data().toString() == QLatin1String(name))
                return each;
        }
        return static_cast<QAction *>(nullptr);
    };
    for (const char *name : {"open", "save", "", "undo", "redo", "", "plan", "train", "stop", "", "palette", "help"}) {
        if (QAction *each = find(name))
            bar->addAction(each);
        else
            bar->addSeparator();
    }
}

void MainWindow::refreshActions()
{
    const bool hasPlan = m_state->document() != nullptr;
    for (QAction *each : std::as_const(m_needPlan))
        each->setEnabled(hasPlan);
    m_train->setEnabled(hasPlan && !m_state->run().active());
    m_stop->setEnabled(m_state->run().active());
    const RunData &run = m_state->run();
    m_laid->setEnabled(m_state->laidTrace() != nullptr);
    m_resume->setEnabled(m_state->runIsOfDocument() && !run.active() && hasCheckpoints(run.folder));
}

// --- saving and exporting

bool MainWindow::savePlan(bool ask)
{
    QString path = m_state->planPath();
    if (ask || path.isEmpty())
        path = QFileDialog::getSaveFileName(this, tr("Save the plan"),
                                            path.isEmpty() ? QStringLiteral("plan.json") : path, tr("Plans (*.json)"));
    if (path.isEmpty() || !m_state->savePlan(path))
        return false;
    rememberFile(path);
    refreshTitle();
    m_state->say(MessageLevel::Info, tr("Saved %1").arg(path));
    Q_EMIT saved(path);
    return true;
}

void MainWindow::exportText(const QString &title, const QString &suffix,
                            const std::function<Result<std::string>()> &make)
{
    const QString path = QFileDialog::getSaveFileName(this, title, QStringLiteral("planloom.") + suffix);
    if (path.isEmpty())
        return;
    const auto text = make();
    if (!text)
        return m_state->say(MessageLevel::Error, qt(text.error().text()));
    if (const Status status = writeFileAtomically(path.toStdString(), *text); !status)
        return m_state->say(MessageLevel::Error, qt(status.error().text()));
    m_state->say(MessageLevel::Info, tr("Wrote %1").arg(path));
}

void MainWindow::exportTimeline()
{
    exportText(tr("Timeline as Chrome trace"), QStringLiteral("trace.json"), [this]() -> Result<std::string> {
        if (const trace::Trace measured = wholeMeasured(*m_state); !measured.records.empty())
            return exporting::chromeTrace(measured);
        if (!m_state->simulation())
            return badInput("there is no timeline yet; find a plan first");
        return exporting::chromeTrace(m_state->simulation()->trace);
    });
}

/// Written piece by piece: it is no text.
void MainWindow::exportPerfetto()
{
    const bool measured = !m_state->measured().ranks.empty();
    const auto simulation = m_state->simulation();
    if (!measured && !simulation)
        return m_state->say(MessageLevel::Error, tr("there is no timeline yet; find a plan first"));
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Timeline as Perfetto trace"), QStringLiteral("planloom.pftrace"));
    if (path.isEmpty())
        return;
    const Status status =
        exporting::writePerfettoTrace(measured ? wholeMeasured(*m_state) : simulation->trace, path.toStdString());
    if (!status)
        return m_state->say(MessageLevel::Error, qt(status.error().text()));
    m_state->say(MessageLevel::Info, tr("Wrote %1").arg(path));
}

void MainWindow::askForExport()
{
    auto *dialog = new ExportDialog(*m_state, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &ExportDialog::written, this,
            [this](const QString &path) { m_state->say(MessageLevel::Info, tr("Wrote %1").arg(path)); });
    dialog->open();
}

void MainWindow::exportGraph()
{
    exportText(tr("Model as Graphviz DOT"), QStringLiteral("dot"), [this]() -> Result<std::string> {
        if (!m_state->model())
            return badInput("there is no model yet; open one first");
        const plan::Plan *plan = m_state->document() ? &m_state->document()->plan : nullptr;
        const graph::LayerView *layers = m_state->subject() ? &m_state->subject()->layers() : nullptr;
        return exporting::graphvizDot(*m_state->model()->graph, plan, layers);
    });
}

void MainWindow::exportCurrentView()
{
    View *shown = currentView();
    const QString path =
        QFileDialog::getSaveFileName(this, tr("View as image"), shown->title().toLower() + QStringLiteral(".png"),
                                     tr("PNG image (*.png);;SVG image (*.svg)"));
    if (path.isEmpty() || !exportView(shown, path))
        return;
    const QString note = shown->pictureNote();
    if (note.isEmpty())
        m_state->say(MessageLevel::Info, tr("Wrote %1").arg(path));
    else
        m_state->say(MessageLevel::Warning, tr("Wrote %1: %2").arg(path, note));
}

bool MainWindow::exportView(View *shown, const QString &path)
{
    WhenSeen::catchUp(shown);
    const QSize size = shown->pictureSize();
    if (path.endsWith(QLatin1String(".svg"), Qt::CaseInsensitive)) {
        QSvgGenerator svg;
        svg.setFileName(path);
        svg.setSize(size);
        svg.setViewBox(QRect({}, size));
        svg.setTitle(shown->title());
        QPainter painter;
        if (painter.begin(&svg)) {
            shown->paintPicture(painter);
            return painter.end();
        }
    } else {
        QPixmap picture(size * shown->devicePixelRatioF());
        picture.setDevicePixelRatio(shown->devicePixelRatioF());
        picture.fill(theme().window);
        QPainter painter(&picture);
        shown->paintPicture(painter);
        painter.end();
        if (picture.save(path))
            return true;
    }
    m_state->say(MessageLevel::Error, tr("%1: cannot be written; choose another folder").arg(path));
    return false;
}

// --- palette and help

std::vector<Command> MainWindow::commands()
{
    std::vector<Command> all;
    const std::function<void(const QMenu *, const QString &)> collect = [&](const QMenu *menu, const QString &path) {
        for (QAction *each : menu->actions()) {
            const QString text = each->text().remove(QLatin1Char('&'));
            if (each->menu())
                collect(each->menu(), path + text + QStringLiteral(" ▸ "));
            else if (!each->isSeparator() && each->isEnabled())
                all.push_back(
                    {path + text, each->shortcut().toString(QKeySequence::NativeText), [each] { each->trigger(); }});
        }
    };
    for (QAction *top : menuBar()->actions())
        collect(top->menu(), top->text().remove(QLatin1Char('&')) + QStringLiteral(" ▸ "));
    for (QDockWidget *dock : std::as_const(m_docks)) {
        for (QAction *each : static_cast<View *>(dock->widget())->commands())
            all.push_back(
                {dock->windowTitle() + QStringLiteral(" ▸ ") + each->text(), {}, [each] { each->trigger(); }});
    }
    if (const auto &document = m_state->document()) {
        for (std::size_t s = 0; s < document->plan.stages.size(); ++s)
            all.push_back({tr("Go to stage %1").arg(s), {}, [this, s] {
                               m_state->selectStage(StageId(static_cast<std::int64_t>(s)));
                           }});
    }
    if (const auto &cluster = m_state->cluster()) {
        for (const auto &device : cluster->devices())
            all.push_back({tr("Go to device %1").arg(qt(device.name)), {}, [this, id = device.id] {
                               m_state->selectDevice(id);
                           }});
    }
    if (const auto &subject = m_state->subject()) {
        for (std::size_t k = 0; k < subject->layers().size(); ++k)
            all.push_back({tr("Go to layer %1").arg(qt(subject->layers().layers[k].name)), {}, [this, k] {
                               Selection next;
                               next.layers = {k, k + 1};
                               m_state->select(next);
                           }});
    }
    return all;
}

void MainWindow::showPalette(const QString &text)
{
    auto *palette = new CommandPalette(commands(), this);
    palette->setText(text);
    palette->move(mapToGlobal(QPoint((width() - palette->width()) / 2, 70)));
    palette->show();
}

void MainWindow::showHelp(const QString &page)
{
    if (!m_help)
        m_help = new HelpWindow(this);
    m_help->showPage(page);
    m_help->show();
    m_help->raise();
    m_help->activateWindow();
}

} // namespace planloom::ui
