// SPDX-License-Identifier: Apache-2.0
// Parameters on the host (plan::Memory::hostParameters): what a plan with them takes, and which plans cannot have them.
// Training with them is in tst_memory.
#include "engine/plan/validate.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

using namespace planloom;
using namespace planloom::test;

class TestHostedParameters : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void arenaIsSmallerByThem();
    void partsFollowEachOther();
    void refusals_data();
    void refusals();

private:
    plan::Subject m_subject;
};

void TestHostedParameters::initTestCase()
{
    m_subject = tinySubject(tinyConfig(3, 2), cpus(4));
    QVERIFY(m_subject.graph && m_subject.cluster);
}

/// The arena is smaller by the parameters, and by the states where these are on the host, too: what the update needs at
/// once is a part of them, for which the pool is large enough.
void TestHostedParameters::arenaIsSmallerByThem()
{
    const StageLayout two{{0.5, 0.5}};
    const auto rankOf = [&](const std::string &where, std::int64_t &parameters) {
        plan::Plan plan = planOf(m_subject, {{two}, 8, 2, plan::ScheduleKind::GPipe});
        plan.stages.front().memory = *plan::memoryFromText("delta,budget=150000" + where);
        const auto program = compile::compilePlan(plan, m_subject);
        [&] { QVERIFY2(program, program ? "" : program.error().message.c_str()); }();
        parameters = 0;
        for (const program::Bucket &bucket : program->buckets)
            parameters += bucket.bytes();
        return program->ranks.front();
    };
    std::int64_t bytes = 0;
    const program::Rank kept = rankOf("", bytes);
    QVERIFY(kept.hostedParts.empty());
    QVERIFY(bytes > 150000);
    for (const bool states : {false, true}) {
        const program::Rank hosted =
            rankOf(states ? ",parameters=host,optimizer_state=host" : ",parameters=host", bytes);
        const std::int64_t away = bytes * (states ? 3 : 1);
        QCOMPARE(kept.persistentBytes - hosted.persistentBytes, away);
        std::int64_t inParts = 0;
        std::int64_t largest = 0;
        for (const program::HostCopy &part : hosted.hostedParts) {
            inParts += part.bytes;
            largest = std::max(largest, part.bytes);
            QVERIFY(part.host % 4096 == 0 && part.host + part.bytes <= hosted.hostBytes);
        }
        QVERIFY(hosted.hostedParts.size() > 1);
        QVERIFY(largest < away / 2);
        QCOMPARE(inParts, away);
        QVERIFY(kept.arenaBytes - hosted.arenaBytes > away / 2); // pools differ in holes, or by the largest part
        QCOMPARE(hosted.hostedStates.bytes, 0);
    }
}

/// Those that share a place of the pool come and go in turn; the update of each lies between its copies.
void TestHostedParameters::partsFollowEachOther()
{
    const StageLayout one;
    plan::Plan plan = planOf(m_subject, {{one}, 2, 2, plan::ScheduleKind::GPipe});
    plan.stages.front().memory = *plan::memoryFromText("delta,budget=60%,parameters=host,optimizer_state=host");
    const auto program = compile::compilePlan(plan, m_subject);
    QVERIFY2(program, program ? "" : program.error().message.c_str());
    const std::vector<program::HostCopy> &parts = program->ranks.front().hostedParts;
    std::map<std::string, const program::Task *> byId;
    for (const program::Task &task : program->tasks)
        byId[program::idOf(task)] = &task;
    const auto waits = [&](const std::string &id, const std::string &on) {
        const auto all = program->dependenciesOf(*byId.at(id));
        return std::any_of(all.begin(), all.end(), [&](const program::Dependency &each) {
            return program::idOf(program->task(each.task)) == on;
        });
    };
    int shared = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const std::string number = "p" + std::to_string(p + 1);
        QVERIFY(waits("s0.O." + number, "s0.CI." + number));
        QVERIFY(waits("s0.CO." + number, "s0.O." + number));
        for (std::size_t before = 0; before < p; ++before) {
            const bool meet = parts[before].place < parts[p].place + parts[p].bytes
                && parts[p].place < parts[before].place + parts[before].bytes;
            QCOMPARE(waits("s0.CI." + number, "s0.CO.p" + std::to_string(before + 1)), meet);
            shared += meet ? 1 : 0;
            QVERIFY(parts[before].host + parts[before].bytes <= parts[p].host);
        }
    }
    QVERIFY(shared > 0);
}

void TestHostedParameters::refusals_data()
{
    using Change = std::function<void(plan::Plan &)>;
    QTest::addColumn<Change>("change");
    QTest::addColumn<QString>("wanted");
    QTest::newRow("ZeRO") << Change([](plan::Plan &plan) { plan.stages.front().zero = 2; })
                          << "ZeRO 2 cuts what replicas have of them; set memory.zero to 0";
    QTest::newRow("bfloat16") << Change([](plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; })
                              << "set precision to fp32";
    QTest::newRow("averages") << Change([](plan::Plan &plan) {
        plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging;
    }) << "set exchange.kind to all-reduce";
    QTest::newRow("norms") << Change([](plan::Plan &plan) {
        plan.optimizer.rule = *update::ConfiguredRule::named("lamb");
    }) << "set optimizer.kind to one without norms";
}

void TestHostedParameters::refusals()
{
    using Change = std::function<void(plan::Plan &)>;
    QFETCH(Change, change);
    QFETCH(QString, wanted);
    const StageLayout two{{0.5, 0.5}};
    plan::Plan plan = planOf(m_subject, {{two}, 8, 2, plan::ScheduleKind::GPipe});
    plan.stages.front().memory = *plan::memoryFromText("delta,budget=60%,parameters=host");
    QVERIFY(plan::validate(plan, m_subject).ok());
    change(plan);
    const Status refused = plan::validate(plan, m_subject);
    QVERIFY(!refused);
    const QString text = QString::fromStdString(refused.error().message);
    QVERIFY2(text.contains("memory.parameters") && text.contains(wanted), qPrintable(text));
}

QTEST_GUILESS_MAIN(TestHostedParameters)
#include "tst_hosted_parameters.moc"
