// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/failpoint.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <random>
#include <string>
#include <string_view>

/// The faults in a round of tst_chaos, and their times: a function of seed and round.
namespace planloom::testing {

constexpr std::int64_t kSteps = 18;
constexpr std::int64_t kEvery = 3; ///< steps between checkpoints
constexpr int kKeep = 2;

/// How the same model is laid out: on one rank, or on two as replicas that share the optimizer's state (ZeRO), as
/// stages, with split tensors.
enum class Layout : std::uint8_t { One, Replicas, Stages, Tensors };
constexpr std::array<const char *, 4> kLayoutNames{"one rank", "replicas", "stages", "split tensors"};
inline const char *name(Layout layout) { return kLayoutNames[static_cast<std::size_t>(layout)]; }

enum class Kind : std::uint8_t { KillRank, KillAgent, KillClient, StopRank, FullDisk, CutShard, Error };
constexpr std::array<const char *, 7> kKindNames{"kill -9 of a rank",
                                                 "kill -9 of the agent",
                                                 "kill -9 of the client",
                                                 "SIGSTOP of a rank",
                                                 "full disk",
                                                 "shard cut or changed",
                                                 "I/O error"};
inline const char *name(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
constexpr unsigned kKinds = 7;
constexpr unsigned kKindsAnywhere = 6; ///< all but the error, which needs a place

struct Fault {
    Kind kind = Kind::KillRank;
    std::string_view point;     ///< a failpoint; empty: at a moment
    int pass = 1;               ///< of the failpoint
    bool whenResumed = false;   ///< a first client is killed before; it happens to the one that goes on
    bool starting = false;      ///< at a moment before there are steps
    std::size_t afterLines = 0; ///< of metrics.jsonl
    int milliseconds = 0;       ///< and then so many more
    int restarts = 0;
    bool letGo = true;        ///< ranks suspended at the failpoint, except the victim, continue
    double room = 0;          ///< on the disk, as a share of what a run needs
    bool lateMetrics = false; ///< the agent hears of steps long after they are done
    bool smallFiles = false;  ///< not the disk is small, but the largest file
    Layout first = Layout::One;
    Layout then = Layout::One; ///< resumed
    unsigned pick = 0;         ///< which of several

    [[nodiscard]] bool inAgent() const
    {
        return point.starts_with("lease.") || point == "metrics.write";
    } ///< it passes the failpoint, no rank does
    [[nodiscard]] std::string armed() const
    {
        const std::string late = lateMetrics && point != "metrics.send" ? "metrics.send=sleep:100;" : "";
        if (point.empty())
            return late;
        const char *action = kind == Kind::Error ? "error"
            : kind == Kind::FullDisk             ? "full"
                                                 : "stop"; // and then it is killed, or another one
        return fmt::format("{}{}={}@{}", late, point, action, pass);
    }
    [[nodiscard]] std::string text() const
    {
        const std::string where = !point.empty() ? fmt::format("at {}, pass {}", point, pass)
            : starting                           ? fmt::format("{} ms after the start", milliseconds)
                                                 : fmt::format("after {} steps", afterLines);
        return fmt::format("{} {}{}, {}{}", name(kind), where, whenResumed ? ", resumed" : "", name(first),
                           then == first ? "" : fmt::format(", then {}", name(then)));
    }
};

/// Of ten rounds, three are at a moment that only the seed knows, and seven, one of each kind, at seven failpoints: in
/// 220 rounds each kind happens at each of 22 failpoints.
inline Fault faultOf(unsigned seed, unsigned round)
{
    constexpr unsigned kAnywhere = 3;
    std::mt19937 random(seed * 7919 + round);
    const auto upTo = [&random](unsigned most) { return static_cast<unsigned>(random() % most); };
    Fault fault;
    const unsigned block = round / (kAnywhere + kKinds);
    const unsigned place = round % (kAnywhere + kKinds);
    if (!failpointsWork()) {
        fault.kind = static_cast<Kind>(round % kKindsAnywhere);
    } else if (place < kAnywhere) {
        fault.kind = static_cast<Kind>((block * kAnywhere + place) % kKindsAnywhere);
    } else {
        fault.kind = static_cast<Kind>(place - kAnywhere);
        fault.point = failpoints()[(block + (place - kAnywhere) * 3 + seed) % failpoints().size()];
    }
    fault.first = static_cast<Layout>(upTo(kLayoutNames.size()));
    fault.then = upTo(3) == 0 ? static_cast<Layout>(upTo(kLayoutNames.size())) : fault.first;
    fault.pick = random();
    fault.room = 0.02 + 0.98 * upTo(1000) / 1000;
    fault.smallFiles = upTo(4) == 0; // that is seldom more than a start that fails
    fault.letGo = upTo(4) != 0;
    fault.lateMetrics = failpointsWork() && upTo(3) == 0;
    fault.milliseconds = static_cast<int>(upTo(40));
    fault.afterLines = 1 + upTo(kSteps - 3);
    if (fault.kind == Kind::KillRank || fault.kind == Kind::StopRank)
        fault.restarts = upTo(2) == 0 ? 3 : 0; // on a busy machine a rank may be taken for hung
    if (fault.kind == Kind::StopRank)
        fault.restarts = 3;
    if (fault.point.empty()) {
        fault.starting = fault.kind != Kind::FullDisk && fault.kind != Kind::CutShard && upTo(4) == 0;
        fault.milliseconds = fault.starting ? static_cast<int>(upTo(1000)) : fault.milliseconds;
        return fault;
    }
    const bool restoring = fault.point == "checkpoint.restore-file";
    fault.whenResumed = restoring || upTo(4) == 0;
    fault.afterLines = 7 + upTo(4); // of the first client's: there is a checkpoint, and there are some to come
    if (!restoring && !fault.point.starts_with("lease.") && !fault.whenResumed)
        fault.pass = 1 + static_cast<int>(upTo(fault.point.starts_with("checkpoint.prune") ? 2 : 3));
    return fault;
}

} // namespace planloom::testing
