// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/slice_text.h"

#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {

QString sliceText(const TimelineModel &model, const TimelineModel::Slice &slice)
{
    const trace::Record record = model.record(slice);
    const trace::TaskInfo &task = model.task(slice);
    const auto row = model.rowOf(slice);
    const bool isLevel = row && model.gauge(model.rows()[*row]) != nullptr;
    QStringList lines{isLevel ? qt(task.id) : QObject::tr("%1 — %2").arg(qt(task.id), qt(model.kind(slice).name))};
    QString where = qt(model.device(slice));
    if (task.stage >= 0)
        where += QObject::tr(", stage %1").arg(task.stage);
    if (task.microBatch >= 0)
        where += QObject::tr(", micro-batch %1").arg(task.microBatch);
    lines << where;
    lines << QObject::tr("%1: %2 from %3")
                 .arg(QObject::tr(model.clockName(slice.measured)), nanosecondsText(record.duration),
                      nanosecondsText(record.start));
    if (slice.measured && record.step >= 0)
        lines.last() += QObject::tr(" (step %1)").arg(record.step);
    if (const std::int64_t waiting = model.waiting(slice); waiting > 0)
        lines << QObject::tr("of that %1 waiting for others, %2 working")
                     .arg(nanosecondsText(waiting), nanosecondsText(record.duration - waiting));
    if (const auto other = model.counterpart(slice)) {
        const trace::Record twin = model.record(*other);
        lines << QObject::tr("%1: %2").arg(QObject::tr(model.clockName(other->measured)),
                                           nanosecondsText(twin.duration));
        if (other->measured)
            lines.last() += QObject::tr(" (step %1)").arg(twin.step);
        const auto measured = static_cast<double>(slice.measured ? record.duration : twin.duration);
        const auto predicted = static_cast<double>(slice.measured ? twin.duration : record.duration);
        if (predicted > 0)
            lines << QObject::tr("%1 / predicted: %2")
                         .arg(QObject::tr(model.clockName(true)))
                         .arg(measured / predicted, 0, 'f', 2);
    }
    const QStringList arguments = qt(std::string(model.arguments(slice))).split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    constexpr qsizetype kMostArguments = 12;
    lines << arguments.first(std::min(kMostArguments, arguments.size()));
    if (arguments.size() > kMostArguments)
        lines << QObject::tr("and %1 more").arg(arguments.size() - kMostArguments);
    return lines.join(QLatin1Char('\n'));
}

} // namespace planloom::ui
