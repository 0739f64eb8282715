// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBrush>
#include <QString>

#include "ui/memory/live_device.h"
#include "ui/widgets/data_table.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace planloom::ui {

/// A row for each of @p blocks (LiveMemory::at) of @p live; rows are made when they are shown. The figures of column
/// "Bytes" sum up to the memory curve.
TableData liveTable(const std::shared_ptr<const LiveDevice> &live, std::vector<std::size_t> blocks);

/// "214 buffers, 11.19 MiB: parameter 3.10 MiB, activation 8.09 MiB; 132 KiB of 11.32 MiB reserved in 3 holes": of the
/// blocks that are in use at @p seconds.
QString liveText(const LiveDevice &live, double seconds);

/// One block in words, for a tool tip.
QString blockText(const LiveDevice &live, const simulate::LiveBlock &block);

/// How blocks of a kind are filled: kinds differ in texture where they share a hue.
QBrush blockBrush(simulate::BlockKind kind);
/// The kind's name in the user's language.
QString kindText(const LiveDevice &live, simulate::BlockKind kind);

} // namespace planloom::ui
