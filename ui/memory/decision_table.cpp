// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/decision_table.h"

#include "ui/widgets/text.h"

#include <QObject>

namespace planloom::ui {
namespace {

using Action = memory::Decision::Action;

Cell secondsCell(double seconds) { return {secondsText(seconds), seconds}; }

Cell textCell(const QString &text)
{
    Cell cell;
    cell.text = text;
    return cell;
}

QString actionText(Action action)
{
    switch (action) {
    case Action::Recompute: return QObject::tr("recompute");
    case Action::Swap: return QObject::tr("to the host");
    case Action::Drop: return QObject::tr("drop"); // the host has it
    }
    return {};
}

Cell figureCell(double figure) { return {QString::number(figure, 'g', 4), figure}; }

} // namespace

TableData decisionTable(const std::shared_ptr<const MemoryMoves> &moves,
                        const std::shared_ptr<const cluster::Cluster> &cluster)
{
    TableData table{{QObject::tr("At"), QObject::tr("Tensor"), QObject::tr("Action"), QObject::tr("Bytes"),
                     QObject::tr("Micro-batch"), QObject::tr("Device"), QObject::tr("Operator"), QObject::tr("Unused"),
                     QObject::tr("Made in"), QObject::tr("With ancestors"), QObject::tr("Score"), QObject::tr("Ratio"),
                     QObject::tr("Task"), QObject::tr("Room for")},
                    {}};
    if (!moves || !cluster)
        return table;
    table.rows.resize(moves->decisions.size());
    table.makeRow = [moves, cluster](std::size_t row) -> std::vector<Cell> {
        const MemoryMoves::Decision &decision = moves->decisions[row];
        const MemoryMoves::Tensor &tensor = moves->tensors[decision.tensor];
        const memory::Decision &what = decision.what;
        Cell ratio = figureCell(what.ratio);
        ratio.toolTip = QObject::tr("Seconds to the host and back, over those of recomputing it");
        Cell score = figureCell(what.score);
        score.toolTip = QObject::tr("The policy's score: the smallest is evicted first");
        Cell at{nanosecondsText(decision.at), static_cast<double>(decision.at)};
        at.toolTip =
            QObject::tr("On the timeline's clock: when the run starts that needs the room. By the policy's own "
                        "clock, which knows no waiting, %1")
                .arg(secondsText(what.seconds));
        return {at,
                textCell(tensor.name),
                textCell(actionText(what.action)),
                {bytesText(what.bytes), static_cast<double>(what.bytes)},
                {tensor.microBatch < 0 ? QObject::tr("all") : QString::number(tensor.microBatch),
                 static_cast<double>(tensor.microBatch)},
                textCell(qt(cluster->device(tensor.device).name)),
                textCell(tensor.op),
                secondsCell(what.staleness),
                secondsCell(what.cost),
                secondsCell(what.chainCost),
                score,
                ratio,
                textCell(qt(decision.task)),
                textCell(qt(decision.room))};
    };
    return table;
}

QString decisionText(const MemoryMoves &moves)
{
    std::int64_t swapped = 0;
    int swaps = 0;
    int again = 0;
    int drops = 0;
    for (const MemoryMoves::Decision &decision : moves.decisions) {
        const bool isSwap = decision.what.action == Action::Swap;
        swaps += isSwap ? 1 : 0;
        again += decision.what.action == Action::Recompute ? 1 : 0;
        drops += decision.what.action == Action::Drop ? 1 : 0;
        swapped += isSwap ? decision.what.bytes : 0;
    }
    const QString text = QObject::tr("%1 decisions: %2 to the host (%3), %4 to recompute")
                             .arg(moves.decisions.size())
                             .arg(swaps)
                             .arg(bytesText(swapped))
                             .arg(again);
    return drops == 0 ? text : QObject::tr("%1, %2 of parameters to drop").arg(text).arg(drops);
}

} // namespace planloom::ui
