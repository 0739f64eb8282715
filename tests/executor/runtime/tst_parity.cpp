// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "executor/runtime/tiny_training.h"
#include "tests/pass_steps.h"

#include <QTest>

#include <cmath>
#include <map>

using namespace planloom;
using namespace planloom::test;

/// A tiny GPT trained in many layouts: what counts is that the layout does not show in the losses.
class TestParity : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void layoutsAgree_data();
    void layoutsAgree();
    void sameSeedSameBits();
    void sgdLayoutsAgree();
    void zeroBubbleIsOneForwardOneBackwardToTheBit();
    void customOrderWithWeightPasses();
    void stopsTogether();
    void evaluationIsTheSameInEveryLayout();
    void evaluationHasTheModelsLoss();
    void digitsAreLearned();

private:
    void compareWithOneRank(const Layout &layout, bool tied, const plan::Optimizer &optimizer);
    Outcome run(const plan::Subject &subject, const Layout &layout, const plan::Optimizer &optimizer,
                const Training &how, double holdout = 0)
    {
        return run(subject, planOf(subject, layout, optimizer), how, holdout);
    }
    Outcome run(const plan::Subject &subject, const plan::Plan &plan, const Training &how, double holdout = 0);

    TextFile m_text{{"the ", "plan ", "weaves ", "a ", "stage ", "of ", "micro ", "batches\n"}};
    plan::Subject m_tied;
    plan::Subject m_untied;
    std::map<std::string, std::vector<double>> m_oneRank;
};

void TestParity::initTestCase()
{
    m_tied = tinySubject(tinyConfig(2, 2), cpus(8));
    m_untied = tinySubject(tinyConfig(2, 2, false), cpus(8));
    QVERIFY(m_tied.graph && m_untied.graph && m_tied.cluster);
    QVERIFY(m_tied.layers().size() >= 4);
}

Outcome TestParity::run(const plan::Subject &subject, const plan::Plan &plan, const Training &how, double holdout)
{
    return trainOn(m_text.path(), subject, plan, how, holdout, [](const program::Program &program, Outcome &outcome) {
        for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
            const program::Rank &planned = program.ranks[rank];
            std::map<std::pair<std::int32_t, std::int32_t>, int> seen;
            for (const trace::Record &record : outcome.records[rank])
                ++seen[{record.step, record.task}];
            for (std::size_t step = 0; step < outcome.losses.size(); ++step)
                for (const TaskId task : planned.tasks)
                    if (seen[{static_cast<std::int32_t>(step), task.value}] != 1)
                        outcome.problem = "task " + program::idOf(program.task(task))
                            + " was not recorded once in step " + std::to_string(step);
            if (outcome.records[rank].size() != planned.tasks.size() * outcome.losses.size())
                outcome.problem = "rank " + std::to_string(rank) + " recorded more than its tasks";
        }
    });
}

void TestParity::compareWithOneRank(const Layout &layout, bool tied, const plan::Optimizer &optimizer)
{
    const plan::Subject &subject = tied ? m_tied : m_untied;
    std::vector<double> &expected =
        m_oneRank[std::string(optimizer.rule.name()) + (tied ? "tied" : "untied") + std::to_string(layout.globalBatch)];
    if (expected.empty()) {
        Layout one;
        one.globalBatch = layout.globalBatch;
        const Outcome outcome = run(subject, one, optimizer, {});
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        expected = outcome.losses;
        QCOMPARE(expected.size(), std::size_t{5});
        QVERIFY(std::fabs(expected.front() - std::log(256.0)) < 0.3);
        QVERIFY(expected.back() < expected.front());
    }
    const Outcome outcome = run(subject, layout, optimizer, {});
    const std::string wrong = differs(outcome, expected);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QCOMPARE(outcome.dropped, 0);
}

void TestParity::layoutsAgree_data()
{
    QTest::addColumn<Layout>("layout");
    QTest::addColumn<bool>("tied");
    using plan::ScheduleKind;
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    const StageLayout again{{1.0}, plan::Recompute::Full};
    const StageLayout twoAgain{{0.5, 0.5}, plan::Recompute::Full};
    const StageLayout layers{{0.5, 0.5}, plan::Recompute::Layers};
    const StageLayout attention{{0.5, 0.5}, plan::Recompute::Selective};
    const auto row = [](const char *name, const Layout &layout, bool tied = true) {
        QTest::newRow(name) << layout << tied;
    };
    row("1 rank, 4 micro-batches", {{one}, 8, 4});
    row("1 rank, unequal micro-batches", {{one}, 8, 3});
    row("1 rank, recompute", {{again}, 8, 4});
    row("2 data-parallel", {{two}, 8, 1});
    row("2 data-parallel, 4 micro-batches", {{two}, 8, 4});
    row("3 unequal replicas", {{{{0.5, 0.25, 0.25}}}, 8, 2});
    row("2 stages", {{one, one}, 8, 4});
    row("2 stages, untied", {{one, one}, 8, 4}, false);
    row("4 stages", {{one, one, one, one}, 8, 8});
    row("2 stages x 2", {{two, two}, 8, 4});
    row("2 stages, unequal replicas", {{{{0.7, 0.3}}, {{0.4, 0.6}}}, 12, 3});
    row("3 stages, 1:2:1", {{one, two, one}, 8, 4});
    row("2 stages x 2, recompute", {{twoAgain, twoAgain}, 8, 4});
    row("2 stages x 2, layers recompute", {{layers, layers}, 8, 4});
    row("2 stages x 2, attention recomputes", {{attention, attention}, 8, 4});
    row("2 data-parallel, layers recompute", {{layers}, 8, 4});
    row("recompute in one stage", {{again, one}, 8, 4});
    const std::pair<const char *, ScheduleKind> schedules[] = {{"gpipe", ScheduleKind::GPipe},
                                                               {"1f1b", ScheduleKind::OneF1B},
                                                               {"dapple-a", ScheduleKind::DappleA},
                                                               {"dapple-b", ScheduleKind::DappleB}};
    for (const auto &[name, kind] : schedules) {
        QTest::addRow("%s", name) << Layout{{one, one, one}, 8, 8, kind} << true;
        QTest::addRow("%s, recompute", name) << Layout{{again, again, again}, 8, 8, kind} << true;
        QTest::addRow("%s, 2 x 2", name) << Layout{{two, two}, 8, 4, kind} << true;
        QTest::addRow("%s, untied 2 x 2", name) << Layout{{two, two}, 8, 4, kind} << false;
    }
    const ScheduleKind turns = ScheduleKind::Interleaved1F1B;
    row("interleaved, 2 devices x 2 stages", {{one, one, one, one}, 8, 4, turns, {0, 1, 0, 1}});
    row("interleaved, 2 devices x 2 stages, untied", {{one, one, one, one}, 8, 4, turns, {0, 1, 0, 1}}, false);
    row("interleaved, 2 x 2 devices x 2 stages", {{two, two, two, two}, 8, 4, turns, {0, 1, 0, 1}});
    row("interleaved, unequal replicas",
        {{{{0.7, 0.3}}, {{0.4, 0.6}}, {{0.7, 0.3}}, {{0.4, 0.6}}}, 12, 3, turns, {0, 1, 0, 1}});
    row("interleaved, recompute", {{again, again, again, again}, 8, 8, turns, {0, 1, 0, 1}});
    row("gpipe, 2 devices x 2 stages", {{one, one, one, one}, 8, 4, ScheduleKind::GPipe, {0, 1, 0, 1}});
    row("2 stages on one device", {{one, one}, 8, 4, ScheduleKind::GPipe, {0, 0}});
    row("2 stages on 2 devices", {{two, two}, 8, 4, turns, {0, 0}});
    // First and last stage, which share the token table, on one device; the middle ones hand over within the other.
    row("there and back, tied on one device", {{one, one, one, one}, 8, 4, ScheduleKind::GPipe, {0, 1, 1, 0}});
    row("there and back, 2 x 2 devices", {{two, two, two, two}, 8, 4, ScheduleKind::GPipe, {0, 1, 1, 0}});
    row("there and back, recompute", {{again, again, again, again}, 8, 4, ScheduleKind::GPipe, {0, 1, 1, 0}});
    const ScheduleKind cut = ScheduleKind::ZeroBubbleH1;
    row("zb-h1, 1 stage", {{one}, 8, 4, cut});
    row("zb-h1, 2 stages", {{one, one}, 8, 4, cut});
    row("zb-h1, 2 stages, untied", {{one, one}, 8, 4, cut}, false);
    row("zb-h1, 4 stages", {{one, one, one, one}, 8, 8, cut});
    row("zb-h1, 2 stages x 2", {{two, two}, 8, 4, cut});
    row("zb-h1, recompute", {{again, again, again}, 8, 8, cut});
}

void TestParity::layoutsAgree()
{
    QFETCH(Layout, layout);
    QFETCH(bool, tied);
    plan::Optimizer optimizer;
    optimizer.learningRate = 3e-3;
    compareWithOneRank(layout, tied, optimizer);
}

void TestParity::sgdLayoutsAgree()
{
    plan::Optimizer optimizer;
    optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.9}});
    optimizer.learningRate = 0.1;
    compareWithOneRank({{{{0.5, 0.5}}, {{0.5, 0.5}}}, 8, 4}, true, optimizer);
    optimizer.rule = *update::ConfiguredRule::named("sgd");
    m_oneRank.clear();
    compareWithOneRank({{{}, {}}, 8, 4}, true, optimizer);
}

/// Gradients add up over micro-batches in the same order: cutting the backward pass changes no bit.
void TestParity::zeroBubbleIsOneForwardOneBackwardToTheBit()
{
    for (const std::size_t stages : {2, 4}) {
        const std::vector<StageLayout> each(stages);
        const Outcome whole = run(m_tied, {each, 8, 8, plan::ScheduleKind::OneF1B}, {}, {});
        const Outcome cut = run(m_tied, {each, 8, 8, plan::ScheduleKind::ZeroBubbleH1}, {}, {});
        QVERIFY2(whole.problem.empty(), whole.problem.c_str());
        QVERIFY2(cut.problem.empty(), cut.problem.c_str());
        QVERIFY(whole.losses == cut.losses);
    }
}

/// Two places with two stages each, there and back, where one stage of the four cuts its backward passes.
void TestParity::customOrderWithWeightPasses()
{
    plan::Plan plan = planOf(m_tied, {{{}, {}, {}, {}}, 8, 2, plan::ScheduleKind::Custom, {0, 1, 1, 0}});
    plan.schedule.order[m_tied.cluster->device(DeviceId(0)).name] =
        passSteps({"s0.F.m0", "s0.F.m1", "s3.F.m0", "s3.B.m0", "s3.F.m1", "s3.B.m1", "s0.B.m0", "s0.B.m1"});
    plan.schedule.order[m_tied.cluster->device(DeviceId(1)).name] = passSteps(
        {"s1.F.m0", "s2.F.m0", "s1.F.m1", "s2.F.m1", "s2.B.m0", "s1.B.m0", "s2.B.m1", "s2.W.m1", "s1.B.m1", "s2.W.m0"});
    const Outcome custom = run(m_tied, plan, {});
    const Outcome one = run(m_tied, {{{}}, 8, 2}, {}, {});
    QVERIFY2(custom.problem.empty(), custom.problem.c_str());
    for (std::size_t step = 0; step < one.losses.size(); ++step)
        QVERIFY(std::fabs(custom.losses[step] - one.losses[step]) <= 1e-4 * one.losses[step]);
}

void TestParity::sameSeedSameBits()
{
    const Layout layout{{{{0.5, 0.5}}, {{0.5, 0.5}}}, 8, 4};
    const Outcome first = run(m_tied, layout, {}, {});
    const Outcome second = run(m_tied, layout, {}, {});
    QVERIFY2(first.problem.empty(), first.problem.c_str());
    QVERIFY(first.losses == second.losses);
    Training other;
    other.seed = 2;
    QVERIFY(run(m_tied, layout, {}, other).losses != first.losses);
}

void TestParity::stopsTogether()
{
    Training how;
    how.steps = 1000000;
    how.stopAfter = 3;
    const Outcome outcome = run(m_tied, {{{{0.5, 0.5}}, {}}, 8, 4}, {}, how);
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    // The request comes after the agreement on the third step, so the fourth is the last.
    QCOMPARE(outcome.losses.size(), std::size_t{4});
}

void TestParity::evaluationIsTheSameInEveryLayout()
{
    Training how;
    how.steps = 2;
    how.evaluate = true;
    const Outcome one = run(m_tied, {{{}}, 8, 1}, {}, how, 0.1);
    const Outcome many = run(m_tied, {{{{0.5, 0.5}}, {{0.3, 0.7}}}, 8, 2}, {}, how, 0.1);
    QVERIFY2(one.problem.empty(), one.problem.c_str());
    QVERIFY2(many.problem.empty(), many.problem.c_str());
    QCOMPARE(one.evaluation.samples, 25); // a tenth of 4000 / 16
    QCOMPARE(many.evaluation.samples, 25);
    QVERIFY(one.evaluation.loss > 1 && one.evaluation.loss < 6);
    QVERIFY(std::fabs(one.evaluation.loss - many.evaluation.loss) < 1e-3);
    QVERIFY(std::fabs(one.evaluation.accuracy - many.evaluation.accuracy) < 0.01);
}

namespace {

/// Four features against three classes, with an added loss, their cross-entropy.
std::shared_ptr<const graph::Graph> withLoss(const std::string &how)
{
    graph::GraphBuilder builder(how);
    const TensorId x = builder.input("x", graph::DType::F32, graph::Shape({{1, true}, {4, false}}));
    const TensorId labels =
        builder.input("labels", graph::DType::I64, graph::Shape(std::vector<graph::Dim>{{1, true}}));
    const TensorId weight =
        builder.parameter("w", graph::Shape::of({4, 3}), {graph::Initializer::Kind::Normal, 0, 1, nullptr, {}, 0});
    TensorId features = x;
    if (how == "normalised") { // running statistics that stay 0 and 1: nothing happens, but in training
        const auto all = [](graph::Initializer::Kind kind) { return graph::Initializer{kind, 0, 0, nullptr, {}, 0}; };
        const graph::Shape four = graph::Shape::of({4});
        features = builder.add("BatchNormalization",
                               {x, builder.parameter("scale", four, all(graph::Initializer::Kind::Ones)),
                                builder.parameter("bias", four, all(graph::Initializer::Kind::Zeros)),
                                builder.state("mean", four, all(graph::Initializer::Kind::Zeros)),
                                builder.state("variance", four, all(graph::Initializer::Kind::Ones))},
                               {{"epsilon", 1e-9}, {"momentum", 1.0}, {"training_mode", std::int64_t{1}}});
    }
    const TensorId logits = builder.add("MatMul", {features, weight});
    TensorId loss;
    if (how == "logarithms") { // the same by other operators
        const TensorId picked =
            builder.add("GatherElements",
                        {builder.add("LogSoftmax", {logits}, {{"axis", std::int64_t{1}}}),
                         builder.add("Unsqueeze", {labels}, {{"axes", std::vector<std::int64_t>{1}}})},
                        {{"axis", std::int64_t{1}}});
        loss = builder.add("Neg",
                           {builder.add("ReduceMean", {picked},
                                        {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}})});
    } else {
        loss = builder.add("SoftmaxCrossEntropyLoss", {logits, labels},
                           {{"ignore_index", std::int64_t{how == "ignored" ? 0 : -100}}});
    }
    if (how == "twice")
        loss = builder.add("Add", {loss, loss});
    builder.output(loss);
    builder.loss(loss);
    auto graph = std::move(builder).build();
    return graph ? std::make_shared<const graph::Graph>(*std::move(graph)) : nullptr;
}

} // namespace

/// The validation set is scored by the training loss.
void TestParity::evaluationHasTheModelsLoss()
{
    QTemporaryDir folder;
    const std::string path = folder.filePath("data.csv").toStdString();
    std::string rows;
    for (int i = 0; i < 40; ++i)
        rows += std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 3) + ",1,"
            + std::to_string(i % 3) + "\n";
    QVERIFY(writeFileAtomically(path, rows).ok());
    plan::Optimizer still;
    still.learningRate = 0;
    still.weightDecay = 0;
    const auto evaluated = [&](const std::string &how, const Layout &layout) {
        const plan::Subject subject = plan::makeSubject(withLoss(how), cpus(8), nullptr, "zoo:" + how);
        Training training;
        training.steps = 1;
        training.evaluate = true;
        const Outcome outcome = trainOn(path, subject, planOf(subject, layout, still), training, 0.2);
        QTest::qVerify(outcome.problem.empty(), "outcome", outcome.problem.c_str(), __FILE__, __LINE__);
        return outcome.evaluation;
    };
    for (const Layout &layout : {Layout{{{}}, 8, 2}, Layout{{{{0.5, 0.5}}}, 8, 1}}) {
        const run::Validation plain = evaluated("plain", layout);
        QCOMPARE(plain.samples, 8);
        QVERIFY(plain.loss > 0.1);
        const run::Validation twice = evaluated("twice", layout);
        QVERIFY2(std::fabs(twice.loss - 2 * plain.loss) < 1e-4, qPrintable(QString::number(twice.loss)));
        QCOMPARE(twice.accuracy, plain.accuracy);
        const run::Validation logarithms = evaluated("logarithms", layout);
        QVERIFY2(std::fabs(logarithms.loss - plain.loss) < 1e-4, qPrintable(QString::number(logarithms.loss)));
        QVERIFY(std::isnan(logarithms.accuracy));
        const run::Validation normalised = evaluated("normalised", layout);
        QVERIFY2(std::fabs(normalised.loss - plain.loss) < 1e-4, qPrintable(QString::number(normalised.loss)));
        const run::Validation ignored = evaluated("ignored", layout);
        QVERIFY(std::fabs(ignored.loss - plain.loss) > 1e-3);
    }
}

void TestParity::digitsAreLearned()
{
    auto graph = graph::mlp("digits", {64, 64, 10});
    QVERIFY(graph.ok());
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), cpus(8), nullptr, "zoo:digits");
    QVERIFY(subject.graph != nullptr);
    plan::Optimizer optimizer;
    optimizer.learningRate = 5e-3;
    const Layout layout{{{{0.5, 0.5}}}, 64, 1};
    const auto program = compile::compilePlan(planOf(subject, layout, optimizer), subject);
    QVERIFY2(program.ok(), program.ok() ? "" : program.error().text().c_str());
    const auto needs = data::needsOf(*subject.graph);
    QVERIFY(needs.ok());
    const auto data = data::openDataSet(PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz", *needs);
    QVERIFY(data.ok());
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0.2)};
    Training how;
    how.steps = 400;
    how.evaluate = true;
    const Outcome outcome = train(*program, subject, optimizer, feed, how);
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QCOMPARE(outcome.evaluation.samples, 359);
    QVERIFY2(outcome.evaluation.accuracy >= 0.95, qPrintable(QString::number(outcome.evaluation.accuracy)));
}

QTEST_GUILESS_MAIN(TestParity)
#include "tst_parity.moc"
