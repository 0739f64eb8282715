// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/kernel_table.h"

#include "ui/widgets/text.h"

#include <QObject>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

QString signedPercent(double share)
{
    return QStringLiteral("%1%2 %")
        .arg(share < 0 ? QStringLiteral("−") : QStringLiteral("+"))
        .arg(100 * std::abs(share), 0, 'f', 2);
}

QString signedSpan(double nanoseconds)
{
    return (nanoseconds < 0 ? QStringLiteral("−") : QStringLiteral("+"))
        + nanosecondsText(std::llround(std::abs(nanoseconds)));
}

/// "12.3 µs ± 0.4 µs": mean and standard deviation of a run.
Cell meanCell(const analysis::Kernel &kernel)
{
    if (kernel.count == 0)
        return {QStringLiteral("–"), -1.0};
    return {QStringLiteral("%1 ± %2").arg(nanosecondsText(std::llround(kernel.mean)),
                                          nanosecondsText(std::llround(kernel.deviation))),
            kernel.mean};
}

Cell runsCell(const analysis::Kernel &kernel)
{
    return {QString::number(kernel.count), static_cast<double>(kernel.count)};
}

} // namespace

TableData kernelTable(const std::vector<analysis::KernelChange> &changes)
{
    TableData table{{QObject::tr("Kernel or task"), QObject::tr("Kind"), QObject::tr("Change"),
                     QObject::tr("± (error)"), QObject::tr("Sure"), QObject::tr("A step"), QObject::tr("Mean A"),
                     QObject::tr("Mean B"), QObject::tr("Runs A"), QObject::tr("Runs B")},
                    {}};
    for (const analysis::KernelChange &change : changes) {
        const bool isOne = change.a.count == 0 || change.b.count == 0;
        const QString sure = change.isSure ? QObject::tr("yes")
            : isOne                        ? (change.a.count == 0 ? QObject::tr("only in B") : QObject::tr("only in A"))
                                           : QObject::tr("no");
        table.rows.push_back({{qt(change.name), {}},
                              {qt(change.kind), {}},
                              {change.isKnown ? signedPercent(change.change) : QStringLiteral("–"),
                               change.isKnown ? change.change : -HUGE_VAL},
                              {change.isKnown ? percentText(change.error, 2) : QStringLiteral("–"),
                               change.isKnown ? change.error : HUGE_VAL},
                              {sure, {}, {}, change.isSure && change.change > 0},
                              {signedSpan(change.perStep), change.perStep},
                              meanCell(change.a),
                              meanCell(change.b),
                              runsCell(change.a),
                              runsCell(change.b)});
    }
    return table;
}

QString kernelText(const std::vector<analysis::KernelChange> &changes)
{
    const auto sure = std::ranges::count_if(changes, &analysis::KernelChange::isSure);
    QString text = QObject::tr("%1 of %2 kernels changed surely").arg(sure).arg(changes.size());
    if (sure > 0)
        text += QObject::tr("; most: %1 %2, %3 a step")
                    .arg(qt(changes.front().name), signedPercent(changes.front().change),
                         signedSpan(changes.front().perStep));
    return text;
}

} // namespace planloom::ui
