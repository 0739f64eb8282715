// SPDX-License-Identifier: Apache-2.0
// What resources/docs/planners/comparison.md prints of the planners that need no search of minutes, on clusters of up
// to 16 devices, is what they find today. bench_planners prints the rest, in hours.
#include "tests/bench/planner_grid.h"
#include "tests/docs_table.h"

#include <QTest>

using namespace planloom;

class TestPlannerGrid : public QObject {
    Q_OBJECT

private slots:
    void row_data()
    {
        QTest::addColumn<int>("model");
        QTest::addColumn<QString>("cluster");
        for (int model = 0; model < static_cast<int>(std::size(bench::kGridModels)); ++model)
            for (const char *cluster : bench::kGridClusters)
                if (must(cluster).devices().size() <= 16)
                    QTest::addRow("%s %s", bench::kGridModels[model].name, cluster) << model << cluster;
    }
    void row()
    {
        QFETCH(int, model);
        QFETCH(QString, cluster);
        static const auto table =
            test::docsTable(PLANLOOM_SOURCE_DIR "/resources/docs/planners/comparison.md", "planloom bench planners");
        const bench::GridModel &grid = bench::kGridModels[model];
        const auto [first, last] = table.equal_range(grid.name);
        const auto found =
            std::find_if(first, last, [&](const auto &entry) { return entry.second.front() == cluster.toStdString(); });
        QVERIFY2(found != last, "the page has no such row");
        const auto imported = import::loadModel(std::string("zoo:") + grid.name);
        QVERIFY2(imported.ok(), imported ? "" : imported.error().text().c_str());
        const planners::Problem problem = bench::gridProblem(grid, *imported, must(cluster.toStdString()));
        const std::vector<std::string> &columns = table.find("model")->second;
        for (const char *name : {"data-parallel", "gpipe"}) {
            const auto column = std::find(columns.begin(), columns.end(), name) - columns.begin();
            QVERIFY(column < static_cast<std::ptrdiff_t>(found->second.size()));
            NoProgress progress;
            const auto report = (*planners::findPlanner(name))->plan(problem, {}, progress);
            const double seconds = report && report->predicted.fits ? report->predicted.iterationSeconds : 0;
            const std::string &page = found->second[static_cast<std::size_t>(column)];
            QVERIFY2(page == bench::gridMilliseconds(seconds) || (seconds > 0 && test::isPrinted(page, 1e3 * seconds)),
                     qPrintable(QString("%1: the page has %2, found is %3; print the row again with bench_planners")
                                    .arg(name, page.c_str(), bench::gridMilliseconds(seconds).c_str())));
        }
    }

private:
    static cluster::Cluster must(const std::string &preset)
    {
        auto cluster = cluster::preset(preset);
        if (!cluster)
            qFatal("%s", cluster.error().text().c_str());
        return *std::move(cluster);
    }
};

QTEST_GUILESS_MAIN(TestPlannerGrid)
#include "tst_planner_grid.moc"
