// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/plan_origin.h"

#include "ui/state/plan_shape.h"

#include <QObject>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {

QString nameOf(const plan::Plan &plan)
{
    return QObject::tr("%1 on %2, %3, %4")
        .arg(QString::fromStdString(plan.modelName), QString::fromStdString(plan.clusterName), shapeText(plan),
             QString::fromUtf8(plan::name(plan.schedule.kind)));
}

bool measures(const plan::Plan &plan)
{
    return std::ranges::any_of(plan.stages, [](const plan::Stage &stage) { return stage.memory.measures(); });
}

QString contentsOf(const trace::Trace &trace, const trace::Index &index)
{
    std::int32_t stages = 0;
    std::int32_t microBatches = 0;
    for (const trace::TaskInfo &task : trace.tasks) {
        stages = std::max(stages, task.stage + 1);
        microBatches = std::max(microBatches, task.microBatch + 1);
    }
    QStringList parts;
    const auto add = [&](std::size_t number, const QString &one, const QString &many) {
        if (number > 0)
            parts << QStringLiteral("%1 %2").arg(number).arg(number == 1 ? one : many);
    };
    add(trace.ranks.size(), QObject::tr("device"), QObject::tr("devices"));
    add(static_cast<std::size_t>(stages), QObject::tr("stage"), QObject::tr("stages"));
    add(static_cast<std::size_t>(microBatches), QObject::tr("micro-batch"), QObject::tr("micro-batches"));
    add(index.steps().size(), QObject::tr("step"), QObject::tr("steps"));
    return parts.join(QStringLiteral(", "));
}

} // namespace planloom::ui
