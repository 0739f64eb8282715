// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script_player.h"

#include "engine/base/files.h"
#include "ui/script/script_values.h"
#include "ui/widgets/text.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace planloom::ui {

namespace {
constexpr std::int64_t kLargestScript = std::int64_t{64} << 20;
}

ScriptPlayer::ScriptPlayer(StudioState *state, MainWindow *window, QObject *parent)
    : QObject(parent),
      m_state(state),
      m_window(window),
      m_player(state)
{
    connect(&m_player, &ActPlayer::finished, this, [this](bool ok) {
        if (!ok)
            m_failure = QStringLiteral("%1:%2: %3").arg(m_file).arg(m_line).arg(m_player.failure());
        Q_EMIT finished(ok);
    });
    connect(&m_player, &ActPlayer::began, this,
            [this](int act, int of, const QString &title) { Q_EMIT began(act + 1, of, title); });
}

ScriptCommands ScriptPlayer::commands() const
{
    ScriptCommands known;
    for (const NamedAction &each : m_window->namedActions())
        (each.asks() ? known.asking : known.names) << each.id();
    for (const QDockWidget *dock : m_window->docks())
        known.views << dock->objectName().toLower();
    return known;
}

Status ScriptPlayer::play(const QString &path)
{
    m_failure.clear();
    m_file = path;
    const auto text = readFile(path.toStdString(), kLargestScript);
    if (!text)
        return text.error();
    const auto lines = readScript(qt(*text), path, commands());
    if (!lines)
        return lines.error();
    std::vector<Act> acts;
    for (const ScriptLine &line : *lines)
        acts.push_back(actOf(line));
    m_player.play(std::move(acts));
    return {};
}

bool ScriptPlayer::settled() const
{
    return !m_state->loadJob()->running() && !m_state->planJob()->running() && !m_state->simulating()
        && !m_state->run().active();
}

Act ScriptPlayer::actOf(const ScriptLine &line)
{
    const bool searches = line.verb == QLatin1String("find-plan") || line.verb == QLatin1String("plan-again");
    const bool trains = line.verb == QLatin1String("train");
    const auto before = std::make_shared<StudioState::DocumentPtr>();
    return {lineTitle(m_file, line),
            [=, this] {
                m_line = line.number;
                *before = m_state->document();
                begin(line);
            },
            [=, this, quiet = std::make_shared<int>(0)] {
                *quiet = settled() ? *quiet + 1 : 0;
                if (*quiet < 2)
                    return false;
                if (searches)
                    failUnless(m_state->document() && m_state->document() != *before);
                if (trains && m_state->run().phase != RunData::Phase::Finished)
                    m_player.fail(tr("the run did not finish: %1").arg(m_state->run().error));
                return true;
            }};
}

void ScriptPlayer::begin(const ScriptLine &line)
{
    const QString &verb = line.verb;
    if (verb == QLatin1String("open"))
        return failUnless(m_window->open(line.words));
    if (verb == QLatin1String("find-plan"))
        return plan(line);
    if (verb == QLatin1String("edit"))
        return edit(line);
    if (verb == QLatin1String("cluster") || verb == QLatin1String("plan-again"))
        return changeCluster(line);
    if (verb == QLatin1String("undo") || verb == QLatin1String("redo"))
        return trigger(QStringLiteral("edit.") + verb);
    if (verb == QLatin1String("do"))
        return trigger(line.words.front());
    if (verb == QLatin1String("save"))
        return failUnless(m_state->savePlan(line.words.front()));
    if (verb == QLatin1String("picture"))
        return takePicture(line.words.front(), line.words.back());
    if (verb == QLatin1String("train")) {
        auto request = trainingFromWords(line.words);
        return failUnless(request && m_state->startRun(std::move(*request)));
    }
    const auto fields = pairsOf(line.words);
    if (const Status status = fields ? m_window->showFields(*fields) : Status(fields.error()); !status)
        m_player.fail(qt(status.error().text()));
}

/// What was refused has a message that says why.
void ScriptPlayer::failUnless(bool ok)
{
    if (ok)
        return;
    const QString said = m_player.lastMessage();
    m_player.fail(said.isEmpty() ? tr("the studio refused this; see what is open") : said);
}

void ScriptPlayer::plan(const ScriptLine &line)
{
    const auto search = searchFromWords(line.words);
    if (!search)
        return m_player.fail(qt(search.error().text()));
    m_window->findPlan(search->model, search->cluster, search->request, search->loss);
}

void ScriptPlayer::edit(const ScriptLine &line)
{
    plan::Document base;
    if (m_state->document())
        base = *m_state->document();
    else if (m_state->subject())
        base.subject = *m_state->subject();
    else
        return m_player.fail(tr("there is no plan to edit; write open FILE or find-plan first"));
    auto changed = patchedPlan(base, line.words.back());
    if (!changed)
        return m_player.fail(qt(changed.error().text()));
    failUnless(m_state->replacePlan(line.words.front(), std::move(*changed)));
}

void ScriptPlayer::changeCluster(const ScriptLine &line)
{
    auto read = cluster::clusterFromJson(line.words.back().toStdString());
    if (!read)
        return m_player.fail(qt(read.error().text()));
    auto cluster = std::make_shared<const cluster::Cluster>(std::move(*read));
    failUnless(line.verb == QLatin1String("plan-again") ? m_state->planOnCluster(std::move(cluster))
                                                        : m_state->editCluster(line.words.front(), std::move(cluster)));
}

void ScriptPlayer::trigger(const QString &command)
{
    const auto all = m_window->namedActions();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto &each) { return each.id() == command; });
    if (found == all.end() || !found->action->isEnabled())
        return m_player.fail(tr("command '%1' cannot be used now; it needs a plan, or something to undo").arg(command));
    found->action->trigger();
}

void ScriptPlayer::takePicture(const QString &view, const QString &path)
{
    if (view != QLatin1String("window")) {
        const auto &docks = m_window->docks();
        const auto dock = std::find_if(docks.begin(), docks.end(),
                                       [&](const auto *each) { return each->objectName().toLower() == view; });
        return failUnless(dock != docks.end() && m_window->exportView(static_cast<View *>((*dock)->widget()), path));
    }
    if (!m_window->grab().save(path))
        m_player.fail(tr("%1: cannot be written; choose another folder, and .png for the window").arg(path));
}

} // namespace planloom::ui
