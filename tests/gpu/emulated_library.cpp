// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulated_activity.h"
#include "gpu/emulated_gpu.h"

// The emulated GPU as a device library, for whole programs.
extern "C" __attribute__((visibility("default"))) const PlanloomDeviceTable *planloomDeviceTable();
const PlanloomDeviceTable *planloomDeviceTable()
{
    planloom::test::EmulatedGpu::set({});
    return &planloom::test::EmulatedGpu::table();
}

extern "C" __attribute__((visibility("default"))) const PlanloomActivityTable *planloomActivityTable();
const PlanloomActivityTable *planloomActivityTable() { return &planloom::test::EmulatedActivity::table(); }
