// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"
#include "engine/import/model/profile_graph.h"
#include "tests/layer_table.h"

#include <QTest>

#include <cmath>

using namespace planloom;
using import::ProfileLayerSpec;

namespace {

cost::CostModel costsOf(const import::Model &model)
{
    return {model.graph, std::make_shared<const cluster::Cluster>(*cluster::preset("dapple-a")), model.profile};
}

std::vector<ProfileLayerSpec> chainOfThree()
{
    return {{"first", 1, 2, 400, 4000, {}}, {"second", 3, 4, 800, 0, {0}}, {"third", 5, 6, 0, 40, {1, 0}}};
}

} // namespace

class TestProfileGraph : public QObject {
    Q_OBJECT

private slots:
    void layersTimesAndCuts()
    {
        const auto model = import::profileModel("three", 2, chainOfThree());
        QVERIFY(model);
        const cost::CostModel costs = costsOf(*model);
        QCOMPARE(costs.layers().size(), std::size_t(3));
        QCOMPARE(costs.layers().layers[1].name, std::string("second"));
        QVERIFY(std::abs(costs.forward(0, 3, 2, 0).value() - 9e-3) < 1e-12);
        QVERIFY(std::abs(costs.backward(0, 3, 1, 0).value() - 6e-3) < 1e-12); // half of the profile batch
        QCOMPARE(costs.layers().cutBytes(*model->graph, 1, 1), Bytes(200));
        QCOMPARE(costs.layers().cutBytes(*model->graph, 2, 1), Bytes(600)); // the first layer's output is read again
        QCOMPARE(costs.parameterBytes(0, 3), Bytes(4040));
    }

    void mistakes_data()
    {
        QTest::addColumn<int>("which");
        QTest::addColumn<QString>("says");
        QTest::newRow("no layers") << 0 << "no layers";
        QTest::newRow("twice the same name") << 1 << "'first'";
        QTest::newRow("no name") << 2 << "empty";
        QTest::newRow("negative time") << 3 << "'second'";
        QTest::newRow("endless size") << 4 << "'second'";
        QTest::newRow("edge from nowhere") << 5 << "'third'";
        QTest::newRow("cycle") << 6 << "cycle";
        QTest::newRow("batch of nothing") << 7 << "profile batch";
    }

    void mistakes()
    {
        QFETCH(int, which);
        QFETCH(QString, says);
        std::vector<ProfileLayerSpec> layers = chainOfThree();
        double batch = 2;
        switch (which) {
        case 0: layers.clear(); break;
        case 1: layers[1].name = "first"; break;
        case 2: layers[1].name.clear(); break;
        case 3: layers[1].backwardMs = -1; break;
        case 4: layers[1].outputBytes = std::numeric_limits<double>::infinity(); break;
        case 5: layers[2].inputs = {7}; break;
        case 6: layers[0].inputs = {2}; break;
        default: batch = 0; break;
        }
        const auto model = import::profileModel("three", batch, layers);
        QVERIFY(!model);
        QCOMPARE(model.error().code, ErrorCode::BadInput);
        QVERIFY2(model.error().text().find(says.toStdString()) != std::string::npos, model.error().text().c_str());
    }

    // Totals as published with the profiles.
    void published_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("batch");
        QTest::addColumn<int>("layers");
        QTest::addColumn<double>("milliseconds");
        QTest::addColumn<double>("megabytes");
        QTest::newRow("VGG-19") << "vgg-19-layers" << 32 << 25 << 144.21 << 548.05;
        QTest::newRow("XLNet-36") << "xlnet-36" << 1 << 42 << 300.71 << 2003.0;
        QTest::newRow("BERT-48") << "bert-48" << 2 << 51 << 1030.6 << 2549.8;
        QTest::newRow("AmoebaNet-36") << "amoebanet-36" << 1 << 43 << 168.05 << 3731.1;
        QTest::newRow("GNMT-16") << "gnmt-16" << 64 << 20 << 248.92 << 1163.0;
    }

    void published()
    {
        QFETCH(QString, name);
        QFETCH(int, batch);
        QFETCH(int, layers);
        QFETCH(double, milliseconds);
        QFETCH(double, megabytes);
        const auto model = import::zooProfile(name.toStdString());
        QVERIFY(model);
        QCOMPARE(model->source, "zoo:" + name.toStdString());
        const cost::CostModel costs = costsOf(*model);
        const std::size_t count = costs.layers().size();
        QCOMPARE(count, static_cast<std::size_t>(layers));
        const double total = (costs.forward(0, count, batch, 0) + costs.backward(0, count, batch, 0)).value() * 1e3;
        QVERIFY2(std::abs(total - milliseconds) < 0.06, qPrintable(QString::number(total)));
        const double bytes = static_cast<double>(model->graph->parameterBytes().value()) / 1e6;
        QVERIFY2(std::abs(bytes - megabytes) < 0.6, qPrintable(QString::number(bytes)));
    }

    // Between XLNet's layers 2 + 4 + 2 + 1 MB cross; between BERT's, at batch 2, 9.437 + 3.539 MB.
    void cutsAreAntichainSums()
    {
        const auto xlnet = import::zooProfile("xlnet-36");
        const auto bert = import::zooProfile("bert-48");
        QVERIFY(xlnet && bert);
        QCOMPARE(costsOf(*xlnet).layers().cutBytes(*xlnet->graph, 23, 1), Bytes(9000000));
        QCOMPARE(costsOf(*bert).layers().cutBytes(*bert->graph, 26, 2), Bytes(9437184 + 3538944));
    }

    // The zoo's figures are the published ones.
    void agreesWithThePublished_data()
    {
        QTest::addColumn<QString>("table");
        QTest::addColumn<QString>("name");
        QTest::addColumn<double>("dropped"); // milliseconds of input nodes that the zoo leaves out
        QTest::newRow("VGG-19") << "vgg-19-pbs-32"
                                << "vgg-19-layers" << 3.4;
        QTest::newRow("XLNet-36") << "xlnet-36-pbs-1"
                                  << "xlnet-36" << 17.0;
        QTest::newRow("AmoebaNet-36") << "amoeba-36-pbs-1"
                                      << "amoebanet-36" << 0.0;
        QTest::newRow("GNMT-16") << "gnmt-16-pbs-64"
                                 << "gnmt-16" << 0.0;
    }

    void agreesWithThePublished()
    {
        QFETCH(QString, table);
        QFETCH(QString, name);
        QFETCH(double, dropped);
        double milliseconds = -dropped;
        double bytes = 0;
        for (const testing::LayerRow &row : testing::layerTable(table.toStdString())) {
            milliseconds += std::stod(row.forwardMs) + std::stod(row.backwardMs);
            bytes += std::stod(row.parameterBytes);
        }
        const auto model = import::zooProfile(name.toStdString());
        QVERIFY(model);
        double total = 0;
        for (const auto &[op, times] : model->profile->ops)
            total += (times.front().forward + times.front().backward).value() * 1e3;
        QVERIFY2(std::abs(total - milliseconds) < 1e-6, qPrintable(QString("%1 %2").arg(total).arg(milliseconds)));
        QVERIFY(std::abs(static_cast<double>(model->graph->parameterBytes().value()) - bytes)
                < 100); // rounded to whole elements
    }

    void namesAreListed()
    {
        const auto none = import::zooProfile("vgg-99");
        QVERIFY(!none);
        QCOMPARE(none.error().code, ErrorCode::NotFound);
        for (const import::ZooEntry &entry : import::zooProfileEntries()) {
            QVERIFY(none.error().message.find(entry.name) != std::string::npos);
            QVERIFY(import::zooProfile(entry.name));
        }
    }
};

QTEST_GUILESS_MAIN(TestProfileGraph)
#include "tst_profile_graph.moc"
