// SPDX-License-Identifier: Apache-2.0
// Memory policies while a plan trains: the same losses to the bit, in the memory and the order that were predicted.
#include "engine/base/files.h"
#include "engine/export/decisions.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/tensor_stays.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <csignal>
#include <map>
#include <sys/resource.h>

using namespace planloom;
using namespace planloom::test;

namespace {

/// What a run and its prediction did of the memory policies.
struct Counts {
    int swaps = 0;
    int recomputes = 0;
    int parameters = 0; ///< copies of them for passes
    std::int64_t arenaBytes = 0;
};

/// Ids of a rank's tasks by lane, in the order of their starts.
std::map<int, std::vector<std::string>> startsOf(const program::Program &program,
                                                 const std::vector<trace::Record> &records, std::int32_t rank,
                                                 std::int32_t step)
{
    std::vector<trace::Record> sorted;
    std::copy_if(records.begin(), records.end(), std::back_inserter(sorted),
                 [&](const trace::Record &record) { return record.rank == rank && record.step == step; });
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const trace::Record &a, const trace::Record &b) { return a.start < b.start; });
    std::map<int, std::vector<std::string>> lanes;
    for (const trace::Record &record : sorted)
        lanes[record.lane].push_back(program::idOf(program.task(TaskId(record.task))));
    return lanes;
}

/// The first difference between what was executed and what was predicted, lane by lane; empty: none.
std::string lanesDiffer(const program::Program &program, const plan::Subject &subject, const Outcome &outcome)
{
    const auto predicted = simulate::simulate(program, *subject.cluster);
    if (!predicted)
        return predicted.error().text();
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
        const auto r = static_cast<std::int32_t>(rank);
        const auto expected = startsOf(program, predicted->trace.records, r, 0);
        for (std::int32_t step = 0; step < static_cast<std::int32_t>(outcome.losses.size()); ++step) {
            const auto found = startsOf(program, outcome.records[rank], r, step);
            for (const program::Lane lane : {program::Lane::Compute, program::Lane::CopyOut, program::Lane::CopyIn}) {
                const int key = static_cast<int>(lane);
                if ((expected.contains(key) ? expected.at(key) : std::vector<std::string>())
                    != (found.contains(key) ? found.at(key) : std::vector<std::string>()))
                    return "rank " + std::to_string(rank) + " step " + std::to_string(step) + " lane "
                        + std::to_string(key) + " differs from the prediction";
            }
        }
    }
    return {};
}

/// The executed records as a trace of the program.
trace::Trace traceOf(const program::Program &program, const plan::Subject &subject, const Outcome &outcome)
{
    trace::Trace trace;
    static_cast<trace::Tables &>(trace) = program::traceTables(program, *subject.cluster);
    for (const auto &records : outcome.records)
        trace.records.insert(trace.records.end(), records.begin(), records.end());
    return trace;
}

/// Fails where a step's executed log is not the predicted one, line by line, or a missing task goes unnoticed.
std::string decisionsDiffer(const program::Program &program, const plan::Subject &subject, const Outcome &outcome)
{
    trace::Trace trace = traceOf(program, subject, outcome);
    const QStringList predicted =
        QString::fromStdString(exporting::decisionLog(program, *subject.cluster)).split('\n').mid(1);
    const auto executed = exporting::executedDecisions(program, *subject.cluster, trace);
    QStringList expected;
    for (std::size_t step = 0; step < outcome.losses.size(); ++step)
        for (const QString &line : predicted)
            if (!line.isEmpty())
                expected << QString("%1\t%2").arg(step).arg(line);
    const QStringList found = QString::fromStdString(executed.text).trimmed().split('\n').mid(1);
    if (found != expected || executed.steps.size() != outcome.losses.size() || !executed.differing.empty())
        return "the executed decisions are not the predicted ones";
    for (const program::Rank &rank : program.ranks)
        for (const program::MemoryDecision &decision : rank.decisions) {
            trace = traceOf(program, subject, outcome);
            std::erase_if(trace.records, [&](const trace::Record &record) {
                return record.step == 1 && record.task == decision.task.value;
            });
            if (exporting::executedDecisions(program, *subject.cluster, trace).differing
                != std::vector<std::int64_t>{1})
                return "a decision that was not carried out is not noticed";
            return {};
        }
    return {};
}

/// The first fault of where tensors were said to be, by either clock: stays follow each other without a gap from the
/// task that makes a tensor to the last one that uses it, and each dropped or swapped one is away in between.
std::string staysAreWrong(const program::Program &program, const std::vector<trace::Record> &records)
{
    using Where = simulate::Stay::Where;
    std::map<std::int32_t, const trace::Record *> byTask;
    for (const trace::Record &record : records)
        byTask[record.task] = &record;
    std::size_t moved = 0;
    for (const auto &tensor : simulate::tensorStays(program, records)) {
        const program::Rank &rank = program.ranks[tensor.rank.index()];
        const program::MovedTensor &of = rank.moved[tensor.moved];
        const auto &stays = tensor.stays;
        if (stays.empty())
            return "a tensor is nowhere";
        const trace::Record *made = byTask.at(of.made.value);
        const trace::Record *last = byTask.at(of.last.value);
        if (stays.front().begin != made->start + made->duration || stays.back().end != last->start + last->duration)
            return "a tensor's stays are not between its first and its last task";
        for (std::size_t s = 1; s < stays.size(); ++s)
            if (stays[s].begin != stays[s - 1].end)
                return "a tensor's stays do not follow each other";
        const bool dropped =
            std::any_of(rank.decisions.begin(), rank.decisions.end(), [&](const program::MemoryDecision &decision) {
                return decision.tensor == of.tensor && decision.microBatch == of.microBatch
                    && decision.what.action == memory::Decision::Action::Recompute;
            });
        const bool left =
            std::any_of(rank.decisions.begin(), rank.decisions.end(), [&](const program::MemoryDecision &decision) {
                return decision.tensor == of.tensor && decision.microBatch == of.microBatch
                    && decision.what.action == memory::Decision::Action::Drop;
            });
        if (left != (of.microBatch < 0))
            return "parameters are dropped, and nothing else is";
        const auto is = [&](Where where) {
            return std::any_of(stays.begin(), stays.end(), [&](const auto &stay) { return stay.where == where; });
        };
        if (dropped && !is(Where::Dropped))
            return "a tensor was dropped and is not shown to be";
        if (left && !is(Where::Coming))
            return "a parameter was dropped and does not come back";
        moved += dropped || left || is(Where::Leaving) ? 1 : 0;
    }
    std::size_t expected = 0;
    for (const program::Rank &rank : program.ranks)
        expected += rank.moved.size();
    return moved == expected ? std::string() : "a tensor that is moved never left";
}

/// Five blocks of a product, a normalisation with running statistics, a ReLU and a dropout; 4 features, 3 classes.
std::shared_ptr<const graph::Graph> normalisedBlocks()
{
    using Kind = graph::Initializer::Kind;
    graph::GraphBuilder builder("blocks");
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape({{1, true}, {4, false}}));
    const TensorId labels =
        builder.input("labels", graph::DType::I64, graph::Shape(std::vector<graph::Dim>{{1, true}}));
    constexpr std::int64_t kWide = 16;
    const graph::Shape wide = graph::Shape::of({kWide});
    const auto filled = [](Kind kind) { return graph::Initializer{kind, 0, 0, nullptr, {}, 0}; };
    const graph::Initializer drawn{Kind::Normal, 0, 0.3, nullptr, {}, 0};
    for (int block = 0; block < 5; ++block) {
        const std::string name = "b" + std::to_string(block);
        x = builder.add("MatMul",
                        {x, builder.parameter(name + ".w", graph::Shape::of({block == 0 ? 4 : kWide, kWide}), drawn)});
        x = builder.add("BatchNormalization",
                        {x, builder.parameter(name + ".scale", wide, filled(Kind::Ones)),
                         builder.parameter(name + ".bias", wide, filled(Kind::Zeros)),
                         builder.state(name + ".mean", wide, filled(Kind::Zeros)),
                         builder.state(name + ".variance", wide, filled(Kind::Ones))},
                        {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", std::int64_t{1}}});
        x = builder.add("Relu", {x});
        x = builder.add("Dropout", {x}, {{"ratio", 0.2}});
    }
    x = builder.add("MatMul", {x, builder.parameter("head", graph::Shape::of({kWide, 3}), drawn)});
    const TensorId loss = builder.add("SoftmaxCrossEntropyLoss", {x, labels}, {{"ignore_index", std::int64_t{-100}}});
    builder.output(loss);
    builder.loss(loss);
    auto graph = std::move(builder).build();
    return graph ? std::make_shared<const graph::Graph>(*std::move(graph)) : nullptr;
}

} // namespace

class TestMemory : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void lossesAreThoseWithoutALimit_data();
    void lossesAreThoseWithoutALimit();
    void heldOutSamplesAreScoredInThePool();
    void swapsThroughAFile();
    void parametersOnTheHostInBFloat16();
    void dropoutAndRunningStatisticsReplay();
    void hostTierThatIsFull();
    void refusals();

private:
    Outcome run(const Layout &layout, const std::string &policy, Counts &counts, double holdout = 0,
                bool evaluate = false);

    TextFile m_text{{"the ", "plan ", "weaves ", "a ", "stage ", "of ", "micro ", "batches\n"}};
    plan::Subject m_subject;
    std::map<std::string, std::vector<double>> m_free; ///< losses without a policy, by layout
};

void TestMemory::initTestCase()
{
    m_subject = tinySubject(tinyConfig(3, 2), cpus(4));
    QVERIFY(m_subject.graph && m_subject.cluster);
}

Outcome TestMemory::run(const Layout &layout, const std::string &policy, Counts &counts, double holdout, bool evaluate)
{
    plan::Plan plan = planOf(m_subject, layout);
    const auto memory = plan::memoryFromText(policy);
    if (!memory) {
        Outcome outcome;
        outcome.problem = memory.error().text();
        return outcome;
    }
    for (plan::Stage &stage : plan.stages)
        stage.memory = *memory;
    Training how;
    how.steps = 4;
    how.evaluate = evaluate;
    return trainOn(m_text.path(), m_subject, plan, how, holdout,
                   [&](const program::Program &program, Outcome &outcome) {
                       for (const program::Task &task : program.tasks) {
                           if (const auto *swap = task.as<program::Swap>()) {
                               counts.swaps += swap->out && task.microBatch >= 0 ? 1 : 0; // without those of the update
                               counts.parameters += program.copyOf(*swap).parameter ? 1 : 0;
                           }
                           const auto *compute = task.as<program::Compute>();
                           if (compute != nullptr && compute->pass == program::Pass::Recompute)
                               counts.recomputes += compute->lastCall - compute->firstCall;
                       }
                       for (const program::Rank &rank : program.ranks)
                           counts.arenaBytes = std::max(counts.arenaBytes, rank.arenaBytes);
                       outcome.problem = lanesDiffer(program, m_subject, outcome);
                       if (outcome.problem.empty())
                           outcome.problem = decisionsDiffer(program, m_subject, outcome);
                       const auto predicted = simulate::simulate(program, *m_subject.cluster);
                       if (outcome.problem.empty() && predicted)
                           outcome.problem = staysAreWrong(program, predicted->trace.records);
                       std::vector<trace::Record> step;
                       for (const auto &records : outcome.records)
                           std::copy_if(records.begin(), records.end(), std::back_inserter(step),
                                        [](const trace::Record &record) { return record.step == 1; });
                       if (outcome.problem.empty())
                           outcome.problem = staysAreWrong(program, step);
                   });
}

void TestMemory::lossesAreThoseWithoutALimit_data()
{
    QTest::addColumn<QString>("policy");
    QTest::addColumn<QString>("where");
    QTest::addColumn<Layout>("layout");
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    const std::pair<const char *, Layout> layouts[] = {
        {"one rank", {{one}, 8, 2, plan::ScheduleKind::GPipe}},
        {"two replicas", {{two}, 8, 2, plan::ScheduleKind::GPipe}},
        {"two stages", {{one, one}, 8, 4}},
        {"split backward", {{one, one}, 8, 4, plan::ScheduleKind::ZeroBubbleH1}},
    };
    const char *const policies[] = {
        "delta,budget=60%",
        "delta,budget=45%,director=chain",
        "delta,budget=60%,director=swap",
        "delta,budget=60%,director=swap,copies=synchronous",
        "delta,budget=60%,director=swap,prefetch=0",
        "delta,budget=60%,director=recompute",
        "delta,budget=60%,trigger=after",
        "dtr,budget=60%,director=recompute",
        "dtr-eq,budget=60%",
        "lru,budget=60%,director=swap,bandwidth_out=2e8,bandwidth_in=2e8",
        "random,budget=70%,seed=3,director=swap",
        "capuchin,budget=60%",
        "ahead,budget=50%",
        "delta,budget=60%,optimizer_state=host",
        "delta,budget=60%,parameters=host",
        "delta,budget=60%,parameters=host,optimizer_state=host",
        "delta,budget=50%,parameters=host,director=swap,bandwidth_out=2e8,bandwidth_in=2e8",
        "delta,budget=60%,parameters=host,copies=synchronous,prefetch=0",
        "dtr,budget=60%,trigger=after,parameters=host",
        "ahead,budget=50%,parameters=host,optimizer_state=host",
        "capuchin,budget=60%,parameters=host",
    };
    for (const auto &[where, layout] : layouts)
        for (const char *policy : policies)
            QTest::addRow("%s, %s", policy, where) << policy << where << layout;
}

void TestMemory::lossesAreThoseWithoutALimit()
{
    QFETCH(QString, policy);
    QFETCH(QString, where);
    QFETCH(Layout, layout);
    std::vector<double> &expected = m_free[where.toStdString()];
    Counts counts;
    if (expected.empty()) {
        const Outcome free = run(layout, "none", counts);
        QVERIFY2(free.problem.empty(), free.problem.c_str());
        QCOMPARE(counts.swaps + counts.recomputes, 0);
        expected = free.losses;
        counts = {};
    }
    const Outcome outcome = run(layout, policy.toStdString(), counts);
    QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
    QCOMPARE(outcome.losses, expected); // to the bit
    // The passes use all of the pool that states come to for their update, which may be enough.
    QVERIFY(counts.swaps + counts.recomputes > 0 || policy.contains("optimizer_state=host"));
    QCOMPARE(counts.parameters > 0, policy.contains("parameters=host"));
    if (policy.contains("director=swap"))
        QCOMPARE(counts.recomputes, 0);
    if (policy.contains("director=recompute"))
        QCOMPARE(counts.swaps, 0);
}

void TestMemory::heldOutSamplesAreScoredInThePool()
{
    const Layout layout{{{}}, 8, 2, plan::ScheduleKind::GPipe};
    Counts counts;
    const Outcome free = run(layout, "none", counts, 0.2, true);
    QVERIFY2(free.problem.empty(), free.problem.c_str());
    for (const char *parameters : {"", ",parameters=host", ",parameters=host,optimizer_state=host"}) {
        const Outcome limited = run(layout, std::string("delta,budget=60%") + parameters, counts, 0.2, true);
        QVERIFY2(limited.problem.empty(), limited.problem.c_str());
        QVERIFY(limited.evaluation.loss == free.evaluation.loss); // to the bit
        QCOMPARE(limited.losses, free.losses);
    }
}

void TestMemory::swapsThroughAFile()
{
    const Layout layout{{{}}, 8, 2, plan::ScheduleKind::GPipe};
    const QTemporaryDir folder;
    Counts counts;
    const Outcome free = run(layout, "none", counts);
    const std::string tier = ",host_tier=" + folder.path().toStdString();
    for (const char *states :
         {"", ",optimizer_state=host", ",parameters=host", ",optimizer_state=host,parameters=host"}) {
        const Outcome limited = run(layout, "delta,budget=60%,director=swap" + tier + states, counts);
        QVERIFY2(limited.problem.empty(), limited.problem.c_str());
        QVERIFY(counts.swaps > 0);
        QCOMPARE(limited.losses, free.losses);
    }
    QVERIFY(QDir(folder.path()).isEmpty());
}

/// Operators read the bfloat16 copies: the float32 parameters are on the host with the states, and the arena is smaller
/// by both where the pool of activations has room for them.
void TestMemory::parametersOnTheHostInBFloat16()
{
    const QTemporaryDir folder;
    const StageLayout two{{0.5, 0.5}};
    const std::string file = ",host_tier=" + folder.path().toStdString();
    for (const auto &[zero, tier] : {std::pair{0, std::string()}, {1, file}, {3, std::string()}}) {
        std::map<std::string, std::pair<Outcome, program::Rank>> runs;
        std::int64_t states = 0;  // bytes of the two states of AdamW on a rank
        std::int64_t masters = 0; // and of the parameters that have copies; normalisations have none
        for (const char *where : {"device", "host"}) {
            plan::Plan plan = planOf(m_subject, {{two}, 8, 2, plan::ScheduleKind::GPipe});
            plan.precision = plan::Precision::BFloat16;
            plan.stages.front().zero = zero;
            plan.stages.front().memory =
                *plan::memoryFromText(std::string("delta,budget=70%,optimizer_state=") + where + tier);
            Training how;
            how.steps = 4;
            how.evaluate = true;
            auto &[outcome, rank] = runs[where];
            outcome =
                trainOn(m_text.path(), m_subject, plan, how, 0.2, [&](const program::Program &program, Outcome &run) {
                    rank = program.ranks.front();
                    states = masters = 0;
                    for (const program::Bucket &bucket : program.buckets) {
                        const std::int64_t own = bucket.bytes() / (zero > 0 ? 2 : 1);
                        states += 2 * own;
                        masters += bucket.type == graph::DType::BF16 ? own : 0;
                    }
                    run.problem = lanesDiffer(program, m_subject, run);
                });
            QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        }
        const auto &[kept, onDevice] = runs["device"];
        const auto &[hosted, onHost] = runs["host"];
        QCOMPARE(hosted.losses, kept.losses); // to the bit
        QVERIFY(hosted.evaluation.loss == kept.evaluation.loss);
        QCOMPARE(onDevice.hostedStates.bytes, 0);
        QVERIFY(masters > 0);
        QCOMPARE(onHost.hostedStates.bytes, states + masters);
        QCOMPARE(onDevice.persistentBytes - onHost.persistentBytes, states + masters);
        QVERIFY(onHost.arenaBytes < onDevice.arenaBytes);
    }
    QVERIFY(QDir(folder.path()).isEmpty());
}

/// Held-out samples are scored by the running statistics: had an operator that ran again tracked its batch twice, they
/// would differ.
void TestMemory::dropoutAndRunningStatisticsReplay()
{
    const QTemporaryDir folder;
    const std::string path = folder.filePath("data.csv").toStdString();
    std::string rows;
    for (int i = 0; i < 60; ++i)
        rows += std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 3) + ",1,"
            + std::to_string(i % 3) + "\n";
    QVERIFY(writeFileAtomically(path, rows).ok());
    const auto graph = normalisedBlocks();
    QVERIFY(graph);
    const plan::Subject subject = plan::makeSubject(graph, cpus(1), nullptr, "zoo:blocks");
    Training training;
    training.steps = 6;
    training.evaluate = true;
    int recomputes = 0;
    const auto outcomeOf = [&](const std::string &policy) {
        plan::Plan plan = planOf(subject, {{{}}, 12, 3, plan::ScheduleKind::GPipe});
        plan.stages.front().memory = *plan::memoryFromText(policy);
        return trainOn(path, subject, plan, training, 0.2, [&](const program::Program &program, Outcome &) {
            for (const program::Task &task : program.tasks)
                if (const auto *compute = task.as<program::Compute>())
                    recomputes +=
                        compute->pass == program::Pass::Recompute ? compute->lastCall - compute->firstCall : 0;
        });
    };
    const Outcome free = outcomeOf("none");
    QVERIFY2(free.problem.empty(), free.problem.c_str());
    QCOMPARE(recomputes, 0);
    for (const char *policy : {"delta,budget=50%,director=recompute", "dtr,budget=60%,director=recompute",
                               "ahead,budget=50%,director=recompute", "capuchin,budget=60%"}) {
        const Outcome limited = outcomeOf(policy);
        QVERIFY2(limited.problem.empty(), limited.problem.c_str());
        QCOMPARE(limited.losses, free.losses);
        QVERIFY(limited.evaluation.loss == free.evaluation.loss); // to the bit
    }
    QVERIFY(recomputes > 0);
}

/// A limit of the process stands for a disk without room.
void TestMemory::hostTierThatIsFull()
{
    const QTemporaryDir folder;
    rlimit before{};
    QCOMPARE(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, before.rlim_max};
    QCOMPARE(::setrlimit(RLIMIT_FSIZE, &small), 0);
    Counts counts;
    const std::string tier = ",host_tier=" + folder.path().toStdString();
    const Outcome full = run({{{}}, 8, 2, plan::ScheduleKind::GPipe}, "delta,budget=60%,director=swap" + tier, counts);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    for (const std::string &part :
         {std::string("there is no room for"), folder.path().toStdString(), std::string("give host_tier another")})
        QVERIFY2(full.problem.find(part) != std::string::npos, full.problem.c_str());
    QVERIFY(QDir(folder.path()).isEmpty());
}

void TestMemory::refusals()
{
    const auto fails = [this](const Layout &layout, const std::string &policy, const char *wanted) {
        Counts counts;
        const std::string problem = run(layout, policy, counts).problem;
        return problem.find(wanted) == std::string::npos ? "got: " + problem : std::string();
    };
    const struct {
        Layout layout;
        const char *policy;
        const char *wanted;
    } cases[] = {
        {{{{}}, 8, 1}, "delta,budget=4096", "cannot hold what one operator needs at once"},
        {{{{}}, 8, 1}, "delta,budget=60%,recompute_cap=0,director=recompute", "run again for more than 0 times"},
        {{{{}}, 8, 1}, "delta,budget=60%,host_bytes=64,director=swap", "64 B on the host are taken, locked are "},
        {{{{}}, 8, 1}, "delta,budget=60%,director=swap,host_tier=/proc", "cannot be made in /proc"},
        {{{{}}, 8, 1}, "delta,budget=60%,director=swap,host_tier=/dev/full", "cannot be made in /dev/full"},
        {{{{}}, 8, 1}, "delta,budget=60%,optimizer_state=host,host_bytes=4096", "the optimizer's state takes"},
        {{{{}}, 8, 1}, "delta,budget=60%,optimizer_state=disk", "give device, host"},
        {{{{}}, 8, 1}, "delta,budget=60%,parameters=disk", "memory setting parameters is \"disk\"; give device, host"},
        {{{{}}, 8, 1}, "delta,budget=60%,parameters=host,host_bytes=4096", "parameters take"},
        {{{{{1.0}, plan::Recompute::Full}}, 8, 1}, "delta", "recomputes all of its forward pass"},
        {{{{}, {}, {}, {}}, 8, 4, plan::ScheduleKind::Interleaved1F1B, {0, 1, 0, 1}}, "delta", "shares its devices"},
        {{{{}}, 8, 1}, "delta,budget=0%", "more than 0% and at most 100%"},
        {{{{}}, 8, 1}, "delta,budget=lots", "give bytes, or a part"},
        {{{{}}, 8, 1}, "delta,budgets=1", "it has budget, director"},
        {{{{}}, 8, 1}, "delta,seed=1,seed=2", "given twice"},
        {{{{}}, 8, 1}, "dalta", "is not known; there is none, delta"},
    };
    for (const auto &[layout, policy, wanted] : cases) {
        const std::string wrong = fails(layout, policy, wanted);
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

QTEST_GUILESS_MAIN(TestMemory)
#include "tst_memory.moc"
