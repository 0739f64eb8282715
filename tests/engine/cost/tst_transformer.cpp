// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/transformer.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/zoo.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using cost::Kept;
using cost::TransformerCosts;
using cost::TransformerLayout;
using cost::TransformerShape;

namespace {

constexpr double kGibi = 1024.0 * 1024 * 1024;

TransformerShape shapeOf(const char *model)
{
    const auto found = import::zooModel(model);
    if (!found)
        qFatal("%s", found.error().text().c_str());
    const auto shape = cost::transformerOf(*found->graph);
    if (!shape)
        qFatal("%s is not taken for a transformer", model);
    return *shape;
}

TransformerLayout layout(bool sequence, Kept kept, double microBatch, double pipeline = 1, double interleave = 1,
                         double microBatches = 1)
{
    return {8, sequence, pipeline, interleave, microBatch, microBatches, kept};
}

} // namespace

class TransformerTest : public QObject {
    Q_OBJECT

private slots:
    void shapesAreFound_data()
    {
        QTest::addColumn<double>("layers");
        QTest::addColumn<double>("heads");
        QTest::addColumn<double>("hidden");
        QTest::addColumn<double>("wide");
        QTest::addColumn<double>("vocabulary");
        QTest::addColumn<bool>("gated");
        QTest::addColumn<bool>("dropout");
        QTest::newRow("gpt2") << 12.0 << 12.0 << 768.0 << 3072.0 << 50257.0 << false << false;
        QTest::newRow("bert-large") << 24.0 << 16.0 << 1024.0 << 4096.0 << 30522.0 << false << false;
        QTest::newRow("llama-2-7b") << 32.0 << 32.0 << 4096.0 << 11008.0 << 32000.0 << true << false;
        QTest::newRow("gpt-22b-2022") << 48.0 << 64.0 << 6144.0 << 24576.0 << 51200.0 << false << true;
    }
    void shapesAreFound()
    {
        const TransformerShape shape = shapeOf(QTest::currentDataTag());
        QTEST(shape.layers, "layers");
        QTEST(shape.heads, "heads");
        QTEST(shape.hidden, "hidden");
        QTEST(shape.feedForward, "wide");
        QTEST(shape.vocabulary, "vocabulary");
        QTEST(shape.gated, "gated");
        QTEST(shape.dropout, "dropout");
        QCOMPARE(shape.keyValueHeads, shape.heads);
    }

    void otherModelsHaveNone()
    {
        QVERIFY(!cost::transformerOf(*import::zooModel("mlp")->graph));
        QVERIFY(!cost::transformerOf(*import::zooModel("resnet-50")->graph));
    }

    void decodersHaveOneWidth()
    {
        graph::DecoderConfig config;
        config.sizes = {"tiny", 2, 4, 16, 32, 50, 8, true, 0.02};
        config.activation = graph::Activation::GeluTanh;
        const auto shape = cost::transformerOf(*graph::decoder(config));
        QVERIFY(shape && shape->gated);
        config.headSize = 8; // attention is twice as wide
        QVERIFY(!cost::transformerOf(*graph::decoder(config)));
    }

    /// Table 2 of the paper, in units of s b h: 34 + 5as/h and its variants, for t = 8.
    void tableTwo_data()
    {
        QTest::addColumn<bool>("sequence");
        QTest::addColumn<Kept>("kept");
        QTest::addColumn<double>("expected");
        const double quadratic = 5.0 * 64 * 2048 / 6144;
        QTest::newRow("tensor") << false << Kept::All << 10 + 24.0 / 8 + quadratic / 8;
        QTest::newRow("tensor and sequence") << true << Kept::All << (34 + quadratic) / 8;
        QTest::newRow("tensor, selective") << false << Kept::Selective << 10 + 24.0 / 8;
        QTest::newRow("tensor and sequence, selective") << true << Kept::Selective << 34.0 / 8;
        QTest::newRow("full") << false << Kept::Inputs << 2.0;
    }
    void tableTwo()
    {
        QFETCH(bool, sequence);
        QFETCH(Kept, kept);
        QFETCH(double, expected);
        const TransformerCosts costs(shapeOf("gpt-22b-2022"));
        const double unit = 2048.0 * 4 * 6144;
        const double bytes = costs.activations(layout(sequence, kept, 4)).total();
        QVERIFY2(std::abs(bytes / unit - expected) < 1e-9,
                 qPrintable(QString("%1 instead of %2").arg(bytes / unit).arg(expected)));
    }

    /// The parts of section 4.1 without parallelism: attention 11 s b h + 5 a s^2 b, MLP 19 s b h, norms 4 s b h.
    void partsWithoutParallelism()
    {
        const TransformerCosts costs(shapeOf("gpt-175b-2022"));
        const double unit = 2048.0 * 12288;
        TransformerLayout alone;
        const cost::LayerActivations parts = costs.activations(alone);
        QCOMPARE(parts.attention, (11 + 5.0 * 96 * 2048 / 12288) * unit);
        QCOMPARE(parts.mlp, 19 * unit);
        QCOMPARE(parts.norms, 4 * unit);
    }

    void modelsOfThePaper_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<double>("microBatch");
        QTest::addColumn<double>("pipeline");
        QTest::addColumn<double>("interleave");
        QTest::addColumn<double>("microBatches");
        QTest::addColumn<double>("noneGib");
        QTest::addColumn<double>("bestGib");
        QTest::addColumn<QList<double>>("percent"); // sequence parallel, selective, both, full
        QTest::newRow("22B") << "gpt-22b-2022" << 4.0 << 1.0 << 1.0 << 1.0 << 59.25 << 9.5625
                             << QList<double>{66.84, 49.42, 16.18, 7.64};
        QTest::newRow("175B") << "gpt-175b-2022" << 1.0 << 8.0 << 3.0 << 64.0 << 66.84375 << 12.3515625
                              << QList<double>{62.04, 56.53, 18.49, 8.71};
    }
    void modelsOfThePaper()
    {
        QFETCH(QString, model);
        QFETCH(double, microBatch);
        QFETCH(double, pipeline);
        QFETCH(double, interleave);
        QFETCH(double, microBatches);
        QFETCH(double, noneGib);
        QFETCH(double, bestGib);
        QFETCH(QList<double>, percent);
        const TransformerCosts costs(shapeOf(qPrintable(model)));
        const auto bytes = [&](bool sequence, Kept kept) {
            return costs.activationBytes(layout(sequence, kept, microBatch, pipeline, interleave, microBatches));
        };
        const auto near = [](double got, double expected, double share) {
            QVERIFY2(std::abs(got / expected - 1) <= share,
                     qPrintable(QString("%1 instead of %2").arg(got).arg(expected)));
        };
        const double none = bytes(false, Kept::All);
        near(none / kGibi, noneGib, 1e-6);
        near(bytes(true, Kept::Selective) / kGibi, bestGib, 1e-6);
        near(bytes(true, Kept::All) / none * 100, percent[0], 0.01);
        near(bytes(false, Kept::Selective) / none * 100, percent[1], 0.01);
        near(bytes(true, Kept::Selective) / none * 100, percent[2], 0.01);
        near(bytes(false, Kept::Inputs) / none * 100, percent[3], 0.01);
    }

    void fusedAttentionKeepsNothingQuadratic()
    {
        TransformerShape shape = shapeOf("gpt-22b");
        const TransformerLayout alone;
        const double once = TransformerCosts(shape).activations(alone).total();
        shape.sequence *= 2;
        QCOMPARE(TransformerCosts(shape).activations(alone).total(), 2 * once);
        TransformerLayout selective;
        selective.kept = Kept::Selective;
        QCOMPARE(TransformerCosts(shape).activations(selective).total(), 2 * once);
    }
};

QTEST_GUILESS_MAIN(TransformerTest)
#include "tst_transformer.moc"
