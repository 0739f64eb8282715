// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <cstddef>

namespace planloom::comm {

/// sum[i] = a[i] + b[i]; @p sum may be @p a or @p b. Bytes are a whole number of elements.
void add(Element element, const std::byte *a, const std::byte *b, std::byte *sum, std::size_t bytes);

} // namespace planloom::comm
