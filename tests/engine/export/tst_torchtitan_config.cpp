// SPDX-License-Identifier: Apache-2.0
// PLANLOOM_UPDATE_GOLDEN=1 rewrites tests/engine/export/golden; look at the difference before committing it.
#include "configuration_checks.h"

using namespace planloom;
using namespace planloom::testing;

using Kind = plan::LearningRateSchedule::Kind;

namespace {

Edit zero(int level)
{
    return [level](plan::Document &document) {
        for (plan::Stage &stage : document.plan.stages)
            stage.zero = level;
    };
}

constexpr const char *kLlama8B =
    R"({"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 500000})";

} // namespace

class TestTorchtitanConfig : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void configuration_data()
    {
        QTest::addColumn<Asked>("asked");
        QTest::addColumn<Edit>("edit");
        QTest::newRow("replicas") << Asked{.data = 16, .pipeline = 1, .microBatches = 2}
                                  << Edit([](plan::Document &) {});
        QTest::newRow("fsdp 2 x tensors 4 x pipeline 2")
            << Asked{.data = 2, .tensor = 4, .pipeline = 2, .sequence = true} << Edit([](plan::Document &document) {
                   zero(3)(document);
                   document.plan.precision = plan::Precision::BFloat16;
                   document.plan.optimizer.clipNorm = 1;
                   document.plan.optimizer.schedule = {Kind::Cosine, 99, 1000, 0.1};
                   for (plan::Stage &stage : document.plan.stages)
                       stage.recompute = plan::Recompute::Layers;
               });
        QTest::newRow("interleaved") << Asked{.data = 4, .pipeline = 4, .chunks = 2} << zero(2);
        QTest::newRow("gpipe with uneven stages")
            << Asked{.cluster = "h100-8", .data = 1, .pipeline = 4, .blocks = {1, 3, 2, 2}}
            << Edit([](plan::Document &document) {
                   document.plan.schedule.kind = plan::ScheduleKind::GPipe;
                   document.plan.optimizer.schedule = {Kind::Linear, 5, 0, 0};
               });
    }

    void configuration()
    {
        QFETCH(Asked, asked);
        QFETCH(Edit, edit);
        asked.model = "llama";
        plan::Document document = uniformPlan(asked);
        document.plan.optimizer.groups.clear();
        edit(document);
        compareWithGolden(exporting::torchtitanConfig(document), "torchtitan", "# note: ");
    }

    void knownFlavor()
    {
        plan::Document document = uniformPlan({.model = "llama", .data = 16, .pipeline = 1, .microBatches = 1});
        const import::Model model = must(import::readHuggingFaceConfig(kLlama8B, "config.json"));
        document.subject = plan::makeSubject(model.graph, document.subject.cluster, nullptr, model.source);
        document.plan.stages[0].lastLayer = document.subject.layers().size();
        document.plan.optimizer.groups.clear();
        const auto made = must(exporting::torchtitanConfig(document));
        QVERIFY2(made.text.find("flavor = \"8B\"") != std::string::npos, made.text.c_str());
        for (const std::string &note : made.notes)
            QVERIFY2(note.find("no flavor") == std::string::npos, note.c_str());
    }

    /// Flavors have no field for the size of a head.
    void headsThatDoNotFillTheWidth()
    {
        plan::Document document = uniformPlan({.model = "llama", .data = 16, .pipeline = 1, .microBatches = 1});
        std::string config = kLlama8B;
        config.insert(1, R"("head_dim": 64, )");
        const import::Model model = must(import::readHuggingFaceConfig(config, "config.json"));
        document.subject = plan::makeSubject(model.graph, document.subject.cluster, nullptr, model.source);
        document.plan.stages[0].lastLayer = document.subject.layers().size();
        document.plan.optimizer.groups.clear();
        compareWithRefusal(exporting::torchtitanConfig(document), "has heads that do not fill its width",
                           {"torchtitan"});
    }

    void refuses_data()
    {
        QTest::addColumn<Asked>("asked");
        QTest::addColumn<Edit>("edit");
        QTest::addColumn<QString>("why");
        const Asked plain{.model = "llama", .data = 2, .pipeline = 4};
        const Asked tensors{.model = "llama", .data = 2, .tensor = 2, .pipeline = 4, .sequence = true};
        const auto row = [](const char *name, const Asked &asked, const char *why, const Edit &edit) {
            QTest::newRow(name) << asked << edit << why;
        };
        const Edit nothing = [](plan::Document &) {};
        row("gpt2", {}, "does not normalise as LLaMA does", nothing);
        row("bert", {.model = "zoo:bert-large"}, "looks at tokens behind its own", nothing);
        row("mlp", {.model = "zoo:mlp", .data = 8, .pipeline = 1, .blocks = {1}}, "has no attention", nothing);
        row("replicated stages", plain, "DDP goes with no other parallelism", nothing);
        row("ZeRO 1", plain, "ZeRO 1", zero(1));
        row("bf16 without replicas", {.model = "llama", .cluster = "h100-8", .data = 1, .pipeline = 4},
            "mixes precisions in FSDP and DDP only",
            [](plan::Document &document) { document.plan.precision = plan::Precision::BFloat16; });
        row("whole activations", {.model = "llama", .data = 2, .tensor = 2, .pipeline = 4},
            "splits them along the tokens", zero(3));
        row("a matrix the other way", tensors, "tensor model.layers.0.self_attn.o_proj.weight lies as B,B",
            [](plan::Document &document) {
                zero(3)(document);
                document.plan.stages[0].shardings["model.layers.0.self_attn.o_proj.weight"] = "B,B";
            });
        row("full recompute", plain, "recomputes 'full'", [](plan::Document &document) {
            zero(3)(document);
            for (plan::Stage &stage : document.plan.stages)
                stage.recompute = plan::Recompute::Full;
        });
        row("selective recompute", plain, "recomputes 'selective'", [](plan::Document &document) {
            zero(3)(document);
            for (plan::Stage &stage : document.plan.stages)
                stage.recompute = plan::Recompute::Selective;
        });
        row("sgd", plain, "which torchtitan does not support", [](plan::Document &document) {
            zero(3)(document);
            document.plan.optimizer.rule = *update::ConfiguredRule::named("sgd");
        });
        row("groups", plain, "separate settings for parameters 'rank<2'", [](plan::Document &document) {
            zero(3)(document);
            document.plan.optimizer.groups = {{"rank<2", 0, 1}};
        });
        row("custom", plain, "order of passes (custom) is not one that torchtitan knows", [](plan::Document &document) {
            zero(3)(document);
            document.plan.schedule.kind = plan::ScheduleKind::Custom;
        });
        row("few micro-batches", plain, "2 micro-batches are fewer than 4 stages", [](plan::Document &document) {
            zero(3)(document);
            document.plan.microBatches = 2;
        });
        row("gpipe of one stage", {.model = "llama", .data = 16, .pipeline = 1, .microBatches = 2},
            "torchtitan's without a pipeline",
            [](plan::Document &document) { document.plan.schedule.kind = plan::ScheduleKind::GPipe; });
        row("interleaved, 6 micro-batches",
            {.model = "llama", .data = 4, .pipeline = 4, .chunks = 2, .batch = 48, .microBatches = 6},
            "6 micro-batches are not a multiple of 4", zero(3));
        row("no block at the end", plain, "has no transformer block", [](plan::Document &document) {
            zero(3)(document);
            document.plan.stages[2].lastLayer = document.plan.stages[3].firstLayer = 9;
        });
    }

    void refuses()
    {
        QFETCH(Asked, asked);
        QFETCH(Edit, edit);
        QFETCH(QString, why);
        plan::Document document = uniformPlan(asked);
        document.plan.optimizer.groups.clear();
        edit(document);
        compareWithRefusal(exporting::torchtitanConfig(document), why, {"torchtitan"});
    }
};

QTEST_GUILESS_MAIN(TestTorchtitanConfig)
#include "tst_torchtitan_config.moc"
