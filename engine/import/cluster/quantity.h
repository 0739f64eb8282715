// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <string_view>

namespace planloom::import {

enum class QuantityKind { BytesPerSecond, Bytes, Seconds, FlopsPerSecond };

/// "25 GB/s", "400 Gb/s", "16 GiB", "5 us", "15.7 TFLOP/s", or a bare number in the base unit. Decimal prefixes are
/// powers of 1000, Ki, Mi, Gi and Ti of 1024; a small b is a bit. Error (BadInput): no number, not finite, an unknown
/// unit.
Result<double> parseQuantity(std::string_view text, QuantityKind kind);

} // namespace planloom::import
