// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/plan_origin.h"

#include "ui/state/plan_shape.h"

#include <QObject>

namespace planloom::ui {

QString nameOf(const plan::Plan &plan)
{
    return QObject::tr("%1 on %2, %3, %4")
        .arg(QString::fromStdString(plan.modelName), QString::fromStdString(plan.clusterName), shapeText(plan),
             QString::fromUtf8(plan::name(plan.schedule.kind)));
}

} // namespace planloom::ui
