// SPDX-License-Identifier: Apache-2.0
// The table of resources/docs/planners/whale.md prints what is simulated today.
#include "tests/bench/whale_table.h"
#include "tests/docs_table.h"

#include <QTest>

using namespace planloom;

class TestWhaleTable : public QObject {
    Q_OBJECT

private slots:
    void row_data()
    {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("cluster");
        for (const char *model : bench::kWhaleModels)
            for (const char *cluster : bench::kWhaleClusters)
                QTest::addRow("%s %s", model, cluster) << model << cluster;
    }
    void row()
    {
        QFETCH(QString, model);
        QFETCH(QString, cluster);
        static const auto table =
            test::docsTable(PLANLOOM_SOURCE_DIR "/resources/docs/planners/whale.md", "`bench_whale`");
        const auto row = bench::whaleRow(model.toStdString(), cluster.toStdString());
        QVERIFY2(row.ok(), row ? "" : row.error().text().c_str());
        std::vector<std::string> printed{cluster.toStdString()};
        for (const std::string &cell : row->cells())
            printed.push_back(cell);
        const auto [first, last] = table.equal_range(model.toStdString());
        const auto found =
            std::find_if(first, last, [&](const auto &entry) { return entry.second.front() == printed.front(); });
        QVERIFY2(found != last, "the page has no such row; print the table again with bench_whale");
        const auto &page = found->second;
        QCOMPARE(page.size(), printed.size());
        for (std::size_t i = 0; i < page.size(); ++i) {
            const auto value = std::strtod(printed[i].c_str(), nullptr);
            QVERIFY2(page[i] == printed[i] || (value > 0 && test::isPrinted(page[i], value)),
                     qPrintable(QString("column %1: the page has %2, simulated is %3; print the table again with "
                                        "bench_whale")
                                    .arg(i + 2)
                                    .arg(page[i].c_str(), printed[i].c_str())));
        }
    }
};

QTEST_GUILESS_MAIN(TestWhaleTable)
#include "tst_whale_table.moc"
