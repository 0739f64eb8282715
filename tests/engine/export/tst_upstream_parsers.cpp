// SPDX-License-Identifier: Apache-2.0
// Every configuration that the golden texts hold is read by the program that it is for: by its own parser where Python
// finds its package, else by a transcript of its grammar. A file with one mistake is refused, so that none of this can
// pass by itself. Schedules of PyTorch are in tst_pytorch_schedule.
#include "uniform_plan.h"
#include "upstream_parser.h"

#include "engine/export/export.h"

#include <QDir>
#include <QTest>

using namespace planloom;
using namespace planloom::testing;

namespace {

struct GoldenText {
    QString content;
    QString ranks;
};

/// Content of a golden text without its notes, and the ranks that the first note starts.
GoldenText goldenText(const QString &name)
{
    GoldenText made;
    const std::string text = must(readFile(PLANLOOM_SOURCE_DIR "/tests/engine/export/golden/" + name.toStdString()));
    for (const QString &line : QString::fromStdString(text).split('\n')) {
        const qsizetype start = line.indexOf(QLatin1String("note: start "));
        if (start >= 0)
            made.ranks = line.mid(start + 12).section(' ', 0, 0);
        if (!line.contains(QLatin1String("note: ")))
            made.content += line + '\n';
    }
    return made;
}

QString scriptOf(const QString &name)
{
    return name.startsWith("megatron") ? "megatron_arguments.py"
        : name.startsWith("deepspeed") ? "deepspeed_config.py"
                                       : "torchtitan_config.py";
}

} // namespace

class TestUpstreamParsers : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void reads_data()
    {
        QTest::addColumn<QString>("name");
        for (const QString &name : QDir(PLANLOOM_SOURCE_DIR "/tests/engine/export/golden").entryList(QDir::Files))
            QTest::newRow(qPrintable(name)) << name;
    }
    void reads()
    {
        QFETCH(QString, name);
        const GoldenText text = goldenText(name);
        QVERIFY(!text.ranks.isEmpty());
        const UpstreamAnswer answer = askUpstream(scriptOf(name), text.content.toStdString(), {text.ranks});
        QVERIFY2(answer.reads, qPrintable(answer.text));
    }

    void refuses_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("before");
        QTest::addColumn<QString>("after");
        QTest::addColumn<QString>("why");
        const auto row = [](const char *title, const char *name, const char *before, const char *after,
                            const char *why) { QTest::newRow(title) << name << before << after << why; };
        constexpr const char *kBert = "megatron-bert-large.txt";
        row("another checkpoint format", kBert, "--ckpt-format torch\n", "", "legacy model format only supports");
        row("unknown argument", kBert, "--clip-grad", "--clip-grads", "unrecognized arguments");
        row("no whole number", kBert, "--num-layers 24", "--num-layers 24.0", "invalid int value");
        row("choice", kBert, "learned_absolute", "learned", "invalid choice");
        row("stages", kBert, "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 5", "not divisible");
        row("unknown parameter", "deepspeed-zero-3-bf16-cosine.txt", "cos_min_ratio", "min_ratio", "has no parameters");
        row("batches", "deepspeed-replicas.txt",
            "\"gradient_accumulation_steps\": ", "\"gradient_accumulation_steps\": 1",
            "Check batch related parameters");
        row("field", "torchtitan-replicas.txt", "decay_ratio", "decay_share", "[lr_scheduler] has no decay_share");
        row("degrees", "torchtitan-interleaved.txt", "pipeline_parallel_degree = 4", "pipeline_parallel_degree = 2",
            "Invalid parallel dims");
        row("kind of value", "torchtitan-replicas.txt", "seq_len = ", "seq_len = 1.", "[training] seq_len is");
    }
    void refuses()
    {
        QFETCH(QString, name);
        QFETCH(QString, before);
        QFETCH(QString, after);
        QFETCH(QString, why);
        GoldenText text = goldenText(name);
        QVERIFY2(text.content.contains(before), qPrintable(text.content));
        text.content.replace(text.content.indexOf(before), before.size(), after);
        const UpstreamAnswer answer = askUpstream(scriptOf(name), text.content.toStdString(), {text.ranks});
        QVERIFY2(!answer.reads && answer.text.contains(why), qPrintable(answer.text));
    }

    /// DeepSpeed asserts that SGD is allowed where ZeRO is on.
    void sgdWithZero()
    {
        plan::Document document = uniformPlan({.data = 16, .pipeline = 1});
        document.plan.optimizer.groups.clear();
        document.plan.optimizer.rule = *update::ConfiguredRule::named("sgd");
        document.plan.stages[0].zero = 2;
        document.plan.microBatches = 4;
        const std::string made = must(exporting::deepSpeedConfig(document)).text;
        const UpstreamAnswer answer = askUpstream("deepspeed_config.py", made, {"16"});
        QVERIFY2(answer.reads, qPrintable(answer.text));
        QString without = QString::fromStdString(made);
        QVERIFY(without.contains("\"zero_allow_untested_optimizer\": true"));
        without.replace("\"zero_allow_untested_optimizer\": true", "\"zero_allow_untested_optimizer\": false");
        QVERIFY(!askUpstream("deepspeed_config.py", without.toStdString(), {"16"}).reads);
    }
};

QTEST_GUILESS_MAIN(TestUpstreamParsers)
#include "tst_upstream_parsers.moc"
