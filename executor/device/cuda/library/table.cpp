// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/cuda_table.h"
#include "executor/device/cuda/library/libraries.h"

extern "C" __attribute__((visibility("default"))) const PlanloomDeviceTable *planloomDeviceTable();
const PlanloomDeviceTable *planloomDeviceTable()
{
    static const PlanloomDeviceTable kTable = planloom::cuda::tableOf<planloom::cuda::installedLibraries>();
    return &kTable;
}
