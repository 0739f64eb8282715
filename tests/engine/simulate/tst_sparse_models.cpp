// SPDX-License-Identifier: Apache-2.0
// Steps of two models on 16 workers whose tables are exchanged in different ways (EmbRace), by the cost clock: every
// block of the model has a sum of its own, which may reach over the end of its step, as only the block's next forward
// pass waits for it. Simulated are Programs of blocks made here, not plans: a plan's sums end with their step. Times of
// blocks are those of published profiles; the network is flat, of 16 equal ports. The expected steps come from another
// simulation, a script; EmbRace's own measurements are not known for these networks.
#include "engine/cost/sparse_costs.h"
#include "engine/simulate/clock.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <map>

using namespace planloom;
using cost::SparseTraffic;
using program::Cadence;
using program::Lane;
using testing::HandMade;
using trace::Kind;

namespace {

constexpr int kWorkers = 16;
constexpr double kLatency = 5e-6; // seconds

struct Block {
    double forward, backward; ///< milliseconds
    double bytes;             ///< of its parameters
    bool isTable = false;
};

struct Model {
    std::vector<Block> blocks; ///< in the order of the forward pass
    double rowBytes = 0;       ///< of what a worker looks up of a table in a step
    double idBytes = 0;        ///< of its ids, if they have to be gathered
    double prior = 0.5;        ///< the part of the rows that the next step looks up
};

enum class How : std::uint8_t { AllReduce, AllGather, Fifo, Horizontal, TwoDimensional };

/// GNMT of 8 layers (PipeDream's profile of a V100), 1,536 ids a table. What has no parameters counts with the block
/// behind it.
Model gnmt()
{
    return {{{0.073, 6.949, 132382720, true},
             {5.247, 0.016, 67174400},
             {3.267, 5.544, 50364416},
             {2.555, 4.331, 33587200},
             {2.551, 4.322, 33587200},
             {0.066, 0.328, 132382720, true},
             {4.546, 6.141, 41979904},
             {3.209, 5.464, 50364416},
             {3.206, 5.480, 50364416},
             {3.204, 16.081, 50364416},
             {5.609, 1.227, 132512000}},
            1536 * 1024 * 4.0,
            1536 * 8.0};
}

/// The language model that ZEN (OSDI 2025, table 1 and §5.1) measured: 114 ms a step, 80 MB beside a table of 406 M
/// numbers, of whose rows a step has 1.13 %. A backward pass is taken to be twice as long as a forward one, the look-up
/// to take 0.1 ms.
Model lstm()
{
    constexpr double kTable = 406e6 * 4;
    return {{{0.1, 0.1, kTable, true}, {19, 38, 40e6}, {19, 38, 40e6}}, 0.0113 * kTable, 0, 0.43};
}

/// The steps of one worker; all do the same.
class Steps {
public:
    Steps(const Model &model, double bandwidth, How how) : m_model(model), m_bandwidth(bandwidth), m_how(how)
    {
        for (std::size_t b = 0; b < model.blocks.size(); ++b)
            if (prioritizes() && model.blocks[b].isTable)
                lookUp(b);
        for (std::size_t b = 0; b < model.blocks.size(); ++b)
            forward(b);
        for (std::size_t b = model.blocks.size(); b-- > 0;)
            backward(b);
        waitForLastStep();
    }

    /// Of a step, in milliseconds.
    [[nodiscard]] double period()
    {
        m_hand.repeats(1, 4);
        program::Program program = m_hand.made();
        program.lanePolicy = prioritizes() ? "priority" : "fifo";
        for (const auto &[task, priority] : m_priorities)
            program.tasks[task.index()].priority = priority;
        const auto seconds = simulate::CostClock(program).run(nullptr);
        if (!seconds)
            qFatal("%s", seconds.error().text().c_str());
        return *seconds * 1e3;
    }

private:
    static constexpr std::int32_t kRows = 1, kPrior = 2, kDense = 3, kDelayed = 1000; // priorities

    [[nodiscard]] bool byRows() const { return m_how != How::AllReduce && m_how != How::AllGather; }
    /// Look-ups stand in front of all passes then.
    [[nodiscard]] bool prioritizes() const { return m_how == How::Horizontal || delays(); }
    [[nodiscard]] bool delays() const { return m_how == How::TwoDimensional; }
    [[nodiscard]] SparseTraffic trafficOf(const Block &block, double share, bool ids) const
    {
        return {kWorkers, kLatency, m_bandwidth, block.bytes, share * m_model.rowBytes, ids ? m_model.idBytes : 0};
    }
    /// Of rows, one way.
    [[nodiscard]] double rowSeconds(std::size_t b, double share, bool ids) const
    {
        const Block &block = m_model.blocks[b];
        const double both = trafficOf(block, share, false).allToAll();
        return both / 2 + trafficOf(block, share, ids).allToAll() - both;
    }

    TaskId compute(Kind kind, double milliseconds)
    {
        const TaskId task = m_hand.add(0, Lane::Compute, kind, milliseconds * 1e-3);
        m_hand.next(task);
        return task;
    }
    TaskId communicate(double seconds, std::int32_t priority)
    {
        const TaskId task = m_hand.add(0, Lane::Collective, Kind::AllReduce, seconds);
        m_hand.runs(task, {1, 0, 0, Cadence::kEndless, true});
        m_priorities[task] = priority;
        return task;
    }

    void lookUp(std::size_t b)
    {
        m_lookUps[b] = compute(Kind::Forward, m_model.blocks[b].forward);
        m_rows[b] = communicate(rowSeconds(b, 1, m_model.idBytes > 0), kRows);
        m_hand.after(m_rows[b], m_lookUps[b]);
    }

    void forward(std::size_t b)
    {
        const bool lookedUp = m_model.blocks[b].isTable && byRows();
        if (lookedUp && !prioritizes())
            lookUp(b);
        m_forward[b] = compute(Kind::Forward, lookedUp ? 0 : m_model.blocks[b].forward);
        if (lookedUp)
            m_hand.after(m_forward[b], m_rows[b]);
    }

    void backward(std::size_t b)
    {
        const Block &block = m_model.blocks[b];
        const TaskId pass = compute(Kind::Backward, block.backward);
        const SparseTraffic whole = trafficOf(block, 1, m_model.idBytes > 0);
        const auto dense = kDense + static_cast<std::int32_t>(b);
        m_sums[b] = block.isTable && byRows()          ? communicate(rowSeconds(b, early(), false), kPrior)
            : block.isTable && m_how == How::AllGather ? communicate(whole.allGather(), dense)
                                                       : communicate(whole.allReduce(), dense);
        m_hand.after(m_sums[b], pass);
    }
    [[nodiscard]] double early() const { return delays() ? m_model.prior : 1; }

    void waitForLastStep()
    {
        for (const auto &[b, sum] : m_sums)
            m_hand.after(m_lookUps.contains(b) ? m_lookUps[b] : m_forward[b], sum, 1);
        for (const auto &[b, lookUp] : m_lookUps)
            if (delays()) { // of the step before, behind all rows of this one
                const TaskId late = communicate(rowSeconds(b, 1 - m_model.prior, false), kDelayed);
                for (const auto &[other, rows] : m_rows)
                    m_hand.after(late, rows);
                m_hand.after(lookUp, late, 1);
            }
    }

    Model m_model;
    double m_bandwidth;
    How m_how;
    HandMade m_hand{1};
    std::map<std::size_t, TaskId> m_lookUps, m_rows, m_forward, m_sums; ///< by block
    std::map<TaskId, std::int32_t> m_priorities;
};

} // namespace

class TestSparseModels : public QObject {
    Q_OBJECT

private slots:
    void steps_data()
    {
        QTest::addColumn<bool>("recurrent");
        QTest::addColumn<double>("gigabits");
        QTest::addColumn<QList<double>>("reference"); // milliseconds, in the order of How
        QTest::newRow("GNMT-8, 100 Gb/s") << false << 100.0 << QList<double>{152.67, 127.93, 115.02, 107.18, 106.71};
        QTest::newRow("LSTM, 25 Gb/s") << true << 25.0 << QList<double>{1112.80, 226.41, 149.41, 149.41, 146.23};
        QTest::newRow("LSTM, 10 Gb/s") << true << 10.0 << QList<double>{2632.55, 416.69, 224.08, 223.98, 216.09};
    }
    void steps()
    {
        QFETCH(bool, recurrent);
        QFETCH(double, gigabits);
        QFETCH(QList<double>, reference);
        const Model model = recurrent ? lstm() : gnmt();
        for (const How how : {How::AllReduce, How::AllGather, How::Fifo, How::Horizontal, How::TwoDimensional}) {
            const double expected = reference[static_cast<int>(how)];
            const double here = Steps(model, gigabits * 1e9 / 8, how).period();
            const QString text = QString("%1 ms, reference %2").arg(here, 0, 'f', 2).arg(expected, 0, 'f', 2);
            qInfo("%s", qPrintable(text));
            QVERIFY2(std::abs(here / expected - 1) < 0.01, qPrintable(text));
        }
    }
};

QTEST_GUILESS_MAIN(TestSparseModels)
#include "tst_sparse_models.moc"
