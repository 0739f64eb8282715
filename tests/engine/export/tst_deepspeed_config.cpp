// SPDX-License-Identifier: Apache-2.0
// PLANLOOM_UPDATE_GOLDEN=1 rewrites tests/engine/export/golden; look at the difference before committing it.
#include "configuration_checks.h"

using namespace planloom;
using namespace planloom::testing;

using Kind = plan::LearningRateSchedule::Kind;

class TestDeepSpeedConfig : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void configuration_data()
    {
        QTest::addColumn<Edit>("edit");
        QTest::newRow("replicas") << Edit([](plan::Document &) {});
        QTest::newRow("zero 3, bf16, cosine") << Edit([](plan::Document &document) {
            document.plan.stages[0].zero = 3;
            document.plan.precision = plan::Precision::BFloat16;
            document.plan.optimizer.clipNorm = 1;
            document.plan.optimizer.schedule = {Kind::Cosine, 99, 1000, 0.1};
        });
        QTest::newRow("zero 1, bf16, linear") << Edit([](plan::Document &document) {
            document.plan.stages[0].zero = 1;
            document.plan.precision = plan::Precision::BFloat16;
            document.plan.optimizer.schedule = {Kind::Linear, 3, 100, 0};
        });
        QTest::newRow("sgd, warm-up") << Edit([](plan::Document &document) {
            document.plan.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.5}});
            document.plan.optimizer.schedule.warmupSteps = 4;
        });
    }

    void configuration()
    {
        QFETCH(Edit, edit);
        plan::Document document = uniformPlan({.data = 16, .pipeline = 1, .batch = 128, .microBatches = 4});
        document.plan.optimizer.groups.clear();
        edit(document);
        compareWithGolden(exporting::deepSpeedConfig(document), "deepspeed");
    }

    void refuses_data()
    {
        QTest::addColumn<Asked>("asked");
        QTest::addColumn<Edit>("edit");
        QTest::addColumn<QString>("why");
        const Asked plain{.data = 16, .pipeline = 1, .batch = 128, .microBatches = 4};
        const auto row = [](const char *name, const Asked &asked, const char *why, const Edit &edit) {
            QTest::newRow(name) << asked << edit << why;
        };
        const auto schedule = [](Kind kind, std::int64_t warmup, std::int64_t total, double minimum) {
            return Edit([=](plan::Document &document) {
                document.plan.optimizer.schedule = {kind, warmup, total, minimum};
            });
        };
        row("pipeline", {.data = 8, .pipeline = 2}, "a pipeline of 2 stages", [](plan::Document &) {});
        row("tensors", {.data = 8, .tensor = 2, .pipeline = 1}, "splits tensors over 2 devices",
            [](plan::Document &) {});
        row("recompute", plain, "recomputes ('layers')",
            [](plan::Document &document) { document.plan.stages[0].recompute = plan::Recompute::Layers; });
        row("gpipe", plain, "in another order (gpipe)",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::GPipe; });
        row("groups", plain, "separate settings for parameters 'rank<2'", [](plan::Document &document) {
            document.plan.optimizer.groups = {{"rank<2", 0, 1}};
        });
        row("shares", plain, "unequal shares", [](plan::Document &document) {
            document.plan.stages[0].replicaShares.assign(16, 0.9 / 15);
            document.plan.stages[0].replicaShares[0] = 0.1;
        });
        row("uneven", plain, "does not divide evenly",
            [](plan::Document &document) { document.plan.globalBatch = 130; });
        row("short warm-up", plain, "warms up for 1 steps", schedule(Kind::Constant, 1, 0, 0));
        row("no warm-up", plain, "warms up for 0 steps", schedule(Kind::Cosine, 0, 100, 0));
        row("no end", plain, "must know which that is", schedule(Kind::Cosine, 10, 0, 0));
        row("a line to a tenth", plain, "falls in a line to 0.1", schedule(Kind::Linear, 10, 100, 0.1));
    }

    void refuses()
    {
        QFETCH(Asked, asked);
        QFETCH(Edit, edit);
        QFETCH(QString, why);
        plan::Document document = uniformPlan(asked);
        document.plan.optimizer.groups.clear();
        edit(document);
        compareWithRefusal(exporting::deepSpeedConfig(document), why, {"DeepSpeed"});
    }

    /// It is about replicas only: any model will do.
    void anyModel()
    {
        plan::Document document =
            uniformPlan({.model = "zoo:mlp", .data = 8, .pipeline = 1, .batch = 32, .microBatches = 2, .blocks = {1}});
        document.plan.optimizer.groups.clear();
        QVERIFY(exporting::deepSpeedConfig(document).ok());
    }
};

QTEST_GUILESS_MAIN(TestDeepSpeedConfig)
#include "tst_deepspeed_config.moc"
