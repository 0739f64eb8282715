// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"
#include "executor/device/plugin/abi.h"

#include <map>
#include <memory>
#include <span>
#include <string>

namespace planloom::device {

/// A device behind a C table. Operators and update rules that its library cannot compute run on the host (host_work.h).
class PluginDevice : public Device {
public:
    /// Device @p index of the library, whose table must outlive the process's use of it. Errors: those of the library.
    static Result<std::unique_ptr<PluginDevice>> open(const PlanloomDeviceTable &table, int index);

    /// As the library describes it: "NVIDIA H100 80GB HBM3".
    [[nodiscard]] virtual const std::string &name() const = 0;
    /// The block of Space::Device that @p address lies in; empty: none.
    [[nodiscard]] virtual std::span<std::byte> blockOf(const void *address) const = 0;
    [[nodiscard]] bool owns(const void *address) const { return !blockOf(address).empty(); }
    /// What has been made so far that the host computes: operator types and update rules ("lamb"), and how many.
    [[nodiscard]] virtual std::map<std::string, std::int64_t> onHost() const = 0;

    // For the library's other tables.
    [[nodiscard]] virtual PlanloomDevice *handle() const = 0;
    /// Of a queue of this device.
    [[nodiscard]] virtual PlanloomQueue *handleOf(Queue &queue) const = 0;
};

} // namespace planloom::device
