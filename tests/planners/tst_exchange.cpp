// SPDX-License-Identifier: Apache-2.0
// `--exchange`: a policy for the plan of any planner, and the delay of averages by simulated times. The expected times
// are those of the formulas for a flat network (ring all-reduce of P bytes over M machines: 2 (M - 1)(a + P / (M B))).
#include "tests/planners/exchange_problems.h"

#include <QTest>

using namespace planloom;
using testing::kHop;
using testing::kMachines;
using testing::must;
using testing::recurrent;
using testing::vgg19;
using testing::withExchange;

class TestExchange : public QObject {
    Q_OBJECT

private slots:
    void theDelayHidesTheAverage_data()
    {
        QTest::addColumn<double>("gigabits");
        QTest::addColumn<QString>("asked");
        QTest::addColumn<int>("localSteps");
        QTest::addColumn<int>("delay");
        // 822, 329 and 82 ms of average against steps of some 144 ms.
        QTest::newRow("10 Gb/s") << 10.0 << "dasgd,delay=auto" << 6 << 6;
        QTest::newRow("10 Gb/s, longer rounds") << 10.0 << "dasgd,local_steps=16,delay=auto" << 16 << 6;
        QTest::newRow("25 Gb/s") << 25.0 << "dasgd,delay=auto,local_steps=4" << 4 << 3;
        QTest::newRow("100 Gb/s") << 100.0 << "dasgd,local_steps=4,delay=auto" << 4 << 1;
    }
    void theDelayHidesTheAverage()
    {
        QFETCH(double, gigabits);
        QFETCH(QString, asked);
        QFETCH(int, localSteps);
        QFETCH(int, delay);
        const double bandwidth = gigabits * 1e9 / 8;
        const planners::Problem problem = vgg19(bandwidth);
        const planners::PlanReport report = withExchange(problem, asked.toStdString());
        const plan::DelayedAveraging &averaging = report.plan.exchange.averaging;
        QCOMPARE(averaging.localSteps, localSteps);
        QCOMPARE(averaging.delay, delay);
        const auto bytes = static_cast<double>(problem.subject.graph->parameterBytes().value());
        const double exchange = 2 * (kMachines - 1) * (kHop + bytes / (kMachines * bandwidth));
        const plan::Estimate &estimate = report.plan.estimate;
        const double average = estimate.at("averaging_exchange_seconds");
        QVERIFY2(std::abs(average / exchange - 1) < 0.02, qPrintable(QString("%1 %2").arg(average).arg(exchange)));
        const double step = estimate.at("averaging_step_seconds");
        QVERIFY2(std::abs(step / 0.14421 - 1) < 0.05, qPrintable(QString::number(step)));
        QVERIFY(std::abs(report.predicted.iterationSeconds / step - 1) < 1e-6);
        QVERIFY(estimate.at("averaging_hidden_share") > 0.999999);
        QCOMPARE(estimate.at("averaging_effective_share"), 1.0);
        QCOMPARE(estimate.at("averaging_effective_step_seconds"), report.predicted.iterationSeconds);
    }

    /// On 16 machines, averages of 329 ms and steps of some 144 ms: with rounds of 4 steps waiting costs less than what
    /// a delay throws away, with rounds of 8 it does not; of three steps that hide all two are enough.
    void convexDelaysOfAPlan()
    {
        const planners::Problem problem = vgg19(3.125e9);
        const auto planned = [&](int localSteps, const char *delay) {
            return withExchange(problem, "dasgd,merge=convex,local_steps=" + std::to_string(localSteps) + delay);
        };
        const auto seconds = [](const planners::PlanReport &report) {
            return report.plan.estimate.at("averaging_effective_step_seconds");
        };
        for (const auto &[localSteps, delay] : {std::pair{4, 0}, {8, 2}}) {
            const planners::PlanReport found = planned(localSteps, ",delay=auto");
            const plan::DelayedAveraging &averaging = found.plan.exchange.averaging;
            QCOMPARE(averaging.localSteps, localSteps);
            QCOMPARE(averaging.delay, delay);
            QCOMPARE(seconds(found), found.predicted.iterationSeconds / averaging.effectiveShare());
            for (const char *other : {",delay=0", ",delay=1", ",delay=2", ",delay=3"})
                QVERIFY(seconds(found) <= seconds(planned(localSteps, other)) * (1 + 1e-6));
            QVERIFY(!found.notes.empty()
                    && found.notes[0].find("takes the least time for the same progress") != std::string::npos);
        }
    }

    // Local SGD hides nothing; half of the delay that is needed hides half.
    void aShortDelayHidesAPart()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const auto hidden = [&](const char *text) {
            return withExchange(problem, text).plan.estimate.at("averaging_hidden_share");
        };
        QCOMPARE(hidden("dasgd,local_steps=8,delay=0"), 0.0);
        const double one = hidden("dasgd,local_steps=8,delay=1");
        QVERIFY(one > 0.16 && one < 0.19);
        QVERIFY(std::abs(hidden("dasgd,local_steps=8,delay=3") - 3 * one) < 0.02);
    }

    void notesSayWhatItCosts()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const auto notes = [&](const char *text) {
            std::string all;
            for (const std::string &note : withExchange(problem, text).notes)
                all += note + "\n";
            return QString::fromStdString(all);
        };
        // VGG-19 is trained by AdamW; nothing else is to be said.
        QCOMPARE(notes("dasgd,local_steps=8,delay=6").count(u'\n'), 1);
        QVERIFY(notes("dasgd,local_steps=8,delay=6").contains("averages are not synchronous training"));
        QVERIFY(notes("dasgd,local_steps=8,delay=6,merge=convex").contains("keeps 44 % of the steps' progress"));
        QVERIFY(notes("dasgd,local_steps=8,delay=7").contains("an odd delay"));
        QVERIFY(notes("dasgd,local_steps=8,delay=2").contains("% of the average is hidden"));
        QCOMPARE(notes("dasgd,local_steps=8,delay=0").count(u'\n'), 1); // local SGD waits, as it is asked to
    }

    void allReduceIsThePlannersOwn()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const planners::PlanReport own = testing::planned(problem, "data-parallel");
        const planners::PlanReport asked = withExchange(problem, "all-reduce");
        QCOMPARE(asked.predicted.iterationSeconds, own.predicted.iterationSeconds);
        QVERIFY(!asked.plan.estimate.contains("averaging_step_seconds"));
    }

    /// The planner's estimate is of synchronous training; that of the changed plan is its own, in time and speed-up.
    void estimatesAreOfThePlanAsItIs()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const plan::Estimate own = testing::planned(problem, "data-parallel").plan.estimate;
        QVERIFY(own.contains("all_reduce_seconds"));
        QCOMPARE(withExchange(problem, "all-reduce").plan.estimate, own);
        const auto checked = [](const planners::PlanReport &report, const plan::Estimate &before) {
            const plan::Estimate &now = report.plan.estimate;
            const double seconds = now.at("iteration_seconds");
            return seconds == report.predicted.iterationSeconds && seconds != before.at("iteration_seconds")
                && !now.contains("all_reduce_seconds") && !now.contains("speedup_with_overlap")
                && std::abs(now.at("speedup_over_one_device") * seconds
                                / (before.at("speedup_over_one_device") * before.at("iteration_seconds"))
                            - 1)
                < 1e-12;
        };
        QVERIFY(checked(withExchange(problem, "dasgd,local_steps=8,delay=6"), own));
        const planners::Problem tables = recurrent(false);
        QVERIFY(checked(withExchange(tables, "embrace"), testing::planned(tables, "data-parallel").plan.estimate));
    }

    // What was found beside the plan is predicted with the same exchange.
    void alternativesHaveTheSameExchange()
    {
        const planners::Problem problem = testing::zooProblem("vgg-19-layers", "dapple-b", 512);
        planners::PlanReport report = testing::planned(problem, "data-parallel");
        report.alternatives.push_back({report.plan, 1, 0});
        plan::Plan alone = report.plan;
        alone.stages[0].devices.resize(1);
        report.alternatives.push_back({alone, 2, 0});
        const auto request = must(planners::exchangeRequest("dasgd,local_steps=4,delay=2"));
        const planners::PlanReport changed = must(planners::withExchange(report, problem, request));
        QCOMPARE(changed.alternatives.size(), std::size_t{1}); // a single replica has no average
        QCOMPARE(changed.alternatives[0].simulatedSeconds, changed.predicted.iterationSeconds);
    }

    /// Without tables, those of the model, each with the fastest strategy; decay of their rows gives way.
    void tablesAreFound()
    {
        const planners::Problem problem = recurrent(false);
        const planners::PlanReport summed = testing::planned(problem, "data-parallel");
        const planners::PlanReport byRows = withExchange(problem, "embrace");
        const std::vector<plan::SparseTable> &tables = byRows.plan.exchange.sparse.tables;
        QCOMPARE(tables.size(), std::size_t{1});
        QCOMPARE(tables[0].parameter, std::string("embedding.weight"));
        QVERIFY(tables[0].strategy != plan::TableStrategy::AllReduce);
        QVERIFY(byRows.predicted.iterationSeconds < summed.predicted.iterationSeconds);
        QVERIFY(!byRows.notes.empty() && byRows.notes[0].find("weight decay of table embedding.weight is 0") == 0);
        for (const char *strategy : {"all-reduce", "all-gather", "all-to-all", "parameter-server"}) {
            const std::string asked = std::string("embrace,tables=embedding.weight:") + strategy;
            QVERIFY(withExchange(problem, asked).predicted.iterationSeconds
                    >= byRows.predicted.iterationSeconds * (1 - 1e-9));
        }
        const plan::SparseExchange named = withExchange(problem, "embrace,tables=*:all-gather").plan.exchange.sparse;
        QCOMPARE(named.tables.size(), std::size_t{1});
        QCOMPARE(named.tables[0].parameter, tables[0].parameter);
        QCOMPARE(named.scheduling, plan::ExchangeScheduling::TwoDimensional);
        const auto nothing = planners::withExchange(testing::planned(problem, "data-parallel"), problem,
                                                    must(planners::exchangeRequest("embrace,tables=decoder.*")));
        QVERIFY(!nothing && nothing.error().message.find("matches no table") != std::string::npos);
        QVERIFY(nothing.error().message.ends_with("; it has embedding.weight"));
        const planners::Problem tied = recurrent(true);
        const auto refused = planners::withExchange(testing::planned(tied, "data-parallel"), tied,
                                                    must(planners::exchangeRequest("embrace")));
        QVERIFY(!refused && refused.error().message.find("no table that is looked up") != std::string::npos);
    }

    /// A setting that forbids rows leaves the table whole, unless rows were asked for.
    void notesSayWhyTablesStayWhole()
    {
        planners::Problem problem = recurrent(false);
        problem.optimizer.clipNorm = 1;
        const planners::PlanReport report = withExchange(problem, "embrace");
        QCOMPARE(report.plan.exchange.sparse.tables.at(0).strategy, plan::TableStrategy::AllReduce);
        QVERIFY(!report.notes.empty());
        QVERIFY2(report.notes[0].starts_with("table embedding.weight is summed up as a whole; by rows: gradients are "
                                             "clipped to a norm of 1"),
                 report.notes[0].c_str());
    }

    /// A delay that hides the average of all but the table, which is found, too.
    void tablesAndAveragesAreFound()
    {
        const planners::Problem problem = recurrent(false);
        const planners::PlanReport report = withExchange(problem, "embrace,dense=dasgd,local_steps=6,delay=auto");
        const plan::Exchange &exchange = report.plan.exchange;
        QVERIFY(exchange.averages() && exchange.hasTables());
        const plan::Estimate &estimate = report.plan.estimate;
        const double needed =
            std::ceil(estimate.at("averaging_exchange_seconds") / estimate.at("averaging_step_seconds") - 1e-9);
        QCOMPARE(exchange.averaging.delay, static_cast<std::int64_t>(needed));
        const double table = 4e4 * 64; // bytes
        const double averaged = static_cast<double>(problem.subject.graph->parameterBytes().value()) - table;
        const double seconds = 2 * 15 * averaged / (16 * 1e9); // over 16 machines at 1 GB/s, without latencies
        QVERIFY(std::abs(estimate.at("averaging_exchange_seconds") / seconds - 1) < 0.2);
        QVERIFY(report.predicted.iterationSeconds < withExchange(problem, "embrace").predicted.iterationSeconds);
        // An average that the first rows of a step waited for would be hidden by none of its work.
        planners::Problem longer = problem;
        longer.globalBatch = 1 << 16;
        const plan::Estimate moved =
            withExchange(longer, "embrace,dense=dasgd,local_steps=4,delay=2,tables=*:all-to-all:whole").plan.estimate;
        QVERIFY(moved.at("averaging_exchange_seconds") < moved.at("averaging_step_seconds"));
        QVERIFY2(moved.at("averaging_hidden_share") > 0.95,
                 qPrintable(QString::number(moved.at("averaging_hidden_share"))));
    }

    void refusals()
    {
        QVERIFY(!planners::exchangeRequest("dasgd,delay=automatic"));
        planners::Problem problem = vgg19(1.25e9);
        planners::PlanReport report = testing::planned(problem, "data-parallel");
        report.plan.stages[0].zero = 1;
        const auto request = must(planners::exchangeRequest("dasgd,delay=auto"));
        // What the planner chose by itself gives way; what was asked for does not.
        const planners::PlanReport whole = must(planners::withExchange(report, problem, request));
        QCOMPARE(whole.plan.stages[0].zero, 0);
        QVERIFY(!whole.notes.empty() && whole.notes[0].find("ZeRO") != std::string::npos);
        problem.zero = 1;
        const auto refused = planners::withExchange(report, problem, request);
        QVERIFY(!refused);
        QVERIFY2(refused.error().message.find("exchange dasgd needs ZeRO 0") != std::string::npos,
                 refused.error().message.c_str());
    }

    void snapshotsMustFit()
    {
        planners::Problem problem = vgg19(1.25e9);
        const planners::PlanReport report = testing::planned(problem, "data-parallel");
        cluster::RegularCluster spec;
        spec.name = "small";
        spec.nodes = kMachines;
        spec.type = *cluster::knownDeviceType("V100");
        const std::int64_t peak = report.predicted.devices.front().peakBytes;
        spec.type.memory = Bytes(peak + problem.subject.graph->parameterBytes().value() * 3 / 2);
        spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1.25e9;
        problem = testing::problemOf(must(import::zooProfile("vgg-19-layers")), must(cluster::regular(spec)),
                                     problem.globalBatch);
        const auto asked = [&](const char *text) {
            return planners::withExchange(report, problem, must(planners::exchangeRequest(text)));
        };
        QVERIFY(asked("dasgd,merge=convex").ok());
        const auto refused = asked("dasgd,merge=corrected");
        QVERIFY(!refused && refused.error().code == ErrorCode::Infeasible);
    }
};

QTEST_GUILESS_MAIN(TestExchange)
#include "tst_exchange.moc"
