// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/plan_shape.h"

#include <QObject>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr std::size_t kListed = 6; // stages; more are counted

QString oneStage(const plan::Stage &stage)
{
    if (stage.devices.size() == 1)
        return QObject::tr("one device");
    if (stage.shards() == 1)
        return QObject::tr("data parallel, %1 devices").arg(stage.devices.size());
    if (stage.replicas() == 1)
        return QObject::tr("%1-way tensor").arg(stage.shards());
    return QObject::tr("%1 replicas × %2-way tensor").arg(stage.replicas()).arg(stage.shards());
}

QString equalStages(const plan::Plan &plan)
{
    const plan::Stage &first = plan.stages.front();
    if (first.devices.size() == 1)
        return QObject::tr("pipeline, %1 stages").arg(plan.stages.size());
    QString text = QObject::tr("%1 stages").arg(plan.stages.size());
    if (first.replicas() > 1)
        text += QObject::tr(" × %1 replicas").arg(first.replicas());
    if (first.shards() > 1)
        text += QObject::tr(" × %1-way tensor").arg(first.shards());
    return text;
}

} // namespace

QString shapeText(const plan::Plan &plan)
{
    if (plan.stages.empty())
        return QObject::tr("no stages");
    if (plan.admm && plan.admm->timeRanges > 1) { // the second dimension of its mesh
        const QString ranges = QObject::tr("%1 ranges of time steps").arg(plan.admm->timeRanges);
        const std::size_t replicas = plan.stages.front().replicas();
        return replicas > 1 ? QObject::tr("%1 replicas × %2").arg(replicas).arg(ranges) : ranges;
    }
    if (plan.stages.size() == 1)
        return oneStage(plan.stages.front());
    const auto alike = [&](const plan::Stage &stage) {
        return stage.devices.size() == plan.stages.front().devices.size()
            && stage.replicas() == plan.stages.front().replicas();
    };
    if (std::all_of(plan.stages.begin(), plan.stages.end(), alike))
        return equalStages(plan);
    if (plan.stages.size() <= kListed) {
        QStringList devices;
        for (const plan::Stage &stage : plan.stages)
            devices << QString::number(stage.devices.size());
        return QObject::tr("%1 devices").arg(devices.join(QStringLiteral(" + ")));
    }
    const auto [least, most] =
        std::minmax_element(plan.stages.begin(), plan.stages.end(), [](const plan::Stage &a, const plan::Stage &b) {
            return a.devices.size() < b.devices.size();
        });
    return QObject::tr("%1 stages of %2 to %3 devices")
        .arg(plan.stages.size())
        .arg(least->devices.size())
        .arg(most->devices.size());
}

} // namespace planloom::ui
