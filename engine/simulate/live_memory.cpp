// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/live_memory.h"

#include "engine/compile/alias.h"
#include "engine/compile/layout.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/live_blocks.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace planloom::simulate {
namespace {

using program::Area;
using program::Body;

constexpr double kStays = std::numeric_limits<double>::infinity();

struct BlockKindRow {
    BlockKind kind;
    const char *name;
};
constexpr BlockKindRow kBlockKindTable[] = {
    {BlockKind::Parameter, "parameter"},
    {BlockKind::ParameterCopy, "parameter copy"},
    {BlockKind::Gradient, "gradient"},
    {BlockKind::OptimizerState, "optimizer state"},
    {BlockKind::Average, "average"},
    {BlockKind::Rows, "rows of a table"},
    {BlockKind::Constant, "constant"},
    {BlockKind::Activation, "activation"},
    {BlockKind::Message, "message"},
    {BlockKind::GradientMessage, "gradient message"},
    {BlockKind::ActivationGradient, "activation gradient"},
    {BlockKind::Workspace, "workspace"},
    {BlockKind::Padding, "padding"},
};
static_assert(std::size(kBlockKindTable) == kBlockKinds);

BlockKind kindOf(Area area)
{
    switch (area) {
    case Area::Inbox:
    case Area::Outbox: return BlockKind::Message;
    case Area::Frame:
    case Area::WeightStash:
    case Area::Pool: return BlockKind::Activation;
    case Area::GradientInbox:
    case Area::GradientOutbox: return BlockKind::GradientMessage;
    case Area::WeightFrame: return BlockKind::ActivationGradient;
    case Area::Workspace: return BlockKind::Workspace;
    case Area::Persistent: break;
    }
    return BlockKind::Padding;
}

/// When the tasks of one rank begin and end, and in which order that happens.
class RankListener final : public Listener {
public:
    struct Change {
        std::size_t ran = 0; ///< in ran()
        bool starts = true;
    };

    RankListener(const program::Program &program, RankId rank) : m_program(program), m_rank(rank) {}
    void started(TaskId task, double seconds) override
    {
        m_end = std::max(m_end, seconds);
        if (m_program.task(task).rank != m_rank)
            return;
        m_open[task] = m_ran.size();
        m_changes.push_back({m_ran.size(), true});
        m_ran.push_back({task, seconds, kStays});
    }
    void ended(TaskId task, double seconds) override
    {
        m_end = std::max(m_end, seconds);
        const auto open = m_open.find(task);
        if (open == m_open.end())
            return;
        m_ran[open->second].end = seconds;
        m_changes.push_back({open->second, false});
        m_open.erase(open);
    }
    [[nodiscard]] const std::vector<RanTask> &ran() const { return m_ran; }
    [[nodiscard]] const std::vector<Change> &changes() const { return m_changes; }
    [[nodiscard]] double end() const { return m_end; }

private:
    const program::Program &m_program;
    RankId m_rank;
    std::vector<RanTask> m_ran;
    std::vector<Change> m_changes;
    std::map<TaskId, std::size_t> m_open;
    double m_end = 0;
};

/// A tensor in the slots of an area, or in the workspace at its fullest operator.
struct Part {
    std::int64_t offset = 0; ///< in the slot
    std::int64_t bytes = 0;
    BlockKind kind = BlockKind::Padding;
    std::int32_t name = -1;
    std::int32_t op = -1;
    std::int32_t producer = -1; ///< operator of the body
    std::int32_t consumer = -1; ///< the last one
};

/// The tensors of a body by area; of the workspace, by pass.
class BodyParts {
public:
    BodyParts(BlockList &list, const Body &body) : m_list(list), m_body(body)
    {
        if (body.forwardPlaces.empty())
            return;
        const compile::Aliases aliases(body.training, body.maxSamples);
        const auto ops = static_cast<std::int32_t>(body.training.graph.ops().size());
        const auto forward = static_cast<std::int32_t>(body.training.forwardOps);
        for (const graph::Tensor &tensor : body.training.graph.tensors()) {
            if (aliases.home(tensor.id).root != tensor.id)
                continue;
            addFixed(aliases, tensor, body.forwardPlaces[tensor.id.index()]);
            if (body.backwardPlaces[tensor.id.index()].area != body.forwardPlaces[tensor.id.index()].area)
                addFixed(aliases, tensor, body.backwardPlaces[tensor.id.index()]);
        }
        m_forward = fullest(aliases, body.forwardPlaces, 0, forward);
        m_backward = fullest(aliases, body.backwardPlaces, body.recompute ? 0 : forward, ops);
    }

    [[nodiscard]] const std::vector<Part> &of(Area area, bool forwardPass) const
    {
        if (area == Area::Workspace)
            return forwardPass ? m_forward : m_backward;
        return m_parts[static_cast<std::size_t>(area)];
    }

private:
    [[nodiscard]] Part partOf(const compile::Aliases &aliases, const graph::Tensor &tensor, Area area,
                              std::int64_t offset)
    {
        Part part{offset, compile::aligned(tensor.bytes(m_body.maxSamples).value()), kindOf(area)};
        part.name = m_list.nameOf(tensor.name);
        for (const TensorId id : aliases.members(tensor.id)) {
            const graph::Tensor &member = m_body.training.graph.tensor(id);
            if (member.producer.valid() && (part.producer < 0 || member.producer.value < part.producer))
                part.producer = static_cast<std::int32_t>(member.producer.value);
            for (const OpId reader : m_body.training.graph.consumers(id))
                part.consumer = std::max(part.consumer, static_cast<std::int32_t>(reader.value));
        }
        if (part.producer >= 0)
            part.op = m_list.nameOf(m_body.training.graph.ops()[static_cast<std::size_t>(part.producer)].name);
        return part;
    }

    void addFixed(const compile::Aliases &aliases, const graph::Tensor &tensor, const program::Placement &place)
    {
        const bool apart = place.area == Area::Workspace || place.area == Area::Persistent || place.area == Area::Pool;
        if (apart || place.offset < 0)
            return;
        m_parts[static_cast<std::size_t>(place.area)].push_back(partOf(aliases, tensor, place.area, place.offset));
    }

    /// What lies in the workspace at the operator of [@p begin, @p end) that needs the most of it.
    [[nodiscard]] std::vector<Part> fullest(const compile::Aliases &aliases,
                                            const std::vector<program::Placement> &places, std::int32_t begin,
                                            std::int32_t end)
    {
        std::vector<Part> all;
        std::vector<std::int64_t> change(static_cast<std::size_t>(std::max(end - begin, 0)) + 1, 0);
        const auto at = [&](std::int32_t op) { return static_cast<std::size_t>(std::clamp(op, begin, end) - begin); };
        for (const graph::Tensor &tensor : m_body.training.graph.tensors()) {
            const program::Placement &place = places[tensor.id.index()];
            if (aliases.home(tensor.id).root != tensor.id || place.area != Area::Workspace || place.offset < 0)
                continue;
            const Part part = partOf(aliases, tensor, Area::Workspace, place.offset);
            if (part.producer >= end || std::max(part.producer, part.consumer) < begin)
                continue;
            change[at(part.producer)] += part.bytes;
            change[at(std::max(part.producer, part.consumer) + 1)] -= part.bytes;
            all.push_back(part);
        }
        std::int64_t bytes = 0;
        std::int64_t most = 0;
        std::int32_t fullest = begin;
        for (std::int32_t op = begin; op < end; ++op) {
            bytes += change[at(op)];
            if (bytes > most) {
                most = bytes;
                fullest = op;
            }
        }
        std::erase_if(all, [fullest](const Part &part) {
            return part.producer > fullest || std::max(part.producer, part.consumer) < fullest;
        });
        return all;
    }

    BlockList &m_list;
    const Body &m_body;
    std::array<std::vector<Part>, program::kAreas> m_parts;
    std::vector<Part> m_forward;
    std::vector<Part> m_backward;
};

/// Turns the slots that tasks take and give back into blocks.
class SlotBlocks {
public:
    SlotBlocks(BlockList &list, const program::Program &program, RankId rank, const RankListener &heard)
        : m_list(list),
          m_program(program),
          m_heard(heard)
    {
        for (const BodyId body : program.ranks[rank.index()].bodies)
            m_parts.emplace(body, BodyParts(list, program.body(body)));
        for (std::size_t r = 0; r < heard.ran().size(); ++r)
            if (const auto *what = program.task(heard.ran()[r].task).as<program::Compute>())
                m_runs[{program.task(heard.ran()[r].task).body, program.task(heard.ran()[r].task).microBatch}]
                    .push_back({what, r});
    }

    void add()
    {
        for (const RankListener::Change &change : m_heard.changes()) {
            const RanTask &ran = m_heard.ran()[change.ran];
            const program::Task &task = m_program.task(ran.task);
            for (const program::Effect &effect : m_program.effectsOf(task)) {
                const Key key{effect.body, effect.area, task.microBatch};
                if (effect.action == program::Effect::Action::Takes && change.starts)
                    m_open[key] = change.ran;
                else if (effect.action == program::Effect::Action::Gives && !change.starts)
                    close(key, change.ran);
            }
        }
        for (const auto &[key, ran] : std::exchange(m_open, {}))
            addSlot(key, ran, std::nullopt);
    }

private:
    using Key = std::tuple<BodyId, Area, std::int32_t>; ///< with the micro-batch
    struct Run {
        const program::Compute *what = nullptr;
        std::size_t ran = 0;
    };

    void close(const Key &key, std::size_t giver)
    {
        const auto open = m_open.find(key);
        if (open == m_open.end())
            return;
        addSlot(key, open->second, giver);
        m_open.erase(open);
    }

    void addSlot(const Key &key, std::size_t taker, std::optional<std::size_t> giver)
    {
        const auto &[bodyId, area, microBatch] = key;
        const Body &body = m_program.body(bodyId);
        const program::Pool &pool = body.pools[static_cast<std::size_t>(area)];
        if (pool.slotBytes == 0)
            return;
        std::int64_t begin = pool.begin;
        if (microBatch >= 0 && static_cast<std::size_t>(microBatch) < body.slotTable.size())
            begin += pool.slotBytes
                * std::max(body.slotTable[static_cast<std::size_t>(microBatch)].slot[static_cast<std::size_t>(area)],
                           0);
        LiveBlock whole;
        whole.microBatch = microBatch;
        setTask(whole.made, whole.madeSeconds, taker);
        whole.begin = m_heard.ran()[taker].begin;
        whole.end = giver ? m_heard.ran()[*giver].end : kStays;
        if (giver)
            setTask(whole.last, whole.lastSeconds, *giver);
        const program::Task &task = m_program.task(m_heard.ran()[taker].task);
        const auto *run = task.as<program::Compute>();
        const auto &parts = m_parts.at(bodyId).of(area, run == nullptr || run->pass == program::Pass::Forward);
        std::vector<LiveBlock> blocks;
        for (const Part &part : parts)
            blocks.push_back(blockOf(part, whole, begin, body, key));
        LiveBlock rest = whole;
        const bool named = !parts.empty();
        rest.kind = named && area != Area::Workspace ? BlockKind::Padding : kindOf(area);
        rest.name = m_list.nameOf(restName(area, named));
        m_list.addRange(begin, pool.slotBytes, std::move(blocks), rest);
    }

    static std::string restName(Area area, bool named)
    {
        if (!named)
            return program::name(area);
        return area == Area::Workspace ? "workspace, free at its fullest operator" : "not needed in this slot";
    }

    [[nodiscard]] LiveBlock blockOf(const Part &part, const LiveBlock &whole, std::int64_t begin, const Body &body,
                                    const Key &key) const
    {
        LiveBlock block = whole;
        block.kind = part.kind;
        block.name = part.name;
        block.op = part.op;
        block.offset = begin + part.offset;
        block.bytes = part.bytes;
        const BodyId id = std::get<0>(key);
        if (const auto made = runOf(id, whole, part.producer, body); part.producer >= 0 && made)
            setTask(block.made, block.madeSeconds, *made);
        if (const auto last = runOf(id, whole, part.consumer, body); part.consumer >= 0 && last)
            setTask(block.last, block.lastSeconds, *last);
        return block;
    }

    /// The run of operator @p op while @p whole lasts; the last of several (a step later, or again).
    [[nodiscard]] std::optional<std::size_t> runOf(BodyId body, const LiveBlock &whole, std::int32_t op,
                                                   const Body &of) const
    {
        const auto runs = m_runs.find({body, whole.microBatch});
        std::optional<std::size_t> found;
        if (runs == m_runs.end() || op < 0)
            return found;
        const bool forward = op < static_cast<std::int32_t>(of.training.forwardOps);
        for (const Run &run : runs->second) {
            const bool fits = op >= run.what->firstOp && op < run.what->lastOp;
            const bool again = run.what->pass == program::Pass::Recompute;
            if (!fits || (again && !(forward && whole.begin >= m_heard.ran()[run.ran].begin)))
                continue;
            if (m_heard.ran()[run.ran].begin >= whole.begin && m_heard.ran()[run.ran].begin < whole.end)
                found = run.ran;
        }
        return found;
    }

    void setTask(TaskId &task, double &seconds, std::size_t ran) const
    {
        task = m_heard.ran()[ran].task;
        seconds = m_heard.ran()[ran].end;
    }

    BlockList &m_list;
    const program::Program &m_program;
    const RankListener &m_heard;
    std::map<BodyId, BodyParts> m_parts;
    std::map<std::pair<BodyId, std::int32_t>, std::vector<Run>> m_runs;
    std::map<Key, std::size_t> m_open; ///< the task that took it
};

} // namespace

const char *name(BlockKind kind) { return kBlockKindTable[static_cast<std::size_t>(kind)].name; }

std::int32_t BlockList::nameOf(std::string_view text)
{
    const auto known = m_numbers.find(text);
    if (known != m_numbers.end())
        return known->second;
    const auto number = static_cast<std::int32_t>(m_memory.names.size());
    m_memory.names.emplace_back(text);
    m_numbers.emplace(std::string(text), number);
    return number;
}

void BlockList::addRange(std::int64_t begin, std::int64_t bytes, std::vector<LiveBlock> parts, const LiveBlock &padding)
{
    std::stable_sort(parts.begin(), parts.end(),
                     [](const LiveBlock &a, const LiveBlock &b) { return a.offset < b.offset; });
    std::int64_t at = begin;
    const std::int64_t end = begin + bytes;
    const auto fill = [&](std::int64_t to) {
        if (to <= at)
            return;
        LiveBlock room = padding;
        room.offset = at;
        room.bytes = to - at;
        add(room);
        at = to;
    };
    for (LiveBlock &part : parts) {
        const std::int64_t from = std::max(part.offset, at);
        const std::int64_t to = std::min(part.offset + part.bytes, end);
        if (from >= to)
            continue;
        fill(from);
        part.offset = from;
        part.bytes = to - from;
        add(part);
        at = to;
    }
    fill(end);
}

const std::string &LiveMemory::nameOf(std::int32_t number) const
{
    static const std::string none;
    return number < 0 ? none : names[static_cast<std::size_t>(number)];
}

std::vector<std::size_t> LiveMemory::at(double seconds) const
{
    std::vector<std::size_t> alive;
    for (std::size_t b = 0; b < blocks.size(); ++b)
        if (blocks[b].begin <= seconds && seconds < blocks[b].end)
            alive.push_back(b);
    return alive;
}

std::vector<LiveMemory::Hole> LiveMemory::holesAt(double seconds) const
{
    std::vector<Hole> taken;
    for (const std::size_t b : at(seconds))
        if (blocks[b].offset >= 0)
            taken.push_back({blocks[b].offset, blocks[b].offset + blocks[b].bytes});
    std::sort(taken.begin(), taken.end(), [](const Hole &a, const Hole &b) { return a.begin < b.begin; });
    taken.push_back({arenaBytes, arenaBytes});
    std::vector<Hole> holes;
    std::int64_t to = 0;
    for (const Hole &each : taken) {
        if (each.begin > to)
            holes.push_back({to, each.begin});
        to = std::max(to, each.end);
    }
    return holes;
}

Result<LiveMemory> liveMemory(const program::Program &program, RankId rank)
{
    RankListener heard(program, rank);
    if (const auto seconds = CostClock(program).run(&heard); !seconds)
        return seconds.error();
    LiveMemory memory;
    memory.arenaBytes = program.ranks[rank.index()].arenaBytes;
    memory.endSeconds = heard.end();
    BlockList list(memory);
    addPersistentBlocks(list, program, rank, kStays);
    const auto staying = static_cast<std::ptrdiff_t>(memory.blocks.size());
    SlotBlocks(list, program, rank, heard).add();
    addPooledBlocks(list, program, rank, heard.ran(), kStays);
    std::stable_sort(memory.blocks.begin() + staying, memory.blocks.end(),
                     [](const LiveBlock &a, const LiveBlock &b) { return a.begin < b.begin; });
    return memory;
}

} // namespace planloom::simulate
