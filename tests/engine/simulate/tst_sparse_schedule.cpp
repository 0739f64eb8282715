// SPDX-License-Identifier: Apache-2.0
// The order of communication where a table is exchanged by rows (EmbRace): steps of blocks on one compute lane and one
// collective lane. Expected times are those of a timeline by hand, which the comments follow.
#include "engine/simulate/clock.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <map>

using namespace planloom;
using program::Cadence;
using program::Lane;
using testing::HandMade;
using trace::Kind;

namespace {

/// When rows that the next step does not look up travel.
enum class Delayed : std::uint8_t {
    Never,      ///< with the others
    AtOnce,     ///< as soon as the lane has nothing else to do
    InPieces,   ///< likewise, a second at a time
    BehindNext, ///< behind the next step's rows
};

/// A step looks up a table (L, then X, the exchange of rows), goes through blocks 0 to n - 1 and back, and packs the
/// table's gradient (G). Gradients of block l travel in A_l once its backward pass is over, and block l of the next
/// step waits for them; so does the next look-up for the table's gradient.
struct Blocks {
    double forward, backward;
    std::vector<double> sums; ///< seconds of A_l
    double lookUp = 1, pack = 1;
    double rows = 0;    ///< of X; 0: there is none
    double prior = 0;   ///< of the table's gradient, or of its prior rows
    double delayed = 0; ///< of its delayed rows
};

class Timeline {
public:
    Timeline(const Blocks &blocks, const char *policy, Delayed delayed, std::size_t ranks = 2) : m_hand(ranks)
    {
        for (std::size_t r = 0; r < ranks; ++r)
            addRank(blocks, static_cast<std::int32_t>(r), delayed);
        for (const auto &[name, tasks] : m_together)
            m_hand.group(tasks);
        m_hand.repeats(1, 3);
        m_program = m_hand.made();
        m_program.lanePolicy = policy;
        for (const auto &[task, priority] : m_priorities)
            m_program.tasks[task.index()].priority = priority;
    }

    [[nodiscard]] double period() const
    {
        const auto seconds = simulate::CostClock(m_program).run(nullptr);
        if (!seconds)
            qFatal("%s", seconds.error().text().c_str());
        return *seconds;
    }
    /// "X 1-3" for each collective of rank 0 in a steady period, in the order of starts; times from its first look-up.
    /// What begins when the next look-up does, or behind it, stands where the step before has it: "A0(t-1) 0-2".
    [[nodiscard]] QStringList lane() const
    {
        class Starts final : public simulate::Listener {
        public:
            Starts(const Timeline &timeline, double period) : m_timeline(timeline), m_period(period) {}
            void inStep(std::int64_t step) override { m_step = step; }
            void started(TaskId task, double seconds) override
            {
                if (m_step == 0)
                    m_started[task] = seconds;
            }
            void ended(TaskId task, double seconds) override
            {
                const auto name = m_timeline.m_names.find(task);
                if (m_step != 0 || name == m_timeline.m_names.end())
                    return;
                const bool late = m_started[task] >= m_period;
                const double start = m_started[task] - (late ? m_period : 0);
                const double end = seconds - (late ? m_period : 0);
                m_seen.emplace(start, QString("%1%2 %3-%4").arg(name->second, late ? "(t-1)" : "").arg(start).arg(end));
            }
            [[nodiscard]] QStringList seen() const
            {
                QStringList list;
                for (const auto &[start, text] : m_seen)
                    list << text;
                return list;
            }

        private:
            const Timeline &m_timeline;
            double m_period;
            std::int64_t m_step = 0;
            std::map<TaskId, double> m_started;
            std::multimap<double, QString> m_seen;
        };
        Starts starts(*this, period());
        if (!simulate::CostClock(m_program).run(&starts))
            qFatal("the order cannot run");
        return starts.seen();
    }

private:
    TaskId communicate(std::int32_t rank, const QString &name, double seconds, std::int32_t priority)
    {
        const TaskId task = m_hand.add(rank, Lane::Collective, Kind::AllReduce, seconds);
        m_hand.runs(task, {1, 0, 0, Cadence::kEndless, true});
        m_together[name].push_back(task);
        m_priorities[task] = priority;
        if (rank == 0)
            m_names[task] = name;
        return task;
    }

    TaskId compute(std::int32_t rank, Kind kind, double seconds)
    {
        const TaskId task = m_hand.add(rank, Lane::Compute, kind, seconds);
        m_hand.next(task);
        return task;
    }

    void addRank(const Blocks &blocks, std::int32_t rank, Delayed delayed)
    {
        constexpr std::int32_t kRows = 1, kPrior = 2, kDense = 3, kLast = 1000;
        const std::size_t n = blocks.sums.size();
        const TaskId lookUp = compute(rank, Kind::Forward, blocks.lookUp);
        TaskId rows = lookUp;
        if (blocks.rows > 0) {
            rows = communicate(rank, "X", blocks.rows, kRows);
            m_hand.after(rows, lookUp);
        }
        std::vector<TaskId> sums;
        for (std::size_t l = 0; l < n; ++l)
            sums.push_back(
                communicate(rank, QString("A%1").arg(l), blocks.sums[l], kDense + static_cast<std::int32_t>(l)));
        for (std::size_t l = 0; l < n; ++l) {
            const TaskId forward = compute(rank, Kind::Forward, blocks.forward);
            m_hand.after(forward, sums[l], 1);
            if (l == 0)
                m_hand.after(forward, rows);
        }
        for (std::size_t l = n; l-- > 0;)
            m_hand.after(sums[l], compute(rank, Kind::Backward, blocks.backward));
        const TaskId pack = compute(rank, Kind::Backward, blocks.pack);
        const TaskId prior = communicate(rank, "P", blocks.prior, kPrior);
        m_hand.after(prior, pack);
        m_hand.after(lookUp, prior, 1);
        const int pieces = delayed == Delayed::InPieces ? static_cast<int>(blocks.delayed) : 1;
        for (int piece = 0; delayed != Delayed::Never && piece < pieces; ++piece) {
            const TaskId late = communicate(rank, QString("Q%1").arg(piece), blocks.delayed / pieces, kLast + piece);
            if (delayed == Delayed::BehindNext) { // of the step before
                m_hand.after(late, rows);
                m_hand.after(lookUp, late, 1);
            } else {
                m_hand.after(late, pack);
                m_hand.after(lookUp, late, 2);
            }
        }
    }

    HandMade m_hand;
    std::map<QString, std::vector<TaskId>> m_together;
    std::map<TaskId, std::int32_t> m_priorities;
    std::map<TaskId, QString> m_names;
    program::Program m_program;
};

/// Three blocks; the table whole, by all-gather, by all-to-all, and split.
Blocks three(double rows, double prior, double delayed = 0) { return {2, 4, {3, 3, 3}, 1, 1, rows, prior, delayed}; }
/// Four blocks of unequal size.
Blocks four(double prior, double delayed = 0) { return {1, 2, {2, 4, 2, 4}, 1, 1, 1, prior, delayed}; }

} // namespace

class TestSparseSchedule : public QObject {
    Q_OBJECT

private slots:
    void periods()
    {
        const auto period = [](const Blocks &blocks, const char *policy, Delayed delayed = Delayed::Never) {
            const double two = Timeline(blocks, policy, delayed).period();
            if (two != Timeline(blocks, policy, delayed, 1).period())
                qFatal("ranks that do the same take the time of one");
            return two;
        };
        QCOMPARE(period(three(0, 24), "fifo"), 46.0);
        QCOMPARE(period(three(0, 12), "fifo"), 34.0);
        QCOMPARE(period(three(2, 6), "fifo"), 30.0);
        QCOMPARE(period(three(2, 6), "priority"), 30.0);
        QCOMPARE(period(three(2, 2, 4), "priority", Delayed::AtOnce), 29.0);
        QCOMPARE(period(three(2, 2, 4), "priority", Delayed::InPieces), 26.0);
        QCOMPARE(period(three(2, 2, 4), "priority", Delayed::BehindNext), 26.0);
        QCOMPARE(period(four(5), "fifo"), 25.0);
        QCOMPARE(period(four(5), "priority"), 22.0);
        QCOMPARE(period(four(1, 4), "priority", Delayed::BehindNext), 18.0);
    }

    /// Of the steps alone, without communication.
    void compute()
    {
        QCOMPARE(Timeline({2, 4, {0, 0, 0}}, "fifo", Delayed::Never).period(), 20.0);
        QCOMPARE(Timeline({1, 2, {0, 0, 0, 0}}, "fifo", Delayed::Never).period(), 14.0);
    }

    void orderOnTheLane()
    {
        QCOMPARE(Timeline(three(2, 2, 4), "priority", Delayed::BehindNext).lane(),
                 (QStringList{"X 1-3", "Q0 3-7", "A2 13-16", "A1 17-20", "A0 21-24", "P 24-26"}));
        // Delayed rows that go at once are in the way of the next step's.
        QCOMPARE(Timeline(three(2, 2, 4), "priority", Delayed::AtOnce).lane(),
                 (QStringList{"Q0(t-1) 0-4", "X 4-6", "A2 16-19", "A1 20-23", "A0 24-27", "P 27-29"}));
        QCOMPARE(Timeline(four(1, 4), "priority", Delayed::BehindNext).lane(),
                 (QStringList{"A0(t-1) 0-2", "X 2-3", "A2(t-1) 3-5", "Q0 5-9", "A3 9-13", "A1 13-17", "P 17-18"}));
    }
};

QTEST_GUILESS_MAIN(TestSparseSchedule)
#include "tst_sparse_schedule.moc"
