// SPDX-License-Identifier: Apache-2.0
// What tasks declare of the buffers that they use, on random plans: every buffer of a micro-batch is taken once and
// given back once, by a task that comes behind the one that takes it, and what is read was written before.
#include "engine/compile/compile.h"
#include "tests/engine/compile/random_plans.h"

#include <QTest>

#include <map>
#include <set>
#include <tuple>
#include <vector>

using namespace planloom;
using program::Effect;
using program::Task;

namespace {

/// The slot that a micro-batch has in an area of a body.
using Buffer = std::tuple<BodyId, std::int32_t, program::Area>;

struct Uses {
    std::map<Effect::Action, std::vector<TaskId>> by;
};

class Order {
public:
    explicit Order(const program::Program &program) : m_program(program)
    {
        for (const program::Rank &rank : program.ranks)
            for (const auto &lane : rank.orders)
                for (std::size_t t = 1; t < lane.size(); ++t)
                    m_inFront[lane[t]] = lane[t - 1];
    }

    /// True if @p later is @p earlier or comes behind it: waits for it or stands behind it on its lane, or on another
    /// task of the step that does.
    [[nodiscard]] bool reaches(TaskId later, TaskId earlier)
    {
        const auto [found, isNew] = m_before.try_emplace(later);
        if (isNew) {
            std::set<TaskId> before{later};
            std::vector<TaskId> open{later};
            while (!open.empty()) {
                const TaskId task = open.back();
                open.pop_back();
                const auto add = [&](TaskId in) {
                    if (before.insert(in).second)
                        open.push_back(in);
                };
                if (const auto front = m_inFront.find(task); front != m_inFront.end())
                    add(front->second);
                for (const program::Dependency &dependency : m_program.dependenciesOf(m_program.task(task)))
                    if (dependency.stepsBack == 0)
                        add(dependency.task);
                if (const GroupId group = m_program.task(task).group; group.valid()) // starts and ends with the others
                    for (const TaskId member : m_program.membersOf(group))
                        add(member);
            }
            found->second = std::move(before);
        }
        return found->second.contains(earlier);
    }

private:
    const program::Program &m_program;
    std::map<TaskId, TaskId> m_inFront; ///< on its lane
    std::map<TaskId, std::set<TaskId>> m_before;
};

std::map<Buffer, Uses> usesOf(const program::Program &program)
{
    std::map<Buffer, Uses> uses;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
        const TaskId id(static_cast<std::int64_t>(t));
        const Task &task = program.task(id);
        for (const Effect &effect : program.effectsOf(task))
            uses[{effect.body, task.microBatch, effect.area}].by[effect.action].push_back(id);
    }
    return uses;
}

} // namespace

class TestEffects : public QObject {
    Q_OBJECT

private slots:
    void buffersOfRandomPlans()
    {
        std::size_t buffers = 0;
        std::size_t reads = 0;
        for (unsigned seed = 0; seed < 60; ++seed) {
            const auto [plan, about] = testing::randomCase(seed);
            const auto program = compile::compilePlan(plan, about, {.bodies = false});
            if (!program) // refused
                continue;
            Order order(*program);
            for (auto &[buffer, uses] : usesOf(*program)) {
                const QString where = QStringLiteral("plan %1, body %2, micro-batch %3, %4")
                                          .arg(seed)
                                          .arg(std::get<BodyId>(buffer).value)
                                          .arg(std::get<std::int32_t>(buffer))
                                          .arg(QLatin1String(program::name(std::get<program::Area>(buffer))));
                const auto &takers = uses.by[Effect::Action::Takes];
                const auto &givers = uses.by[Effect::Action::Gives];
                const auto &writers = uses.by[Effect::Action::Writes];
                const auto &readers = uses.by[Effect::Action::Reads];
                if (std::get<program::Area>(buffer) == program::Area::Workspace) { // of each pass anew
                    QVERIFY2(takers.size() == givers.size(), qPrintable(where));
                    continue;
                }
                if (takers.empty()
                    || givers.empty()) // of a stage at an end of the pipeline: no message has it, and it has no room
                    continue;
                ++buffers;
                const auto any = [](const auto &tasks, const auto &is) {
                    return std::any_of(tasks.begin(), tasks.end(), is);
                };
                for (const TaskId taker : takers) { // messages of several replicas come on their own
                    for (const TaskId giver : givers)
                        QVERIFY2(order.reaches(giver, taker), qPrintable(where));
                    for (const TaskId reader : readers)
                        QVERIFY2(order.reaches(reader, taker), qPrintable(where));
                }
                for (const TaskId reader : readers) {
                    ++reads;
                    QVERIFY2(any(writers, [&](TaskId writer) { return order.reaches(reader, writer); }),
                             qPrintable(where));
                    // A message that passes on a gradient where it came in may end later: the next one in its place
                    // waits for it.
                    if (std::get<program::Area>(buffer) != program::Area::GradientInbox
                        || program->task(reader).lane == program::Lane::Compute)
                        QVERIFY2(any(givers, [&](TaskId giver) { return order.reaches(giver, reader); }),
                                 qPrintable(where));
                }
            }
        }
        QVERIFY(buffers > 1000);
        QVERIFY(reads > 1000);
    }
};

QTEST_GUILESS_MAIN(TestEffects)
#include "tst_effects.moc"
