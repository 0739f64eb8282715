// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/boxing.h"
#include "engine/sharding/signatures.h"

namespace planloom::sharding {

double boxingBytes(const Sbp &from, const Sbp &to, double bytes, int parts)
{
    const double others = parts - 1;
    if (from == to || isBroadcast(from) || isPartial(to))
        return 0;
    if (isPartial(from))
        return (isBroadcast(to) ? 2 : 1) * others * bytes;
    if (isSplit(to) && to.axis != from.axis)
        return others / parts * bytes;
    return others * bytes;
}

} // namespace planloom::sharding
