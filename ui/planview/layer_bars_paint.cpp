// SPDX-License-Identifier: GPL-3.0-or-later
// How LayerBars looks. From top to bottom: stages, columns of time, parameters, cuts, ruler.
#include "ui/planview/layer_bars.h"

#include "engine/trace/trace.h"
#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

constexpr int kGutter = 92; // names and scales of the rows, left of the layers
constexpr int kMargin = 8;
constexpr int kBand = 26;  // height of the stages
constexpr int kStrip = 14; // height of parameters, of cuts
constexpr int kRuler = 16;
constexpr int kGap = 3;
constexpr int kRoomForStrips = 104; // of the widget's height; below, the strips give way to the columns
constexpr int kRoomForRuler = 130;
constexpr double kGapColumns = 4; // pixels a layer from which columns stand apart

double most(const std::vector<LayerFigures> &figures, double (*of)(const LayerFigures &))
{
    double result = 0;
    for (const LayerFigures &each : figures)
        result = std::max(result, of(each));
    return result;
}

double secondsOf(const LayerFigures &f) { return f.seconds; }
double parametersOf(const LayerFigures &f) { return static_cast<double>(f.parameters); }
double cutOf(const LayerFigures &f) { return static_cast<double>(f.cut); }

/// A round step of about @p wanted layers between two marks of the ruler.
std::size_t rulerStep(double wanted)
{
    std::size_t step = 1;
    for (const std::size_t factor : {2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000}) {
        if (static_cast<double>(step) >= wanted)
            break;
        step = factor;
    }
    return step;
}

} // namespace

QRect LayerBars::bandArea() const { return {kGutter, kMargin, std::max(width() - kGutter - kMargin, 1), kBand}; }

QRect LayerBars::barArea() const
{
    const int ruler = height() >= kRoomForRuler ? kRuler : 0;
    const int strips = height() >= kRoomForStrips ? 2 * (kStrip + kGap) : 0;
    const int top = kMargin + kBand + kGap;
    return {kGutter, top, bandArea().width(), std::max(height() - top - strips - ruler - kGap, 8)};
}

QRect LayerBars::parameterArea() const
{
    if (height() < kRoomForStrips)
        return {};
    return {kGutter, barArea().bottom() + 1 + kGap, bandArea().width(), kStrip};
}

QRect LayerBars::cutArea() const
{
    return parameterArea().isEmpty() ? QRect() : parameterArea().translated(0, kStrip + kGap);
}

void LayerBars::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (m_figures.empty()) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("The stages appear here as spans over the model's layers."));
    } else {
        painter.setClipRect(bandArea().adjusted(-1, -kMargin, kMargin, height()));
        paintBars(painter);
        paintCuts(painter);
        paintRuler(painter);
        paintStages(painter);
        paintSelection(painter);
        paintBoundaries(painter);
        if (m_drag && m_drag->moved)
            paintGhost(painter);
        painter.setClipping(false);
        paintGutter(painter);
    }
    if (!hasFocus())
        return;
    painter.setPen(QPen(theme().accent, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
}

void LayerBars::paintStages(QPainter &painter) const
{
    for (std::size_t s = 0; s < m_document->plan.stages.size(); ++s)
        paintStage(painter, s);
}

void LayerBars::paintStage(QPainter &painter, std::size_t stage) const
{
    const plan::Stage &which = m_document->plan.stages[stage];
    const double left = std::max(m_axis.x(static_cast<double>(which.firstLayer)), static_cast<double>(kGutter));
    const double right =
        std::min(m_axis.x(static_cast<double>(which.lastLayer)), static_cast<double>(bandArea().right() + 1));
    if (right <= left)
        return;
    const int index = static_cast<int>(stage);
    const QRectF box(left, bandArea().top(), right - left, kBand);
    const QColor body = paled(theme().ofSeries(index), 0.72);
    painter.fillRect(box, body);
    painter.setPen(theme().ofSeries(index));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box.adjusted(0.5, 0.5, -1, -1));

    const QString number = QString::number(index);
    const double badge = std::min<double>(painter.fontMetrics().horizontalAdvance(number) + 12, box.width());
    const QRectF badgeBox(box.left(), box.top(), badge, kBand);
    painter.fillRect(badgeBox, theme().ofSeries(index));
    painter.setPen(textOn(theme().ofSeries(index)));
    if (badge >= painter.fontMetrics().horizontalAdvance(number))
        painter.drawText(badgeBox, Qt::AlignCenter, number);

    const double slowest = std::max_element(m_stageSeconds.begin(), m_stageSeconds.end())->value_or(0);
    const double share = m_stageSeconds[stage].value_or(0) / std::max(1e-30, slowest);
    const QString ofSlowest = m_document->plan.admm ? QString() : tr(" (%1 of the slowest)").arg(percentText(share, 0));
    const QString longText =
        tr("%1  ·  %2%3  ·  %4%5%6")
            .arg(qt(which.name), secondsOfStage(stage), ofSlowest, m_stageDevices[static_cast<qsizetype>(stage)],
                 which.recompute != plan::Recompute::None ? tr("  ·  recompute") : QString(),
                 stageLocked(m_locks, which) ? tr("  ·  kept") : QString());
    const QString shortText = secondsOfStage(stage);
    const QRectF room = box.adjusted(badge + 6, 0, -6, 0);
    painter.setPen(textOn(body));
    const QFontMetrics metrics = painter.fontMetrics();
    if (room.width() >= metrics.horizontalAdvance(shortText) * 2)
        painter.drawText(room, Qt::AlignVCenter | Qt::AlignLeft,
                         metrics.elidedText(longText, Qt::ElideRight, static_cast<int>(room.width())));
    else if (room.width() >= metrics.horizontalAdvance(shortText))
        painter.drawText(room, Qt::AlignVCenter | Qt::AlignLeft, shortText);
}

void LayerBars::paintBars(QPainter &painter) const
{
    const QRect area = barArea();
    const QRect parameters = parameterArea();
    painter.setPen(theme().grid);
    painter.drawLine(area.left(), area.top(), area.right(), area.top());
    painter.drawLine(area.left(), area.top() + area.height() / 2, area.right(), area.top() + area.height() / 2);
    const double highest = std::max(most(m_figures, secondsOf), 1e-30);
    const double heaviest = std::max(most(m_figures, parametersOf), 1.0);
    const double gap = m_axis.layerPixels() >= kGapColumns ? 1 : 0;
    int stage = -1;
    QBrush brush;
    for (std::size_t k = m_axis.firstVisible(); k < m_axis.lastVisible(); ++k) {
        const double left = m_axis.x(static_cast<double>(k)) + gap;
        const double wide = std::max(m_axis.x(static_cast<double>(k) + 1) - left, 0.5);
        const int holder =
            static_cast<int>(std::upper_bound(m_boundaries.begin(), m_boundaries.end(), k) - m_boundaries.begin());
        if (holder != stage) {
            stage = holder;
            brush = stageBrush(stage);
        }
        const double tall = std::max(m_figures[k].seconds / highest * area.height(), 1.0);
        painter.fillRect(QRectF(left, area.bottom() + 1 - tall, wide, tall), brush);
        if (!parameters.isEmpty() && m_figures[k].parameters > 0) {
            const double heavy = std::max(parametersOf(m_figures[k]) / heaviest * parameters.height(), 1.0);
            painter.fillRect(QRectF(left, parameters.bottom() + 1 - heavy, wide, heavy), theme().dimText);
        }
    }
    painter.setPen(theme().border);
    painter.drawLine(area.left(), area.bottom() + 1, area.right(), area.bottom() + 1);
    if (!parameters.isEmpty())
        painter.drawLine(area.left(), parameters.bottom() + 1, area.right(), parameters.bottom() + 1);
}

void LayerBars::paintCuts(QPainter &painter) const
{
    const QRect area = cutArea();
    if (area.isEmpty())
        return;
    // A cut stands between two layers: it is drawn at the edge, as an outline, as communication is everywhere.
    const double largest = std::max(most(m_figures, cutOf), 1.0);
    const double wide = std::clamp(m_axis.layerPixels() * 0.5, 1.0, 10.0);
    painter.setBrush(paled(theme().hue(trace::standard(trace::Kind::Send).hue), 0.5));
    painter.setPen(m_axis.layerPixels() >= kGapColumns ? QPen(theme().hue(trace::standard(trace::Kind::Send).hue))
                                                       : QPen(Qt::NoPen));
    for (std::size_t k = std::max<std::size_t>(m_axis.firstVisible(), 1); k < m_axis.lastVisible(); ++k) {
        const double tall = std::max(cutOf(m_figures[k]) / largest * (area.height() - 1), 1.0);
        painter.drawRect(QRectF(m_axis.x(static_cast<double>(k)) - wide / 2, area.bottom() + 1 - tall, wide, tall));
    }
    painter.setPen(theme().border);
    painter.drawLine(area.left(), area.bottom() + 1, area.right(), area.bottom() + 1);
}

void LayerBars::paintRuler(QPainter &painter) const
{
    if (height() < kRoomForRuler)
        return;
    const QFontMetrics metrics = painter.fontMetrics();
    const double perLabel = metrics.horizontalAdvance(QString::number(m_axis.layers())) + 10;
    const std::size_t step = rulerStep(perLabel / m_axis.layerPixels());
    painter.setPen(theme().dimText);
    for (std::size_t k = (m_axis.firstVisible() + step - 1) / step * step; k < m_axis.lastVisible(); k += step) {
        const double middle = m_axis.x(static_cast<double>(k) + 0.5);
        painter.drawText(QRectF(middle - perLabel, height() - kRuler - 2, 2 * perLabel, kRuler), Qt::AlignCenter,
                         QString::number(k));
    }
}

void LayerBars::paintGutter(QPainter &painter) const
{
    const auto label = [&](const QRect &row, const QString &name, const QString &scale) {
        if (row.isEmpty())
            return;
        const bool both = row.height() >= 2 * painter.fontMetrics().height();
        const QRect box(kMargin, row.top(), kGutter - kMargin - 6, row.height());
        painter.setPen(theme().dimText);
        painter.drawText(box, (both ? Qt::AlignTop : Qt::AlignVCenter) | Qt::AlignRight,
                         both ? name + QLatin1Char('\n') + scale : name);
    };
    painter.setPen(theme().dimText);
    label(bandArea(), tr("stages"), {});
    label(barArea(), m_document->plan.admm ? tr("forward") : tr("time"), secondsText(most(m_figures, secondsOf)));
    label(parameterArea(), tr("parameters"), {});
    label(cutArea(), tr("cut"), {});
    if (height() >= kRoomForRuler)
        label(QRect(0, height() - kRuler - 2, 1, kRuler), tr("layer"), {});
}

/// Pixels of the narrowest stage.
double LayerBars::narrowestStage() const
{
    double narrowest = std::numeric_limits<double>::max();
    for (const plan::Stage &stage : m_document->plan.stages)
        narrowest = std::min(narrowest, static_cast<double>(stage.lastLayer - stage.firstLayer) * m_axis.layerPixels());
    return narrowest;
}

void LayerBars::paintBoundaries(QPainter &painter) const
{
    constexpr double kRoomForGrips = 40; // pixels of a stage: narrower ones would be covered
    const bool grips = narrowestStage() >= kRoomForGrips;
    const int bottom = cutArea().isEmpty() ? barArea().bottom() : cutArea().bottom();
    for (std::size_t b = 0; b < m_boundaries.size(); ++b) {
        const double x = std::round(m_axis.x(static_cast<double>(m_boundaries[b])));
        const bool current = static_cast<int>(b) == m_current;
        const bool hover = static_cast<int>(b) == m_hover;
        painter.fillRect(QRectF(x - (current ? 1.5 : 0.5), bandArea().top(), current ? 3 : 1,
                                bottom - bandArea().top()),
                         current ? theme().accent : (grips ? theme().text : theme().border));
        if (cutLocked(m_locks, m_boundaries[b]))
            paintLock(painter, x);
        if (!grips && !current && !hover)
            continue;
        const QRectF grip(x - 4, bandArea().top() - 3, 8, kBand + 6);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(QPen(current || hover ? theme().accent : theme().text, current ? 2 : 1));
        painter.setBrush(current ? theme().accent : theme().base);
        painter.drawRoundedRect(grip, 3, 3);
        painter.setPen(current ? theme().accentText : theme().text);
        painter.drawLine(QPointF(x, grip.top() + 9), QPointF(x, grip.bottom() - 9));
        painter.setRenderHint(QPainter::Antialiasing, false);
    }
}

/// A padlock on a boundary that planning again keeps, below the stages.
void LayerBars::paintLock(QPainter &painter, double x) const
{
    const double top = bandArea().bottom() + 6;
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme().text, 1.5));
    painter.setBrush(Qt::NoBrush);
    constexpr int kHalfCircle = 180 * 16;
    painter.drawArc(QRectF(x - 3, top, 6, 8), 0, kHalfCircle);
    painter.setPen(QPen(theme().base, 1)); // seen on columns of any colour
    painter.setBrush(theme().text);
    painter.drawRoundedRect(QRectF(x - 5.5, top + 3.5, 11, 8), 1.5, 1.5);
    painter.setRenderHint(QPainter::Antialiasing, false);
}

void LayerBars::paintGhost(QPainter &painter) const
{
    const double x = m_axis.x(static_cast<double>(m_drag->layer));
    const auto boundary = static_cast<std::size_t>(m_drag->boundary);
    const auto &stages = m_document->plan.stages;
    const bool legal = m_drag->layer > stages[boundary].firstLayer && m_drag->layer < stages[boundary + 1].lastLayer;
    painter.setPen(QPen(legal ? theme().accent : theme().error, 2, Qt::DashLine));
    painter.drawLine(QPointF(x, 2), QPointF(x, height() - 2));

    const QString text = previewText();
    const QRect bounds = painter.fontMetrics().boundingRect(QRect(0, 0, 500, 200), Qt::AlignLeft, text);
    QRect box(0, 0, bounds.width() + 16, bounds.height() + 8);
    const int room = bandArea().right() - box.width();
    const bool onRight = x + 12 < room;
    box.moveTopLeft({static_cast<int>(onRight ? x + 12 : std::max(x - 12 - box.width(), static_cast<double>(kGutter))),
                     barArea().top() + 2});
    painter.fillRect(box, legal ? theme().base : theme().errorBase);
    painter.setPen(legal ? theme().border : theme().error);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box);
    painter.setPen(legal ? theme().text : theme().error);
    painter.drawText(box.adjusted(8, 4, -8, -4), Qt::AlignLeft, text);
}

void LayerBars::paintSelection(QPainter &painter) const
{
    painter.setBrush(Qt::NoBrush);
    const auto &stages = m_document->plan.stages;
    if (m_selection.stage.valid() && m_selection.stage.index() < stages.size()) {
        const plan::Stage &stage = stages[m_selection.stage.index()];
        const double left = m_axis.x(static_cast<double>(stage.firstLayer));
        painter.setPen(QPen(theme().text, 2));
        painter.drawRect(
            QRectF(left + 1, bandArea().top(), m_axis.x(static_cast<double>(stage.lastLayer)) - left - 2, kBand));
    }
    if (m_selection.layers.empty() || m_selection.layers.first >= m_figures.size())
        return;
    const double left = m_axis.x(static_cast<double>(m_selection.layers.first));
    const double right = m_axis.x(static_cast<double>(std::min(m_selection.layers.last, m_figures.size())));
    QColor veil = theme().accent;
    veil.setAlpha(40);
    painter.fillRect(QRectF(left, barArea().top(), right - left, barArea().height()), veil);
    painter.setPen(QPen(theme().accent, 1));
    painter.drawRect(QRectF(left, barArea().top(), right - left - 1, barArea().height()));
}

} // namespace planloom::ui
