// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/why_table.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <cmath>

namespace planloom::ui {

namespace {

QString limitText(const std::string &limit)
{
    if (limit == "link")
        return QObject::tr("link");
    if (limit == "role")
        return QObject::tr("another role");
    if (limit == "memory")
        return QObject::tr("memory");
    return limit == "compute" ? QObject::tr("compute") : QString();
}

Cell timeCell(double seconds, double iterationSeconds)
{
    Cell cell{seconds > 0 ? secondsText(seconds) : QObject::tr("–"), seconds};
    cell.bar = iterationSeconds > 0 ? seconds / iterationSeconds : 0;
    cell.toolTip = iterationSeconds > 0
        ? QObject::tr("%1 of the iteration").arg(percentText(seconds / iterationSeconds))
        : QString();
    return cell;
}

Cell memoryCell(std::int64_t bytes, std::int64_t capacity)
{
    Cell cell{bytesText(bytes), static_cast<double>(bytes)};
    cell.bar = capacity > 0 ? static_cast<double>(bytes) / static_cast<double>(capacity) : 0;
    cell.toolTip = QObject::tr("of %1").arg(bytesText(capacity));
    return cell;
}

} // namespace

QString whyText(const plan::Why &why, double iterationSeconds)
{
    QStringList lines;
    if (!why.limit.empty())
        lines << QObject::tr("Limited by %1: %2").arg(limitText(why.limit), qt(why.detail));
    if (why.runnerUp) {
        const double share = iterationSeconds > 0 ? why.runnerUp->iterationSeconds / iterationSeconds - 1 : 0;
        const QString line = share < 0 ? QObject::tr("Another plan, %1, would take %2, %3 shorter")
                                       : QObject::tr("The runner-up, %1, would take %2, %3 longer");
        QStringList differences;
        for (const std::string &each : why.runnerUp->differences)
            differences << qt(each);
        lines << line.arg(qt(why.runnerUp->notation), secondsText(why.runnerUp->iterationSeconds),
                          percentText(std::abs(share)))
                + (differences.empty() ? QString() : QStringLiteral(": ") + differences.join(QStringLiteral("; ")));
    }
    return lines.join(QLatin1Char('\n'));
}

TableData whyTable(const plan::Why &why, double iterationSeconds)
{
    TableData table{{QObject::tr("Stage"), QObject::tr("Limited by"), QObject::tr("Forward"), QObject::tr("Backward"),
                     QObject::tr("Recompute"), QObject::tr("Optimizer"), QObject::tr("Boxing"),
                     QObject::tr("Transfers"), QObject::tr("All-reduce"), QObject::tr("Exposed"), QObject::tr("Idle"),
                     QObject::tr("Parameters"), QObject::tr("Gradients"), QObject::tr("Optimizer state"),
                     QObject::tr("Activations"), QObject::tr("Other")},
                    {}};
    for (std::size_t s = 0; s < why.stages.size(); ++s) {
        const plan::StageWhy &stage = why.stages[s];
        Cell name{QString::number(s), static_cast<double>(s)};
        name.swatch = theme().ofSeries(static_cast<int>(s));
        name.toolTip = QObject::tr("Its busiest device, %1").arg(qt(stage.device));
        Cell limit{limitText(stage.limit), std::nullopt};
        limit.toolTip = qt(stage.detail);
        limit.warn = stage.limit == "memory";
        std::vector<Cell> row{name, limit};
        for (const double seconds : {stage.forwardSeconds, stage.backwardSeconds, stage.recomputeSeconds,
                                     stage.optimizerSeconds, stage.boxingSeconds, stage.transferSeconds,
                                     stage.exchangeSeconds, stage.exposedExchangeSeconds, stage.idleSeconds})
            row.push_back(timeCell(seconds, iterationSeconds));
        for (const std::int64_t bytes :
             {stage.parameterBytes, stage.gradientBytes, stage.optimizerBytes, stage.activationBytes, stage.otherBytes})
            row.push_back(memoryCell(bytes, stage.capacityBytes));
        table.rows.push_back(std::move(row));
    }
    return table;
}

} // namespace planloom::ui
