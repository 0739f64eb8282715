// SPDX-License-Identifier: Apache-2.0
#include "profiler/replica.h"

#include "engine/base/statistics.h"
#include "executor/runtime/boxing.h"
#include "executor/runtime/clock.h"
#include "profiler/measurement.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <set>
#include <utility>

namespace planloom::profiler {
namespace {

/// Micro-batches of a step that are done: as many as fill the slots of usual pipelines.
constexpr std::int32_t kMostMicroBatches = 4;

/// A collective inside a body that needs other ranks' parts.
bool meets(const program::Program &program, const program::Task &task)
{
    const auto *boxing = task.as<program::Boxing>();
    return boxing != nullptr && boxing->team.valid() && program.team(boxing->team).ranks.size() > 1;
}

bool waitsForOthers(const program::Program &program, const program::Task &task)
{
    return std::ranges::any_of(program.dependenciesOf(task), [&](const program::Dependency &needed) {
        return meets(program, program.task(needed.task));
    });
}

/// Spread evenly and the same each time (Knuth's multiplicative hashing).
std::uint64_t scramble(std::uint64_t value) { return (value + 1) * 0x9e3779b97f4a7c15U >> 32; }

/// Seconds, less than a kernel of any GPU: the least that is left where the time of a wait is taken off.
constexpr double kLeastLeft = 1e-7;

constexpr std::size_t kDrawn = 1 << 16; ///< numbers that are drawn; samples have them from different places on

/// In [-1, 1). Images have so many that drawing each would take longer than a GPU's step.
const std::vector<float> &drawnFloats()
{
    static const std::vector<float> kFloats = [] {
        std::vector<float> floats(kDrawn);
        for (std::size_t i = 0; i < kDrawn; ++i)
            floats[i] = static_cast<float>(scramble(i) % 2048) / 1024 - 1;
        return floats;
    }();
    return kFloats;
}

void fillFloats(std::uint64_t base, std::int64_t count, float *out)
{
    const std::vector<float> &drawn = drawnFloats();
    std::size_t from = scramble(base) % kDrawn;
    for (std::int64_t i = 0; i < count;) {
        const std::int64_t now = std::min(count - i, static_cast<std::int64_t>(kDrawn - from));
        std::copy_n(drawn.begin() + static_cast<std::ptrdiff_t>(from), now, out + i);
        i += now;
        from = 0;
    }
}

} // namespace

void MadeUpData::fillInput(std::int64_t sample, void *out) const
{
    const auto base = static_cast<std::uint64_t>(sample * m_needs.perSample);
    if (m_needs.kind != data::Needs::Kind::Tokens)
        return fillFloats(base, m_needs.perSample, static_cast<float *>(out));
    const auto classes = static_cast<std::uint64_t>(m_needs.classes > 0 ? m_needs.classes : 1);
    for (std::int64_t i = 0; i < m_needs.perSample; ++i) {
        const std::uint64_t value = scramble(base + static_cast<std::uint64_t>(i));
        static_cast<std::int64_t *>(out)[i] = static_cast<std::int64_t>(value % classes);
    }
}

void MadeUpData::fillInputAt(std::size_t input, std::int64_t sample, void *out) const
{
    if (m_needs.kind == data::Needs::Kind::Tokens)
        return fillInput(sample, out);
    const data::Needs::Input &need = m_needs.inputs[input];
    const auto base = static_cast<std::uint64_t>(sample * need.perSample);
    if (need.type == graph::DType::F32)
        return fillFloats(base, need.perSample, static_cast<float *>(out));
    for (std::int64_t i = 0; i < need.perSample; ++i) {
        const std::uint64_t value = scramble(base + static_cast<std::uint64_t>(i));
        if (need.type == graph::DType::I64) // without a table: a mask, of which nothing is hidden
            static_cast<std::int64_t *>(out)[i] =
                need.limit > 0 ? static_cast<std::int64_t>(value % static_cast<std::uint64_t>(need.limit)) : 1;
        else
            static_cast<std::uint8_t *>(out)[i] = 1;
    }
}

bool MadeUpData::joinsBatches() const
{
    return std::any_of(m_needs.inputs.begin(), m_needs.inputs.end(),
                       [](const data::Needs::Input &need) { return need.entries > 0; });
}

/// Lists of entries are about equally long; all else is filled sample by sample.
void MadeUpData::fillBatch(std::span<const std::int64_t> samples, std::span<void *const> inputs) const
{
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const data::Needs::Input &need = m_needs.inputs[i];
        const std::int64_t bytes = need.perSample * graph::sizeOf(need.type);
        const auto count = static_cast<std::int64_t>(samples.size());
        for (std::int64_t s = 0; s < count && inputs[i] != nullptr && need.entries == 0; ++s)
            fillInputAt(i, samples[static_cast<std::size_t>(s)], static_cast<std::byte *>(inputs[i]) + s * bytes);
        for (std::int64_t k = 0; k < count * need.perSample && inputs[i] != nullptr && need.entries > 0; ++k)
            static_cast<std::int64_t *>(inputs[i])[k] = (k + 1) * need.entries / need.perSample;
    }
}

void MadeUpData::fillLabels(std::int64_t sample, std::int64_t *out) const
{
    const std::int64_t given = m_needs.labelsPerSample > 0 ? m_needs.labelsPerSample : 1;
    const std::int64_t count = m_needs.kind == data::Needs::Kind::Tokens ? m_needs.perSample : given;
    const auto classes = static_cast<std::uint64_t>(m_needs.classes > 0 ? m_needs.classes : 1);
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = static_cast<std::int64_t>(scramble(static_cast<std::uint64_t>(sample * count + i)) % classes);
}

std::int32_t MadeUpPlaces::tableOf(std::string_view input) const
{
    for (std::size_t t = 0; t < m_program.tables.size(); ++t)
        if (m_program.tables[t].places == input)
            return static_cast<std::int32_t>(t);
    return -1;
}

const std::string &MadeUpPlaces::idsOf(std::int32_t table) const
{
    return m_program.tables[static_cast<std::size_t>(table)].ids;
}

void MadeUpPlaces::toPlaces(std::int32_t table, std::int64_t *ids, std::int64_t count) const
{
    const std::int64_t window = m_program.tables[static_cast<std::size_t>(table)].window;
    for (std::int64_t i = 0; i < count; ++i)
        ids[i] %= window;
}

Result<std::unique_ptr<Replica>> Replica::create(const program::Program &program, RankId rank,
                                                 const graph::Graph &subject, const runtime::Feed &feed,
                                                 const ProfileOptions &options, device::Device &device,
                                                 Stopwatch stopwatch)
{
    const program::Rank &place = program.ranks[rank.index()];
    const program::Body &made = program.body(place.bodies.front());
    std::unique_ptr<Replica> replica(new Replica(feed, made, options.optimizer, stopwatch));
    auto arena = runtime::Arena::allocate(device, place.arenaBytes);
    if (!arena)
        return arena.error();
    replica->m_arena = std::move(*arena);
    auto queue = device.makeQueue();
    if (!queue)
        return queue.error();
    replica->m_queue = std::move(*queue);
    auto event = device.makeEvent();
    if (!event)
        return event.error();
    replica->m_event = std::move(*event);
    replica->m_runsLater = !device.hostAddressable();
    auto norms = runtime::UpdateNorms::create(program, options.optimizer.rule.formula().norms, device);
    if (!norms)
        return norms.error();
    replica->m_norms = std::move(*norms);
    auto stage = runtime::StageReplica::create(program, made, {device, *replica->m_queue, replica->m_arena},
                                               {subject, replica->m_feed, options.seed, options.modelFolder,
                                                options.optimizer, replica->m_norms});
    if (!stage)
        return stage.error();
    replica->m_stage.emplace(std::move(*stage));
    replica->m_ends.reserve(made.training.graph.ops().size());
    replica->chooseTasks(program, place);
    if (const Status waited = replica->measureWaits(); !waited)
        return waited.error();
    return replica;
}

void Replica::chooseTasks(const program::Program &program, const program::Rank &rank)
{
    const std::vector<plan::SampleRange> &slices = m_bodyMade->slices;
    std::vector<bool> chosen(slices.size());
    std::set<std::int64_t> sizes;
    for (std::size_t m = 0; m < slices.size(); ++m)
        chosen[m] = slices[m].size > 0 && (sizes.insert(slices[m].size).second || m < kMostMicroBatches);
    m_sizes = sizes.size();
    for (const TaskId id : rank.computeOrder()) {
        const program::Task &task = program.task(id);
        if (task.body == rank.bodies.front() && task.microBatch >= 0
            && chosen[static_cast<std::size_t>(task.microBatch)]) {
            const bool waits = !m_tasks.empty() && waitsForOthers(program, task);
            m_segments.push_back((m_segments.empty() ? 0 : m_segments.back()) + (waits ? 1 : 0));
            m_tasks.push_back(task);
        }
    }
    m_segmentSeconds.resize(m_segments.empty() ? 1 : m_segments.back() + 1);
}

Status Replica::exchangeBy(std::unique_ptr<comm::Communicator> end, const program::Program &program,
                           std::span<const RankId> ranks)
{
    const RankId own = ranks[static_cast<std::size_t>(end->rank())];
    for (const program::Team &team : program.teams) {
        std::vector<int> members;
        for (std::size_t r = 0; r < ranks.size(); ++r)
            if (std::ranges::binary_search(team.ranks, ranks[r]))
                members.push_back(static_cast<int>(r));
        auto group = members.size() > 1 ? end->makeGroup(members) : Result<comm::Group>(comm::Group{});
        if (!group)
            return group.error();
        m_groups.push_back(*group);
    }
    std::set<TaskId> made;
    const std::function<void(const program::Task &)> addBefore = [&](const program::Task &task) {
        for (const program::Dependency &needed : program.dependenciesOf(task)) {
            const program::Task &before = program.task(needed.task);
            const auto *boxing = before.as<program::Boxing>();
            if (boxing == nullptr || boxing->served || !meets(program, before) || !made.insert(needed.task).second)
                continue;
            addBefore(before); // sums over ranges of time come before those over samples
            const program::Team &team = program.team(boxing->team);
            m_before.back().push_back({before, team.ranks.size(), team.position(own)});
        }
    };
    for (const program::Task &task : m_tasks) {
        m_before.emplace_back();
        addBefore(task);
    }
    m_comm = std::move(end);
    return {};
}

Status Replica::exchangeBefore(std::size_t index)
{
    constexpr std::chrono::seconds kDeadline{60};
    runtime::StageRunner &runner = *m_stage->runner;
    for (const Inside &inside : m_before[index]) {
        const auto &boxing = *inside.task.as<program::Boxing>();
        const runtime::Communication what = runner.communication(boxing.pass, inside.task.microBatch, boxing.op);
        const runtime::BoxingMember member{*m_comm, m_groups[boxing.team.index()], inside.members, inside.at};
        if (runtime::beginsInPlace(boxing, member) && what.input != what.output)
            std::memcpy(what.output, what.input, static_cast<std::size_t>(what.inputBytes));
        auto request = runtime::startBoxing(boxing, what, member);
        if (!request)
            return request.error();
        if (const Status done = m_comm->wait(*request, kDeadline, "the other ranks of the profile"); !done)
            return done;
        runner.communicated(boxing.pass, inside.task.microBatch, boxing.op);
    }
    return {};
}

/// In front of the task at hand, which waits for other ranks.
void Replica::meetOthers(std::size_t index, const std::function<void()> &between)
{
    if (between)
        between();
    if (!m_comm)
        return;
    const std::int64_t begin = runtime::monotonicNanoseconds();
    if (m_status)
        m_status = exchangeBefore(index);
    if (between)
        between();
    m_exchangeSeconds += static_cast<double>(runtime::monotonicNanoseconds() - begin) * kNanosecond;
}

std::int64_t Replica::updated() const
{
    std::int64_t count = 0;
    for (const program::PersistentTensor &held : m_bodyMade->persistent)
        count += held.kind == program::PersistentTensor::Kind::Parameter && held.gradient >= 0 && !held.served
            ? held.updateCount
            : 0;
    return count;
}

std::int64_t Replica::nanoseconds() const
{
    if (m_stopwatch == Stopwatch::Wall)
        return runtime::monotonicNanoseconds();
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void Replica::wait()
{
    constexpr std::chrono::minutes kDeadline{10}; // a slow device, or an emulated one
    if (const Status waited = runtime::drain(*m_queue, *m_event, kDeadline); !waited && m_status)
        m_status = waited;
}

Status Replica::measureWaits()
{
    constexpr int kWaits = 21;
    std::vector<double> waits;
    for (int i = 0; i < kWaits && m_runsLater && m_status; ++i) {
        const std::int64_t begin = nanoseconds();
        wait();
        waits.push_back(static_cast<double>(nanoseconds() - begin) * kNanosecond);
    }
    m_waitSeconds = waits.empty() ? 0 : median(std::move(waits));
    return m_status;
}

void Replica::betweenOperators()
{
    if (m_runsLater && !m_waitsForEach)
        return;
    if (m_runsLater)
        wait();
    m_ends.push_back(nanoseconds());
}

PassTimes &Replica::timesOf(const program::Task &task)
{
    const bool backward = task.as<program::Compute>()->pass != program::Pass::Forward;
    return (backward ? m_backward : m_forward)[m_bodyMade->slices[static_cast<std::size_t>(task.microBatch)].size];
}

void Replica::noteOperators(const program::Task &task, std::int64_t begin)
{
    const program::Compute &part = *task.as<program::Compute>();
    const bool backward = part.pass != program::Pass::Forward;
    PassTimes &times = timesOf(task);
    const auto first = static_cast<std::size_t>(part.firstOp) - (backward ? m_bodyMade->training.forwardOps : 0);
    times.operators.resize(std::max(times.operators.size(), first + m_ends.size()));
    for (std::size_t i = 0; i < m_ends.size(); ++i) {
        const double seconds = static_cast<double>(m_ends[i] - begin) * kNanosecond;
        times.operators[first + i].push_back(m_runsLater ? std::max(seconds - m_waitSeconds, kLeastLeft) : seconds);
        begin = m_ends[i];
    }
}

void Replica::notePass(std::size_t index, std::int64_t nanoseconds)
{
    const program::Task &task = m_tasks[index];
    const program::Compute &part = *task.as<program::Compute>();
    const double seconds = std::max(static_cast<double>(nanoseconds) * kNanosecond - m_waitSeconds, kLeastLeft);
    double &passSeconds = m_passSeconds[part.pass != program::Pass::Forward ? 1 : 0];
    passSeconds += seconds;
    m_segmentSeconds[m_segments[index]] += seconds;
    if (part.closes)
        timesOf(task).whole.push_back(std::exchange(passSeconds, 0));
}

void Replica::run(std::size_t index, Recorded recorded)
{
    const program::Task &task = m_tasks[index];
    const program::Compute &run = *task.as<program::Compute>();
    const runtime::Part part{run.firstOp, run.lastOp, run.opens, run.closes};
    m_ends.clear();
    runtime::StageRunner &runner = *m_stage->runner;
    const std::int64_t begin = nanoseconds();
    if (run.pass == program::Pass::Forward)
        m_status = runner.forward(task.microBatch, m_step, part, *this);
    else if (run.pass == program::Pass::Backward)
        runner.backward(task.microBatch, part, *this);
    else if (run.pass == program::Pass::WeightGradient)
        runner.weightGradient(task.microBatch, part, *this);
    else
        runner.recompute(task.microBatch, part, *this);
    if (m_runsLater)
        wait();
    const std::int64_t ended = m_ends.empty() ? begin : m_ends.back();
    const std::int64_t end = m_runsLater ? nanoseconds() : ended;
    if (run.pass == program::Pass::Recompute)
        return;
    if (recorded.operators)
        noteOperators(task, begin);
    if (recorded.passes)
        notePass(index, end - begin);
}

void Replica::step(bool record, const std::function<void()> &between)
{
    m_waitsForEach = false;
    if (!m_runsLater)
        return oneStep({record, record}, between);
    oneStep({false, record}, between);
    m_waitsForEach = true;
    oneStep({record, false}, between);
}

void Replica::oneStep(Recorded recorded, const std::function<void()> &between)
{
    std::vector<double> computed;
    std::int64_t segmentBegin = nanoseconds();
    for (std::size_t i = 0; i < m_tasks.size(); ++i) {
        if (i > 0 && m_segments[i] != m_segments[i - 1]) {
            computed.push_back(static_cast<double>(nanoseconds() - segmentBegin) * kNanosecond);
            meetOthers(i, between);
            segmentBegin = nanoseconds();
        }
        if (m_status)
            run(i, recorded);
    }
    m_loss = m_stage->runner->takeLoss();
    const std::int64_t begin = nanoseconds();
    if (const Status updated = m_stage->updater.updateAlone({m_step++, m_how.learningRate}); !updated && m_status)
        m_status = updated;
    if (m_runsLater)
        wait();
    if (!recorded.passes)
        return;
    computed.push_back(static_cast<double>(nanoseconds() - segmentBegin) * kNanosecond);
    m_computed.push_back(std::move(computed));
    m_optimizer.push_back(
        std::max(static_cast<double>(nanoseconds() - begin) * kNanosecond - m_waitSeconds, kLeastLeft));
    m_segmentSeconds.back() += m_optimizer.back();
    m_steps.push_back(m_segmentSeconds);
    std::ranges::fill(m_segmentSeconds, 0);
}

} // namespace planloom::profiler
