// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/path_text.h"

#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {

QString pathText(const TimelineModel &model, const TimelinePath &path)
{
    const auto share = [&](std::int64_t time) {
        return percentText(static_cast<double>(time) / static_cast<double>(std::max<std::int64_t>(path.length, 1)));
    };
    QStringList parts;
    for (const TimelinePath::Sum &sum : path.sums)
        parts << QObject::tr("%1 %2 (%3, %4 %5)")
                     .arg(qt(sum.kind), nanosecondsText(sum.nanoseconds), share(sum.nanoseconds))
                     .arg(sum.count)
                     .arg(sum.count == 1 ? QObject::tr("task") : QObject::tr("tasks"));
    parts << (path.waits > 0 ? QObject::tr("waits %1 (%2)").arg(nanosecondsText(path.waits), share(path.waits))
                             : QObject::tr("waits none"));
    QString head = QObject::tr("critical path, %1").arg(QObject::tr(model.clockName(path.measured)));
    if (path.steps > 1)
        head += QObject::tr(", %1 steps").arg(path.steps);
    return QStringLiteral("%1: %2 = %3").arg(head, parts.join(QStringLiteral(" + ")), nanosecondsText(path.length));
}

QString exactPathText(const TimelineModel &model, const TimelinePath &path)
{
    QStringList lines{
        QObject::tr("critical path, %1\tnanoseconds\ttasks").arg(QObject::tr(model.clockName(path.measured)))};
    for (const TimelinePath::Sum &sum : path.sums)
        lines << QStringLiteral("%1\t%2\t%3").arg(qt(sum.kind)).arg(sum.nanoseconds).arg(sum.count);
    lines << QObject::tr("waits\t%1").arg(path.waits);
    lines << QObject::tr("all\t%1").arg(path.length);
    return lines.join(QLatin1Char('\n'));
}

} // namespace planloom::ui
