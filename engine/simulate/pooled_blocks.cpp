// SPDX-License-Identifier: Apache-2.0
// What lies in the pool of a memory policy, as blocks: read from the calls of its runs, in which each tensor has its
// place, and from the policy's decisions.
#include "engine/compile/alias.h"
#include "engine/compile/layout.h"
#include "engine/simulate/live_blocks.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace planloom::simulate {
namespace {

using program::Body;
using program::PooledCall;

/// A run of operators of a pool, with its calls numbered through the step.
struct PoolRun {
    const RanTask *ran = nullptr;
    const program::Compute *what = nullptr;
    std::int32_t microBatch = -1;
    std::int64_t firstCall = 0;
    std::int64_t fullest = 0; ///< the call with the most in use
    std::int64_t level = 0;   ///< then
    std::int64_t after = 0;   ///< in use once it has ended
    [[nodiscard]] std::int64_t lastCall() const { return firstCall + what->lastCall - what->firstCall - 1; }
};

/// A tensor at one place of the pool, from its first call there to its last one, or to the run that it made room for.
struct Held {
    TensorId root;
    std::int32_t microBatch = -1;
    std::int64_t place = 0;
    std::int64_t firstCall = 0;
    std::int64_t lastCall = 0;
    std::size_t firstRun = 0;
    std::size_t lastRun = 0;
    std::optional<std::size_t> until; ///< leaves as this run begins
};

class PooledBlocks {
public:
    PooledBlocks(BlockList &list, const program::Program &program, RankId rank, const std::vector<RanTask> &ran,
                 double end)
        : m_list(list),
          m_program(program),
          m_rank(program.ranks[rank.index()]),
          m_body(program.body(m_rank.bodies.front())),
          m_ran(ran),
          m_end(end)
    {
    }

    void add()
    {
        addHostedStates();
        findRuns();
        if (m_runs.empty())
            return;
        std::vector<LiveBlock> tensors;
        if (!m_body.training.graph.ops().empty()) {
            findHeld();
            for (const Held &held : m_held)
                if (const auto block = blockOf(held))
                    tensors.push_back(*block);
        }
        addStates(std::move(tensors));
    }

private:
    /// Of the optimizer, which come from the host for the update: from the copy in to the end of the one out.
    void addHostedStates()
    {
        std::map<std::pair<std::int64_t, std::int64_t>, LiveBlock> open;
        for (const RanTask &ran : m_ran) {
            const program::Task &task = m_program.task(ran.task);
            const auto *swap = task.as<program::Swap>();
            if (swap == nullptr || task.microBatch >= 0)
                continue;
            const program::HostCopy &copy = m_program.copyOf(*swap);
            const std::pair key{copy.place, copy.host};
            if (!swap->out) {
                LiveBlock block;
                block.kind = BlockKind::OptimizerState;
                block.name = m_list.nameOf("from the host, for the update");
                block.offset = poolBegin() + copy.place;
                block.bytes = copy.bytes;
                block.begin = ran.begin;
                block.end = m_end;
                block.made = ran.task;
                block.madeSeconds = ran.end;
                open[key] = block;
            } else if (const auto found = open.find(key); found != open.end()) {
                found->second.end = ran.end;
                found->second.last = ran.task;
                found->second.lastSeconds = ran.end;
                m_list.add(found->second);
                open.erase(found);
            }
        }
        for (const auto &[key, block] : open)
            m_list.add(block);
    }

    [[nodiscard]] std::int64_t poolBegin() const
    {
        return m_body.pools[static_cast<std::size_t>(program::Area::Pool)].begin;
    }

    void findRuns()
    {
        std::int64_t calls = 0;
        for (const RanTask &ran : m_ran) {
            const program::Task &task = m_program.task(ran.task);
            const auto *what = task.as<program::Compute>();
            if (what == nullptr || !what->isPooled())
                continue;
            PoolRun run{&ran, what, task.microBatch, calls, calls, 0, 0};
            const PooledCall *all = m_program.pooledCalls.data();
            run.after = run.level = all[what->lastCall - 1].usedAfter;
            run.fullest = calls + what->lastCall - what->firstCall; // behind the last call, unless one has more
            for (std::int32_t c = what->firstCall; c < what->lastCall; ++c)
                if (all[c].used > run.level) {
                    run.level = all[c].used;
                    run.fullest = calls + c - what->firstCall;
                }
            calls += what->lastCall - what->firstCall;
            m_runs.push_back(run);
        }
    }

    /// Per tensor and micro-batch, the runs that it makes room for.
    [[nodiscard]] std::map<std::pair<TensorId, std::int32_t>, std::vector<std::size_t>> leavings() const
    {
        std::map<TaskId, std::size_t> runOf;
        for (std::size_t r = 0; r < m_runs.size(); ++r)
            runOf[m_runs[r].ran->task] = r;
        std::map<std::pair<TensorId, std::int32_t>, std::vector<std::size_t>> all;
        for (const program::MemoryDecision &decision : m_rank.decisions)
            if (const auto run = runOf.find(decision.room); run != runOf.end())
                all[{decision.tensor, decision.microBatch}].push_back(run->second);
        for (auto &[key, runs] : all)
            std::sort(runs.begin(), runs.end());
        return all;
    }

    void findHeld()
    {
        const compile::Aliases aliases(m_body.training, m_body.maxSamples);
        std::map<std::pair<TensorId, std::int32_t>, std::size_t> open; // in m_held
        const auto leaves = leavings();
        for (std::size_t r = 0; r < m_runs.size(); ++r) {
            const PoolRun &run = m_runs[r];
            for (std::int32_t c = run.what->firstCall; c < run.what->lastCall; ++c) {
                const PooledCall &call = m_program.pooledCalls[static_cast<std::size_t>(c)];
                const graph::Op &op = m_body.training.graph.ops()[static_cast<std::size_t>(call.op)];
                auto place = static_cast<std::size_t>(call.firstPlace);
                const auto number = run.firstCall + c - run.what->firstCall;
                for (const auto *side : {&op.inputs, &op.outputs})
                    for (const TensorId id : *side)
                        use(aliases, id, m_program.pooledPlaces[place++], r, number, open, leaves);
            }
        }
    }

    template <class Open, class Leaves>
    void use(const compile::Aliases &aliases, TensorId id, std::int64_t place, std::size_t run, std::int64_t call,
             Open &open, const Leaves &leaves)
    {
        if (place < 0 || !id.valid())
            return;
        const compile::Aliases::Home home = aliases.home(id);
        const bool parameter = m_body.training.graph.tensor(home.root).role == graph::TensorRole::Parameter;
        const std::pair key{home.root, parameter ? -1 : m_runs[run].microBatch};
        const std::int64_t begin = place - home.offset;
        if (const auto known = open.find(key); known != open.end()) {
            Held &held = m_held[known->second];
            const std::optional<std::size_t> left = leftBetween(leaves, key, held.lastRun, run);
            if (!left && held.place == begin) {
                held.lastCall = call;
                held.lastRun = run;
                return;
            }
            held.until = left;
        }
        open[key] = m_held.size();
        m_held.push_back({home.root, key.second, begin, call, call, run, run, std::nullopt});
    }

    /// The first run behind @p from and up to @p to that the tensor makes room for.
    template <class Leaves, class Key>
    static std::optional<std::size_t> leftBetween(const Leaves &leaves, const Key &key, std::size_t from,
                                                  std::size_t to)
    {
        const auto runs = leaves.find(key);
        if (runs == leaves.end())
            return std::nullopt;
        const auto next = std::upper_bound(runs->second.begin(), runs->second.end(), from);
        return next == runs->second.end() || *next > to ? std::nullopt : std::optional(*next);
    }

    /// None: it comes and goes within a run, and is not there at its fullest operator.
    [[nodiscard]] std::optional<LiveBlock> blockOf(const Held &held)
    {
        const PoolRun &first = m_runs[held.firstRun];
        const PoolRun &last = m_runs[held.lastRun];
        const graph::Tensor &tensor = m_body.training.graph.tensor(held.root);
        LiveBlock block;
        block.kind = tensor.role == graph::TensorRole::Parameter ? BlockKind::Parameter : BlockKind::Activation;
        block.name = m_list.nameOf(tensor.name);
        if (tensor.producer.valid())
            block.op = m_list.nameOf(m_body.training.graph.op(tensor.producer).name);
        block.microBatch = held.microBatch;
        block.offset = poolBegin() + held.place;
        block.bytes = compile::aligned(tensor.bytes(m_body.maxSamples).value());
        block.begin = held.firstCall <= first.fullest ? first.ran->begin : first.ran->end;
        block.end = held.until              ? m_runs[*held.until].ran->begin
            : held.lastCall >= last.fullest ? last.ran->end
                                            : last.ran->begin;
        if (!held.until && held.lastRun == held.firstRun
            && (held.lastCall < first.fullest || held.firstCall > first.fullest))
            return std::nullopt;
        block.made = first.ran->task;
        block.madeSeconds = first.ran->end;
        block.last = last.ran->task;
        block.lastSeconds = last.ran->end;
        return block.end > block.begin ? std::optional(block) : std::nullopt;
    }

    /// The tensors, and a block for each stretch between two changes of the level of what they leave of it.
    void addStates(std::vector<LiveBlock> tensors)
    {
        std::vector<std::pair<double, std::int64_t>> levels; // from when on
        for (const PoolRun &run : m_runs) {
            levels.emplace_back(run.ran->begin, run.level);
            levels.emplace_back(run.ran->end, run.after);
        }
        cutToLevels(levels, tensors);
        std::erase_if(tensors, [](const LiveBlock &block) { return block.end <= block.begin; });
        const std::vector<std::int64_t> known = knownAt(levels, tensors);
        for (const LiveBlock &block : tensors)
            m_list.add(block);
        for (std::size_t s = 0; s < levels.size(); ++s) {
            if (!lasts(levels, s) || levels[s].second == known[s])
                continue;
            LiveBlock rest;
            rest.kind = BlockKind::Activation;
            rest.name = m_list.nameOf(tensors.empty() ? "tensors of the memory policy's pool"
                                                      : "other tensors of the memory policy's pool");
            rest.bytes = levels[s].second - known[s];
            rest.begin = levels[s].first;
            rest.end = s + 1 < levels.size() ? levels[s + 1].first : m_end;
            m_list.add(rest);
        }
    }

    /// A policy that makes room behind an operator has let tensors go before the run that needs the room begins: where
    /// tensors come to more than is in use, those that leave first have left; so have those in the place of another
    /// one.
    static void cutToLevels(const std::vector<std::pair<double, std::int64_t>> &levels, std::vector<LiveBlock> &tensors)
    {
        std::sort(tensors.begin(), tensors.end(),
                  [](const LiveBlock &a, const LiveBlock &b) { return a.begin < b.begin; });
        std::vector<LiveBlock *> alive;
        auto next = tensors.begin();
        for (std::size_t s = 0; s < levels.size(); ++s) {
            const auto &[seconds, level] = levels[s];
            if (!lasts(levels, s))
                continue;
            for (; next != tensors.end() && next->begin <= seconds; ++next) {
                for (LiveBlock *block : alive)
                    if (overlap(*block, *next))
                        block->end = std::min(block->end, next->begin);
                alive.push_back(&*next);
            }
            std::erase_if(alive, [at = seconds](const LiveBlock *block) { return block->end <= at; });
            std::int64_t bytes = 0;
            for (const LiveBlock *block : alive)
                bytes += block->bytes;
            std::sort(alive.begin(), alive.end(),
                      [](const LiveBlock *a, const LiveBlock *b) { return a->end < b->end; });
            for (LiveBlock *block : alive) {
                if (bytes <= level)
                    break;
                bytes -= block->bytes;
                block->end = seconds;
            }
        }
    }

    static bool overlap(const LiveBlock &a, const LiveBlock &b)
    {
        return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
    }

    static bool lasts(const std::vector<std::pair<double, std::int64_t>> &levels, std::size_t s)
    {
        return s + 1 == levels.size() || levels[s].first < levels[s + 1].first;
    }

    static std::vector<std::int64_t> knownAt(const std::vector<std::pair<double, std::int64_t>> &levels,
                                             const std::vector<LiveBlock> &tensors)
    {
        std::vector<std::pair<double, std::int64_t>> changes;
        for (const LiveBlock &block : tensors) {
            changes.emplace_back(block.begin, block.bytes);
            changes.emplace_back(block.end, -block.bytes);
        }
        std::sort(changes.begin(), changes.end());
        std::vector<std::int64_t> known;
        std::int64_t bytes = 0;
        std::size_t next = 0;
        for (const auto &[seconds, level] : levels) {
            for (; next < changes.size() && changes[next].first <= seconds; ++next)
                bytes += changes[next].second;
            known.push_back(bytes);
        }
        return known;
    }

    BlockList &m_list;
    const program::Program &m_program;
    const program::Rank &m_rank;
    const Body &m_body;
    const std::vector<RanTask> &m_ran;
    double m_end;
    std::vector<PoolRun> m_runs;
    std::vector<Held> m_held;
};

} // namespace

void addPooledBlocks(BlockList &list, const program::Program &program, RankId rank, const std::vector<RanTask> &ran,
                     double end)
{
    if (!program.ranks[rank.index()].bodies.empty())
        PooledBlocks(list, program, rank, ran, end).add();
}

} // namespace planloom::simulate
