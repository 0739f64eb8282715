// SPDX-License-Identifier: Apache-2.0
// What an exchange costs beside what it could be: tables, orders of communication, delays and methods of averaging.
#include "engine/compile/compile.h"
#include "engine/cost/sparse_rows.h"
#include "planners/common/averaging_delay.h"
#include "planners/common/averaging_map.h"
#include "planners/common/exchange_figures.h"
#include "planners/common/exchange_warnings.h"
#include "tests/planners/exchange_problems.h"
#include "tests/stopped_after.h"

#include <QTest>

#include <cmath>
#include <limits>

using namespace planloom;
using plan::TableStrategy;
using planners::ExchangeChoice;
using planners::TableWay;
using testing::kHop;
using testing::kMachines;
using testing::must;
using testing::recurrent;
using testing::vgg19;
using testing::withExchange;

namespace {

/// Bytes that ranks send in a step for rows of tables, on average, by the Program of each of them.
double sentOfRows(const plan::Plan &plan, const plan::Subject &subject)
{
    const program::Program program = must(compile::compilePlan(plan, subject, {.bodies = false}));
    double sent = 0;
    for (const program::Task &task : program.tasks)
        if (const auto *rows = task.as<program::RowExchange>())
            sent += static_cast<double>(rows->bytes);
    return sent / static_cast<double>(program.ranks.size());
}

} // namespace

class TestExchangeFigures : public QObject {
    Q_OBJECT

private slots:
    /// Each way's time is that of a plan with it.
    void waysOfATable()
    {
        const planners::Problem problem = recurrent(false);
        const plan::Plan plan = withExchange(problem, "embrace,tables=*:all-gather:whole").plan;
        NoProgress progress;
        const auto tables = must(planners::tableFigures(plan, problem.subject, progress));
        QCOMPARE(tables.size(), std::size_t{1});
        const planners::TableFigures &table = tables[0];
        QCOMPARE(table.parameter, std::string("embedding.weight"));
        QCOMPARE(table.rows, 10'000);
        QCOMPARE(table.columns, 64);
        QCOMPARE(table.bytes(), 2'560'000);
        QCOMPARE(table.replicas, kMachines);
        QCOMPARE(table.ways.size(), std::size_t{7});
        int planned = 0;
        for (const TableWay &way : table.ways) {
            QVERIFY2(way.refusal.empty(), way.refusal.c_str());
            const std::string asked = std::string("embrace,tables=*:") + plan::name(way.table.strategy)
                + (way.table.split ? ":split" : ":whole");
            QCOMPARE(way.seconds, withExchange(problem, asked).predicted.iterationSeconds);
            planned += way.asPlanned ? 1 : 0;
            QCOMPARE(way.asPlanned, way.table.strategy == TableStrategy::AllGather && !way.table.split);
            QVERIFY(table.fastest()->seconds <= way.seconds);
        }
        QCOMPARE(planned, 1);
        const plan::SparseTable found = withExchange(problem, "embrace,scheduling=2d").plan.exchange.sparse.tables[0];
        QCOMPARE(table.fastest()->table, found);
    }

    void whatAReplicaLooksUpAndSends()
    {
        const planners::Problem problem = recurrent(false);
        const plan::Plan plan = withExchange(problem, "embrace,tables=*:all-to-all:split").plan;
        NoProgress progress;
        const planners::TableFigures table = must(planners::tableFigures(plan, problem.subject, progress))[0];
        const auto ids = std::llround(table.lookedUp.ids);
        QVERIFY(ids > 0 && ids % (128 / kMachines) == 0);
        const cost::ExpectedRows expected = cost::expectedRows(10'000, ids, kMachines);
        QCOMPARE(table.density(), expected.unique / 10'000);
        QCOMPARE(table.priorShare(), expected.prior / expected.unique);
        for (const char *strategy : {"all-gather", "all-to-all", "parameter-server"}) {
            const plan::Plan whole = withExchange(problem, std::string("embrace,tables=*:") + strategy + ":whole").plan;
            const double sent = sentOfRows(whole, problem.subject);
            const double told = table.sentBytes(whole.exchange.sparse.tables[0].strategy, kMachines);
            QVERIFY2(std::abs(told / sent - 1) < 1e-3, qPrintable(QString("%1 %2").arg(told).arg(sent)));
        }
        QCOMPARE(table.sentBytes(TableStrategy::AllReduce, 4), 1.5 * 2'560'000);
        // All-gather sends less than all-reduce up to twice the reciprocal of the density.
        const double crossing = 2 / table.density();
        QCOMPARE(table.mostGathered(), crossing);
        QVERIFY(std::abs(table.sentBytes(TableStrategy::AllGather, crossing)
                             / table.sentBytes(TableStrategy::AllReduce, crossing)
                         - 1)
                < 1e-9);
    }

    /// Larger batches look up more rows, each of the plan's replicas as many as expected of its samples; between them
    /// lies the batch at which all-gather sends as much as all-reduce.
    void rowsByBatch()
    {
        const planners::Problem problem = recurrent(false);
        const plan::Plan plan = withExchange(problem, "embrace,tables=*:all-to-all:split").plan;
        NoProgress progress;
        const planners::TableFigures table = must(planners::tableFigures(plan, problem.subject, progress))[0];
        QCOMPARE(table.batch, 128);
        QVERIFY(table.byBatch.size() > 10 && table.byBatch.front().batch == kMachines);
        const double idsPerSample = table.lookedUp.ids * kMachines / 128;
        for (std::size_t i = 0; i < table.byBatch.size(); ++i) {
            const planners::BatchRows &point = table.byBatch[i];
            const auto ids = std::llround(point.batch / kMachines * idsPerSample);
            QCOMPARE(point.unique, cost::expectedRows(10'000, ids, kMachines).unique);
            QVERIFY(i == 0 || point.unique > table.byBatch[i - 1].unique);
        }
        QVERIFY(table.byBatch.back().unique >= 9'990 || table.byBatch.back().batch > 100 * 128);
        const double wanted = 2.0 / kMachines;
        const auto batch = table.batchWith(wanted);
        QVERIFY(batch.has_value());
        const auto ids = std::llround(*batch / kMachines * idsPerSample);
        QVERIFY(std::abs(cost::expectedRows(10'000, ids, kMachines).unique / 10'000 / wanted - 1) < 0.02);
        QVERIFY(!table.batchWith(1.01).has_value());
    }

    /// A table that the plan sums up as a whole, and one that it cannot exchange by rows.
    void tablesThatAreNotExchangedByRows()
    {
        const planners::Problem problem = recurrent(false);
        plan::Plan plan = withExchange(problem, "embrace,tables=*:all-reduce").plan;
        NoProgress progress;
        const planners::TableFigures summed = must(planners::tableFigures(plan, problem.subject, progress))[0];
        QVERIFY(summed.ways[0].asPlanned && summed.replicas == kMachines);
        plan.stages[0].devices.resize(1);
        const planners::TableFigures alone = must(planners::tableFigures(plan, problem.subject, progress))[0];
        QCOMPARE(alone.replicas, 0);
        QVERIFY(alone.ways[0].refusal.empty());
        QVERIFY2(alone.ways[1].refusal.find("one replica") != std::string::npos, alone.ways[1].refusal.c_str());
        QCOMPARE(alone.fastest(), &alone.ways[0]);
    }

    void ordersOfCommunication()
    {
        const planners::Problem problem = recurrent(false);
        const planners::PlanReport report =
            withExchange(problem, "embrace,scheduling=horizontal,tables=*:all-to-all:split");
        NoProgress progress;
        const auto orders = must(planners::schedulingFigures(report.plan, problem.subject, progress));
        QCOMPARE(orders.size(), std::size_t{3});
        QCOMPARE(orders[1].name, std::string("horizontal"));
        QCOMPARE(orders[1].seconds.step, report.predicted.iterationSeconds);
        for (const ExchangeChoice &order : orders) {
            QVERIFY(order.refusal.empty());
            QCOMPARE(order.asPlanned, order.name == "horizontal");
            QVERIFY(order.seconds.exposed > 0 && order.seconds.exposed < order.seconds.step);
        }
        QVERIFY(orders[2].seconds.exposed <= orders[0].seconds.exposed);
    }

    /// 822 ms of average against steps of 144 ms, in rounds of 8: t + max(0, t_c - d t) / rounds.
    void stepsByDelay()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const planners::PlanReport report = withExchange(problem, "dasgd,local_steps=8,delay=3");
        NoProgress progress;
        const planners::AveragingFigures figures =
            must(planners::averagingFigures(report.plan, problem.subject, progress));
        const auto bytes = static_cast<double>(problem.subject.graph->parameterBytes().value());
        const double average = 2 * (kMachines - 1) * (kHop + bytes / (kMachines * 1.25e9));
        QVERIFY(std::abs(figures.times.exchange / average - 1) < 0.02);
        QCOMPARE(figures.times.leastDelay(), 6);
        QCOMPARE(figures.seconds, report.predicted.iterationSeconds);
        QCOMPARE(figures.hiddenShare, report.plan.estimate.at("averaging_hidden_share"));
        QCOMPARE(figures.byDelay.size(), std::size_t{17});
        for (std::size_t d = 0; d < figures.byDelay.size(); ++d) {
            const planners::DelayPoint &point = figures.byDelay[d];
            QCOMPARE(point.delay, static_cast<std::int64_t>(d));
            QCOMPARE(point.localSteps, std::max<std::int64_t>(8, point.delay));
            const double t = figures.times.step;
            const double waited = std::max(0.0, figures.times.exchange - static_cast<double>(d) * t);
            const double expected = t + waited / static_cast<double>(point.localSteps);
            QVERIFY2(std::abs(point.seconds / expected - 1) < 0.01,
                     qPrintable(QString("%1: %2 %3").arg(d).arg(point.seconds).arg(expected)));
        }
        QCOMPARE(figures.byDelay[3].seconds, figures.seconds);
    }

    /// Every cell is the step of a plan with its pair; the least for a step of progress is that of the formula.
    void roundsAgainstDelays()
    {
        const planners::Problem problem = vgg19(1.25e9);
        for (const char *merge : {"corrected", "convex"}) {
            const std::string asked = std::string("dasgd,local_steps=6,delay=5,merge=") + merge;
            const planners::PlanReport report = withExchange(problem, asked);
            NoProgress progress;
            const planners::AveragingMap map = must(planners::averagingMap(report.plan, problem.subject, progress));
            QCOMPARE(map.rounds, (std::vector<std::int64_t>{1, 2, 4, 6, 8, 16}));
            QCOMPARE(map.delays, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 8, 12, 16}));
            QVERIFY(map.at(4, 5) == nullptr && map.at(3, 1) == nullptr);
            QCOMPARE(map.at(6, 5)->seconds, report.predicted.iterationSeconds);
            const auto times = must(planners::averagingTimes(report.plan, problem.subject));
            double least = std::numeric_limits<double>::infinity();
            for (const planners::AveragingCell &cell : map.cells) {
                QVERIFY2(cell.refusal.empty(), cell.refusal.c_str());
                QVERIFY(cell.delay <= cell.localSteps);
                plan::DelayedAveraging averaging = report.plan.exchange.averaging;
                averaging.localSteps = cell.localSteps;
                averaging.delay = cell.delay;
                const double expected = planners::secondsPerEffectiveStep(averaging, times.step, times.exchange);
                QCOMPARE(cell.hasSeconds(), std::isfinite(expected));
                if (!cell.hasSeconds())
                    continue;
                QVERIFY2(std::abs(cell.effectiveSeconds() / expected - 1) < 0.01,
                         qPrintable(QString("%1 %2: %3 %4")
                                        .arg(cell.localSteps)
                                        .arg(cell.delay)
                                        .arg(cell.effectiveSeconds())
                                        .arg(expected)));
                least = std::min(least, cell.effectiveSeconds());
            }
            QVERIFY(map.best()->effectiveSeconds() <= least * (1 + 1e-5));
            if (report.plan.exchange.averaging.merge == plan::Merge::Corrected)
                QVERIFY(map.best()->delay == 6 && map.best()->hiddenShare > 0.99); // the knee of stepsByDelay
        }
    }

    /// What is said against an exchange, of the plan alone.
    void warnings()
    {
        const auto said = [](const planners::Problem &problem, const char *exchange) {
            std::string all;
            for (const std::string &warning : planners::exchangeWarnings(withExchange(problem, exchange).plan))
                all += warning + "\n";
            return all;
        };
        const auto has = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
        planners::Problem problem = vgg19(1.25e9);
        problem.optimizer.rule = must(update::ConfiguredRule::named("sgd"));
        QCOMPARE(said(problem, "dasgd,local_steps=8,delay=2"), std::string());
        QCOMPARE(said(problem, "all-reduce"), std::string());
        QVERIFY(has(said(problem, "dasgd,local_steps=8,delay=3"), "odd delay"));
        const std::string convex = said(problem, "dasgd,local_steps=8,delay=3,merge=convex");
        QVERIFY2(!has(convex, "odd delay") && !has(convex, "keeps"), convex.c_str()); // 72 %
        QVERIFY(has(said(problem, "dasgd,local_steps=8,delay=4,merge=convex"), "keeps 63 % of the steps' progress"));
        problem.optimizer.rule = must(update::ConfiguredRule::named("adamw"));
        QVERIFY(has(said(problem, "dasgd,local_steps=8,delay=2"), "with adamw averages are not synchronous"));
        QCOMPARE(said(problem, "all-reduce"), std::string());
        QCOMPARE(said(recurrent(false), "embrace"), std::string());
        plan::Plan two = withExchange(recurrent(false), "embrace,tables=*:all-to-all").plan;
        two.stages[0].devices.resize(2);
        two.stages[0].replicaShares.clear();
        QVERIFY(has(planners::exchangeWarnings(two).front(), "between two replicas"));
    }

    void delaysOfLongRounds()
    {
        const planners::Problem problem = vgg19(1.25e10);
        const plan::Plan plan = withExchange(problem, "dasgd,local_steps=50,delay=0").plan;
        NoProgress progress;
        const auto points = must(planners::averagingFigures(plan, problem.subject, progress)).byDelay;
        QCOMPARE(points.size(), std::size_t{33});
        QCOMPARE(points.front().delay, 0);
        QCOMPARE(points[16].delay, 50);
        QCOMPARE(points.back().delay, 100);
    }

    /// Synchronous training exposes what local SGD exposes once in a round; CoCoD all but nothing, as its delay is the
    /// round.
    void methodsSideBySide()
    {
        const planners::Problem problem = vgg19(1.25e9);
        const planners::PlanReport report = withExchange(problem, "dasgd,local_steps=8,delay=2");
        NoProgress progress;
        const auto methods = must(planners::averagingFigures(report.plan, problem.subject, progress)).methods;
        QCOMPARE(methods.size(), std::size_t{4});
        const char *names[] = {"synchronous", "local SGD", "CoCoD", "DaSGD, d = 2"};
        for (std::size_t m = 0; m < methods.size(); ++m) {
            QCOMPARE(methods[m].name, std::string(names[m]));
            QVERIFY2(methods[m].refusal.empty(), methods[m].refusal.c_str());
            QCOMPARE(methods[m].asPlanned, m == 3);
        }
        QCOMPARE(methods[0].seconds.step, testing::planned(problem, "data-parallel").predicted.iterationSeconds);
        QCOMPARE(methods[3].seconds.step, report.predicted.iterationSeconds);
        QVERIFY(methods[0].seconds.step > methods[1].seconds.step);
        QVERIFY(methods[1].seconds.step > methods[3].seconds.step && methods[3].seconds.step > methods[2].seconds.step);
        QVERIFY(methods[2].seconds.exposed < 1e-3 * methods[2].seconds.step);
    }

    void stops()
    {
        const planners::Problem tables = recurrent(false);
        const plan::Plan byRows = withExchange(tables, "embrace").plan;
        StoppedAfter three(3);
        const auto stopped = planners::tableFigures(byRows, tables.subject, three);
        QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
        StoppedAfter one(1);
        const auto orders = planners::schedulingFigures(byRows, tables.subject, one);
        QVERIFY(!orders && orders.error().code == ErrorCode::Cancelled);
        const planners::Problem dense = vgg19(1.25e9);
        StoppedAfter seven(7);
        const auto averages = planners::averagingFigures(withExchange(dense, "dasgd").plan, dense.subject, seven);
        QVERIFY(!averages && averages.error().code == ErrorCode::Cancelled);
        StoppedAfter four(4);
        const auto map = planners::averagingMap(withExchange(dense, "dasgd").plan, dense.subject, four);
        QVERIFY(!map && map.error().code == ErrorCode::Cancelled);
    }
};

QTEST_GUILESS_MAIN(TestExchangeFigures)
#include "tst_exchange_figures.moc"
