// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/slice_table.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr std::size_t kTableLimit = 5000; // rows: more cannot be read, and the picture shows them all

/// Measured by predicted duration, where both clocks have the task.
Cell ratioCell(const TimelineModel &model, const TimelineModel::Slice &slice)
{
    const auto twin = model.hasMeasured() ? model.counterpart(slice) : std::nullopt;
    if (!twin)
        return {QStringLiteral("–"), 0.0};
    const auto other = static_cast<double>(model.record(*twin).duration);
    const auto own = static_cast<double>(model.record(slice).duration);
    const double value = slice.measured ? own / std::max(other, 1.0) : other / std::max(own, 1.0);
    return {QString::number(value, 'f', 2), value};
}

} // namespace

TableData sliceTable(const TimelineModel &model, const TimeAxis &axis, std::vector<TimelineModel::Slice> &slices)
{
    slices.clear();
    TableData table{{QObject::tr("Task"), QObject::tr("Kind"), QObject::tr("Device"), QObject::tr("Clock"),
                     QObject::tr("Start"), QObject::tr("Duration"), QObject::tr("Measured / predicted")},
                    {}};
    const QString beside = model.hasMeasured() && model.offset() != 0
        ? QObject::tr(" (from the start of step %1)").arg(model.anchorStep())
        : QString();
    for (const auto &row : model.rows()) {
        if (slices.size() == kTableLimit)
            break;
        const QString clock = QObject::tr(model.clockName(row.measured)) + (row.measured ? QString() : beside);
        const std::int64_t offset = row.measured ? 0 : model.offset();
        const auto [first, last] =
            model.slices(row).within({std::llround(axis.begin()) - offset, std::llround(axis.end()) - offset});
        for (std::uint32_t index = first; index < last && slices.size() < kTableLimit; ++index) {
            const TimelineModel::Slice slice{row.measured, row.lod, index};
            const trace::Record record = model.record(slice);
            const trace::KindInfo &kind = model.kind(slice);
            table.rows.push_back({{qt(model.task(slice).id), {}},
                                  {qt(kind.name), {}, theme().hue(kind.hue)},
                                  {qt(model.device(slice)), {}},
                                  {clock, {}},
                                  {instantText(record.start), static_cast<double>(record.start)},
                                  {nanosecondsText(record.duration), static_cast<double>(record.duration)},
                                  ratioCell(model, slice)});
            slices.push_back(slice);
        }
    }
    return table;
}

} // namespace planloom::ui
