// SPDX-License-Identifier: Apache-2.0
// Runs with local steps and delayed averaging (DaSGD); the rules alone: tst_averaging_rules.cpp.
#include "executor/checkpoint/export_weights.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/observed_communicator.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"
#include "engine/weights/safetensors.h"

#include <QTemporaryDir>
#include <QTest>

#include <array>
#include <optional>
#include <set>

using namespace planloom;
using namespace planloom::test;
using plan::DelayedAveraging;
using plan::Merge;

namespace {

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
    void everyStepIsSynchronousSgd_data();
    void everyStepIsSynchronousSgd();
    void layoutsAgree_data();
    void layoutsAgree();
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
    std::optional<Outcome> m_oneStage; ///< what layoutsAgree() expects of every row
    std::vector<double> m_uncut;       ///< losses that resumesInsideARound() expects of most rows
};

void TestAveraging::initTestCase()
{
    m_subject = tinySubject(tinyConfig(4, 4, false), cpus(8));
    QVERIFY(m_subject.graph && m_subject.cluster);
}

void TestAveraging::everyStepIsSynchronousSgd_data()
{
    QTest::addColumn<QList<double>>("shares");
    QTest::newRow("equal shares") << QList<double>{0.5, 0.5};
    QTest::newRow("unequal shares") << QList<double>{0.75, 0.25};
    QTest::newRow("four replicas") << QList<double>{0.25, 0.25, 0.25, 0.25};
}

/// Rounds of one step without delay: momentum and decay are linear, so that the mean of the steps is the step of the
/// mean gradient.
void TestAveraging::everyStepIsSynchronousSgd()
{
    QFETCH(QList<double>, shares);
    const Layout layout{{{{shares.begin(), shares.end()}}}, 16, 2};
    const Training how{.steps = 40};
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(planFor(layout, {})), how);
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    QVERIFY(expected.losses.back() < expected.losses.front());
    for (const Merge merge : {Merge::Convex, Merge::Corrected}) {
        const plan::Plan plan = planFor(layout, {1, 0, 0, merge, 0});
        const std::string wrong = differs(trainOn(m_text.path(), m_subject, plan, how), expected.losses, 1e-5);
        QVERIFY2(wrong.empty(), (std::string(merge == Merge::Convex ? "convex: " : "corrected: ") + wrong).c_str());
    }
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
    if (!m_oneStage)
        m_oneStage = trainOn(m_text.path(), m_subject, planFor({{replicas(2)}, 8, 2}, averaging), how);
    QVERIFY2(m_oneStage->problem.empty(), m_oneStage->problem.c_str());
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
    const std::string wrong = differs(trainOn(m_text.path(), m_subject, plan, how), m_oneStage->losses);
    QVERIFY2(wrong.empty(), wrong.c_str());
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
    bool differ = false; // replicas have other samples, and soon other parameters
    for (std::size_t step = 0; step < 19; ++step) {
        double sum = 0;
        for (const std::vector<double> &own : run.ownLosses) {
            QCOMPARE(own.size(), std::size_t{19});
            sum += own[step];
        }
        QVERIFY(std::abs(sum - run.losses[step]) < 1e-5 * sum);
        differ = differ || run.ownLosses.back()[step] != run.ownLosses[run.ownLosses.size() - 2][step];
    }
    QVERIFY(differ);
    const Outcome one = stages > 1 ? trained(1) : Outcome{};
    for (std::int64_t step = 0; step < 19; ++step) {
        const std::int64_t merge = step - 1;
        const bool merged = merge >= averaging.firstMerge() && (merge - averaging.firstMerge()) % localSteps == 0;
        const double distance = run.distances[static_cast<std::size_t>(step)];
        QVERIFY2((distance > 0) == merged, qPrintable(QString("step %1: %2").arg(step).arg(distance)));
        if (stages == 1)
            continue;
        const double same = one.distances[static_cast<std::size_t>(step)];
        QVERIFY2(std::abs(distance - same) <= 1e-3 * same, qPrintable(QString("%1, not %2").arg(distance).arg(same)));
    }
}

/// Of 40 steps in rounds of 4 as many bytes as all-reduce sends in 10; each average begins in the last step of a round
/// and is merged two steps later, by when it has ended. The tenth is the drain: no step is left to merge it.
void TestAveraging::averagesAreOneInARound()
{
    const plan::Plan plan = planFor({{replicas(2)}, 8, 2}, {4, 2, 0.25, Merge::Corrected, 0});
    const Training how{.steps = 40};
    const Outcome expected = trainOn(m_text.path(), m_subject, summed(plan), how);
    const auto look = [](const program::Program &program, Outcome &outcome) {
        std::map<std::string, std::set<std::int64_t>> steps;
        std::map<std::int64_t, std::int64_t> ended; ///< by the step in which an average begins
        for (const trace::Record &record : outcome.records[0]) {
            const std::string id = idOf(program.task(TaskId(record.task)));
            steps[id].insert(record.step);
            if (id == "s0.AR.b0")
                ended[record.step] = record.start + record.duration;
            if (id == "s0.M.b0" && !(ended.contains(record.step - 2) && record.start >= ended[record.step - 2]))
                outcome.problem = "a merge began before its average had ended";
        }
        std::set<std::int64_t> rounds, merges;
        for (std::int64_t round = 1; round <= 10; ++round)
            rounds.insert(4 * round - 1);
        for (std::int64_t round = 1; round <= 9; ++round)
            merges.insert(4 * round + 1);
        if (steps["s0.SN.b0"] != rounds || steps["s0.AR.b0"] != rounds || steps["s0.M.b0"] != merges)
            outcome.problem = "averages in other steps";
    };
    const Outcome averaged = trainOn(m_text.path(), m_subject, plan, how, 0, look);
    QVERIFY2(averaged.problem.empty(), averaged.problem.c_str());
    QCOMPARE(averaged.losses.size(), std::size_t{40});
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
    const bool shared = QByteArray(QTest::currentDataTag()).startsWith("after"); // rows of one plan have one run
    std::vector<double> whole, parts;
    std::vector<double> &uncut = shared ? m_uncut : whole;
    Status status;
    if (uncut.empty())
        status = trainPart({0, 14, {}, wholeDir.path().toStdString()}, plan, about, m_text.path(), uncut);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    status = trainPart({0, at, {}, firstDir.path().toStdString()}, plan, about, m_text.path(), parts);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    const auto kept = checkpoint::newestCheckpoint(firstDir.path().toStdString());
    QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
    status = trainPart({at, 14, kept->folder, secondDir.path().toStdString()}, plan, about, m_text.path(), parts);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    QCOMPARE(uncut.size(), std::size_t{14});
    QCOMPARE(parts, uncut);
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
