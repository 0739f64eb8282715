// SPDX-License-Identifier: Apache-2.0
// Sums of gradients that end in the next step (plan::Exchange::acrossSteps): whole runs against runs whose sums end in
// their step, to the bit, and over stops in between.
#include "engine/plan/validate_tables.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::test;

namespace {

constexpr std::int64_t kSteps = 9;

StageLayout replicas(int count) { return {std::vector<double>(static_cast<std::size_t>(count), 1.0 / count)}; }

std::string pathOf(const QTemporaryDir &folder) { return folder.path().toStdString(); }

} // namespace

class TestLateUpdates : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = tinySubject(tinyConfig(3, 4, false), cpus(8));
        m_tied = tinySubject(tinyConfig(3, 4, true), cpus(8));
        QVERIFY(m_subject.graph && m_tied.graph);
        m_table = plan::lookedUpTables(*m_subject.graph).front();
    }

    void lossesAreEqualToTheBit_data()
    {
        QTest::addColumn<Layout>("layout");
        QTest::addColumn<QString>("kind");
        const auto add = [](const char *name, const Layout &layout, const char *kind = "") {
            QTest::newRow(name) << layout << QString(kind);
        };
        add("two replicas", {{replicas(2)}, 8, 1});
        add("three replicas, micro-batches", {{replicas(3)}, 12, 3});
        add("unequal shares", {{{{0.75, 0.25}}}, 8, 2});
        add("pipeline", {{replicas(2), replicas(2)}, 8, 2});
        add("pipeline into one", {{replicas(3), {}}, 12, 2});
        add("recomputed", {{{{0.5, 0.5}, plan::Recompute::Full}}, 8, 2});
        add("tied over stages", {{replicas(2), replicas(2)}, 8, 2}, "tied");
        add("bf16", {{replicas(2)}, 8, 2}, "bf16");
        add("memory policy", {{replicas(2)}, 8, 2}, "memory");
        add("tables", {{replicas(3)}, 12, 2}, "fifo");
        add("tables, 2d", {{replicas(3)}, 12, 2}, "2d");
    }
    void lossesAreEqualToTheBit()
    {
        QFETCH(Layout, layout);
        QFETCH(QString, kind);
        const plan::Subject &subject = kind == "tied" ? m_tied : m_subject;
        plan::Plan plan = planFor(subject, layout, kind.toStdString());
        const Training training{.steps = kSteps, .evaluate = true};
        const Outcome within = trainOn(m_text.path(), subject, plan, training, 0.2);
        plan.exchange.acrossSteps = true;
        const Outcome across = trainOn(m_text.path(), subject, plan, training, 0.2);
        QCOMPARE(within.problem + across.problem, std::string());
        QCOMPARE(across.losses.size(), static_cast<std::size_t>(kSteps));
        QVERIFY(across.losses == within.losses);
        QVERIFY(across.evaluation.loss == within.evaluation.loss);
        QVERIFY(across.peaks == within.peaks);
        QVERIFY(across.losses.back() < across.losses.front());
    }

    void stopsChangeNothing()
    {
        plan::Plan plan = planFor(m_subject, {{replicas(2)}, 8, 2}, "2d");
        const QTemporaryDir whole, first, second, third;
        std::vector<double> all, parts, within;
        plan.exchange.acrossSteps = true;
        Status status = trainPart({0, kSteps, {}, pathOf(whole)}, plan, m_subject, m_text.path(), all);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        status = trainPart({0, 4, {}, pathOf(first)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        const auto kept = checkpoint::newestCheckpoint(pathOf(first));
        QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
        within = parts;
        status = trainPart({4, kSteps, kept->folder, pathOf(second)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        QCOMPARE(parts, all);
        // Nothing is under way in a checkpoint, so that sums may end in their step from there on.
        plan.exchange.acrossSteps = false;
        status = trainPart({4, kSteps, kept->folder, pathOf(third)}, plan, m_subject, m_text.path(), within);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        QCOMPARE(within, all);
    }

    /// Ranks that are a step further by then end with the others, with all sums.
    void aStopEndsAllRanks()
    {
        plan::Plan plan = planFor(m_subject, {{replicas(3)}, 12, 2}, "2d");
        plan.exchange.acrossSteps = true;
        const Outcome whole = trainOn(m_text.path(), m_subject, plan, {.steps = 40});
        const Outcome stopped = trainOn(m_text.path(), m_subject, plan, {.steps = 40, .stopAfter = 3});
        QCOMPARE(whole.problem + stopped.problem, std::string());
        QVERIFY(stopped.losses.size() > 3 && stopped.losses.size() < 12);
        QVERIFY(std::equal(stopped.losses.begin(), stopped.losses.end(), whole.losses.begin()));
    }

private:
    [[nodiscard]] plan::Plan planFor(const plan::Subject &subject, const Layout &layout, const std::string &kind) const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("adamw");
        optimizer.learningRate = 0.01;
        optimizer.weightDecay = 0.01;
        optimizer.schedule.warmupSteps = 3; // so that a step's rate is none of its neighbours'
        const bool byRows = kind == "fifo" || kind == "2d";
        if (byRows)
            optimizer.groups = {{m_table, 0, 1}};
        plan::Plan plan = planOf(subject, layout, optimizer);
        plan.bucketBytes = 20'000;
        if (kind == "bf16")
            plan.precision = plan::Precision::BFloat16;
        for (plan::Stage &stage : plan.stages)
            if (kind == "memory")
                stage.memory = *plan::memoryFromText("delta,budget=70%");
        if (byRows) {
            plan.exchange.policy = plan::ExchangePolicy::Sparse;
            plan.exchange.sparse.scheduling = *plan::findExchangeScheduling(kind);
            plan.exchange.sparse.tables = {{m_table, plan::TableStrategy::AllToAll, true}};
        }
        return plan;
    }

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject, m_tied;
    std::string m_table;
};

QTEST_GUILESS_MAIN(TestLateUpdates)
#include "tst_late_updates.moc"
