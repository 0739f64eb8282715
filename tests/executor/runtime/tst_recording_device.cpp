// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"
#include "executor/device/recording_device.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"
#include "executor/runtime/watched_communicator.h"

#include <QTest>

#include <bit>
#include <csignal>
#include <cstdlib>
#include <map>
#include <new>
#include <sys/wait.h>

using namespace planloom;
using namespace planloom::test;

void *operator new(std::size_t bytes)
{
    t_allocations += t_pauses == 0 ? 1 : 0;
    if (void *made = std::malloc(bytes == 0 ? 1 : bytes))
        return made;
    throw std::bad_alloc();
}
void *operator new(std::size_t bytes, const std::nothrow_t & /*nothrow*/) noexcept
{
    t_allocations += t_pauses == 0 ? 1 : 0;
    return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void *data) noexcept { std::free(data); }
void operator delete(void *data, std::size_t /*bytes*/) noexcept { std::free(data); }

namespace {

using Change = std::function<void(plan::Plan &)>;

/// A plan of the small GPT, by name.
struct Case {
    Layout layout;
    Change change = {};
    std::vector<const char *> commands = {}; ///< that its ranks must give, besides those of every training
};

/// The stage is a mesh of its devices, one replica.
void onMesh(plan::Stage &stage, std::vector<int> mesh)
{
    stage.replicaShares.clear();
    stage.mesh = std::move(mesh);
}

void splitTensors(plan::Plan &plan)
{
    onMesh(plan.stages[0], {1, 2});
    plan.stages[0].shardings = {{"*.attn.c_attn.weight", "B,S(1:32+32+32)"},
                                {"*.attn.c_attn.bias", "B,S(0:32+32+32)"},
                                {"*.attn.c_proj.weight", "B,S(0)"},
                                {"*.mlp.c_fc.weight", "B,S(1)"},
                                {"*.mlp.c_fc.bias", "B,S(0)"},
                                {"*.mlp.c_proj.weight", "B,S(0)"}};
}

std::map<std::string, Case> cases()
{
    using plan::ScheduleKind;
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    const StageLayout again{{0.5, 0.5}, plan::Recompute::Full};
    std::map<std::string, Case> all;
    all["one rank, two sizes of micro-batches"] = {{{one}, 9, 2, ScheduleKind::OneF1B, {}}};
    all["clipped SGD"] = {{{one}, 8, 2, ScheduleKind::OneF1B, {}},
                          [](plan::Plan &plan) {
                              plan.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.9}});
                              plan.optimizer.learningRate = 0.1;
                              plan.optimizer.clipNorm = 0.05;
                          },
                          {"update", "squaredNorm"}};
    all["bfloat16"] = {{{one}, 8, 2, ScheduleKind::OneF1B, {}},
                       [](plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; }};
    all["pipeline of replicas, recompute"] = {{{again, again}, 8, 4, ScheduleKind::GPipe, {}}};
    all["early buckets"] = {{{two, two}, 8, 4, ScheduleKind::OneF1B, {}},
                            [](plan::Plan &plan) { plan.bucketBytes = 1; }};
    all["zero bubble"] = {{{one, one}, 8, 4, ScheduleKind::ZeroBubbleH1, {}}};
    all["stages that share a rank"] = {{{one, one, one, one}, 8, 4, ScheduleKind::Interleaved1F1B, {0, 1, 0, 1}}};
    all["neighbours on one rank"] = {{{one, one}, 8, 4, ScheduleKind::GPipe, {0, 0}}, {}, {"copy"}};
    all["tensor parallel"] = {{{two}, 8, 2, ScheduleKind::OneF1B, {}}, splitTensors};
    const Change lamb = [](plan::Plan &plan) { plan.optimizer.rule = *update::ConfiguredRule::named("lamb"); };
    all["LAMB"] = {{{one, one}, 8, 4, ScheduleKind::OneF1B, {}}, lamb};
    all["LAMB, tensor parallel"] = {{{two}, 8, 2, ScheduleKind::OneF1B, {}}, [lamb](plan::Plan &plan) {
                                        splitTensors(plan);
                                        lamb(plan);
                                    }};
    for (const int level : {1, 2, 3})
        all["ZeRO " + std::to_string(level)] = {{{two}, 8, 2, ScheduleKind::OneF1B, {}}, [level](plan::Plan &plan) {
                                                    onMesh(plan.stages[0], {2});
                                                    plan.stages[0].zero = level;
                                                }};
    return all;
}

/// Calls of recording devices, summed over the ranks.
struct Seen {
    std::string race;
    std::map<std::string, std::int64_t> commands;
    std::size_t leastPending = std::numeric_limits<std::size_t>::max();
    std::int64_t lateObjects = 0;     ///< made after the executor
    std::int64_t lateAllocations = 0; ///< of the heap, from the end of the second step on
};

/// One rank on a recording device, from its creation on.
class WatchedRank {
public:
    WatchedRank(std::uint32_t seed, comm::Communicator &inner) : m_device(seed), m_communicator(inner, m_device) {}

    Status run(const program::Program &program, const plan::Subject &subject, const runtime::Feed &feed,
               const plan::Optimizer &optimizer, const Training &how, Outcome &outcome, std::size_t rank)
    {
        trace::Ring ring(1 << 16);
        runtime::ExecutorOptions options;
        options.steps = how.steps;
        options.seed = how.seed;
        options.optimizer = optimizer;
        options.device = &m_device;
        options.onStep = [&](const run::StepMetrics &result) {
            if (result.step == 1)
                m_before = t_allocations;
            m_late = t_allocations - m_before;
            const PauseCounting pause;
            if (rank == 0)
                outcome.losses.push_back(result.loss);
        };
        auto executor =
            runtime::RankExecutor::create(program, *subject.graph, m_communicator, feed, ring, std::move(options));
        if (!executor)
            return executor.error();
        const std::int64_t made = m_device.objectsMade();
        if (const Status run = (*executor)->run(); !run)
            return run;
        m_objects = m_device.objectsMade() - made;
        const auto evaluation = (*executor)->evaluate();
        if (!evaluation)
            return evaluation.error();
        if (rank == 0)
            outcome.evaluation = *evaluation;
        outcome.peaks[rank] = (*executor)->peakBytes();
        return m_communicator.barrier(std::chrono::seconds(60));
    }

    [[nodiscard]] Seen seen() const
    {
        return {m_device.race(), m_device.commands(), m_device.mostPending(), m_objects, m_late};
    }

private:
    RecordingDevice m_device;
    WatchedCommunicator m_communicator;
    std::int64_t m_before = 0;
    std::int64_t m_late = 0;
    std::int64_t m_objects = 0;
};

/// As test::train, each rank on its own recording device.
Outcome trainWatched(const program::Program &program, const plan::Subject &subject, const plan::Optimizer &optimizer,
                     const runtime::Feed &feed, const Training &how, std::uint32_t seed, Seen &seen)
{
    const std::size_t ranks = program.ranks.size();
    Outcome outcome;
    outcome.peaks.resize(ranks);
    std::vector<std::string> problems(ranks);
    std::vector<Seen> each(ranks);
    comm::LocalGroup group(static_cast<int>(ranks));
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            threads.emplace_back([&, rank] {
                omp_set_num_threads(1);
                const auto inner = group.end(static_cast<int>(rank));
                WatchedRank watched(seed + static_cast<std::uint32_t>(rank), *inner);
                const Status status = watched.run(program, subject, feed, optimizer, how, outcome, rank);
                problems[rank] = status ? std::string() : status.error().text();
                if (!status)
                    inner->abort(problems[rank]);
                each[rank] = watched.seen();
            });
        }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (outcome.problem.empty())
            outcome.problem = problems[rank];
        if (seen.race.empty())
            seen.race = each[rank].race;
        for (const auto &[what, count] : each[rank].commands)
            seen.commands[what] += count;
        seen.leastPending = std::min(seen.leastPending, each[rank].leastPending);
        seen.lateObjects += each[rank].lateObjects;
        seen.lateAllocations += each[rank].lateAllocations;
    }
    return outcome;
}

bool sameBits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

} // namespace

/// The runtime on a device whose commands run late and out of step with each other, and whose memory the host cannot
/// touch: the results are the processor's, bit for bit.
class TestRecordingDevice : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = tinySubject(tinyConfig(4, 4), cpus(8));
        QVERIFY(m_subject.graph && m_subject.cluster);
    }

    void hostAccessIsFatal();
    void racesAreFound();
    void transportRacesAreFound();
    void eventsAndQueuesPutInOrder();
    void errorsSurfaceAtPoll();
    void plansTrainAsOnTheProcessor_data();
    void plansTrainAsOnTheProcessor();
    void checkpointsMoveBetweenDevices();
    void brokenDeviceEndsTheRun();

private:
    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
};

// --- The mock itself ------------------------------------------------------------------------------------------------

void TestRecordingDevice::hostAccessIsFatal()
{
    RecordingDevice device;
    const auto memory = device.allocate(device::Space::Device, 64);
    QVERIFY(memory.ok());
    const pid_t child = ::fork();
    QVERIFY(child >= 0);
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        *reinterpret_cast<volatile std::byte *>(memory->data()) = std::byte{1};
        ::_exit(0);
    }
    int status = 0;
    QCOMPARE(::waitpid(child, &status, 0), child);
    QVERIFY(WIFSIGNALED(status));
    QCOMPARE(WTERMSIG(status), SIGSEGV);
}

void TestRecordingDevice::racesAreFound()
{
    RecordingDevice device;
    const auto memory = *device.allocate(device::Space::Device, 64);
    const auto first = *device.makeQueue();
    const auto second = *device.makeQueue();
    first->fill(memory.data(), 1, 8);
    second->fill(memory.data() + 8, 1, 8);
    QCOMPARE(device.race(), std::string());
    second->copy(memory.data() + 16, memory.data() + 4, 4);
    QCOMPARE(device.race(), std::string("copy reads what fill writes, and nothing puts the two in order"));
}

void TestRecordingDevice::transportRacesAreFound()
{
    RecordingDevice device;
    const auto memory = *device.allocate(device::Space::Device, 64);
    const auto queue = *device.makeQueue();
    const std::int64_t read = device.transportBegins({{device.transportAddress(memory.data()), 8, false}});
    queue->copy(memory.data() + 16, memory.data(), 8);
    QCOMPARE(device.race(), std::string());
    device.transportEnds(read);
    queue->fill(memory.data(), 0, 4);
    device.transportBegins({{device.transportAddress(memory.data()), 8, false}});
    QCOMPARE(device.race(), std::string("the transport reads what fill writes, and nothing puts the two in order"));
}

void TestRecordingDevice::eventsAndQueuesPutInOrder()
{
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        RecordingDevice device(seed);
        const auto memory = *device.allocate(device::Space::Device, 64);
        const auto host = *device.allocate(device::Space::Host, 8);
        const auto first = *device.makeQueue();
        const auto second = *device.makeQueue();
        const auto filled = *device.makeEvent();
        const auto copied = *device.makeEvent();
        QVERIFY(*filled->poll()); // never recorded
        first->fill(memory.data(), 0x01020304, 6);
        first->record(*filled);
        second->wait(*filled);
        second->copyToHost(host.data(), memory.data(), 8);
        second->record(*copied);
        while (!*copied->poll()) {
        }
        first->fill(memory.data(), 0, 8); // the host has seen that the copy ended
        QCOMPARE(device.race(), std::string());
        const std::byte expected[8] = {std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1},
                                       std::byte{4}, std::byte{3}, std::byte{0}, std::byte{0}};
        QVERIFY(std::equal(expected, expected + 8, host.data()));
    }
}

void TestRecordingDevice::errorsSurfaceAtPoll()
{
    RecordingDevice device;
    const auto queue = *device.makeQueue();
    const auto event = *device.makeEvent();
    device.breakDown("the card fell off the bus");
    const Status status = runtime::drain(*queue, *event, std::chrono::seconds(60));
    QVERIFY(!status.ok());
    QCOMPARE(status.error().message, std::string("the card fell off the bus"));
}

// --- The runtime on it ----------------------------------------------------------------------------------------------

void TestRecordingDevice::plansTrainAsOnTheProcessor_data()
{
    QTest::addColumn<std::string>("name");
    for (const auto &[name, planned] : cases())
        QTest::newRow(name.c_str()) << name;
}

void TestRecordingDevice::plansTrainAsOnTheProcessor()
{
    QFETCH(std::string, name);
    const Case planned = cases()[name];
    plan::Plan plan = planOf(m_subject, planned.layout);
    if (planned.change)
        planned.change(plan);
    const auto program = compile::compilePlan(plan, m_subject);
    QVERIFY2(program.ok(), program ? "" : program.error().text().c_str());
    const auto needs = data::needsOf(*m_subject.graph);
    const auto data = data::openDataSet(m_text.path(), *needs);
    QVERIFY(data.ok());
    const Training how{.steps = 3, .evaluate = true};
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), how.seed, 0.1)};
    const Outcome expected = train(*program, m_subject, plan.optimizer, feed, how);
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    for (const std::uint32_t seed : {1U, 101U}) {
        Seen seen;
        const Outcome outcome = trainWatched(*program, m_subject, plan.optimizer, feed, how, seed, seen);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        QCOMPARE(seen.race, std::string());
        QCOMPARE(outcome.losses.size(), expected.losses.size());
        for (std::size_t step = 0; step < expected.losses.size(); ++step)
            QVERIFY(sameBits(outcome.losses[step], expected.losses[step]));
        QVERIFY(sameBits(outcome.evaluation.loss, expected.evaluation.loss));
        QVERIFY(sameBits(outcome.evaluation.accuracy, expected.evaluation.accuracy));
        for (std::size_t rank = 0; rank < program->ranks.size(); ++rank)
            QCOMPARE(outcome.peaks[rank], program->ranks[rank].arenaBytes);
        QCOMPARE(seen.lateObjects, std::int64_t{0});
        QCOMPARE(seen.lateAllocations, std::int64_t{0});
        QVERIFY(seen.leastPending > 10); // it was asynchronous
        std::vector<const char *> commands = planned.commands;
        commands.insert(commands.end(), {"run", "accumulate", "copyToDevice", "copyToHost", "fill", "score", "record"});
        for (const char *command : commands)
            QVERIFY2(seen.commands[command] > 0, command);
    }
}

void TestRecordingDevice::checkpointsMoveBetweenDevices()
{
    plan::Plan plan = planOf(m_subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    plan.precision = plan::Precision::BFloat16;
    const auto program = compile::compilePlan(plan, m_subject);
    QVERIFY(program.ok());
    const auto needs = data::needsOf(*m_subject.graph);
    const auto data = data::openDataSet(m_text.path(), *needs);
    QVERIFY(data.ok());
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0)};
    omp_set_num_threads(1);
    constexpr std::int64_t kHalf = 2;
    // Losses of steps [first, last), from the checkpoint in @p folder or the beginning, with one kept at the end.
    const auto part = [&](device::Device *device, std::int64_t first, std::int64_t last, const std::string &folder,
                          const std::string &runDir, std::vector<double> &losses) -> Status {
        comm::LocalGroup group(1);
        const auto communicator = group.end(0);
        const auto lease = checkpoint::Lease::acquire(runDir, "test");
        if (!lease)
            return lease.error();
        return runPart({first, last, folder, runDir, lease->epoch(), device}, *program, *m_subject.graph, plan, feed,
                       *communicator, losses);
    };
    std::vector<double> whole;
    QTemporaryDir wholeDir;
    Status status = part(nullptr, 0, 2 * kHalf, {}, wholeDir.path().toStdString(), whole);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    for (const bool back : {false, true}) {
        RecordingDevice device;
        QTemporaryDir firstDir, secondDir;
        std::vector<double> losses;
        status = part(back ? &device : nullptr, 0, kHalf, {}, firstDir.path().toStdString(), losses);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        const auto kept = checkpoint::newestCheckpoint(firstDir.path().toStdString());
        QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
        status = part(back ? nullptr : &device, kHalf, 2 * kHalf, kept->folder, secondDir.path().toStdString(), losses);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        QCOMPARE(losses, whole);
        QCOMPARE(device.race(), std::string());
    }
}

void TestRecordingDevice::brokenDeviceEndsTheRun()
{
    const plan::Plan plan = planOf(m_subject, {{StageLayout{}}, 8, 2, plan::ScheduleKind::OneF1B, {}});
    const auto program = compile::compilePlan(plan, m_subject);
    const auto needs = data::needsOf(*m_subject.graph);
    const auto data = data::openDataSet(m_text.path(), *needs);
    QVERIFY(program.ok() && data.ok());
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0)};
    RecordingDevice device;
    comm::LocalGroup group(1);
    const auto communicator = group.end(0);
    trace::Ring ring(1 << 12);
    runtime::ExecutorOptions options;
    options.steps = 5;
    options.device = &device;
    std::int64_t done = 0;
    options.onStep = [&](const run::StepMetrics &result) {
        done = result.step + 1;
        if (done == 2)
            device.breakDown("uncorrectable memory error");
    };
    auto executor =
        runtime::RankExecutor::create(*program, *m_subject.graph, *communicator, feed, ring, std::move(options));
    QVERIFY(executor.ok());
    const Status status = (*executor)->run();
    QVERIFY(!status.ok());
    QCOMPARE(status.error().message, std::string("uncorrectable memory error"));
    QCOMPARE(done, std::int64_t{2});
}

QTEST_GUILESS_MAIN(TestRecordingDevice)
#include "tst_recording_device.moc"
