// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/bridge.h"

namespace planloom::planners::whale {
namespace {

/// A split task graph reads its whole input unless it is told by an axis that it reads a part.
bool takesPart(const Layout &layout)
{
    return layout.parts > 1 && (layout.kind == plan::Annotation::Kind::Replicate || layout.axis > 0);
}

int axisOf(const Layout &layout) { return layout.kind == plan::Annotation::Kind::Replicate ? 0 : layout.axis; }

} // namespace

Bridge bridgeBetween(const Layout &producer, const Layout &consumer, double bytes)
{
    Bridge bridge;
    const bool cut = takesPart(producer);
    const bool wanted = takesPart(consumer);
    // Runs of samples go directly to the devices that need them, however many there are on each side; pieces of a
    // tensor's axis must be the same pieces.
    const bool alike =
        axisOf(producer) == axisOf(consumer) && (axisOf(producer) == 0 || producer.parts == consumer.parts);
    if (cut && wanted && alike) {
        bridge.fused = true;
        return bridge;
    }
    bridge.gathers = cut;
    bridge.partitions = wanted;
    if (cut)
        bridge.bytes = bytes * static_cast<double>(producer.parts - 1) / static_cast<double>(producer.parts);
    return bridge;
}

} // namespace planloom::planners::whale
