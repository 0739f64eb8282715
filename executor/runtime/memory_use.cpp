// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/memory_use.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace planloom::runtime {

MemoryUse memoryUse()
{
    constexpr std::int64_t kKibi = 1024;
    MemoryUse use;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        const auto valueOf = [&line](const char *name, std::int64_t &value) {
            if (line.starts_with(name))
                value = std::atoll(line.c_str() + std::char_traits<char>::length(name)) * kKibi;
        };
        valueOf("VmHWM:", use.process);
        valueOf("RssShmem:", use.shared);
    }
    return use;
}

} // namespace planloom::runtime
