// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/activity_abi.h"
#include "executor/device/plugin/plugin_device.h"

#include <memory>
#include <string>
#include <vector>

namespace planloom::device {

/// Opens the library @p path, for good, and compares its ABI. Errors: NotFound, Unsupported (another version), Failed.
Result<const PlanloomDeviceTable *> openLibrary(const std::string &path);

/// libplanloom_cuda.so: the file that the environment variable PLANLOOM_CUDA_PLUGIN names, or else the one beside the
/// program or in ../lib/planloom. Looked for once. Errors: NotFound (no driver, no library), those of openLibrary.
const Result<const PlanloomDeviceTable *> &cudaLibrary();

/// Whether this machine may have GPUs: it has a driver, or PLANLOOM_CUDA_PLUGIN names a library. Opens neither.
bool mayHaveGpus();

/// The table of records of the library that has @p devices. Errors: NotFound (it records nothing), Unsupported (another
/// version).
Result<const PlanloomActivityTable *> activityOf(const PlanloomDeviceTable &devices);

/// The names of this machine's CUDA devices that plans can train on. Error: why there is none, in one line.
Result<std::vector<std::string>> cudaDevices();

/// Device @p index of cudaLibrary().
Result<std::unique_ptr<PluginDevice>> openCudaDevice(int index);

} // namespace planloom::device
