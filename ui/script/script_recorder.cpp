// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script_recorder.h"

#include "ui/script/script_values.h"
#include "ui/timeline/timeline_view.h"
#include "ui/widgets/text.h"

#include <QFileInfo>
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
    m_steps.assign(static_cast<std::size_t>(m_state->undoStack()->count()) + 1, Content());
    m_steps[static_cast<std::size_t>(m_index)] = content();
    m_runs = m_state->run().active();
    connect(m_state->undoStack(), &QUndoStack::indexChanged, this, &ScriptRecorder::onUndoIndex);
    connect(m_state, &StudioState::runChanged, this, &ScriptRecorder::onRunChanged);
    connectWindow();
}

void ScriptRecorder::connectWindow()
{
    connect(m_window, &MainWindow::opened, this, [this](const QStringList &names) {
        QStringList whole;
        for (const QString &name : names)
            whole << wholePath(name);
        add(QStringLiteral("open"), whole);
    });
    connect(m_window, &MainWindow::planAsked, this,
            [this](const QString &model, const QString &cluster, const PlanRequest &request,
                   const std::vector<std::string> &loss) {
                m_searched = qt(request.planner);
                add(QStringLiteral("find-plan"),
                    searchWords({model.isEmpty() ? QString() : wholePath(model),
                                 cluster.isEmpty() ? QString() : wholePath(cluster), loss, request}));
            });
    connect(m_window, &MainWindow::saved, this,
            [this](const QString &path) { add(QStringLiteral("save"), {wholePath(path)}); });
    for (const NamedAction &each : m_window->namedActions())
        if (!hasOwnLine(each))
            connect(each.action, &QAction::triggered, this,
                    [this, id = each.id()] { add(QStringLiteral("do"), {id}); });
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
    m_recorded.push_back({{verb, words, 0}, nullptr, nullptr});
    Q_EMIT changed();
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
    if (after.cluster && after.cluster != before.cluster)
        m_recorded.push_back({{QStringLiteral("cluster"), {what, qt(cluster::toJson(*after.cluster)).simplified()}, 0},
                              nullptr,
                              nullptr});
    if (after.document && after.document != before.document) {
        const bool samePlan =
            before.document && after.cluster != before.cluster; // the cluster's edit moves the devices
        if (!samePlan)
            m_recorded.push_back({{QStringLiteral("edit"), {what}, 0}, before.document, after.document});
    }
    Q_EMIT changed();
}

/// A step forward that leads to what a step of before led to is a redo; else it is a new edit.
void ScriptRecorder::onUndoIndex(int index)
{
    const Content now = content();
    const auto at = static_cast<std::size_t>(index);
    if (index == 0 && m_state->undoStack()->count() == 0) { // another plan
        m_steps.assign(1, now);
        m_index = 0;
        return;
    }
    if (index < m_index) {
        for (int k = index; k < m_index; ++k)
            add(QStringLiteral("undo"), {});
    } else if (index > m_index) {
        const bool isRedo = at < m_steps.size() && m_steps[at] == now;
        if (isRedo) {
            for (int k = m_index; k < index; ++k)
                add(QStringLiteral("redo"), {});
        } else {
            const Content before = m_steps[static_cast<std::size_t>(m_index)];
            const QString what = m_state->undoStack()->text(index - 1);
            const bool isFound = !m_searched.isEmpty() && what.contains(m_searched);
            if (isFound)
                m_searched.clear(); // its request is recorded
            else
                addEdit(what, before, now);
        }
    }
    m_steps.resize(std::max(m_steps.size(), at + 1));
    m_steps[at] = now;
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
    if (!run.active() && m_runs && run.phase == RunData::Phase::Stopped && m_training < m_recorded.size()) {
        run::Settings done = run.settings;
        done.steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(run.steps.size()));
        m_recorded[m_training].line.words = trainingWords(done);
    }
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
    return m_recorded;
}

} // namespace planloom::ui
