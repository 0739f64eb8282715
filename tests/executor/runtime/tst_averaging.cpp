// SPDX-License-Identifier: Apache-2.0
// Local steps with delayed averaging (DaSGD): the rules on quadratics whose steps are known, then whole runs.
#include "executor/checkpoint/export_weights.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/averaging.h"
#include "executor/runtime/observed_communicator.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"
#include "engine/weights/safetensors.h"

#include <QTemporaryDir>
#include <QTest>

#include <array>
#include <limits>
#include <set>

using namespace planloom;
using namespace planloom::test;
using plan::DelayedAveraging;
using plan::Merge;

namespace {

/// Losses a / 2 (w - c)^2, one per replica, and SGD at rate r.
struct Curves {
    std::array<double, 2> kept = {0.9, 0.7}; ///< 1 - r a
    std::array<double, 2> centre = {2, -1};  ///< c
    double momentum = 0;
    double decay = 0; ///< r times the factor of L2
};

/// Two replicas of one parameter w, in one thread, from w = 0. The sum over the replicas is made here.
class Quadratics {
public:
    explicit Quadratics(const DelayedAveraging &averaging, const Curves &curves = {})
        : m_averaging(averaging),
          m_curves(curves),
          m_group(2)
    {
        constexpr std::int64_t kTensor = 128;
        const TeamId team(0);
        m_program.teams.push_back({{RankId(0), RankId(1)}, {DeviceId(0), DeviceId(1)}});
        program::Bucket bucket;
        bucket.team = team;
        bucket.policy = plan::ExchangePolicy::DelayedAveraging;
        bucket.entries = {{"w", 0, 1}};
        bucket.elements = kTensor / 4;
        bucket.parameters = {0, 0};
        bucket.copies = {-1, -1};
        bucket.gradients = {kTensor, kTensor};
        bucket.averages = {2 * kTensor, 2 * kTensor};
        const std::int64_t snapshot = averaging.merge == Merge::Corrected ? 3 * kTensor : -1;
        bucket.snapshots = {snapshot, snapshot};
        m_program.buckets.push_back(bucket);
        m_program.globalBatch = 2;
        for (std::int32_t r = 0; r < 2; ++r) {
            program::Rank rank;
            rank.device = DeviceId(r);
            rank.arenaBytes = 4 * kTensor;
            rank.bodies = {BodyId(r)};
            program::Task merge;
            merge.rank = RankId(r);
            merge.payload = program::Merge{BucketId(0), averaging.merge, averaging.localWeight};
            rank.tasks = {TaskId(static_cast<std::int64_t>(m_program.tasks.size()))};
            m_program.tasks.push_back(merge);
            m_program.ranks.push_back(rank);
            program::Body body;
            body.rank = RankId(r);
            body.slices = {{r, 1}};
            program::PersistentTensor held;
            held.name = "w";
            body.persistent.push_back(held);
            m_program.bodies.push_back(body);
        }
        for (int r = 0; r < 2; ++r) {
            m_ends[static_cast<std::size_t>(r)] = m_group.end(r);
            m_parts.push_back(std::unique_ptr<runtime::RankParts>(
                new runtime::RankParts{m_program, RankId(r), *m_ends[static_cast<std::size_t>(r)], device::cpuDevice(),
                                       std::chrono::seconds(10)}));
            Status ready = m_parts.back()->prepare();
            if (ready)
                ready = m_rules[static_cast<std::size_t>(r)].prepare(*m_parts.back());
            if (!ready)
                qFatal("%s", ready.error().text().c_str());
        }
    }

    /// Step @p k, from 1: update, merge, snapshot.
    void step(std::int64_t k)
    {
        for (std::size_t r = 0; r < 2; ++r) {
            const double slope = (1 - m_curves.kept[r]) * (weight(r) - m_curves.centre[r]) + m_curves.decay * weight(r);
            m_velocity[r] = m_curves.momentum * m_velocity[r] + slope;
            *at(r, 0) -= static_cast<float>(m_velocity[r]);
        }
        if (m_averaging.delay > 0)
            merge(k - m_averaging.delay);
        if (k % m_averaging.localSteps == 0)
            average();
        if (m_averaging.delay == 0)
            merge(k);
    }
    /// Steps follow a snapshot of these.
    void beginRound(double first, double second)
    {
        *at(0, 0) = static_cast<float>(first);
        *at(1, 0) = static_cast<float>(second);
        average();
        m_firstAverage = 0;
    }
    /// Of the averages that were merged since the last call.
    [[nodiscard]] double distance()
    {
        const std::int64_t later = std::numeric_limits<std::int64_t>::max();
        return std::sqrt(m_rules[0].takeSquaredDistance(later) + m_rules[1].takeSquaredDistance(later));
    }
    [[nodiscard]] double weight(std::size_t replica) { return static_cast<double>(*at(replica, 0)); }

private:
    float *at(std::size_t replica, std::int64_t tensor)
    {
        return reinterpret_cast<float *>(m_parts[replica]->arena.use(tensor * 128, 4));
    }
    void average()
    {
        for (std::size_t r = 0; r < 2; ++r)
            m_rules[r].takeSnapshot({BucketId(0)});
        *at(0, 2) = *at(1, 2) = *at(0, 2) + *at(1, 2);
    }
    /// What was averaged behind step @p taken.
    void merge(std::int64_t taken)
    {
        for (std::size_t r = 0; r < 2 && taken >= m_firstAverage && taken % m_averaging.localSteps == 0; ++r)
            m_rules[r].merge(*m_program.tasks[r].as<program::Merge>(), taken);
    }

    DelayedAveraging m_averaging;
    Curves m_curves;
    std::array<double, 2> m_velocity{}; ///< stays with its replica
    std::int64_t m_firstAverage = 1; ///< step from which on there are averages
    program::Program m_program;
    comm::LocalGroup m_group;
    std::array<std::unique_ptr<comm::Communicator>, 2> m_ends;
    std::vector<std::unique_ptr<runtime::RankParts>> m_parts;
    std::array<runtime::Averaging, 2> m_rules;
};

/// Begins everything late, so that the other ranks run ahead as far as they may.
class SlowCommunicator final : public ObservedCommunicator {
public:
    explicit SlowCommunicator(comm::Communicator &inner) : ObservedCommunicator(inner) {}

private:
    void begins(std::initializer_list<Range> /*ranges*/) override
    {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    Result<comm::Request> begun(Result<comm::Request> request) override { return request; }
    void testBegins() override {}
    Result<bool> tested(const comm::Request & /*request*/, Result<bool> done) override { return done; }
};

StageLayout replicas(int count) { return {std::vector<double>(static_cast<std::size_t>(count), 1.0 / count)}; }

} // namespace

class TestAveraging : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void quadratics_data();
    void quadratics();
    void momentaStayLocal_data();
    void momentaStayLocal();
    void delayBiasesReplicasThatSeeOtherData_data();
    void delayBiasesReplicasThatSeeOtherData();
    void roundsMultiplyMeanAndDeviation_data();
    void roundsMultiplyMeanAndDeviation();
    void everyStepIsSynchronousSgd_data();
    void everyStepIsSynchronousSgd();
    void layoutsAgree_data();
    void layoutsAgree();
    void distanceOfTheSnapshots_data();
    void distanceOfTheSnapshots();
    void distancesOfARun_data();
    void distancesOfARun();
    void averagesAreOneInARound();
    void warmupIsAllReduce();
    void machinesAreReplicas_data();
    void machinesAreReplicas();
    void oneMachineSumsUp();
    void resumesInsideARound_data();
    void resumesInsideARound();
    void longRounds_data();
    void longRounds();
    void nothingIsLeftToDo();
    void stopsOnAllRanks();
    void pausesChangeNothing();
    void weightsAreTheMean();
    void otherReplicasAreRefused();

private:
    [[nodiscard]] plan::Plan planFor(const Layout &layout, const DelayedAveraging &averaging) const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("sgd");
        (void)optimizer.rule.set("momentum", 0.9);
        optimizer.learningRate = 0.05;
        optimizer.weightDecay = 0.01;
        plan::Plan plan = planOf(m_subject, layout, optimizer);
        plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
        plan.exchange.averaging = averaging;
        return plan;
    }
    static plan::Plan summed(plan::Plan plan)
    {
        plan.exchange = {};
        return plan;
    }

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
};

void TestAveraging::initTestCase()
{
    m_subject = tinySubject(tinyConfig(4, 4, false), cpus(8));
    QVERIFY(m_subject.graph && m_subject.cluster);
}

void TestAveraging::quadratics_data()
{
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    QTest::addColumn<double>("localWeight");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<int>("step");
    QTest::addColumn<double>("first");
    QTest::addColumn<double>("second");
    const auto row = [](int localSteps, int delay, double weight, bool corrected, int step, double first,
                        double second) {
        QTest::addRow("%d local steps, delay %d, %g, %s, step %d", localSteps, delay, weight,
                      corrected ? "corrected" : "convex", step)
            << localSteps << delay << weight << corrected << step << first << second;
    };
    row(50, 50, 0.25, false, 40, 1.9704382341, -0.9999993633); // no exchange yet
    for (const bool corrected : {false, true}) {
        // Synchronous SGD, and local SGD.
        row(1, 0, 0, corrected, 1, -0.05, -0.05);
        row(1, 0, 0, corrected, 2, -0.09, -0.09);
        row(1, 0, 0, corrected, 3, -0.122, -0.122);
        row(1, 0, 0, corrected, 30, -0.249690515, -0.249690515);
        row(4, 0, 0, corrected, 4, -0.03605, -0.03605);
        row(4, 0, 0, corrected, 8, -0.052204005, -0.052204005);
        row(4, 2, 0.25, corrected, 4, 0.6878, -0.7599);
        row(4, 2, 0.25, corrected, 5, 0.81902, -0.83193);
    }
    row(4, 2, 0.25, false, 6, 0.207242, -0.24762525);
    row(4, 2, 0.25, false, 7, 0.3865178, -0.473337675);
    row(4, 2, 0.25, false, 8, 0.54786602, -0.6313363725);
    row(4, 2, 0.25, false, 9, 0.693079418, -0.7419354607);
    row(4, 2, 0.25, false, 10, 0.1746414869, -0.2361400878);
    row(4, 2, 0.25, false, 40, 0.4960517605, -0.6362708213);
    row(4, 2, 0.25, true, 6, 0.3942305, -0.3394635);
    row(4, 2, 0.25, true, 7, 0.55480745, -0.53762445);
    row(4, 2, 0.25, true, 8, 0.699326705, -0.676337115);
    row(4, 2, 0.25, true, 9, 0.8293940345, -0.7734359805);
    row(4, 2, 0.25, true, 10, 0.4305806986, -0.3255312538);
    row(4, 2, 0.25, true, 40, 0.7529413674, -0.6586982248);
}

void TestAveraging::quadratics()
{
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    QFETCH(double, localWeight);
    QFETCH(bool, corrected);
    QFETCH(int, step);
    QFETCH(double, first);
    QFETCH(double, second);
    Quadratics quadratics({localSteps, delay, localWeight, corrected ? Merge::Corrected : Merge::Convex, 0});
    for (int k = 1; k <= step; ++k)
        quadratics.step(k);
    QVERIFY2(std::abs(quadratics.weight(0) - first) < 1e-6, qPrintable(QString::number(quadratics.weight(0), 'g', 10)));
    QVERIFY2(std::abs(quadratics.weight(1) - second) < 1e-6,
             qPrintable(QString::number(quadratics.weight(1), 'g', 10)));
}

void TestAveraging::momentaStayLocal_data()
{
    QTest::addColumn<double>("decay");
    QTest::addColumn<QList<double>>("weights"); // after 1, 2, 3 and 30 steps
    QTest::newRow("momentum") << 0.0 << QList<double>{-0.05, -0.135, -0.2345, -0.2389892998};
    QTest::newRow("momentum and L2") << 0.1 << QList<double>{-0.05, -0.1345, -0.232305, -0.245311772};
}

/// Averaging in every step is synchronous SGD all the same, as momentum and decay are linear.
void TestAveraging::momentaStayLocal()
{
    QFETCH(double, decay);
    QFETCH(QList<double>, weights);
    for (const Merge merge : {Merge::Convex, Merge::Corrected}) {
        Curves curves;
        curves.momentum = 0.9;
        curves.decay = 0.1 * decay;
        Quadratics quadratics({1, 0, 0, merge, 0}, curves);
        QList<double> seen;
        for (int k = 1; k <= 30; ++k) {
            quadratics.step(k);
            if (k <= 3 || k == 30)
                seen << quadratics.weight(0);
            QVERIFY(std::abs(quadratics.weight(0) - quadratics.weight(1)) < 1e-6);
        }
        for (qsizetype i = 0; i < weights.size(); ++i)
            QVERIFY2(std::abs(seen[i] - weights[i]) < 1e-6, qPrintable(QString::number(seen[i], 'g', 10)));
    }
}

void TestAveraging::delayBiasesReplicasThatSeeOtherData_data()
{
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    QTest::addColumn<double>("localWeight");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<double>("mean");
    const auto row = [](int localSteps, int delay, double weight, bool corrected, double mean) {
        QTest::addRow("%d local steps, delay %d, %g, %s", localSteps, delay, weight, corrected ? "corrected" : "convex")
            << localSteps << delay << weight << corrected << mean;
    };
    row(1, 0, 0, true, -0.25);
    row(4, 0, 0, true, -0.09188623);
    row(1, 1, 0.25, false, -0.21428571);
    row(4, 1, 0.25, false, -0.03915958);
    row(4, 4, 0.25, false, -0.01120026);
    row(1, 1, 0.25, true, -0.125);
    row(4, 1, 0.25, true, 0.02270439);
    row(4, 4, 0.25, true, 0.13717906);
    row(16, 16, 0.25, true, 0.37238256);
}

/// The mean over a round in the long run; the mean loss has its least value at -0.25.
void TestAveraging::delayBiasesReplicasThatSeeOtherData()
{
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    QFETCH(double, localWeight);
    QFETCH(bool, corrected);
    QFETCH(double, mean);
    Quadratics quadratics({localSteps, delay, localWeight, corrected ? Merge::Corrected : Merge::Convex, 0});
    constexpr int kLong = 1600;
    double sum = 0;
    for (int k = 1; k <= kLong; ++k) {
        quadratics.step(k);
        if (k > kLong - localSteps)
            sum += (quadratics.weight(0) + quadratics.weight(1)) / 2;
    }
    QVERIFY2(std::abs(sum / localSteps - mean) < 1e-6, qPrintable(QString::number(sum / localSteps, 'g', 10)));
}

void TestAveraging::roundsMultiplyMeanAndDeviation_data()
{
    QTest::addColumn<double>("kept");
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<double>("mean");
    QTest::addColumn<double>("deviation");
    QTest::newRow("convex, delay 2") << 0.9 << 2 << false << 0.771525 << 0.164025;
    QTest::newRow("corrected, delay 2") << 0.9 << 2 << true << 0.6561 << 0.0486;
    QTest::newRow("convex, delay 4") << 0.9 << 4 << false << 0.914025 << 0.164025;
    QTest::newRow("corrected, delay 4") << 0.9 << 4 << true << 0.6561 << -0.0939;
    QTest::newRow("convex, odd delay, high rate") << -0.95 << 1 << false << -0.43940469 << 0.20362656;
    QTest::newRow("corrected, odd delay, high rate") << -0.95 << 1 << true << 0.81450625 << 1.4575375; // diverges
}

/// A round of 4 steps on one curve, by what it multiplies the replicas' mean and their distance from it.
void TestAveraging::roundsMultiplyMeanAndDeviation()
{
    QFETCH(double, kept);
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    QFETCH(double, mean);
    QFETCH(double, deviation);
    constexpr int kRound = 4;
    Quadratics quadratics({kRound, delay, 0.25, corrected ? Merge::Corrected : Merge::Convex, 0},
                          {{kept, kept}, {0, 0}});
    quadratics.beginRound(1.5, 0.5);
    for (int k = 1; k <= kRound; ++k)
        quadratics.step(k);
    const double first = quadratics.weight(0), second = quadratics.weight(1);
    QVERIFY2(std::abs((first + second) / 2 - mean) < 1e-6, qPrintable(QString::number((first + second) / 2, 'g', 10)));
    QVERIFY2(std::abs(first - second - deviation) < 1e-6, qPrintable(QString::number(first - second, 'g', 10)));
}

void TestAveraging::everyStepIsSynchronousSgd_data()
{
    QTest::addColumn<QList<double>>("shares");
    QTest::addColumn<bool>("corrected");
    for (const bool corrected : {false, true}) {
        QTest::addRow("equal shares, %d", corrected) << QList<double>{0.5, 0.5} << corrected;
        QTest::addRow("unequal shares, %d", corrected) << QList<double>{0.75, 0.25} << corrected;
        QTest::addRow("four replicas, %d", corrected) << QList<double>{0.25, 0.25, 0.25, 0.25} << corrected;
    }
}

/// Rounds of one step without delay: momentum and decay are linear, so that the mean of the steps is the step of the
/// mean gradient.
void TestAveraging::everyStepIsSynchronousSgd()
{
    QFETCH(QList<double>, shares);
    QFETCH(bool, corrected);
    const Layout layout{{{{shares.begin(), shares.end()}}}, 16, 2};
    const plan::Plan plan = planFor(layout, {1, 0, 0, corrected ? Merge::Corrected : Merge::Convex, 0});
    const Training how{.steps = 40};
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(plan), how);
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    QVERIFY(expected.losses.back() < expected.losses.front());
    const std::string wrong = differs(trainOn(m_text.path(), m_subject, plan, how), expected.losses, 1e-5);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestAveraging::layoutsAgree_data()
{
    QTest::addColumn<int>("stages");
    QTest::addColumn<QString>("change");
    QTest::newRow("2 stages") << 2 << "";
    QTest::newRow("2 stages in turn on one device") << 2 << "shared";
    QTest::newRow("smaller buckets") << 1 << "buckets";
    QTest::newRow("recomputation") << 2 << "recompute";
    QTest::newRow("zero bubble") << 2 << "zero bubble";
    QTest::newRow("2 tensor") << 1 << "tensor";
}

/// Two replicas learn the same however each of them is laid out.
void TestAveraging::layoutsAgree()
{
    QFETCH(int, stages);
    QFETCH(QString, change);
    const DelayedAveraging averaging{4, 2, 0.25, Merge::Corrected, 3};
    const Training how{.steps = 18};
    const Outcome one = trainOn(m_text.path(), m_subject, planFor({{replicas(2)}, 8, 2}, averaging), how);
    QVERIFY2(one.problem.empty(), one.problem.c_str());
    Layout layout{std::vector<StageLayout>(static_cast<std::size_t>(stages), replicas(change == "tensor" ? 4 : 2)), 8,
                  2};
    if (change == "shared") {
        layout.places = {0, 0};
        layout.schedule = plan::ScheduleKind::GPipe;
    }
    if (change == "zero bubble")
        layout.schedule = plan::ScheduleKind::ZeroBubbleH1;
    if (change == "recompute")
        layout.stages[0].recompute = plan::Recompute::Full;
    plan::Plan plan = planFor(layout, averaging);
    if (change == "buckets")
        plan.bucketBytes = 4096;
    if (change == "tensor") {
        plan.stages[0].replicaShares.clear();
        plan.stages[0].mesh = {2, 2};
        plan.stages[0].shardings = {{"*.mlp.c_fc.weight", "B,S(1)"},
                                    {"*.mlp.c_fc.bias", "B,S(0)"},
                                    {"*.mlp.c_proj.weight", "B,S(0)"}};
    }
    const std::string wrong = differs(trainOn(m_text.path(), m_subject, plan, how), one.losses);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestAveraging::distanceOfTheSnapshots_data()
{
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    for (const int delay : {0, 1, 2, 4})
        for (const bool corrected : {false, true})
            QTest::addRow("delay %d, %s", delay, corrected ? "corrected" : "convex") << delay << corrected;
}

/// Replicas at 0.6878 and -0.7599 after four steps are 0.72385 from their mean, however late that is merged; in delay 4
/// the next snapshot is taken in the step of the merge.
void TestAveraging::distanceOfTheSnapshots()
{
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    Quadratics quadratics({4, delay, 0.25, corrected ? Merge::Corrected : Merge::Convex, 0});
    for (int k = 1; k <= 4 + delay; ++k)
        quadratics.step(k);
    const double distance = quadratics.distance();
    QVERIFY2(std::abs(distance - 0.72385) < 1e-6, qPrintable(QString::number(distance, 'g', 10)));
    QCOMPARE(quadratics.distance(), 0.0); // it was taken
}

void TestAveraging::distancesOfARun_data()
{
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    QTest::newRow("corrected") << 1 << 4 << 2 << true;
    QTest::newRow("convex") << 1 << 4 << 2 << false;
    QTest::newRow("two stages") << 2 << 4 << 2 << true;
    QTest::newRow("merged with the next snapshot") << 1 << 4 << 4 << true;
    QTest::newRow("every step") << 1 << 1 << 1 << true;
    QTest::newRow("local SGD") << 1 << 4 << 0 << true;
}

/// A distance in the step behind each merge, in no other, and the same however the replica is laid out.
void TestAveraging::distancesOfARun()
{
    QFETCH(int, stages);
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    const DelayedAveraging averaging{localSteps, delay, 0.25, corrected ? Merge::Corrected : Merge::Convex, 0};
    const Training how{.steps = 19};
    const auto trained = [&](int count) {
        const Layout layout{std::vector<StageLayout>(static_cast<std::size_t>(count), replicas(2)), 8, 2};
        return trainOn(m_text.path(), m_subject, planFor(layout, averaging), how);
    };
    const Outcome run = trained(stages);
    QVERIFY2(run.problem.empty(), run.problem.c_str());
    QCOMPARE(run.distances.size(), std::size_t{19});
    const Outcome one = trained(1);
    for (std::int64_t step = 0; step < 19; ++step) {
        const std::int64_t merge = step - 1;
        const bool merged = merge >= averaging.firstMerge() && (merge - averaging.firstMerge()) % localSteps == 0;
        const double distance = run.distances[static_cast<std::size_t>(step)];
        QVERIFY2((distance > 0) == merged, qPrintable(QString("step %1: %2").arg(step).arg(distance)));
        const double same = one.distances[static_cast<std::size_t>(step)];
        QVERIFY2(std::abs(distance - same) <= 1e-3 * same, qPrintable(QString("%1, not %2").arg(distance).arg(same)));
    }
}

/// Of 16 steps in rounds of 4 as many bytes as all-reduce sends in 4; each average begins in the last step of a round
/// and is merged two steps later, by when it has ended.
void TestAveraging::averagesAreOneInARound()
{
    const plan::Plan plan = planFor({{replicas(2)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    const Training how{.steps = 16};
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(plan), how);
    const auto look = [](const program::Program &program, Outcome &outcome) {
        std::map<std::string, std::set<std::int64_t>> steps;
        std::map<std::int64_t, std::int64_t> ended; ///< by the step in which an average begins
        for (const trace::Record &record : outcome.records[0]) {
            const std::string id = idOf(program.task(TaskId(record.task)));
            steps[id].insert(record.step);
            if (id == "s0.AR.b0")
                ended[record.step] = record.start + record.duration;
            if (id == "s0.M.b0" && !(record.start >= ended[record.step - 2] && ended.contains(record.step - 2)))
                outcome.problem = "a merge began before its average had ended";
        }
        const std::set<std::int64_t> rounds{3, 7, 11, 15}, merges{5, 9, 13};
        if (steps["s0.SN.b0"] != rounds || steps["s0.AR.b0"] != rounds || steps["s0.M.b0"] != merges)
            outcome.problem = "averages in other steps";
    };
    const Outcome averaged = trainOn(m_text.path(), m_subject, plan, how, 0, look);
    QVERIFY2(averaged.problem.empty(), averaged.problem.c_str());
    QCOMPARE(averaged.losses.size(), std::size_t{16});
    for (std::size_t rank : {0, 1})
        QCOMPARE(averaged.collectiveBytes[rank] * 4, expected.collectiveBytes[rank]);
}

void TestAveraging::warmupIsAllReduce()
{
    plan::Plan plan = planFor({{replicas(2)}, 8, 2}, {4, 1, 0.25, Merge::Convex, 6});
    plan.optimizer.rule = *update::ConfiguredRule::named("adamw");
    plan.optimizer.learningRate = 1e-3;
    const Training how{.steps = 12};
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(plan), how);
    const Outcome averaged = trainOn(m_text.path(), m_subject, plan, how);
    QVERIFY2(averaged.problem.empty(), averaged.problem.c_str());
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    for (std::size_t step = 0; step < 7; ++step) // the loss of step 6 is taken before its update
        QCOMPARE(averaged.losses[step], expected.losses[step]);
    QVERIFY(averaged.losses[8] != expected.losses[8]);
}

void TestAveraging::machinesAreReplicas_data()
{
    QTest::addColumn<Layout>("layout");
    QTest::addColumn<std::vector<double>>("machines");
    QTest::addColumn<bool>("corrected");
    const StageLayout four = replicas(4);
    const std::vector<double> halves{0.5, 0.5};
    QTest::newRow("corrected") << Layout{{four}, 8, 2} << halves << true;
    QTest::newRow("convex") << Layout{{four}, 8, 2} << halves << false;
    QTest::newRow("a machine with one replica")
        << Layout{{replicas(3)}, 12, 2} << std::vector<double>{2 / 3., 1 / 3.} << true;
}

/// Replicas that sum up gradients inside their machine learn what one replica with the samples of all of them does. In
/// 15 steps behind a warm-up of 3 they send as many bytes as that takes, exactly.
void TestAveraging::machinesAreReplicas()
{
    QFETCH(Layout, layout);
    QFETCH(std::vector<double>, machines);
    QFETCH(bool, corrected);
    DelayedAveraging averaging{4, 2, 0.25, corrected ? Merge::Corrected : Merge::Convex, 3};
    const Training how{.steps = 18};
    const Outcome flat =
        trainOn(m_text.path(), m_subject, planFor({{{machines}}, layout.globalBatch, 2}, averaging), how);
    QVERIFY2(flat.problem.empty(), flat.problem.c_str());
    averaging.inside = plan::Inside::Machine;
    const plan::Subject about = tinySubject(tinyConfig(4, 4, false), cpus(2, 2));
    const auto look = [&](const program::Program &program, Outcome &outcome) {
        const auto replicas = static_cast<int>(program.ranks.size());
        for (int rank = 0; rank < replicas; ++rank) {
            std::int64_t bytes = 0;
            for (const program::Bucket &bucket : program.buckets) {
                const auto sent = [&](int members, int position) {
                    return cost::collectiveBytesOf(cost::Collective::AllReduce, bucket.bytes(), members, position, 4);
                };
                const int here = std::min(2, replicas - rank / 2 * 2); // on its machine
                bytes += (3 + 3) * sent(replicas, rank) + (here > 1 ? 15 * sent(here, rank % 2) : 0);
            }
            if (outcome.collectiveBytes[static_cast<std::size_t>(rank)] != bytes)
                outcome.problem = "rank " + std::to_string(rank) + " sent "
                    + std::to_string(outcome.collectiveBytes[static_cast<std::size_t>(rank)]) + " bytes, not "
                    + std::to_string(bytes);
        }
    };
    const Outcome together = trainOn(m_text.path(), about, planFor(layout, averaging), how, 0, look);
    const std::string wrong = differs(together, flat.losses, 1e-5);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Where all replicas lie on one machine, nothing is left to be averaged.
void TestAveraging::oneMachineSumsUp()
{
    DelayedAveraging averaging{4, 2, 0.25, Merge::Convex, 0};
    averaging.inside = plan::Inside::Machine;
    const plan::Plan plan = planFor({{replicas(2)}, 8, 2}, averaging);
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(plan), {.steps = 8});
    const Outcome together = trainOn(m_text.path(), m_subject, plan, {.steps = 8});
    QCOMPARE(together.problem + expected.problem, std::string());
    QCOMPARE(together.losses, expected.losses);
    QCOMPARE(together.collectiveBytes, expected.collectiveBytes);
    QCOMPARE(together.peaks, expected.peaks);
}

void TestAveraging::resumesInsideARound_data()
{
    QTest::addColumn<int>("at");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<bool>("half");
    for (int at = 1; at <= 9; ++at)
        QTest::addRow("after %d steps", at) << at << true << false;
    QTest::newRow("convex") << 5 << false << false;
    QTest::newRow("bfloat16") << 5 << true << true;
    QTest::newRow("two machines") << 7 << true << false;
}

/// Rounds of 4 steps behind a warm-up of 2, merged after 2 steps: with every phase stored, to the last bit.
void TestAveraging::resumesInsideARound()
{
    QFETCH(int, at);
    QFETCH(bool, corrected);
    QFETCH(bool, half);
    plan::Plan plan =
        planFor({{replicas(2), replicas(2)}, 8, 2}, {4, 2, 0.25, corrected ? Merge::Corrected : Merge::Convex, 2});
    if (half)
        plan.precision = plan::Precision::BFloat16;
    plan::Subject about = plan::inPrecision(m_subject, plan.precision);
    if (qstrcmp(QTest::currentDataTag(), "two machines") == 0) {
        plan = planFor({{replicas(4)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 2});
        plan.exchange.averaging.inside = plan::Inside::Machine;
        about = tinySubject(tinyConfig(4, 4, false), cpus(2, 2));
    }
    QTemporaryDir wholeDir, firstDir, secondDir;
    std::vector<double> whole, parts;
    Status status = trainPart({0, 14, {}, wholeDir.path().toStdString()}, plan, about, m_text.path(), whole);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    status = trainPart({0, at, {}, firstDir.path().toStdString()}, plan, about, m_text.path(), parts);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    const auto kept = checkpoint::newestCheckpoint(firstDir.path().toStdString());
    QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
    status = trainPart({at, 14, kept->folder, secondDir.path().toStdString()}, plan, about, m_text.path(), parts);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    QCOMPARE(whole.size(), std::size_t{14});
    QCOMPARE(parts, whole);
}

/// The request is known to all ranks when they are at most two steps further, and all end behind the same step.
void TestAveraging::longRounds_data()
{
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    for (const auto &[localSteps, delay] : {std::pair{11, 8}, {13, 2}, {12, 8}, {16, 16}})
        QTest::addRow("%d local steps, delay %d", localSteps, delay) << localSteps << delay;
}

/// Steps are agreed on one by one or a few together, while the averages of others are under way: ranks that run ahead
/// send the losses of the same steps as the others.
void TestAveraging::longRounds()
{
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    const plan::Plan plan = planFor({{replicas(4)}, 8, 2}, {localSteps, delay, 0.25, Merge::Corrected, 0});
    Training how{.steps = 60};
    how.around = [](std::size_t rank, comm::Communicator &inner) -> std::unique_ptr<comm::Communicator> {
        return rank == 1 ? std::make_unique<SlowCommunicator>(inner) : nullptr;
    };
    const Outcome slow = trainOn(m_text.path(), m_subject, plan, how);
    QVERIFY2(slow.problem.empty(), slow.problem.c_str());
    const Outcome expected = trainOn(m_text.path(), m_subject, plan, {.steps = 60});
    QCOMPARE(slow.losses, expected.losses);
}

/// A resumed run that has done its steps ends at once.
void TestAveraging::nothingIsLeftToDo()
{
    const plan::Plan plan = planFor({{replicas(2)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    QTemporaryDir first, second;
    std::vector<double> losses;
    QVERIFY(trainPart({0, 6, {}, first.path().toStdString()}, plan, m_subject, m_text.path(), losses).ok());
    const auto kept = checkpoint::newestCheckpoint(first.path().toStdString());
    const Status status =
        trainPart({6, 4, kept->folder, second.path().toStdString()}, plan, m_subject, m_text.path(), losses);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    QCOMPARE(losses.size(), std::size_t{6});
}

void TestAveraging::stopsOnAllRanks()
{
    const plan::Plan plan = planFor({{replicas(2), replicas(2)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    const Outcome outcome = trainOn(m_text.path(), m_subject, plan, {.steps = 1000, .stopAfter = 5});
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QVERIFY2(outcome.losses.size() >= 6 && outcome.losses.size() < 20,
             qPrintable(QString::number(outcome.losses.size())));
    std::vector<std::int32_t> last;
    for (const auto &records : outcome.records) {
        last.push_back(0);
        for (const trace::Record &record : records)
            last.back() = std::max(last.back(), record.step);
    }
    QCOMPARE(last, std::vector<std::int32_t>(4, static_cast<std::int32_t>(outcome.losses.size()) - 1));
}

/// Held-out samples are scored by the mean of the replicas, which go on as they were.
void TestAveraging::pausesChangeNothing()
{
    const plan::Plan plan = planFor({{{{0.75, 0.25}}}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    const auto run = [&](bool pauses, std::vector<double> &losses, std::vector<double> &seen) {
        const auto program = compile::compilePlan(plan, m_subject);
        const auto needs = data::needsOf(*m_subject.graph);
        const auto data = data::openDataSet(m_text.path(), *needs);
        const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0.2)};
        comm::LocalGroup group(2);
        std::array<Status, 2> done;
        const auto work = [&](std::size_t rank) -> Status {
            omp_set_num_threads(1);
            const auto end = group.end(static_cast<int>(rank));
            trace::Ring ring(1 << 14);
            runtime::RankExecutor *running = nullptr;
            runtime::ExecutorOptions options;
            options.steps = 12;
            options.optimizer = plan.optimizer;
            if (rank == 0)
                options.onStep = [&](const run::StepMetrics &result) { losses.push_back(result.loss); };
            if (pauses) {
                options.pausesAfter = [](std::int64_t step) { return step % 3 == 0; };
                options.afterStep = [&](const run::StepMetrics &result, bool &) -> Status {
                    const auto validation = running->evaluate();
                    if (validation && rank == 0)
                        seen.push_back(validation->loss);
                    return !validation         ? Status(validation.error())
                        : result.step % 3 == 0 ? Status()
                                               : failed("a pause after another step");
                };
            }
            auto executor = runtime::RankExecutor::create(*program, *m_subject.graph, *end, feed, ring, options);
            if (!executor)
                return executor.error();
            running = executor->get();
            Status status = running->run();
            if (!status)
                end->abort(status.error().text());
            return status;
        };
        {
            std::jthread other([&] { done[1] = work(1); });
            done[0] = work(0);
        }
        for (const Status &status : done)
            QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    };
    std::vector<double> uninterrupted, paused, none, seen;
    run(false, uninterrupted, none);
    run(true, paused, seen);
    QCOMPARE(uninterrupted.size(), std::size_t{12});
    QCOMPARE(paused, uninterrupted);
    QCOMPARE(seen.size(), std::size_t{4});
    QVERIFY(seen.back() < seen.front());
}

/// A checkpoint has the parameters of every replica; exported weights are their mean.
void TestAveraging::weightsAreTheMean()
{
    const plan::Plan plan = planFor({{{{0.75, 0.25}}}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    QTemporaryDir dir;
    std::vector<double> losses;
    const Status status = trainPart({0, 6, {}, dir.path().toStdString()}, plan, m_subject, m_text.path(), losses);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    const auto kept = checkpoint::newestCheckpoint(dir.path().toStdString());
    QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
    const std::string file = dir.filePath("mean.safetensors").toStdString();
    const Status written = checkpoint::exportWeights(*kept, file, graph::DType::F32);
    QVERIFY2(written.ok(), written ? "" : written.error().text().c_str());
    const auto weights = weights::SafetensorsFile::open(file);
    QVERIFY2(weights.ok(), weights ? "" : weights.error().text().c_str());
    int compared = 0;
    for (const checkpoint::StoredPiece &stored : kept->pieces) {
        if (stored.what.kind != checkpoint::Kind::Replicas || stored.what.region.front().front().begin != 0)
            continue;
        checkpoint::Piece whole{stored.what.name,
                                stored.what.kind,
                                graph::DType::F32,
                                stored.what.shape,
                                checkpoint::wholeRegion(stored.what.shape),
                                0,
                                checkpoint::wholeElements(stored.what.shape),
                                nullptr,
                                false};
        QCOMPARE(whole.shape.front(), std::int64_t{2});
        std::vector<float> both(static_cast<std::size_t>(whole.flatCount));
        whole.data = reinterpret_cast<std::byte *>(both.data());
        QVERIFY(checkpoint::restore(*kept, std::array{whole}).ok());
        const weights::StoredTensor *tensor = weights->header().find(whole.name);
        QVERIFY(tensor != nullptr);
        const auto exported = weights->data(*tensor);
        const std::size_t count = both.size() / 2;
        QCOMPARE(exported.size(), count * sizeof(float));
        const auto *mean = reinterpret_cast<const float *>(exported.data());
        bool differ = false;
        for (std::size_t i = 0; i < count; ++i) {
            differ = differ || both[i] != both[count + i];
            QVERIFY(std::abs(mean[i] - (0.75F * both[i] + 0.25F * both[count + i])) < 1e-6F);
        }
        QVERIFY(differ);
        ++compared;
    }
    QVERIFY(compared > 10);
}

void TestAveraging::otherReplicasAreRefused()
{
    const plan::Plan plan = planFor({{replicas(2)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    const auto refusal = [&](const plan::Plan &before, const plan::Plan &after) {
        QTemporaryDir first, second;
        std::vector<double> losses;
        if (!trainPart({0, 2, {}, first.path().toStdString()}, before, m_subject, m_text.path(), losses))
            return std::string("the first part did not run");
        const auto kept = checkpoint::newestCheckpoint(first.path().toStdString());
        const Status status =
            trainPart({2, 4, kept->folder, second.path().toStdString()}, after, m_subject, m_text.path(), losses);
        return status ? std::string() : status.error().message;
    };
    const std::string toOne = refusal(plan, summed(plan));
    QVERIFY2(toOne.find("replicas that average theirs (shares 1,1; ") != std::string::npos, toOne.c_str());
    const std::string toMany = refusal(summed(plan), plan);
    QVERIFY2(toMany.find("one set of parameters and the plan replicas") != std::string::npos, toMany.c_str());
    // The average under way belongs to its round: another delay would merge it at another time, or twice.
    plan::Plan later = plan;
    later.exchange.averaging.delay = 4;
    const std::string toOther = refusal(plan, later);
    QVERIFY2(toOther.find("delay=2") != std::string::npos && toOther.find("delay=4") != std::string::npos,
             toOther.c_str());
    plan::Plan larger = plan;
    larger.globalBatch = 16;
    QCOMPARE(refusal(plan, larger), std::string());
}

QTEST_GUILESS_MAIN(TestAveraging)
#include "tst_averaging.moc"
