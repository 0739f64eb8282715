// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_facts.h"

#include "ui/widgets/text.h"

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

} // namespace

QStringList timelineFacts(const StudioState &state, const TimelineModel &model)
{
    QStringList facts;
    if (const auto &simulation = model.hasMeasured() ? state.measuredOrigin().simulation : state.simulation()) {
        facts << QObject::tr("predicted iteration %1").arg(secondsText(simulation->report.iterationSeconds));
        facts << QObject::tr("bubbles %1 of compute time").arg(percentText(simulation->report.bubbleFraction));
        if (state.previousReport() && simulation == state.simulation())
            facts << QObject::tr("last edit: %1")
                         .arg(
                             changeText(state.previousReport()->iterationSeconds, simulation->report.iterationSeconds));
    }
    if (model.anchorStep() >= 0)
        addMeasuredFacts(state, model, facts);
    if (const QString origin = originText(state, model); !origin.isEmpty())
        facts << origin;
    if (const std::size_t hidden = model.layout().hiddenRows(); hidden > 0)
        facts << QObject::tr("%1 %2 hidden (Shift+H shows all)")
                     .arg(hidden)
                     .arg(hidden == 1 ? QObject::tr("row") : QObject::tr("rows"));
    return facts;
}

} // namespace planloom::ui
