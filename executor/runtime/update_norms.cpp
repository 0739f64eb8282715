// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/update_norms.h"

#include <algorithm>

namespace planloom::runtime {

Result<UpdateNorms> UpdateNorms::create(const program::Program &program, int norms, device::Device &device)
{
    UpdateNorms made;
    if (norms == 0)
        return made;
    for (const std::string_view parameter : program.parameters())
        made.m_rows.emplace(parameter, static_cast<std::int32_t>(made.m_rows.size()));
    made.m_count = static_cast<std::int64_t>(made.m_rows.size()) * norms;
    for (device::Memory *table : {&made.m_own, &made.m_all}) {
        auto memory = device.allocate(device::Space::Host, made.m_count * static_cast<std::int64_t>(sizeof(double)));
        if (!memory)
            return memory.error();
        *table = std::move(*memory);
    }
    return made;
}

std::int32_t UpdateNorms::rowOf(const std::string &parameter) const
{
    return m_rows.empty() ? 0 : m_rows.at(parameter);
}

void UpdateNorms::beginAll() const { std::copy_n(own(), m_count, all()); }

} // namespace planloom::runtime
