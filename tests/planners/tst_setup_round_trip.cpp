// SPDX-License-Identifier: Apache-2.0
// An exported configuration of another program is imported as the same plan.
#include "engine/export/export.h"
#include "engine/import/import.h"
#include "engine/import/setup/setup.h"
#include "planners/manual/from_setup.h"
#include "planner_helpers.h"

#include <QTest>

using namespace planloom;
using namespace planloom::testing;

namespace {

using Kind = plan::LearningRateSchedule::Kind;
using Export = Result<exporting::Configuration> (*)(const plan::Document &);

constexpr const char *kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 64, "max_position_embeddings": 32})";

import::Model modelOf(const std::string &name){
    return name == "llama" ? must(import::readHuggingFaceConfig(kLlama, "config.json")) : must(import::loadModel(name));
} // namespace

planners::Problem problemOf(const std::string &model, const std::string &cluster, std::int64_t batch,
                            std::int64_t microBatch)
{
    planners::Problem problem = testing::problemOf(modelOf(model), must(cluster::preset(cluster)), batch);
    problem.microBatch = microBatch;
    return problem;
}

/// The plan that @p file stands for, on the problem's model and cluster.
planners::PlanReport imported(const std::string &file, const planners::Problem &problem,
                              const planners::Options &own = {})
{
    const auto setup = must(import::readSetup(file, "setup"));
    const auto request = must(planners::manual::requestFrom(setup, problem.subject, own));
    return planned(request.problem, "manual", request.options);
}

/// Cuts a model of 8 blocks (layers 1 to 8) into stages.
std::string cutsOf(std::mt19937 &random, int stages, bool even)
{
    std::string text;
    int layer = 1;
    for (int s = 0; s + 1 < stages; ++s) {
        layer += even ? 8 / stages : std::uniform_int_distribution(1, 8 - stages + 2 - layer + s)(random);
        text += (s == 0 ? "" : ",") + std::to_string(layer);
    }
    return text;
}

template <class T>
T pick(std::mt19937 &random, std::initializer_list<T> values)
{
    return *(values.begin() + std::uniform_int_distribution<int>(0, static_cast<int>(values.size()) - 1)(random));
}

struct Drawn {
    planners::Problem problem;
    planners::Options options;
};

Drawn draw(std::mt19937 &random)
{
    const int tensor = pick(random, {1, 2});
    const int pipeline = pick(random, {1, 2, 4});
    const int data = 8 / tensor / pipeline;
    const int microBatches = pick(random, {1, 4, 8});
    const int each = pick(random, {1, 2, 3});
    Drawn drawn{problemOf("llama", "h100-8", std::int64_t{each} * data * microBatches, each), {}};
    drawn.options = {{"data", std::to_string(data)},
                     {"tensor", std::to_string(tensor)},
                     {"pipeline", std::to_string(pipeline)}};
    if (tensor > 1) {
        drawn.options["vocabulary"] = "on";
        drawn.options["sequence"] = pick(random, {"on", "off"});
    }
    const int chunks = pipeline > 1 ? pick(random, {1, 1, 2}) : 1;
    if (chunks > 1)
        drawn.options["interleave"] = std::to_string(chunks);
    if (pipeline > 1)
        drawn.options["cuts"] = cutsOf(random, pipeline * chunks, chunks > 1 || pick(random, {true, false}));
    if (chunks == 1 && pipeline > 1 && microBatches > 1) // of one micro-batch all orders are the same
        drawn.options["schedule"] = pick(random, {"1f1b", "1f1b", "gpipe"});
    drawn.options["recompute"] = pick(random, {"never", "never", "selective", "layers", "always"});
    if (pipeline * chunks == 8) // of one block a stage, whole stages are layers
        drawn.options["recompute"] = "layers";
    planners::Problem &problem = drawn.problem;
    problem.zero = pick(random, {0, 0, 1, 2, 3});
    problem.precision = pick(random, {plan::Precision::Float32, plan::Precision::BFloat16});
    plan::Optimizer &optimizer = problem.optimizer;
    const std::string_view rule = pick(random, {"adamw", "adamw", "sgd"});
    optimizer.rule = *update::ConfiguredRule::named(rule);
    if (rule == "sgd")
        optimizer.rule = *update::ConfiguredRule::named(rule, {{"momentum", 0.5}});
    optimizer.weightDecay = pick(random, {0.0, 0.25});
    optimizer.clipNorm = pick(random, {0.0, 1.0, 0.5});
    if (optimizer.weightDecay > 0 && pick(random, {true, false}))
        optimizer.groups = {{"rank<2", 0, 1}};
    optimizer.learningRate = pick(random, {1e-3, 0.5});
    optimizer.schedule.kind = pick(random, {Kind::Constant, Kind::Linear, Kind::Cosine});
    optimizer.schedule.warmupSteps = pick(random, {0, 3, 7});
    if (optimizer.schedule.kind != Kind::Constant) {
        optimizer.schedule.totalSteps = 64;
        optimizer.schedule.minimum = pick(random, {0.0, 0.125});
    }
    return drawn;
}

QString join(const std::vector<std::string> &lines)
{
    QStringList list;
    for (const std::string &line : lines)
        list << QString::fromStdString(line);
    return list.join("\n");
}

} // namespace

class TestSetupRoundTrip : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void randomPlans_data()
    {
        QTest::addColumn<int>("format");
        QTest::newRow("megatron") << 0;
        QTest::newRow("deepspeed") << 1;
        QTest::newRow("torchtitan") << 2;
    }

    /// Plans are drawn at random; expressible ones come back.
    void randomPlans()
    {
        QFETCH(int, format);
        const Export exports[] = {exporting::megatronArguments, exporting::deepSpeedConfig,
                                  exporting::torchtitanConfig};
        std::mt19937 random(20 + static_cast<unsigned>(format));
        int compared = 0;
        for (int i = 0; i < 3000 && compared < 10; ++i) {
            const Drawn drawn = draw(random);
            NoProgress progress;
            const auto report = must(planners::findPlanner("manual"))->plan(drawn.problem, drawn.options, progress);
            if (!report)
                continue; // micro-batches without samples and the like
            const plan::Document document{report->plan, drawn.problem.subject};
            const auto made = exports[format](document);
            if (!made)
                continue;
            ++compared;
            plan::Plan again = imported(made->text, drawn.problem).plan;
            again.planner = report->plan.planner; // options are said in other words
            again.estimate = report->plan.estimate;
            again.predictedJson = report->plan.predictedJson;
            QVERIFY2(plan::difference(report->plan, again).empty(),
                     qPrintable(join(plan::difference(report->plan, again)) + "\n"
                                + QString::fromStdString(made->text)));
        }
        QCOMPARE(compared, 10);
    }

    void plansOnAPart_data()
    {
        QTest::addColumn<int>("format");
        QTest::addColumn<QString>("devices"); // of the two replicas of each of two stages, or of four replicas
        const std::pair<const char *, int> formats[] = {{"megatron", 0}, {"deepspeed", 1}, {"torchtitan", 2}};
        for (const auto &[name, format] : formats) {
            QTest::addRow("%s, the first four", name) << format << "0-3";
            QTest::addRow("%s, in the second node", name) << format << "10-13";
            QTest::addRow("%s, half of each node, the last first", name) << format << "14-15,0-1";
            QTest::addRow("%s, backwards", name) << format << "3,2,1,0";
        }
    }

    /// A plan on four of sixteen devices comes back on these four, by nothing but the text of the file.
    void plansOnAPart()
    {
        QFETCH(int, format);
        QFETCH(QString, devices);
        const Export exports[] = {exporting::megatronArguments, exporting::deepSpeedConfig,
                                  exporting::torchtitanConfig};
        const planners::Problem problem = [&] {
            planners::Problem made = problemOf("llama", "h100-16", 64, 1);
            made.zero = format == 2 ? 3 : 0;
            made.optimizer.weightDecay = format == 0 ? 0 : 0.25;
            return made;
        }();
        const bool pipeline = format != 1; // DeepSpeed's are made in code
        const auto report = planned(
            problem, "manual",
            {{"data", pipeline ? "2" : "4"}, {"pipeline", pipeline ? "2" : "1"}, {"devices", devices.toStdString()}});
        const plan::Document document{report.plan, problem.subject};
        const auto made = must(exports[format](document));
        plan::Plan again = imported(made.text, problem).plan;
        again.planner = report.plan.planner;
        again.estimate = report.plan.estimate;
        again.predictedJson = report.plan.predictedJson;
        QVERIFY2(plan::difference(report.plan, again).empty(),
                 qPrintable(join(plan::difference(report.plan, again)) + "\n" + QString::fromStdString(made.text)));
    }

    /// On a cluster of another size, with degrees of the user's or after an edit, the first devices are taken, with a
    /// note; devices of the user's come first.
    void placementsThatDoNotFit()
    {
        const std::string file = "--num-layers 12 --hidden-size 768 --micro-batch-size 1 --global-batch-size 64 --lr "
                                 "1e-3 --lr-decay-style constant --pipeline-model-parallel-size 4 --wandb-exp-name ";
        const auto setup = must(import::readSetup(file + "planloom.devices:8-15/16", "setup"));
        const planners::Problem problem = problemOf("zoo:gpt2", "h100-16", 64, 1);
        const auto request = must(planners::manual::requestFrom(setup, problem.subject));
        QCOMPARE(request.options.at("devices"), std::string("8-15"));
        QCOMPARE(request.options.at("data"), std::string("2"));
        QVERIFY(request.notes.empty());
        const auto smaller = must(planners::manual::requestFrom(setup, problemOf("zoo:gpt2", "h100-8", 64, 1).subject));
        QVERIFY(!smaller.options.contains("devices"));
        QCOMPARE(smaller.options.at("data"), std::string("2"));
        QVERIFY2(smaller.notes.at(0).find("devices 8-15 of a cluster of 16") != std::string::npos,
                 smaller.notes.at(0).c_str());
        QVERIFY(
            !must(planners::manual::requestFrom(setup, problem.subject, {{"data", "1"}})).options.contains("devices"));
        const auto own = must(planners::manual::requestFrom(setup, problem.subject, {{"devices", "0-3"}}));
        QCOMPARE(own.options.at("devices"), std::string("0-3"));
        QCOMPARE(own.options.at("data"), std::string("1"));
        const auto edited = must(import::readSetup(file + "planloom.devices:8-14/16", "setup"));
        const auto first = must(planners::manual::requestFrom(edited, problem.subject));
        QVERIFY(!first.options.contains("devices"));
        QVERIFY2(first.notes.at(0).find("do not go with") != std::string::npos, first.notes.at(0).c_str());
    }

    void devices_data()
    {
        QTest::addColumn<QString>("devices");
        QTest::addColumn<QString>("why");
        QTest::newRow("as given") << "8,9"
                                  << "";
        QTest::newRow("the first") << "first"
                                   << "";
        QTest::newRow("too many") << "8-10"
                                  << "option devices names 3 devices, but data=1 x tensor=1 x pipeline=2 are 2";
        QTest::newRow("beyond") << "15-16"
                                << "names device 16, but the last one is 15";
        QTest::newRow("twice") << "8,8"
                               << "names device 8 twice";
        QTest::newRow("no numbers") << "n0:g1"
                                    << "is not a list of device numbers";
    }
    void devices()
    {
        QFETCH(QString, devices);
        QFETCH(QString, why);
        NoProgress progress;
        const auto report =
            must(planners::findPlanner("manual"))
                ->plan(problemOf("llama", "h100-16", 64, 1),
                       {{"data", "1"}, {"pipeline", "2"}, {"devices", devices.toStdString()}}, progress);
        QCOMPARE(report.ok(), why.isEmpty());
        if (report)
            QCOMPARE(report->plan.stages[1].devices, std::vector{DeviceId(devices == "first" ? 1 : 9)});
        else
            QVERIFY2(QString::fromStdString(report.error().message).contains(why), report.error().text().c_str());
    }

    /// Notes have the facts outside of the file, and options override the file.
    void ownOptionsCount()
    {
        const planners::Problem problem = problemOf("zoo:gpt2", "h100-16", 64, 1);
        const std::string file = "--num-layers 12 --hidden-size 768 --micro-batch-size 1 --global-batch-size 64 --lr "
                                 "1e-3 --lr-decay-style constant --pipeline-model-parallel-size 4";
        QCOMPARE(imported(file, problem).plan.stages[0].devices.size(), std::size_t(4));
        const auto fewer = imported(file, problem, {{"data", "2"}});
        QCOMPARE(fewer.plan.stages[0].devices.size(), std::size_t(2));
        QCOMPARE(fewer.plan.microBatches, std::int64_t(32));
        QCOMPARE(fewer.plan.stages[1].firstLayer, std::size_t(4)); // the table, then three blocks a stage
    }

    /// torchtitan's default: the first and the last stage have one block fewer than an even
    /// share.
    void torchtitansOwnStages()
    {
        const auto setup =
            import::readTorchtitanConfig("[parallelism]\npipeline_parallel_degree = 2\n[lr_scheduler]\ndecay_ratio = "
                                         "0\n[activation_checkpoint]\nmode = \"none\"\n",
                                         "setup");
        QVERIFY(setup.ok());
        const planners::Problem problem = problemOf("llama", "h100-16", 64, 1);
        const auto request = must(planners::manual::requestFrom(*setup, problem.subject));
        QCOMPARE(request.options.at("cuts"), std::string("5")); // (8 + 2) / 2 - 1 blocks, behind the table
        QCOMPARE(request.options.at("data"), std::string("8"));
        QCOMPARE(request.problem.globalBatch, std::int64_t(64));
        QCOMPARE(*request.problem.microBatch, std::int64_t(1));
    }

    void refuses_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("file");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("why");
        const QString args = "--micro-batch-size 1 --lr 1\n";
        QTest::newRow("another depth") << "zoo:gpt2" << args + "--num-layers 24" << 2
                                       << "--num-layers is 24, but model gpt2 has 12 blocks";
        QTest::newRow("another width") << "zoo:gpt2" << args + "--num-layers 12\n--hidden-size 512" << 3
                                       << "--hidden-size is 512, but model gpt2 has 768";
        QTest::newRow("no transformer") << "zoo:mlp" << args + "--num-layers 12" << 0
                                        << "is about a transformer, but model mlp";
        QTest::newRow("stages") << "zoo:gpt2" << args + "--num-layers 12 --pipeline-model-parallel-size 8" << 0
                                << "12 blocks do not divide evenly into 8 stages";
        QTest::newRow("devices") << "zoo:gpt2" << args + "--num-layers 12 --pipeline-model-parallel-size 3" << 0
                                 << "do not divide the 16 devices";
        QTest::newRow("too many") << "zoo:gpt2" << args + "--num-layers 12 --nproc-per-node 32" << 0
                                  << "more than the 16 devices of cluster";
        QTest::newRow("batch") << "zoo:gpt2" << args + "--num-layers 12 --global-batch-size 24" << 0
                               << "a batch of 24 is not a multiple of 1 samples on each of 16 replicas";
    }

    void refuses()
    {
        QFETCH(QString, model);
        QFETCH(QString, file);
        QFETCH(int, line);
        QFETCH(QString, why);
        const planners::Problem problem = problemOf(model.toStdString(), "h100-16", 64, 1);
        const auto request =
            planners::manual::requestFrom(must(import::readSetup(file.toStdString(), "setup")), problem.subject);
        QVERIFY(!request.ok());
        QVERIFY2(QString::fromStdString(request.error().message).contains(why), request.error().text().c_str());
        QCOMPARE(request.error().file, std::string("setup"));
        QCOMPARE(request.error().line, line);
    }

    void cuts_data()
    {
        QTest::addColumn<QString>("cuts");
        QTest::addColumn<QString>("why");
        QTest::newRow("as given") << "3,5"
                                  << "";
        QTest::newRow("too few") << "3"
                                 << "cuts=3 makes 2 stages, but there are 3";
        QTest::newRow("falling") << "5,3"
                                 << "does not rise";
        QTest::newRow("too far") << "3,10"
                                 << "goes beyond the model's 10 layers";
        QTest::newRow("no numbers") << "a,b"
                                    << "is not a list of whole numbers";
    }

    void cuts()
    {
        QFETCH(QString, cuts);
        QFETCH(QString, why);
        NoProgress progress;
        const auto report = must(planners::findPlanner("manual"))
                                ->plan(problemOf("llama", "h100-16", 64, 1),
                                       {{"pipeline", "3"}, {"cuts", cuts.toStdString()}}, progress);
        if (why.isEmpty()) {
            QVERIFY2(report.ok(), report.ok() ? "" : report.error().text().c_str());
            QCOMPARE(report->plan.stages[1].firstLayer, std::size_t(3));
            QCOMPARE(report->plan.stages[2].firstLayer, std::size_t(5));
            return;
        }
        QVERIFY(!report.ok());
        QVERIFY2(QString::fromStdString(report.error().message).contains(why), report.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(TestSetupRoundTrip)
#include "planners/registry.h"
#include "tst_setup_round_trip.moc"
