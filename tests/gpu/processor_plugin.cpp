// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/cpu_device.h"
#include "executor/device/plugin/table_of.h"

#include <cstdlib>

// A device library that offers the processor. What the environment variable PLANLOOM_TEST_HOST_OPERATOR names, an
// operator type or a rule of update, it does not compute; nor anything where that is "*".

namespace {

using namespace planloom;
using namespace planloom::device;

bool refuses(const char *type)
{
    const char *refused = std::getenv("PLANLOOM_TEST_HOST_OPERATOR");
    return refused != nullptr && (std::string(refused) == type || std::string(refused) == "*");
}

PlanloomKernel *makeOffered(PlanloomDevice *device, const PlanloomOperator *what, PlanloomError *why) noexcept
{
    if (!refuses(what->type))
        return table::makeKernel(device, what, why);
    setError(*why, unsupported("refused"));
    return nullptr;
}

PlanloomUpdates *makeOfferedUpdates(PlanloomDevice *device, const PlanloomFormula *formula,
                                    const PlanloomUpdateRange *ranges, int64_t count, PlanloomError *why) noexcept
{
    if (!refuses(formula->rule))
        return table::makeUpdates(device, formula, ranges, count, why);
    setError(*why, unsupported("refused"));
    return nullptr;
}

PlanloomDeviceTable makeTable()
{
    PlanloomDeviceTable t = table::tableOfDevices(std::getenv("PLANLOOM_TEST_HOST_OPERATOR") == nullptr);
    t.devices = [](PlanloomError *) { return int32_t{1}; };
    t.describe = [](int32_t index, PlanloomDescription *what, PlanloomError *why) -> int32_t {
        if (index != 0) {
            setError(*why, notFound("there is one device"));
            return -1;
        }
        *what = {"processor behind a table", 1 << 30};
        return 0;
    };
    t.open = [](int32_t, PlanloomError *) { return reinterpret_cast<PlanloomDevice *>(&cpuDevice()); };
    t.close = [](PlanloomDevice *) {};
    t.makeKernel = makeOffered;
    t.makeUpdates = makeOfferedUpdates;
    return t;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const PlanloomDeviceTable *planloomDeviceTable();
const PlanloomDeviceTable *planloomDeviceTable()
{
    static PlanloomDeviceTable kTable;
    kTable = makeTable();
    return &kTable;
}
