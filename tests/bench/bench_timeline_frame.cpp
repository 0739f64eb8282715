// SPDX-License-Identifier: GPL-3.0-or-later
// One frame of the timeline at 64 stages x 512 micro-batches (forward, backward, send and receive lanes), all of it and
// closer up.
#include "engine/program/program.h"
#include "ui/bench/event_watch.h"
#include "ui/bench/figures.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/timeline/timeline_model.h"

#include <QApplication>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace planloom;

constexpr int kStages = 64;
constexpr int kMicroBatches = 512;
constexpr std::int64_t kForward = 1'000'000; // nanoseconds
constexpr int kFrames = 300;
constexpr double kBudgetMilliseconds = 12;

void add(trace::Trace &trace, const char *pass, trace::Kind kind, int stage, int microBatch, int lane,
         std::int64_t start, std::int64_t duration)
{
    const std::string id = "s" + std::to_string(stage) + "." + pass + ".m" + std::to_string(microBatch);
    trace.tasks.push_back({id, kind, stage, microBatch});
    trace.records.push_back({start, duration, static_cast<std::int32_t>(trace.tasks.size() - 1), 0, stage, lane});
}

/// The picture of GPipe: all forwards, then all backwards, shifted by a stage.
std::shared_ptr<const simulate::Simulation> wideSchedule()
{
    auto simulation = std::make_shared<simulate::Simulation>();
    trace::Trace &trace = simulation->trace;
    static_cast<trace::Tables &>(trace) = program::traceTables({}, {});
    const std::int64_t turn = (kStages + kMicroBatches) * kForward;
    for (int s = 0; s < kStages; ++s) {
        trace.ranks.push_back({"d" + std::to_string(s)});
        for (int m = 0; m < kMicroBatches; ++m) {
            const std::int64_t forward = (s + m) * kForward;
            const std::int64_t backward = turn + (kStages - 1 - s + m) * 2 * kForward;
            add(trace, "F", trace::Kind::Forward, s, m, 0, forward, kForward * 9 / 10);
            add(trace, "B", trace::Kind::Backward, s, m, 0, backward, kForward * 19 / 10);
            add(trace, "SF", trace::Kind::Send, s, m, 1, forward + kForward * 9 / 10, kForward / 10);
            add(trace, "RB", trace::Kind::Receive, s, m, 2, backward - kForward / 10, kForward / 10);
        }
    }
    trace.sort();
    return simulation;
}

} // namespace

int main(int argc, char **argv)
{
    setenv("QT_QPA_PLATFORM", "offscreen", 0);
    QApplication app(argc, argv);
    ui::applyTheme(app, ui::ThemeKind::Light);
    const auto simulation = wideSchedule();
    ui::TimelineModel model;
    const double begin = ui::threadMilliseconds();
    model.setPredicted(simulation);
    std::printf("%zu slices, rows built in %.1f ms\n", simulation->trace.records.size(),
                ui::threadMilliseconds() - begin);
    ui::TimelineCanvas canvas(&model);
    canvas.resize(1920, 1000);
    canvas.modelChanged(false);
    double worst = 0;
    for (const double zoom : {1.0, 4.0, 16.0, 128.0}) {
        canvas.viewport().showAll();
        canvas.viewport().zoomBy(zoom);
        std::vector<double> frames;
        for (int k = 0; k < kFrames; ++k) {
            canvas.viewport().zoomBy(k % 2 == 0 ? 1.001 : 1 / 1.001); // another picture each time
            const double start = ui::threadMilliseconds();
            const QPixmap picture = canvas.grab();
            frames.push_back(ui::threadMilliseconds() - start);
        }
        const double p95 = ui::quantile(frames, 0.95);
        worst = std::max(worst, p95);
        std::printf("  zoom %5.0f x: p50 %.2f ms  p95 %.2f ms  max %.2f ms of CPU, %d rectangles\n", zoom,
                    ui::quantile(frames, 0.5), p95, ui::quantile(frames, 1), canvas.painter().rectangles());
    }
    std::printf("  ratio of the worst p95 to the budget of %.0f ms: %.2f\n", kBudgetMilliseconds,
                worst / kBudgetMilliseconds);
    return 0;
}
