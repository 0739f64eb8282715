// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/foreign_kinds.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace planloom::import {

namespace {

using trace::Kind;
using trace::KindInfo;
using trace::Work;

/// Collectives that no plan of ours has.
constexpr const char *kBroadcast = "broadcast";
constexpr const char *kReduce = "reduce";

/// Kineto's categories, and those.
const std::vector<KindInfo> &profilerKinds()
{
    static const std::vector<KindInfo> kinds{
        {"kernel", Work::Compute, "sky", "plain", "kernel"},
        {"gpu_memcpy", Work::Communication, "purple", "dots", "memory copy"},
        {"gpu_memset", Work::Host, "grey", "dots", "memory set"},
        {"cpu_op", Work::Host, "green", "plain", "operator"},
        {"cuda_runtime", Work::Host, "yellow", "plain", "runtime call"},
        {"cuda_driver", Work::Host, "yellow", "plain", "runtime call"},
        {"user_annotation", Work::Host, "grey", "lines", "annotation"},
        {"gpu_user_annotation", Work::Host, "grey", "lines", "annotation"},
        {"python_function", Work::Host, "grey", "diagonal", "Python"},
        {kBroadcast, Work::Communication, "purple", "lines", kBroadcast},
        {kReduce, Work::Communication, "purple", "diagonal", kReduce},
    };
    return kinds;
}

std::optional<Kind> collective(std::string_view name)
{
    static constexpr std::array<std::pair<std::string_view, Kind>, 5> kNames{{{"AllReduce", Kind::AllReduce},
                                                                              {"ReduceScatter", Kind::ReduceScatter},
                                                                              {"AllGather", Kind::AllGather},
                                                                              {"AllToAll", Kind::AllToAll},
                                                                              {"SendRecv", Kind::Send}}};
    if (name.find("nccl") == std::string_view::npos)
        return std::nullopt;
    for (const auto &[part, kind] : kNames) {
        if (name.find(part) != std::string_view::npos)
            return kind;
    }
    return std::nullopt;
}

} // namespace

ForeignKinds::ForeignKinds() : m_kinds(trace::standardKinds())
{
    m_kinds.insert(m_kinds.end(), profilerKinds().begin(), profilerKinds().end());
}

Kind ForeignKinds::of(std::string_view category, std::string_view name)
{
    constexpr std::size_t kMost = 200;
    if (category == "kernel") {
        if (const auto found = collective(name))
            return *found;
        if (name.find("nccl") != std::string_view::npos && name.find("Broadcast") != std::string_view::npos)
            category = kBroadcast;
        else if (name.find("nccl") != std::string_view::npos && name.find("_Reduce_") != std::string_view::npos)
            category = kReduce;
    }
    const auto called = [&](const KindInfo &kind) { return kind.name == category; };
    const auto found = std::find_if(m_kinds.begin(), m_kinds.end(), called);
    const auto row = static_cast<std::size_t>(found - m_kinds.begin());
    if (found == m_kinds.end()) {
        if (category.empty() || m_kinds.size() >= kMost)
            return Kind::Other;
        m_kinds.push_back({std::string(category), Work::Host, "grey", "plain", {}});
    }
    return static_cast<Kind>(row);
}

} // namespace planloom::import
