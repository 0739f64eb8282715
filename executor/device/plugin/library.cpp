// SPDX-License-Identifier: Apache-2.0
#include "executor/device/plugin/library.h"

#include "executor/device/plugin/translate.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace planloom::device {

namespace {

constexpr const char *kLibrary = "libplanloom_cuda.so";
constexpr const char *kVariable = "PLANLOOM_CUDA_PLUGIN";

std::string loaderReason()
{
    const char *why = ::dlerror();
    return why != nullptr ? why : "the loader gives no reason";
}

const char *chosenLibrary()
{
    const char *chosen = std::getenv(kVariable);
    return chosen != nullptr && *chosen != '\0' ? chosen : nullptr;
}

/// What CUDA reads when it starts. Set before main(), as other threads may read the environment later on.
/// - Connections are the queues of the hardware that streams share: with the default of 8, a stream whose message waits
///   for another rank may hold up one that shares its queue.
/// - Devices in the order of their places, as NVML and `nvidia-smi` count them.
[[gnu::constructor]] void prepareEnvironment()
{
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
}

/// Error: the loader's reason why the driver cannot be opened.
Status findDriver()
{
    void *driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr)
        return notFound("no NVIDIA driver is installed (" + loaderReason() + "); GPUs of this machine are not used");
    ::dlclose(driver);
    return {};
}

Result<const PlanloomDeviceTable *> findCudaLibrary()
{
    if (const char *chosen = chosenLibrary())
        return openLibrary(chosen);
    if (const Status driver = findDriver(); !driver)
        return driver.error();
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    for (const std::filesystem::path &path : {folder / kLibrary, folder.parent_path() / "lib" / "planloom" / kLibrary})
        if (std::filesystem::exists(path, none))
            return openLibrary(path.string());
    return notFound(std::string(kLibrary)
                    + " is neither beside the program nor in ../lib/planloom; install it, or name it in " + kVariable);
}

} // namespace

bool mayHaveGpus() { return chosenLibrary() != nullptr || findDriver().ok(); }

Result<const PlanloomDeviceTable *> openLibrary(const std::string &path)
{
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr)
        return notFound("the device library cannot be opened: " + loaderReason());
    void *symbol = ::dlsym(library, PLANLOOM_DEVICE_LIBRARY);
    if (symbol == nullptr)
        return unsupported(path + " is no device library of Planloom: it has no " + PLANLOOM_DEVICE_LIBRARY);
    const PlanloomDeviceTable *table = reinterpret_cast<PlanloomDeviceLibrary>(symbol)();
    if (table == nullptr || table->abi != PLANLOOM_DEVICE_ABI || table->bytes != sizeof(PlanloomDeviceTable))
        return unsupported(path + " has version " + std::to_string(table != nullptr ? table->abi : 0)
                           + " of the device table, this program has " + std::to_string(PLANLOOM_DEVICE_ABI)
                           + "; install both from one release");
    return table;
}

namespace {

/// Another table of the library that has @p devices, by the function @p symbol. @p what: of which it is.
template <class Table>
Result<const Table *> otherTable(const PlanloomDeviceTable &devices, const char *symbol, std::uint32_t abi,
                                 const std::string &none, const std::string &what)
{
    Dl_info place{};
    void *library = ::dladdr(&devices, &place) != 0 ? ::dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    void *function = library != nullptr ? ::dlsym(library, symbol) : nullptr;
    if (function == nullptr)
        return notFound(none);
    const Table *table = reinterpret_cast<const Table *(*)()>(function)();
    if (table == nullptr || table->abi != abi || table->bytes != sizeof(Table))
        return unsupported(std::string(place.dli_fname) + " has version "
                           + std::to_string(table != nullptr ? table->abi : 0) + " of the table of " + what
                           + ", this program " + std::to_string(abi) + "; install both from one release");
    return table;
}

} // namespace

Result<const PlanloomActivityTable *> activityOf(const PlanloomDeviceTable &devices)
{
    return otherTable<PlanloomActivityTable>(devices, PLANLOOM_ACTIVITY_LIBRARY, PLANLOOM_ACTIVITY_ABI,
                                             "the device library records no kernels", "records");
}

Result<const PlanloomCommunicationTable *> communicationOf(const PlanloomDeviceTable &devices)
{
    return otherTable<PlanloomCommunicationTable>(devices, PLANLOOM_COMMUNICATION_LIBRARY, PLANLOOM_COMMUNICATION_ABI,
                                                  "the device library has no communication between GPUs",
                                                  "communication");
}

const Result<const PlanloomDeviceTable *> &cudaLibrary()
{
    static const Result<const PlanloomDeviceTable *> kLibraryFound = findCudaLibrary();
    return kLibraryFound;
}

Result<std::vector<std::string>> cudaDevices()
{
    const auto &library = cudaLibrary();
    if (!library)
        return library.error();
    const PlanloomDeviceTable &table = **library;
    PlanloomError why{};
    const std::int32_t count = table.devices(&why);
    if (count < 0)
        return errorOf(why);
    std::vector<std::string> names;
    for (std::int32_t i = 0; i < count; ++i) {
        PlanloomDescription description{};
        if (table.describe(i, &description, &why) < 0)
            return errorOf(why);
        names.emplace_back(description.name, ::strnlen(description.name, sizeof description.name));
    }
    if (names.empty())
        return notFound("the NVIDIA driver finds no GPU on this machine");
    return names;
}

Result<std::unique_ptr<PluginDevice>> openCudaDevice(int index)
{
    const auto devices = cudaDevices();
    if (!devices)
        return devices.error();
    if (index < 0 || static_cast<std::size_t>(index) >= devices->size())
        return notFound("this machine has " + std::to_string(devices->size())
                        + " CUDA devices, and cuda:" + std::to_string(index) + " was asked for");
    return PluginDevice::open(**cudaLibrary(), index);
}

} // namespace planloom::device
