// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"
#include "engine/compile/compile.h"
#include "engine/program/program.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"
#include "tests/golden_text.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

/// A number for each part of a Program and of what the cost clock makes of it. It proves that a change of the code
/// changed no Program: the numbers lie in tests/golden/signatures. They depend on meaning, not on representation: a
/// task is its rank's device, its id text and how many of that id precede it on the rank; sets without an order are
/// sorted. Reals count by their bits, so the numbers are the same wherever libm is.
namespace planloom::testing {

/// 64-bit FNV-1a.
class Hash {
public:
    Hash &number(std::int64_t value)
    {
        const auto bits = static_cast<std::uint64_t>(value);
        for (int shift = 0; shift < 64; shift += 8)
            byte(static_cast<std::uint8_t>(bits >> shift));
        return *this;
    }
    Hash &real(double value) { return number(std::bit_cast<std::int64_t>(value)); }
    Hash &text(std::string_view text)
    {
        for (const char c : text)
            byte(static_cast<std::uint8_t>(c));
        return number(static_cast<std::int64_t>(text.size()));
    }
    template <class Numbers>
    Hash &all(const Numbers &numbers)
    {
        for (const auto value : numbers)
            number(static_cast<std::int64_t>(value));
        return number(static_cast<std::int64_t>(std::size(numbers)));
    }
    /// A set: the same in any order.
    Hash &unordered(std::vector<std::uint64_t> members)
    {
        std::sort(members.begin(), members.end());
        return all(members);
    }
    [[nodiscard]] std::uint64_t value() const { return m_value; }

private:
    void byte(std::uint8_t value) { m_value = (m_value ^ value) * 1099511628211U; }
    std::uint64_t m_value = 14695981039346656037U;
};

/// Reads a Program for its signature. Where its C++ fields are: here and nowhere else in the signature.
class ProgramReader {
public:
    using Task = program::Task;

    ProgramReader(const program::Program &program, const cluster::Cluster &cluster)
        : m_program(program),
          m_cluster(cluster)
    {
        m_keys.resize(program.tasks.size());
        for (const program::Rank &rank : program.ranks) {
            std::unordered_map<std::string, int> seen;
            for (const TaskId id : rank.tasks) {
                const std::string text = program::idOf(program.task(id));
                m_keys[id.index()] = Hash().text(device(rank.device)).text(text).number(seen[text]++).value();
            }
        }
    }

    [[nodiscard]] const program::Program &program() const { return m_program; }
    [[nodiscard]] const std::string &device(DeviceId id) const { return m_cluster.device(id).name; }
    [[nodiscard]] const std::string &device(RankId rank) const { return device(m_program.ranks[rank.index()].device); }
    [[nodiscard]] const Task &task(TaskId id) const { return m_program.task(id); }
    [[nodiscard]] std::uint64_t key(TaskId id) const { return m_keys[id.index()]; }

    /// Tasks of the host lane (agreements on whether the step counts) are no part of the signature.
    [[nodiscard]] bool counts(TaskId id) const { return task(id).lane != program::Lane::Host; }
    /// All tasks that count, by rank, in the rank's order.
    template <class Visit>
    void eachTask(const Visit &visit) const
    {
        for (const program::Rank &rank : m_program.ranks)
            for (const TaskId id : rank.tasks)
                if (counts(id))
                    visit(id);
    }

    [[nodiscard]] static const char *lane(const Task &task)
    {
        switch (task.lane) {
        case program::Lane::Compute: return "compute";
        case program::Lane::Send: return "send";
        case program::Lane::Receive: return "receive";
        case program::Lane::Collective: return "collective";
        case program::Lane::Host: return "host";
        case program::Lane::CopyOut: return "copy-out";
        case program::Lane::CopyIn: return "copy-in";
        }
        return "?";
    }
    [[nodiscard]] std::vector<std::uint64_t> dependencies(const Task &task) const
    {
        std::vector<std::uint64_t> keys;
        for (const program::Dependency &before : m_program.dependenciesOf(task))
            if (counts(before.task))
                keys.push_back(
                    before.stepsBack == 0
                        ? key(before.task)
                        : Hash().number(static_cast<std::int64_t>(key(before.task))).number(before.stepsBack).value());
        std::sort(keys.begin(), keys.end());
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        return keys;
    }
    /// Devices of the task's team, in the order of its members.
    [[nodiscard]] std::uint64_t team(TeamId index) const
    {
        Hash hash;
        if (index.valid())
            for (const DeviceId id : m_program.team(index).devices)
                hash.text(device(id));
        return hash.value();
    }
    /// The operators that a task stands for: a run of them, or the one that communicates.
    [[nodiscard]] static program::Compute run(const Task &task)
    {
        if (const auto *run = task.as<program::Compute>())
            return *run;
        program::Compute made;
        if (const auto *boxing = task.as<program::Boxing>()) {
            made.firstOp = boxing->op;
            made.lastOp = boxing->op + 1;
        }
        return made;
    }
    /// "s1 r0 d2": the stage replica's part that a task belongs to.
    [[nodiscard]] static std::string owner(const program::Body &body)
    {
        return fmt::format("s{} r{} d{}", body.stage.value, body.replica, body.device);
    }

private:
    const program::Program &m_program;
    const cluster::Cluster &m_cluster;
    std::vector<std::uint64_t> m_keys;
};

/// What some Programs have beside their tasks: the steps after which all repeats, the pool of a memory policy, tables,
/// a server.
inline void addRest(Hash &hash, const program::Program &program)
{
    if (program.spansSteps())
        hash.number(program.periodSteps).number(program.steadyFrom).number(program.openSteps);
    if (!program.lanePolicy.empty())
        hash.text(program.lanePolicy);
    for (const program::PooledCall &call : program.pooledCalls)
        hash.number(call.op).number(call.used).number(call.usedAfter);
    for (const program::HostCopy &copy : program.hostCopies)
        hash.number(copy.place).number(copy.host);
    for (const program::Table &table : program.tables)
        for (const program::Table::Member &member : table.members)
            hash.number(member.begin).number(member.end);
    if (program.server)
        hash.number(program.server->messageBytes);
    if (program.ridge != 0)
        hash.number(std::llround(program.ridge * 1e9));
}

/// Ranks, tasks in order with what they are, the order of compute tasks, who stands for whom in a folded program.
inline std::uint64_t tasksHash(const ProgramReader &reader)
{
    Hash hash;
    const program::Program &program = reader.program();
    hash.number(program.microBatches).number(program.globalBatch);
    for (const program::Rank &rank : program.ranks) {
        hash.text(reader.device(rank.device)).number(rank.standsFor);
        for (const TaskId id : rank.tasks) {
            if (!reader.counts(id))
                continue;
            const program::Task &task = reader.task(id);
            hash.number(static_cast<std::int64_t>(reader.key(id))).text(ProgramReader::lane(task));
            const program::Compute run = ProgramReader::run(task);
            hash.number(task.microBatch).number(run.firstOp).number(run.lastOp).number(task.bytes());
            hash.number(run.opens).number(run.closes).number(static_cast<std::int64_t>(reader.team(task.team())));
            if (task.body.valid())
                hash.text(ProgramReader::owner(program.body(task.body)));
            if (task.cadence != 0) {
                const program::Cadence &cadence = program.cadences[static_cast<std::size_t>(task.cadence - 1)];
                hash.number(cadence.period).number(cadence.phase).number(cadence.first).number(cadence.last);
                hash.number(cadence.staysOpen);
            }
            if (task.priority != 0)
                hash.number(task.priority);
        }
        if (program.spansSteps())
            for (const TaskId id : rank.orders[static_cast<std::size_t>(program::Lane::Collective)])
                hash.number(static_cast<std::int64_t>(reader.key(id)));
        for (const TaskId id : rank.computeOrder())
            hash.number(static_cast<std::int64_t>(reader.key(id)));
    }
    for (const program::Program::Place &place : program.places)
        hash.text(reader.device(place.device)).text(reader.device(place.rank));
    addRest(hash, program);
    return hash.value();
}

inline std::uint64_t dependenciesHash(const ProgramReader &reader)
{
    Hash hash;
    reader.eachTask([&](TaskId id) {
        hash.number(static_cast<std::int64_t>(reader.key(id))).all(reader.dependencies(reader.task(id)));
    });
    return hash.value();
}

inline std::uint64_t groupsHash(const ProgramReader &reader)
{
    std::map<GroupId, std::vector<std::uint64_t>> members;
    reader.eachTask([&](TaskId id) {
        if (reader.task(id).group.valid())
            members[reader.task(id).group].push_back(reader.key(id));
    });
    std::vector<std::uint64_t> groups;
    groups.reserve(members.size());
    for (auto &[group, keys] : members)
        groups.push_back(Hash().unordered(std::move(keys)).value());
    return Hash().unordered(std::move(groups)).value();
}

inline std::uint64_t persistentHash(const program::PersistentTensor &held)
{
    Hash hash;
    hash.text(held.name).number(static_cast<std::int64_t>(held.kind)).text(graph::name(held.type)).all(held.sizes);
    for (const auto &axis : held.region)
        for (const sharding::Interval &interval : axis)
            hash.number(interval.begin).number(interval.end);
    hash.number(held.begin).number(held.count).number(held.offset);
    hash.number(held.copy).number(held.copyBegin).number(held.copyCount);
    hash.number(held.updateBegin).number(held.updateCount).number(held.gradient);
    for (std::size_t s = 0; s < 2; ++s) // as many as SGD and AdamW have
        hash.number(s < held.states.size() ? held.states[s] : -1);
    hash.number(2);
    return hash.number(held.saves).value();
}

/// Where every tensor, slot, parameter and message of one stage replica's part lies.
inline std::uint64_t bodyHash(const ProgramReader &reader, const program::Body &body)
{
    Hash hash;
    hash.text(ProgramReader::owner(body)).text(reader.device(body.rank)).all(body.coordinates);
    hash.number(body.recompute).number(body.maxSamples);
    for (const plan::SampleRange &slice : body.slices)
        hash.number(slice.begin).number(slice.size);
    std::vector<std::uint64_t> places;
    for (const auto *pass : {&body.forwardPlaces, &body.backwardPlaces})
        for (std::size_t t = 0; t < pass->size(); ++t) {
            const program::Placement &place = (*pass)[t];
            if (place.offset >= 0)
                places.push_back(Hash()
                                     .text(pass == &body.forwardPlaces ? "forward" : "backward")
                                     .text(body.training.graph.tensors()[t].name)
                                     .text(program::name(place.area))
                                     .number(place.offset)
                                     .value());
        }
    for (const program::Body::Accumulator &sum : body.accumulators)
        places.push_back(
            Hash().text("sum").text(body.training.graph.tensor(sum.gradient).name).number(sum.offset).value());
    for (const program::PersistentTensor &held : body.persistent)
        places.push_back(persistentHash(held));
    hash.unordered(std::move(places));
    for (std::size_t a = 0; a < body.pools.size(); ++a) {
        const program::Pool &pool = body.pools[a];
        if (pool.bytes() > 0)
            hash.text(program::name(static_cast<program::Area>(a)))
                .number(pool.begin)
                .number(pool.slotBytes)
                .number(pool.count);
    }
    for (const program::Slots &taken : body.slotTable)
        for (std::size_t a = 0; a < body.pools.size(); ++a)
            if (body.pools[a].bytes() > 0)
                hash.number(taken.slot[a]);
    for (const auto *way : {&body.incoming, &body.outgoing})
        for (const auto &messages : *way) {
            for (const program::Message &message : messages)
                hash.text(reader.device(message.peer))
                    .number(message.samples.begin)
                    .number(message.samples.size)
                    .number(message.activation)
                    .number(message.gradient);
            hash.number(static_cast<std::int64_t>(messages.size()));
        }
    return hash.value();
}

inline std::uint64_t bucketHash(const ProgramReader &reader, const program::Bucket &bucket)
{
    Hash hash;
    hash.number(static_cast<std::int64_t>(reader.team(bucket.team))).number(bucket.zero);
    hash.text(graph::name(bucket.type)).number(bucket.elements);
    for (const program::Bucket::Entry &entry : bucket.entries)
        hash.text(entry.parameter).number(entry.at).number(entry.elements);
    hash.all(bucket.parameters).all(bucket.copies).all(bucket.gradients).all(bucket.sums);
    for (std::size_t s = 0; s < 2; ++s)
        hash.all(s < bucket.states.size() ? bucket.states[s] : std::vector<std::int64_t>(bucket.parameters.size(), -1));
    return hash.value();
}

inline std::uint64_t memoryHash(const ProgramReader &reader)
{
    Hash hash;
    for (const program::Rank &rank : reader.program().ranks)
        hash.text(reader.device(rank.device)).number(rank.arenaBytes).number(rank.persistentBytes);
    std::vector<std::uint64_t> bodies;
    for (const program::Body &body : reader.program().bodies)
        bodies.push_back(bodyHash(reader, body));
    hash.unordered(std::move(bodies));
    for (const program::Bucket &bucket : reader.program().buckets) // in the order of their numbers in task ids
        hash.number(static_cast<std::int64_t>(bucketHash(reader, bucket)));
    return hash.value();
}

/// The operators that each stage replica's part executes, by tensor names.
inline std::uint64_t operatorsHash(const ProgramReader &reader)
{
    std::vector<std::uint64_t> bodies;
    for (const program::Body &body : reader.program().bodies) {
        const graph::Graph &graph = body.training.graph;
        Hash hash;
        hash.text(ProgramReader::owner(body));
        hash.number(static_cast<std::int64_t>(body.training.forwardOps));
        hash.number(static_cast<std::int64_t>(body.training.weightOps));
        for (const graph::Op &op : graph.ops()) {
            hash.text(op.type).text(op.name);
            for (const auto *list : {&op.inputs, &op.outputs})
                for (const TensorId id : *list)
                    hash.text(id.valid() ? graph.tensor(id).name : std::string());
            hash.number(static_cast<std::int64_t>(op.attributes.size()));
            for (const auto &[key, attribute] : op.attributes) {
                hash.text(key);
                std::visit(
                    [&hash]<class Value>(const Value &value) {
                        if constexpr (std::is_same_v<Value, std::int64_t>)
                            hash.number(value);
                        else if constexpr (std::is_same_v<Value, double>)
                            hash.real(value);
                        else if constexpr (std::is_same_v<Value, std::vector<double>>)
                            for (const double number : value)
                                hash.real(number);
                        else if constexpr (std::is_same_v<Value, std::string>)
                            hash.text(value);
                        else
                            hash.all(value);
                    },
                    attribute);
            }
        }
        bodies.push_back(hash.value());
    }
    return Hash().unordered(std::move(bodies)).value();
}

inline std::uint64_t durationsHash(const ProgramReader &reader)
{
    Hash hash;
    reader.eachTask([&](TaskId id) {
        hash.number(static_cast<std::int64_t>(reader.key(id))).real(reader.task(id).duration.value());
    });
    if (const cost::CommunicationOnCores &onCores = reader.program().communicationOnCores; onCores.secondsPerByte > 0)
        hash.real(onCores.secondsPerByte).real(onCores.weight).real(onCores.delay.value());
    return hash.real(reader.program().lowerBound.value()).real(reader.program().oneDevice.value()).value();
}

/// When the cost clock starts and ends each task.
class Times final : public simulate::Listener {
public:
    explicit Times(const ProgramReader &reader) : m_reader(reader) {}
    void started(TaskId task, double seconds) override { add("starts", task, seconds); }
    void ended(TaskId task, double seconds) override { add("ends", task, seconds); }
    [[nodiscard]] std::uint64_t value() const { return Hash().unordered(m_events).value(); }

private:
    void add(const char *what, TaskId task, double seconds)
    {
        if (m_reader.counts(task))
            m_events.push_back(
                Hash().text(what).number(static_cast<std::int64_t>(m_reader.key(task))).real(seconds).value());
    }

    const ProgramReader &m_reader;
    std::vector<std::uint64_t> m_events;
};

/// Start and end of every task, the memory curves, and the report. 0: the Program cannot run.
inline std::uint64_t simulationHash(const ProgramReader &reader, const cluster::Cluster &cluster)
{
    const auto simulation = simulate::simulate(reader.program(), cluster, {.trace = false, .memory = true});
    Times times(reader);
    const auto seconds = simulate::CostClock(reader.program()).run(&times);
    if (!simulation || !seconds)
        return 0;
    Hash hash;
    hash.real(*seconds).number(static_cast<std::int64_t>(times.value()));
    for (std::size_t r = 0; r < simulation->memory.size(); ++r) {
        hash.text(reader.device(RankId(static_cast<std::int64_t>(r))));
        for (const simulate::MemoryPoint &point : simulation->memory[r])
            hash.real(point.seconds)
                .number(point.persistent)
                .number(point.activations)
                .number(point.gradients)
                .number(point.workspace);
    }
    const simulate::Report &report = simulation->report;
    hash.real(report.iterationSeconds).real(report.samplesPerSecond).real(report.bubbleFraction).number(report.fits);
    hash.real(report.lowerBoundSeconds).real(report.speedupOverOneDevice);
    for (const simulate::DeviceReport &device : report.devices)
        hash.text(device.id)
            .number(device.peakBytes)
            .number(device.capacityBytes)
            .real(device.busyFraction)
            .real(device.commFraction);
    return hash.value();
}

/// "tasks=... deps=... groups=... memory=... operators=... durations=... simulation=...".
inline std::string signatureOf(const program::Program &program, const cluster::Cluster &cluster)
{
    const ProgramReader reader(program, cluster);
    return fmt::format("tasks={:016x} deps={:016x} groups={:016x} memory={:016x} operators={:016x} durations={:016x} "
                       "simulation={:016x}",
                       tasksHash(reader), dependenciesHash(reader), groupsHash(reader), memoryHash(reader),
                       operatorsHash(reader), durationsHash(reader), simulationHash(reader, cluster));
}

/// What the plan compiles to: whole, with operators and places if @p bodies and the model can be differentiated; or
/// folded.
inline std::string signatureOf(const plan::Plan &plan, const plan::Subject &about, bool bodies, bool fold)
{
    auto program = compile::compilePlan(plan, about, {.bodies = bodies, .fold = fold});
    if (!program && bodies && program.error().code == ErrorCode::Unsupported)
        program = compile::compilePlan(plan, about, {.bodies = false});
    return program ? signatureOf(*program, *about.cluster) : "refused";
}

/// Signatures by name, one a line: "name tasks=... ...". Names have no spaces.
class SignatureList {
public:
    void add(const std::string &name, const std::string &signature) { m_lines.emplace_back(name, signature); }
    void add(const std::string &name, const plan::Plan &plan, const plan::Subject &about)
    {
        add(name + "/whole", signatureOf(plan, about, true, false));
        add(name + "/folded", signatureOf(plan, about, false, true));
    }
    [[nodiscard]] std::size_t size() const { return m_lines.size(); }

    /// Compares with tests/@p file: a line for each case that differs, with the parts that do; empty: equal.
    [[nodiscard]] std::string difference(const std::string &file) const
    {
        std::string text;
        for (const auto &[name, signature] : m_lines)
            text += name + " " + signature + "\n";
        std::map<std::string, std::string> golden;
        std::istringstream lines(goldenText(file, text));
        for (std::string line; std::getline(lines, line);)
            golden[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
        std::string found;
        for (const auto &[name, signature] : m_lines) {
            const auto expected = golden.extract(name);
            if (!expected)
                found += name + ": not in the golden file\n";
            else if (expected.mapped() != signature)
                found += name + ": differs in" + differentParts(expected.mapped(), signature) + "\n";
        }
        for (const auto &[name, signature] : golden)
            found += name + ": only in the golden file\n";
        return found;
    }

private:
    static std::string differentParts(const std::string &expected, const std::string &found)
    {
        std::istringstream before(expected);
        std::istringstream now(found);
        std::string names;
        for (std::string a, b; before >> a, now >> b, before || now; a.clear(), b.clear())
            if (a != b)
                names += " " + (b.empty() ? a : b).substr(0, (b.empty() ? a : b).find('='));
        return names;
    }

    std::vector<std::pair<std::string, std::string>> m_lines;
};

} // namespace planloom::testing
