// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/live_table.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <algorithm>
#include <array>

namespace planloom::ui {

namespace {

using simulate::BlockKind;
using simulate::LiveBlock;

/// Colour of the theme's series, and texture.
struct KindStyle {
    int series;
    Qt::BrushStyle texture;
};

KindStyle styleOf(BlockKind kind)
{
    switch (kind) {
    case BlockKind::Parameter: return {0, Qt::SolidPattern};
    case BlockKind::ParameterCopy: return {0, Qt::Dense4Pattern};
    case BlockKind::Gradient: return {5, Qt::SolidPattern};
    case BlockKind::OptimizerState: return {4, Qt::SolidPattern};
    case BlockKind::Average: return {4, Qt::Dense4Pattern};
    case BlockKind::Rows: return {3, Qt::Dense4Pattern};
    case BlockKind::Constant: return {7, Qt::SolidPattern};
    case BlockKind::Activation: return {1, Qt::BDiagPattern};
    case BlockKind::Message: return {2, Qt::BDiagPattern};
    case BlockKind::GradientMessage: return {2, Qt::Dense4Pattern};
    case BlockKind::ActivationGradient: return {6, Qt::FDiagPattern};
    case BlockKind::Workspace: return {3, Qt::DiagCrossPattern};
    case BlockKind::Padding: break;
    }
    return {7, Qt::Dense6Pattern};
}

Cell plainCell(const QString &text)
{
    Cell cell;
    cell.text = text;
    return cell;
}

/// When a task ended; "before" and "stays" have no number and stand apart from all figures.
Cell whenCell(TaskId task, double seconds, const QString &without)
{
    if (!task.valid())
        return {without, -1.0};
    return {instantText(std::llround(seconds * 1e9)), seconds};
}

QString nameText(const LiveDevice &live, const LiveBlock &block)
{
    return block.name < 0 ? QObject::tr("–") : qt(live.memory.nameOf(block.name));
}

} // namespace

QBrush blockBrush(BlockKind kind)
{
    const KindStyle style = styleOf(kind);
    return QBrush(theme().ofSeries(style.series), style.texture);
}

QString kindText(const LiveDevice &live, BlockKind kind)
{
    const auto own = live.kindNames.find(kind);
    return own == live.kindNames.end() ? QObject::tr(simulate::name(kind)) : qt(own->second);
}

QString blockText(const LiveDevice &live, const LiveBlock &block)
{
    QStringList lines{
        QObject::tr("%1 (%2), %3").arg(nameText(live, block), kindText(live, block.kind), bytesText(block.bytes))};
    if (block.microBatch >= 0)
        lines << QObject::tr("micro-batch %1").arg(block.microBatch);
    if (block.op >= 0)
        lines << QObject::tr("made by %1").arg(qt(live.memory.nameOf(block.op)));
    if (block.made.valid())
        lines << QObject::tr("made in %1, until %2")
                     .arg(qt(live.taskOf(block.made)), instantText(std::llround(block.madeSeconds * 1e9)));
    if (block.last.valid())
        lines << QObject::tr("last used in %1, until %2")
                     .arg(qt(live.taskOf(block.last)), instantText(std::llround(block.lastSeconds * 1e9)));
    if (block.offset >= 0)
        lines << QObject::tr("at %1 behind the beginning of the device's memory").arg(bytesText(block.offset));
    return lines.join(QLatin1Char('\n'));
}

TableData liveTable(const std::shared_ptr<const LiveDevice> &live, std::vector<std::size_t> blocks)
{
    TableData table{{QObject::tr("Tensor"), QObject::tr("Kind"), QObject::tr("Size"), QObject::tr("Bytes"),
                     QObject::tr("Share"), QObject::tr("Micro-batch"), QObject::tr("Made by"), QObject::tr("Made"),
                     QObject::tr("Last used"), QObject::tr("Task"), QObject::tr("Last task"), QObject::tr("Address"),
                     QObject::tr("Device")},
                    {}};
    if (!live)
        return table;
    std::int64_t total = 0;
    for (const std::size_t b : blocks)
        total += live->memory.blocks[b].bytes;
    table.rows.resize(blocks.size());
    table.makeRow = [live, total, blocks = std::move(blocks)](std::size_t row) -> std::vector<Cell> {
        const LiveBlock &block = live->memory.blocks[blocks[row]];
        const auto bytes = static_cast<double>(block.bytes);
        const double share = total > 0 ? bytes / static_cast<double>(total) : 0;
        Cell tensor = plainCell(nameText(*live, block));
        tensor.toolTip = blockText(*live, block);
        Cell kind = plainCell(kindText(*live, block.kind));
        kind.swatch = blockBrush(block.kind).color();
        Cell part{percentText(share), share};
        part.bar = share;
        return {tensor,
                kind,
                {bytesText(block.bytes), bytes},
                {QString::number(block.bytes), bytes},
                part,
                {block.microBatch < 0 ? QObject::tr("all") : QString::number(block.microBatch),
                 static_cast<double>(block.microBatch)},
                plainCell(qt(live->memory.nameOf(block.op))),
                whenCell(block.made, block.madeSeconds, QObject::tr("before")),
                whenCell(block.last, block.lastSeconds, QObject::tr("stays")),
                plainCell(qt(live->taskOf(block.made))),
                plainCell(qt(live->taskOf(block.last))),
                {block.offset < 0 ? QObject::tr("–") : QString::number(block.offset),
                 static_cast<double>(block.offset)},
                plainCell(qt(live->device))};
    };
    return table;
}

QString liveText(const LiveDevice &live, double seconds)
{
    std::array<std::int64_t, simulate::kBlockKinds> kinds{};
    std::int64_t total = 0;
    const std::vector<std::size_t> alive = live.memory.at(seconds);
    for (const std::size_t b : alive) {
        kinds[static_cast<std::size_t>(live.memory.blocks[b].kind)] += live.memory.blocks[b].bytes;
        total += live.memory.blocks[b].bytes;
    }
    QStringList parts;
    for (std::size_t k = 0; k < kinds.size(); ++k)
        if (kinds[k] > 0)
            parts << QObject::tr("%1 %2").arg(kindText(live, static_cast<BlockKind>(k)), bytesText(kinds[k]));
    std::int64_t largest = 0;
    const auto holes = live.memory.holesAt(seconds);
    for (const simulate::LiveMemory::Hole &hole : holes)
        largest = std::max(largest, hole.bytes());
    const QString text = QObject::tr("%1 in %2 buffers of %3 reserved")
                             .arg(bytesText(total))
                             .arg(alive.size())
                             .arg(bytesText(live.memory.arenaBytes));
    const QString free = holes.empty()
        ? QObject::tr("no hole")
        : QObject::tr("%1 free in %2, the largest %3")
              .arg(bytesText(live.memory.arenaBytes - total),
                   holes.size() == 1 ? QObject::tr("1 hole") : QObject::tr("%1 holes").arg(holes.size()),
                   bytesText(largest));
    return QStringList{text, free, parts.join(QStringLiteral(", "))}.join(QStringLiteral("  ·  "));
}

} // namespace planloom::ui
