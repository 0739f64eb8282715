// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel_support.h"

namespace planloom::device {

std::int64_t Argument::elements() const { return product(dims); }

std::string text(const Dims &dims)
{
    std::string result = "[";
    for (std::size_t i = 0; i < dims.size(); ++i)
        result += (i > 0 ? ", " : "") + std::to_string(dims[i]);
    return result + "]";
}

Error wrong(const Request &request, const std::string &what)
{
    return badInput(request.op.type + " '" + request.op.name + "': " + what);
}

Error cannot(const Request &request, const std::string &what)
{
    return unsupported(request.op.type + " '" + request.op.name + "': " + what);
}

Result<std::size_t> resolveAxis(const Request &request, std::int64_t axis, std::size_t rank)
{
    const auto signedRank = static_cast<std::int64_t>(rank);
    const std::int64_t resolved = axis < 0 ? axis + signedRank : axis;
    if (resolved < 0 || resolved >= signedRank)
        return wrong(request, "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
    return static_cast<std::size_t>(resolved);
}

AxisView viewAt(const Dims &dims, std::size_t axis)
{
    return {product(dims, 0, axis), dims[axis], product(dims, axis + 1, dims.size())};
}

} // namespace planloom::device
