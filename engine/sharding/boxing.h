// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/sbp.h"

namespace planloom::sharding {

/// Bytes that all devices of a line together send to turn @p from into @p to, for a tensor of @p bytes on @p parts
/// devices: the boxing table of OneFlow (Yuan et al., 2021, §3.2). Ring traffic of one device is this divided by
/// @p parts. Splits of one axis with different segments go through B.
double boxingBytes(const Sbp &from, const Sbp &to, double bytes, int parts);

} // namespace planloom::sharding
