// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/device/device.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace planloom::runtime {

/// The squared norms that an update rule takes of each parameter tensor: a row per parameter of the Program, the same
/// on every rank, a number per norm of the formula. Own: of the elements that this rank counts. All: of all ranks. Host
/// memory of the device. Thread contract: one thread.
class UpdateNorms {
public:
    /// Empty where @p norms is 0. Errors: those of Device::allocate.
    static Result<UpdateNorms> create(const program::Program &program, int norms, device::Device &device);

    /// Of a parameter of the Program; 0 where there are no norms.
    [[nodiscard]] std::int32_t rowOf(const std::string &parameter) const;
    [[nodiscard]] std::int64_t count() const { return m_count; }
    [[nodiscard]] double *own() const { return reinterpret_cast<double *>(m_own.data()); }
    [[nodiscard]] double *all() const { return reinterpret_cast<double *>(m_all.data()); }
    /// Makes all what this rank has, before ranks are summed up.
    void beginAll() const;

private:
    std::unordered_map<std::string, std::int32_t> m_rows;
    std::int64_t m_count = 0;
    device::Memory m_own;
    device::Memory m_all;
};

} // namespace planloom::runtime
