// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_painter.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QFontMetrics>
#include <QObject>
#include <QPaintEngine>
#include <QStringList>

#include <algorithm>
#include <cmath>
#include <optional>

namespace planloom::ui {

namespace {

constexpr int kTextureWidth = 5; // pixels: narrower boxes show their hue only
constexpr int kNumberWidth = 17; // pixels: room for a micro-batch number
constexpr int kIdWidth = 74;     // pixels: room for a whole task id
constexpr int kNotch = 3;        // pixels: the serrated foot of merged slices
constexpr int kMark = 4;         // pixels: half of the mark of a snapshot or a merge

/// Columns of the area by the time of a row's own clock: a picture asks for hundreds of thousands.
class Columns {
public:
    Columns(const TimelineScene &scene, const TimelineModel::Row &row)
        : m_begin(scene.axis.begin() - static_cast<double>(row.measured ? 0 : scene.model->offset())),
          m_perNanosecond(1 / scene.axis.nanosecondsPerPixel()),
          m_last(scene.area.width() + kBeyond)
    {
    }
    /// At most kBeyond pixels outside.
    [[nodiscard]] int of(std::int64_t time) const
    {
        const double pixel = (static_cast<double>(time) - m_begin) * m_perNanosecond;
        return static_cast<int>(std::clamp(pixel, -kBeyond, m_last) + kBeyond) - static_cast<int>(kBeyond);
    }

private:
    static constexpr double kBeyond = 8;
    double m_begin;
    double m_perNanosecond;
    double m_last;
};

/// As dense as the pixels are busy; the serrated foot marks more detail at a closer zoom.
QRgb density(QRgb ink, QRgb paper, const trace::Bar &bar, double nanoseconds)
{
    constexpr int kWhole = 256;
    const int share = static_cast<int>(kWhole * std::clamp(static_cast<double>(bar.busy) / nanoseconds, 0.15, 1.0));
    const auto mix = [share](int a, int b) { return (a * share + b * (kWhole - share)) / kWhole; };
    return qRgb(mix(qRed(ink), qRed(paper)), mix(qGreen(ink), qGreen(paper)), mix(qBlue(ink), qBlue(paper)));
}

const QColor &inkOf(const KindStyle &style) { return style.outline.isValid() ? style.outline : style.fill; }

bool isSelected(const TimelineScene &part, const TimelineModel::Group &group)
{
    const std::vector<int> stages = part.model->stages(group);
    return group.device == part.selectedDevice || std::binary_search(stages.begin(), stages.end(), part.selectedStage);
}

} // namespace

void TimelinePainter::fill(QPainter &painter, const QRect &box, const QBrush &brush)
{
    painter.fillRect(box, brush);
    ++m_rectangles;
}

void TimelinePainter::fill(QPainter &painter, const QRect &box, const QColor &color)
{
    painter.fillRect(box, color);
    ++m_rectangles;
}

void TimelinePainter::resolveStyles(const TimelineModel &model)
{
    for (const bool measured : {false, true}) {
        const trace::Tables &tables = model.tables(measured);
        auto &styles = m_ofKind[measured ? 1 : 0];
        auto &inks = m_inkOfKind[measured ? 1 : 0];
        styles.clear();
        inks.clear();
        for (std::size_t kind = 0; kind <= tables.kinds.size(); ++kind) { // the last one is for kinds without a row
            styles.push_back(&m_styles.of(tables.kind(static_cast<trace::Kind>(kind))));
            inks.push_back(inkOf(*styles.back()).rgb());
        }
    }
    m_paper = theme().base.rgb();
}

void TimelinePainter::paint(QPainter &painter, const TimelineScene &scene, const QFont &font)
{
    m_labels = 0;
    m_rectangles = 0;
    resolveStyles(*scene.model);
    m_gathersThin = painter.paintEngine() && painter.paintEngine()->type() == QPaintEngine::Raster;
    m_small = font;
    m_small.setPointSizeF(std::max(6.5, font.pointSizeF() * 0.82));
    painter.setRenderHint(QPainter::Antialiasing, false);
    fill(painter, scene.area, theme().base);
    for (const auto &tick : scene.axis.ticks()) {
        if (!tick.label.empty())
            fill(painter, QRect(scene.area.x() + static_cast<int>(tick.pixel), scene.area.y(), 1, scene.area.height()),
                 theme().grid);
    }
    painter.setFont(m_small);
    const std::vector<TimelineScene> parts = scene.parts();
    for (const TimelineScene &part : parts)
        paintRows(painter, part);
    painter.setClipRect(scene.area);
    paintSteps(painter, scene);
    paintVersions(painter, scene);
    painter.setClipping(false);
    for (const TimelineScene &part : parts)
        paintLabels(painter, part);
    if (parts.size() > 1) // below the pinned rows
        fill(painter, QRect(0, parts.front().area.bottom() - 1, scene.area.right() + 1, 2), theme().border);
    paintRuler(painter, scene, font);
}

void TimelinePainter::paintRows(QPainter &painter, const TimelineScene &part)
{
    painter.setClipRect(part.area);
    const auto [first, last] = part.model->layout().rowsBetween(part.scroll, part.scroll + part.area.height());
    for (std::size_t r = first; r < last; ++r)
        paintRow(painter, part, part.model->rows()[r]);
    for (std::size_t r = first; r < last; ++r)
        paintAverages(painter, part, part.model->rows()[r]);
}

void TimelinePainter::paintRow(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row)
{
    const TimelineModel &model = *scene.model;
    const trace::Row &slices = model.slices(row);
    const int y = scene.area.y() + row.y - scene.scroll;
    const int width = scene.area.width();
    const Columns columns(scene, row);
    if (row.computes) {
        const int from = columns.of(slices.begin());
        const int to = columns.of(slices.end());
        fill(painter, QRect(scene.area.x() + from, y, std::max(to - from, 1), row.height), m_styles.bubble());
    } else {
        fill(painter, QRect(scene.area.x(), y + row.height - 1, width, 1), theme().grid);
    }
    findBars(scene, row);
    const bool gathers = m_gathersThin && row.height > kNotch && !model.gauge(row);
    m_thin.begin(gathers ? width : 0);
    m_tasks.resize(m_bars.size());
    for (std::size_t k = 0; k < m_bars.size(); ++k) // by themselves: each waits for memory, and so they wait together
        m_tasks[k] = slices.task(m_bars[k].slice);
    std::size_t wide = 0; // of m_bars, those that are painted alone come first
    for (std::size_t k = 0; k < m_bars.size(); ++k) {
        const trace::Bar bar = m_bars[k];
        const int x = columns.of(bar.begin);
        const int right = std::max(columns.of(bar.end), x + 1);
        if (gathers && right - x < kTextureWidth)
            addThin(scene, model.task(row.measured, m_tasks[k]), row.measured, bar, x, right);
        else
            m_bars[wide++] = bar;
    }
    m_thin.paint(painter, QRect(scene.area.x(), y, width, row.height), kNotch);
    for (std::size_t k = 0; k < wide; ++k) {
        const int x = columns.of(m_bars[k].begin);
        paintBar(painter, scene, row, m_bars[k], x, std::max(columns.of(m_bars[k].end), x + 1), y);
    }
}

void TimelinePainter::addThin(const TimelineScene &scene, const trace::TaskInfo &task, bool measured,
                              const trace::Bar &bar, int x, int right)
{
    const auto &inks = m_inkOfKind[measured ? 1 : 0];
    const QRgb ink = inks[std::min(static_cast<std::size_t>(task.kind), inks.size() - 1)];
    const bool merged = bar.count > 1;
    m_thin.add(x, right, merged ? density(ink, m_paper, bar, scene.axis.nanosecondsPerPixel() * (right - x)) : ink,
               merged, scene.area.x());
    ++m_rectangles;
}

void TimelinePainter::findBars(const TimelineScene &scene, const TimelineModel::Row &row)
{
    const std::int64_t offset = row.measured ? 0 : scene.model->offset();
    m_bars.clear();
    scene.model->slices(row).query({std::llround(std::floor(scene.axis.begin())) - offset,
                                    std::llround(std::ceil(scene.axis.end())) - offset},
                                   scene.area.width(), m_bars);
}

void TimelinePainter::paintSelection(QPainter &painter, const TimelineScene &scene)
{
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (const TimelineScene &part : scene.parts()) {
        const int bottom = part.scroll + part.area.height();
        painter.setClipRect(QRect(0, part.area.y(), part.area.x(), part.area.height()));
        const auto [firstGroup, lastGroup] = part.model->layout().groupsBetween(part.scroll, bottom);
        for (std::size_t g = firstGroup; g < lastGroup; ++g) {
            const TimelineModel::Group &group = part.model->groups()[g];
            if (group.height > 0 && isSelected(part, group))
                painter.fillRect(QRect(0, part.area.y() + group.y - part.scroll - 2, 4, group.height + 2),
                                 theme().accent);
        }
        painter.setClipRect(part.area);
        const auto [firstRow, lastRow] = part.model->layout().rowsBetween(part.scroll, bottom);
        for (std::size_t r = firstRow; r < lastRow && !part.selectedTask.empty(); ++r)
            frameSelected(painter, part, part.model->rows()[r]);
    }
    painter.setClipping(false);
}

/// Slices of the selected task that are wide enough to be drawn alone.
void TimelinePainter::frameSelected(QPainter &painter, const TimelineScene &part, const TimelineModel::Row &row)
{
    const TimelineModel &model = *part.model;
    const trace::Row &slices = model.slices(row);
    const std::int32_t task = model.traceIndex(row.measured).taskOn(slices.rank(), part.selectedTask);
    if (task < 0 || model.gauge(row))
        return;
    findBars(part, row);
    const Columns columns(part, row);
    for (const trace::Bar &bar : m_bars) {
        if (bar.count > 1 || slices.task(bar.slice) != task)
            continue;
        const int x = columns.of(bar.begin);
        const int width = std::max(columns.of(bar.end) - x, 1);
        const QRect frame = QRect(part.area.x() + x, part.area.y() + row.y - part.scroll,
                                  width >= kTextureWidth ? width - 1 : width, row.height)
                                .adjusted(-1, -1, 1, 1);
        for (const QRect &edge : {QRect(frame.left(), frame.top(), frame.width(), 2),
                                  QRect(frame.left(), frame.bottom() - 1, frame.width(), 2),
                                  QRect(frame.left(), frame.top(), 2, frame.height()),
                                  QRect(frame.right() - 1, frame.top(), 2, frame.height())})
            painter.fillRect(edge, theme().cursor);
    }
}

void TimelinePainter::paintBar(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row,
                               const trace::Bar &bar, int x, int right, int y)
{
    const trace::Record record = scene.model->slices(row).record(bar.slice);
    const trace::TaskInfo &task = scene.model->task(row.measured, record.task);
    const auto &styles = m_ofKind[row.measured ? 1 : 0];
    const KindStyle &style = *styles[std::min(static_cast<std::size_t>(task.kind), styles.size() - 1)];
    QRect box(scene.area.x() + x, y, right - x, row.height);
    if (const trace::Gauge *gauge = scene.model->gauge(row))
        return paintLevel(painter, scene, *gauge, record.task, task, box);
    if (bar.count > 1)
        return paintMerged(painter, style, bar, scene, box);
    if (box.width() >= kTextureWidth) {
        box.setWidth(box.width() - 1); // a gap keeps neighbours apart
        if (style.outline.isValid()) {
            fill(painter, box, style.outline);
            fill(painter, box.adjusted(1, 1, -1, -1), style.texture);
        } else {
            fill(painter, box, style.texture);
        }
    } else {
        fill(painter, box, inkOf(style));
    }
    if (row.computes && row.height > TimelineRows::kThinHeight && box.width() >= kNumberWidth && m_labels < kLabelLimit
        && (task.microBatch >= 0 || box.width() >= kIdWidth)) {
        ++m_labels;
        const QRect visible = box & scene.area;
        const QString text = task.microBatch >= 0 ? QString::number(task.microBatch) : qt(task.id);
        painter.setPen(style.text);
        painter.drawText(visible, Qt::AlignCenter, text);
    }
}

/// As high as the level's share of full scale, with the level's text where there is room.
void TimelinePainter::paintLevel(QPainter &painter, const TimelineScene &scene, const trace::Gauge &gauge,
                                 std::int32_t level, const trace::TaskInfo &task, const QRect &box)
{
    const int height = std::max(1, static_cast<int>(std::lround(gauge.share(level) * box.height())));
    fill(painter, QRect(box.x(), box.bottom() + 1 - height, box.width(), height), theme().ofSeries(gauge.lane));
    if (box.width() < kIdWidth || m_labels >= kLabelLimit)
        return;
    ++m_labels;
    painter.setPen(theme().text);
    painter.drawText(box & scene.area, Qt::AlignCenter, qt(task.id.substr(task.id.find('/') + 1)));
}

void TimelinePainter::paintMerged(QPainter &painter, const KindStyle &style, const trace::Bar &bar,
                                  const TimelineScene &scene, const QRect &box)
{
    const QColor color(density(inkOf(style).rgb(), m_paper, bar, scene.axis.nanosecondsPerPixel() * box.width()));
    const int foot = ((box.x() >> 1) & 1) ? kNotch : 0;
    fill(painter, box.adjusted(0, 0, 0, -foot), color);
}

/// A triangle that points down where a snapshot was taken, up where the average was merged, and a line between both.
void TimelinePainter::paintAverages(QPainter &painter, const TimelineScene &scene, const TimelineModel::Row &row)
{
    const auto averages = scene.model->averages(
        row, {std::llround(std::floor(scene.axis.begin())), std::llround(std::ceil(scene.axis.end()))});
    const int foot = scene.area.y() + row.y - scene.scroll + row.height;
    const auto pixel = [&](std::int64_t time) {
        const double x = scene.axis.toPixel(static_cast<double>(time));
        return scene.area.x() + static_cast<int>(std::floor(std::clamp(x, -16.0, scene.area.width() + 16.0)));
    };
    const auto triangle = [&](int x, bool down, int size, const QColor &color) {
        for (int i = 0; i <= size; ++i)
            fill(painter, QRect(x - i, down ? foot - i : foot - size + i, 2 * i + 1, 1), color);
    };
    const auto mark = [&](std::int64_t time, bool down) {
        triangle(pixel(time), down, kMark + 2, theme().base);
        triangle(pixel(time), down, kMark, theme().text);
    };
    for (const TimelineModel::Average &average : averages) {
        if (average.snapshot && average.merge)
            fill(painter, QRect(QPoint(pixel(*average.snapshot), foot), QPoint(pixel(*average.merge), foot + 1)),
                 theme().text);
        if (average.snapshot)
            mark(*average.snapshot, true);
        if (average.merge)
            mark(*average.merge, false);
    }
}

/// A line through all rows where a step begins, with its number where there is room; none where they are too close.
void TimelinePainter::paintSteps(QPainter &painter, const TimelineScene &scene)
{
    constexpr int kApart = 12;   // pixels: lines that are closer say nothing
    constexpr int kNumbers = 56; // pixels: room for "step 1234"
    const trace::Window window{std::llround(std::floor(scene.axis.begin())), std::llround(std::ceil(scene.axis.end()))};
    const std::vector<TimelineModel::StepBegin> steps = scene.model->stepBegins(window);
    const double span = steps.size() < 2 ? 0 : static_cast<double>(steps.back().time - steps.front().time);
    const double apart =
        span / scene.axis.nanosecondsPerPixel() / static_cast<double>(std::max<std::size_t>(steps.size() - 1, 1));
    if (steps.size() > 1 && apart < kApart)
        return;
    const int high = QFontMetrics(m_small).height();
    painter.setFont(m_small);
    for (const TimelineModel::StepBegin &step : steps) {
        const int x = scene.area.x() + static_cast<int>(std::floor(scene.axis.toPixel(static_cast<double>(step.time))));
        fill(painter, QRect(x, scene.area.y(), 1, scene.area.height()), theme().border);
        if (steps.size() > 1 && apart < kNumbers)
            continue;
        painter.setPen(theme().dimText);
        painter.drawText(QRect(x + 3, scene.area.bottom() - high, kNumbers + 20, high),
                         Qt::AlignLeft | Qt::AlignVCenter, QObject::tr("step %1").arg(step.step));
    }
}

/// A line through all rows where a parameter server had a version ready: by the measured clock where that has a
/// server, else by the predicted one. None where there are too many.
void TimelinePainter::paintVersions(QPainter &painter, const TimelineScene &scene)
{
    constexpr int kApart = 5; // pixels: lines that are closer say nothing
    const trace::Window window{std::llround(std::floor(scene.axis.begin())), std::llround(std::ceil(scene.axis.end()))};
    const auto most = static_cast<std::size_t>(std::max(1, scene.area.width() / kApart));
    const auto versions = scene.model->versions(scene.model->hasServer(true), window, most);
    if (!versions)
        return;
    QColor line = theme().text;
    line.setAlpha(110);
    std::optional<int> drawn;
    for (const std::int64_t version : *versions) {
        const int x = scene.area.x() + static_cast<int>(std::floor(scene.axis.toPixel(static_cast<double>(version))));
        if (drawn && x - *drawn < kApart)
            continue;
        fill(painter, QRect(x, scene.area.y(), 1, scene.area.height()), line);
        drawn = x;
    }
}

void TimelinePainter::paintLabels(QPainter &painter, const TimelineScene &part)
{
    const QRect gutter(0, part.area.y(), part.area.x(), part.area.height());
    fill(painter, gutter, theme().window);
    painter.setClipRect(gutter);
    const int bottom = part.scroll + part.area.height();
    const auto [firstGroup, lastGroup] = part.model->layout().groupsBetween(part.scroll, bottom);
    for (std::size_t g = firstGroup; g < lastGroup; ++g)
        if (part.model->groups()[g].height > 0)
            paintDevice(painter, part, part.model->groups()[g]);
    const auto [firstRow, lastRow] = part.model->layout().rowsBetween(part.scroll, bottom);
    for (std::size_t r = firstRow; r < lastRow; ++r)
        if (part.model->rows()[r].height > TimelineRows::kThinHeight)
            paintLane(painter, part, part.model->rows()[r]);
    painter.setClipping(false);
    fill(painter, QRect(gutter.right(), gutter.y(), 1, gutter.height()), theme().border);
}

/// Its name, stages and idle time, or the heading of what is collapsed with it.
void TimelinePainter::paintDevice(QPainter &painter, const TimelineScene &part, const TimelineModel::Group &group)
{
    const QFontMetrics small(m_small);
    const int y = part.area.y() + group.y - part.scroll;
    const int stage = part.model->stage(group);
    const std::vector<int> stages = part.model->stages(group);
    if (group.collapsed && group.heading.empty())
        return;
    if (stage >= 0 && !group.collapsed)
        fill(painter, QRect(7, y + 4, 9, 9), theme().ofSeries(stage));
    painter.setPen(theme().text);
    QFont bold = m_small;
    bold.setBold(true);
    painter.setFont(bold);
    const int room = group.collapsed ? part.area.x() - 16 : 78;
    const QString name = group.collapsed ? QStringLiteral("▸ ") + qt(group.heading) : qt(std::string(group.device));
    painter.drawText(QRect(group.collapsed ? 7 : 20, y - 1, room + 2, 18), Qt::AlignLeft | Qt::AlignVCenter,
                     QFontMetrics(bold).elidedText(name, Qt::ElideMiddle, room));
    painter.setFont(m_small);
    painter.setPen(theme().dimText);
    if (group.collapsed)
        return;
    const int line = small.height();
    QStringList facts;
    if (stage >= 0)
        facts << (stages.size() > 1 ? QObject::tr("stages %1").arg(numbersText(stages))
                                    : QObject::tr("stage %1").arg(stage));
    if (const double idle = part.model->predictedIdle(group); idle >= 0)
        facts << QObject::tr("bubble %1").arg(percentText(idle));
    if (part.model->choices().pinned.contains(std::string(group.device)))
        facts << QObject::tr("pinned");
    for (int k = 0; k < facts.size() && 18 + (k + 1) * line <= group.height + 4; ++k)
        painter.drawText(QRect(20, y + 16 + k * line, 84, line), Qt::AlignLeft | Qt::AlignVCenter,
                         small.elidedText(facts[k], Qt::ElideRight, 84));
}

void TimelinePainter::paintLane(QPainter &painter, const TimelineScene &part, const TimelineModel::Row &row)
{
    const int y = part.area.y() + row.y - part.scroll;
    painter.setPen(row.measured ? theme().text : theme().dimText);
    const QString clock = QObject::tr(part.model->clockName(row.measured));
    const bool hasOther = part.model->groups()[row.group].predictedRank >= 0; // the clock tells two rows apart
    const QString text = row.computes && (hasOther || !row.measured)
        ? clock
        : qt(part.model->tables(row.measured).lane(row.lane).name)
            + (row.measured ? QStringLiteral(" ●") : QStringLiteral(" ○"));
    painter.drawText(QRect(part.area.x() - 98, y, 94, row.height), Qt::AlignRight | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(text, Qt::ElideLeft, 94));
}

void TimelinePainter::paintRuler(QPainter &painter, const TimelineScene &scene, const QFont &)
{
    const QRect ruler(0, 0, scene.area.right() + 1, kRuler);
    fill(painter, ruler, theme().window);
    fill(painter, QRect(0, kRuler - 1, ruler.width(), 1), theme().border);
    painter.setFont(m_small);
    painter.setClipRect(QRect(scene.area.x(), 0, scene.area.width(), kRuler));
    for (const auto &tick : scene.axis.ticks()) {
        const int x = scene.area.x() + static_cast<int>(tick.pixel);
        const int height = tick.label.empty() ? 4 : 9;
        fill(painter, QRect(x, kRuler - 1 - height, 1, height), theme().dimText);
        if (tick.label.empty())
            continue;
        painter.setPen(theme().text);
        painter.drawText(QRect(x + 4, 2, 120, kRuler - 10), Qt::AlignLeft | Qt::AlignVCenter, qt(tick.label));
    }
    painter.setClipping(false);
}

} // namespace planloom::ui
