// SPDX-License-Identifier: Apache-2.0
// PLANLOOM_UPDATE_GOLDEN=1 rewrites tests/engine/export/golden; look at the difference before committing it.
#include "configuration_checks.h"

using namespace planloom;
using namespace planloom::testing;

class TestMegatronArguments : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void arguments_data()
    {
        QTest::addColumn<Asked>("asked");
        QTest::addColumn<Edit>("edit");
        const Edit nothing = [](plan::Document &) {};
        QTest::newRow("gpt2 over 2 x 4") << Asked{} << nothing;
        QTest::newRow("gpt2 with uneven ends") << Asked{.blocks = {2, 4, 4, 2}} << Edit([](plan::Document &document) {
            for (plan::Stage &stage : document.plan.stages)
                stage.recompute = plan::Recompute::Layers;
            document.plan.precision = plan::Precision::BFloat16;
            document.plan.optimizer.clipNorm = 1;
            document.plan.optimizer.schedule = {plan::LearningRateSchedule::Kind::Cosine, 99, 1000, 0.1};
        });
        QTest::newRow("llama over 2 x 4 x 2")
            << Asked{.model = "llama", .data = 2, .tensor = 4, .pipeline = 2, .sequence = true}
            << Edit([](plan::Document &document) {
                   for (plan::Stage &stage : document.plan.stages) {
                       stage.recompute = plan::Recompute::Selective;
                       stage.zero = 1;
                   }
               });
        QTest::newRow("gpt2 interleaved")
            << Asked{.data = 4, .pipeline = 4, .chunks = 3} << Edit([](plan::Document &document) {
                   document.plan.optimizer = {};
                   document.plan.optimizer.rule = *update::ConfiguredRule::named("sgd", {{"momentum", 0.9}});
                   document.plan.optimizer.weightDecay = 0;
               });
        QTest::newRow("bert-large") << Asked{.model = "zoo:bert-large", .data = 8, .pipeline = 2} << nothing;
        QTest::newRow("gpt-22b as in 2022")
            << Asked{.model = "zoo:gpt-22b-2022",
                     .cluster = "a100-8",
                     .data = 1,
                     .tensor = 8,
                     .pipeline = 1,
                     .batch = 4,
                     .microBatches = 1}
            << Edit([](plan::Document &document) { document.plan.stages[0].recompute = plan::Recompute::Full; });
    }

    void arguments()
    {
        QFETCH(Asked, asked);
        QFETCH(Edit, edit);
        plan::Document document = uniformPlan(asked);
        edit(document);
        compareWithGolden(exporting::megatronArguments(document), "megatron");
    }

    void refuses_data()
    {
        QTest::addColumn<Asked>("asked");
        QTest::addColumn<Edit>("edit");
        QTest::addColumn<QString>("why"); // in the message
        const Asked plain;
        const Asked tensors{.data = 2, .tensor = 2, .pipeline = 4};
        const auto row = [](const char *name, const Asked &asked, const char *why, const Edit &edit) {
            QTest::newRow(name) << asked << edit << why;
        };
        row("no transformer", {.model = "zoo:mlp", .data = 16, .pipeline = 1}, "has no attention",
            [](plan::Document &) {});
        row("a layer profile", {.model = "zoo:bert-48", .data = 16, .pipeline = 1}, "has no attention",
            [](plan::Document &) {});
        row("recurrent", {.model = "zoo:lstm-lm", .data = 16, .pipeline = 1}, "has no attention",
            [](plan::Document &) {});
        row("unequal replicas", plain, "stage 3 ('stage3') has 1 replicas",
            [](plan::Document &document) { document.plan.stages[3].devices.pop_back(); });
        row("unequal shares", plain, "stage 1 ('stage1') take unequal shares", [](plan::Document &document) {
            document.plan.stages[1].replicaShares = {0.75, 0.25};
        });
        row("recompute on one stage", plain, "stage 2 ('stage2') recomputes 'full' and stage 0 'none'",
            [](plan::Document &document) { document.plan.stages[2].recompute = plan::Recompute::Full; });
        row("ZeRO on one stage", plain, "stage 2 ('stage2') has ZeRO level 1",
            [](plan::Document &document) { document.plan.stages[2].zero = 1; });
        row("ZeRO 2", plain, "cuts gradients over the replicas (ZeRO 2)", [](plan::Document &document) {
            for (plan::Stage &stage : document.plan.stages)
                stage.zero = 2;
        });
        row("ZeRO 3", plain, "gradients and parameters over the replicas (ZeRO 3)", [](plan::Document &document) {
            for (plan::Stage &stage : document.plan.stages)
                stage.zero = 3;
        });
        row("registers", plain, "bounds its buffers to 2 slots",
            [](plan::Document &document) { document.plan.stages[0].registers = 2; });
        row("a mesh of three", tensors, "a mesh of 3 dimensions", [](plan::Document &document) {
            for (plan::Stage &stage : document.plan.stages)
                stage.mesh = {2, 2, 1};
        });
        row("gpipe", plain, "order of passes (gpipe)",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::GPipe; });
        row("dapple-b", plain, "order of passes (dapple-b)",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::DappleB; });
        row("zero bubble", plain, "order of passes",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::ZeroBubbleH1; });
        row("warm-up by hand", plain, "order of passes (1f1b)", [](plan::Document &document) {
            document.plan.schedule.warmup = {2, 3, 2, 1};
        });
        row("custom", plain, "order of passes (custom)",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::Custom; });
        row("uneven micro-batches", plain, "a batch of 60 does not divide evenly into 8 micro-batches on 2 replicas",
            [](plan::Document &document) { document.plan.globalBatch = 60; });
        row("a cut behind the head's end", plain, "stage 3 ('stage3') has no transformer block",
            [](plan::Document &document) {
                document.plan.stages[2].lastLayer = document.plan.stages[3].firstLayer = 13;
            });
        row("uneven middle", {.blocks = {3, 4, 3, 2}}, "stage 2 has 3 blocks and stage 1 has 4",
            [](plan::Document &) {});
        row("uneven BERT", {.model = "zoo:bert-large", .data = 8, .pipeline = 2, .blocks = {13, 11}},
            "give every stage the same number", [](plan::Document &) {});
        row("uneven and recomputed", {.blocks = {2, 4, 4, 2}}, "runs the same number of blocks again everywhere",
            [](plan::Document &document) {
                for (plan::Stage &stage : document.plan.stages)
                    stage.recompute = plan::Recompute::Full;
            });
        row("uneven and interleaved", {.data = 4, .pipeline = 4, .chunks = 2, .blocks = {1, 2, 2, 1, 2, 1, 2, 1}},
            "unequal numbers of blocks", [](plan::Document &) {});
        row("interleaved, 6 micro-batches", {.data = 4, .pipeline = 4, .chunks = 3, .batch = 48, .microBatches = 6},
            "6 micro-batches are not a multiple of 4", [](plan::Document &) {});
        row("stages out of turn", {.data = 4, .pipeline = 4, .chunks = 3}, "does not lie on the devices of its turn",
            [](plan::Document &document) {
                std::swap(document.plan.stages[4].devices, document.plan.stages[5].devices);
            });
        row("replicas across nodes", {.data = 4, .pipeline = 4}, "numbers the devices of a node one after the other",
            [](plan::Document &document) {
                std::swap(document.plan.stages[0].devices[1], document.plan.stages[3].devices[1]);
            });
        row("unequal nodes", {.data = 3, .pipeline = 4}, "8 devices of one node and 4 of another",
            [](plan::Document &document) { document.plan.globalBatch = 24; });
        row("a whole table", tensors, "tensor transformer.wte.weight lies as B,S(1) where it has B",
            [](plan::Document &document) {
                for (plan::Stage &stage : document.plan.stages)
                    stage.shardings["transformer.wte.weight"] = "B,S(1)";
            });
        row("a matrix the other way", tensors,
            "tensor transformer.h.0.attn.c_proj.weight lies as B,S(1) where it has B,S(0)",
            [](plan::Document &document) {
                document.plan.stages[0].shardings["transformer.h.0.attn.c_proj.weight"] = "B,S(1)";
            });
        row("tokens here and there", {.data = 2, .tensor = 2, .pipeline = 4, .sequence = true}, "lies as",
            [](plan::Document &document) {
                document.plan.stages[1].shardings =
                    uniformPlan({.data = 2, .tensor = 2, .pipeline = 4}).plan.stages[1].shardings;
            });
        row("heads that do not divide", {.model = "zoo:gpt2-xl", .data = 8, .tensor = 2, .pipeline = 1},
            "25 heads do not divide by 2", [](plan::Document &) {});
        row("decay of everything", plain, "decays all parameters by 0.01",
            [](plan::Document &document) { document.plan.optimizer.groups.clear(); });
        row("settings of one tensor", plain, "separate settings for parameters 'transformer.wte.weight'",
            [](plan::Document &document) {
                document.plan.optimizer.groups.push_back({"transformer.wte.weight", 0, 0.1});
            });
    }

    void refuses()
    {
        QFETCH(Asked, asked);
        QFETCH(Edit, edit);
        QFETCH(QString, why);
        if (asked.model == "zoo:mlp" || asked.model == "zoo:lstm-lm" || asked.model == "zoo:bert-48")
            asked.blocks = {1};
        plan::Document document = uniformPlan(asked);
        edit(document);
        compareWithRefusal(exporting::megatronArguments(document), why, {"Megatron-LM", "ranks are started"});
    }

    /// Orders that come to the same are the same: DAPPLE's early backward without a bound is 1f1b, and so is anything
    /// with one micro-batch.
    void schedulesThatComeToTheSame()
    {
        plan::Document document = uniformPlan({});
        const std::string oneF1B = must(exporting::megatronArguments(document)).text;
        document.plan.schedule.kind = plan::ScheduleKind::DappleA;
        QCOMPARE(must(exporting::megatronArguments(document)).text, oneF1B);
        document.plan.microBatches = 1;
        document.plan.schedule.kind = plan::ScheduleKind::GPipe;
        QVERIFY(exporting::megatronArguments(document).ok());
    }

    /// Nodes may come in any order, and a part of each may be used: the notes say how to start the ranks then.
    void otherDevices()
    {
        plan::Document document = uniformPlan({.data = 2, .pipeline = 2});
        for (plan::Stage &stage : document.plan.stages)
            for (DeviceId &id : stage.devices)
                id = DeviceId(id.value < 2 ? 9 - id.value : id.value);
        const auto made = must(exporting::megatronArguments(document));
        QVERIFY2(QString::fromStdString(made.text).endsWith("--wandb-exp-name planloom.devices:9,8,2-3/16\n"),
                 made.text.c_str());
        QVERIFY(std::find(made.notes.begin(), made.notes.end(), "node rank 0 is n1, with CUDA_VISIBLE_DEVICES=1,0")
                != made.notes.end());
        QVERIFY(std::find(made.notes.begin(), made.notes.end(), "node rank 1 is n0, with CUDA_VISIBLE_DEVICES=2,3")
                != made.notes.end());
    }
};

QTEST_GUILESS_MAIN(TestMegatronArguments)
#include "tst_megatron_arguments.moc"
