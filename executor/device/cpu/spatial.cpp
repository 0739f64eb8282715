// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/spatial.h"

#include <algorithm>

namespace planloom::device {

std::int64_t Sliding::positions(std::size_t axis, std::int64_t size) const
{
    const std::int64_t reach = dilations[axis] * (kernel[axis] - 1) + 1;
    const std::int64_t room = size + padBegin[axis] + padEnd[axis] - reach;
    return room < 0 ? 0 : room / strides[axis] + 1;
}

namespace {

bool allAtLeast(const Dims &values, std::int64_t least)
{
    return std::all_of(values.begin(), values.end(), [least](std::int64_t v) { return v >= least; });
}

} // namespace

Result<Sliding> slidingOf(const Request &request, const Dims &x, const Dims &kernel)
{
    const std::size_t spatial = kernel.size();
    if (spatial < 1 || spatial > 3)
        return cannot(request, std::to_string(spatial) + " spatial dimensions; one to three are computed");
    if (x.size() != spatial + 2)
        return wrong(request, "a window of " + text(kernel) + " does not slide over " + text(x));
    Sliding sliding{kernel, request.op.integers("strides", Dims(spatial, 1)), Dims(spatial, 0), Dims(spatial, 0),
                    request.op.integers("dilations", Dims(spatial, 1))};
    const Dims pads = request.op.integers("pads", Dims(2 * spatial, 0));
    if (sliding.strides.size() != spatial || sliding.dilations.size() != spatial || pads.size() != 2 * spatial)
        return wrong(request, "strides, dilations or pads do not have " + std::to_string(spatial) + " dimensions");
    if (!allAtLeast(kernel, 1) || !allAtLeast(sliding.strides, 1) || !allAtLeast(sliding.dilations, 1)
        || !allAtLeast(pads, 0))
        return wrong(request, "kernel, strides and dilations must be positive, pads not negative");
    std::copy_n(pads.begin(), spatial, sliding.padBegin.begin());
    std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(spatial), spatial, sliding.padEnd.begin());
    return sliding;
}

} // namespace planloom::device
