// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/simulate/live_memory.h"

#include <map>
#include <string_view>
#include <vector>

namespace planloom::simulate {

/// A task of the rank as the clock ran it.
struct RanTask {
    TaskId task;
    double begin = 0;
    double end = 0;
};

/// Adds names and blocks to a LiveMemory.
class BlockList {
public:
    explicit BlockList(LiveMemory &memory) : m_memory(memory) {}
    std::int32_t nameOf(std::string_view text);
    void add(const LiveBlock &block) { m_memory.blocks.push_back(block); }
    /// @p parts of the range [begin, begin + bytes), with padding where they leave some out; what lies outside of it,
    /// or on another part, is cut off.
    void addRange(std::int64_t begin, std::int64_t bytes, std::vector<LiveBlock> parts, const LiveBlock &padding);

private:
    LiveMemory &m_memory;
    std::map<std::string, std::int32_t, std::less<>> m_numbers;
};

/// What stays in the arena of @p rank from step to step: Rank::persistentBytes, to the byte.
void addPersistentBlocks(BlockList &list, const program::Program &program, RankId rank, double end);

/// What lies in the pool of the memory policy of @p rank, @p ran in order of begin; nothing where it has none. Also the
/// optimizer's states that come from the host for the update.
void addPooledBlocks(BlockList &list, const program::Program &program, RankId rank, const std::vector<RanTask> &ran,
                     double end);

} // namespace planloom::simulate
