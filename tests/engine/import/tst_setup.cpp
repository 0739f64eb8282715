// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/setup/setup.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;

namespace {

/// A setup, on one line.
QString text(const plan::Setup &setup)
{
    QStringList blocks;
    for (const std::int64_t count : setup.blocks)
        blocks << QString::number(count);
    const plan::Optimizer &o = setup.optimizer;
    return QString("%1 x %2 x %3/%4 [%5] %6 %7 zero%8, %9 of %10, %11, %12 %13 wd %14 clip %15, %16 %17+%18 to %19")
        .arg(setup.data)
        .arg(setup.tensor)
        .arg(setup.pipeline)
        .arg(setup.chunks)
        .arg(blocks.join(','))
        .arg(plan::name(setup.schedule))
        .arg(plan::name(setup.recompute))
        .arg(setup.zero)
        .arg(setup.microBatch)
        .arg(setup.globalBatch)
        .arg(plan::name(setup.precision))
        .arg(QString::fromUtf8(o.rule.name().data(), static_cast<qsizetype>(o.rule.name().size())))
        .arg(o.learningRate)
        .arg(o.weightDecay)
        .arg(o.clipNorm)
        .arg(int(o.schedule.kind))
        .arg(o.schedule.warmupSteps)
        .arg(o.schedule.totalSteps)
        .arg(o.schedule.minimum);
}

constexpr const char *kScript = R"(#!/bin/bash
# pretraining
GPT_ARGS="
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length=1024 --micro-batch-size 4 --global_batch_size 64
"
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py $GPT_ARGS --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 4 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 9 --lr-warmup-init 1e-4 \
    --bf16 --save /checkpoints --use-distributed-optimizer --log-interval 10
)";

constexpr const char *kDeepSpeed = R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.95], "weight_decay": 0.1}},
 "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000, "warmup_num_steps": 9, "warmup_type": "linear", "warmup_max_lr": 0.001, "warmup_min_lr": 0.0001}},
 "gradient_clipping": 1.0, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true}, "wall_clock_breakdown": false})";

constexpr const char *kTorchtitan = R"([model]
name = "llama3"
[optimizer]
lr = 0.001
[lr_scheduler]
warmup_steps = 9
[training]
local_batch_size = 8
global_batch_size = 32
steps = 1000
[parallelism]
data_parallel_shard_degree = 4
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1"], ["layers.2"], ["layers.3", "norm", "output"]]
[activation_checkpoint]
mode = "full"
[checkpoint]
enable = true
)";

QString replaced(const char *text, const char *before, const char *after)
{
    return QString(text).replace(before, after);
}

} // namespace

class TestSetup : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void reads_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<QString>("expected");
        QTest::newRow("a script of Megatron-LM")
            << QString(kScript)
            << "2 x 2 x 4/1 [] 1f1b none zero1, 4 of 64, bf16, adamw 0.001 wd 0.01 clip 1, 2 9+0 to 0.1";
        QTest::newRow("Megatron-LM, uneven")
            << QString("--num-layers 12 --micro-batch-size 1 --pipeline-model-parallel-size 4 "
                       "--decoder-first-pipeline-num-layers 2 "
                       "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --optimizer "
                       "sgd --lr 0.1 --weight-decay 0 "
                       "--lr-decay-style constant --lr-decay-iters 100 --decoder-last-pipeline-num-layers 4")
            << "0 x 1 x 4/1 [2,3,3,4] 1f1b layers zero0, 1 of 0, fp32, sgd 0.1 wd 0 clip 1, 0 0+0 to 0";
        QTest::newRow("Megatron-LM, interleaved")
            << QString("--num-layers 12\n--micro-batch-size 1\n--pipeline-model-parallel-size "
                       "2\n--num-layers-per-virtual-pipeline-stage 3\n"
                       "--recompute-activations\n--lr 1")
            << "0 x 1 x 2/2 [] interleaved-1f1b selective zero0, 1 of 0, fp32, adamw 1 wd 0.01 clip 1, 1 0+0 to 0";
        QTest::newRow("DeepSpeed") << QString(
            kDeepSpeed) << "0 x 1 x 1/1 [] 1f1b none zero2, 4 of 64, bf16, adamw 0.001 wd 0.1 clip 1, 1 9+1000 to 0";
        QTest::newRow("DeepSpeed, all three")
            << QString(
                   R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})")
            << "8 x 1 x 1/1 [] 1f1b none zero0, 4 of 64, fp32, adamw 0.0003 wd 0.01 clip 0, 0 0+0 to 0";
        QTest::newRow("torchtitan") << QString(kTorchtitan)
                                    << "4 x 1 x 2/2 [1,1,1,1] interleaved-1f1b layers zero2, 1 of 32, bf16, adamw "
                                       "0.001 wd 0.1 clip 1, 1 9+1000 to 0";
        QTest::newRow("torchtitan, split points")
            << QString("[training]\nlocal_batch_size = 8\nmax_norm = inf\n[parallelism]\ndata_parallel_shard_degree = "
                       "1\npipeline_parallel_degree = 3\n"
                       "pipeline_parallel_schedule = \"GPipe\"\npipeline_parallel_split_points = [\"layers.2\", "
                       "\"layers.5\"]\n"
                       "[lr_scheduler]\ndecay_ratio = 0.0\n[activation_checkpoint]\nmode = \"none\"\n")
            << "1 x 1 x 3/1 [2,3,0] gpipe none zero0, 1 of 0, fp32, adamw 0.0008 wd 0.1 clip 0, 0 200+0 to 0";
    }

    void reads()
    {
        QFETCH(QString, file);
        QFETCH(QString, expected);
        const auto setup = import::readSetup(file.toStdString(), "setup");
        QVERIFY2(setup.ok(), setup.ok() ? "" : setup.error().text().c_str());
        QCOMPARE(text(*setup), expected);
    }

    void refuses_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("why");
        const auto row = [](const char *name, const QString &file, int line, const char *why) {
            QTest::newRow(name) << file << line << why;
        };
        row("empty", " \n", 0, "is empty");
        row("prose", "one two\nthree", 0, "has none of Megatron-LM's arguments");
        const QString args = "--num-layers 12\n--micro-batch-size 1\n--lr 1\n";
        row("experts", args + "--num-experts 8", 4, "--num-experts is set, but plans have no experts");
        row("fp16", args + "--fp16", 4, "--fp16 is set, but plans compute in float32 or bfloat16");
        row("context", args + "--context-parallel-size 2", 4, "--context-parallel-size is more than 1");
        row("a variable", args + "--pipeline-model-parallel-size $PP", 4, "a variable of the shell");
        row("no value", args + "--pipeline-model-parallel-size", 4, "has no value");
        row("no number", args + "--pipeline-model-parallel-size four", 4, "is 'four'; a whole number");
        row("huge", args + "--tensor-model-parallel-size 99999999999999999999", 4, "a whole number from 1");
        row("negative", args + "--clip-grad -1", 4, "a number of at least 0");
        row("not a number", args + "--clip-grad nan", 4, "a number of at least 0");
        row("style", args + "--lr-decay-style WSD", 4, "is 'WSD'; a plan can have constant, linear, cosine");
        row("block", args + "--recompute-granularity full --recompute-method block", 4,
            "is 'block'; a plan can have uniform");
        row("layers together", args + "--recompute-granularity full\n--recompute-num-layers 5", 5,
            "--recompute-num-layers is 5");
        row("stages without layers", "--micro-batch-size 1 --pipeline-model-parallel-size 2", 1, "no --num-layers");
        row("more stages", args + "--pipeline-model-parallel-size 13", 4, "12 layers are fewer than 13 stages");
        row("uneven", args + "--pipeline-model-parallel-size 4\n--decoder-first-pipeline-num-layers 4", 5,
            "12 layers do not divide into a first stage of 4");
        row("chunks", args + "--pipeline-model-parallel-size 2\n--num-layers-per-virtual-pipeline-stage 5", 5,
            "12 layers do not divide into stages of 5");
        row("ranks", "--num-layers 12 --micro-batch-size 1 --nproc-per-node 3 --tensor-model-parallel-size 2", 0,
            "3 ranks do not divide");
        row("broken JSON", "{\"train_batch_size\": }", 1, "");
        row("no batch", "{\n}", 1, "field \"train_batch_size\": is missing");
        row("auto", "{\"train_batch_size\": 8,\n\"optimizer\": {\"type\": \"AdamW\",\n\"params\": {\"lr\": \"auto\"}}}",
            3, "field \"optimizer.params.lr\": is 'auto'");
        row("a text", "{\n\"train_batch_size\": \"8\"}", 2, "train_batch_size");
        row("offload", replaced(kDeepSpeed, "\"overlap_comm\": true", "\"offload_param\": {\"device\": \"cpu\"}"), 4,
            "field \"zero_optimization.offload_param\": offloads memory");
        row("fp16 of DeepSpeed", replaced(kDeepSpeed, "bf16", "fp16"), 4, "field \"fp16\": is on");
        row("optimizer", replaced(kDeepSpeed, "\"AdamW\"", "\"Lamb\""), 2, "is 'Lamb'; plans have AdamW, Lion and SGD");
        row("scheduler", replaced(kDeepSpeed, "WarmupDecayLR", "OneCycle"), 3, "is 'OneCycle'");
        row("log", replaced(kDeepSpeed, "\"warmup_type\": \"linear\", ", ""), 3,
            "field \"scheduler.params.warmup_type\": is 'log'");
        row("batches",
            "{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 1}", 1,
            "not a multiple of 4 samples in 1 steps");
        row("elastic", "{\"train_batch_size\": 8,\n\"elasticity\": {}}", 2, "field \"elasticity\": is set");
        row("broken TOML", "[training]\nlocal_batch_size = = 1", 2, "is not TOML");
        row("no name", "[training]\n[~~training]", 2, "is not TOML");
        row("other TOML", "[package]\nname = \"x\"", 0, "not a configuration of torchtitan");
        row("context of torchtitan", replaced(kTorchtitan, "data_parallel_shard", "context_parallel"), 12,
            "[parallelism] context_parallel_degree splits attention");
        row("hybrid", replaced(kTorchtitan, "data_parallel_shard_degree = 4", "data_parallel_replicate_degree = 2"), 12,
            "makes groups of replicas");
        row("schedule", replaced(kTorchtitan, "Interleaved1F1B", "ZBVZeroBubble"), 14, "must be one of 1F1B");
        row("stages", replaced(kTorchtitan, "[\"layers.1\"], ", ""), 15, "has layer 2 where layer 1 comes next");
        row("odd stages", replaced(kTorchtitan, "], [\"layers.1\"]", ", \"layers.1\"]"), 15, "makes 3 stages");
        row("kind", replaced(kTorchtitan, "global_batch_size = 32", "global_batch_size = \"32\""), 9,
            "must be a whole number");
        row("adam", replaced(kTorchtitan, "lr = 0.001", "name = \"Adam\""), 4, "must be one of AdamW");
        row("no gradients", replaced(kTorchtitan, "steps = 1000", "max_norm = 0"), 10, "takes every gradient away");
        row("stable", replaced(kTorchtitan, "warmup_steps = 9", "decay_ratio = 0.5"), 6,
            "holds the learning rate for a while");
    }

    void refuses()
    {
        QFETCH(QString, file);
        QFETCH(int, line);
        QFETCH(QString, why);
        const auto setup = import::readSetup(file.toStdString(), "setup");
        QVERIFY(!setup.ok());
        QCOMPARE(setup.error().code, ErrorCode::BadInput);
        QVERIFY2(QString::fromStdString(setup.error().message).contains(why), setup.error().text().c_str());
        QCOMPARE(setup.error().file, std::string("setup"));
        QVERIFY2(setup.error().line == line, setup.error().text().c_str());
    }

    void saysWhatItPassesBy()
    {
        const auto megatron = import::readSetup(kScript, "setup");
        QVERIFY(megatron.ok());
        QCOMPARE(megatron->notes.size(), std::size_t(1));
        QCOMPARE(megatron->notes[0],
                 std::string("passed by, as the plan does not depend on it: --save --log-interval"));
        const auto deepSpeed = import::readSetup(kDeepSpeed, "setup");
        QCOMPARE(
            deepSpeed->notes.back(),
            std::string(
                "passed by, as the plan does not depend on it: zero_optimization.overlap_comm wall_clock_breakdown"));
        const auto torchtitan = import::readSetup(kTorchtitan, "setup");
        if (torchtitan)
            QCOMPARE(torchtitan->notes.back(),
                     std::string("passed by, as the plan does not depend on it: [checkpoint]"));
    }

    void placements_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QList<qint64>>("devices");
        QTest::addColumn<QString>("problem"); // without devices and problem: no placement
        QTest::newRow("a range") << "planloom.devices:8-11/16" << QList<qint64>{8, 9, 10, 11} << "";
        QTest::newRow("an order of its own") << "planloom.devices:9,8,2-3/16" << QList<qint64>{9, 8, 2, 3} << "";
        QTest::newRow("one") << "planloom.devices:0/1" << QList<qint64>{0} << "";
        QTest::newRow("the user's") << "my run" << QList<qint64>{} << "";
        const std::pair<const char *, const char *> wrong[] = {{"", "it has no /"},
                                                               {"/4", "'' is not a list of device numbers"},
                                                               {"0-4/4", "'0-4' names device 4, but the last one is 3"},
                                                               {"3-1/4", "'3-1' is not a list"},
                                                               {"0,0/4", "'0,0' names device 0 twice"},
                                                               {"0,/4", "'0,' is not a list"},
                                                               {"0-99999999999/4", "'0-99999999999'"},
                                                               {"0/4x", "'4x' is not a number of devices"},
                                                               {"a/4", "'a' is not a list"},
                                                               {"-1/4", "'-1' is not a list"},
                                                               {"0/0", "'0' is not a number of devices"}};
        for (const auto &[text, problem] : wrong)
            QTest::newRow(text) << QString("planloom.devices:%1").arg(text) << QList<qint64>{} << problem;
    }
    void placements()
    {
        QFETCH(QString, text);
        QFETCH(QList<qint64>, devices);
        QFETCH(QString, problem);
        const auto placement = plan::placementFromText(text.toStdString());
        QCOMPARE(placement.ok(), problem.isEmpty());
        if (!placement) {
            const QString said = QString::fromStdString(placement.error().message);
            QVERIFY2(said.contains(problem) && said.contains("write planloom.devices:8-15/16"), qPrintable(said));
            return;
        }
        QCOMPARE(placement->has_value(), !devices.isEmpty());
        if (!*placement)
            return;
        QList<qint64> found;
        for (const DeviceId device : (*placement)->devices)
            found << device.value;
        QCOMPARE(found, devices);
        QCOMPARE(plan::placementText(**placement), text.toStdString());
    }

    /// A placement that was edited by hand, and wrongly, is not passed by.
    void malformedPlacementsAreRefused()
    {
        const auto refused = [](const std::string &text, const char *where) {
            const auto setup = import::readSetup(text, "setup");
            return !setup && setup.error().text().find(where) != std::string::npos
                && setup.error().text().find("planloom.devices:8-15/16") != std::string::npos;
        };
        QVERIFY(refused("--num-layers 12 --micro-batch-size 1 --lr 1 --wandb-exp-name planloom.devices:8-15/x",
                        "setup:1: --wandb-exp-name"));
        QVERIFY(refused("{\n\"train_batch_size\": 8,\n\"planloom\": \"planloom.devices:8-15/4\"}", "setup:3"));
        QVERIFY(refused("{\n\"train_batch_size\": 8,\n\"planloom\": \"mine\"}", "setup:3"));
        QVERIFY(refused("[job]\ndescription = \"planloom.devices:1,1/4\"\n" + std::string(kTorchtitan), "setup:2"));
    }

    /// Each format carries it in a field that its program only shows; a name of the user's is passed by.
    void carryPlacements()
    {
        const std::string args = "--num-layers 12 --micro-batch-size 1 --lr 1 --wandb-exp-name ";
        const auto megatron = import::readSetup(args + "planloom.devices:8-15/16", "setup");
        QVERIFY2(megatron.ok() && megatron->placement && megatron->notes.empty(),
                 megatron ? qPrintable(QString::number(megatron->notes.size())) : megatron.error().text().c_str());
        QCOMPARE(megatron->placement->clusterDevices, std::size_t(16));
        const auto named = import::readSetup(args + "mine", "setup");
        QVERIFY(named.ok() && !named->placement);
        QCOMPARE(named->notes.back(), std::string("passed by, as the plan does not depend on it: --wandb-exp-name"));
        const auto deepSpeed =
            import::readSetup(R"({"train_batch_size": 8, "planloom": "planloom.devices:1-2/4"})", "setup");
        QVERIFY(deepSpeed.ok() && deepSpeed->placement);
        QCOMPARE(plan::rangesText(deepSpeed->placement->devices), std::string("1-2"));
        const auto torchtitan =
            import::readSetup("[job]\ndescription = \"planloom.devices:1-2/4\"\n[training]\n[parallelism]\n", "setup");
        QVERIFY2(torchtitan.ok() && torchtitan->placement, torchtitan ? "" : torchtitan.error().text().c_str());
        for (const std::string &note : torchtitan->notes)
            QVERIFY2(note.find("[job]") == std::string::npos, note.c_str());
    }

    void files()
    {
        QTemporaryDir folder;
        const std::string path = folder.filePath("args.txt").toStdString();
        QVERIFY(writeFileAtomically(path, kScript).ok());
        QCOMPARE(import::loadSetup(path)->file, path);
        QCOMPARE(import::loadSetup(path + ".none").error().code, ErrorCode::NotFound);
    }
};

QTEST_GUILESS_MAIN(TestSetup)
#include "tst_setup.moc"
