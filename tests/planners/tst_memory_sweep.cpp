// SPDX-License-Identifier: Apache-2.0
// What memory policies cost by their budget: each point is a plan of its own, simulated.
#include "engine/compile/compile.h"
#include "engine/import/import.h"
#include "engine/simulate/simulate.h"
#include "planners/common/memory_sweep.h"
#include "tests/planners/planner_helpers.h"
#include "tests/stopped_after.h"

#include <QTest>

#include <algorithm>
#include <cmath>

using namespace planloom;

class TestMemorySweep : public QObject {
    Q_OBJECT

    planners::Problem m_problem;
    plan::Plan m_plan;

private slots:
    void initTestCase()
    {
        const auto model = import::loadModel("zoo:gpt-nano");
        const auto cluster = import::loadCluster("local:2");
        QVERIFY(model.ok() && cluster.ok());
        m_problem.subject = plan::makeSubject(model->graph, *cluster, model->profile, model->source);
        m_problem.globalBatch = 8;
        m_plan = testing::planned(m_problem, "gpipe").plan;
    }

    void pointsAreThoseOfPlans()
    {
        NoProgress progress;
        plan::Plan given = m_plan;
        given.stages[0].memory.filter = plan::MemoryFilter::LeastRecentUsed;
        given.stages[0].memory.director = plan::MemoryDirector::Recompute;
        const auto sweep = planners::memorySweep(given, m_problem.subject, progress);
        QVERIFY2(sweep.ok(), sweep.ok() ? "" : sweep.error().text().c_str());
        QCOMPARE(sweep->curves.size(), std::size(plan::kMemoryFilters) - 2);
        QCOMPARE(sweep->shares.size(), std::size_t{8});
        const auto program = compile::compilePlan(m_plan, m_problem.subject);
        QVERIFY(program.ok());
        QVERIFY(std::abs(sweep->seconds / *simulate::iterationSeconds(*program) - 1) < 1e-9);
        int kept = 0;
        for (const planners::MemoryCurve &curve : sweep->curves) {
            QVERIFY(curve.filter != plan::MemoryFilter::None && curve.filter != plan::MemoryFilter::Random);
            QCOMPARE(curve.points.size(), sweep->shares.size());
            for (std::size_t s = 0; s < curve.points.size(); ++s) {
                const planners::MemoryCurve::Point &point = curve.points[s];
                QCOMPARE(point.share, sweep->shares[s]);
                if (!point.refusal.empty())
                    continue;
                ++kept;
                QVERIFY(point.overhead > -1e-6);
                QVERIFY(sweep->best(s)->points[s].overhead <= point.overhead + 1e-9);
            }
        }
        QVERIFY(kept > 0);
        const auto delta = std::ranges::find(sweep->curves, plan::MemoryFilter::Delta, &planners::MemoryCurve::filter);
        const planners::MemoryCurve::Point &largest = delta->points.back();
        QVERIFY2(largest.refusal.empty(), largest.refusal.c_str());
        plan::Plan same = m_plan;
        for (plan::Stage &stage : same.stages) {
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.director = plan::MemoryDirector::Recompute; // as the plan's first stage with a policy
            stage.memory.budgetShare = largest.share;
        }
        const auto own = compile::compilePlan(same, m_problem.subject);
        QVERIFY(own.ok());
        QVERIFY(std::abs((1 + largest.overhead) * sweep->seconds / *simulate::iterationSeconds(*own) - 1) < 1e-9);
    }

    void stops()
    {
        StoppedAfter three(3);
        const auto stopped = planners::memorySweep(m_plan, m_problem.subject, three);
        QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
    }
};

QTEST_GUILESS_MAIN(TestMemorySweep)
#include "tst_memory_sweep.moc"
