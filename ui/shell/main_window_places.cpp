// SPDX-License-Identifier: GPL-3.0-or-later
// Where things are in MainWindow: layouts of docks, links to a view, the guided tour.
#include "ui/shell/guided_tour.h"
#include "ui/shell/link_dialog.h"
#include "ui/shell/main_window.h"
#include "ui/shell/preferences_dialog.h"
#include "ui/shell/start_page.h"
#include "ui/timeline/timeline_view.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QClipboard>
#include <QFileInfo>
#include <QMenuBar>
#include <QTabWidget>
#include <QTimer>

#include <algorithm>
#include <array>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kSettleMilliseconds = 30;
constexpr const char *kSelectionKeys[] = {"stage", "layers", "device", "task", "range"};

QString rangeText(qint64 first, qint64 last) { return QStringLiteral("%1-%2").arg(first).arg(last); }

/// The tabs of a view, outermost first; nullptr: it has none.
QTabWidget *tabsOf(const View *view) { return view->findChild<QTabWidget *>(); }

bool hasSelection(const ViewFields &fields)
{
    return std::any_of(fields.begin(), fields.end(), [](const auto &field) {
        return std::any_of(std::begin(kSelectionKeys), std::end(kSelectionKeys),
                           [&](const char *key) { return field.first == QLatin1String(key); });
    });
}

QString absolute(const QString &nameOrPath)
{
    const QFileInfo file(nameOrPath);
    return file.exists() ? file.absoluteFilePath() : nameOrPath;
}

/// However they are written, the same files are equal.
QStringList canonical(QStringList namesOrPaths)
{
    for (QString &name : namesOrPaths) {
        const QFileInfo file(name);
        name = file.exists() ? file.canonicalFilePath() : name;
    }
    return namesOrPaths;
}

} // namespace

// --- layouts

QDockWidget *MainWindow::dockNamed(const QString &name) const
{
    const auto found = std::find_if(m_docks.begin(), m_docks.end(), [&](const QDockWidget *each) {
        return each->objectName().compare(name, Qt::CaseInsensitive) == 0;
    });
    return found == m_docks.end() ? nullptr : *found;
}

void MainWindow::arrangeDocks()
{
    const std::vector<DockColumn> columns = columnsOf(m_layout);
    for (QDockWidget *each : std::as_const(m_docks)) {
        removeDockWidget(each);
        each->setFloating(false);
    }
    QDockWidget *largest = nullptr;
    QList<QDockWidget *> firsts;
    QList<int> widths;
    for (const DockColumn &column : columns) {
        const auto area = firsts.isEmpty() ? Qt::LeftDockWidgetArea : Qt::RightDockWidgetArea;
        int highest = 0;
        for (const DockPlace &place : column.places) {
            QDockWidget *front = dockNamed(place.docks.front());
            addDockWidget(area, front);
            for (QDockWidget *below = front; const QString &name : place.docks.mid(1)) {
                tabifyDockWidget(below, dockNamed(name));
                below = dockNamed(name);
            }
            if (std::exchange(highest, std::max(highest, place.height)) < place.height)
                largest = front; // of the last column
        }
        firsts << dockNamed(column.places.front().docks.front());
        widths << column.width;
    }
    for (QDockWidget *each : std::as_const(m_docks))
        each->show();
    for (const DockColumn &column : columns)
        for (const DockPlace &place : column.places)
            dockNamed(place.docks.front())->raise();
    resizeDocks(firsts, widths, Qt::Horizontal);
    for (auto column = columns.rbegin(); column != columns.rend(); ++column) {
        QList<QDockWidget *> places;
        QList<int> heights;
        for (const DockPlace &place : column->places) {
            places << dockNamed(place.docks.front());
            heights << place.height;
        }
        resizeDocks(places, heights, Qt::Vertical);
    }
    static_cast<View *>(largest->widget())->focusTarget()->setFocus();
}

void MainWindow::resetLayout()
{
    m_layouts.remove(layoutName(m_layout));
    arrangeDocks();
}

void MainWindow::useLayout(Layout layout)
{
    m_layouts[layoutName(m_layout)] = saveState(kLayoutVersion);
    m_layout = layout;
    m_layoutActions[static_cast<int>(layout)]->setChecked(true);
    const QByteArray left = m_layouts.value(layoutName(layout));
    if (left.isEmpty() || !restoreState(left, kLayoutVersion))
        arrangeDocks();
}

// --- keys

std::vector<NamedAction> MainWindow::namedActions() const
{
    std::vector<NamedAction> all;
    const auto plain = [](QString text) { return text.remove(QLatin1Char('&')); };
    const std::function<void(const QMenu *, const QString &)> collect = [&](const QMenu *menu, const QString &path) {
        for (QAction *each : menu->actions()) {
            if (each->menu())
                collect(each->menu(), path + plain(each->text()) + QStringLiteral(" ▸ "));
            else if (!each->objectName().isEmpty() && each->objectName() != QLatin1String("qt_dockwidget_hide"))
                all.push_back({each, path + plain(each->iconText().isEmpty() ? each->text() : each->text()), {}});
        }
    };
    for (QAction *top : menuBar()->actions())
        collect(top->menu(), plain(top->text()) + QStringLiteral(" ▸ "));
    for (QDockWidget *each : m_docks)
        for (QAction *command : static_cast<View *>(each->widget())->commands())
            all.push_back({command, each->windowTitle() + QStringLiteral(" ▸ ") + command->text(), each->objectName()});
    return all;
}

void MainWindow::loadKeys()
{
    if (m_keyMap) // what the program gives them must be known again
        for (const NamedAction &each : m_keyMap->actions())
            each.action->setShortcuts(m_keyMap->programKeys().value(each.id()));
    m_keyMap = std::make_unique<KeyMap>(namedActions());
}

void MainWindow::showPreferences()
{
    auto *dialog = new PreferencesDialog(*m_keyMap, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

// --- links

ViewFields MainWindow::viewFields() const
{
    ViewFields fields;
    const View *front = currentView();
    fields.emplace_back(QStringLiteral("layout"), layoutName(m_layout));
    fields.emplace_back(QStringLiteral("view"), front->parentWidget()->objectName().toLower());
    if (const QTabWidget *tabs = tabsOf(front))
        fields.emplace_back(QStringLiteral("tab"), QString::number(tabs->currentIndex()));
    const Selection &selected = m_state->selection();
    if (selected.stage.valid())
        fields.emplace_back(QStringLiteral("stage"), QString::number(selected.stage.value));
    if (!selected.layers.empty())
        fields.emplace_back(QStringLiteral("layers"),
                            rangeText(static_cast<qint64>(selected.layers.first),
                                      static_cast<qint64>(selected.layers.last)));
    if (selected.device.valid() && m_state->cluster())
        fields.emplace_back(QStringLiteral("device"), qt(m_state->cluster()->device(selected.device).name));
    if (!selected.task.empty())
        fields.emplace_back(QStringLiteral("task"), qt(selected.task));
    if (selected.time)
        fields.emplace_back(QStringLiteral("range"), rangeText(selected.time->begin, selected.time->end));
    auto *timeline = static_cast<TimelineView *>(view(QStringLiteral("Timeline")));
    if (!timeline->model().empty()) {
        const TimelineViewport &shown = timeline->canvas()->viewport();
        fields.emplace_back(QStringLiteral("zoom"),
                            shown.axis().showsAll()
                                ? QStringLiteral("all")
                                : rangeText(qRound64(shown.axis().begin()), qRound64(shown.axis().end())));
        if (shown.scroll() > 0)
            fields.emplace_back(QStringLiteral("scroll"), QString::number(shown.scroll()));
    }
    return fields;
}

Status MainWindow::selectFields(const ViewFields &fields)
{
    Selection next;
    if (const QString stage = fieldOf(fields, "stage"); !stage.isEmpty())
        next.stage = StageId(stage.toLongLong());
    if (const auto layers = numbersOf(fieldOf(fields, "layers")))
        next.layers = {static_cast<std::size_t>(layers->first), static_cast<std::size_t>(layers->second)};
    if (const QString name = fieldOf(fields, "device"); !name.isEmpty()) {
        next.device = m_state->cluster() ? m_state->cluster()->find(name.toStdString()) : DeviceId();
        if (!next.device.valid())
            return notFound(tr("there is no device '%1'; open the cluster that has it").arg(name).toStdString());
    }
    next.task = fieldOf(fields, "task").toStdString();
    if (const auto range = numbersOf(fieldOf(fields, "range")))
        next.time = TimeRange{range->first, range->second};
    m_state->select(m_state->document() ? clamped(next, *m_state->document()) : next);
    return {};
}

Status MainWindow::showFields(const ViewFields &fields)
{
    if (const auto layout = layoutNamed(fieldOf(fields, "layout")); layout && *layout != m_layout)
        useLayout(*layout);
    if (const QString name = fieldOf(fields, "view"); !name.isEmpty()) {
        QDockWidget *shown = dockNamed(name);
        if (!shown) {
            QStringList names;
            for (const QDockWidget *each : std::as_const(m_docks))
                names << each->objectName().toLower();
            return notFound(
                tr("there is no view '%1'; use one of %2").arg(name, names.join(QStringLiteral(", "))).toStdString());
        }
        focusView(shown);
    }
    if (const QString tab = fieldOf(fields, "tab"); !tab.isEmpty()) {
        QTabWidget *tabs = tabsOf(currentView());
        if (!tabs || tab.toInt() >= tabs->count() || !tabs->isTabVisible(tab.toInt()))
            return notFound(tr("the view has no tab %1; leave tab= out").arg(tab).toStdString());
        tabs->setCurrentIndex(tab.toInt());
    }
    if (hasSelection(fields)) {
        if (const Status status = selectFields(fields); !status)
            return status;
    }
    auto *timeline = static_cast<TimelineView *>(view(QStringLiteral("Timeline")));
    TimelineViewport &viewport = timeline->canvas()->viewport();
    if (fieldOf(fields, "zoom") == QLatin1String("all"))
        viewport.showAll();
    else if (const auto zoom = numbersOf(fieldOf(fields, "zoom")))
        viewport.showRange(static_cast<double>(zoom->first), static_cast<double>(zoom->second));
    if (const QString scroll = fieldOf(fields, "scroll"); !scroll.isEmpty())
        viewport.setScroll(scroll.toInt());
    return {};
}

ViewLink MainWindow::viewLink() const
{
    ViewLink link{{}, viewFields()};
    const QString run = m_state->run().folder;
    const bool ofRun = m_state->planPath().isEmpty() && !run.isEmpty() && m_state->runIsOfDocument();
    if (!m_state->planPath().isEmpty()) {
        link.files << m_state->planPath();
    } else if (ofRun) {
        link.files << absolute(run);
    } else {
        if (m_state->model())
            link.files << absolute(qt(m_state->model()->source));
        if (const QString cluster = m_state->clusterSource(); !cluster.isEmpty())
            link.files << absolute(cluster);
    }
    const QString measured = m_state->measuredPath();
    if (!measured.isEmpty() && !(ofRun && measured.startsWith(run)))
        link.files << absolute(measured);
    return link;
}

void MainWindow::copyLink()
{
    const ViewLink link = viewLink();
    if (link.files.isEmpty())
        return m_state->say(MessageLevel::Warning, tr("There is nothing to link to; open a model or a plan first."));
    QApplication::clipboard()->setText(linkText(link));
    const bool unsaved = m_state->document() && (isWindowModified() || link.files.front() != m_state->planPath())
        && link.files.front() != m_state->run().folder;
    if (unsaved)
        m_state->say(MessageLevel::Warning, tr("Copied a link, but the plan has changes that no file has; save it."));
    else
        m_state->say(MessageLevel::Info, tr("Copied a link to this view."));
}

void MainWindow::askForLink()
{
    auto *dialog = new LinkDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QDialog::accepted, this, [this, dialog] { openLink(dialog->link()); });
    dialog->open();
}

bool MainWindow::openLink(const QString &text)
{
    const auto link = readLink(text);
    if (!link) {
        m_state->say(MessageLevel::Error, qt(link.error().text()));
        return false;
    }
    const bool isOpen = canonical(link->files) == canonical(viewLink().files); // edits and undo stay
    if (!isOpen && !link->files.isEmpty() && !open(link->files))
        return false;
    whenSettled([this, fields = link->fields] {
        if (const Status status = showFields(fields); !status)
            m_state->say(MessageLevel::Error, qt(status.error().text()));
    });
    return true;
}

void MainWindow::whenSettled(std::function<void()> next)
{
    auto *poll = new QTimer(this);
    connect(poll, &QTimer::timeout, this, [this, poll, next = std::move(next), quiet = 0]() mutable {
        const bool busy = m_state->loadJob()->running() || m_state->planJob()->running() || m_state->simulating();
        quiet = busy ? 0 : quiet + 1;
        if (quiet < 2) // what came last is not laid out yet
            return;
        poll->stop();
        poll->deleteLater();
        next();
    });
    poll->start(kSettleMilliseconds);
}

// --- the tour

QWidget *MainWindow::toolButton(const char *iconName)
{
    for (QAction *each : std::as_const(m_actions))
        if (each->data().toString() == QLatin1String(iconName))
            return m_toolBar->widgetForAction(each);
    return nullptr;
}

std::vector<TourStep> MainWindow::tourSteps()
{
    const auto front = [this](const char *name) {
        return [this, name]() -> QWidget * {
            QDockWidget *shown = dockNamed(QString::fromLatin1(name));
            shown->show();
            shown->raise();
            return shown;
        };
    };
    return {{tr("A model and a cluster"),
             tr("Everything begins with these two: a model from a file (ONNX, config.json, a layer profile) or one of "
                "the built-in ones, and the devices that train it. Open takes both, and so does dropping files."),
             [this] { return toolButton("open"); }},
            {tr("Find a plan"),
             tr("A planner cuts the model into stages, chooses replicas and micro-batches, and answers with the best "
                "plan and its alternatives. Which planner, and what it may change, is up to you."),
             [this] { return toolButton("plan"); }},
            {tr("Change it by hand"),
             tr("The stages lie over the model's layers. Drag a boundary: time and memory follow while the mouse "
                "moves. Every edit can be undone. The tabs have the stages, why it takes that long, and alternatives."),
             front("Plan")},
            {tr("See it before it runs"),
             tr("Every task of every device, as it is predicted. W and S zoom, A and D move, a click selects a task "
                "here and in all other views. Idle time is cross-hatched; C shows what the step waits for."),
             front("Timeline")},
            {tr("Train it, and compare"),
             tr("Train runs the plan. What is measured appears here and in the timeline beside what was predicted, "
                "task by task; Window ▸ Layouts ▸ Watch makes room for it. Help has all of this in detail."),
             front("Run")}};
}

void MainWindow::startTour()
{
    if (findChild<GuidedTour *>())
        return;
    const bool isEmpty = !m_state->document() && !m_state->model() && !m_state->cluster();
    if (isEmpty && !samplePlan().isEmpty())
        open({samplePlan()});
    whenSettled([this] {
        if (!findChild<GuidedTour *>())
            new GuidedTour(tourSteps(), this);
    });
}

} // namespace planloom::ui
