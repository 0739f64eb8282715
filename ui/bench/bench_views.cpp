// SPDX-License-Identifier: GPL-3.0-or-later
// T7 to T10: the model's graph, a device's memory, a wide schedule, a large cluster.
#include "ui/bench/bench_files.h"
#include "ui/bench/bench_window.h"
#include "ui/cluster/cluster_inspector.h"
#include "ui/cluster/cluster_map.h"
#include "ui/memory/curve.h"
#include "ui/memory/memory_view.h"
#include "ui/model/model_view.h"
#include "ui/timeline/timeline_view.h"

#include <QAction>
#include <QComboBox>
#include <QElapsedTimer>
#include <QLineEdit>
#include <QLocale>
#include <QPushButton>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kGraphFirst = 500; // milliseconds, as all of these
constexpr double kGraphOpen = 150;
constexpr double kGraphCancel = 100;
constexpr double kMemoryOpen = 2000;
constexpr double kSmoothFrame = 16.6;
constexpr double kScheduleFrame = 12;
constexpr double kScheduleEdit = 100;
constexpr double kTopologyFrame = 16;
constexpr double kTopologyEdit = 50;

QString grouped(std::int64_t count) { return QLocale::c().toString(static_cast<qlonglong>(count)); }

// --- T7

void trigger(const View &view, const QString &command)
{
    for (QAction *action : view.commands())
        if (action->text() == command)
            action->trigger();
}

bool graphThere(ModelView &view) { return !view.layingOut() && !view.canvas()->graph().nodes.empty(); }

/// Opens one closed scope after the other by the keyboard, each from the first picture.
Samples openScopes(ModelView &view)
{
    constexpr int kScopes = 20;
    Samples samples;
    for (int k = 0; k < 4 * kScopes && static_cast<int>(samples.clock.size()) < kScopes; ++k) {
        trigger(view, QStringLiteral("Close all scopes"));
        waitUntil([&] { return graphThere(view); });
        GraphCanvas &canvas = *view.page()->canvas();
        std::vector<int> closed;
        for (std::size_t n = 0; n < canvas.graph().nodes.size(); ++n)
            if (canvas.graph().nodes[n].group)
                closed.push_back(static_cast<int>(n));
        if (closed.empty())
            break;
        canvas.setCurrent(closed[static_cast<std::size_t>(k) % closed.size()], true);
        settle();
        samples.take([&] {
            benchKey(canvas, Qt::Key_Return);
            waitUntil([&] { return graphThere(view); });
            canvas.viewport()->repaint();
        });
    }
    return samples;
}

/// Opens all scopes, and presses Cancel as soon as it is there.
Samples cancelLayouts(ModelView &view)
{
    Samples samples;
    QPushButton *cancel = nullptr;
    for (QPushButton *button : view.findChildren<QPushButton *>())
        if (button->toolTip() == ModelView::tr("Cancel the graph layout"))
            cancel = button;
    for (int k = 0; k < 10 && cancel; ++k) {
        trigger(view, QStringLiteral("Close all scopes"));
        waitUntil([&] { return graphThere(view); });
        trigger(view, QStringLiteral("Open all scopes"));
        if (!view.layingOut())
            continue;
        samples.take([&] {
            cancel->click();
            waitUntil([&] { return !view.layingOut(); });
        });
        settle();
    }
    return samples;
}

// --- T8

/// Presses the address map aside and closer, as the wheel does.
Samples moveMap(AddressMap &map)
{
    Samples frames;
    for (int k = 0; k < kBenchFrames; ++k) {
        const bool zooms = k % 30 < 5 || k % 30 >= 25;
        const int notches = k % 30 < 15 ? 1 : -1;
        frames.take([&] {
            benchWheel(map, notches, zooms ? Qt::ControlModifier : Qt::ShiftModifier);
            map.repaint();
        });
    }
    return frames;
}

/// How many bytes the blocks at the peak of the device's curve differ by from the curve.
double missedAtPeak(const LiveDevice &live, double seconds, std::int64_t peak)
{
    std::int64_t sum = 0;
    for (const std::size_t block : live.memory.at(seconds))
        sum += live.memory.blocks[block].bytes;
    return static_cast<double>(std::abs(sum - peak));
}

/// Shows the addresses of the first device; returns the milliseconds by the clock, negative if it failed.
double showAddresses(MemoryView &view)
{
    QElapsedTimer timer;
    timer.start();
    view.devicePicker()->setCurrentIndex(view.devicePicker()->count() > 1 ? 1 : 0);
    const int tab = view.tabs()->indexOf(view.live()->map());
    if (tab >= 0)
        view.tabs()->setCurrentIndex(tab);
    const bool shown = waitUntil([&] { return view.live()->live() && !view.live()->computes(); });
    view.live()->map()->repaint();
    return shown ? static_cast<double>(timer.nsecsElapsed()) * 1e-6 : -1;
}

// --- T9

/// Moves the boundary between two stages of some layers there and back.
Samples moveBoundaries(BenchWindow &bench, TimelineView &view)
{
    constexpr int kEdits = 12;
    Samples samples;
    const auto &stages = bench.state().document()->plan.stages;
    std::size_t wide = 0;
    for (std::size_t s = 0; s + 1 < stages.size(); ++s)
        if (stages[s].lastLayer - stages[s].firstLayer > stages[wide].lastLayer - stages[wide].firstLayer)
            wide = s;
    for (int k = 0; k < kEdits; ++k)
        samples.take([&] {
            bench.state().editPlan(QStringLiteral("Move a stage boundary"), [&](plan::Plan &plan) {
                std::size_t &last = plan.stages[wide].lastLayer;
                last = k % 2 == 0 ? last - 1 : last + 1;
                plan.stages[wide + 1].firstLayer = last;
            });
            waitUntil([&] { return bench.state().simulationCurrent() || !bench.state().simulating(); });
            view.canvas()->repaint();
        });
    return samples;
}

Samples moveTimeline(TimelineCanvas &canvas)
{
    Samples frames;
    canvas.viewport().showAll();
    for (int k = 0; k < kBenchFrames; ++k) {
        const int way = k % 40;
        frames.take([&] {
            benchWheel(canvas, way < 20 ? 1 : -1, way < 10 || way >= 30 ? Qt::ControlModifier : Qt::ShiftModifier);
            canvas.repaint();
        });
    }
    settle();
    return frames;
}

// --- T10

Samples moveTopology(ClusterMap &map)
{
    Samples frames;
    for (int k = 0; k < kBenchFrames; ++k) {
        const int way = k % 20; // as far as nodes show counts, and back
        frames.take([&] {
            benchWheel(map, way < 10 ? 1 : -1, way < 2 || way >= 18 ? Qt::ControlModifier : Qt::ShiftModifier);
            map.repaint();
        });
    }
    map.fit();
    settle();
    return frames;
}

/// A figure of a link, written in its field.
Samples editLinks(BenchWindow &bench, ClusterMap &map)
{
    constexpr int kEdits = 30;
    Samples samples;
    auto *inspector = bench.window().findChild<ClusterInspector *>();
    const auto links = static_cast<int>(bench.state().cluster()->links().size());
    for (int k = 0; k < kEdits && inspector && links > 0; ++k) {
        Q_EMIT map.linkPicked(k * 37 % links);
        settle();
        QLineEdit *field = inspector->field(ClusterInspector::tr("Latency"));
        if (!field)
            break;
        field->setText(QString::number(6 + k));
        samples.take([&] {
            Q_EMIT field->editingFinished();
            map.repaint();
        });
        settle();
    }
    return samples;
}

} // namespace

void benchModel(BenchContext &context)
{
    const QString target = QStringLiteral("T7");
    const std::int64_t operators = context.sized(10'000, 100);
    const QString file = context.file(target, QStringLiteral("model-%1.json").arg(operators), [&](const QString &path) {
        const auto made = writeBenchModel(path, operators);
        return made ? Status() : Status(made.error());
    });
    if (file.isEmpty())
        return;
    context.begin(target);
    const QString of = QStringLiteral("%1 operators").arg(grouped(operators));
    Samples first;
    for (int k = 0; k < 5; ++k) {
        BenchWindow bench;
        auto &view = bench.alone<ModelView>(QStringLiteral("Model"));
        first.take([&] {
            bench.open(file);
            waitUntil([&] { return graphThere(view) || !bench.error().isEmpty(); });
            view.page()->canvas()->viewport()->repaint();
        });
        if (!bench.error().isEmpty())
            return context.fail(target, of, bench.error());
        if (k < 4)
            continue;
        context.addWaits(target, QStringLiteral("open to first view, %1").arg(of), first, kGraphFirst, operators);
        context.addWaits(target, QStringLiteral("open a scope, %1").arg(of), openScopes(view), kGraphOpen, operators);
        context.addWaits(target, QStringLiteral("cancel a layout, %1").arg(of), cancelLayouts(view), kGraphCancel,
                         operators);
    }
}

void benchMemory(BenchContext &context)
{
    const QString target = QStringLiteral("T8");
    const QString model = context.file(target, QStringLiteral("model-24.json"),
                                       [](const QString &path) { return writeBenchBlocks(path, 24); });
    const QString cluster = context.file(target, QStringLiteral("cluster-8.yaml"),
                                         [](const QString &path) { return writeBenchCluster(path, 8); });
    if (model.isEmpty() || cluster.isEmpty())
        return;
    const std::int64_t batch = context.sized(3072, 8);
    BenchWindow bench;
    auto &view = bench.alone<MemoryView>(QStringLiteral("Memory"));
    if (!bench.plan(model, cluster, batch, {{"pipeline", "2"}, {"data", "1"}, {"schedule", "gpipe"}}))
        return context.fail(target, QStringLiteral("plan"), bench.error());
    context.begin(target);
    Samples open;
    open.clock.push_back(showAddresses(view));
    if (open.clock.front() < 0 || !view.live()->live())
        return context.fail(target, QStringLiteral("addresses"), bench.error());
    const LiveDevice &live = *view.live()->live();
    const auto events = static_cast<std::int64_t>(2 * live.memory.blocks.size());
    const QString of = QStringLiteral("%1 allocations and frees").arg(grouped(events));
    context.addWaits(target, QStringLiteral("open, %1").arg(of), open, kMemoryOpen, events);
    context.addFrames(target, QStringLiteral("pan, %1").arg(of), moveMap(*view.live()->map()), kSmoothFrame, events);
    BenchFigure exact = benchFigure(target, QStringLiteral("bytes at the peak that no buffer explains, %1").arg(of));
    exact.unit = QStringLiteral("B");
    const simulate::MemoryPoint *peak = peakOf(bench.state().simulation()->memory[live.rank]);
    exact.values = {missedAtPeak(live, peak->seconds, peak->total())};
    exact.events = events;
    context.add(std::move(exact));
}

void benchSchedule(BenchContext &context)
{
    constexpr int kStages = 64;
    const QString target = QStringLiteral("T9");
    const QString model = context.file(target, QStringLiteral("model-128.json"),
                                       [](const QString &path) { return writeBenchBlocks(path, 128); });
    const QString cluster = context.file(target, QStringLiteral("cluster-64.yaml"),
                                         [](const QString &path) { return writeBenchCluster(path, kStages); });
    if (model.isEmpty() || cluster.isEmpty())
        return;
    const std::int64_t batch = context.sized(512, 4);
    BenchWindow bench;
    auto &view = bench.alone<TimelineView>(QStringLiteral("Timeline"));
    if (!bench.plan(model, cluster, batch, {{"pipeline", std::to_string(kStages)}, {"schedule", "zb-h1"}}))
        return context.fail(target, QStringLiteral("plan"), bench.error());
    context.begin(target);
    std::int64_t cells = 0;
    const trace::Trace &trace = bench.state().simulation()->trace;
    for (const trace::Record &record : trace.records)
        cells += trace.lane(record.lane).work == trace::Work::Compute ? 1 : 0;
    const QString of =
        QStringLiteral("%1 stages x %2 micro-batches, %3 cells").arg(kStages).arg(batch).arg(grouped(cells));
    context.addFrames(target, QStringLiteral("zoom and pan, %1").arg(of), moveTimeline(*view.canvas()), kScheduleFrame,
                      cells);
    context.addWaits(target, QStringLiteral("edit to picture, %1").arg(of), moveBoundaries(bench, view), kScheduleEdit,
                     cells);
}

void benchTopology(BenchContext &context)
{
    const QString target = QStringLiteral("T10");
    const auto devices = static_cast<int>(context.sized(8192, 16)) / 8 * 8;
    const QString cluster = context.file(target, QStringLiteral("cluster-%1.yaml").arg(devices),
                                         [&](const QString &path) { return writeBenchCluster(path, devices); });
    if (cluster.isEmpty())
        return;
    context.begin(target);
    BenchWindow bench;
    auto &view = bench.alone<View>(QStringLiteral("Cluster"));
    const QString of = QStringLiteral("%1 GPUs").arg(grouped(devices));
    if (!bench.open(cluster))
        return context.fail(target, of, bench.error());
    settle();
    auto *map = view.findChild<ClusterMap *>();
    context.addFrames(target, QStringLiteral("overview, %1").arg(of), moveTopology(*map), kTopologyFrame, devices);
    context.addWaits(target, QStringLiteral("edit a link, %1").arg(of), editLinks(bench, *map), kTopologyEdit, devices);
}

} // namespace planloom::ui
