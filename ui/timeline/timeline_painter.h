// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFont>
#include <QPainter>
#include <QRect>

#include "ui/timeline/texture.h"
#include "ui/timeline/timeline_model.h"
#include "ui/timeline/thin_bars.h"
#include "ui/timeline/timeline_scene.h"

#include <vector>

namespace planloom::ui {

/// Paints rows, labels and ruler. Holds styles and scratch memory only. At most kLabelLimit texts a picture; a row
/// costs O(pixels log slices).
class TimelinePainter {
public:
    static constexpr int kGutter = 168; ///< pixels for labels
    static constexpr int kRuler = 26;
    static constexpr int kLabelLimit = 1000;

    void refreshStyles() { m_styles = KindStyles(); }
    [[nodiscard]] const KindStyles &styles() const { return m_styles; }
    /// All but what is selected.
    void paint(QPainter &painter, const TimelineScene &scene, const QFont &font);
    /// Over a picture of paint(): frames around the slices of the selected task, marks of the selected device and
    /// stage. Cost: O(pixels log slices) for each row of a rank that has the task.
    void paintSelection(QPainter &painter, const TimelineScene &scene);
    /// Number of rectangles that the last picture took: for benchmarks.
    [[nodiscard]] int rectangles() const { return m_rectangles; }

private:
    void resolveStyles(const TimelineModel &model);
    void paintRows(QPainter &painter, const TimelineScene &part);
    void paintRow(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row);
    /// A bar too narrow for a texture: these are drawn together.
    void addThin(const TimelineScene &scene, const trace::TaskInfo &task, bool measured, const trace::Bar &bar, int x,
                 int right);
    void findBars(const TimelineScene &scene, const TimelineModel::Row &row); ///< m_bars
    void frameSelected(QPainter &painter, const TimelineScene &part, const TimelineModel::Row &row);
    void paintBar(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row, const trace::Bar &bar,
                  int x, int right, int y);
    void paintLevel(QPainter &painter, const TimelineScene &scene, const trace::Gauge &gauge, std::int32_t level,
                    const trace::TaskInfo &task, const QRect &box);
    void paintMerged(QPainter &painter, const KindStyle &style, const trace::Bar &bar, const TimelineScene &scene,
                     const QRect &box);
    void paintAverages(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row);
    void paintSteps(QPainter &painter, const TimelineScene &scene);
    void paintVersions(QPainter &painter, const TimelineScene &scene);
    void paintLabels(QPainter &painter, const TimelineScene &part);
    void paintDevice(QPainter &painter, const TimelineScene &part, const TimelineModel::Group &group);
    void paintLane(QPainter &painter, const TimelineScene &part, const TimelineModel::Row &row);
    void paintRuler(QPainter &painter, const TimelineScene &scene, const QFont &font);
    void fill(QPainter &painter, const QRect &box, const QBrush &brush);
    void fill(QPainter &painter, const QRect &box,
              const QColor &color); ///< without a brush made on the way: twice as fast

    KindStyles m_styles;
    std::vector<const KindStyle *> m_ofKind[2]; ///< per clock (measured: 1), by trace::Kind; of this picture
    std::vector<QRgb> m_inkOfKind[2];           ///< the same
    QRgb m_paper = 0;
    std::vector<trace::Bar> m_bars;
    std::vector<std::int32_t> m_tasks; ///< of m_bars
    ThinBars m_thin;                   ///< of a row
    bool m_gathersThin = false;        ///< the picture is of pixels
    QFont m_small;
    int m_labels = 0;
    int m_rectangles = 0;
};

} // namespace planloom::ui
