// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/demo/demo.h"

#include "engine/base/files.h"
#include "engine/export/export.h"
#include "ui/widgets/text.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QTextStream>

#include <utility>

namespace planloom::ui {

namespace {

constexpr qint64 kActLimit = 180'000; // milliseconds: longer than any act takes

/// The agent refuses a folder that holds a run already: the demo can be played twice into the same place.
QString freshFolder(const QString &parent)
{
    QString path = QDir(parent).filePath(QStringLiteral("run"));
    for (int k = 2; QFileInfo::exists(path); ++k)
        path = QDir(parent).filePath(QStringLiteral("run-%1").arg(k));
    return path;
}

} // namespace

Demo::Demo(StudioState *state, MainWindow *window, DemoOptions options, QObject *parent)
    : QObject(parent),
      m_state(state),
      m_window(window),
      m_options(std::move(options)),
      m_player(state)
{
    m_player.setPause(m_options.pauseMilliseconds);
    m_player.setLimit(kActLimit);
    connect(&m_player, &ActPlayer::began, this, &Demo::say);
    connect(&m_player, &ActPlayer::finished, this, &Demo::finish);
    writeActs();
}

void Demo::writeActs()
{
    writePlanningActs();
    writeRunActs();
}

void Demo::writePlanningActs()
{
    const auto simulated = [this] { return m_state->simulationCurrent(); };
    m_acts.push_back({tr("Load the model %1 and the cluster %2").arg(m_options.model, m_options.cluster),
                      [this] {
                          m_window->open({m_options.model, m_options.cluster});
                      },
                      [this] { return m_state->subject().has_value() && !m_state->loadJob()->running(); }});
    m_acts.push_back({tr("Find a plan with DAPPLE"),
                      [this] {
                          PlanRequest request;
                          request.globalBatch = m_options.batch;
                          m_state->runPlanner(request);
                      },
                      simulated});
    m_acts.push_back({tr("Cut the model into pipeline stages"),
                      [this] {
                          // Where data parallelism wins there is no boundary to move: the story then goes on with a
                          // pipeline.
                          if (m_state->document()->plan.stages.size() > 1)
                              return;
                          PlanRequest request;
                          request.planner = "gpipe";
                          request.globalBatch = m_options.batch;
                          m_state->runPlanner(request);
                      },
                      [this] { return m_state->simulationCurrent() && m_state->document()->plan.stages.size() > 1; }});
    m_acts.push_back({tr("Look at its timeline and memory"),
                      [this] {
                          m_state->selectStage(StageId(0));
                          picture(m_window, QStringLiteral("window-planned"));
                      },
                      simulated});
    m_acts.push_back({tr("Move the boundary between the first two stages"), [this] { moveBoundary(); }, simulated});
    m_acts.push_back({tr("Show the effect of the edit"),
                      [this] {
                          const double after = m_state->simulation()->report.iterationSeconds;
                          m_state->say(MessageLevel::Info,
                                       tr("The iteration takes %1, was %2: %3")
                                           .arg(secondsText(after), secondsText(m_secondsBefore),
                                                changeText(m_secondsBefore, after)));
                          picture(m_window, QStringLiteral("window-edited"));
                      },
                      simulated});
    m_acts.push_back({tr("Keep the faster plan"),
                      [this] {
                          if (m_state->simulation()->report.iterationSeconds > m_secondsBefore)
                              m_state->undoStack()->undo();
                      },
                      simulated});
}

void Demo::writeRunActs()
{
    m_acts.push_back({tr("Train it for %1 steps").arg(m_options.steps),
                      [this] {
                          agent::TrainRequest request;
                          request.settings.data = m_options.data.toStdString();
                          request.settings.steps = m_options.steps;
                          request.runDir = freshFolder(m_options.folder).toStdString();
                          m_state->startRun(std::move(request));
                      },
                      [this] { return m_state->run().steps.size() * 2 >= static_cast<std::size_t>(m_options.steps); }});
    m_acts.push_back({tr("Watch it live"), [this] { picture(m_window, QStringLiteral("window-live")); },
                      [this] { return !m_state->run().active(); }});
    m_acts.push_back({tr("Compare measurement with prediction"),
                      [this] {
                          if (m_state->run().phase != RunData::Phase::Finished)
                              return fail(tr("the run did not finish: %1").arg(m_state->run().error));
                          if (m_state->measured().records.empty())
                              fail(tr("the run left no trace"));
                      },
                      [this] { return m_state->run().summary.has_value(); }});
    m_acts.push_back({tr("Saved plan, trace and pictures"), [this] { exportEverything(); }, [] { return true; }});
}

void Demo::start() { m_player.play(m_acts); }

void Demo::say(int act, int of, const QString &name)
{
    QTextStream(stdout) << act + 1 << '/' << of << "  " << name << Qt::endl;
    m_window->setWindowFilePath({});
    m_state->say(MessageLevel::Info, name);
}

void Demo::finish(bool ok)
{
    if (ok)
        m_state->say(MessageLevel::Info, tr("Demo finished. All files are in %1.").arg(m_options.folder));
    else
        m_state->stopRun();
    Q_EMIT finished(ok);
}

void Demo::moveBoundary()
{
    m_secondsBefore = m_state->simulation()->report.iterationSeconds;
    const auto &stages = m_state->document()->plan.stages;
    // Towards the longer of the two, so that neither becomes empty.
    const bool forward = stages[1].lastLayer - stages[1].firstLayer > stages[0].lastLayer - stages[0].firstLayer;
    const std::size_t boundary = forward ? stages[0].lastLayer + 1 : stages[0].lastLayer - 1;
    const bool moved = m_state->editPlan(tr("Move a stage boundary"), [boundary](plan::Plan &plan) {
        plan.stages[0].lastLayer = boundary;
        plan.stages[1].firstLayer = boundary;
    });
    if (!moved)
        fail(tr("the boundary could not be moved"));
}

void Demo::picture(QWidget *widget, const QString &name)
{
    const QString path = QDir(m_options.folder).filePath(name + QStringLiteral(".png"));
    if (!widget->grab().save(path))
        fail(tr("%1 cannot be written").arg(path));
}

void Demo::pictures()
{
    for (QDockWidget *dock : m_window->docks()) {
        dock->raise();
        QCoreApplication::processEvents(QEventLoop::ExcludeUserInputEvents);
        const QString name = dock->objectName().toLower() + QStringLiteral(".png");
        if (!m_window->exportView(m_window->view(dock->objectName()), QDir(m_options.folder).filePath(name)))
            return fail(m_player.lastMessage());
    }
    m_window->docks().front()->raise();
    QCoreApplication::processEvents(QEventLoop::ExcludeUserInputEvents);
    picture(m_window, QStringLiteral("window"));
}

void Demo::exportEverything()
{
    const QDir folder(m_options.folder);
    if (!m_state->savePlan(folder.filePath(QStringLiteral("plan.json"))))
        return fail(m_player.lastMessage());
    const std::string chrome = exporting::chromeTrace(m_state->measured());
    if (const Status status = writeFileAtomically(folder.filePath(QStringLiteral("trace.json")).toStdString(), chrome);
        !status)
        return fail(qt(status.error().text()));
    pictures();
}

} // namespace planloom::ui
