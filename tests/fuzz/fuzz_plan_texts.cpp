// SPDX-License-Identifier: Apache-2.0
// The small languages that stand in options and plans, one per first byte: shardings, annotations, losses, what an
// Auto-MAP search left.
#include "engine/import/loss/choice.h"
#include "engine/plan/annotation.h"
#include "engine/sharding/sbp.h"
#include "planners/automap/resume.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace planloom;

/// Accepted input must survive a round trip.
template <class Value, class Read>
void mustReturn(const Result<Value> &read, Read again)
{
    if (!read)
        return;
    const std::string written = toText(*read);
    const Result<Value> second = again(written);
    if (!second || toText(*second) != written)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size == 0)
        return 0;
    const std::string text(reinterpret_cast<const char *>(data) + 1, size - 1);
    switch (data[0]) {
    case 's': mustReturn(sharding::fromText(text), sharding::fromText); break;
    case 'a': mustReturn(plan::annotationFromText(text), plan::annotationFromText); break;
    case 'l': mustReturn(import::lossFromText(text), import::lossFromText); break;
    case 'm': mustReturn(planners::automap::memoryFrom(text), planners::automap::memoryFrom); break;
    default: break;
    }
    return 0;
}
