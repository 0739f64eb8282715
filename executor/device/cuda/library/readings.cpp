// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/library/readings.h"

#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <map>

namespace planloom::cuda {

namespace {

/// Functions of libnvidia-ml.so.1, whose header is no part of every toolkit: types and numbers are those of its
/// interface.
struct Nvml {
    struct Device; ///< opaque
    static constexpr int kSmClock = 1;
    static constexpr int kMemoryClock = 2;
    static constexpr int kGpuSensor = 0;

    int (*init)() = nullptr;
    int (*deviceOf)(const char *busId, Device **device) = nullptr;
    int (*clock)(Device *device, int which, unsigned *megahertz) = nullptr;
    int (*power)(Device *device, unsigned *milliwatts) = nullptr;
    int (*temperature)(Device *device, int sensor, unsigned *celsius) = nullptr;

    /// False: it is not there, too old, or does not start.
    bool open()
    {
        void *library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        return library != nullptr && find(library, "nvmlInit_v2", init)
            && find(library, "nvmlDeviceGetHandleByPciBusId_v2", deviceOf)
            && find(library, "nvmlDeviceGetClockInfo", clock) && find(library, "nvmlDeviceGetPowerUsage", power)
            && find(library, "nvmlDeviceGetTemperature", temperature) && init() == 0;
    }
    template <class Function>
    static bool find(void *library, const char *name, Function &function)
    {
        function = reinterpret_cast<Function>(::dlsym(library, name));
        return function != nullptr;
    }
    /// nullptr: NVML does not know it.
    [[nodiscard]] Device *device(std::int32_t number) const
    {
        char busId[32] = {};
        Device *found = nullptr;
        if (cudaDeviceGetPCIBusId(busId, sizeof busId, number) != cudaSuccess || deviceOf(busId, &found) != 0)
            return nullptr;
        return found;
    }
};

/// What @p read writes, -1 if it fails.
template <class Read>
std::int32_t known(Read read)
{
    unsigned value = 0;
    return read(&value) == 0 ? static_cast<std::int32_t>(value) : -1;
}

} // namespace

PlanloomReadings readingsOf(std::int32_t device)
{
    static Nvml nvml;
    static const bool isOpen = nvml.open(); // as long as the process lives
    static std::map<std::int32_t, Nvml::Device *> devices;
    if (!isOpen)
        return {-1, -1, -1, -1};
    const auto [found, isNew] = devices.try_emplace(device, nullptr);
    if (isNew)
        found->second = nvml.device(device);
    if (found->second == nullptr)
        return {-1, -1, -1, -1};
    Nvml::Device *of = found->second;
    const std::int32_t milliwatts = known([&](unsigned *value) { return nvml.power(of, value); });
    return {known([&](unsigned *value) { return nvml.clock(of, Nvml::kSmClock, value); }),
            known([&](unsigned *value) { return nvml.clock(of, Nvml::kMemoryClock, value); }),
            milliwatts < 0 ? -1 : milliwatts / 1000,
            known([&](unsigned *value) { return nvml.temperature(of, Nvml::kGpuSensor, value); })};
}

} // namespace planloom::cuda
