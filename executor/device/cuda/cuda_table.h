// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"
#include "executor/device/plugin/table_of.h"

namespace planloom::cuda {

/// CUDA's numbers of the devices that plans can train on. Errors: NotFound (there is none at all), Unsupported (all are
/// too old).
inline Result<std::vector<int>> usableDevices(const RuntimeApi &api)
{
    int count = 0;
    if (const int error = api.getDeviceCount(&count); error != kSuccess)
        return notFound(std::string("CUDA finds no GPU: ") + api.errorText(error));
    std::vector<int> usable;
    std::string old;
    for (int i = 0; i < count; ++i) {
        int capability = 0;
        if (const int error = api.capabilityOf(i, &capability); error != kSuccess)
            return notFound("cuda:" + std::to_string(i) + ": " + api.errorText(error));
        if (capability >= kOldestCapability)
            usable.push_back(i);
        else
            old = "GPU " + std::to_string(i) + " has compute capability " + std::to_string(capability / 10) + "."
                + std::to_string(capability % 10);
    }
    if (usable.empty() && count > 0)
        return unsupported(old + "; plans train on GPUs of 8.0 (Ampere) and newer, and on processors");
    return usable;
}
/// CUDA's number of device @p number of the table; -1: there is none.
inline int indexOf(const RuntimeApi &api, std::int32_t number)
{
    const auto usable = usableDevices(api);
    const auto at = static_cast<std::size_t>(number);
    return usable && at < usable->size() ? (*usable)[at] : -1;
}

/// The table of the devices that a provider has. kProvider: const Provider &().
template <const Provider &(*kProvider)()>
PlanloomDeviceTable tableOf()
{
    PlanloomDeviceTable t = device::table::tableOfDevices(true);
    t.devices = [](PlanloomError *why) {
        const auto usable = usableDevices(kProvider().runtime);
        if (usable)
            return static_cast<int32_t>(usable->size());
        device::setError(*why, usable.error());
        return int32_t{-1};
    };
    t.describe = [](int32_t number, PlanloomDescription *what, PlanloomError *why) {
        const RuntimeApi &api = kProvider().runtime;
        const int index = indexOf(api, number);
        const int error = api.describe(index, what->name, sizeof what->name, &what->memoryBytes);
        if (error == kSuccess)
            return int32_t{0};
        device::setError(*why, notFound("cuda:" + std::to_string(index) + ": " + api.errorText(error)));
        return int32_t{-1};
    };
    t.open = [](int32_t number, PlanloomError *why) {
        return device::table::made<PlanloomDevice>(why, [&]() -> Result<std::unique_ptr<device::Device>> {
            auto opened = CudaDevice::open(kProvider(), indexOf(kProvider().runtime, number));
            if (!opened)
                return opened.error();
            return std::unique_ptr<device::Device>(std::move(*opened));
        });
    };
    t.close = [](PlanloomDevice *device) { delete &device::table::of(device); };
    return t;
}

} // namespace planloom::cuda
