// SPDX-License-Identifier: Apache-2.0
#include "profiler/replica.h"

#include "executor/runtime/clock.h"

namespace planloom::profiler {
namespace {

constexpr double kNanosecond = 1e-9;

/// Spread evenly and the same each time (Knuth's multiplicative hashing).
std::uint64_t scramble(std::uint64_t value) { return (value + 1) * 0x9e3779b97f4a7c15U >> 32; }

} // namespace

void MadeUpData::fillInput(std::int64_t sample, void *out) const
{
    const auto base = static_cast<std::uint64_t>(sample * m_needs.perSample);
    const auto classes = static_cast<std::uint64_t>(m_needs.classes > 0 ? m_needs.classes : 1);
    for (std::int64_t i = 0; i < m_needs.perSample; ++i) {
        const std::uint64_t value = scramble(base + static_cast<std::uint64_t>(i));
        if (m_needs.kind == data::Needs::Kind::Tokens)
            static_cast<std::int64_t *>(out)[i] = static_cast<std::int64_t>(value % classes);
        else
            static_cast<float *>(out)[i] = static_cast<float>(value % 2048) / 1024 - 1;
    }
}

void MadeUpData::fillLabels(std::int64_t sample, std::int64_t *out) const
{
    const std::int64_t count = m_needs.kind == data::Needs::Kind::Tokens ? m_needs.perSample : 1;
    const auto classes = static_cast<std::uint64_t>(m_needs.classes > 0 ? m_needs.classes : 1);
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = static_cast<std::int64_t>(scramble(static_cast<std::uint64_t>(sample * count + i)) % classes);
}

Result<std::unique_ptr<Replica>> Replica::create(const program::Program &program, RankId rank, const graph::Graph &subject, const runtime::Feed &feed,
                                                 const ProfileOptions &options)
{
    const program::Rank &place = program.ranks[rank.index()];
    const program::Body &made = program.bodies[static_cast<std::size_t>(place.bodies.front())];
    std::unique_ptr<Replica> replica(new Replica(feed, made));
    auto arena = runtime::Arena::allocate(place.arenaBytes);
    if (!arena)
        return arena.error();
    replica->m_arena = std::move(*arena);
    auto body = runtime::BodyRunner::create(program, made, replica->m_arena, replica->m_feed);
    if (!body)
        return body.error();
    if (const Status ready = (*body)->initialize(subject, options.seed, options.modelFolder); !ready)
        return ready.error();
    (*body)->prepareUpdate(options.optimizer);
    replica->m_body = std::move(*body);
    replica->m_ends.reserve(made.training.graph.ops().size());
    return replica;
}

std::vector<std::int32_t> Replica::microBatches() const
{
    std::map<std::int64_t, std::int32_t> first;
    for (std::size_t m = 0; m < m_bodyMade->slices.size(); ++m) {
        if (m_bodyMade->slices[m].size > 0)
            first.try_emplace(m_bodyMade->slices[m].size, static_cast<std::int32_t>(m));
    }
    std::vector<std::int32_t> found;
    for (const auto &[size, microBatch] : first)
        found.push_back(microBatch);
    return found;
}

std::int64_t Replica::updated() const
{
    std::int64_t count = 0;
    for (const program::Held &held : m_bodyMade->held)
        count += held.kind == program::Held::Kind::Parameter && held.gradient >= 0 ? held.updateCount : 0;
    return count;
}

void Replica::betweenOperators() { m_ends.push_back(runtime::monotonicNanoseconds()); }

void Replica::note(PassTimes &times, std::int64_t begin) const
{
    times.operators.resize(m_ends.size());
    times.whole.push_back(static_cast<double>(m_ends.empty() ? 0 : m_ends.back() - begin) * kNanosecond);
    for (std::size_t i = 0; i < m_ends.size(); ++i) {
        times.operators[i].push_back(static_cast<double>(m_ends[i] - begin) * kNanosecond);
        begin = m_ends[i];
    }
}

void Replica::pass(std::int32_t microBatch, bool record)
{
    const std::int64_t samples = m_bodyMade->slices[static_cast<std::size_t>(microBatch)].size;
    m_ends.clear();
    const std::int64_t forwardBegin = runtime::monotonicNanoseconds();
    m_body->forward(microBatch, m_step++, *this);
    if (record)
        note(m_forward[samples], forwardBegin);
    m_ends.clear();
    const std::int64_t backwardBegin = runtime::monotonicNanoseconds();
    m_body->backward(microBatch, *this);
    if (record)
        note(m_backward[samples], backwardBegin);
    m_body->takeLoss();
}

double Replica::optimize(const plan::Optimizer &how)
{
    const std::int64_t begin = runtime::monotonicNanoseconds();
    m_body->optimize(how, {m_step, how.learningRate, 1});
    return static_cast<double>(runtime::monotonicNanoseconds() - begin) * kNanosecond;
}

} // namespace planloom::profiler
