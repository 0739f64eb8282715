// SPDX-License-Identifier: Apache-2.0
// How long the course of a memory policy takes: by its replay, by which `ahead` chooses, and by the cost clock on the
// whole Program that is compiled from it.
#include "engine/compile/compile.h"
#include "engine/compile/deployment.h"
#include "engine/compile/stage_memory.h"
#include "engine/cost/signature.h"
#include "engine/memory/replay.h"
#include "engine/simulate/clock.h"
#include "tests/engine/compile/random_plans.h"
#include "tests/gpu/small_images.h"

#include <QTest>

#include <limits>

using namespace planloom;

namespace {

using GraphPtr = std::shared_ptr<const graph::Graph>;

constexpr double kOverhead = 1e-4; ///< seconds of a task beside its operators, where there is a profile

/// From the first start of a pass to the end of the last pass or copy of its tensors, per rank.
class Spans final : public simulate::Listener {
public:
    explicit Spans(const program::Program &program) : m_program(program), m_spans(program.ranks.size()) {}
    void started(TaskId id, double seconds) override
    {
        if (Span *span = spanOf(id))
            span->first = std::min(span->first, seconds);
    }
    void ended(TaskId id, double seconds) override
    {
        if (Span *span = spanOf(id))
            span->last = std::max(span->last, seconds);
    }
    [[nodiscard]] double seconds(RankId rank) const { return m_spans[rank.index()].last - m_spans[rank.index()].first; }

private:
    struct Span {
        double first = std::numeric_limits<double>::infinity();
        double last = 0;
    };
    Span *spanOf(TaskId id)
    {
        const program::Task &task = m_program.task(id);
        const bool passes = task.as<program::Compute>() != nullptr || task.as<program::Swap>() != nullptr;
        return passes && task.microBatch >= 0 ? &m_spans[task.rank.index()] : nullptr;
    }
    const program::Program &m_program;
    std::vector<Span> m_spans;
};

/// The stream that @p memory is a course of, as far as its replay reads it.
memory::Stream streamOf(const compile::StageMemory &memory, std::int64_t microBatches)
{
    memory::Stream stream;
    for (const double seconds : memory.seconds)
        stream.operators.push_back({seconds, {}, {}, {}, 0});
    stream.storages.resize(1 + memory.roots.size() * static_cast<std::size_t>(microBatches));
    for (std::size_t s = 1; s < stream.storages.size(); ++s)
        stream.storages[s].bytes = memory.bytes[static_cast<std::size_t>(memory.rootOf(static_cast<std::int32_t>(s)))];
    return stream;
}

/// A course by both: replayed, and as the whole Program runs it.
struct Both {
    double replayed = 0;
    double simulated = 0;
    std::size_t copies = 0;
    std::size_t parts = 0; ///< of passes, between boxing and the exchange of buckets: each has a task's overhead
};

Result<std::vector<Both>> timesOf(const plan::Plan &plan, const plan::Subject &subject)
{
    const compile::Source source{plan, subject};
    const compile::Samples samples(source);
    const compile::Options options{.bodies = false};
    auto made = compile::deploy(source, samples, options, false, false);
    if (!made)
        return made.error();
    const auto memory = compile::planMemory({source, samples, made->stages, made->ranks, made->instances, made->teams,
                                             made->buckets, made->owners, made->parts});
    if (!memory)
        return memory.error();
    const auto program = compile::compilePlan(plan, subject, options);
    if (!program)
        return program.error();
    Spans spans(*program);
    if (const auto seconds = simulate::CostClock(*program).run(&spans); !seconds)
        return seconds.error();
    std::vector<Both> all;
    for (std::size_t i = 0; i < made->instances.size(); ++i) {
        const compile::StageMemory &course = *memory->of(i);
        Both both;
        both.replayed = memory::replaySeconds(course.course, streamOf(course, plan.microBatches), course.copies);
        both.simulated = spans.seconds(made->instances[i].rank);
        both.copies = static_cast<std::size_t>(course.course.swaps);
        const compile::StageParts &parts = made->parts[made->instances[i].stage.index()];
        both.parts = (parts.forward.size() + parts.backward.size()) * static_cast<std::size_t>(plan.microBatches)
            + std::max(parts.last.size(), parts.backward.size()) - parts.backward.size();
        all.push_back(both);
    }
    return all;
}

/// A processor without figures of its own, with a profile of every operator of @p graph, or a GPU.
plan::Subject subjectOf(const GraphPtr &graph, const QString &device)
{
    cluster::RegularCluster spec;
    spec.name = "two";
    spec.perNode = 2;
    spec.type = device == "GPU" ? *cluster::knownDeviceType("V100-16GB")
                                : cluster::DeviceType{"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 40), 1e10};
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    const auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    const plan::Subject bare = plan::makeSubject(graph, cluster, nullptr, "test");
    if (device != "profile")
        return bare;
    auto profile = std::make_shared<cost::Profile>();
    profile->model = graph->name();
    profile->deviceType = "CPU";
    profile->extra["task_overhead_seconds"] = kOverhead;
    const plan::Plan plan = testing::planOf(bare, {{1, 1}}, 4, 1);
    const compile::Source source{plan, bare};
    const auto made = compile::deploy(source, compile::Samples(source), {.bodies = false}, false, false);
    if (!made)
        qFatal("%s", made.error().text().c_str());
    const graph::Graph &training = made->stages.front().training()->graph;
    double seconds = 1e-5;
    for (const graph::Op &op : training.ops())
        profile->kernels[cost::signatureOf(training, op)] = {{1, Seconds(seconds *= 1.01)}};
    return plan::makeSubject(graph, cluster, std::move(profile), "test");
}

GraphPtr graphOf(const QString &model)
{
    auto made = model == "resnet-50" ? test::withImages(*graph::resnet50(), 32)
                                     : graph::lstmLanguageModel({"lstm", 2, 32, 32, 100, 8, false});
    return model == "gpt" ? testing::tinyGpt(true, 3) : std::make_shared<const graph::Graph>(*std::move(made));
}

} // namespace

class TestCourseTimes : public QObject {
    Q_OBJECT

private slots:
    void replayIsTheCostClock_data();
    void replayIsTheCostClock();
};

void TestCourseTimes::replayIsTheCostClock_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("device");
    QTest::addColumn<QStringList>("policies");
    const QStringList all{"delta,budget=60%",
                          "delta,budget=45%,director=swap",
                          "dtr,budget=50%,director=recompute",
                          "lru,budget=60%,director=swap,prefetch=0",
                          "lru,budget=60%,director=swap,bandwidth_out=2e8,bandwidth_in=1e9",
                          "capuchin,budget=50%,trigger=after",
                          "ahead,budget=45%"};
    for (const char *device : {"GPU", "processor", "profile"}) {
        QTest::addRow("gpt, %s", device) << "gpt" << device << all;
        QTest::addRow("lstm, %s", device) << "lstm" << device << all;
        QTest::addRow("resnet-50, %s", device) << "resnet-50" << device << all.mid(1, 1);
    }
}

/// A rank that waits for no other takes what the replay of its course says, and the overhead of tasks where a profile
/// has measured one, of which the replay does not know and which copies may hide. A rank of a pipeline waits for the
/// others besides.
void TestCourseTimes::replayIsTheCostClock()
{
    QFETCH(QString, model);
    QFETCH(QString, device);
    QFETCH(QStringList, policies);
    const plan::Subject subject = subjectOf(graphOf(model), device);
    std::size_t copies = 0;
    const auto both = [&](const std::vector<testing::StageShape> &stages, plan::ScheduleKind kind,
                          std::int64_t microBatches, const QString &policy) {
        plan::Plan plan = testing::planOf(subject, stages, 12, microBatches);
        plan.schedule.kind = kind;
        for (plan::Stage &stage : plan.stages)
            stage.memory = *plan::memoryFromText(policy.toStdString());
        auto times = timesOf(plan, subject);
        if (!times)
            qFatal("%s", times.error().text().c_str());
        return *std::move(times);
    };
    constexpr double kRounding = 1e-12;
    for (const QString &policy : policies)
        for (const auto &[replicas, microBatches] : {std::pair{1, 3}, {2, 2}})
            for (const Both &each : both({{replicas, 1}}, plan::ScheduleKind::OneF1B, microBatches, policy)) {
                const double overhead = device == "profile" ? static_cast<double>(each.parts) * kOverhead : 0;
                copies += each.copies;
                QVERIFY(each.simulated >= each.replayed * (1 - kRounding));
                QVERIFY2(each.simulated <= (each.replayed + overhead) * (1 + kRounding),
                         qPrintable(QString("%1: %2 for %3").arg(policy).arg(each.simulated).arg(each.replayed)));
            }
    QVERIFY(copies > 0);
    for (const auto kind : {plan::ScheduleKind::OneF1B, plan::ScheduleKind::ZeroBubbleH1})
        for (const Both &each : both({{1, 1}, {1, 1}}, kind, 4, "delta,budget=80%"))
            QVERIFY(each.simulated >= each.replayed * (1 - kRounding));
}

QTEST_GUILESS_MAIN(TestCourseTimes)
#include "tst_course_times.moc"
