// SPDX-License-Identifier: Apache-2.0
#include "engine/import/pytorch_schedule.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

/// Two places with two stages each, and two micro-batches.
planloom::plan::Plan fourStages()
{
    planloom::plan::Plan plan;
    plan.globalBatch = 2;
    plan.microBatches = 2;
    plan.stages.resize(4);
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        plan.stages[s].devices = {planloom::DeviceId(static_cast<std::int64_t>(s % 2))};
    return plan;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const planloom::plan::Plan plan = fourStages();
    static const auto cluster = planloom::cluster::preset("h100-8");
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto schedule = planloom::import::readPytorchSchedule(text, "schedule", plan, *cluster);
    // Whatever is accepted is an order of both places.
    if (schedule && (schedule->kind != planloom::plan::ScheduleKind::Custom || schedule->order.size() != 2))
        std::abort();
    return 0;
}
