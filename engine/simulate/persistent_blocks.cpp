// SPDX-License-Identifier: Apache-2.0
// What stays in the arena from step to step, as blocks: parameters, gradients, states, constants.
#include "engine/compile/buckets.h"
#include "engine/compile/layout.h"
#include "engine/simulate/live_blocks.h"

#include <algorithm>

namespace planloom::simulate {
namespace {

using program::Bucket;

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kBFloatBytes = 2;

/// Collects the persistent blocks of one rank.
class PersistentBlocks {
public:
    PersistentBlocks(BlockList &list, const program::Program &program, RankId rank, double end)
        : m_list(list),
          m_program(program),
          m_rank(rank),
          m_end(end)
    {
    }

    void add()
    {
        for (const Bucket &bucket : m_program.buckets) {
            const program::Team &team = m_program.team(bucket.team);
            const auto member = std::lower_bound(team.ranks.begin(), team.ranks.end(), m_rank);
            if (member == team.ranks.end() || *member != m_rank)
                continue;
            const auto at = static_cast<std::size_t>(member - team.ranks.begin());
            if (bucket.table.valid())
                addTable(m_program.tables[bucket.table.index()], at);
            else
                addBucket(bucket, team.size(), team.position(m_rank), at);
        }
        for (const BodyId body : m_program.ranks[m_rank.index()].bodies)
            for (const program::PersistentTensor &held : m_program.body(body).persistent)
                if (held.kind != program::PersistentTensor::Kind::Parameter)
                    part(BlockKind::Constant, held.name, held.offset, held.count * graph::sizeOf(held.type));
        LiveBlock padding = block(BlockKind::Padding, {});
        const bool complete = m_program.ranks[m_rank.index()].bodies.empty()
            || !m_program.body(m_program.ranks[m_rank.index()].bodies.front()).forwardPlaces.empty();
        padding.name = m_list.nameOf(complete ? "alignment" : "alignment, constants and states of the model");
        m_list.addRange(0, m_program.ranks[m_rank.index()].persistentBytes, std::move(m_parts), padding);
    }

private:
    [[nodiscard]] LiveBlock block(BlockKind kind, std::string_view name)
    {
        LiveBlock made;
        made.kind = kind;
        made.name = name.empty() ? -1 : m_list.nameOf(name);
        made.end = m_end;
        return made;
    }

    void part(BlockKind kind, std::string_view name, std::int64_t offset, std::int64_t bytes)
    {
        if (offset < 0 || bytes <= 0)
            return;
        LiveBlock made = block(kind, name);
        made.offset = offset;
        made.bytes = bytes;
        m_parts.push_back(made);
    }

    /// Tensors of a bucket's size at @p offset, of which the member has what ZeRO leaves it at @p level: a part for
    /// each of the bucket's parameters that reaches into that.
    void parts(BlockKind kind, const Bucket &bucket, const compile::Shard &shard, std::int64_t offset,
               std::int64_t size)
    {
        if (offset < 0)
            return;
        for (const Bucket::Entry &entry : bucket.entries) {
            const std::int64_t begin = std::max(entry.at, shard.begin);
            const std::int64_t end = std::min(entry.at + entry.elements, shard.begin + shard.count);
            if (begin < end)
                part(kind, entry.parameter, offset + (begin - shard.begin) * size, (end - begin) * size);
        }
    }

    void addBucket(const Bucket &bucket, std::size_t members, std::size_t position, std::size_t at)
    {
        const auto shard = [&](int level) { return compile::shardOf(bucket, members, position, level); };
        const bool copied = bucket.type == graph::DType::BF16;
        parts(BlockKind::Parameter, bucket, shard(copied ? 1 : 3), bucket.parameters[at], kFloatBytes);
        if (copied)
            parts(BlockKind::ParameterCopy, bucket, shard(3), bucket.copies[at], kBFloatBytes);
        parts(BlockKind::Gradient, bucket, shard(2), bucket.gradients[at], kFloatBytes);
        if (bucket.zero == 1)
            parts(BlockKind::Gradient, bucket, shard(1), bucket.sums[at], kFloatBytes);
        for (const std::vector<std::int64_t> &state : bucket.states)
            parts(BlockKind::OptimizerState, bucket, shard(1), state[at], kFloatBytes);
        const compile::Shard whole{0, bucket.elements};
        parts(BlockKind::Average, bucket, whole, bucket.averages[at], kFloatBytes);
        parts(BlockKind::Average, bucket, whole, bucket.snapshots[at], kFloatBytes);
    }

    void addTable(const program::Table &table, std::size_t at)
    {
        const program::Table::Member &member = table.members[at];
        const auto floats = [&](BlockKind kind, std::int64_t offset, std::int64_t count) {
            part(kind, table.parameter, offset, count * kFloatBytes);
        };
        const std::int64_t held = member.rows() * member.width();
        const std::int64_t updated = table.updatedRows(member) * member.width();
        floats(BlockKind::Parameter, member.held, held);
        for (const std::int64_t state : member.states)
            floats(BlockKind::OptimizerState, state, held);
        floats(BlockKind::Rows, member.own, table.ownNumbers());
        floats(BlockKind::Rows, member.others, table.otherNumbers(member));
        floats(BlockKind::Rows, member.delayedOwn, table.ownNumbers());
        floats(BlockKind::Rows, member.delayedOthers, table.otherNumbers(member));
        floats(BlockKind::Rows, member.sums, updated);
        floats(BlockKind::Rows, member.updated, updated);
        for (const std::int64_t state : member.updatedStates)
            floats(BlockKind::Rows, state, updated);
        const program::Bucket &bucket = m_program.bucket(table.bucket);
        const compile::Shard whole{0, bucket.elements};
        parts(BlockKind::Gradient, bucket, whole, bucket.gradients[at], kFloatBytes);
        if (table.isCut())
            floats(BlockKind::Rows, bucket.parameters[at], table.window * table.columns);
    }

    BlockList &m_list;
    const program::Program &m_program;
    RankId m_rank;
    double m_end;
    std::vector<LiveBlock> m_parts;
};

} // namespace

void addPersistentBlocks(BlockList &list, const program::Program &program, RankId rank, double end)
{
    PersistentBlocks(list, program, rank, end).add();
}

} // namespace planloom::simulate
