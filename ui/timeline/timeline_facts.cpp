// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_facts.h"

#include "ui/widgets/text.h"

#include <QDir>
#include <QFileInfo>
#include <QObject>

namespace planloom::ui {

namespace {

void addMeasuredFacts(const StudioState &state, const TimelineModel &model, QStringList &facts)
{
    if (!model.hasStep(model.anchorStep())) {
        facts << QObject::tr("no records of step %1").arg(model.anchorStep());
        return;
    }
    const trace::Round round = model.round(model.anchorStep());
    const double seconds = round.secondsPerStep();
    const QString clock = QObject::tr(model.clockName(true));
    facts << (round.steps > 1 ? QObject::tr("%1 steps %2 to %3: %4 each")
                                    .arg(clock)
                                    .arg(round.first)
                                    .arg(round.first + round.steps - 1)
                                    .arg(secondsText(seconds))
                              : QObject::tr("%1 step %2: %3").arg(clock).arg(round.first).arg(secondsText(seconds)));
    const auto &own = state.measuredOrigin().simulation;
    if (own && own->report.iterationSeconds > 0)
        facts.last() += QObject::tr(" (%1 × predicted)").arg(seconds / own->report.iterationSeconds, 0, 'f', 2);
    facts << (model.dropped() > 0 ? QObject::tr("! %1 records lost").arg(model.dropped())
                                  : QObject::tr("no record lost"));
}

/// Whose plan the measurement is, where it is not the open one.
QString originText(const StudioState &state, const TimelineModel &model)
{
    if (state.measured().ranks.empty() || state.measuredIsOfDocument())
        return {};
    const PlanOrigin &origin = state.measuredOrigin();
    const QString clock = QObject::tr(model.clockName(true));
    const QString shown =
        model.hasMeasured() ? QObject::tr("%1 trace of %2") : QObject::tr("%1 trace of %2, not shown");
    if (!origin.name.isEmpty())
        return shown.arg(clock, origin.name);
    const QString known =
        origin.lacksPlan() ? QObject::tr("open its plan to compare") : QObject::tr("it does not say of which plan");
    return shown.arg(clock, origin.contents) + QStringLiteral("; ") + known;
}

/// That the run went on by measured times behind the steps that are shown.
QString courseText(const StudioState &state, const TimelineModel &model)
{
    const auto &change = state.run().change;
    const QString trace = shownTrace(state);
    const bool ofRun = change && QFileInfo(trace).dir() == QDir(state.run().folder);
    if (!model.hasMeasured() || !ofRun || state.measuredOrigin().measuredFrom)
        return {};
    return QObject::tr("! the run changed its course: from step %1 on by measured times, predicted %2, in a trace of "
                       "their own")
        .arg(change->fromStep)
        .arg(secondsText(change->predicted));
}

} // namespace

QString shownTrace(const StudioState &state)
{
    const QString &folder = state.run().folder;
    return !state.measuredPath().isEmpty() || folder.isEmpty() ? state.measuredPath()
                                                               : QDir(folder).filePath(QStringLiteral("trace.pltrace"));
}

QStringList timelineFacts(const StudioState &state, const TimelineModel &model)
{
    QStringList facts;
    if (const auto &simulation = model.hasMeasured() ? state.measuredOrigin().simulation : state.simulation()) {
        const auto &from = state.measuredOrigin().measuredFrom;
        facts << (model.hasMeasured() && from
                      ? QObject::tr("predicted iteration %1 by measured times, from step %2 on")
                            .arg(secondsText(simulation->report.iterationSeconds))
                            .arg(*from)
                      : QObject::tr("predicted iteration %1").arg(secondsText(simulation->report.iterationSeconds)));
        facts << QObject::tr("bubbles %1 of compute time").arg(percentText(simulation->report.bubbleFraction));
        const bool ofDocument = simulation == state.simulation();
        if (ofDocument && state.simulationOutdated())
            facts << QObject::tr("! of the last plan that could be simulated");
        else if (state.previousReport() && ofDocument)
            facts << QObject::tr("last edit: %1")
                         .arg(
                             changeText(state.previousReport()->iterationSeconds, simulation->report.iterationSeconds));
    }
    if (model.anchorStep() >= 0)
        addMeasuredFacts(state, model, facts);
    if (const auto &laid = state.laidTrace(); laid && model.hasMeasured())
        facts << QObject::tr("%1trace of another program, %2, laid over the plan: %3")
                     .arg(laid->certainty() == overlay::Certainty::High ? QString() : QStringLiteral("! "),
                          qt(laid->file), qt(overlay::confidenceText(*laid)));
    if (const QString course = courseText(state, model); !course.isEmpty())
        facts << course;
    if (const QString origin = originText(state, model); !origin.isEmpty())
        facts << origin;
    if (const std::size_t hidden = model.layout().hiddenRows(); hidden > 0)
        facts << QObject::tr("%1 %2 hidden (Shift+H shows all)")
                     .arg(hidden)
                     .arg(hidden == 1 ? QObject::tr("row") : QObject::tr("rows"));
    return facts;
}

} // namespace planloom::ui
