// SPDX-License-Identifier: Apache-2.0
// Parameters on the host (plan::Memory::hostParameters): what a plan with them takes, and which plans cannot have them.
// Training with them is in tst_memory.
#include "engine/compile/part_updates.h"
#include "engine/plan/validate.h"
#include "executor/runtime/tiny_training.h"

#include <QTest>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

using namespace planloom;
using namespace planloom::test;

class TestHostedParameters : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void arenaIsSmallerByThem();
    void partsFollowEachOther();
    void updatesShareCoresWithCopies();
    void updatesTakeLongerOnAProcessor();
    void whatIsNotTrainedStaysOnTheHost();
    void thePoolIsUsed();
    void hostBytesHold();
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
    std::int64_t poolBytes = 0, largestParameter = 0;
    const auto rankOf = [&](const std::string &where, std::int64_t &parameters) {
        plan::Plan plan = planOf(m_subject, {{two}, 8, 2, plan::ScheduleKind::GPipe});
        plan.stages.front().memory = *plan::memoryFromText("delta,budget=150000" + where);
        const auto program = compile::compilePlan(plan, m_subject);
        [&] { QVERIFY2(program, program ? "" : program.error().message.c_str()); }();
        parameters = 0;
        poolBytes = program->bodies.front().pools[static_cast<std::size_t>(program::Area::Pool)].bytes();
        for (const program::Bucket &bucket : program->buckets) {
            parameters += bucket.bytes();
            for (const program::Bucket::Entry &entry : bucket.entries)
                largestParameter = std::max(largestParameter, (entry.elements + 31) / 32 * 32 * 4);
        }
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
        // One parameter, or a quarter of the pool.
        QVERIFY2(largest <= std::max(poolBytes / 4, largestParameter * (states ? 3 : 1)),
                 qPrintable(QString("%1 of %2").arg(largest).arg(poolBytes)));
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
    const auto waits = [&](const std::string &id, const std::string &on) { // by others, too
        std::set<std::string> seen;
        std::vector<std::string> open{id};
        while (!open.empty()) {
            const auto all = program->dependenciesOf(*byId.at(open.back()));
            open.pop_back();
            for (const program::Dependency &each : all)
                if (const std::string other = program::idOf(program->task(each.task));
                    each.stepsBack == 0 && seen.insert(other).second)
                    open.push_back(other);
        }
        return seen.contains(on);
    };
    int shared = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const std::string number = "p" + std::to_string(p + 1);
        QVERIFY(waits("s0.O." + number, "s0.CI." + number));
        QVERIFY(waits("s0.CO." + number, "s0.O." + number));
        const auto direct = program->dependenciesOf(*byId.at("s0.CI." + number));
        QVERIFY(p == 0 || direct.size() <= 3); // however many there are
        for (std::size_t before = 0; before < p; ++before) {
            const bool meet = parts[before].place < parts[p].place + parts[p].bytes
                && parts[p].place < parts[before].place + parts[before].bytes;
            QVERIFY(!meet || waits("s0.CI." + number, "s0.CO.p" + std::to_string(before + 1)));
            shared += meet ? 1 : 0;
            QVERIFY(parts[before].host + parts[before].bytes <= parts[p].host);
        }
    }
    QVERIFY(shared > 0);
}

/// By hand. Parts of 2 s, copies of 1 s each way, and room for all: while the first is updated from 1 on two come,
/// which take 2 s; the first then goes beside the second, the second beside the third. What waits for its copy owes
/// nothing.
void TestHostedParameters::updatesShareCoresWithCopies()
{
    using compile::PartUpdate;
    const auto delays = [](const std::vector<PartUpdate> &parts, double load) {
        QList<double> found;
        for (const compile::PartCourse &course : compile::updateParts(parts, load))
            found << course.delay;
        return found;
    };
    const std::vector<PartUpdate> apart{{0, 4, 2, 1, 1}, {4, 4, 2, 1, 1}, {8, 4, 2, 1, 1}};
    QCOMPARE(delays(apart, 1), (QList<double>{2, 1, 1}));
    QCOMPARE(delays(apart, 0), (QList<double>{0, 0, 0}));
    const std::vector<PartUpdate> inTurn{{0, 4, 2, 1, 1}, {0, 4, 2, 1, 1}}; // nothing runs beside another
    QCOMPARE(delays(inTurn, 1), (QList<double>{0, 0}));
    // The third lies where both others were; the fourth where it is behind the third that the second had something.
    const std::vector<PartUpdate> met{{0, 4, 1, 1, 1}, {4, 4, 1, 1, -1}, {0, 6, 1, 1, 1}, {6, 2, 1, 1, 1}};
    const auto courses = compile::updateParts(met, 1);
    QCOMPARE(courses[2].awaits, (std::vector<std::size_t>{1, 0})); // that which goes last, and that which is last
    QVERIFY(courses[0].awaits.empty() && courses[1].awaits.empty() && courses[3].awaits.empty());
}

/// The same plan on a device whose copies have an engine of their own, and on a processor: updates of parts take longer
/// there, by their own time at most.
void TestHostedParameters::updatesTakeLongerOnAProcessor()
{
    const StageLayout one;
    plan::Plan plan = planOf(m_subject, {{one}, 2, 2, plan::ScheduleKind::GPipe});
    double alone = 0, beside = 0;
    int longer = 0;
    for (const double bandwidth : {0.0, 1e30}) { // copies that take no time take none from updates
        plan.stages.front().memory =
            *plan::memoryFromText("delta,budget=60%,parameters=host,optimizer_state=host,latency=0");
        plan.stages.front().memory.bandwidthIn = plan.stages.front().memory.bandwidthOut = bandwidth;
        const auto program = compile::compilePlan(plan, m_subject);
        QVERIFY2(program, program ? "" : program.error().message.c_str());
        for (const program::Task &task : program->tasks)
            if (const auto *update = task.as<program::Update>(); update != nullptr && update->part >= 0) {
                (bandwidth == 0 ? beside : alone) += task.duration.value();
                ++longer;
            }
    }
    QVERIFY(longer > 2 && alone > 0);
    QVERIFY2(beside > 1.05 * alone && beside <= 2 * alone * (1 + 1e-9),
             qPrintable(QString("%1 for %2").arg(beside).arg(alone)));
}

/// A learning rate of 0 leaves parameters as they are: nothing goes back, if no states go with them.
void TestHostedParameters::whatIsNotTrainedStaysOnTheHost()
{
    const StageLayout one;
    plan::Plan plan = planOf(m_subject, {{one}, 2, 2, plan::ScheduleKind::GPipe});
    const auto copiesOf = [&](const char *settings) {
        plan.stages.front().memory = *plan::memoryFromText(std::string("delta,budget=60%,parameters=host") + settings);
        const auto program = compile::compilePlan(plan, m_subject);
        if (!program)
            qWarning("%s", program.error().message.c_str());
        std::pair<int, int> copies; // of parts: in, out
        for (const program::Task &task : program ? program->tasks : std::vector<program::Task>())
            if (const auto *swap = task.as<program::Swap>(); swap != nullptr && task.microBatch < 0)
                ++(swap->out ? copies.second : copies.first);
        return copies;
    };
    const auto all = copiesOf("");
    QVERIFY(all.first > 2);
    QCOMPARE(all.first, all.second);
    plan.optimizer.groups = {{"*h.0.*", 0, 0}};
    const auto some = copiesOf("");
    QVERIFY(some.second > 0 && some.second < some.first);
    const auto withStates = copiesOf(",optimizer_state=host");
    QCOMPARE(withStates.first, withStates.second);
}

/// A budget below what the update needs at once, for which the pool is there anyway: the passes use all of it.
void TestHostedParameters::thePoolIsUsed()
{
    const StageLayout one;
    plan::Plan plan = planOf(m_subject, {{one}, 8, 8, plan::ScheduleKind::GPipe});
    const auto programOf = [&](std::int64_t budget) {
        plan.stages.front().memory =
            *plan::memoryFromText("delta,parameters=host,optimizer_state=host,budget=" + std::to_string(budget));
        return compile::compilePlan(plan, m_subject);
    };
    const auto movesOf = [](const program::Program &program) { return program.ranks.front().decisions.size(); };
    const auto poolOf = [](const program::Program &program) {
        return program.bodies.front().pools[static_cast<std::size_t>(program::Area::Pool)].bytes();
    };
    const auto small = programOf(40'000);
    QVERIFY2(small, small ? "" : small.error().message.c_str());
    const std::int64_t pool = poolOf(*small);
    QVERIFY2(pool > 2 * 40'000, qPrintable(QString::number(pool)));
    const auto whole = programOf(pool);
    QVERIFY(whole);
    QCOMPARE(poolOf(*whole), pool);
    QCOMPARE(movesOf(*small), movesOf(*whole));
}

/// What is on the host is rounded to whole blocks, and host_bytes are a limit of all of it.
void TestHostedParameters::hostBytesHold()
{
    const StageLayout one;
    plan::Plan plan = planOf(m_subject, {{one}, 8, 8, plan::ScheduleKind::GPipe});
    int kept = 0;
    for (const char *where : {"parameters=host", "optimizer_state=host", "parameters=host,optimizer_state=host"})
        for (const char *tier : {"memory", "/tmp"})
            for (std::int64_t most = 400'000; most < 1'600'000; most += 50'001) {
                plan.stages.front().memory =
                    *plan::memoryFromText(std::string("delta,budget=300000,director=swap,") + where
                                          + ",host_tier=" + tier + ",host_bytes=" + std::to_string(most));
                const auto program = compile::compilePlan(plan, m_subject, {.bodies = false});
                if (!program)
                    continue;
                ++kept;
                QVERIFY2(program->ranks.front().hostBytes <= most, where);
            }
    QVERIFY(kept > 10);
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
    QTest::newRow("averages of a group") << Change([](plan::Plan &plan) {
        plan.exchange.groups = {{"*", plan::ExchangePolicy::DelayedAveraging}};
    }) << "(exchange.groups[0]) averages them; set exchange.groups[0].kind to all-reduce";
    QTest::newRow("next step") << Change([](plan::Plan &plan) { plan.exchange.acrossSteps = true; })
                               << "set exchange.across_steps to false";
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
