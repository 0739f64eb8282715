// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulated_activity.h"
#include "gpu/emulated_gpu.h"
#include "gpu/emulated_nccl.h"

#include <cstdlib>
#include <string>

// The emulated GPU as a device library, for whole programs. The environment variable PLANLOOM_TEST_KERNELS says what is
// wrong with its records: missing, other (profiler) or lossy; PLANLOOM_TEST_GPU what is wrong with itself: memory (too
// little), driver (none), old (too old), abi (another one), after:KERNELS:ERROR, or copies: processes may open each
// other's memory. PLANLOOM_TEST_GPUS: how many GPUs there are, 1 by default.

namespace {

planloom::test::EmulatedActivity::Faults faultsOfEnvironment()
{
    const char *value = std::getenv("PLANLOOM_TEST_KERNELS");
    const std::string fault = value != nullptr ? value : "";
    planloom::test::EmulatedActivity::Faults faults;
    faults.missing = fault == "missing";
    if (fault == "other")
        faults.otherSubscriber = "CUPTI for Nsight Systems";
    if (fault == "lossy")
        faults.dropEach = 7;
    return faults;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const PlanloomDeviceTable *planloomDeviceTable();
const PlanloomDeviceTable *planloomDeviceTable()
{
    using planloom::test::EmulatedGpu;
    const char *value = std::getenv("PLANLOOM_TEST_GPU");
    const std::string fault = value != nullptr ? value : "";
    EmulatedGpu::Settings settings;
    if (const char *devices = std::getenv("PLANLOOM_TEST_GPUS"))
        settings.devices = std::atoi(devices);
    settings.exports = settings.opens = fault == "copies";
    if (fault == "memory")
        settings.memoryBytes = (std::int64_t{32} << 20) + 100000; // the workspace of products and little more
    if (fault == "driver")
        settings.devices = 0;
    if (fault == "old")
        settings.capability = 70;
    EmulatedGpu::set(settings);
    if (fault.starts_with("after:"))
        EmulatedGpu::breakDownAfter(std::stoll(fault.substr(6)), std::stoi(fault.substr(fault.rfind(':') + 1)));
    planloom::test::EmulatedActivity::set(faultsOfEnvironment());
    static PlanloomDeviceTable kOther = EmulatedGpu::table();
    ++kOther.abi;
    return fault == "abi" ? &kOther : &EmulatedGpu::table();
}

extern "C" __attribute__((visibility("default"))) const PlanloomActivityTable *planloomActivityTable();
const PlanloomActivityTable *planloomActivityTable() { return &planloom::test::EmulatedActivity::table(); }

extern "C" __attribute__((visibility("default"))) const PlanloomCommunicationTable *planloomCommunicationTable();
const PlanloomCommunicationTable *planloomCommunicationTable() { return &planloom::test::EmulatedNccl::table(); }
