// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "executor/runtime/tiny_training.h"

#include <QScopeGuard>
#include <QTest>

#include <cmath>
#include <map>

using namespace planloom;
using namespace planloom::test;

namespace {

using Shardings = std::map<std::string, std::string>;

/// A run of the model on a mesh.
struct MeshStage {
    MeshStage(std::vector<int> sizes = {1}, Shardings pins = {}, int level = 0,
              plan::Recompute again = plan::Recompute::None)
        : mesh(std::move(sizes)),
          shardings(std::move(pins)),
          zero(level),
          recompute(again)
    {
    }
    std::vector<int> mesh;
    Shardings shardings;
    int zero;
    plan::Recompute recompute;
};

struct MeshLayout {
    MeshLayout(std::vector<MeshStage> all = {}, std::int64_t micro = 1, int slotCount = 0,
               plan::ScheduleKind kind = plan::ScheduleKind::OneF1B, std::size_t turns = 0)
        : stages(std::move(all)),
          microBatches(micro),
          registers(slotCount),
          schedule(kind),
          places(turns)
    {
    }
    std::vector<MeshStage> stages;
    std::int64_t microBatches;
    int registers;
    plan::ScheduleKind schedule;
    std::size_t places; ///< which the stages go round; 0: each has its own
};

/// Column-parallel, then row-parallel products (Shoeybi et al., Megatron-LM, 2019, §3), on the last dimension of the
/// mesh.
Shardings tensorParallel(const std::string &front)
{
    return {{"*.attn.c_attn.weight", front + "S(1:32+32+32)"},
            {"*.attn.c_attn.bias", front + "S(0:32+32+32)"},
            {"*.attn.c_proj.weight", front + "S(0)"},
            {"*.mlp.c_fc.weight", front + "S(1)"},
            {"*.mlp.c_fc.bias", front + "S(0)"},
            {"*.mlp.c_proj.weight", front + "S(0)"}};
}

Shardings with(Shardings all, const Shardings &more)
{
    all.insert(more.begin(), more.end());
    return all;
}

} // namespace

/// A 4-layer GPT on meshes: tensor, sequence and vocabulary parallel, ZeRO, in stages and mixed. Losses must not show
/// the layout, and the traffic of collectives must be the plan's, to the byte.
class TestShardedTraining : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void layoutsAgree_data();
    void layoutsAgree();
    void clippingIsTheSameInEveryLayout();
    void halfPrecisionIsEvaluatedAsItComputes();
    void zeroSavesMemory();

private:
    [[nodiscard]] plan::Plan planFor(const MeshLayout &layout) const;
    Outcome run(const MeshLayout &layout, const plan::Optimizer &optimizer, std::int64_t &predictedBytes);

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
    plan::Subject m_untied;
    std::vector<double> m_expected;
    std::vector<double> m_expectedUntied;
    run::Validation m_evaluation; ///< on one rank
    run::Validation m_evaluationUntied;
};

void TestShardedTraining::initTestCase()
{
    m_subject = tinySubject(tinyConfig(4, 4), cpus(8));
    m_untied = tinySubject(tinyConfig(4, 4, false), cpus(8));
    QVERIFY(m_subject.graph && m_untied.graph && m_subject.cluster);
    std::int64_t bytes = 0;
    const Outcome one = run({{MeshStage{}}}, {}, bytes);
    QVERIFY2(one.problem.empty(), one.problem.c_str());
    m_expected = one.losses;
    m_evaluation = one.evaluation;
    QVERIFY(m_expected.back() < m_expected.front());
    QCOMPARE(bytes, 0);
    std::swap(m_subject, m_untied);
    const Outcome untied = run({{MeshStage{}}}, {}, bytes);
    m_expectedUntied = untied.losses;
    m_evaluationUntied = untied.evaluation;
    std::swap(m_subject, m_untied);
    QCOMPARE(m_expectedUntied.size(), m_expected.size());
}

plan::Plan TestShardedTraining::planFor(const MeshLayout &layout) const
{
    plan::Plan plan;
    plan.modelName = m_subject.graph->name();
    plan.modelSource = m_subject.modelSource;
    plan.clusterName = m_subject.cluster->name();
    plan.globalBatch = 8;
    plan.microBatches = layout.microBatches;
    plan.schedule.kind = layout.schedule;
    plan.optimizer.learningRate = 3e-3;
    std::int64_t device = 0;
    const std::size_t layers = m_subject.layers().size();
    for (std::size_t s = 0; s < layout.stages.size(); ++s) {
        const MeshStage &given = layout.stages[s];
        plan::Stage stage;
        stage.firstLayer = layers * s / layout.stages.size();
        stage.lastLayer = layers * (s + 1) / layout.stages.size();
        stage.mesh = given.mesh;
        stage.zero = given.zero;
        stage.recompute = given.recompute;
        stage.registers = layout.registers;
        // A stage knows the tensors that it has: of a pattern for the whole model some stages have none.
        stage.shardings = given.shardings;
        int count = 1;
        for (const int size : given.mesh)
            count *= size;
        const bool again = layout.places > 0 && s >= layout.places;
        for (int i = 0; i < count && !again; ++i)
            stage.devices.emplace_back(device++);
        if (again)
            stage.devices = plan.stages[s - layout.places].devices;
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

Outcome TestShardedTraining::run(const MeshLayout &layout, const plan::Optimizer &optimizer,
                                 std::int64_t &predictedBytes)
{
    plan::Plan plan = planFor(layout);
    plan.optimizer.clipNorm = optimizer.clipNorm;
    Training how;
    how.evaluate = true;
    return trainOn(m_text.path(), m_subject, plan, how, 0.1, [&](const program::Program &program, Outcome &outcome) {
        std::vector<std::int64_t> sent(program.ranks.size());
        for (const program::Task &task : program.tasks)
            sent[task.rank.index()] += task.bytes() * how.steps;
        for (std::size_t rank = 0; rank < sent.size() && outcome.problem.empty(); ++rank) {
            predictedBytes += sent[rank];
            if (outcome.collectiveBytes[rank] != sent[rank])
                outcome.problem = "rank " + std::to_string(rank) + " sent "
                    + std::to_string(outcome.collectiveBytes[rank]) + " bytes, planned were "
                    + std::to_string(sent[rank]);
            else if (outcome.records[rank].size() != program.ranks[rank].tasks.size() * outcome.losses.size())
                outcome.problem = "rank " + std::to_string(rank) + " did not record each task once a step";
        }
    });
}

void TestShardedTraining::layoutsAgree_data()
{
    QTest::addColumn<MeshLayout>("layout");
    QTest::addColumn<bool>("communicates");
    const Shardings tensor = tensorParallel("B,");
    const Shardings vocabulary = with(tensor, {{"transformer.wte.weight", "B,S(0)"}});
    const Shardings sequence = with(tensor, {{"embedding/embeddings", "S(0),S(1)"}, {"*residual", "S(0),S(1)"}});
    const auto row = [](const char *name, const MeshLayout &layout, bool communicates = true) {
        QTest::newRow(name) << layout << communicates;
    };
    row("2 data", {{{{2}}}});
    row("2 tensor", {{{{1, 2}, tensor}}});
    const auto again = [](const Shardings &pins, plan::Recompute what) {
        return MeshLayout{{{{1, 2}, pins, 0, what}}, 2};
    };
    row("2 tensor, recompute", again(tensor, plan::Recompute::Full));
    row("2 tensor, layers recompute", again(tensor, plan::Recompute::Layers));
    row("2 tensor, attention recomputes", again(tensor, plan::Recompute::Selective));
    row("sequence, layers recompute", again(sequence, plan::Recompute::Layers));
    row("sequence, attention recomputes", again(sequence, plan::Recompute::Selective));
    row("4 tensor", {{{{1, 4}, tensor}}});
    row("2 data x 2 tensor", {{{{2, 2}, tensor}}, 2});
    row("2 x 2 tensor", {{{{1, 2, 2}, with(tensorParallel("B,B,"), {})}}});
    row("vocabulary", {{{{1, 2}, vocabulary}}});
    row("2 data x vocabulary", {{{{2, 2}, vocabulary}}, 2});
    row("sequence", {{{{1, 2}, sequence}}});
    row("2 data x sequence", {{{{2, 2}, sequence}}});
    row("2 stages", {{{{1}}, {{1}}}, 4}, false);
    row("2 stages x 2 tensor", {{{{1, 2}, tensor}, {{1, 2}, tensor}}, 4});
    row("2 stages x 2 tensor, sequence",
        {{{{1, 2}, sequence}, {{1, 2}, with(tensor, {{"*residual", "S(0),S(1)"}})}}, 4});
    row("untied, 2 tensor then 2 data", {{{{1, 2}, tensor}, {{2}}}, 2});
    row("untied, 1 then 2 tensor", {{{{1}}, {{1, 2}, tensor}}, 4});
    row("untied, 4 tensor then 2", {{{{1, 4}, tensor}, {{1, 2}, tensor}}, 4});
    const plan::ScheduleKind turns = plan::ScheduleKind::Interleaved1F1B;
    const plan::ScheduleKind cut = plan::ScheduleKind::ZeroBubbleH1;
    row("2 places x 2 stages", {{{{1}}, {{1}}, {{1}}, {{1}}}, 4, 0, turns, 2});
    row("2 places x 2 stages, one register", {{{{1}}, {{1}}, {{1}}, {{1}}}, 4, 1, turns, 2});
    row("2 places x 2 stages x 2 tensor",
        {{{{1, 2}, tensor}, {{1, 2}, tensor}, {{1, 2}, tensor}, {{1, 2}, tensor}}, 4, 0, turns, 2});
    row("2 places x 2 stages x 2 data x 2 tensor",
        {{{{2, 2}, tensor}, {{2, 2}, tensor}, {{2, 2}, tensor}, {{2, 2}, tensor}}, 4, 0, turns, 2});
    row("zb-h1, 2 stages x 2 tensor", {{{{1, 2}, tensor}, {{1, 2}, tensor}}, 4, 0, cut});
    row("zb-h1, sequence", {{{{1, 2}, sequence}, {{1, 2}, with(tensor, {{"*residual", "S(0),S(1)"}})}}, 4, 0, cut});
    row("zb-h1, layers recompute",
        {{{{1, 2}, tensor, 0, plan::Recompute::Layers}, {{1, 2}, tensor, 0, plan::Recompute::Layers}}, 4, 0, cut});
    row("zb-h1, one register", {{{{1}}, {{1}}}, 4, 1, cut}, false);
    for (const int level : {1, 2, 3}) {
        const auto zero = [&](const char *name, MeshLayout layout) {
            for (MeshStage &stage : layout.stages)
                stage.zero = level;
            QTest::addRow("ZeRO %d, %s", level, name) << layout << true;
        };
        zero("2 data", {{{{2}}}});
        zero("4 data, 2 micro-batches", {{{{4}}}, 2});
        zero("2 data, recompute", {{{{2}, {}, 0, plan::Recompute::Full}}, 2});
        zero("2 data, layers recompute", {{{{2}, {}, 0, plan::Recompute::Layers}}, 2});
        zero("2 stages x 2 data", {{{{2}}, {{2}}}, 4});
        zero("2 data x 2 tensor", {{{{2, 2}, tensor}}, 2});
        zero("2 data x sequence", {{{{2, 2}, sequence}}, 2});
        zero("2 places x 2 stages x 2 data", {{{{2}}, {{2}}, {{2}}, {{2}}}, 4, 0, turns, 2});
        zero("zb-h1, 2 stages x 2 data", {{{{2}}, {{2}}}, 4, 0, cut});
    }
    row("2 stages, one register", {{{{1}}, {{1}}}, 4, 1}, false);
}

void TestShardedTraining::layoutsAgree()
{
    QFETCH(MeshLayout, layout);
    QFETCH(bool, communicates);
    // A tied table that stages cut differently is refused.
    const bool untied = QByteArray(QTest::currentDataTag()).startsWith("untied");
    const plan::Subject tied = m_subject;
    if (untied)
        m_subject = m_untied;
    const auto restore = qScopeGuard([&] { m_subject = tied; });
    std::int64_t bytes = 0;
    const Outcome outcome = run(layout, {}, bytes);
    const std::string wrong = differs(outcome, untied ? m_expectedUntied : m_expected);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QVERIFY(bytes > 0 || !communicates);
    const run::Validation &one = untied ? m_evaluationUntied : m_evaluation;
    QVERIFY(one.samples > 0 && one.loss > 1);
    QCOMPARE(outcome.evaluation.samples, one.samples);
    QVERIFY2(std::fabs(outcome.evaluation.loss - one.loss) <= 1e-4 * one.loss,
             qPrintable(QString::number(outcome.evaluation.loss)));
    QVERIFY2(std::fabs(outcome.evaluation.accuracy - one.accuracy) <= 0.01,
             qPrintable(QString::number(outcome.evaluation.accuracy)));
}

void TestShardedTraining::clippingIsTheSameInEveryLayout()
{
    plan::Optimizer clipping;
    clipping.clipNorm = 0.05;
    std::int64_t bytes = 0;
    const Outcome one = run({{MeshStage{}}}, clipping, bytes);
    QVERIFY2(one.problem.empty(), one.problem.c_str());
    QVERIFY(std::fabs(one.losses.back() - m_expected.back()) > 1e-6);
    const Shardings tensor = tensorParallel("B,");
    for (const MeshLayout &layout :
         {MeshLayout{{{{2, 2}, tensor}}, 2}, MeshLayout{{{{2}, {}, 1}, {{2}, {}, 3}}, 2},
          MeshLayout{{{{1}}, {{1}}, {{1}}, {{1}}}, 2, 0, plan::ScheduleKind::Interleaved1F1B, 2}}) {
        const Outcome many = run(layout, clipping, bytes);
        QVERIFY2(many.problem.empty(), many.problem.c_str());
        for (std::size_t step = 0; step < one.losses.size(); ++step)
            QVERIFY(std::fabs(many.losses[step] - one.losses[step]) <= 1e-4 * one.losses[step]);
    }
}

void TestShardedTraining::halfPrecisionIsEvaluatedAsItComputes()
{
    const Shardings vocabulary = with(tensorParallel("B,"), {{"transformer.wte.weight", "B,S(0)"}});
    for (const MeshLayout &layout : {MeshLayout{{MeshStage{}}}, MeshLayout{{{{1, 2}, vocabulary}}}}) {
        plan::Plan plan = planFor(layout);
        plan.precision = plan::Precision::BFloat16;
        Training how;
        how.evaluate = true;
        const Outcome outcome = trainOn(m_text.path(), m_subject, plan, how, 0.1);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        QCOMPARE(outcome.evaluation.samples, m_evaluation.samples);
        QVERIFY2(std::fabs(outcome.evaluation.loss - m_evaluation.loss) < 0.02,
                 qPrintable(QString::number(outcome.evaluation.loss)));
        QVERIFY2(std::fabs(outcome.evaluation.accuracy - m_evaluation.accuracy) < 0.1,
                 qPrintable(QString::number(outcome.evaluation.accuracy)));
    }
}

void TestShardedTraining::zeroSavesMemory()
{
    std::int64_t before = 0;
    for (const int level : {0, 1, 2, 3}) {
        const auto program = compile::compilePlan(planFor({{{{4}, {}, level}}, 1}), m_subject);
        QVERIFY2(program.ok(), program ? "" : program.error().text().c_str());
        const std::int64_t persistent = program->ranks[0].persistentBytes;
        QVERIFY(level == 0 || persistent < before);
        before = persistent;
    }
}

QTEST_GUILESS_MAIN(TestShardedTraining)
#include "tst_sharded_training.moc"
