// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/sampled_processes.h"

#include "executor/runtime/sampled_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace planloom::runtime {

SampledRanks::SampledRanks(const plan::Plan &plan)
    : m_plan(plan),
      m_trainers(static_cast<int>(plan.stages.front().replicas()))
{
}

const plan::PlacedRole *SampledRanks::roleOf(int rank) const
{
    return rank < m_trainers ? nullptr : &m_plan.roles[static_cast<std::size_t>(rank - m_trainers)];
}

std::string SampledRanks::nameOf(int rank) const
{
    const plan::PlacedRole *role = roleOf(rank);
    return role == nullptr ? fmt::format("w{}", rank) : role->name;
}

std::vector<int> SampledRanks::samplersOf(int trainer) const
{
    std::vector<int> ranks;
    for (int rank = m_trainers; rank < size(); ++rank) {
        if (roleOf(rank)->kind == gnn::RoleKind::Sampler && roleOf(rank)->trainer == trainer)
            ranks.push_back(rank);
    }
    return ranks;
}

std::vector<int> SampledRanks::ofKind(gnn::RoleKind kind) const
{
    std::vector<int> ranks;
    for (int rank = m_trainers; rank < size(); ++rank) {
        if (roleOf(rank)->kind == kind)
            ranks.push_back(rank);
    }
    return ranks;
}

int SampledRanks::numberOf(int rank) const
{
    const plan::PlacedRole *role = roleOf(rank);
    if (role == nullptr)
        return rank;
    const std::vector<int> alike = ofKind(role->kind);
    return static_cast<int>(std::ranges::find(alike, rank) - alike.begin());
}

std::vector<int> SampledRanks::stores() const
{
    std::vector<int> ranks(static_cast<std::size_t>(m_plan.job->graph.parts));
    for (int rank = m_trainers; rank < size(); ++rank) {
        if (roleOf(rank)->kind == gnn::RoleKind::GraphStore)
            ranks[static_cast<std::size_t>(roleOf(rank)->part)] = rank;
    }
    return ranks;
}

SampledBatches::SampledBatches(const SampledContext &context, const std::optional<data::BlockShape> &blocks,
                               std::int64_t samples)
    : m_context(context),
      m_samples(samples),
      m_fanout(context.plan.job->fanout),
      m_width(context.plan.job->graph.features),
      m_batches(static_cast<std::size_t>(context.plan.job->prefetch) + 1)
{
    if (blocks)
        m_joiner.emplace(*blocks, context.plan.job->graph.nodes);
    const SampledRanks ranks(context.plan);
    const int own = context.link.communicator().rank();
    const plan::Stage &stage = context.plan.stages.front();
    m_own = plan::replicaRange(stage, static_cast<std::size_t>(own), context.plan.globalBatch);
    m_samplers = ranks.samplersOf(own);
    for (const int sampler : m_samplers) {
        m_names.push_back(ranks.nameOf(sampler));
        m_rows.push_back(context.link.rowOf(fmt::format("s{}w{}", ranks.numberOf(sampler), own)));
    }
}

/// Asks for all steps up to @p step that were not asked for.
Status SampledBatches::askFor(std::int64_t step)
{
    const auto places = static_cast<std::int64_t>(m_batches.size());
    const std::int64_t end = std::min(step + 1, m_context.request.settings.steps);
    for (; m_asked < end; ++m_asked) {
        Batch &batch = m_batches[static_cast<std::size_t>(m_asked % places)];
        if (Status asked = ask(batch, {m_asked, m_own.begin, m_own.size}, kBatchTag); !asked)
            return asked;
    }
    return {};
}

/// The credit of step n + prefetch is there when step n starts.
Status SampledBatches::await(std::int64_t step)
{
    const std::int64_t prefetch = m_context.plan.job->prefetch;
    m_asked = std::max(m_asked, step);
    if (Status asked = askFor(step + prefetch - 1); !asked)
        return asked;
    if (Status counted = expectCounted(step); !counted)
        return counted;
    if (Status came = take(m_batches[static_cast<std::size_t>(step % (prefetch + 1))]); !came)
        return came;
    if (Status asked = askFor(step + prefetch); !asked)
        return asked;
    return expectCounted(step);
}

Status SampledBatches::fetch(std::int64_t step, std::int64_t begin, std::int64_t count)
{
    if (m_current == nullptr || m_current->step != step || begin != m_own.begin || count != m_own.size)
        return failed(fmt::format("step {} wants samples {} to {} of the batch, which were not asked for", step, begin,
                                  begin + count));
    return {};
}

Status SampledBatches::fetchHeldOut(std::int64_t begin, std::int64_t count)
{
    if (Status asked = ask(m_heldOut, {SampledRange::kHeldOut, begin, count}, kHeldOutTag); !asked)
        return asked;
    return take(m_heldOut);
}

Status SampledBatches::ask(Batch &batch, const SampledRange &range, int tag)
{
    batch.step = range.step;
    batch.parts.resize(m_samplers.size());
    for (std::size_t i = 0; i < m_samplers.size(); ++i) {
        Part &part = batch.parts[i];
        part.range = shareOf(range, i, m_samplers.size());
        part.tag = tag;
        part.expected = m_context.form == plan::BatchForm::Trees;
        if (part.expected) {
            if (Status expected = expect(batch, i, part); !expected)
                return expected;
        } else {
            const int counts = tag == kHeldOutTag ? kHeldOutCountTag : kCountTag;
            auto ticket = m_context.link.receiveAhead(&part.counts, kCountBytes, m_samplers[i], counts);
            if (!ticket)
                return ticket.error();
            part.counting = *ticket;
        }
        if (Status sent = send(m_samplers[i], {kDraw, part.range.step, part.range.begin, part.range.count}); !sent)
            return sent;
        m_context.sent.add(range.step, m_names[i], kCommandBytes);
    }
    return {};
}

std::int64_t SampledBatches::bytesOf(const Part &part) const
{
    return m_context.form == plan::BatchForm::Trees
        ? treeBytes(part.range.count, m_fanout, m_width)
        : blockLayout(part.range.count, part.counts, m_width, m_context.form).end;
}

Status SampledBatches::expect(const Batch &batch, std::size_t sampler, Part &part)
{
    part.expected = true;
    const std::int64_t most = part.range.count * (1 + m_fanout.first * (1 + m_fanout.second));
    if (m_context.form != plan::BatchForm::Trees
        && (part.counts.rows < 0 || part.counts.places < 0 || part.counts.rows > part.counts.places
            || part.counts.places > most))
        return failed(fmt::format("sampler {} announces a mini-batch of {} rows and {} places for {} samples; use the "
                                  "same version of Planloom on all machines",
                                  m_names[sampler], part.counts.rows, part.counts.places, part.range.count));
    part.data.resize(static_cast<std::size_t>(bytesOf(part)));
    auto ticket = m_context.link.receive(part.data.data(), static_cast<std::int64_t>(part.data.size()),
                                         m_samplers[sampler], part.tag, batch.step, m_rows[sampler]);
    if (!ticket)
        return ticket.error();
    part.ticket = *ticket;
    return {};
}

/// Blocks from @p step on whose rows are counted by now get their places before they come; in the order in which a
/// sampler sends them.
Status SampledBatches::expectCounted(std::int64_t step)
{
    bool all = true;
    for (; all && step < m_asked; ++step) {
        Batch &batch = m_batches[static_cast<std::size_t>(step) % m_batches.size()];
        for (std::size_t i = 0; i < batch.parts.size(); ++i) {
            Part &part = batch.parts[i];
            if (part.expected)
                continue;
            const Result<bool> counted = m_context.link.test(part.counting);
            if (!counted)
                return counted.error();
            all = all && *counted;
            if (!*counted)
                continue;
            if (Status expected = expect(batch, i, part); !expected)
                return expected;
        }
    }
    return {};
}

Status SampledBatches::send(int sampler, const Command &command)
{
    static_assert(sizeof(Command) == kCommandBytes);
    while (!m_commands.empty()) {
        const auto done = m_context.link.test(m_commands.front().ticket);
        if (!done)
            return done.error();
        if (!*done)
            break;
        m_commands.pop_front();
    }
    Sent &sent = m_commands.emplace_back(Sent{command, {}});
    auto ticket = m_context.link.send(sent.command.data(), kCommandBytes, sampler, kCommandTag, command[1], -1);
    if (!ticket)
        return ticket.error();
    sent.ticket = *ticket;
    return {};
}

Status SampledBatches::take(Batch &batch)
{
    for (std::size_t i = 0; i < batch.parts.size(); ++i) {
        Part &part = batch.parts[i];
        const std::string what = fmt::format("a mini-batch of sampler {}", m_names[i]);
        if (!part.expected) {
            if (Status counted = m_context.link.wait(part.counting, m_context.trainerDeadline(), what); !counted)
                return counted;
            if (Status expected = expect(batch, i, part); !expected)
                return expected;
        }
        if (Status came = m_context.link.wait(part.ticket, m_context.trainerDeadline(), what); !came)
            return came;
        if (m_joiner && !m_joiner->findTrees(messageOf(part), part.range.count, part.begins))
            return failed(fmt::format(
                "{} does not have the rows and places that its trees need; use the same version of Planloom on all "
                "machines",
                what));
    }
    m_current = &batch;
    return {};
}

BlockJoiner::Message SampledBatches::messageOf(const Part &part) const
{
    const BlockLayout layout = blockLayout(part.range.count, part.counts, m_width, m_context.form);
    const std::byte *data = part.data.data();
    return {data + layout.rows, layout.places > layout.degrees ? data + layout.degrees : nullptr, data + layout.places,
            part.counts};
}

Status SampledBatches::close()
{
    const auto places = static_cast<std::int64_t>(m_batches.size());
    for (std::int64_t step = std::max<std::int64_t>(0, m_asked - places); step < m_asked; ++step) {
        if (Status taken = take(m_batches[static_cast<std::size_t>(step % places)]); !taken)
            return taken;
    }
    for (const int sampler : m_samplers) {
        if (Status sent = send(sampler, {kEnd, 0, 0, 0}); !sent)
            return sent;
    }
    for (Sent &sent : m_commands) {
        if (Status left = m_context.link.wait(sent.ticket, m_context.deadline(), "a sampler to end"); !left)
            return left;
    }
    return {};
}

const SampledBatches::Part &SampledBatches::partOf(std::int64_t &sample) const
{
    std::size_t i = 0;
    for (; sample >= m_current->parts[i].range.count; ++i)
        sample -= m_current->parts[i].range.count;
    return m_current->parts[i];
}

void SampledBatches::fillInputAt(std::size_t input, std::int64_t sample, void *out) const
{
    const Part &part = partOf(sample);
    const std::int64_t rows[] = {1, m_fanout.first, m_fanout.first * m_fanout.second};
    std::int64_t before = 0; // rows of the inputs in front
    for (std::size_t i = 0; i < input; ++i)
        before += rows[i] * part.range.count;
    const std::int64_t row = before + sample * rows[input];
    const std::int64_t bytes = 4 * m_width;
    std::memcpy(out, part.data.data() + 8 * part.range.count + row * bytes,
                static_cast<std::size_t>(rows[input] * bytes));
}

void SampledBatches::fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const
{
    m_joined.clear();
    for (std::int64_t sample : samples) {
        const Part &part = partOf(sample);
        m_joined.push_back({messageOf(part), part.begins[static_cast<std::size_t>(sample)],
                            part.begins[static_cast<std::size_t>(sample) + 1]});
    }
    m_joiner->join(m_joined, inputs);
}

void SampledBatches::fillLabels(std::int64_t sample, std::int64_t *out) const
{
    const Part &part = partOf(sample);
    std::memcpy(out, part.data.data() + 8 * sample, sizeof *out);
}

} // namespace planloom::runtime
