// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/ids.h"
#include "engine/plan/plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace planloom::ui {

/// Layers [first, last) of the model; empty if both are equal.
struct LayerRange {
    std::size_t first = 0;
    std::size_t last = 0;
    [[nodiscard]] bool empty() const { return first == last; }
    friend bool operator==(const LayerRange &, const LayerRange &) = default;
};

/// Nanoseconds since the origin of the trace that is shown.
struct TimeRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t length() const { return end - begin; }
    friend bool operator==(const TimeRange &, const TimeRange &) = default;
};

/// The selection, shared by all views. Every part may be missing.
struct Selection {
    StageId stage;
    LayerRange layers;
    DeviceId device;
    std::string task; ///< "s1.F.m3"; empty: none
    std::optional<TimeRange> time;
    friend bool operator==(const Selection &, const Selection &) = default;
};

/// A stage with its layers. @p document may be null.
Selection selectionOfStage(StageId stage, const plan::Document *document);

/// A device with the first stage on it and that stage's layers. @p document may be null.
Selection selectionOfDevice(DeviceId device, const plan::Document *document);

/// A task by its id ("s1.F.m3") with its stage and, where known, its device.
Selection selectionOfTask(const std::string &task, DeviceId device);

/// Without the parts that @p document does not have.
Selection clamped(Selection selection, const plan::Document &document);

/// @p selection of plan @p before as it is in @p after: a stage keeps its number and gets its new layers, a device, by
/// its name, gets the stage that lies on it now, single layers get the stage that has them now. Without the parts that
/// @p after does not have.
Selection carriedOver(Selection selection, const plan::Document &before, const plan::Document &after);

} // namespace planloom::ui
