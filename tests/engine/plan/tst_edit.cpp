// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/edit.h"

#include "engine/import/import.h"
#include "engine/plan/validate.h"
#include "engine/simulate/simulate.h"

#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::plan;

/// Edits of plans by key and text.
class TestEdit : public QObject {
    Q_OBJECT

private:
    Document m_document; ///< gpt-nano in two stages of two devices each; four of the cluster's are idle

    [[nodiscard]] Document edited(const char *key, const char *text) const
    {
        const auto plan = withValue(m_document, key, text);
        if (!plan)
            return {};
        const auto document = withPlan(m_document, *plan);
        return document ? *document : Document();
    }

private Q_SLOTS:
    void initTestCase();
    void edits_data();
    void edits();
    void allStagesAtOnce();
    void precisionHasItsCosts();
    void predictionsAreForgotten();
    void refused_data();
    void refused();
    void everyFieldIsTried();
};

void TestEdit::initTestCase()
{
    const auto model = import::loadModel("zoo:gpt-nano");
    QVERIFY(model);
    m_document.subject =
        makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-a")), nullptr,
                    "zoo:gpt-nano");
    const std::size_t layers = m_document.subject.layers().size();
    Plan &plan = m_document.plan;
    plan.globalBatch = 16;
    plan.microBatches = 4;
    for (int s = 0; s < 2; ++s) {
        Stage stage;
        stage.name = "stage" + std::to_string(s);
        stage.firstLayer = s == 0 ? 0 : 3;
        stage.lastLayer = s == 0 ? 3 : layers;
        stage.devices = {DeviceId(2 * s), DeviceId(2 * s + 1)};
        plan.stages.push_back(stage);
    }
    const Status valid = validate(plan, m_document.subject);
    QVERIFY2(valid, valid ? "" : valid.error().message.c_str());
}

void TestEdit::edits_data()
{
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QString>("change"); ///< in a line of difference()
    const auto row = [](const char *key, const char *text, const char *change) {
        QTest::newRow(key) << QByteArray(text) << QString(change);
    };
    row("batch", "32", "32");
    row("micro_batches", " 8 ", "8");
    row("schedule", "gpipe", "gpipe");
    row("precision", "bf16", "bf16");
    row("optimizer", "sgd,momentum=0.5", "sgd");
    row("learning_rate", "1e-2", "0.01");
    row("weight_decay", "0.5", "0.5");
    row("clip_norm", "1", "clip");
    row("exchange", "dasgd,local_steps=4,delay=2", "dasgd");
    row("stages.0.name", "encoder", "encoder");
    row("stages.0.layers", "0 – 3", "0..3 -> 0..4");
    row("stages.1.devices", "n0:g4-5, n0:g7", "4-5,7");
    row("stages.1.replicas", "4", "2-5");
    row("stages.1.tensor_parts", "1", "");
    row("stages.1.shardings", "h/*/mlp/*=S(0)", "sharding of h/*/mlp/* none -> S(0)");
    row("stages.1.zero", "1", "ZeRO");
    row("stages.1.recompute", "layers", "layers");
    row("stages.0.warmup", "1", "warm");
    row("stages.1.split", "4", "stage 2");
    row("stages.0.merge", "next", "stage");
}

void TestEdit::edits()
{
    QFETCH(QByteArray, text);
    QFETCH(QString, change);
    const auto plan = withValue(m_document, QTest::currentDataTag(), text.toStdString());
    QVERIFY2(plan, plan ? "" : plan.error().message.c_str());
    const auto document = withPlan(m_document, *plan);
    QVERIFY2(document, document ? "" : document.error().message.c_str());
    QString changes;
    for (const std::string &line : difference(m_document.plan, document->plan))
        changes += QString::fromStdString(line) + '\n';
    qInfo().noquote() << changes;
    QVERIFY2(changes.contains(change, Qt::CaseInsensitive), qPrintable(changes));
}

void TestEdit::allStagesAtOnce()
{
    const Document zero = edited("stages.*.zero", "2");
    QCOMPARE(zero.plan.stages.size(), std::size_t(2));
    QVERIFY(std::ranges::all_of(zero.plan.stages, [](const Stage &stage) { return stage.zero == 2; }));
    const Document parts = edited("stages.*.tensor_parts", "2");
    QCOMPARE(parts.plan.stages.size(), std::size_t(2));
    QVERIFY(std::ranges::all_of(parts.plan.stages, [](const Stage &stage) { return stage.shards() == 2; }));
}

void TestEdit::precisionHasItsCosts()
{
    const Document half = edited("precision", "bf16");
    QVERIFY(half.subject.costs && half.subject.costs != m_document.subject.costs);
    const auto before = simulate::simulatePlan(m_document.plan, m_document.subject, {false, false});
    const auto after = simulate::simulatePlan(half.plan, half.subject, {false, false});
    QVERIFY(before && after);
    QVERIFY(before->report.iterationSeconds != after->report.iterationSeconds);
}

void TestEdit::predictionsAreForgotten()
{
    Document predicted = m_document;
    predicted.plan.predictedJson = "{}";
    predicted.plan.why = Why();
    predicted.plan.estimate["iteration_seconds"] = 1;
    const auto renamed = withPlan(predicted, *withValue(predicted, "stages.0.name", "encoder"));
    QVERIFY(renamed && renamed->plan.predictedJson.empty() && !renamed->plan.why);
    QCOMPARE(renamed->plan.estimate.size(), std::size_t(1)); // of the same simulation
    const auto other = withPlan(predicted, *withValue(predicted, "micro_batches", "8"));
    QVERIFY(other && other->plan.estimate.empty());
}

void TestEdit::refused_data()
{
    QTest::addColumn<QByteArray>("key");
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QString>("says");
    const auto row = [](const char *key, const char *text, const char *says) {
        QTest::newRow(qPrintable(QStringLiteral("%1=%2").arg(key, text)))
            << QByteArray(key) << QByteArray(text) << QString(says);
    };
    row("batches", "4", "no key \"batches\" to edit; there are batch, micro_batches");
    row("stages.0.speed", "4", "stages.N.layers");
    row("stages.2.zero", "1", "no stage \"2\"; it has stages 0 to 1");
    row("stages.x.zero", "1", "no stage \"x\"");
    row("stages", "1", "no key");
    row("stages.", "1", "no key");
    row("batch", "many", "not a number of samples");
    row("batch", "99999999999999999999", "not a number of samples");
    row("micro_batches", "0", "enter 1 or more");
    row("schedule", "custom", "choose one of gpipe, 1f1b");
    row("schedule", "fast", "choose one of");
    row("precision", "fp8", "choose fp32 or bf16");
    row("optimizer", "adamw,speed=1", "speed");
    row("optimizer", "adamw,beta2=high", "write it as NAME=NUMBER");
    row("learning_rate", "high", "write it as 0.001");
    row("exchange", "gossip", "gossip");
    row("stages.0.layers", "all", "not a range of layers");
    row("stages.0.layers", "1-4", "begins at layer 0");
    row("stages.1.layers", "3-4", "ends at the last layer");
    row("stages.0.devices", "n9:g0", "there is no device \"n9:g0\"");
    row("stages.0.replicas", "many", "not a number of replicas");
    row("stages.0.tensor_parts", "3", "cannot be replicas of 3 each");
    row("stages.0.shardings", "S(0)", "is no sharding");
    row("stages.0.zero", "all", "not a ZeRO level");
    row("stages.0.recompute", "some", "choose none, selective, layers or full");
    row("stages.0.warmup", "-1", "not a warm-up depth");
    row("stages.0.split", "0", "can be split before layers");
    row("stages.1.merge", "next", "is the last stage");
    row("stages.0.merge", "1", "write next");
}

void TestEdit::refused()
{
    QFETCH(QByteArray, key);
    QFETCH(QByteArray, text);
    QFETCH(QString, says);
    const auto plan = withValue(m_document, key.toStdString(), text.toStdString());
    QVERIFY(!plan);
    QVERIFY2(QString::fromStdString(plan.error().message).contains(says), plan.error().message.c_str());
}

void TestEdit::everyFieldIsTried()
{
    // A field that edits_data() does not have was added without a test.
    const QStringList tried{"batch",         "micro_batches", "schedule",  "precision",    "optimizer",
                            "learning_rate", "weight_decay",  "clip_norm", "exchange",     "name",
                            "layers",        "devices",       "replicas",  "tensor_parts", "shardings",
                            "zero",          "recompute",     "warmup",    "split",        "merge"};
    QStringList fields;
    for (const EditField &field : editFields())
        fields << QString::fromUtf8(field.key);
    fields.sort();
    QStringList sorted = tried;
    sorted.sort();
    QCOMPARE(fields, sorted);
}

QTEST_GUILESS_MAIN(TestEdit)
#include "tst_edit.moc"
