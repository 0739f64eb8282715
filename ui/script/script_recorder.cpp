// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script_recorder.h"

#include "ui/script/script_values.h"
#include "ui/state/file_kind.h"
#include "ui/timeline/timeline_view.h"
#include "ui/widgets/text.h"

#include <QFileInfo>
#include <QPointer>
#include <QTabWidget>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kRestMilliseconds = 400; // a zoom by the wheel is one line

/// Commands whose effect has a line of its own.
bool hasOwnLine(const NamedAction &action)
{
    const QString id = action.id();
    return action.asks() || id == QLatin1String("edit.undo") || id == QLatin1String("edit.redo")
        || id == QLatin1String("file.save") || id == QLatin1String("run.stop") || id == QLatin1String("file.quit")
        || id == QLatin1String("edit.palette") || id == QLatin1String("help.tour")
        || id == QLatin1String("help.contents") || id == QLatin1String("help.keys") || id == QLatin1String("help.about")
        || id.startsWith(QLatin1String("tools.")) || id == QLatin1String("view.copy-link");
}

QString wholePath(const QString &nameOrPath)
{
    const QFileInfo file(nameOrPath);
    return file.exists() ? file.absoluteFilePath() : nameOrPath;
}

/// The fields of @p now that @p before has not, and those that are gone, without a value.
ViewFields newFields(const ViewFields &before, const ViewFields &now)
{
    ViewFields changed;
    bool selects = false;
    const bool otherView = fieldOf(before, "view") != fieldOf(now, "view");
    for (const ViewKey &key : kViewKeys) {
        const QString name = QString::fromLatin1(key.name);
        const QString value = fieldOf(now, key.name);
        const bool isTabOfOther = otherView && name == QLatin1String("tab");
        if (value == fieldOf(before, key.name) && !isTabOfOther)
            continue;
        selects = selects
            || (name != QLatin1String("layout") && name != QLatin1String("view") && name != QLatin1String("tab")
                && name != QLatin1String("zoom") && name != QLatin1String("scroll"));
        if (!value.isEmpty() || name == QLatin1String("stage"))
            changed.emplace_back(name, value);
    }
    if (!selects)
        return changed;
    for (const char *key : {"stage", "layers", "device", "task", "range"}) { // a selection is said whole
        const QString value = fieldOf(now, key);
        if (!value.isEmpty() && fieldOf(changed, key).isEmpty())
            changed.emplace_back(QString::fromLatin1(key), value);
    }
    const bool saysStage = std::any_of(changed.begin(), changed.end(),
                                       [](const auto &each) { return each.first == QLatin1String("stage"); });
    if (!saysStage && fieldOf(now, "stage").isEmpty())
        changed.emplace_back(QStringLiteral("stage"), QString());
    return changed;
}

} // namespace

QString scriptText(const std::vector<Recorded> &recorded)
{
    QString text = qt(kScriptHeader) + QLatin1Char('\n');
    for (const Recorded &each : recorded) {
        ScriptLine line = each.line;
        if (each.after)
            line.words << planPatch(each.before.get(), *each.after);
        text += lineText(line) + QLatin1Char('\n');
    }
    return text;
}

ScriptRecorder::ScriptRecorder(StudioState *state, MainWindow *window, QObject *parent)
    : QObject(parent),
      m_state(state),
      m_window(window)
{
    m_rest.setSingleShot(true);
    m_rest.setInterval(kRestMilliseconds);
    connect(&m_rest, &QTimer::timeout, this, &ScriptRecorder::addSeen);
    addBeginning();
    m_index = m_state->undoStack()->index();
    m_steps.assign(static_cast<std::size_t>(m_state->undoStack()->count()) + 1, Step());
    for (std::size_t k = 1; k < m_steps.size(); ++k)
        m_steps[k].command = m_state->undoStack()->command(static_cast<int>(k) - 1);
    m_steps[static_cast<std::size_t>(m_index)].content = content();
    m_runs = m_state->run().active();
    m_searches = m_state->planJob()->running();
    connect(m_state->undoStack(), &QUndoStack::indexChanged, this, &ScriptRecorder::onUndoIndex);
    connect(m_state, &StudioState::runChanged, this, &ScriptRecorder::onRunChanged);
    connect(m_state->planJob(), &Job::changed, this, &ScriptRecorder::onSearchJob);
    // Queued: a first step of undo changes both before it is on the stack.
    connect(m_state, &StudioState::documentChanged, this, &ScriptRecorder::onOtherContent, Qt::QueuedConnection);
    connect(m_state, &StudioState::clusterChanged, this, &ScriptRecorder::onOtherContent, Qt::QueuedConnection);
    connectWindow();
    m_hasEffect = false; // of the beginning
}

void ScriptRecorder::connectWindow()
{
    connect(m_window, &MainWindow::opened, this, &ScriptRecorder::onOpened);
    connect(m_window, &MainWindow::planAsked, this,
            [this](const QString &model, const QString &cluster, const PlanRequest &request,
                   const std::vector<std::string> &loss) {
                const QString modelPath = model.isEmpty() ? QString() : wholePath(model);
                const QString clusterPath = cluster.isEmpty() ? QString() : wholePath(cluster);
                onAsked({searchWords({modelPath, clusterPath, loss, request}),
                         request.planner,
                         m_state->model(),
                         m_state->cluster(),
                         {modelPath, clusterPath}});
            });
    connect(m_window, &MainWindow::saved, this,
            [this](const QString &path) { add(QStringLiteral("save"), {wholePath(path)}); });
    for (const NamedAction &each : m_window->namedActions())
        if (!hasOwnLine(each))
            connect(each.action, &QAction::triggered, this, [this, id = each.id()] {
                if (!m_hasEffect) // else its effect is recorded
                    add(QStringLiteral("do"), {id});
            });
    const auto rest = [this] { m_rest.start(); };
    connect(m_state, &StudioState::selectionChanged, this, rest);
    for (const QDockWidget *dock : m_window->docks()) {
        connect(dock, &QDockWidget::visibilityChanged, this, rest);
        for (const QTabWidget *tabs : dock->findChildren<QTabWidget *>())
            connect(tabs, &QTabWidget::currentChanged, this, rest);
    }
    const auto *timeline = static_cast<TimelineView *>(m_window->view(QStringLiteral("Timeline")));
    connect(const_cast<TimelineView *>(timeline)->canvas(), &TimelineCanvas::viewChanged, this, rest);
}

void ScriptRecorder::add(const QString &verb, const QStringList &words)
{
    if (verb != QLatin1String("show"))
        addSeen();
    if (verb != QLatin1String("show") && verb != QLatin1String("do"))
        noteEffect();
    push(verb, words);
}

void ScriptRecorder::push(const QString &verb, const QStringList &words)
{
    m_recorded.push_back({{verb, words, 0}, nullptr, nullptr});
    Q_EMIT changed();
}

/// The window calls the slots of a command in the order in which they were connected: what it does comes before the
/// recorder hears of it.
void ScriptRecorder::noteEffect()
{
    m_hasEffect = true;
    QTimer::singleShot(0, this, [this] { m_hasEffect = false; });
}

/// What is open, so that the script does not need it to be.
void ScriptRecorder::addBeginning()
{
    const ViewLink link = m_window->viewLink();
    if (!link.files.isEmpty())
        m_recorded.push_back({{QStringLiteral("open"), link.files, 0}, nullptr, nullptr});
    if (m_state->cluster() && !m_state->document() && m_state->clusterSource().isEmpty())
        addEdit(tr("The cluster as it was"), {}, {nullptr, m_state->cluster()});
    const bool isInNoFile = m_state->planPath().isEmpty() || !m_state->undoStack()->isClean();
    if (m_state->document() && isInNoFile) {
        if (m_state->clusterSource().isEmpty())
            addEdit(tr("The cluster as it was"), {}, {nullptr, m_state->cluster()});
        m_recorded.push_back({{QStringLiteral("edit"), {tr("The plan as it was")}, 0}, nullptr, m_state->document()});
    }
    if (!m_recorded.empty())
        addSeen();
    else
        m_seen = m_window->viewFields();
}

void ScriptRecorder::addEdit(const QString &what, const Content &before, const Content &after)
{
    if (!m_recorded.empty())
        addSeen();
    const std::size_t lines = m_recorded.size();
    if (after.cluster && after.cluster != before.cluster)
        m_recorded.push_back({{QStringLiteral("cluster"), {what, clusterWord(*after.cluster)}, 0}, nullptr, nullptr});
    if (after.document && after.document != before.document) {
        const bool samePlan =
            before.document && after.cluster != before.cluster; // the cluster's edit moves the devices
        if (!samePlan)
            m_recorded.push_back({{QStringLiteral("edit"), {what}, 0}, before.document, after.document});
    }
    if (m_recorded.size() > lines)
        noteEffect();
    Q_EMIT changed();
}

/// The plan of a search. One that was found on another cluster need not be an edit of that before: it is found again.
void ScriptRecorder::addFound(const QString &what, const Content &before, const Content &after)
{
    if (isOfImport(m_state->planJob()->title()))
        return;
    if (m_search) // what is seen now is of the new plan
        push(QStringLiteral("find-plan"), std::exchange(m_search, std::nullopt)->words);
    else if (before.document && after.cluster && after.cluster != before.cluster)
        push(QStringLiteral("plan-again"), {clusterWord(*after.cluster)});
    else
        addEdit(what, before, after);
}

// --- searches

void ScriptRecorder::onAsked(Asked asked)
{
    forget(m_asked);
    addSeen();
    m_asked = std::move(asked);
    // The window goes on from here: it loads what is asked for, then begins the search, or refuses it.
    QTimer::singleShot(0, this, [this, recorder = QPointer(this), words = m_asked->words] {
        m_state->whenLoaded([recorder, words] {
            if (recorder && recorder->m_asked && recorder->m_asked->words == words)
                recorder->forget(recorder->m_asked);
        });
    });
}

/// A search without a plan has no line, but what was loaded for it stays open.
void ScriptRecorder::forget(std::optional<Asked> &search)
{
    if (!search)
        return;
    const Asked gone = *std::exchange(search, std::nullopt);
    const QString &model = gone.opens.front();
    const QString &cluster = gone.opens.back();
    QStringList opened;
    if (!model.isEmpty() && m_state->model() && m_state->model() != gone.model
        && wholePath(qt(m_state->model()->source)) == model)
        opened << model;
    if (!cluster.isEmpty() && m_state->cluster() != gone.cluster && wholePath(m_state->clusterSource()) == cluster)
        opened << cluster;
    if (!opened.isEmpty())
        add(QStringLiteral("open"), opened);
}

/// Calls come at the beginning of a search, at its end, behind its plan, and in between.
void ScriptRecorder::onSearchJob()
{
    const bool searches = m_state->planJob()->running();
    if (searches == std::exchange(m_searches, searches))
        return;
    if (!searches)
        return forget(m_search);
    if (m_asked && m_state->planJob()->title().contains(qt(m_asked->planner)))
        m_search = std::exchange(m_asked, std::nullopt);
    noteEffect();
}

// --- files

void ScriptRecorder::onOpened(const QStringList &names)
{
    QStringList whole;
    for (const QString &name : names) {
        whole << wholePath(name);
        const FileKind kind = classifyFile(name);
        if (kind != FileKind::Setup && kind != FileKind::Order)
            continue;
        m_imports << name;
        const bool isEdited = !m_recorded.empty() && m_recorded.back().after
            && isOfImport(m_recorded.back().line.words.front()); // menus tell of the file behind its effect
        if (isEdited)
            m_recorded.pop_back();
    }
    add(QStringLiteral("open"), whole);
}

/// Whether a step of undo or a search is the effect of an opened file, which has a line.
bool ScriptRecorder::isOfImport(const QString &text) const
{
    return std::any_of(m_imports.begin(), m_imports.end(), [&](const QString &name) { return text.contains(name); });
}

// --- steps of undo

/// What is opened has no step of undo: edits of it begin here.
void ScriptRecorder::onOtherContent()
{
    if (m_state->undoStack()->count() > 0)
        return;
    m_steps.assign(1, {content(), nullptr});
    m_index = 0;
}

/// A step forward by a command that was there before is a redo; else it is a new edit.
void ScriptRecorder::onUndoIndex(int index)
{
    const Content now = content();
    const auto at = static_cast<std::size_t>(index);
    if (index == 0 && m_state->undoStack()->count() == 0) { // something else is being opened
        m_steps.assign(1, {now, nullptr});
        m_index = 0;
        return;
    }
    const QUndoCommand *command = index > 0 ? m_state->undoStack()->command(index - 1) : nullptr;
    if (index < m_index) {
        for (int k = index; k < m_index; ++k)
            add(QStringLiteral("undo"), {});
    } else if (index > m_index) {
        const bool isRedo = at < m_steps.size() && m_steps[at].command == command;
        if (isRedo) {
            for (int k = m_index; k < index; ++k)
                add(QStringLiteral("redo"), {});
        } else {
            const Content before = m_steps[static_cast<std::size_t>(m_index)].content;
            const QString what = m_state->undoStack()->text(index - 1);
            const bool isFound = m_searches && !m_state->planJob()->running(); // its job tells of its end behind this
            if (isFound)
                addFound(what, before, now);
            else if (!isOfImport(what))
                addEdit(what, before, now);
        }
    }
    m_steps.resize(std::max(m_steps.size(), at + 1));
    m_steps[at] = {now, command};
    if (m_state->undoStack()->count() == index)
        m_steps.resize(at + 1);
    m_index = index;
}

/// A run that is stopped is recorded with the steps that it did.
void ScriptRecorder::onRunChanged()
{
    const RunData &run = m_state->run();
    if (run.active() && !m_runs) {
        add(QStringLiteral("train"), trainingWords(run.settings));
        m_training = m_recorded.size() - 1;
    }
    if (!run.active() && m_runs && run.phase == RunData::Phase::Stopped && m_training) {
        run::Settings done = run.settings;
        done.steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(run.steps.size()));
        m_recorded[*m_training].line.words = trainingWords(done);
    }
    if (!run.active())
        m_training.reset();
    m_runs = run.active();
}

void ScriptRecorder::addSeen()
{
    m_rest.stop();
    const ViewFields now = m_window->viewFields();
    const ViewFields changed = newFields(m_seen, now);
    m_seen = now;
    if (changed.empty())
        return;
    QStringList words;
    for (const auto &[key, value] : changed)
        words << key + QLatin1Char('=') + value;
    add(QStringLiteral("show"), words);
}

std::vector<Recorded> ScriptRecorder::finish()
{
    addSeen();
    forget(m_asked);
    if (m_search) // played, it goes on to its plan
        push(QStringLiteral("find-plan"), std::exchange(m_search, std::nullopt)->words);
    return m_recorded;
}

} // namespace planloom::ui
