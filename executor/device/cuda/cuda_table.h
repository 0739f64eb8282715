// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"
#include "executor/device/plugin/table_of.h"

namespace planloom::cuda {

/// The table of the devices that a provider has. kProvider: const Provider &().
template <const Provider &(*kProvider)()>
PlanloomDeviceTable tableOf()
{
    PlanloomDeviceTable t = device::table::tableOfDevices(true);
    t.devices = [](PlanloomError *why) {
        const RuntimeApi &api = kProvider().runtime;
        int count = 0;
        const int error = api.getDeviceCount(&count);
        if (error == kSuccess)
            return int32_t{count};
        device::setError(*why, notFound(std::string("CUDA finds no GPU: ") + api.errorText(error)));
        return int32_t{-1};
    };
    t.describe = [](int32_t index, PlanloomDescription *what, PlanloomError *why) {
        const RuntimeApi &api = kProvider().runtime;
        const int error = api.describe(index, what->name, sizeof what->name, &what->memoryBytes);
        if (error == kSuccess)
            return int32_t{0};
        device::setError(*why, notFound("cuda:" + std::to_string(index) + ": " + api.errorText(error)));
        return int32_t{-1};
    };
    t.open = [](int32_t index, PlanloomError *why) {
        return device::table::made<PlanloomDevice>(why, [&]() -> Result<std::unique_ptr<device::Device>> {
            auto opened = CudaDevice::open(kProvider(), index);
            if (!opened)
                return opened.error();
            return std::unique_ptr<device::Device>(std::move(*opened));
        });
    };
    t.close = [](PlanloomDevice *device) { delete &device::table::of(device); };
    return t;
}

} // namespace planloom::cuda
