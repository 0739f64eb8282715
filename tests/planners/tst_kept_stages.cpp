// SPDX-License-Identifier: Apache-2.0
// Option `keep`: stages and cuts that a search leaves as they are.
#include "planners/common/kept_stages.h"
#include "tests/planners/planner_helpers.h"

#include <QTest>

using namespace planloom;
using namespace planloom::planners;

namespace {

constexpr std::size_t kLayers = 8;

/// On two nodes of two devices.
Problem randomProblem(unsigned seed)
{
    std::mt19937 random(seed);
    return testing::problemOf(testing::randomModel(random, kLayers), testing::smallCluster(2, 2), 8);
}

KeptStages kept(const std::string &text) { return testing::must(keptStages({{kKeepOption, text}}, kLayers)); }

/// All stages of @p plan, with their devices.
KeptStages allOf(const plan::Plan &plan)
{
    KeptStages kept;
    for (const plan::Stage &stage : plan.stages)
        kept.runs.push_back({stage.firstLayer, stage.lastLayer, stage.devices.size()});
    return kept;
}

} // namespace

class TestKeptStages : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void texts_data();
    void texts();
    void wrongTextsAreRefused_data();
    void wrongTextsAreRefused();
    void allowsWhatIsKept();
    void plannersKeep_data();
    void plannersKeep();
    void theBestPlanIsFoundAgain_data();
    void theBestPlanIsFoundAgain();
    void whatCannotBeKept_data();
    void whatCannotBeKept();
    void othersRefuse();
};

void TestKeptStages::texts_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("written");
    QTest::newRow("none") << "none"
                          << "";
    QTest::newRow("nothing") << ""
                             << "";
    QTest::newRow("a stage") << "0-3"
                             << "0-3";
    QTest::newRow("a stage on two devices") << "0-3:2"
                                            << "0-3:2";
    QTest::newRow("a stage of one layer") << "7-7:1"
                                          << "7-7:1";
    QTest::newRow("a cut") << "5"
                           << "5";
    QTest::newRow("sorted, once") << "6,4-5:1, 2,0-1,2"
                                  << "0-1,4-5:1,2,6";
}

void TestKeptStages::texts()
{
    QFETCH(QString, text);
    QFETCH(QString, written);
    const KeptStages read = kept(text.toStdString());
    QCOMPARE(QString::fromStdString(textOf(read)), written);
    QCOMPARE(kept(textOf(read)), read);
}

void TestKeptStages::wrongTextsAreRefused_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("says");
    QTest::newRow("words") << "all"
                           << "write it as";
    QTest::newRow("empty part") << "0-3,,5"
                                << "write it as";
    QTest::newRow("backwards") << "5-3"
                               << "write it as";
    QTest::newRow("no device") << "0-3:0"
                               << "write it as";
    QTest::newRow("negative") << "-3"
                              << "write it as";
    QTest::newRow("a number too large") << "0-99999999999999999999"
                                        << "write it as";
    QTest::newRow("the largest number") << "2-18446744073709551615"
                                        << "layers 2-18446744073709551615, but the model's are 0-7";
    QTest::newRow("beyond the model") << "4-8"
                                      << "0-7";
    QTest::newRow("a cut before all") << "0"
                                      << "give 1 to 7";
    QTest::newRow("a cut behind all") << "8"
                                      << "give 1 to 7";
    QTest::newRow("two stages with a layer") << "0-3,3-5"
                                             << "layer 3 in two stages";
    QTest::newRow("a cut in a stage") << "2-5,4"
                                      << "inside of the stage 2-5";
}

void TestKeptStages::wrongTextsAreRefused()
{
    QFETCH(QString, text);
    QFETCH(QString, says);
    const auto read = keptStages({{kKeepOption, text.toStdString()}}, kLayers);
    QVERIFY(!read);
    QVERIFY2(read.error().text().find(says.toStdString()) != std::string::npos, read.error().text().c_str());
}

void TestKeptStages::allowsWhatIsKept()
{
    const KeptStages keeps = kept("2-4:2,6");
    QVERIFY(keeps.allows(0, 2) && keeps.allows(1, 2) && keeps.allows(5, 6) && keeps.allows(6, 8));
    QVERIFY(keeps.allows(2, 5) && keeps.allows(2, 5, 2) && !keeps.allows(2, 5, 1));
    QVERIFY(!keeps.allows(2, 4) && !keeps.allows(3, 5) && !keeps.allows(0, 3) && !keeps.allows(0, 8));
    QVERIFY(!keeps.allows(5, 7));
    QCOMPARE(keeps.edges(kLayers), (std::vector<std::size_t>{2, 5, 6}));
    QCOMPARE(keeps.mostStages(kLayers), std::size_t{6});
    QVERIFY(KeptStages().empty() && KeptStages().allows(0, 8, 3));
}

void TestKeptStages::plannersKeep_data()
{
    QTest::addColumn<QString>("planner");
    QTest::addColumn<QString>("keep");
    for (const char *planner : {"gpipe", "dapple", "auto"}) {
        for (const char *keep : {"0-2:1", "3-4", "5", "1-1,6", "2,3,4"})
            QTest::addRow("%s keeps %s", planner, keep) << planner << keep;
    }
    QTest::addRow("dapple keeps two devices") << "dapple"
                                              << "0-4:2";
    QTest::addRow("auto keeps two devices") << "auto"
                                            << "0-4:2";
    QTest::addRow("auto keeps three devices") << "auto"
                                              << "3-7:3";
}

void TestKeptStages::plannersKeep()
{
    QFETCH(QString, planner);
    QFETCH(QString, keep);
    const Problem problem = randomProblem(7);
    Options options{{kKeepOption, keep.toStdString()}};
    if (planner == QLatin1String("auto"))
        options["simulations"] = "32";
    if (planner == QLatin1String("dapple"))
        options["families"] = "all";
    const PlanReport report = testing::planned(problem, planner.toStdString(), options);
    const KeptStages keeps = kept(keep.toStdString());
    QVERIFY2(keeps.allows(report.plan), testing::shapeOf(report.plan).c_str());
    for (const Candidate &other : report.alternatives)
        QVERIFY2(keeps.allows(other.plan), testing::shapeOf(other.plan).c_str());
    QCOMPARE(report.plan.planner.options.at(kKeepOption), keep.toStdString());
}

void TestKeptStages::theBestPlanIsFoundAgain_data()
{
    QTest::addColumn<unsigned>("seed");
    for (unsigned seed = 1; seed <= 4; ++seed)
        QTest::addRow("seed %u", seed) << seed;
}

/// Its own stages cost a plan nothing; other ones cannot make it faster.
void TestKeptStages::theBestPlanIsFoundAgain()
{
    QFETCH(unsigned, seed);
    const Problem problem = randomProblem(seed);
    const PlanReport best = testing::planned(problem, "dapple", {{"families", "all"}});
    const PlanReport again =
        testing::planned(problem, "dapple", {{"families", "all"}, {kKeepOption, textOf(allOf(best.plan))}});
    QCOMPARE(testing::shapeOf(again.plan), testing::shapeOf(best.plan));
    QCOMPARE(again.predicted.iterationSeconds, best.predicted.iterationSeconds);
    const PlanReport other = testing::planned(problem, "dapple", {{"families", "all"}, {kKeepOption, "0-0:1,7"}});
    QVERIFY(other.predicted.iterationSeconds >= best.predicted.iterationSeconds * (1 - 1e-9));
}

void TestKeptStages::whatCannotBeKept_data()
{
    QTest::addColumn<QString>("planner");
    QTest::addColumn<QString>("keep");
    QTest::addColumn<QString>("stages");
    QTest::addColumn<QString>("says");
    QTest::newRow("more devices than gpipe gives") << "gpipe"
                                                   << "0-3:2"
                                                   << ""
                                                   << "plan with dapple or auto";
    QTest::newRow("more stages than asked for") << "gpipe"
                                                << "2,4,6"
                                                << "2"
                                                << "no cut into 2 stages keeps 2,4,6";
    QTest::newRow("all layers in more stages") << "gpipe"
                                               << "0-7"
                                               << "3"
                                               << "no cut into 3 stages keeps 0-7";
    QTest::newRow("more devices than there are") << "dapple"
                                                 << "0-3:9"
                                                 << ""
                                                 << "keep less";
    QTest::newRow("auto, the same") << "auto"
                                    << "0-3:9"
                                    << ""
                                    << "keep less";
}

void TestKeptStages::whatCannotBeKept()
{
    QFETCH(QString, planner);
    QFETCH(QString, keep);
    QFETCH(QString, stages);
    QFETCH(QString, says);
    Options options{{kKeepOption, keep.toStdString()}};
    if (!stages.isEmpty())
        options["stages"] = stages.toStdString();
    if (planner == QLatin1String("auto"))
        options["simulations"] = "16";
    NoProgress progress;
    const auto report = testing::must(findPlanner(planner.toStdString()))->plan(randomProblem(3), options, progress);
    QVERIFY(!report);
    QVERIFY2(report.error().text().find(says.toStdString()) != std::string::npos, report.error().text().c_str());
}

void TestKeptStages::othersRefuse()
{
    NoProgress progress;
    const auto report =
        testing::must(findPlanner("pipedream"))->plan(randomProblem(1), {{kKeepOption, "0-3"}}, progress);
    QVERIFY(!report);
    QVERIFY2(report.error().text().find("keep") != std::string::npos, report.error().text().c_str());
}

QTEST_GUILESS_MAIN(TestKeptStages)
#include "tst_kept_stages.moc"
