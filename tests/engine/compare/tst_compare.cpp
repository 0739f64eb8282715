// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/compare/comparison.h"
#include "engine/import/import.h"
#include "engine/plan/fingerprint.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <nlohmann/json.hpp>

#include <set>

using namespace planloom;
using namespace planloom::compare;

namespace {

/// Two ranks with a compute and a link lane. Times in nanoseconds; a step is worked by hand in partsByHand().
trace::Trace twoRanks()
{
    trace::Trace trace;
    trace.lanes = {{"compute", trace::Work::Compute, 1}, {"link", trace::Work::Communication, 1}};
    trace.kinds = trace::standardKinds();
    trace.ranks = {{"n0:g0"}, {"n0:g1"}};
    trace.tasks = {{"s0.F.m0", trace::Kind::Forward, 0, 0, -1},  {"s0.send", trace::Kind::Send, 0, 0, 7},
                   {"s1.recv", trace::Kind::Receive, 1, 0, 7},   {"s1.F.m0", trace::Kind::Forward, 1, 0, -1},
                   {"s0.B.m0", trace::Kind::Backward, 0, 0, -1}, {"s0.U", trace::Kind::Optimizer, 0, -1, -1}};
    return trace;
}

/// Adds a step of 100 ns * @p factor from @p begin on.
void addStep(trace::Trace &trace, std::int32_t step, std::int64_t begin, std::int64_t factor = 1)
{
    const auto add = [&](std::int64_t start, std::int64_t duration, std::int32_t task, std::int32_t rank,
                         std::int32_t lane) {
        trace.records.push_back({begin + start * factor, duration * factor, task, step, rank, lane});
    };
    add(0, 40, 0, 0, 0);  // forward of rank 0
    add(40, 20, 1, 0, 1); // it sends
    add(50, 30, 4, 0, 0); // backward, half of the message beside it
    add(80, 20, 5, 0, 0); // its update
    add(10, 50, 2, 1, 1); // rank 1 is there first: waits from 10 to 40, receives to 60
    add(60, 30, 3, 1, 0); // forward of rank 1, then it is idle
}

const StepParts::Part *partOf(const StepParts &parts, const char *name)
{
    for (const StepParts::Part &part : parts.parts)
        if (part.kind.name == name)
            return &part;
    return nullptr;
}

std::vector<run::StepMetrics> stepsOf(const std::vector<double> &seconds)
{
    std::vector<run::StepMetrics> steps;
    for (std::size_t i = 0; i < seconds.size(); ++i)
        steps.push_back({static_cast<std::int64_t>(i), 1, seconds[i], 1});
    return steps;
}

/// gpt-nano in two stages on two devices.
plan::Document twoStages(std::size_t cut)
{
    const auto model = import::loadModel("zoo:gpt-nano");
    const auto cluster = import::loadCluster("local:2");
    plan::Document document{{}, plan::makeSubject(model->graph, *cluster, nullptr, "zoo:gpt-nano")};
    document.plan.modelName = "gpt-nano";
    document.plan.clusterName = (*cluster)->name();
    document.plan.globalBatch = 8;
    document.plan.microBatches = 4;
    document.plan.schedule.kind = plan::ScheduleKind::GPipe;
    const std::size_t layers = document.subject.layers().size();
    const auto stage = [](const char *name, std::size_t begin, std::size_t end, int device) {
        plan::Stage made;
        made.name = name;
        made.firstLayer = begin;
        made.lastLayer = end;
        made.devices = {DeviceId(device)};
        return made;
    };
    document.plan.stages = {stage("first", 0, cut, 0), stage("second", cut, layers, 1)};
    return document;
}

run::Summary measuredOf(double seconds)
{
    run::Summary summary;
    summary.steps = 4;
    summary.iterationSecondsMedian = seconds;
    return summary;
}

std::int64_t reached(const Waterfall &waterfall)
{
    std::int64_t at = waterfall.from;
    for (const Waterfall::Delta &delta : waterfall.deltas)
        at += delta.change;
    return at;
}

} // namespace

/// Parts of steps, waterfalls, histograms, and what may be compared.
class TestCompare : public QObject {
    Q_OBJECT

private Q_SLOTS:
    /// A run whose plan file is that of another side, byte by byte, has its prediction; any other byte makes one anew.
    void equalPlansArePredictedOnce()
    {
        const QTemporaryDir dir;
        const auto folder = [&dir](const char *name) { return dir.filePath(QLatin1String(name)).toStdString(); };
        const std::string text = plan::toJson(twoStages(3));
        for (const char *name : {"a", "b", "c", "d"})
            QVERIFY(QDir(dir.path()).mkdir(QLatin1String(name)));
        QVERIFY(writeFileAtomically(folder("a") + "/plan.json", text));
        QVERIFY(writeFileAtomically(folder("b") + "/plan.json", text));
        QVERIFY(writeFileAtomically(folder("c") + "/plan.json", text + "\n"));
        QVERIFY(plan::writePlan(twoStages(2), folder("d") + "/plan.json"));
        const std::string step = R"({"step":0,"loss":1,"seconds":0.5,"samples_per_second":16})";
        QVERIFY(writeFileAtomically(folder("b") + "/metrics.jsonl", step + "\n"));
        using SidePtr = std::shared_ptr<const Side>;
        const auto read = [&](const char *name, const std::vector<SidePtr> &others) -> SidePtr {
            auto side = sideOfRun(folder(name), others);
            return side ? std::make_shared<const Side>(*std::move(side)) : nullptr;
        };
        const SidePtr a = read("a", {});
        QVERIFY(a && a->isRun && a->predictedTrace);
        const SidePtr b = read("b", {nullptr, a});
        QVERIFY(b);
        QCOMPARE(b->predictedTrace, a->predictedTrace); // the same one
        QCOMPARE(b->name, folder("b"));
        QCOMPARE(b->planHash, a->planHash);
        QCOMPARE(b->steps.size(), std::size_t(1)); // its own
        QVERIFY(a->steps.empty());
        for (const char *other : {"c", "d"}) {
            const SidePtr anew = read(other, {a, b});
            QVERIFY(anew);
            QVERIFY(anew->predictedTrace != a->predictedTrace);
            QCOMPARE(compare::compare(*a, *anew).differences.empty(), std::string(other) == "c");
        }
        const Comparison once = compare::compare(*a, *b);
        const Comparison alone = compare::compare(*a, *read("b", {}));
        QVERIFY(once.differences.empty() && alone.differences.empty());
        QCOMPARE(once.figures.size(), alone.figures.size());
        for (std::size_t k = 0; k < once.figures.size(); ++k)
            QVERIFY(once.figures[k].a == alone.figures[k].a && once.figures[k].b == alone.figures[k].b);
    }

    /// Of 200 ns of two ranks: forward 40 + 30, backward 30, update 20; the send counts where nothing hides it (10),
    /// the receive as of the sender's start (20); rank 1 waits 30 and is idle 10 + 10.
    void partsByHand()
    {
        trace::Trace trace = twoRanks();
        addStep(trace, 0, 0);
        trace.sort();
        const StepParts parts = stepParts(trace);
        QCOMPARE(parts.length, std::int64_t{100});
        QCOMPARE(parts.steps, std::int64_t{1});
        QCOMPARE(partOf(parts, "forward")->exclusive, std::int64_t{35});
        QCOMPARE(partOf(parts, "backward")->exclusive, std::int64_t{15});
        QCOMPARE(partOf(parts, "optimizer")->exclusive, std::int64_t{10});
        QCOMPARE(partOf(parts, "send")->exclusive, std::int64_t{5});
        QCOMPARE(partOf(parts, "send")->busy, std::int64_t{10}); // half of it is hidden
        QCOMPARE(partOf(parts, "receive")->exclusive, std::int64_t{10});
        QCOMPARE(partOf(parts, "receive")->busy, std::int64_t{10});
        QCOMPARE(parts.waiting, std::int64_t{15});
        QCOMPARE(parts.idle, std::int64_t{10});
        std::int64_t sum = parts.waiting + parts.idle;
        for (const StepParts::Part &part : parts.parts)
            sum += part.exclusive;
        QCOMPARE(sum, parts.length);
        QCOMPARE(parts.computing, 0.6);
        QCOMPARE(parts.stages.at(0), 90e-9);
        QCOMPARE(parts.stages.at(1), 30e-9);
    }

    /// The first step warms up; of the others those of middling length count, not the stall.
    void theTypicalStep()
    {
        trace::Trace trace = twoRanks();
        std::int64_t begin = 0;
        std::int32_t step = 0;
        for (const std::int64_t factor : {50, 2, 2, 1, 2, 30, 3, 2}) {
            addStep(trace, step++, begin, factor);
            begin += 100 * factor + 10;
        }
        trace.sort();
        const StepParts parts = stepParts(trace);
        QCOMPARE(parts.length, std::int64_t{200});
        QCOMPARE(partOf(parts, "forward")->busy, std::int64_t{70});
        QCOMPARE(parts.window.end - parts.window.begin, std::int64_t{200});
        QCOMPARE(stepParts(trace::Trace()).length, std::int64_t{0});
    }

    void waterfallsSumUpExactly()
    {
        trace::Trace a = twoRanks();
        addStep(a, 0, 0, 3);
        trace::Trace b = twoRanks();
        addStep(b, 0, 0, 7);
        b.records.pop_back(); // B has no forward of rank 1
        const StepParts ofA = stepParts(a);
        const StepParts ofB = stepParts(b);
        const Waterfall waterfall = waterfallOf(301e-9, 713e-9, ofA, ofB);
        QCOMPARE(waterfall.from, std::int64_t{301});
        QCOMPARE(waterfall.to, std::int64_t{713});
        QCOMPARE(reached(waterfall), waterfall.to);
        QVERIFY(std::ranges::any_of(waterfall.deltas,
                                    [](const auto &delta) { return delta.kind.name == "outside of tasks"; }));
        QVERIFY(waterfallOf(1e-6, 1e-6, ofA, ofA).deltas.empty());
    }

    void histogramsCountEveryStep()
    {
        std::vector<double> even(41, 0.010);
        for (std::size_t i = 0; i < even.size(); ++i)
            even[i] += static_cast<double>(i) * 1e-4;
        even[0] = 9; // warms up
        even[7] = 5; // a stall
        const Histogram histogram = histogramOf(stepsOf(even), stepsOf({0.0105, 0.0105}), 10);
        QCOMPARE(histogram.a.size(), std::size_t{10});
        std::int64_t counted = 0;
        for (const std::int64_t each : histogram.a)
            counted += each;
        QCOMPARE(counted, std::int64_t{40});
        QVERIFY(histogram.lastIsOpen);
        QVERIFY(histogram.width < 1e-3); // the stall stretches nothing
        QCOMPARE(histogram.b[static_cast<std::size_t>((0.0105 - histogram.begin) / histogram.width)], std::int64_t{1});
        QVERIFY(histogramOf({}, {}).empty());
        QCOMPARE(histogramOf(stepsOf({1, 1, 1}), {}).a[0], std::int64_t{2}); // all in one
    }

    void onlyEqualQuantitiesAreCompared()
    {
        const auto plan = sideOf(twoStages(3), "plan");
        QVERIFY2(plan.ok(), plan ? "" : plan.error().text().c_str());
        const auto other = sideOf(twoStages(2), "other");
        Side run = *plan;
        run.isRun = true;
        run.measured = measuredOf(0.5);
        Side elsewhere = run;
        elsewhere.measured->ranksOnProcessors = 1;
        const auto basis = [](const Side &a, const Side &b) { return basisOf(a, b); };
        QVERIFY(!basis(*plan, *other).measuredA && basis(*plan, *other).note.empty());
        QVERIFY(basis(run, run).measuredA && basis(run, run).measuredB && basis(run, run).note.empty());
        QVERIFY(!basis(*plan, run).measuredA && basis(*plan, run).measuredB);
        QCOMPARE(basis(*plan, run).note, std::string("A is the prediction of B: their plans have the same hash"));
        QVERIFY(basis(run, *plan).measuredA && !basis(run, *plan).measuredB);
        QVERIFY(!basis(run, *other).measuredA);
        QVERIFY(basis(run, *other).note.starts_with("predictions are compared: A was measured, B was not"));
        QVERIFY(!basis(elsewhere, run).measuredB);
        QVERIFY(basis(elsewhere, run).note.find("A trained on processors") != std::string::npos);
        QVERIFY(basis(elsewhere, elsewhere).measuredA); // both of processors
        QVERIFY(!basis(*plan, elsewhere).measuredB);

        // Figures of unlike quantities have no difference.
        const Comparison unlike = compare::compare(*other, run);
        for (const Figure &figure : unlike.figures) {
            if (figure.key == "measured_seconds")
                QVERIFY(!figure.delta() && deltaText(figure) == "–");
            if (figure.key == "step_seconds")
                QCOMPARE(*figure.b, run.predicted.iterationSeconds);
        }
        const auto json = nlohmann::json::parse(toJson(unlike));
        QCOMPARE(json["basis"]["b"].get<std::string>(), std::string("predicted"));
        QVERIFY(json["histogram"].is_null());
    }

    void bothCoursesAreTold()
    {
        const auto plan = sideOf(twoStages(3), "plan");
        Side run = *plan;
        run.isRun = true;
        run.measured = measuredOf(0.4);
        run.courses = {{false, 0, 4, 0.5, 0.45}, {true, 4, 3, 0.3, 0.35}};
        const Comparison both = compare::compare(*plan, run);
        const auto figure = [&](const char *key) {
            return *std::ranges::find_if(both.figures, [&](const Figure &each) { return each.key == key; });
        };
        QCOMPARE(figure("course_logical_seconds").b, std::optional(0.5));
        QCOMPARE(figure("course_logical_predicted_seconds").b, std::optional(0.45));
        QCOMPARE(figure("course_measured_seconds").b, std::optional(0.3));
        QCOMPARE(figure("course_measured_predicted_seconds").b, std::optional(0.35));
        QVERIFY(!figure("course_measured_seconds").a && !figure("course_measured_seconds").delta());
        QVERIFY(figure("course_measured_seconds").name.find("from step 4 on") != std::string::npos);
        const auto json = nlohmann::json::parse(toJson(both));
        QCOMPARE(json["courses"]["b"].size(), std::size_t{2});
        QVERIFY(json["courses"]["a"].empty());
        QVERIFY(!both.basis.firstCourse); // none of its steps was traced

        // With the trace of its first course, that is what its prediction is laid beside.
        run.firstStep = plan->predictedStep;
        run.measuredStep = plan->predictedStep;
        run.measuredStep.parts.front().busy = 1;
        const Comparison first = compare::compare(*plan, run);
        QVERIFY(first.basis.firstCourse);
        QVERIFY(first.basis.note.find("the one by the logical clock") != std::string::npos);
        QCOMPARE(first.figures.front().b, std::optional(0.5));
        QCOMPARE(first.partsOf(true).parts.front().busy, plan->predictedStep.parts.front().busy);
        QCOMPARE(reached(first.waterfall), std::int64_t{500'000'000});
        QVERIFY(!compare::compare(run, run).basis.firstCourse); // two runs: their newest steps
    }

    /// Every prediction's parts and waterfall hold, and the bytes between stages are those of the cut, there and back.
    void predictionsOfPlans()
    {
        const auto a = sideOf(twoStages(3), "a");
        const auto b = sideOf(twoStages(2), "b");
        const Comparison both = compare::compare(*a, *b);
        QCOMPARE(both.differences.size(), std::size_t{2}); // layers of both stages
        QCOMPARE(reached(both.waterfall), both.waterfall.to);
        QVERIFY(both.notes.empty());
        const plan::Document document = twoStages(3);
        const double cut = static_cast<double>(
            document.subject.layers().cutBytes(*document.subject.graph, 3, document.plan.globalBatch).value());
        QCOMPARE(static_cast<double>(both.a.transferBytes), 2 * cut);
        QCOMPARE(both.a.planHash, plan::fingerprint(document));
        QVERIFY(std::abs(static_cast<double>(both.a.predictedStep.length) * 1e-9 - both.a.predicted.iterationSeconds)
                < 1e-6);
        QVERIFY(std::abs(1 - both.a.predictedStep.computing - both.a.predicted.bubbleFraction) < 0.01);
        std::set<std::string> keys;
        for (const Figure &figure : both.figures)
            QVERIFY2(keys.insert(figure.key).second, figure.key.c_str());
    }

    void texts()
    {
        Figure figure{"g", "k", "n", Unit::Seconds, 0.010, 0.0125};
        QCOMPARE(deltaText(figure), std::string("+2.5 ms"));
        QCOMPARE(changeText(figure), std::string("+25.0 %"));
        figure = {"g", "k", "n", Unit::Share, 0.5, 0.25};
        QCOMPARE(deltaText(figure), std::string("-25 points"));
        QCOMPARE(changeText(figure), std::string("–"));
        figure = {"g", "k", "n", Unit::Bytes, 0.0, 1024.0};
        QCOMPARE(deltaText(figure), std::string("+1.00 KiB"));
        QCOMPARE(changeText(figure), std::string("–"));
        figure.b.reset();
        QCOMPARE(deltaText(figure), std::string("–"));
        QCOMPARE(valueText(Unit::Seconds, std::nullopt), std::string("–"));
    }
};

QTEST_GUILESS_MAIN(TestCompare)
#include "tst_compare.moc"
