// SPDX-License-Identifier: Apache-2.0
// Tables exchanged by rows (EmbRace): whole runs against runs that sum up the tables' gradients, to rounding; runs that
// differ in the order of communication, to the bit; bytes and memory exactly.
#include "engine/cost/sparse_rows.h"
#include "engine/plan/validate_tables.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

#include <array>
#include <numeric>
#include <span>

using namespace planloom;
using namespace planloom::test;
using plan::ExchangeScheduling;
using plan::TableStrategy;

namespace {

StageLayout replicas(int count) { return {std::vector<double>(static_cast<std::size_t>(count), 1.0 / count)}; }

struct How {
    const char *name;
    TableStrategy strategy;
    ExchangeScheduling scheduling;
    bool split = false;
};
constexpr How kAllToAll{"all-to-all, fifo", TableStrategy::AllToAll, ExchangeScheduling::Fifo};
constexpr How kWays[] = {
    kAllToAll,
    {"all-to-all, horizontal", TableStrategy::AllToAll, ExchangeScheduling::Horizontal},
    {"all-to-all, 2d", TableStrategy::AllToAll, ExchangeScheduling::TwoDimensional, true},
    {"all-to-all, 2d, whole", TableStrategy::AllToAll, ExchangeScheduling::TwoDimensional},
    {"all-gather, fifo", TableStrategy::AllGather, ExchangeScheduling::Fifo},
    {"all-gather, 2d", TableStrategy::AllGather, ExchangeScheduling::TwoDimensional, true},
    {"parameter-server, fifo", TableStrategy::ParameterServer, ExchangeScheduling::Fifo},
    {"parameter-server, 2d", TableStrategy::ParameterServer, ExchangeScheduling::TwoDimensional, true},
};

} // namespace

class TestRowExchange : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_subject = tinySubject(tinyConfig(4, 4, false), cpus(8));
        QVERIFY(m_subject.graph && m_subject.cluster);
        const std::vector<std::string> tables = plan::lookedUpTables(*m_subject.graph);
        QCOMPARE(tables.size(), 1U); // positions are looked up by constants
        m_table = tables.front();
    }

    void layoutsAgree_data()
    {
        QTest::addColumn<Layout>("layout");
        QTest::addColumn<int>("zero");
        QTest::newRow("two replicas") << Layout{{replicas(2)}, 8, 1} << 0;
        QTest::newRow("three replicas, micro-batches") << Layout{{replicas(3)}, 12, 3} << 0;
        QTest::newRow("unequal shares") << Layout{{{{0.75, 0.25}}}, 8, 2} << 0;
        QTest::newRow("pipeline") << Layout{{replicas(2), replicas(2)}, 8, 2} << 0;
        QTest::newRow("pipeline into one") << Layout{{replicas(3), {}}, 12, 2} << 0;
        QTest::newRow("recomputed") << Layout{{{{0.5, 0.5}, plan::Recompute::Full}}, 8, 2} << 0;
        QTest::newRow("ZeRO 1") << Layout{{replicas(2)}, 8, 2} << 1;
        QTest::newRow("ZeRO 3") << Layout{{replicas(2)}, 8, 2} << 3;
    }
    void layoutsAgree()
    {
        QFETCH(Layout, layout);
        QFETCH(int, zero);
        const auto planned = [&](const How &how) {
            plan::Plan plan = planFor(layout, "sgd", how);
            for (plan::Stage &stage : plan.stages)
                stage.zero = stage.replicas() > 1 ? zero : 0;
            return plan;
        };
        const Outcome summed = trainOn(m_text.path(), m_subject, allReduced(planned(kAllToAll)), {.steps = 5});
        QCOMPARE(summed.problem, std::string());
        for (const How &how : kWays) {
            const Outcome byRows = trainOn(m_text.path(), m_subject, planned(how), {.steps = 5});
            QVERIFY2(differs(byRows, summed.losses, 1e-5).empty(),
                     (how.name + (": " + differs(byRows, summed.losses, 1e-5))).c_str());
        }
    }

    /// Row-wise rules leave rows alone that a step does not look up, so they are not all-reduce; but among themselves
    /// all ways give the same bits.
    void schedulingsAreEqualToTheBit_data()
    {
        QTest::addColumn<QString>("rule");
        for (const char *rule : {"sgd", "adamw"})
            QTest::newRow(rule) << rule;
    }
    void schedulingsAreEqualToTheBit()
    {
        QFETCH(QString, rule);
        const Layout layout{{replicas(3)}, 12, 2};
        const Training training{.steps = 8, .evaluate = true};
        const Outcome first = trainOn(m_text.path(), m_subject, planFor(layout, rule, kAllToAll), training, 0.2);
        QCOMPARE(first.problem, std::string());
        for (const How &how : std::span(kWays).subspan(1)) {
            const Outcome other = trainOn(m_text.path(), m_subject, planFor(layout, rule, how), training, 0.2);
            QCOMPARE(other.problem, std::string());
            QVERIFY2(other.losses == first.losses, how.name);
            QVERIFY2(other.evaluation.loss == first.evaluation.loss, how.name);
        }
    }

    void heldOutSamplesAreScored()
    {
        const Layout layout{{replicas(2)}, 8, 2};
        const Training training{.steps = 6, .evaluate = true};
        const Outcome summed =
            trainOn(m_text.path(), m_subject, allReduced(planFor(layout, "sgd", kAllToAll)), training, 0.2);
        const Outcome byRows = trainOn(m_text.path(), m_subject, planFor(layout, "sgd", kWays[2]), training, 0.2);
        QCOMPARE(summed.problem + byRows.problem, std::string());
        QVERIFY(summed.evaluation.samples > 0);
        QVERIFY(std::abs(byRows.evaluation.loss - summed.evaluation.loss) < 1e-5 * summed.evaluation.loss);
    }

    /// What collectives send: the rows of each step's samples, and sums of the other gradients as always.
    void bytesAreThoseOfTheRows_data()
    {
        QTest::addColumn<int>("way");
        for (int way = 0; way < static_cast<int>(std::size(kWays)); ++way)
            QTest::newRow(kWays[way].name) << way;
    }
    void bytesAreThoseOfTheRows()
    {
        QFETCH(int, way);
        constexpr std::int64_t kSteps = 5;
        const plan::Plan plan = planFor({{replicas(3)}, 12, 2}, "sgd", kWays[way]);
        const Outcome outcome = trainOn(m_text.path(), m_subject, plan, {.steps = kSteps}, 0,
                                        [&](const program::Program &program, Outcome &seen) {
                                            for (std::size_t rank = 0; rank < 3; ++rank)
                                                if (seen.collectiveBytes[rank] != bytesOf(program, rank, kSteps))
                                                    seen.problem = "rank " + std::to_string(rank) + " sent "
                                                        + std::to_string(seen.collectiveBytes[rank]) + " bytes, not "
                                                        + std::to_string(bytesOf(program, rank, kSteps));
                                        });
        QCOMPARE(outcome.problem, std::string());
    }

    /// What a run notes of its rows is what the samples of its steps look up.
    void rowsAreCounted_data()
    {
        QTest::addColumn<int>("way");
        QTest::newRow("whole") << 0;
        QTest::newRow("split") << 2;
    }
    void rowsAreCounted()
    {
        QFETCH(int, way);
        constexpr std::int64_t kSteps = 5;
        const plan::Plan plan = planFor({{replicas(3)}, 12, 2}, "sgd", kWays[way]);
        const auto program = compile::compilePlan(plan, m_subject);
        QVERIFY(program.ok());
        const Outcome outcome = trainOn(m_text.path(), m_subject, plan, {.steps = kSteps});
        QCOMPARE(outcome.problem, std::string());
        QCOMPARE(outcome.rows.size(), static_cast<std::size_t>(kSteps));
        for (std::int64_t step = 0; step < kSteps; ++step) {
            run::RowCounts expected;
            expected.ids = static_cast<double>(12 * program->tables.front().idsPerSample);
            std::vector<std::int64_t> next;
            for (std::size_t replica = 0; replica < 3; ++replica)
                for (const std::int64_t row : rowsOf(*program, replica, step + 1))
                    next.push_back(row);
            for (std::size_t replica = 0; replica < 3; ++replica)
                for (const std::int64_t row : rowsOf(*program, replica, step)) {
                    const bool isPrior = std::find(next.begin(), next.end(), row) != next.end();
                    expected.unique += 1;
                    if (kWays[way].split)
                        (isPrior ? expected.prior : expected.delayed) += 1;
                }
            QVERIFY(outcome.rows[static_cast<std::size_t>(step)] == expected);
        }
    }

    /// Dense parameters are averaged every few steps, tables meet in every step.
    void besideAverages()
    {
        std::vector<double> first;
        double evaluated = 0;
        for (const How &how : kWays) {
            plan::Plan plan = planFor({{replicas(2)}, 8, 2}, "sgd", how);
            if (evaluated == 0) // two ways to say it
                plan.exchange.groups = {{"*", plan::ExchangePolicy::DelayedAveraging}};
            else
                plan.exchange.dense = plan::ExchangePolicy::DelayedAveraging;
            plan.exchange.averaging = {3, 1, 0.25, plan::Merge::Corrected, 2};
            const Outcome outcome = trainOn(m_text.path(), m_subject, plan, {.steps = 12, .evaluate = true}, 0.2);
            QCOMPARE(outcome.problem, std::string());
            if (first.empty()) {
                first = outcome.losses;
                evaluated = outcome.evaluation.loss;
            }
            QVERIFY2(outcome.losses == first, how.name);
            QVERIFY2(outcome.evaluation.loss == evaluated, how.name); // no row is left behind
        }
        QCOMPARE(first.size(), std::size_t{12});
        QVERIFY(first.back() < first.front());
    }

    /// In the middle of a run, where delayed rows are exchanged at once; and with the tables held another way.
    void resumes()
    {
        const plan::Plan plan = planFor({{replicas(3)}, 12, 2}, "adamw", kWays[2]);
        QTemporaryDir whole, cut, rest, other;
        std::vector<double> all, first, second, elsewhere;
        const auto path = [](const QTemporaryDir &folder) { return folder.path().toStdString(); };
        Status statuses[4];
        statuses[0] = trainPart({0, 12, {}, path(whole)}, plan, m_subject, m_text.path(), all);
        statuses[1] = trainPart({0, 7, {}, path(cut)}, plan, m_subject, m_text.path(), first);
        const auto kept = checkpoint::newestCheckpoint(path(cut));
        QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
        statuses[2] = trainPart({7, 12, kept->folder, path(rest)}, plan, m_subject, m_text.path(), second);
        statuses[3] = trainPart({7, 12, kept->folder, path(other)}, planFor({{replicas(2)}, 12, 2}, "adamw", kWays[4]),
                                m_subject, m_text.path(), elsewhere);
        for (const Status &status : statuses)
            QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        first.insert(first.end(), second.begin(), second.end());
        QCOMPARE(first, all);
        QCOMPARE(elsewhere.size(), std::size_t{5});
        for (std::size_t step = 0; step < elsewhere.size(); ++step)
            QVERIFY(std::abs(elsewhere[step] - all[step + 7]) < 1e-5 * all[step + 7]);
    }

private:
    [[nodiscard]] plan::Plan planFor(const Layout &layout, const QString &rule, const How &how) const
    {
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named(rule.toStdString());
        if (rule == "sgd")
            (void)optimizer.rule.set("momentum", 0);
        optimizer.learningRate = rule == "sgd" ? 0.5 : 0.01;
        optimizer.weightDecay = 0.01;
        optimizer.schedule = {plan::LearningRateSchedule::Kind::Cosine, 3, 40, 0.1};
        optimizer.groups = {{m_table, 0, 1}};
        plan::Plan plan = planOf(m_subject, layout, optimizer);
        plan.exchange.policy = plan::ExchangePolicy::Sparse;
        plan.exchange.sparse.scheduling = how.scheduling;
        plan.exchange.sparse.tables = {{m_table, how.strategy, how.split}};
        return plan;
    }
    static plan::Plan allReduced(plan::Plan plan)
    {
        plan.exchange = {};
        return plan;
    }

    /// That replica @p replica looks up in step @p step.
    [[nodiscard]] cost::RowIds rowsOf(const program::Program &program, std::size_t replica, std::int64_t step) const
    {
        const auto needs = data::needsOf(*m_subject.graph);
        const auto data = data::openDataSet(m_text.path(), *needs);
        const data::SampleOrder order((*data)->samples(), 1, 0);
        std::vector<std::int64_t> ids;
        for (const plan::SampleRange &slice : program.bodies[replica].slices)
            for (std::int64_t i = 0; i < slice.size; ++i) {
                std::vector<std::int64_t> sample(static_cast<std::size_t>(program.tables.front().idsPerSample));
                (*data)->fillInput(order.sampleIndex(step, program.globalBatch, slice.begin + i), sample.data());
                ids.insert(ids.end(), sample.begin(), sample.end());
            }
        return cost::uniqueRows(ids);
    }

    /// That rank @p rank sends in steps [0, steps), by the rows of all replicas' samples.
    [[nodiscard]] std::int64_t bytesOf(const program::Program &program, std::size_t rank, std::int64_t steps) const
    {
        const program::Table &table = program.tables.front();
        const auto sent = [&](std::size_t owner, std::size_t replica, std::int64_t step) {
            const program::Table::Member &member = table.members[owner];
            const std::vector<std::int64_t> rows = rowsOf(program, replica, step);
            return 4 * member.width() * std::count_if(rows.begin(), rows.end(), [&](std::int64_t row) {
                       return row >= member.firstRow && row < member.endRow;
                   });
        };
        std::int64_t bytes = 0;
        for (const program::Task &task : program.tasks)
            if (task.rank.index() == rank && task.as<program::Exchange>() != nullptr)
                bytes += steps * task.bytes();
        for (std::int64_t step = 0; step < steps; ++step)
            for (std::size_t other = 0; other < table.members.size(); ++other) {
                if (other == rank)
                    continue;
                bytes += (table.isCut() ? sent(rank, other, step) : 0) + sent(other, rank, step);
            }
        return bytes;
    }

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
    std::string m_table;
};

QTEST_GUILESS_MAIN(TestRowExchange)
#include "tst_row_exchange.moc"
