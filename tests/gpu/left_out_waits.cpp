// SPDX-License-Identifier: Apache-2.0
#include "gpu/left_out_waits.h"

#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace planloom::test {
namespace {

constexpr std::string_view kList = "list:";
constexpr std::string_view kWithout = "without:";

/// Where the program's own code lies.
struct Code {
    std::uintptr_t base = 0;
    std::uintptr_t end = 0;
    static int take(dl_phdr_info *info, std::size_t /*size*/, void *code)
    {
        auto &own = *static_cast<Code *>(code);
        own.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
            own.end =
                std::max<std::uintptr_t>(own.end, own.base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 1; // the program comes first, libraries behind it
    }
    Code() { dl_iterate_phdr(take, this); }
};

class Waits {
public:
    Waits()
    {
        const char *asked = std::getenv("PLANLOOM_WAITS");
        const std::string_view text = asked == nullptr ? "" : asked;
        if (text.starts_with(kList))
            m_file.open(std::string(text.substr(kList.size())), std::ios::app);
        else if (text.starts_with(kWithout))
            m_without = std::strtoull(std::string(text.substr(kWithout.size())).c_str(), nullptr, 16);
    }
    [[nodiscard]] bool any() const { return m_without != 0 || m_file.is_open(); }

    bool leavesOut()
    {
        std::array<void *, kDeepest> frames{};
        const int count = ::backtrace(frames.data(), kDeepest);
        std::string way;
        bool found = false;
        for (int i = 0; i < count; ++i) {
            const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
            if (address < m_code.base || address >= m_code.end)
                continue;
            found = found || address - m_code.base == m_without;
            std::array<char, 20> digits{};
            std::snprintf(digits.data(), digits.size(), "%llx ",
                          static_cast<unsigned long long>(address - m_code.base));
            way += digits.data();
        }
        if (m_file.is_open()) {
            const std::scoped_lock lock(m_mutex);
            if (m_seen.insert(way).second)
                m_file << way << std::endl; // at once: the program may be killed
        }
        return found;
    }

private:
    static constexpr int kDeepest = 16;
    Code m_code;
    std::uintptr_t m_without = 0;
    std::mutex m_mutex;
    std::ofstream m_file;
    std::set<std::string> m_seen;
};

} // namespace

bool leavesOutWait()
{
    static Waits waits;
    return waits.any() && waits.leavesOut();
}

} // namespace planloom::test
