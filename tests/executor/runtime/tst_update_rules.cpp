// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/restore.h"
#include "executor/runtime/part_of_training.h"
#include "executor/runtime/tiny_training.h"

#include <QTemporaryDir>
#include <QTest>

#include <map>
#include <string>
#include <vector>

using namespace planloom;
using namespace planloom::test;

namespace {

using Change = std::function<void(plan::Plan &)>;

/// A way to lay the small GPT out over devices.
struct Shape {
    Layout layout;
    Change change = {};
};

/// The devices of a stage as a mesh, with tensor parallelism on the second dimension (Shoeybi et al., 2019, §3).
void onMesh(plan::Stage &stage, std::vector<int> mesh, int zero)
{
    stage.replicaShares.clear();
    stage.mesh = std::move(mesh);
    stage.zero = zero;
    if (stage.mesh.size() > 1)
        stage.shardings = {{"*.attn.c_attn.weight", "B,S(1:32+32+32)"},
                           {"*.attn.c_attn.bias", "B,S(0:32+32+32)"},
                           {"*.attn.c_proj.weight", "B,S(0)"},
                           {"*.mlp.c_fc.weight", "B,S(1)"},
                           {"*.mlp.c_fc.bias", "B,S(0)"},
                           {"*.mlp.c_proj.weight", "B,S(0)"}};
}

Change everyStage(std::vector<int> mesh, int zero)
{
    return [mesh = std::move(mesh), zero](plan::Plan &plan) {
        for (plan::Stage &stage : plan.stages)
            onMesh(stage, mesh, zero);
    };
}

const std::map<std::string, Shape> &shapes()
{
    const StageLayout one;
    const StageLayout two{{0.5, 0.5}};
    const StageLayout four{{0.25, 0.25, 0.25, 0.25}};
    static const std::map<std::string, Shape> all{
        {"one rank, 4 micro-batches", {{{one}, 8, 4}}},
        {"2 replicas", {{{two}, 8, 2}}},
        {"2 unequal replicas", {{{{{0.75, 0.25}}}, 8, 2}}},
        {"2 stages, tied", {{{one, one}, 8, 4}}},
        {"2 stages x 2 replicas", {{{two, two}, 8, 4}}},
        {"stages in turn on one device", {{{one, one, one, one}, 8, 4, plan::ScheduleKind::GPipe, {0, 1, 1, 0}}}},
        {"2 tensor", {{{two}, 8, 2}, everyStage({1, 2}, 0)}},
        {"2 replicas x 2 tensor", {{{four}, 8, 2}, everyStage({2, 2}, 0)}},
        {"ZeRO 1", {{{two}, 8, 2}, everyStage({2}, 1)}},
        {"ZeRO 2", {{{two}, 8, 2}, everyStage({2}, 2)}},
        {"ZeRO 3", {{{two}, 8, 2}, everyStage({2}, 3)}},
        {"ZeRO 1, 2 replicas x 2 tensor", {{{four}, 8, 2}, everyStage({2, 2}, 1)}},
        {"ZeRO 1, 2 stages x 2 replicas", {{{two, two}, 8, 4}, everyStage({2}, 1)}},
    };
    return all;
}

} // namespace

/// Every update rule trains a small GPT to the same losses however it is laid out, and goes on from a checkpoint.
class TestUpdateRules : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void layoutsAgree_data();
    void layoutsAgree();
    void clippingAndGroupsAgree_data();
    void clippingAndGroupsAgree();
    void resumesInAnotherLayout_data();
    void resumesInAnotherLayout();
    void programsOfAnotherRuleAreRefused();

private:
    [[nodiscard]] plan::Plan planFor(const update::Rule &rule, const Shape &shape) const;
    static void rules();
    Status part(const plan::Plan &plan, std::int64_t first, std::int64_t last, const std::string &from,
                const std::string &runDir, std::vector<double> &losses);

    TextFile m_text{{"a", "b", "c", "d", "e", "f", "g", "h", " "}};
    plan::Subject m_subject;
    std::map<std::string, std::vector<double>> m_oneRank; ///< losses
};

void TestUpdateRules::initTestCase()
{
    m_subject = tinySubject(tinyConfig(4, 4), cpus(8));
    QVERIFY(m_subject.graph && m_subject.cluster);
}

plan::Plan TestUpdateRules::planFor(const update::Rule &rule, const Shape &shape) const
{
    plan::Optimizer optimizer;
    optimizer.rule = update::ConfiguredRule(rule);
    if (rule.setting("momentum") != nullptr)
        (void)optimizer.rule.set("momentum", 0.9);
    optimizer.learningRate = rule.name == "sgd" ? 0.05 : rule.name == "lamb" ? 0.01 : 1e-3;
    optimizer.weightDecay = 0.1;
    plan::Plan plan = planOf(m_subject, shape.layout, optimizer);
    if (shape.change)
        shape.change(plan);
    return plan;
}

void TestUpdateRules::rules()
{
    QTest::addColumn<std::string>("rule");
    for (const update::Rule &rule : update::allRules())
        QTest::newRow(std::string(rule.name).c_str()) << std::string(rule.name);
}

void TestUpdateRules::layoutsAgree_data()
{
    QTest::addColumn<std::string>("rule");
    QTest::addColumn<std::string>("shape");
    for (const update::Rule &rule : update::allRules())
        for (const auto &[name, shape] : shapes())
            QTest::newRow((std::string(rule.name) + ", " + name).c_str()) << std::string(rule.name) << name;
}

void TestUpdateRules::layoutsAgree()
{
    QFETCH(std::string, rule);
    QFETCH(std::string, shape);
    std::vector<double> &expected = m_oneRank[rule];
    if (expected.empty()) {
        const Outcome one = trainOn(m_text.path(), m_subject, planFor(**update::findRule(rule), {}));
        QVERIFY2(one.problem.empty(), one.problem.c_str());
        expected = one.losses;
        QVERIFY(expected.back() < expected.front());
    }
    const Outcome outcome = trainOn(m_text.path(), m_subject, planFor(**update::findRule(rule), shapes().at(shape)));
    // LAMB with the norms of a half in place of the whole tensor's is off by less than 1e-4 with 2 tensor.
    const std::string wrong = differs(outcome, expected, 1e-6);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestUpdateRules::clippingAndGroupsAgree_data() { rules(); }

/// Settings that are every rule's: scaled gradients, other decay and rates for some parameters, bfloat16 copies.
void TestUpdateRules::clippingAndGroupsAgree()
{
    QFETCH(std::string, rule);
    const auto run = [&](const Shape &on) {
        plan::Plan plan = planFor(**update::findRule(rule), on);
        plan.optimizer.clipNorm = 0.5;
        plan.optimizer.groups = {{"rank<2", 0, 1}, {"*.mlp.*", 0.2, 0.5}};
        plan.optimizer.schedule.warmupSteps = 2;
        return trainOn(m_text.path(), m_subject, plan);
    };
    const Outcome one = run({});
    QVERIFY2(one.problem.empty(), one.problem.c_str());
    for (const char *shape : {"2 replicas x 2 tensor", "ZeRO 1, 2 stages x 2 replicas"}) {
        const std::string wrong = differs(run(shapes().at(shape)), one.losses);
        QVERIFY2(wrong.empty(), (shape + (": " + wrong)).c_str());
    }
}

Status TestUpdateRules::part(const plan::Plan &plan, std::int64_t first, std::int64_t last, const std::string &from,
                             const std::string &runDir, std::vector<double> &losses)
{
    return trainPart({first, last, from, runDir}, plan, m_subject, m_text.path(), losses);
}

void TestUpdateRules::resumesInAnotherLayout_data() { rules(); }

/// Two steps on one rank, two more as in another shape: the losses of one run on one rank, and in one layout its bits.
void TestUpdateRules::resumesInAnotherLayout()
{
    QFETCH(std::string, rule);
    const plan::Plan one = planFor(**update::findRule(rule), {});
    QTemporaryDir wholeDir, firstDir, sameDir;
    std::vector<double> whole, same;
    Status status = part(one, 0, 4, {}, wholeDir.path().toStdString(), whole);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    status = part(one, 0, 2, {}, firstDir.path().toStdString(), same);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    const std::vector<double> begun = same;
    const auto kept = checkpoint::newestCheckpoint(firstDir.path().toStdString());
    QVERIFY2(kept.ok(), kept ? "" : kept.error().text().c_str());
    status = part(one, 2, 4, kept->folder, sameDir.path().toStdString(), same);
    QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
    QCOMPARE(same, whole);
    for (const char *shape : {"2 stages x 2 replicas", "ZeRO 1, 2 replicas x 2 tensor"}) {
        const plan::Plan other = planFor(**update::findRule(rule), shapes().at(shape));
        QTemporaryDir otherDir;
        Outcome outcome;
        outcome.losses = begun;
        status = part(other, 2, 4, kept->folder, otherDir.path().toStdString(), outcome.losses);
        QVERIFY2(status.ok(), status ? "" : status.error().text().c_str());
        const std::string wrong = differs(outcome, whole);
        QVERIFY2(wrong.empty(), (shape + (": " + wrong)).c_str());
    }
}

void TestUpdateRules::programsOfAnotherRuleAreRefused()
{
    const plan::Plan plan = planFor(**update::findRule("adamw"), {});
    const auto program = compile::compilePlan(plan, m_subject);
    const auto needs = data::needsOf(*m_subject.graph);
    const auto data = data::openDataSet(m_text.path(), *needs);
    QVERIFY(program.ok() && data.ok());
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0)};
    plan::Optimizer other;
    other.rule = *update::ConfiguredRule::named("sgd");
    const Outcome outcome = train(*program, m_subject, other, feed, {});
    QVERIFY2(outcome.problem.find("compiled for another optimizer than sgd") != std::string::npos,
             outcome.problem.c_str());
}

QTEST_GUILESS_MAIN(TestUpdateRules)
#include "tst_update_rules.moc"
