// SPDX-License-Identifier: Apache-2.0
// Losses of all kinds on real data: what PyTorch 1.13 saw (tests/golden/losses/export.py), on one rank and on several.
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/graph/gradients/loss.h"
#include "engine/import/import.h"
#include "tests/executor/runtime/one_rank.h"
#include "tests/executor/runtime/tiny_training.h"

#include <QTest>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace planloom;

namespace {

constexpr double kTolerance = 1e-4;

/// A model of tests/golden/losses with its samples, in PyTorch's order.
struct Golden {
    std::string folder;
    nlohmann::json expected;
    import::Model model;
    data::Needs needs;
    std::unique_ptr<data::DataSet> data;

    [[nodiscard]] std::vector<double> losses() const { return expected["losses"].get<std::vector<double>>(); }
    [[nodiscard]] plan::Optimizer optimizer() const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("adamw");
        optimizer.learningRate = expected["optimizer"]["learning_rate"];
        optimizer.weightDecay = expected["optimizer"]["weight_decay"];
        return optimizer;
    }
};

Result<Golden> goldenOf(const std::string &name)
{
    Golden golden;
    golden.folder = PLANLOOM_SOURCE_DIR "/tests/golden/losses/" + name;
    const auto text = readFile(golden.folder + "/expected.json");
    if (!text)
        return text.error();
    golden.expected = nlohmann::json::parse(*text);
    import::ModelOptions options;
    options.loss = golden.expected["loss"].get<std::vector<std::string>>();
    auto model = import::loadModel(golden.folder + "/model.onnx", options);
    if (!model)
        return model.error();
    golden.model = *std::move(model);
    auto needs = data::needsOf(*golden.model.graph);
    if (!needs)
        return needs.error();
    golden.needs = *needs;
    auto data = data::openDataSet(golden.folder + "/data", *needs);
    if (!data)
        return data.error();
    golden.data = *std::move(data);
    return golden;
}

/// Trains in @p layout with one thread per rank.
test::Outcome trainedAs(const Golden &golden, test::Layout layout, std::int64_t seed)
{
    layout.globalBatch = golden.expected["batch"];
    const plan::Subject subject = plan::makeSubject(golden.model.graph, test::cpus(4), nullptr, golden.model.source);
    const plan::Plan plan = test::planOf(subject, layout, golden.optimizer());
    const auto program = compile::compilePlan(plan, subject);
    if (!program) {
        test::Outcome outcome;
        outcome.problem = program.error().text();
        return outcome;
    }
    const test::InOrder inOrder(*golden.data, seed);
    const runtime::Feed feed{&inOrder, golden.needs, data::SampleOrder(inOrder.samples(), seed, 0)};
    test::Training how;
    how.steps = static_cast<std::int64_t>(golden.losses().size());
    how.seed = seed;
    how.modelFolder = golden.folder;
    return test::train(*program, subject, plan.optimizer, feed, how);
}

} // namespace

class TestLosses : public QObject {
    Q_OBJECT

private slots:
    void needs_data()
    {
        QTest::addColumn<QStringList>("targets");
        QTest::newRow("unet") << QStringList{"labels int64 [N, 16, 16]: 0 to 10, -100 does not count"};
        QTest::newRow("regression") << QStringList{"targets float32 [N, 1]"};
        QTest::newRow("detector") << QStringList{"digit.labels int64 [N]: 0 to 9, -100 does not count",
                                                 "box.targets float32 [N, 4]", "box.mask bool [N, 4]: true counts",
                                                 "rows.targets float32 [N, 16]: 0 to 1"};
        QTest::newRow("own") << QStringList{"value float32 [N, 1]", "digit int64 [N]: 0 to 9, -100 does not count"};
        QTest::newRow("own_pixels") << QStringList{"ink int64 [N, 8, 8]: 0 to 2, -100 does not count",
                                                   "digit int64 [N]: 0 to 9, -100 does not count",
                                                   "rows float32 [N, 8]"};
        QTest::newRow("denoise") << QStringList{"targets float32 [N, 1, 8, 8]"};
    }
    void needs()
    {
        QFETCH(QStringList, targets);
        const auto golden = goldenOf(QTest::currentDataTag());
        QVERIFY2(golden.ok(), golden ? "" : golden.error().text().c_str());
        QStringList texts;
        for (const std::string &text : data::targetTexts(*golden->model.graph))
            texts << QString::fromStdString(text);
        QCOMPARE(texts, targets);
        const Status trainable = graph::checkTrainable(*golden->model.graph);
        QVERIFY2(trainable.ok(), trainable ? "" : trainable.error().text().c_str());
    }

    void asInPyTorch_data()
    {
        QTest::addColumn<test::Layout>("layout");
        const test::StageLayout one;
        const test::StageLayout two{{0.5, 0.5}};
        for (const char *name : {"unet", "regression", "detector", "own", "own_pixels", "denoise"}) {
            QTest::addRow("%s", name) << test::Layout{};
            QTest::addRow("%s, 2 data-parallel", name) << test::Layout{{two}, 8, 1};
            QTest::addRow("%s, 2 stages", name) << test::Layout{{one, one}, 8, 2};
            QTest::addRow("%s, 2 stages x 2", name) << test::Layout{{two, two}, 8, 2};
        }
    }
    void asInPyTorch()
    {
        QFETCH(test::Layout, layout);
        const QString name = QString(QTest::currentDataTag()).section(',', 0, 0);
        const auto golden = goldenOf(name.toStdString());
        QVERIFY2(golden.ok(), golden ? "" : golden.error().text().c_str());
        const std::vector<double> losses = golden->losses();
        QCOMPARE(losses.size(), std::size_t{10});
        const std::string wrong = test::differs(trainedAs(*golden, layout, 1), losses, kTolerance);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

    /// Summands that files spell out are named; others are said to be there.
    void summands()
    {
        const auto own = goldenOf("own");
        const auto pixels = goldenOf("own_pixels");
        QVERIFY(own.ok() && pixels.ok());
        const graph::LossTerms known = graph::lossTerms(*own->model.graph);
        QVERIFY(known.whole);
        QCOMPARE(known.terms.size(), std::size_t{2});
        QCOMPARE(known.terms[1].type, std::string("MeanSquaredErrorLoss"));
        QCOMPARE(own->model.graph->tensor(known.terms[1].target).name, std::string("value"));
        const graph::LossTerms some = graph::lossTerms(*pixels->model.graph);
        QVERIFY(!some.whole);
        QCOMPARE(some.terms.size(), std::size_t{2});
    }

    /// Each device compares half of the rows of an image: the parts of the loss are added up.
    void imagesInParts()
    {
        const auto golden = goldenOf("denoise");
        QVERIFY(golden.ok());
        const plan::Subject subject =
            plan::makeSubject(golden->model.graph, test::cpus(2), nullptr, golden->model.source);
        plan::Plan plan = test::planOf(subject, {{{{0.5, 0.5}}}, 8, 1}, golden->optimizer());
        plan.stages[0].mesh = {1, 2};
        plan.stages[0].replicaShares.clear();
        plan.stages[0].shardings = {{"clean", "B,S(2)"}};
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY2(program.ok(), program ? "" : program.error().text().c_str());
        const auto ops = program->bodies.front().training.graph.ops();
        QVERIFY(std::ranges::any_of(ops, [](const graph::Op &op) {
            return op.traits().loss && op.number("share", 1) == 0.5;
        }));
        const test::InOrder inOrder(*golden->data, 1);
        const runtime::Feed feed{&inOrder, golden->needs, data::SampleOrder(inOrder.samples(), 1, 0)};
        test::Training how;
        how.steps = 10;
        how.modelFolder = golden->folder;
        const std::string wrong =
            test::differs(test::train(*program, subject, plan.optimizer, feed, how), golden->losses(), kTolerance);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }

    /// The last column of a table, as values.
    void digitsAsNumbers()
    {
        const auto golden = goldenOf("regression");
        QVERIFY(golden.ok());
        QCOMPARE(golden->needs.kind, data::Needs::Kind::Features);
        const auto table = data::openDataSet(PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz", golden->needs);
        QVERIFY2(table.ok(), table ? "" : table.error().text().c_str());
        test::OneRank::Options options;
        options.samples = 64;
        options.optimizer = golden->optimizer();
        options.modelFolder = golden->folder;
        const auto rank = test::OneRank::make(golden->model.graph, **table, options);
        QVERIFY2(rank.ok(), rank ? "" : rank.error().text().c_str());
        double last = 0;
        const double first = (*rank)->step();
        for (int step = 0; step < 300; ++step)
            last = (*rank)->step();
        QVERIFY2(first > 15 && last < 5, qPrintable(QString("%1 -> %2").arg(first).arg(last)));
    }
};

QTEST_GUILESS_MAIN(TestLosses)
#include "tst_losses.moc"
