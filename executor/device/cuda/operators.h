// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/operator_support.h"

#include <string_view>
#include <vector>

namespace planloom::cuda {

/// Makes the GPU kernel of an operator. Error: Unsupported, where there is none: for the type, or for these data types,
/// shapes or attributes. What does not fit together is Unsupported as well: the host's kernel says what is wrong.
Made makeOperator(const Request &request);

/// Operator types for which there are GPU kernels, sorted.
std::vector<std::string_view> operatorTypes();

} // namespace planloom::cuda
