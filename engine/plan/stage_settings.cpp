// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/stage_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::plan {

StageSettings settingsOf(const Stage &stage)
{
    const auto &[name, firstLayer, lastLayer, devices, replicaShares, recompute, mesh, shardings, zero, registers,
                 memory] = stage;
    const std::vector<int> sizes = mesh.empty() ? std::vector<int>{static_cast<int>(devices.size())} : mesh;
    return {{sizes, zero, recompute}, replicaShares, registers, memory};
}

std::string textOf(const BodySettings &settings)
{
    return fmt::format("m{} z{} r{}", fmt::join(settings.mesh, "x"), settings.zero,
                       static_cast<int>(settings.recompute));
}

std::string textOf(const StageSettings &settings)
{
    std::string text =
        fmt::format("{} q{} s{}", textOf(settings.body), settings.registers, fmt::join(settings.replicaShares, ","));
    return settings.memory.limits() ? text + " " + textOf(settings.memory) : text;
}

} // namespace planloom::plan
