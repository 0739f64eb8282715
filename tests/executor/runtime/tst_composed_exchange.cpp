// SPDX-License-Identifier: Apache-2.0
// What decides while it trains, together in one plan: a table exchanged by rows (EmbRace), the other parameters
// averaged some steps late (DaSGD), activations that leave the device (DELTA). Each alone has tests of its own.
#include "engine/plan/validate_tables.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::test;
using plan::TableStrategy;

namespace {

constexpr std::int64_t kSteps = 13; // a warm-up of 2, rounds of 4 steps, merged after 3, delayed rows in all of them

std::string pathOf(const QTemporaryDir &folder) { return folder.path().toStdString(); }

} // namespace

class TestComposedExchange : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = tinySubject(tinyConfig(4, 4, false), cpus(4));
        QVERIFY(m_subject.graph && m_subject.cluster);
        m_table = plan::lookedUpTables(*m_subject.graph).front();
    }

    /// Neither the budget nor the way that rows travel changes a bit.
    void budgetsChangeNothing_data()
    {
        QTest::addColumn<bool>("pipeline");
        QTest::newRow("one stage") << false;
        QTest::newRow("pipeline") << true;
    }
    void budgetsChangeNothing()
    {
        QFETCH(bool, pipeline);
        const plan::Plan limited = planFor("adamw", pipeline);
        plan::Plan roomy = limited;
        for (plan::Stage &stage : roomy.stages)
            stage.memory = {};
        plan::Plan inOrder = roomy;
        inOrder.exchange.sparse.scheduling = plan::ExchangeScheduling::Fifo;
        const Training training{.steps = kSteps, .evaluate = true};
        const auto decides = [](const program::Program &program, Outcome &seen) {
            for (const program::Rank &rank : program.ranks)
                if (rank.decisions.empty())
                    seen.problem = "the budget holds without a decision";
        };
        const Outcome expected = trainOn(m_text.path(), m_subject, inOrder, training, 0.2);
        QCOMPARE(expected.problem, std::string());
        QCOMPARE(expected.losses.size(), static_cast<std::size_t>(kSteps));
        QVERIFY(expected.losses.back() < expected.losses.front());
        for (const bool budget : {false, true}) {
            const Outcome outcome = budget ? trainOn(m_text.path(), m_subject, limited, training, 0.2, decides)
                                           : trainOn(m_text.path(), m_subject, roomy, training, 0.2);
            QCOMPARE(outcome.problem, std::string());
            QVERIFY(outcome.losses == expected.losses);
            QVERIFY(outcome.evaluation.loss == expected.evaluation.loss);
        }
    }

    /// A table that is summed up as a whole is not averaged: with SGD it learns what rows learn.
    void wholeTablesMeetInEachStep()
    {
        plan::Plan plan = planFor("sgd", false);
        const Outcome byRows = trainOn(m_text.path(), m_subject, plan, {.steps = kSteps});
        plan.exchange.sparse.tables.front().strategy = TableStrategy::AllReduce;
        const Outcome summed = trainOn(m_text.path(), m_subject, plan, {.steps = kSteps});
        QCOMPARE(byRows.problem + summed.problem, std::string());
        QVERIFY2(differs(byRows, summed.losses, 1e-5).empty(), differs(byRows, summed.losses, 1e-5).c_str());
        plan.exchange.dense = plan::ExchangePolicy::AllReduce;
        const Outcome synchronous = trainOn(m_text.path(), m_subject, plan, {.steps = kSteps});
        QVERIFY(!differs(byRows, synchronous.losses, 1e-5).empty()); // which local steps are not
    }

    void resumesInsideARound_data()
    {
        QTest::addColumn<int>("at");
        for (const int at : {2, 5, 6, 7, 9})
            QTest::addRow("after %d steps", at) << at;
    }
    void resumesInsideARound()
    {
        QFETCH(int, at);
        const plan::Plan plan = planFor("adamw", false);
        const QTemporaryDir whole, first, second;
        std::vector<double> all, parts;
        Status status = trainPart({0, kSteps, {}, pathOf(whole)}, plan, m_subject, m_text.path(), all);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        status = trainPart({0, at, {}, pathOf(first)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        const auto kept = checkpoint::newestCheckpoint(pathOf(first));
        QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
        status = trainPart({at, kSteps, kept->folder, pathOf(second)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        QCOMPARE(parts, all);

        plan::Plan other = plan; // rounds of another length have no place for this one's averages
        other.exchange.averaging.localSteps = 5;
        std::vector<double> none;
        const QTemporaryDir third;
        status = trainPart({at, kSteps, kept->folder, pathOf(third)}, other, m_subject, m_text.path(), none);
        QVERIFY(!status && status.error().message.find("resume with the exchange") != std::string::npos);
    }

    /// Copies to the host cut a pass into runs, of which the first ones look rows up.
    void rowsArriveBeforeTheyAreRead()
    {
        plan::Plan plan = planFor("sgd", false);
        plan.microBatches = 1;
        plan.stages.front().memory = *plan::memoryFromText("delta,director=swap,budget=30%");
        const auto program = compile::compilePlan(plan, m_subject);
        QVERIFY2(program.ok(), program.ok() ? "" : program.error().text().c_str());
        std::vector<TaskId> runs;
        for (const TaskId id : program->ranks.front().computeOrder()) {
            const auto *run = program->task(id).as<program::Compute>();
            if (run != nullptr && run->pass == program::Pass::Forward)
                runs.push_back(id);
        }
        QVERIFY2(runs.size() > 2, qPrintable(QString::number(runs.size())));
        const auto waitsForRows = [&](TaskId id) {
            return std::ranges::any_of(program->dependenciesOf(program->task(id)), [&](const auto &needed) {
                const auto *rows = program->task(needed.task).template as<program::RowExchange>();
                return rows != nullptr && !rows->gradients;
            });
        };
        const auto waits = std::ranges::find_if(runs, waitsForRows);
        QVERIFY(waits != runs.end());
        QVERIFY(waits - runs.begin() < 2); // the table is among the first operators
    }

private:
    [[nodiscard]] plan::Plan planFor(const char *rule, bool pipeline) const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named(rule);
        optimizer.learningRate = 0.01;
        optimizer.weightDecay = 0.01;
        if (optimizer.rule.name() == std::string("sgd")) {
            (void)optimizer.rule.set("momentum", 0);
            optimizer.learningRate = 0.5;
        }
        optimizer.groups = {{m_table, 0, 1}};
        const StageLayout two{{0.5, 0.5}};
        plan::Plan plan = planOf(m_subject, {pipeline ? std::vector{two, two} : std::vector{two}, 8, 2}, optimizer);
        for (plan::Stage &stage : plan.stages)
            stage.memory = *plan::memoryFromText("delta,budget=70%");
        plan.exchange.policy = plan::ExchangePolicy::Sparse;
        plan.exchange.sparse.tables = {{m_table, TableStrategy::AllToAll, true}};
        plan.exchange.dense = plan::ExchangePolicy::DelayedAveraging;
        plan.exchange.averaging = {4, 3, 0.25, plan::Merge::Corrected, 2};
        return plan;
    }

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
    std::string m_table;
};

QTEST_GUILESS_MAIN(TestComposedExchange)
#include "tst_composed_exchange.moc"
