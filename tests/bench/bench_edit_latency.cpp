// SPDX-License-Identifier: GPL-3.0-or-later
// From the drop of a stage boundary to the redrawn timeline and memory: gpt2 on eight H100 in eight stages, 32
// micro-batches.
#include "ui/memory/memory_view.h"
#include "ui/state/studio_state.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_view.h"

#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace planloom;

constexpr int kEdits = 100;
constexpr double kTargetMilliseconds = 50;

int complain(const char *what)
{
    std::fprintf(stderr, "bench_edit_latency: error: %s\n", what);
    return 1;
}

template <class Condition>
bool waitUntil(Condition condition, int milliseconds = 120'000)
{
    QElapsedTimer timer;
    timer.start();
    while (!condition()) {
        if (timer.elapsed() > milliseconds)
            return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents | QEventLoop::AllEvents, 50);
    }
    return true;
}

double quantile(std::vector<double> values, double share)
{
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Eight stages of about as many layers each.
plan::Plan evenPipeline(const plan::Subject &subject)
{
    constexpr std::size_t kStages = 8;
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.modelSource = subject.modelSource;
    plan.clusterName = subject.cluster->name();
    plan.planner.name = "manual";
    plan.globalBatch = 32;
    plan.microBatches = 32;
    const std::size_t layers = subject.layers().size();
    for (std::size_t s = 0; s < kStages; ++s) {
        plan::Stage stage;
        stage.name = "stage" + std::to_string(s);
        stage.firstLayer = s * layers / kStages;
        stage.lastLayer = (s + 1) * layers / kStages;
        stage.devices = {DeviceId(static_cast<std::int64_t>(s))};
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

} // namespace

int main(int argc, char **argv)
{
    setenv("QT_QPA_PLATFORM", "offscreen", 0);
    QApplication app(argc, argv);
    ui::applyTheme(app, ui::ThemeKind::Light);
    ui::StudioState state;
    state.loadModel(QStringLiteral("zoo:gpt2"));
    state.loadCluster(QStringLiteral("preset:h100-8"));
    if (!waitUntil([&] { return state.subject().has_value() && !state.loadJob()->running(); }))
        return complain("zoo:gpt2 and preset:h100-8 could not be loaded");
    ui::TimelineView timeline(&state);
    ui::MemoryView memory(&state);
    timeline.resize(1040, 420);
    memory.resize(560, 240);
    timeline.show();
    memory.show();
    if (!state.replacePlan(QStringLiteral("eight stages"), evenPipeline(*state.subject()))
        || !waitUntil([&] { return state.simulationCurrent(); }))
        return complain("the plan of eight stages is refused");

    std::vector<double> total;
    std::vector<double> redraw;
    for (int k = 0; k < kEdits; ++k) {
        QElapsedTimer timer;
        timer.start();
        const bool back = k % 2 == 1;
        state.editPlan(QStringLiteral("move a boundary"), [back](plan::Plan &plan) {
            plan.stages[3].lastLayer += back ? std::size_t(-1) : 1;
            plan.stages[4].firstLayer = plan.stages[3].lastLayer;
        });
        if (!waitUntil([&] { return state.simulationCurrent(); }))
            return complain("an edit was not simulated");
        const double simulated = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
        const QPixmap a = timeline.grab();
        const QPixmap b = memory.grab();
        total.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
        redraw.push_back(total.back() - simulated);
        if (a.isNull() || b.isNull())
            return complain("a view could not be drawn");
    }
    const double median = quantile(total, 0.5);
    std::printf(
        "edit to redrawn timeline and memory, gpt2 on h100-8, 8 stages, 32 micro-batches, %zu slices, %d edits\n",
        state.simulation()->trace.records.size(), kEdits);
    std::printf("  all     p50 %.2f ms  p95 %.2f ms  max %.2f ms\n", median, quantile(total, 0.95), quantile(total, 1));
    std::printf("  redraw  p50 %.2f ms  p95 %.2f ms\n", quantile(redraw, 0.5), quantile(redraw, 0.95));
    std::printf("  ratio to the target of %.0f ms: %.2f\n", kTargetMilliseconds, median / kTargetMilliseconds);
    return 0;
}
