// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/main_window.h"

#include "planners/registry.h"
#include "ui/cluster/cluster_view.h"
#include "ui/compare/compare_view.h"
#include "ui/memory/memory_view.h"
#include "ui/memory/snapshot_window.h"
#include "ui/model/model_view.h"
#include "ui/placement/placement_view.h"
#include "ui/planview/plan_view.h"
#include "ui/run/run_list_view.h"
#include "ui/run/run_view.h"
#include "ui/shell/guided_tour.h"
#include "ui/shell/help_window.h"
#include "ui/shell/laid_trace_dialog.h"
#include "ui/shell/planner_dialog.h"
#include "ui/shell/start_page.h"
#include "ui/shell/train_dialog.h"
#include "ui/state/autosave.h"
#include "ui/state/file_kind.h"
#include "ui/state/plan_shape.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_view.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>
#include <QStatusBar>
#include <QUrl>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kLeastViewHeight = 140; // a view is cut off below rather than the window by the screen
const QString kSessionPlan = QStringLiteral("session/plan");
const QString kSessionModel = QStringLiteral("session/model");
const QString kSessionCluster = QStringLiteral("session/cluster");
const QString kGplText = QStringLiteral("/usr/share/common-licenses/GPL-3");

/// A path that is right in any folder, or a name like zoo:gpt2.
QString sourceToKeep(const QString &source)
{
    const QString name = qt(import::clusterFileOf(source.toStdString())); // without "topology.conf"'s settings
    const QFileInfo file(name);
    return file.exists() ? file.absoluteFilePath() + source.mid(name.size()) : source;
}

/// A file that was kept may be gone.
bool canOpen(const QString &source)
{
    const bool isPath = source.startsWith(QLatin1Char('/'));
    return !source.isEmpty() && (!isPath || QFileInfo::exists(qt(import::clusterFileOf(source.toStdString()))));
}

} // namespace

MainWindow::MainWindow(StudioState *state)
    : m_state(state),
      m_messages(new MessageBar(this)),
      m_facts(new ElidedLabel(this)),
      m_busy(new QLabel(this)),
      m_progress(new QProgressBar(this)),
      m_cancel(new QPushButton(tr("&Cancel"), this))
{
    setObjectName(QStringLiteral("MainWindow"));
    setAcceptDrops(true);
    setDockNestingEnabled(true);
    setDockOptions(AnimatedDocks | AllowNestedDocks | AllowTabbedDocks);
    setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
    resize(1400, 900);
    if (QFileInfo::exists(kGplText))
        m_lastTraining.settings.data =
            kGplText.toStdString(); // a text that every Debian has, so that a first run needs no download
    makeViews();
    makeMenus();
    makeToolBar();
    makeStatusBar();
    makeStartPage();
    resetLayout();
    loadKeys();

    connect(m_state, &StudioState::message, this,
            [this](MessageLevel level, const QString &text) { m_messages->show(level, text); });
    connect(m_state, &StudioState::messageWithdrawn, m_messages, &MessageBar::withdraw);
    connect(m_state, &StudioState::busyChanged, this, &MainWindow::refreshStatus);
    connect(m_state, &StudioState::runChanged, this, [this] {
        refreshActions();
        if (m_state->run().phase == RunData::Phase::Starting)
            view(QStringLiteral("Run"))->parentWidget()->raise();
    });
    for (const auto signal : {&StudioState::modelChanged, &StudioState::clusterChanged, &StudioState::documentChanged,
                              &StudioState::simulationChanged}) {
        connect(m_state, signal, this, &MainWindow::refreshActions);
        connect(m_state, signal, this, &MainWindow::refreshStatus);
    }
    connect(m_state, &StudioState::measuredReset, this, &MainWindow::refreshActions);
    connect(m_state, &StudioState::traceLaid, this, [this] {
        view(QStringLiteral("Timeline"))->parentWidget()->raise();
        if (m_asks)
            showLaidTrace();
    });
    connect(m_state, &StudioState::documentChanged, this, &MainWindow::refreshTitle);
    connect(m_state->undoStack(), &QUndoStack::cleanChanged, this, &MainWindow::refreshTitle);
    refreshActions();
    refreshStatus();
    refreshTitle();
}

MainWindow::~MainWindow() = default;

// --- views

QDockWidget *MainWindow::addView(View *view, const QString &name)
{
    auto *dock = new QDockWidget(view->title(), this);
    dock->setObjectName(name);
    dock->setWidget(view);
    view->setMinimumHeight(kLeastViewHeight);
    view->setObjectName(name + QStringLiteral("View"));
    view->setAccessibleName(view->title());
    m_docks << dock;
    nameCommands(view, name);
    return dock;
}

/// A command that has no key of its own may be given one that works in the whole window.
void MainWindow::nameCommands(View *view, const QString &dockName)
{
    for (QAction *each : view->commands()) {
        if (each->objectName().isEmpty())
            each->setObjectName(dockName.toLower() + QLatin1Char('.') + actionName(each->text()));
        if (each->shortcutContext() == Qt::WindowShortcut)
            addAction(each);
    }
}

void MainWindow::makeViews()
{
    addView(new ModelView(m_state, this), QStringLiteral("Model"));
    addView(new ClusterView(m_state, this), QStringLiteral("Cluster"));
    addView(new PlanView(m_state, this), QStringLiteral("Plan"));
    auto *timeline = new TimelineView(m_state, this);
    addView(timeline, QStringLiteral("Timeline"));
    addView(new MemoryView(m_state, this), QStringLiteral("Memory"));
    auto *run = new RunView(m_state, this);
    addView(run, QStringLiteral("Run"));
    addView(new PlacementView(m_state, this), QStringLiteral("Placement"));
    auto *runs = new RunListView(m_state, this);
    addView(runs, QStringLiteral("Runs"));
    auto *compare = new CompareView(m_state, this);
    QDockWidget *compareDock = addView(compare, QStringLiteral("Compare"));
    connect(runs, &RunListView::openAsked, this, [this](const QString &folder) { open({folder}); });
    connect(runs, &RunListView::compareAsked, this, [=, this](const QString &a, const QString &b) {
        compare->compareRuns(a, b);
        focusView(compareDock);
    });
    connect(timeline, &TimelineView::helpAsked, this, [this] { showHelp(QStringLiteral("studio/keys.md")); });
    connect(timeline, &TimelineView::planOfTraceAsked, this, &MainWindow::askForPlanOfTrace);
    connect(run, &RunView::trainAsked, this, &MainWindow::askForTraining);
}

void MainWindow::makeStartPage()
{
    auto *page = new StartPage(m_state, m_models, m_clusters, this);
    connect(page, &StartPage::openAsked, this, &MainWindow::askForFiles);
    connect(page, &StartPage::planAsked, this, &MainWindow::askForPlan);
    connect(page, &StartPage::tourAsked, this, &MainWindow::startTour);
    connect(page, &StartPage::chosen, this, [this](const QString &name) { open({name}); });
    static_cast<TimelineView *>(view(QStringLiteral("Timeline")))->setStartPage(page);
}

void MainWindow::setAsks(bool asks)
{
    m_asks = asks;
    static_cast<RunListView *>(view(QStringLiteral("Runs")))->setKeepsRuns(asks);
}

View *MainWindow::view(const QString &dockName) const
{
    for (QDockWidget *dock : m_docks) {
        if (dock->objectName() == dockName)
            return static_cast<View *>(dock->widget());
    }
    return nullptr;
}

View *MainWindow::currentView() const
{
    for (QDockWidget *dock : m_docks) {
        const QWidget *focus = QApplication::focusWidget();
        if (focus && dock->isAncestorOf(focus))
            return static_cast<View *>(dock->widget());
    }
    return view(QStringLiteral("Timeline"));
}

void MainWindow::focusView(QDockWidget *dock)
{
    dock->show();
    dock->raise();
    static_cast<View *>(dock->widget())->focusTarget()->setFocus(Qt::ShortcutFocusReason);
}

// --- opening

bool MainWindow::open(const QStringList &namesOrPaths)
{
    for (const QString &name : namesOrPaths)
        if (isLink(name))
            return openLink(name);
    const auto replaces = [](const QString &name) {
        const FileKind kind = classifyFile(name);
        return kind == FileKind::Model || kind == FileKind::Cluster || kind == FileKind::Plan || kind == FileKind::Run;
    };
    if (std::any_of(namesOrPaths.begin(), namesOrPaths.end(), replaces) && !mayDropPlan())
        return false;
    if (!namesOrPaths.isEmpty())
        Q_EMIT opened(namesOrPaths);
    QStringList traces;
    for (const QString &name : namesOrPaths) {
        if (classifyFile(name) == FileKind::ForeignTrace)
            traces << name;
    }
    for (const QString &name : namesOrPaths) {
        if (isSnapshotFile(name)) {
            openSnapshot(m_state, m_snapshots, name, this);
            continue;
        }
        const bool isRank = traces.size() > 1 && traces.contains(name); // of one training, with the others
        if (!isRank && m_state->open(name))
            rememberFile(name);
    }
    if (traces.size() > 1 && m_state->openTrace(traces))
        rememberFile(traces.last());
    return true;
}

bool MainWindow::mayDropPlan()
{
    if (!m_asks || !isWindowModified())
        return true;
    const auto answer =
        QMessageBox::question(this, tr("Unsaved plan"), tr("The plan has changes that are not saved."),
                              QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel, QMessageBox::Save);
    return answer == QMessageBox::Discard || (answer == QMessageBox::Save && savePlan(false));
}

void MainWindow::askForFiles()
{
    open(QFileDialog::getOpenFileNames(
        this, tr("Open a model, cluster, plan or trace"), {},
        tr("All supported files (*.onnx *.json *.txt *.yaml *.yml *.xml "
           "*.conf *.plan *.pltrace *.gz *.sqlite *.pftrace *.perfetto-trace *.pickle *.toml "
           "*.args *.sh *.csv);;All files (*)")));
}

void MainWindow::askForPlanOfTrace()
{
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open the plan of the trace"), QFileInfo(m_state->measuredPath()).path(),
                                     tr("Plans (*.json *.plan)"));
    if (!path.isEmpty())
        openPlanOfTrace(path);
}

void MainWindow::askForLaidTrace()
{
    const QStringList paths = QFileDialog::getOpenFileNames(
        this, tr("Lay a trace of another program over the plan; several files are its ranks"), {},
        tr("Traces (*.json *.gz *.sqlite *.pftrace *.perfetto-trace);;All files (*)"));
    if (!paths.isEmpty())
        m_state->layTrace(paths);
}

void MainWindow::showLaidTrace()
{
    const auto &laid = m_state->laidTrace();
    if (!laid)
        return;
    auto *dialog = new LaidTraceDialog(*laid, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->show();
}

void MainWindow::openPlanOfTrace(const QString &path)
{
    open({path});
    m_state->whenLoaded([this, path] {
        if (!m_state->measured().ranks.empty() && m_state->document() && !m_state->measuredIsOfDocument())
            m_state->say(MessageLevel::Warning,
                         tr("%1 is not the plan of the trace; open the one it was made with").arg(path));
    });
}

void MainWindow::dragEnterEvent(QDragEnterEvent *event)
{
    if (event->mimeData()->hasUrls())
        event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent *event)
{
    QStringList paths;
    for (const QUrl &url : event->mimeData()->urls()) {
        if (url.isLocalFile())
            paths << url.toLocalFile();
    }
    if (paths.isEmpty())
        return m_state->say(MessageLevel::Warning, tr("Only local files can be dropped here."));
    open(paths);
    event->acceptProposedAction();
}

// --- asking

void MainWindow::askForPlan()
{
    PlannerDialog dialog(*m_state, this);
    if (m_state->document() || m_hasPlanned) {
        PlanRequest last = m_lastRequest;
        if (!m_hasPlanned && planners::findPlanner(m_state->document()->plan.planner.name))
            last.planner = m_state->document()->plan.planner.name;
        dialog.setRequest(m_state->requestLikeDocument(std::move(last)));
    }
    if (dialog.exec() == QDialog::Accepted)
        findPlan(dialog.modelSource(), dialog.clusterSource(), dialog.request(), dialog.loss());
}

void MainWindow::findPlan(const QString &model, const QString &cluster, const PlanRequest &request,
                          const std::vector<std::string> &loss)
{
    const bool otherLoss = m_state->modelLoss() != loss;
    const bool otherModel =
        !model.isEmpty() && (!m_state->model() || qt(m_state->model()->source) != model || otherLoss);
    const bool otherCluster = !cluster.isEmpty();
    if ((otherModel || otherCluster) && !mayDropPlan())
        return;
    Q_EMIT planAsked(model, cluster, request, loss);
    m_lastRequest = request;
    m_hasPlanned = true;
    const auto modelBefore = m_state->model();
    const auto clusterBefore = m_state->cluster();
    if (otherModel && m_state->loadModel(model, loss))
        rememberFile(model);
    if (otherCluster && m_state->loadCluster(cluster))
        rememberFile(cluster);
    m_state->whenLoaded([=, this] {
        const bool loaded =
            (!otherModel || m_state->model() != modelBefore) && (!otherCluster || m_state->cluster() != clusterBefore);
        if (loaded) // else the bar shows the error, and no plan for the earlier documents is wanted
            m_state->runPlanner(request);
    });
}

void MainWindow::askForTraining()
{
    agent::TrainRequest request = m_lastTraining;
    if (m_state->graphIsOfDocument()) // no other one will do
        request.settings.data = m_state->graph().folder.toStdString();
    TrainDialog dialog(request, this);
    if (m_state->document())
        dialog.setPlan(*m_state->document());
    if (dialog.exec() != QDialog::Accepted)
        return;
    m_lastTraining = dialog.request();
    if (m_state->startRun(m_lastTraining))
        m_lastTraining.runDir.clear(); // a folder holds one run
}

void MainWindow::askForRun()
{
    const QString start = m_state->run().folder.isEmpty() ? QString() : QFileInfo(m_state->run().folder).path();
    const QString folder = QFileDialog::getExistingDirectory(this, tr("Open the folder of a run"), start);
    if (!folder.isEmpty())
        open({folder});
}

void MainWindow::askToResume()
{
    const RunData &run = m_state->run();
    agent::TrainRequest request;
    request.resume = true;
    request.runDir = run.folder.toStdString();
    request.settings = run.settings;
    const auto done = static_cast<std::int64_t>(run.steps.size());
    if (request.settings.steps <= done)
        request.settings.steps += done;
    TrainDialog dialog(request, this);
    if (m_state->document())
        dialog.setPlan(*m_state->document());
    if (dialog.exec() == QDialog::Accepted)
        m_state->startRun(dialog.request());
}

// --- status

void MainWindow::makeStatusBar()
{
    m_facts->setContentsMargins(6, 0, 6, 0);
    m_facts->setAccessibleName(tr("Status"));
    m_progress->setMaximumWidth(180);
    m_progress->setAccessibleName(tr("Progress of the background task"));
    m_cancel->setToolTip(tr("Stop the background task. A stopped search keeps its best plan so far"));
    auto *line = new QWidget(this); // facts, or a message in their place: views are never covered
    auto *row = new QHBoxLayout(line);
    row->setContentsMargins(0, 0, 0, 0);
    row->addWidget(m_facts, 1);
    row->addWidget(m_messages, 1);
    line->setMinimumHeight(m_messages->minimumHeight());
    connect(m_messages, &MessageBar::shown, m_facts, &QWidget::setHidden);
    statusBar()->addWidget(line, 1);
    statusBar()->addPermanentWidget(m_busy);
    statusBar()->addPermanentWidget(m_progress);
    statusBar()->addPermanentWidget(m_cancel);
    connect(m_cancel, &QPushButton::clicked, this, [this] {
        m_state->loadJob()->cancel();
        m_state->planJob()->cancel();
    });
}

void MainWindow::refreshStatus()
{
    QStringList facts;
    facts << (m_state->model() ? qt(m_state->model()->graph->name()) : tr("no model"));
    facts << (m_state->cluster()
                  ? tr("%1 (%2 devices)").arg(qt(m_state->cluster()->name())).arg(m_state->cluster()->devices().size())
                  : tr("no cluster"));
    if (const auto &document = m_state->document()) {
        facts << tr("plan %1, %2").arg(shapeText(document->plan), qt(document->plan.planner.name));
        if (m_state->simulationCurrent()) {
            const simulate::Report &report = m_state->simulation()->report;
            facts << tr("iteration %1").arg(secondsText(report.iterationSeconds));
            facts << tr("%1 samples/s").arg(report.samplesPerSecond, 0, 'f', 1);
            facts << tr("bubbles %1").arg(percentText(report.bubbleFraction));
            facts << (report.fits ? tr("fits in memory") : tr("! does not fit in memory"));
        } else if (!m_state->simulating()) {
            facts << (m_state->simulation() ? tr("! cannot be simulated; figures are of the last plan that could")
                                            : tr("! cannot be simulated"));
        }
    } else {
        facts << tr("no plan");
    }
    m_facts->setText(facts.join(QStringLiteral("   ·   ")));

    const Job *job = m_state->planJob()->running() ? m_state->planJob()
                                                   : (m_state->loadJob()->running() ? m_state->loadJob() : nullptr);
    const bool simulating = !job && m_state->simulating();
    m_busy->setVisible(job || simulating);
    m_progress->setVisible(job);
    m_cancel->setVisible(job);
    if (simulating)
        m_busy->setText(tr("Simulating"));
    if (!job)
        return;
    m_busy->setText(job->what().isEmpty() ? job->title() : job->title() + QStringLiteral(": ") + job->what());
    m_progress->setRange(0, job->fraction() < 0 ? 0 : 1000);
    m_progress->setValue(static_cast<int>(job->fraction() * 1000));
}

void MainWindow::refreshTitle()
{
    QString name = tr("no plan");
    if (m_state->document())
        name = m_state->planPath().isEmpty() ? tr("unsaved plan") : QFileInfo(m_state->planPath()).fileName();
    setWindowTitle(tr("%1[*] — Planloom").arg(name));
    setWindowModified(m_state->document() && !m_state->undoStack()->isClean());
}

// --- session

void MainWindow::saveSession()
{
    QSettings settings;
    settings.setValue(QStringLiteral("window/geometry"), saveGeometry());
    settings.setValue(QStringLiteral("window/docks"), saveState(kLayoutVersion));
    settings.setValue(QStringLiteral("window/layout"), layoutName(m_layout));
    for (auto each = m_layouts.constBegin(); each != m_layouts.constEnd(); ++each)
        settings.setValue(QStringLiteral("window/layouts/") + each.key(), each.value());
    settings.setValue(QStringLiteral("window/theme"), static_cast<int>(currentThemeKind()));
    if (m_state->model() || m_state->cluster()) { // an empty window does not forget the last session
        const QString model = m_state->model() ? qt(m_state->model()->source) : QString();
        settings.setValue(kSessionPlan, m_state->planPath());
        settings.setValue(kSessionModel, sourceToKeep(model));
        settings.setValue(kSessionCluster, sourceToKeep(m_state->clusterSource()));
    }
    settings.setValue(QStringLiteral("session/data"), qt(m_lastTraining.settings.data));
}

void MainWindow::keepUnsaved(const QString &folder) { m_autosave = std::make_unique<Autosave>(m_state, folder); }

bool MainWindow::restoreLayout()
{
    const QSettings settings;
    restoreGeometry(settings.value(QStringLiteral("window/geometry")).toByteArray());
    for (const Layout each : {Layout::Plan, Layout::Watch, Layout::Compare})
        if (const auto saved = settings.value(QStringLiteral("window/layouts/") + layoutName(each)).toByteArray();
            !saved.isEmpty())
            m_layouts[layoutName(each)] = saved;
    m_layout = layoutNamed(settings.value(QStringLiteral("window/layout")).toString()).value_or(Layout::Plan);
    m_layoutActions[static_cast<int>(m_layout)]->setChecked(true);
    return restoreState(settings.value(QStringLiteral("window/docks")).toByteArray(), kLayoutVersion);
}

void MainWindow::restoreSession(bool otherFiles)
{
    const QSettings settings;
    setTheme(settings.value(QStringLiteral("window/theme"), static_cast<int>(ThemeKind::System)).toInt());
    const QString text = settings.value(QStringLiteral("session/data")).toString();
    if (QFileInfo::exists(text))
        m_lastTraining.settings.data = text.toStdString();
    if (m_autosave && !otherFiles && m_autosave->recover())
        return;
    if (m_autosave && m_autosave->hasLeftover())
        m_state->say(
            MessageLevel::Warning,
            tr("An unsaved plan from an earlier start is kept. Start the studio without a file to recover it."));
    const QString plan = settings.value(kSessionPlan).toString();
    if (!plan.isEmpty() && QFileInfo::exists(plan)) {
        m_state->openPlan(plan);
        return;
    }
    if (otherFiles)
        return;
    for (const QString &key : {kSessionModel, kSessionCluster})
        if (const QString source = settings.value(key).toString(); canOpen(source))
            m_state->open(source);
}

bool MainWindow::mayStopRun()
{
    if (!m_asks || !m_state->run().active())
        return true;
    return QMessageBox::question(
               this, tr("A run is active"),
               tr("The plan is being trained. Closing the window stops the run after its current step."),
               QMessageBox::Close | QMessageBox::Cancel, QMessageBox::Cancel)
        == QMessageBox::Close;
}

void MainWindow::closeEvent(QCloseEvent *event)
{
    if (!mayStopRun() || !mayDropPlan())
        return event->ignore();
    if (m_asks)
        saveSession();
    m_state->stopRun();
    event->accept();
}

void MainWindow::setTheme(int kind)
{
    const int last = static_cast<int>(ThemeKind::HighContrast);
    applyTheme(*static_cast<QApplication *>(QCoreApplication::instance()),
               static_cast<ThemeKind>(std::clamp(kind, 0, last)));
    refreshIcons();
}

void MainWindow::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        refreshIcons();
    QMainWindow::changeEvent(event);
}

void MainWindow::refreshIcons()
{
    for (QAction *each : std::as_const(m_actions))
        each->setIcon(icon(each->data().toString()));
}

} // namespace planloom::ui
