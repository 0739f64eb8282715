// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/operator_support.h"

namespace planloom::cuda {

/// Images (N, C, ...) of an argument; nullopt: it has no channels.
std::optional<Images> imagesOf(const device::Argument &argument);
/// How a window of @p kernel slides over @p x to make @p y, by the attributes that convolution and pooling share;
/// nullopt: they do not fit, or there are not one to three spatial dimensions.
std::optional<Windows> windowsOf(const graph::Op &op, const Dims &x, const Dims &y, const Dims &kernel);
/// nullopt: the arguments do not fit.
std::optional<Convolution> convolutionOf(const Request &request, const device::Argument &x,
                                         const device::Argument &weight, const device::Argument &y);

} // namespace planloom::cuda
