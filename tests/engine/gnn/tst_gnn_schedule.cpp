// SPDX-License-Identifier: Apache-2.0
// Online scheduling on the fluid network, against schedules worked out by hand, and its bounds on random jobs.
#include "engine/gnn/bounds.h"
#include "engine/gnn/job.h"
#include "engine/gnn/role_tasks.h"
#include "engine/gnn/schedule_trace.h"
#include "engine/gnn/scheduler.h"
#include "engine/gnn/steady_iteration.h"
#include "engine/gnn/transfer_rates.h"
#include "tests/engine/gnn/gnn_cases.h"

#include <QTest>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

using namespace planloom;
using namespace planloom::gnn;
using namespace planloom::testing;

namespace {

constexpr double kRounding = 1e-9;

bool near(double a, double b) { return std::abs(a - b) <= kRounding * std::max(1.0, std::abs(b)); }

/// Roles 0, 1 ... on machines 0, 1 ... with unit cards.
struct Plain {
    Network network;
    std::vector<Port> ports;
    Placement machineOf;

    explicit Plain(NetworkBuilder builder) : network(std::move(builder).build())
    {
        ports.assign(static_cast<std::size_t>(network.roles), {1, 1});
        machineOf.resize(ports.size());
        std::iota(machineOf.begin(), machineOf.end(), 0);
    }
    [[nodiscard]] double seconds(TransferPolicy policy) const
    {
        return Scheduler(network, ports).run(machineOf, policy);
    }
    [[nodiscard]] Bounds bound() const { return bounds(network, ports, machineOf); }
};

/// All schedules in slots of a second, breadth first. Amounts are whole numbers, cards have a rate of 1, and no step
/// waits for the start of another one (the credits of few iterations).
class SecondBySecond {
public:
    using State = std::vector<std::int8_t>; ///< per step: seconds or bytes that are left

    SecondBySecond(const Network &network, const Placement &machineOf) : m_network(network), m_machineOf(machineOf) {}

    /// Seconds; -1: more than @p most.
    int optimum(int most)
    {
        std::set<State> now{State(m_network.amount.begin(), m_network.amount.end())};
        for (int seconds = 0; seconds <= most; ++seconds) {
            m_next.clear();
            for (const State &state : now) {
                if (slot(state))
                    return seconds;
            }
            now = std::move(m_next);
        }
        return -1;
    }

private:
    /// True if all has ended; else adds the states a second later.
    bool slot(State state)
    {
        std::vector<bool> held(m_network.steps()); ///< waits for a step that has not ended
        std::vector<std::size_t> messages;
        bool over = true;
        const State before = state;
        for (const std::int32_t at : m_network.order) {
            const auto step = static_cast<std::size_t>(at);
            const std::int32_t connection = m_network.connection[step];
            const bool local = connection != Network::kTask && out(connection) == in(connection);
            const bool ended = !held[step] && (before[step] == 0 || local);
            over = over && ended;
            for (const std::int32_t later : m_network.laterOf(step)) {
                if (!ended)
                    held[static_cast<std::size_t>(later)] = true;
            }
            if (held[step] || ended)
                continue;
            if (connection == Network::kTask)
                --state[step];
            else
                messages.push_back(step);
        }
        if (!over)
            send(state, messages, 0, {}, {});
        return over;
    }

    /// With and without each message that finds both cards free; one that is left out though they stay free gains
    /// nothing, and does no harm here.
    void send(State &state, const std::vector<std::size_t> &messages, std::size_t i, std::set<std::int32_t> from,
              std::set<std::int32_t> to)
    {
        if (i == messages.size()) {
            m_next.insert(state);
            return;
        }
        const std::int32_t connection = m_network.connection[messages[i]];
        if (!from.contains(out(connection)) && !to.contains(in(connection))) {
            --state[messages[i]];
            std::set<std::int32_t> moreFrom = from, moreTo = to;
            moreFrom.insert(out(connection));
            moreTo.insert(in(connection));
            send(state, messages, i + 1, std::move(moreFrom), std::move(moreTo));
            ++state[messages[i]];
        }
        send(state, messages, i + 1, std::move(from), std::move(to));
    }

    [[nodiscard]] std::int32_t out(std::int32_t connection) const
    {
        return m_machineOf[static_cast<std::size_t>(m_network.connections[static_cast<std::size_t>(connection)].from)];
    }
    [[nodiscard]] std::int32_t in(std::int32_t connection) const
    {
        return m_machineOf[static_cast<std::size_t>(m_network.connections[static_cast<std::size_t>(connection)].to)];
    }

    const Network &m_network;
    const Placement &m_machineOf;
    std::set<State> m_next;
};

/// A message of 4 to a task of 1 s and one of 2 to a task of 4 s, from one card. @p longFirst: the second has priority.
Plain twoTasks(bool longFirst)
{
    NetworkBuilder builder;
    const auto add = [&builder](std::int32_t to, double bytes, double seconds) {
        const std::int32_t message = builder.message(builder.connection(0, to), bytes);
        builder.after(builder.task(seconds), message);
    };
    if (longFirst)
        add(2, 2, 4);
    add(1, 4, 1);
    if (!longFirst)
        add(2, 2, 4);
    return Plain(std::move(builder));
}

/// Hops of size 1 over machines 0 .. hops; with each, shared - 1 messages of size 1 to machines of their own.
Plain chain(std::int32_t hops, std::int32_t shared)
{
    NetworkBuilder builder;
    std::int32_t last = -1;
    std::int32_t machine = hops + 1;
    for (std::int32_t hop = 0; hop < hops; ++hop) {
        const auto add = [&](std::int32_t to) {
            const std::int32_t message = builder.message(builder.connection(hop, to), 1, hop);
            if (last >= 0)
                builder.after(message, last);
            return message;
        };
        const std::int32_t next = add(hop + 1);
        for (std::int32_t i = 1; i < shared; ++i)
            add(machine++);
        last = next;
    }
    return Plain(std::move(builder));
}

Job randomJob(UnitStream &random)
{
    const auto upTo = [&random](int n) { return static_cast<std::int32_t>(random.next() * n); };
    Job job;
    const std::int32_t machines = 2 + upTo(3);
    for (std::int32_t m = 0; m < machines; ++m)
        job.machines.push_back({"m", {1 + 3 * random.next(), 1 + 3 * random.next()}, {}});
    const std::int32_t stores = 1 + upTo(machines);
    for (std::int32_t g = 0; g < stores; ++g)
        addRole(job, RoleKind::GraphStore, {}, -1, g);
    const std::int32_t trainers = 1 + upTo(3);
    const std::int32_t perTrainer = 1 + upTo(2);
    for (std::int32_t s = 0; s < trainers * perTrainer; ++s)
        addRole(job, RoleKind::Sampler, {}, s / perTrainer);
    for (std::int32_t w = 0; w < trainers; ++w)
        addRole(job, RoleKind::Trainer, {});
    const std::int32_t servers = upTo(3);
    for (std::int32_t p = 0; p < servers; ++p)
        addRole(job, RoleKind::ParameterServer, {});
    job.sampleSeconds = random.next();
    job.trainSeconds = 2 * random.next();
    job.serveSeconds = random.next();
    job.prefetch = 1 + upTo(3);
    job.volumes = Volumes(1 + upTo(5), stores, trainers * perTrainer);
    for (double &bytes : job.volumes.features)
        bytes = 4 * random.next();
    for (double &bytes : job.volumes.batches)
        bytes = 4 * random.next();
    job.volumes.model = 2 * random.next();
    return job;
}

Placement randomPlacement(const Job &job, UnitStream &random)
{
    Placement placement;
    for (const Role &role : job.roles)
        placement.push_back(role.machine >= 0
                                ? role.machine
                                : static_cast<std::int32_t>(random.next() * static_cast<double>(job.machines.size())));
    return placement;
}

} // namespace

class TestGnnSchedule : public QObject {
    Q_OBJECT

private slots:
    void twoTasksOfOneSender()
    {
        const Plain plain = twoTasks(false);
        QVERIFY(near(plain.seconds(TransferPolicy::Static), 9));
        QVERIFY(near(plain.seconds(TransferPolicy::Degree), 8));
        QVERIFY(near(plain.seconds(TransferPolicy::MaxMin), 8));
        QVERIFY(near(twoTasks(true).seconds(TransferPolicy::IterationFirst), 7));
        QVERIFY(near(plain.bound().criticalPath, 6));
        QVERIFY(near(plain.bound().port, 7));
        QCOMPARE(plain.bound().sharing, 2);
        QCOMPARE(plain.bound().portMachine, 0);
        QVERIFY(plain.bound().portOut);
    }

    void threeSendersToOneReceiver()
    {
        NetworkBuilder builder;
        builder.message(builder.connection(0, 1), 4);
        for (const int from : {0, 3, 4})
            builder.message(builder.connection(from, 2), 1);
        const Plain plain(std::move(builder));
        QVERIFY(near(plain.seconds(TransferPolicy::Static), 8));
        QVERIFY(near(plain.seconds(TransferPolicy::Degree), 5.5));
        QVERIFY(near(plain.seconds(TransferPolicy::MaxMin), 5));
        QVERIFY(near(plain.bound().lower(), 5)); // so max-min is optimal here
        QCOMPARE(SecondBySecond(plain.network, plain.machineOf).optimum(10), 5);
        QCOMPARE(plain.bound().sharing, 3);
        const double third = 1.0 / 3;
        QCOMPARE(staticShares(plain.network, plain.ports, plain.machineOf),
                 (std::vector<double>{0.5, third, third, third}));
        const Placement together{0, 0, 1, 2, 3}; // the first message stays on a machine, the next has a card for itself
        QCOMPARE(staticShares(plain.network, plain.ports, together), (std::vector<double>{0, third, third, third}));
    }

    void jobOnThreeMachines_data()
    {
        QTest::addColumn<QList<int>>("placement");
        QTest::addColumn<int>("iterations");
        QTest::addColumn<QList<double>>("seconds"); // static, degree, max-min, iteration-first, critical path, port
        QTest::addColumn<int>("sharing");
        const QList<int> spread{2, 2, 0, 1, 2};
        const QList<int> local{0, 1, 0, 1, 2};
        QTest::newRow("spread 1") << spread << 1 << QList<double>{34, 18, 18, 16, 10, 10} << 6;
        QTest::newRow("spread 2") << spread << 2 << QList<double>{47, 27, 27, 24, 15, 18} << 6;
        QTest::newRow("spread 4") << spread << 4 << QList<double>{73, 49, 49, 40, 25, 34} << 6;
        QTest::newRow("spread 8") << spread << 8 << QList<double>{125, 93, 93, 72, 45, 66} << 6;
        QTest::newRow("local 1") << local << 1 << QList<double>{12, 10, 10, 10, 8, 9} << 2;
        QTest::newRow("local 2") << local << 2 << QList<double>{19, 17, 17, 16, 13, 11} << 2;
        QTest::newRow("local 4") << local << 4 << QList<double>{33, 31, 31, 28, 23, 15} << 2;
        QTest::newRow("local 8") << local << 8 << QList<double>{61, 59, 59, 52, 43, 23} << 2;
    }

    void jobOnThreeMachines()
    {
        QFETCH(QList<int>, placement);
        QFETCH(int, iterations);
        QFETCH(QList<double>, seconds);
        QFETCH(int, sharing);
        const Job job = threeMachineJob(iterations);
        QVERIFY(checkJob(job).ok());
        const Placement machineOf = placed(job, {placement.begin(), placement.end()});
        QVERIFY(checkPlacement(job, machineOf).ok());
        const Network network = networkOf(job);
        const std::vector<Port> ports = portsOf(job);
        Scheduler scheduler(network, ports);
        qsizetype column = 0;
        for (const TransferPolicy policy : kTransferPolicies) {
            const double found = scheduler.run(machineOf, policy);
            QVERIFY2(near(found, seconds[column]),
                     qPrintable(QString("%1: %2 not %3").arg(name(policy)).arg(found).arg(seconds[column])));
            ++column;
        }
        const Bounds bound = bounds(network, ports, machineOf);
        QVERIFY(near(bound.criticalPath, seconds[4]));
        QVERIFY2(near(bound.port, seconds[5]), qPrintable(QString::number(bound.port)));
        QCOMPARE(bound.sharing, sharing);
    }

    void optimumOfThreeMachines_data()
    {
        QTest::addColumn<QList<int>>("placement");
        QTest::addColumn<int>("iterations");
        QTest::addColumn<int>("optimum");
        QTest::newRow("spread 1") << QList<int>{2, 2, 0, 1, 2} << 1 << 15;
        QTest::newRow("local 1") << QList<int>{0, 1, 0, 1, 2} << 1 << 10;
        QTest::newRow("local 2") << QList<int>{0, 1, 0, 1, 2} << 2 << 16;
    }

    /// The best of all schedules that give each card to one message a second at a time; no policy beats it.
    void optimumOfThreeMachines()
    {
        QFETCH(QList<int>, placement);
        QFETCH(int, iterations);
        QFETCH(int, optimum);
        const Job job = threeMachineJob(iterations);
        const Placement machineOf = placed(job, {placement.begin(), placement.end()});
        const Network network = networkOf(job);
        const std::vector<Port> ports = portsOf(job);
        QCOMPARE(SecondBySecond(network, machineOf).optimum(100), optimum);
        for (const TransferPolicy policy : kTransferPolicies)
            QVERIFY(Scheduler(network, ports).run(machineOf, policy) >= optimum - kRounding);
        QVERIFY(bounds(network, ports, machineOf).lower() <= optimum + kRounding);
    }

    /// The ratio of the theorem is reached in the limit.
    void chainsApproachTheBound()
    {
        QVERIFY(near(chain(10, 4).seconds(TransferPolicy::Degree), 40));
        QVERIFY(near(chain(100, 4).seconds(TransferPolicy::Degree), 400));
        QCOMPARE(chain(100, 4).bound().sharing, 4);
        // The hop of each machine has the lowest connection of its iteration.
        QVERIFY(near(chain(10, 4).seconds(TransferPolicy::IterationFirst), 13));
        QVERIFY(near(chain(100, 4).seconds(TransferPolicy::IterationFirst), 103));
    }

    void boundsHoldForRandomJobs()
    {
        UnitStream random(1);
        for (int i = 0; i < 300; ++i) {
            const Job job = randomJob(random);
            QVERIFY(checkJob(job).ok());
            const Placement machineOf = randomPlacement(job, random);
            const Network network = networkOf(job);
            const std::vector<Port> ports = portsOf(job);
            const Bounds bound = bounds(network, ports, machineOf);
            Scheduler scheduler(network, ports);
            for (const TransferPolicy policy : kTransferPolicies) {
                StepTimes times;
                const double seconds = scheduler.run(machineOf, policy, &times);
                QVERIFY(seconds >= bound.lower() * (1 - kRounding));
                if (policy != TransferPolicy::IterationFirst)
                    QVERIFY(seconds <= bound.sharing * bound.criticalPath * (1 + kRounding));
                for (std::size_t step = 0; step < network.steps(); ++step)
                    QVERIFY(times.start[step] <= times.end[step] && times.end[step] <= seconds);
                QCOMPARE(scheduler.run(machineOf, policy), seconds); // nothing is left over from the call before
            }
        }
    }

    void stepLabels()
    {
        StepLabels labels;
        const Network network = networkOf(threeMachineJob(2), &labels);
        const std::vector<std::string> &names = labels.name;
        QCOMPARE(names.size(), network.steps());
        QCOMPARE(labels.role.size(), network.steps());
        for (const char *expected : {"g0s1.n1", "s1.LD.n0", "s1w1.n1", "w0.F.n1", "w1p0.n0", "p0.U.n1", "p0w1.n1"})
            QVERIFY2(std::find(names.begin(), names.end(), expected) != names.end(), expected);
    }

    /// Draws, requests and stores' tasks, where they take time: by hand, one store and sampler on two machines of 1
    /// byte/s.
    void drawsRequestsAndServes()
    {
        Job job;
        job.resources = {"slots"};
        job.machines = {{"a", {1, 1}, {9}}, {"b", {1, 1}, {9}}};
        job.roles = {{"g0", RoleKind::GraphStore, {0}, -1, 0},
                     {"s0", RoleKind::Sampler, {0}, 0, -1},
                     {"w0", RoleKind::Trainer, {0}, -1, -1}};
        job.volumes = Volumes(1, 1, 1);
        job.volumes.feature(0, 0, 0) = 4;
        job.volumes.batch(0, 0) = 8;
        job.drawSeconds = 1;
        job.requestShare = 0.5;
        job.featureSeconds = 0.25;
        job.sampleSeconds = 3;
        job.trainSeconds = 5;
        QVERIFY(checkJob(job));
        StepLabels labels;
        const Network network = networkOf(job, &labels);
        QCOMPARE(labels.name,
                 (std::vector<std::string>{"s0.NS.n0", "s0g0.n0", "g0.SN.s0.n0", "g0s0.n0", "s0.LD.n0", "s0w0.n0",
                                           "w0.F.n0"}));
        const std::vector<Port> ports = portsOf(job);
        StepTimes times;
        const Placement machineOf{0, 1, 1};
        QCOMPARE(Scheduler(network, ports).run(machineOf, TransferPolicy::Degree, &times), 1 + 2 + 1 + 4 + 3 + 0 + 5.0);
        const auto tasks = roleTasksOf(job);
        std::vector<std::string> ids;
        for (const RoleTask &task : tasks)
            ids.push_back(task.id);
        QCOMPARE(ids,
                 (std::vector<std::string>{"s0.NS", "s0g0", "s0g0", "g0.SN.s0", "g0s0", "g0s0", "s0.LD", "s0w0",
                                           "s0w0"}));
        QCOMPARE(tasks[1].role, 1);
        QCOMPARE(tasks[2].role, 0);
        QVERIFY(tasks[2].lane == RoleTask::Lane::Receive);
    }

    /// A message that stays on a machine takes its bytes over the machine's rate, whatever its card does.
    void messagesWithinAMachine()
    {
        for (const TransferPolicy policy : kTransferPolicies) {
            Plain plain = twoTasks(false);
            plain.machineOf = {0, 0, 1};
            QVERIFY(near(plain.seconds(policy), 6)); // no time within, 2 s for the card alone, 4 s
            plain.ports[0].within = 0.5;
            QVERIFY(near(plain.seconds(policy), 9)); // 4 / 0.5 and 1
            QVERIFY(near(plain.bound().criticalPath, 9));
            QVERIFY(near(plain.bound().port, 6));
        }
    }

    /// In the long run the busiest card sets the pace, though the last iterations of a job have it to themselves.
    void iterationInTheLongRun()
    {
        for (const std::int32_t iterations : {1, 2, 8}) {
            Job job;
            job.machines.assign(3, machine(1));
            addRole(job, RoleKind::GraphStore, {}, -1, 0);
            for (const int trainer : {0, 1})
                addRole(job, RoleKind::Sampler, {}, trainer);
            addRole(job, RoleKind::Trainer, {});
            addRole(job, RoleKind::Trainer, {});
            job.trainSeconds = 1;
            job.prefetch = 2;
            job.sumsGradients = true;
            job.volumes = Volumes(iterations, 1, 2);
            std::fill(job.volumes.features.begin(), job.volumes.features.end(), 4);
            const Placement machineOf{0, 1, 2, 1, 2};
            for (const TransferPolicy policy : kTransferPolicies)
                QVERIFY(near(steadyIteration(job, machineOf, policy), 8)); // both samplers' features leave one card
        }
    }

    /// Trainers that sum up their gradients start together.
    void allReduceKeepsTrainersTogether()
    {
        Job job = threeMachineJob(4);
        std::erase_if(job.roles, [](const Role &role) { return role.kind == RoleKind::ParameterServer; });
        job.volumes.batch(0, 1) = 40; // the second trainer's first mini-batch is late
        const Placement machineOf{0, 1, 2, 2, 0, 1};
        const std::vector<Port> ports = portsOf(job);
        for (const bool together : {false, true}) {
            job.sumsGradients = together;
            StepLabels labels;
            const Network network = networkOf(job, &labels);
            StepTimes times;
            Scheduler(network, ports).run(machineOf, TransferPolicy::Degree, &times);
            const auto of = [&](const char *name) {
                return static_cast<std::size_t>(std::ranges::find(labels.name, name) - labels.name.begin());
            };
            QCOMPARE(times.start[of("w0.F.n1")] >= times.end[of("w1.F.n0")], together);
        }
    }

    /// Policies that the cost clock asks incrementally give what they give a process that asks from the beginning.
    void ratesDoNotDependOnTheWay()
    {
        const std::vector<Port> ports{{4, 2}, {1, 8}, {3, 3}};
        const std::vector<Connection> connections{{0, 1}, {0, 2}, {1, 2}, {2, 0}, {1, 0}, {2, 1}, {0, 0}};
        const Placement machineOf{0, 1, 2};
        std::mt19937 random(5);
        for (const TransferPolicy policy : kTransferPolicies) {
            TransferRates rates(ports, connections.size());
            rates.reset(connections, machineOf, policy);
            for (std::int32_t c = 0; c < 7; ++c)
                rates.carries(c);
            std::map<std::int32_t, std::int32_t> active; // connection: iteration
            for (int event = 0; event < 200; ++event) {
                const auto connection = static_cast<std::int32_t>(random() % 6);
                if (active.erase(connection) > 0) {
                    rates.deactivate(connection);
                } else {
                    active[connection] = event % 5;
                    rates.activate(connection, event % 5);
                }
                rates.update();
                TransferRates fresh(ports, connections.size());
                fresh.reset(connections, machineOf, policy);
                for (std::int32_t c = 0; c < 7; ++c)
                    fresh.carries(c);
                for (const auto &[c, iteration] : active)
                    fresh.activate(c, iteration);
                fresh.update();
                double out = 0;
                for (const auto &entry : active) {
                    QCOMPARE(rates.rate(entry.first), fresh.rate(entry.first));
                    out += connections[static_cast<std::size_t>(entry.first)].from == 0 ? rates.rate(entry.first) : 0;
                }
                QVERIFY(out <= ports[0].out * (1 + 1e-12)); // no card is overbooked
            }
            QVERIFY(rates.isLocal(6));
        }
    }

    void timeline()
    {
        const Job job = threeMachineJob(2);
        StepLabels labels;
        const Network network = networkOf(job, &labels);
        const std::vector<Port> ports = portsOf(job);
        const Placement machineOf = placed(job, {0, 1, 0, 1, 2});
        StepTimes times;
        const double seconds = Scheduler(network, ports).run(machineOf, TransferPolicy::Degree, &times);
        const trace::Trace timeline = traceOf(job, network, labels, times, machineOf);
        QCOMPARE(timeline.end(), std::llround(seconds * 1e9));
        QCOMPARE(timeline.ranks.size(), job.roles.size());
        QCOMPARE(timeline.ranks[4].device, std::string("m/w0"));
        // Two samplers, two trainers and a server; two of four feature messages, pushes and pulls cross machines.
        QCOMPARE(timeline.records.size(), std::size_t{2 * (2 + 2 + 1) + 2 * 2 * (2 + 2 + 2)});
        for (const trace::Record &record : timeline.records)
            QVERIFY(record.duration > 0 && record.step < 2);
    }

    void policyNames()
    {
        for (const TransferPolicy policy : kTransferPolicies)
            QVERIFY(*transferPolicyFromName(name(policy)) == policy);
        QVERIFY(transferPolicyFromName("fair").error().message.find("max-min") != std::string::npos);
    }

    void badJobs_data()
    {
        QTest::addColumn<int>("what");
        QTest::addColumn<QString>("message");
        QTest::newRow("order") << 0 << "out of order";
        QTest::newRow("trainer") << 1 << "names no trainer";
        QTest::newRow("prefetch") << 2 << "prefetch is 0";
        QTest::newRow("rate") << 3 << "network rates above 0";
        QTest::newRow("capacity") << 4 << "3 capacities for 2 resources";
        QTest::newRow("demand") << 5 << "1 demands for 2 resources";
        QTest::newRow("volumes") << 6 << "the volumes are those of 2 stores";
        QTest::newRow("idle") << 7 << "trainer w0 has no sampler";
        QTest::newRow("store") << 8 << "graph store g1 has no machine";
        QTest::newRow("bytes") << 9 << "a volume is negative";
    }

    void badJobs()
    {
        QFETCH(int, what);
        QFETCH(QString, message);
        Job job = tightJob({0, 1});
        switch (what) {
        case 0: std::swap(job.roles.front(), job.roles.back()); break;
        case 1: job.roles[4].trainer = 2; break;
        case 2: job.prefetch = 0; break;
        case 3: job.machines[1].port.in = 0; break;
        case 4: job.machines[1].capacity = {1, 2, 3}; break;
        case 5: job.roles[1].demand = {1}; break;
        case 6: job.volumes.stores = 2; break;
        case 7: job.roles[3].trainer = job.roles[4].trainer = 1; break;
        case 8: job.roles[1].machine = 7; break;
        default: job.volumes.features[3] = -1; break;
        }
        const Status status = checkJob(job);
        QVERIFY(!status.ok());
        QVERIFY2(status.error().message.find(message.toStdString()) != std::string::npos,
                 status.error().message.c_str());
    }

    void placementsThatDoNotFit()
    {
        const Job job = tightJob({0, 1});
        QVERIFY(checkPlacement(job, placed(job, {0, 0, 1, 2, 0, 1, 2})).ok());
        const Status full = checkPlacement(job, placed(job, {0, 0, 1, 2, 0, 0, 2}));
        QVERIFY(!full.ok() && full.error().code == ErrorCode::Infeasible);
        QVERIFY(full.error().message.find("trainer-slots") != std::string::npos
                || full.error().message.find("cores") != std::string::npos);
        Placement moved = placed(job, {0, 0, 1, 2, 0, 1, 2});
        moved[0] = 1;
        QVERIFY(checkPlacement(job, moved).error().message.find("where its part lies") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestGnnSchedule)
#include "tst_gnn_schedule.moc"
