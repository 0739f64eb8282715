// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/channel_lanes.h"

#include "executor/device/cpu/onednn_convolution.h"

namespace planloom::device {

std::int64_t blockWidth(graph::Layout layout)
{
    static const std::int64_t kWidth = onednn::convolutionBlock();
    return layout == graph::Layout::Blocked ? kWidth : 1;
}

ChannelRuns channelRuns(const Argument &argument)
{
    const Dims &dims = argument.dims;
    return {dims[0], dims[1], product(dims, 2, dims.size()), blockWidth(argument.layout)};
}

} // namespace planloom::device
