// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "profiler/profile_model.h"

#include "engine/cost/local_costs.h"
#include "engine/cost/sparse_rows.h"
#include "engine/graph/zoo/zoo.h"
#include "profiler/host_copies.h"
#include "profiler/measurement.h"
#include "profiler/replica.h"
#include "profiler/shared_reduction.h"
#include "tests/executor/runtime/training_fixture.h"

#include <QTest>
#include <algorithm>
#include <cmath>
#include <set>

using namespace planloom;
using namespace planloom::profiler;

namespace {

std::shared_ptr<const graph::Graph> perceptron()
{
    auto model = graph::mlp("small", {16, 64, 64, 4});
    return model ? std::make_shared<const graph::Graph>(std::move(*model)) : nullptr;
}

std::shared_ptr<const graph::Graph> transformer()
{
    graph::TransformerConfig config;
    config.name = "tiny";
    config.layers = 2;
    config.heads = 2;
    config.hidden = 16;
    config.feedForward = 32;
    config.vocabulary = 31;
    config.context = 8;
    auto model = graph::gpt(config);
    return model ? std::make_shared<const graph::Graph>(std::move(*model)) : nullptr;
}

class StopsAtOnce final : public Progress {
public:
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return true; }
};

} // namespace

class TestProfileModel : public QObject {
    Q_OBJECT

private slots:
    void copiesAreInNoCache();
    void stepsAreLongerThanTheirParts();
    void ranksWaitInEachSegment();
    void coversEveryOperator_data();
    void coversEveryOperator();
    void costModelTakesIt();
    void backwardGoesToTheOperatorThatCausesIt();
    void severalRanksAtATime();
    void planIsCoveredBySignature();
    void solvedSystemsHaveTheSumsOfAllRanks_data();
    void solvedSystemsHaveTheSumsOfAllRanks();
    void rowsOfTablesAreMeasured();
    void stops();
    void refusals_data();
    void refusals();
    void sizesOfAPlan();
    void madeUpDataIsInRange();
};

void TestProfileModel::coversEveryOperator_data()
{
    QTest::addColumn<bool>("tokens");
    QTest::newRow("features") << false;
    QTest::newRow("tokens") << true;
}

void TestProfileModel::coversEveryOperator()
{
    QFETCH(bool, tokens);
    const auto model = tokens ? transformer() : perceptron();
    ProfileOptions options;
    options.samples = {4, 1, 4};
    options.repetitions = 3;
    options.threads = 1;
    NoProgress progress;
    const auto profile = profileModel(model, options, progress);
    QVERIFY2(profile.ok(), profile.ok() ? "" : profile.error().text().c_str());
    QCOMPARE(profile->model, model->name());
    QCOMPARE(profile->ops.size(), model->ops().size());
    for (const graph::Op &op : model->ops()) {
        const auto &times = profile->ops.at(op.name);
        QCOMPARE(times.size(), std::size_t{2}); // sorted, each once
        QCOMPARE(times[0].samples, 1.0);
        QCOMPARE(times[1].samples, 4.0);
        // A bias, a GELU or a residual sum is done by the product or the norm beside it and takes no separate time.
        QVERIFY2(times[0].forward.value() > 0 || op.type == "Add" || op.type == "Gelu", op.name.c_str());
        QVERIFY(times[0].backward.value() >= 0);
    }
    QVERIFY(profile->extra.at("optimizer_seconds_per_parameter") > 0);
    QVERIFY(profile->extra.at("host_copy_bytes_per_second") > 0);
    QVERIFY(!profile->extra.contains("allreduce_bytes_per_second"));
    const auto back = cost::profileFromJson(cost::toJson(*profile));
    QVERIFY(back.ok());
    QCOMPARE(back->ops.size(), profile->ops.size());
}

void TestProfileModel::costModelTakesIt()
{
    const auto model = perceptron();
    ProfileOptions options;
    options.samples = {2};
    options.repetitions = 3;
    options.threads = 1;
    NoProgress progress;
    auto profile = profileModel(model, options, progress);
    QVERIFY(profile.ok());
    double forward = 0;
    double backward = 0;
    for (const auto &[name, times] : profile->ops) {
        forward += times[0].forward.value();
        backward += times[0].backward.value();
    }
    cluster::RegularCluster spec;
    spec.type = {"CPU", {{"float32", 1e11}}, Bytes(1 << 30), 1e10};
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
    const auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    const cost::CostModel costs(model, cluster, std::make_shared<const cost::Profile>(*profile));
    const std::size_t layers = costs.layers().size();
    QVERIFY(std::abs(costs.forward(0, layers, 2, 0).value() - forward) < 1e-9 + forward * 1e-9);
    QVERIFY(std::abs(costs.backward(0, layers, 2, 0).value() - backward) < 1e-9 + backward * 1e-9);
}

void TestProfileModel::backwardGoesToTheOperatorThatCausesIt()
{
    const auto model = perceptron();
    ProfileOptions options;
    options.samples = {4};
    options.repetitions = 3;
    options.threads = 1;
    NoProgress progress;
    const auto profile = profileModel(model, options, progress);
    QVERIFY(profile.ok());
    int withBackward = 0;
    for (const graph::Op &op : model->ops())
        withBackward += profile->ops.at(op.name)[0].backward.value() > 0 ? 1 : 0;
    QCOMPARE(withBackward, static_cast<int>(model->ops().size())); // every operator of a perceptron has a gradient
}

void TestProfileModel::severalRanksAtATime()
{
    ProfileOptions options;
    options.samples = {2};
    options.repetitions = 3;
    options.ranks = 3;
    options.threads = 1;
    NoProgress progress;
    const auto profile = profileModel(perceptron(), options, progress);
    QVERIFY(profile.ok());
    QVERIFY(profile->extra.at("allreduce_bytes_per_second") > 0);
}

void TestProfileModel::planIsCoveredBySignature()
{
    cluster::RegularCluster spec;
    spec.type = {"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 34), 1e10};
    spec.perNode = 2;
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
    const auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    plan::Subject subject = plan::makeSubject(transformer(), cluster, nullptr, {});
    plan::Plan plan;
    plan.globalBatch = 5;
    plan.microBatches = 2; // 3 and 2 samples
    plan::Stage stage;
    const std::size_t half = subject.layers().size() / 2;
    stage.name = "front";
    stage.lastLayer = half;
    stage.devices = {DeviceId(0)};
    plan.stages.push_back(stage);
    stage.name = "back";
    stage.firstLayer = half;
    stage.lastLayer = subject.layers().size();
    stage.devices = {DeviceId(1)};
    plan.stages.push_back(stage);
    ProfileOptions options;
    options.repetitions = 3;
    options.threads = 1;
    NoProgress progress;
    auto profile = profilePlan(plan, subject, options, progress);
    QVERIFY2(profile.ok(), profile.ok() ? "" : profile.error().text().c_str());
    QCOMPARE(profile->ranks, 2);
    QVERIFY(profile->extra.at("optimizer_seconds_per_parameter") > 0);
    QVERIFY(profile->extra.at("busy_slowdown") > 0);
    const auto program = compile::compilePlan(plan, subject);
    QVERIFY(program.ok());
    const cost::CostModel costs(subject.graph, cluster, std::make_shared<const cost::Profile>(std::move(*profile)));
    for (const program::Body &body : program->bodies) {
        const cost::LocalCosts local(costs, body.training.graph);
        QCOMPARE(local.covered(), body.training.graph.ops().size());
        QVERIFY(local.seconds(0, local.covered(), 3, 0).value() > 0);
    }
    for (const auto &[signature, times] : costs.profile()->kernels)
        QCOMPARE(times.size(), std::size_t{2}); // 2 and 3 samples
}

/// Worked by hand. Medians of rank 0's parts are 1, 2 and 1, of its steps 7: another part is late each time. Rank 1's
/// parts are steady but for the optimizer, and it is late when rank 0 is not. On one core they wait for their sum, and
/// a rank on a slower core than expected is waited for always.
void TestProfileModel::stepsAreLongerThanTheirParts()
{
    RankTimes uneven;
    uneven.forward[8].whole = {1, 1, 4};
    uneven.backward[8].whole = {2, 5, 2};
    uneven.optimizer = {1, 1, 1};
    uneven.steps = {{4}, {7}, {7}};
    const auto byParts = [](const std::vector<RankTimes> &ranks) {
        std::vector<double> parts;
        for (const RankTimes &rank : ranks)
            parts.push_back(partsOf(rank));
        return skewOf(ranks, parts);
    };
    QCOMPARE(byParts({uneven}), 7.0 / 4);
    RankTimes late;
    late.forward[8].whole = {2, 2, 2};
    late.backward[8].whole = {4, 4, 4};
    late.optimizer = {10, 2, 2};
    late.steps = {{16}, {8}, {8}};
    QCOMPARE(byParts({late}), 1.0);
    QCOMPARE(byParts({uneven, late}), 15.0 / 12);
    late.core = 1;
    QCOMPARE(byParts({uneven, late}), 7.0 / 4); // 2, 7/4, 7/4
    late.steps = {{16}, {16}, {8}};
    QCOMPARE(byParts({uneven, late}), 2.0);
    QCOMPARE(skewOf({uneven, late}, {6, 6}), 16.0 / 6);
    QCOMPARE(byParts({RankTimes()}), 1.0); // nothing came by
}

/// Worked by hand. Two cores take 6 each, in two segments of 2 and 4; in each step one core is late in the first and
/// the other in the second, so that both take equally long for all of it.
void TestProfileModel::ranksWaitInEachSegment()
{
    RankTimes one;
    one.steps = {{2, 4}, {3, 4}, {2, 5}, {2, 4}, {3, 4}};
    RankTimes other = one;
    other.core = 1;
    other.steps = {{2, 4}, {2, 5}, {3, 4}, {2, 4}, {2, 5}};
    QCOMPARE(skewOf({one, other}, {6, 6}), 8.0 / 6); // 6, 3 + 5, 3 + 5, 6, 3 + 5
    one.inStep = other.inStep = true;
    one.busy = other.busy = 9.5;
    one.computed = one.steps;
    other.computed = other.steps;
    QCOMPARE(skewOf({one, other}, {6, 6}), 9.5 / 6); // with changes from rank to rank
    for (RankTimes *rank : {&one, &other})
        for (std::vector<double> &step : rank->computed)
            step[1] += 1; // recomputed, for which the clock has tasks of its own
    QCOMPARE(skewOf({one, other}, {6, 6}), 8.5 / 6);
    one.inStep = other.inStep = false;
    other.core = 0;
    QCOMPARE(skewOf({one, other}, {6, 6}), 14.0 / 12); // one after the other: neither waits for the core
    other.core = 1;
    for (std::vector<double> &step : other.steps)
        step = {step[0] + step[1]};
    QCOMPARE(skewOf({one, other}, {6, 6}), 7.0 / 6); // not cut alike: whole steps
}

void TestProfileModel::solvedSystemsHaveTheSumsOfAllRanks_data()
{
    QTest::addColumn<int>("workers");
    QTest::addColumn<int>("ranges");
    QTest::newRow("samples shared out") << 2 << 1;
    QTest::newRow("steps in time") << 1 << 2;
    QTest::newRow("both") << 2 << 2;
}

/// One range of steps alone has no sums of outputs: its system has no solution, which takes no time to find out, and
/// what follows is computed with numbers that are none.
void TestProfileModel::solvedSystemsHaveTheSumsOfAllRanks()
{
    QFETCH(int, workers);
    QFETCH(int, ranges);
    const auto ranks = static_cast<std::size_t>(workers * ranges);
    const auto model = std::make_shared<const graph::Graph>(*graph::rnnClassifier({"rnn", 3, 5, 4, 4}));
    const plan::Subject subject = plan::makeSubject(model, test::cpus(static_cast<int>(ranks)), nullptr, "zoo:rnn");
    test::Layout layout;
    layout.stages.front().shares.assign(static_cast<std::size_t>(workers), 1.0 / workers);
    layout.globalBatch = 24;
    plan::Plan plan = test::planOf(subject, layout, plan::admmOptimizer());
    plan.admm = admm::Settings{};
    plan.admm->order = admm::Order::Split;
    plan.admm->timeRanges = ranges;
    if (ranges > 1) {
        plan::Stage &stage = plan.stages.front();
        stage.mesh = {workers, ranges};
        stage.devices.clear();
        for (std::size_t device = 0; device < ranks; ++device)
            stage.devices.emplace_back(static_cast<std::int64_t>(device));
    }
    const auto program = compile::compilePlan(plan, subject);
    QVERIFY2(program.ok(), program.ok() ? "" : program.error().text().c_str());
    const auto needs = data::needsOf(*subject.graph);
    QVERIFY(needs.ok());
    ProfileOptions options;
    options.repetitions = 4;
    options.threads = 1;
    options.optimizer = plan.optimizer;
    std::vector<RankId> all;
    for (std::size_t r = 0; r < ranks; ++r)
        all.emplace_back(static_cast<std::int64_t>(r));
    Measurement measurement(*program, all, *subject.graph, *needs, options, device::cpuDevice());
    const Status measured = measurement.run([] { return false; });
    QVERIFY2(measured.ok(), measured ? "" : measured.error().text().c_str());
    double loss = 0;
    for (const RankTimes &rank : measurement.ranks()) {
        QVERIFY2(std::isfinite(rank.loss), qPrintable(QString::number(rank.loss)));
        loss += rank.loss;
    }
    QVERIFY(loss > 0);
}

void TestProfileModel::rowsOfTablesAreMeasured()
{
    graph::LstmConfig config;
    config.layers = 1;
    config.embedding = config.hidden = 8;
    config.vocabulary = 200;
    config.context = 8;
    const auto model = std::make_shared<const graph::Graph>(*graph::lstmLanguageModel(config));
    const plan::Subject subject = plan::makeSubject(model, test::cpus(2), nullptr, "test");
    test::Layout layout;
    layout.stages.front().shares = {0.5, 0.5};
    layout.globalBatch = 8;
    plan::Plan plan = test::planOf(subject, layout, {});
    const auto profiled = [&] {
        ProfileOptions options;
        options.repetitions = 3;
        options.threads = 1;
        NoProgress progress;
        return profilePlan(plan, subject, options, progress);
    };
    const auto whole = profiled();
    QVERIFY2(whole.ok(), whole.ok() ? "" : whole.error().text().c_str());
    QVERIFY(!whole->extra.contains(cost::kSecondsPerRowId));
    plan.optimizer.groups = {{"embedding.weight", 0, 1}};
    plan.exchange.policy = plan::ExchangePolicy::Sparse;
    plan.exchange.sparse = {plan::ExchangeScheduling::TwoDimensional,
                            {{"embedding.weight", plan::TableStrategy::AllToAll, true}}};
    const auto byRows = profiled();
    QVERIFY2(byRows.ok(), byRows.ok() ? "" : byRows.error().text().c_str());
    QVERIFY(byRows->extra.at(cost::kSecondsPerRowId) > 0);
    QVERIFY(byRows->extra.contains(cost::kSecondsPerRowPiece)); // 0 where the bytes alone take longer
}

void TestProfileModel::stops()
{
    StopsAtOnce progress;
    const auto profile = profileModel(perceptron(), {}, progress);
    QVERIFY(!profile.ok());
    QCOMPARE(profile.error().code, ErrorCode::Cancelled);
}

void TestProfileModel::refusals_data()
{
    QTest::addColumn<int>("what");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("says");
    QTest::newRow("device") << 0 << int(ErrorCode::Unsupported) << "tpu:7";
    QTest::newRow("no samples") << 1 << int(ErrorCode::BadInput) << "at least one";
    QTest::newRow("negative samples") << 2 << int(ErrorCode::BadInput) << "-1";
    QTest::newRow("no ranks") << 3 << int(ErrorCode::BadInput) << "0 ranks";
    QTest::newRow("unknown operator") << 4 << int(ErrorCode::Unsupported) << "Frobnicate";
}

void TestProfileModel::refusals()
{
    QFETCH(int, what);
    QFETCH(int, code);
    QFETCH(QString, says);
    ProfileOptions options;
    auto model = perceptron();
    if (what == 0)
        options.device = "tpu:7";
    if (what == 1)
        options.samples.clear();
    if (what == 2)
        options.samples = {-1};
    if (what == 3)
        options.ranks = 0;
    if (what == 4) {
        graph::GraphBuilder builder("odd");
        const TensorId x = builder.input("x", graph::DType::F32, graph::Shape({{1, true}, {4, false}}));
        const TensorId labels = builder.input("labels", graph::DType::I64, graph::Shape({{1, true}}));
        const TensorId odd = builder.activation("odd", graph::DType::F32, graph::Shape({{1, true}, {4, false}}), true);
        builder.addOp("Frobnicate", "odd", "", {x}, {odd}, {});
        const TensorId loss = builder.add("SoftmaxCrossEntropyLoss", {odd, labels});
        builder.loss(loss);
        builder.output(loss);
        auto built = std::move(builder).build();
        QVERIFY2(built.ok(), built.ok() ? "" : built.error().text().c_str());
        model = std::make_shared<const graph::Graph>(std::move(*built));
    }
    NoProgress progress;
    const auto profile = profileModel(model, options, progress);
    QVERIFY(!profile.ok());
    QVERIFY2(QString::fromStdString(profile.error().text()).contains(says), profile.error().text().c_str());
    QCOMPARE(int(profile.error().code), code);
}

void TestProfileModel::sizesOfAPlan()
{
    plan::Plan plan;
    plan.globalBatch = 10;
    plan.microBatches = 4; // 3, 3, 2, 2
    plan::Stage one;
    one.devices = {DeviceId(0)};
    plan::Stage two;
    two.devices = {DeviceId(1), DeviceId(2)}; // 2+1 of 3, 1+1 of 2
    plan.stages = {one, two};
    QCOMPARE(samplesOf(plan), (std::vector<std::int64_t>{1, 2, 3}));
    QCOMPARE(ranksOf(plan), 3);
}

void TestProfileModel::madeUpDataIsInRange()
{
    data::Needs needs;
    needs.kind = data::Needs::Kind::Tokens;
    needs.perSample = 100;
    needs.classes = 7;
    const MadeUpData tokens(needs);
    std::vector<std::int64_t> values(100);
    std::set<std::int64_t> seen;
    for (const std::int64_t sample : {0, 1, 999'999}) {
        tokens.fillInput(sample, values.data());
        seen.insert(values.begin(), values.end());
        tokens.fillLabels(sample, values.data());
        seen.insert(values.begin(), values.end());
    }
    QCOMPARE(*seen.begin(), std::int64_t{0});
    QCOMPARE(*seen.rbegin(), std::int64_t{6});
    needs.kind = data::Needs::Kind::Features;
    const MadeUpData features(needs);
    std::vector<float> numbers(100);
    features.fillInput(5, numbers.data());
    QVERIFY(std::ranges::all_of(numbers, [](float v) { return v >= -1 && v <= 1; }));
    QVERIFY(numbers[0] != numbers[1]);
}

/// All pieces together take twice the last-level cache, within what a measurement may take of the memory.
void TestProfileModel::copiesAreInNoCache()
{
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    const auto bytesOf = [](std::int64_t cache, std::int64_t memory, int ranks) {
        return 2 * static_cast<std::int64_t>(profiler::copiedPieces(cache, memory, ranks) * profiler::kCopiedPiece)
            * ranks;
    };
    for (const int ranks : {1, 2, 3, 8})
        for (const std::int64_t cache : {0, 8, 32, 300, 500})
            QVERIFY(bytesOf(cache * kMiB, 64 * 1024 * kMiB, ranks)
                    >= std::max<std::int64_t>(2 * cache, 64 * ranks) * kMiB);
    QCOMPARE(bytesOf(0, 0, 1), 64 * kMiB);
    QCOMPARE(bytesOf(300 * kMiB, 1024 * kMiB, 1), 128 * kMiB); // an eighth of the memory
    QCOMPARE(bytesOf(8192 * kMiB, 64 * 1024 * kMiB, 1), 1024 * kMiB);
}

QTEST_GUILESS_MAIN(TestProfileModel)
#include "tst_profile_model.moc"
