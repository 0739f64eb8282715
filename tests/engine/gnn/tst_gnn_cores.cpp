// SPDX-License-Identifier: Apache-2.0
// Roles that share the cores of their machines: schedules worked out by hand, and a simulation in small steps.
#include "engine/gnn/job.h"
#include "engine/gnn/scheduler.h"
#include "engine/gnn/steady_iteration.h"
#include "tests/engine/gnn/gnn_cases.h"

#include <QTest>

#include <algorithm>
#include <numeric>

using namespace planloom;
using namespace planloom::gnn;
using namespace planloom::testing;

namespace {

bool near(double a, double b, double error = 1e-9) { return std::abs(a - b) <= error * std::max(1.0, std::abs(b)); }

Port portOf(std::int32_t processor, double cores, double trainerThreads = 1)
{
    Port port{1, 1};
    port.processor = processor;
    port.cores = cores;
    port.trainerThreads = trainerThreads;
    return port;
}

/// Task i of role i, each from the beginning.
std::vector<double> endsOf(const std::vector<double> &seconds, const std::vector<Port> &ports,
                           const Placement &machineOf, bool firstTrains = false)
{
    NetworkBuilder builder;
    for (std::size_t i = 0; i < seconds.size(); ++i)
        builder.task(seconds[i], 0, static_cast<std::int32_t>(i), firstTrains && i == 0);
    const Network network = std::move(builder).build();
    StepTimes times;
    Scheduler(network, ports).run(machineOf, TransferPolicy::Degree, &times);
    return times.end;
}

/// What tasks of one thread on one processor do, in steps of @p tick seconds.
std::vector<double> endsBySteps(const Network &network, double cores, double tick)
{
    std::vector<double> left = network.amount, end(network.steps(), -1);
    std::vector<std::int32_t> waits = network.waits;
    for (double now = 0; std::ranges::count(end, -1) > 0; now += tick) {
        std::vector<std::size_t> active;
        for (std::size_t step = 0; step < left.size(); ++step) {
            if (end[step] < 0 && waits[step] == 0)
                active.push_back(step);
        }
        const double rate = std::min(1.0, cores / static_cast<double>(active.size()));
        for (const std::size_t step : active) {
            left[step] -= rate * tick;
            if (left[step] > 0)
                continue;
            end[step] = now + tick;
            for (const std::int32_t later : network.laterOf(step))
                --waits[static_cast<std::size_t>(later)];
        }
    }
    return end;
}

} // namespace

class TestGnnCores : public QObject {
    Q_OBJECT
private slots:
    void tasksOfOneProcessor()
    {
        // Both at half the rate until the shorter one ends.
        QCOMPARE(endsOf({1, 3}, {portOf(0, 1)}, {0, 0}), (std::vector<double>{2, 4}));
        // Three on two cores at two thirds; the longest alone in the end, and no faster than one core.
        const std::vector<double> ends = endsOf({2, 2, 4}, {portOf(0, 2)}, {0, 0, 0});
        QVERIFY(near(ends[0], 3) && near(ends[1], 3) && near(ends[2], 5));
        // As many cores as tasks, and a core for each.
        QCOMPARE(endsOf({1, 3}, {portOf(0, 2)}, {0, 0}), (std::vector<double>{1, 3}));
        QCOMPARE(endsOf({1, 3}, {portOf(-1, 0)}, {0, 0}), (std::vector<double>{1, 3}));
    }

    /// Threads of a trainer count, not its process.
    void trainersOfSeveralThreads()
    {
        const std::vector<double> ends = endsOf({2, 1}, {portOf(0, 2, 2)}, {0, 0}, true);
        QVERIFY(near(ends[1], 1.5) && near(ends[0], 2.5)); // two thirds, then alone
    }

    void machinesOfOneProcessor()
    {
        QCOMPARE(endsOf({1, 3}, {portOf(0, 1), portOf(0, 1)}, {0, 1}), (std::vector<double>{2, 4}));
        QCOMPARE(endsOf({1, 3}, {portOf(0, 1), portOf(1, 1)}, {0, 1}), (std::vector<double>{1, 3}));
    }

    /// A message within a machine is a copy: it takes a core's time, too.
    void copiesTakeCores()
    {
        NetworkBuilder builder;
        builder.message(builder.connection(0, 1), 4);
        builder.task(2, 0, 1);
        const Network network = std::move(builder).build();
        std::vector<Port> ports{portOf(0, 1)};
        ports[0].within = 2;
        QVERIFY(near(Scheduler(network, ports).run(Placement{0, 0}, TransferPolicy::Degree), 4));
        ports[0].cores = 2;
        QVERIFY(near(Scheduler(network, ports).run(Placement{0, 0}, TransferPolicy::Degree), 2));
    }

    void asInSmallSteps()
    {
        UnitStream random(3);
        for (int round = 0; round < 40; ++round) {
            NetworkBuilder builder;
            constexpr std::int32_t kTasks = 9;
            for (std::int32_t task = 0; task < kTasks; ++task) {
                builder.task(0.5 + random.next(), 0, 0);
                for (std::int32_t before = 0; before < task; ++before) {
                    if (random.next() < 0.2)
                        builder.after(task, before);
                }
            }
            const Network network = std::move(builder).build();
            const double cores = 1 + std::floor(random.next() * 3);
            const std::vector<Port> ports{portOf(0, cores)};
            StepTimes times;
            Scheduler(network, ports).run(Placement{0}, TransferPolicy::MaxMin, &times);
            constexpr double kTick = 1e-4;
            const std::vector<double> expected = endsBySteps(network, cores, kTick);
            for (std::size_t step = 0; step < network.steps(); ++step)
                QVERIFY(std::abs(times.end[step] - expected[step]) < 4 * kTasks * kTick);
        }
    }

    /// Where all roles of a job have one core, an iteration takes all that they compute and copy.
    void oneCoreDoesAll()
    {
        for (const std::int32_t iterations : {2, 8}) {
            Job job = threeMachineJob(iterations);
            for (Machine &machine : job.machines) {
                machine.port = portOf(0, 1);
                machine.port.in = machine.port.out = 1e9; // cards limit nothing
            }
            const Placement apart{0, 1, 0, 1, 2, 0, 1};
            const double work = 2 * job.sampleSeconds + 2 * job.trainSeconds + job.serveSeconds;
            QVERIFY(near(steadyIteration(job, apart, TransferPolicy::Degree), work, 1e-6));
            for (Machine &machine : job.machines)
                machine.port.cores = 1e3;
            QVERIFY(steadyIteration(job, apart, TransferPolicy::Degree) < work / 1.5);
        }
    }
};

QTEST_GUILESS_MAIN(TestGnnCores)
#include "tst_gnn_cores.moc"
