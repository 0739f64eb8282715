// SPDX-License-Identifier: GPL-3.0-or-later
// Frames of the map of 16,384 devices while it is moved and zoomed, with nodes as they are and collapsed; and the time
// until its matrix of ways is there.
#include "ui/bench/event_watch.h"
#include "ui/bench/figures.h"
#include "ui/cluster/cluster_map.h"
#include "ui/cluster/cluster_matrix.h"
#include "ui/theme/theme.h"

#include <QApplication>
#include <QWheelEvent>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using namespace planloom;

constexpr int kFrames = 60;
constexpr double kBudgetMilliseconds = 16;

void wheel(ui::ClusterMap &map, int notches, Qt::KeyboardModifiers keys)
{
    const QPointF middle = map.rect().center();
    QWheelEvent event(middle, map.mapToGlobal(middle), {}, {0, 120 * notches}, Qt::NoButton, keys, Qt::NoScrollPhase,
                      false);
    QCoreApplication::sendEvent(&map, &event);
}

/// @p move: before each frame.
template <class Move>
double frames(ui::ClusterMap &map, const char *what, const Move &move)
{
    std::vector<double> times;
    for (int k = 0; k < kFrames; ++k) {
        move(k);
        const double start = ui::threadMilliseconds();
        const QPixmap picture = map.grab();
        times.push_back(ui::threadMilliseconds() - start);
    }
    std::printf("  %-28s p50 %.2f ms  p95 %.2f ms  max %.2f ms of CPU\n", what, ui::quantile(times, 0.5),
                ui::quantile(times, 0.95), ui::quantile(times, 1));
    return ui::quantile(times, 0.95);
}

} // namespace

int main(int argc, char **argv)
{
    setenv("QT_QPA_PLATFORM", "offscreen", 0);
    QApplication app(argc, argv);
    ui::applyTheme(app, ui::ThemeKind::Light);
    const auto cluster = std::make_shared<const cluster::Cluster>(*cluster::preset("h100-16384"));
    std::vector<std::vector<int>> stages(cluster->devices().size());
    for (std::size_t d = 0; d < stages.size(); ++d)
        stages[d] = {static_cast<int>(d / 1024)};
    ui::ClusterMap map;
    map.resize(1200, 800);
    map.show(); // a hidden one is drawn anew each time
    double worst = 0;
    for (const bool collapsed : {false, true}) {
        const double begin = ui::threadMilliseconds();
        map.setCollapsed(collapsed);
        map.setCluster(cluster);
        map.setStages(stages);
        std::printf("%zu devices, %s, laid out in %.1f ms\n", stages.size(), collapsed ? "collapsed" : "as they are",
                    ui::threadMilliseconds() - begin);
        const auto pan = [&](int k) { wheel(map, k % 2 == 0 ? 1 : -1, {}); };
        worst = std::max(worst, frames(map, "selection", [&](int k) { map.setSelection(DeviceId(k * 100), -1); }));
        worst = std::max(worst, frames(map, "moved, whole cluster", pan));
        worst = std::max(worst,
                         frames(map, "zoomed", [&](int k) { wheel(map, k % 2 == 0 ? 1 : -1, Qt::ControlModifier); }));
        wheel(map, 12, Qt::ControlModifier);
        worst = std::max(worst, frames(map, "moved, closer by 9 x", pan));
        map.fit();
    }
    std::printf("  ratio of the worst p95 to the budget of %.0f ms: %.2f\n", kBudgetMilliseconds,
                worst / kBudgetMilliseconds);
    const double begin = ui::threadMilliseconds();
    const ui::ClusterMatrixData matrix(*cluster);
    std::printf("matrix of %zu rows in %.1f ms\n", matrix.rows().size(), ui::threadMilliseconds() - begin);
    return 0;
}
