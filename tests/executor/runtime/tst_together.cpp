// SPDX-License-Identifier: Apache-2.0
// One plan with tables that are exchanged by rows (EmbRace), dense parameters that are averaged every few steps (DaSGD)
// and activations that a policy moves and makes again (DELTA): to the bit what the first two do without the third, and
// what an uninterrupted run does, wherever it is cut.
#include "engine/plan/validate_tables.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::test;
using plan::ExchangeScheduling;
using plan::TableStrategy;

namespace {

constexpr const char *kPolicies[] = {"delta,budget=60%", "ahead,budget=60%", "dtr,budget=60%,director=recompute",
                                     "lru,budget=60%,director=swap"};

struct Seen {
    std::int64_t swaps = 0;
    std::int64_t recomputes = 0;
};

Seen &operator+=(Seen &seen, const program::Program &program)
{
    for (const program::Task &task : program.tasks) {
        const auto *run = task.as<program::Compute>();
        seen.swaps += task.as<program::Swap>() != nullptr ? 1 : 0;
        seen.recomputes += run != nullptr && run->isPooled() && run->pass == program::Pass::Recompute ? 1 : 0;
    }
    return seen;
}

} // namespace

class TestTogether : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = tinySubject(tinyConfig(3, 2, false), cpus(4));
        QVERIFY(m_subject.graph && m_subject.cluster);
        m_table = plan::lookedUpTables(*m_subject.graph).front();
    }

    void memoryChangesNoBit_data()
    {
        QTest::addColumn<int>("stages");
        QTest::addColumn<bool>("delayed");
        QTest::newRow("one stage, rows a step later") << 1 << true;
        QTest::newRow("one stage, all rows at once") << 1 << false;
        QTest::newRow("pipeline, rows a step later") << 2 << true;
    }
    void memoryChangesNoBit()
    {
        QFETCH(int, stages);
        QFETCH(bool, delayed);
        const Training training{.steps = 13, .evaluate = true};
        const auto trained = [&](const std::string &memory, Seen &seen) {
            return trainOn(m_text.path(), m_subject, planFor(stages, delayed, memory), training, 0.2,
                           [&](const program::Program &program, Outcome &) { seen += program; });
        };
        Seen free, limited;
        const Outcome without = trained({}, free);
        QCOMPARE(without.problem, std::string());
        QVERIFY(without.losses.back() < without.losses.front());
        QCOMPARE(free.swaps + free.recomputes, 0);
        for (const char *policy : kPolicies) {
            const Outcome with = trained(policy, limited);
            QCOMPARE(with.problem, std::string());
            QVERIFY2(with.losses == without.losses, policy);
            QVERIFY2(with.evaluation.loss == without.evaluation.loss, policy);
        }
        QVERIFY(limited.swaps > 0 && limited.recomputes > 0);
    }

    void resumesInsideARound_data()
    {
        QTest::addColumn<int>("at");
        for (const int at : {1, 3, 4, 5, 6, 7, 9})
            QTest::addRow("after %d steps", at) << at;
    }
    /// Rounds of 4 steps behind a warm-up of 2, merged after 2 steps; rows are exchanged a step later.
    void resumesInsideARound()
    {
        QFETCH(int, at);
        const plan::Plan plan = planFor(1, true, "delta,budget=60%");
        QTemporaryDir wholeDir, firstDir, secondDir;
        std::vector<double> whole, parts;
        const auto path = [](const QTemporaryDir &folder) { return folder.path().toStdString(); };
        Status status = trainPart({0, 13, {}, path(wholeDir)}, plan, m_subject, m_text.path(), whole);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        status = trainPart({0, at, {}, path(firstDir)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        const auto kept = checkpoint::newestCheckpoint(path(firstDir));
        QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
        status = trainPart({at, 13, kept->folder, path(secondDir)}, plan, m_subject, m_text.path(), parts);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        QCOMPARE(whole.size(), std::size_t{13});
        QCOMPARE(parts, whole);
    }

private:
    [[nodiscard]] plan::Plan planFor(int stages, bool delayed, const std::string &memory) const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("sgd");
        (void)optimizer.rule.set("momentum", 0);
        optimizer.learningRate = 0.3;
        optimizer.weightDecay = 0;
        const StageLayout pair{{0.5, 0.5}};
        plan::Plan plan = planOf(m_subject, {std::vector(static_cast<std::size_t>(stages), pair), 8, 2}, optimizer);
        plan.exchange = *plan::exchangeFromText("embrace,dense=dasgd,local_steps=4,delay=2,warmup_steps=2");
        plan.exchange.sparse.scheduling = delayed ? ExchangeScheduling::TwoDimensional : ExchangeScheduling::Fifo;
        plan.exchange.sparse.tables = {{m_table, TableStrategy::AllToAll, delayed}};
        for (plan::Stage &stage : plan.stages)
            if (!memory.empty())
                stage.memory = *plan::memoryFromText(memory);
        return plan;
    }

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
    std::string m_table;
};

QTEST_GUILESS_MAIN(TestTogether)
#include "tst_together.moc"
