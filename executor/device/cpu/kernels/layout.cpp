// SPDX-License-Identifier: Apache-2.0
// Into blocked tensors and out of them. Joining and cutting along the channels, and element-wise operators, are the
// same in blocks as in rows: those kernels never ask.
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/cpu/parallel.h"

#include <cstring>

namespace planloom::device {

namespace {

/// One sample's block of channels: `area` pixels of `width` channels against `width` rows of `area` pixels.
void toBlock(const float *rows, std::int64_t area, std::int64_t width, float *block)
{
    for (std::int64_t i = 0; i < area; ++i)
        for (std::int64_t c = 0; c < width; ++c)
            block[i * width + c] = rows[c * area + i];
}

void toRows(const float *block, std::int64_t area, std::int64_t width, float *rows)
{
    for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t i = 0; i < area; ++i)
            rows[c * area + i] = block[i * width + c];
}

Made makeReorder(const Request &request)
{
    const Argument &from = request.inputs[0];
    const Argument &to = request.outputs[0];
    if (from.dims != to.dims || from.dims.size() < 3)
        return wrong(request, text(from.dims) + " does not reorder to " + text(to.dims));
    if (from.layout == to.layout)
        return makeFunction([bytes = static_cast<std::size_t>(from.elements())
                                 * sizeof(float)](Inputs in, Outputs out) { std::memcpy(out[0], in[0], bytes); });
    const bool blocks = to.layout == graph::Layout::Blocked;
    const ChannelRuns runs = channelRuns(blocks ? to : from);
    if (runs.channels % runs.width != 0)
        return wrong(request, "blocks of " + std::to_string(runs.width) + " channels do not fit " + text(from.dims));
    return makeFunction([runs, blocks](Inputs in, Outputs out) {
        const std::int64_t size = runs.runLength();
        parallelFor(runs.samples * runs.groups(), rowGrain(size), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                (blocks ? toBlock : toRows)(floats(in[0]) + i * size, runs.area, runs.width, floats(out[0]) + i * size);
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"Reorder", "f", "f", makeReorder},
};

} // namespace

std::span<const KernelEntry> layoutKernels() { return kEntries; }

} // namespace planloom::device
