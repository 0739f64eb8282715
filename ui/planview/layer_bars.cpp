// SPDX-License-Identifier: GPL-3.0-or-later
// Content of LayerBars, and its reaction to mouse and keyboard.
#include "ui/planview/layer_bars.h"

#include "engine/plan/device_text.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QAccessible>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kDragStart = 3;      // pixels
constexpr int kFarStep = 5;        // layers that Shift+arrow moves
constexpr double kWheelZoom = 1.2; // per notch
constexpr int kWheelPixels = 60;   // per notch
constexpr int kNotch = 120;        // of QWheelEvent::angleDelta

template <class Number>
double slowest(const std::vector<Number> &seconds)
{
    return seconds.empty() ? 0 : std::optional<double>(*std::max_element(seconds.begin(), seconds.end())).value_or(0);
}

} // namespace

LayerBars::LayerBars(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Stages over the layers"));
    describeForReaders();
}

void LayerBars::setDocument(const DocumentPtr &document)
{
    m_document = document;
    m_figures.clear();
    m_stageSeconds.clear();
    m_stageDevices.clear();
    m_boundaries.clear();
    m_locks = document ? locksOf(*document) : planners::KeptStages();
    if (!document || !showsDrag(*document))
        endDrag();
    if (document) {
        m_figures = layerFigures(*document);
        m_stageSeconds = secondsOfStages(*document, nullptr);
        const auto &stages = document->plan.stages;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            m_stageDevices << beginningOf(qt(plan::deviceText(*document->subject.cluster, stages[s].devices)));
            if (s > 0)
                m_boundaries.push_back(stages[s].firstLayer);
        }
    }
    m_axis.setLayers(m_figures.size());
    m_current = std::min(m_current, static_cast<int>(m_boundaries.size()) - 1);
    m_hover = -1;
    describeForReaders();
    update();
}

/// Whether @p document is the one that is dragged in, with the boundary where it is now, or was.
bool LayerBars::showsDrag(const plan::Document &document) const
{
    if (!m_drag || document.plan.stages.size() != m_drag->document->plan.stages.size())
        return false;
    const std::size_t layer = document.plan.stages[static_cast<std::size_t>(m_drag->boundary)].lastLayer;
    return layer == m_drag->layer || layer == m_drag->from;
}

void LayerBars::setReport(const simulate::Report *report)
{
    if (!m_document || !m_document->plan.admm)
        return;
    m_stageSeconds = secondsOfStages(*m_document, report);
    update();
}

void LayerBars::setSelection(const Selection &selection)
{
    m_selection = selection;
    update();
}

void LayerBars::setCurrentBoundary(int boundary)
{
    m_current = std::clamp(boundary, -1, static_cast<int>(m_boundaries.size()) - 1);
    if (m_current >= 0)
        m_axis.reveal(m_boundaries[static_cast<std::size_t>(m_current)]);
    describeForReaders();
    update();
}

void LayerBars::fit()
{
    m_axis.fit();
    update();
}

int LayerBars::stageAt(double pixel) const
{
    if (!m_document)
        return -1;
    const auto after = std::upper_bound(m_boundaries.begin(), m_boundaries.end(), m_axis.layerAt(pixel));
    return static_cast<int>(after - m_boundaries.begin());
}

// --- words

QString LayerBars::stageText(std::size_t stage) const
{
    const plan::Stage &which = m_document->plan.stages[stage];
    const qsizetype replicas = static_cast<qsizetype>(which.devices.size());
    const QString what = m_document->plan.admm ? tr("%1 computing in an iteration of ADMM, as simulated")
                                               : tr("%1 forward + backward of a micro-batch");
    const QString kept = stageLocked(m_locks, which) ? tr("\nplanning again keeps it") : QString();
    return tr("Stage %1 (%2): layers %3 to %4\n%5\n%6 on %7%8")
        .arg(stage)
        .arg(qt(which.name))
        .arg(which.firstLayer)
        .arg(which.lastLayer - 1)
        .arg(what.arg(secondsOfStage(stage)), replicas == 1 ? tr("1 replica") : tr("%1 replicas").arg(replicas),
             m_stageDevices[static_cast<qsizetype>(stage)], kept);
}

QString LayerBars::secondsOfStage(std::size_t stage) const
{
    return m_stageSeconds[stage] ? secondsText(*m_stageSeconds[stage]) : tr("…");
}

QString LayerBars::describe(const QPoint &at) const
{
    if (m_figures.empty() || at.x() < bandArea().left() || at.x() > bandArea().right())
        return {};
    if (const int boundary = m_axis.boundaryAt(at.x(), m_boundaries); boundary >= 0) {
        return tr("Boundary of stages %1 and %2, before layer %3\nDrag it, or select it with [ and ] and move it with "
                  "the arrow keys")
            .arg(boundary)
            .arg(boundary + 1)
            .arg(m_boundaries[static_cast<std::size_t>(boundary)]);
    }
    if (bandArea().contains(at))
        return stageText(static_cast<std::size_t>(stageAt(at.x()))) + tr("\nDouble-click to split it");
    const std::size_t layer = m_axis.layerAt(at.x());
    const LayerFigures &figures = m_figures[layer];
    const QString pass = m_document->plan.admm ? tr("forward pass, at the beginning of an iteration of ADMM,")
                                               : tr("forward + backward");
    return tr("Layer %1: %2 (stage %3)\n%7 %4\nparameters %5\nreceived per micro-batch %6")
        .arg(layer)
        .arg(qt(m_document->subject.layers().layers[layer].name))
        .arg(stageAt(at.x()))
        .arg(secondsText(figures.seconds), bytesText(figures.parameters), bytesText(figures.cut), pass);
}

QString LayerBars::previewText() const
{
    if (!m_drag || !m_drag->moved)
        return {};
    const auto boundary = static_cast<std::size_t>(m_drag->boundary);
    const std::vector<double> after = secondsWithBoundary(*m_drag->document, boundary, m_drag->layer);
    const double before = slowest(m_drag->seconds);
    const auto one = [&](std::size_t stage) {
        const auto was = m_drag->seconds[stage];
        return tr("stage %1: %2 → %3").arg(stage).arg(was ? secondsText(*was) : tr("…"), secondsText(after[stage]));
    };
    return tr("Before layer %1 (%2)\n%3\n%4\nslowest stage: %5 → %6 (%7)")
        .arg(m_drag->layer)
        .arg(qt(m_document->subject.layers().layers[m_drag->layer].name), one(boundary), one(boundary + 1),
             secondsText(before), secondsText(slowest(after)), changeText(before, slowest(after)));
}

void LayerBars::describeForReaders()
{
    QString text = tr("No plan");
    if (m_document)
        text = tr("%1 stages over %2 layers").arg(m_boundaries.size() + 1).arg(m_figures.size());
    if (m_current >= 0) {
        const auto boundary = static_cast<std::size_t>(m_current);
        text = tr("Boundary of stages %1 and %2, before layer %3")
                   .arg(m_current)
                   .arg(m_current + 1)
                   .arg(m_boundaries[boundary]);
    }
    if (text == accessibleDescription())
        return;
    setAccessibleDescription(text);
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
}

/// Each of the two stages keeps a layer.
std::size_t LayerBars::legalLayer(int boundary, std::size_t layer) const
{
    const auto stage = static_cast<std::size_t>(boundary);
    const auto &stages = m_document->plan.stages;
    const std::size_t first = stages[stage].firstLayer + 1;
    const std::size_t last = stages[stage + 1].lastLayer - 1;
    return first > last ? m_boundaries[stage] : std::clamp(layer, first, last);
}

// --- mouse

void LayerBars::setPreview(std::size_t layer)
{
    const std::size_t legal = legalLayer(m_drag->boundary, layer);
    const bool isNew = std::exchange(m_drag->layer, legal) != legal;
    Q_EMIT previewChanged(previewText());
    update();
    if (isNew)
        Q_EMIT boundaryDragged(m_drag->boundary, legal);
}

void LayerBars::endDrag()
{
    if (!m_drag)
        return;
    m_drag.reset();
    Q_EMIT previewChanged({});
    update();
}

void LayerBars::cancelDrag()
{
    endDrag();
    Q_EMIT dragCancelled();
}

void LayerBars::mousePressEvent(QMouseEvent *event)
{
    m_press = m_last = event->pos();
    if (m_figures.empty() || (event->button() != Qt::LeftButton && event->button() != Qt::MiddleButton))
        return;
    const int boundary = event->button() == Qt::LeftButton ? m_axis.boundaryAt(event->pos().x(), m_boundaries) : -1;
    if (boundary < 0) {
        m_panning = true;
        return;
    }
    setCurrentBoundary(boundary);
    const std::size_t layer = m_boundaries[static_cast<std::size_t>(boundary)];
    m_drag = Drag{boundary, layer, false, layer, m_document, m_stageSeconds};
}

void LayerBars::mouseMoveEvent(QMouseEvent *event)
{
    const QPoint at = event->pos();
    if (m_drag) {
        m_drag->moved = m_drag->moved || std::abs(at.x() - m_press.x()) > kDragStart;
        if (m_drag->moved)
            setPreview(m_axis.edgeAt(at.x()));
    } else if (m_panning) {
        m_axis.pan(m_last.x() - at.x());
        update();
    } else if (const int hover = m_axis.boundaryAt(at.x(), m_boundaries); hover != m_hover) {
        m_hover = hover;
        setCursor(hover >= 0 ? Qt::SplitHCursor : Qt::ArrowCursor);
        update();
    }
    m_last = at;
}

void LayerBars::mouseReleaseEvent(QMouseEvent *event)
{
    const bool clicked = (event->pos() - m_press).manhattanLength() <= kDragStart;
    const bool panned = std::exchange(m_panning, false);
    if (m_drag) {
        const Drag drag = *m_drag;
        endDrag();
        if (drag.layer != drag.from)
            Q_EMIT boundaryMoved(drag.boundary, drag.layer);
        else
            Q_EMIT dragCancelled();
        return;
    }
    if (!panned || !clicked || event->button() != Qt::LeftButton)
        return;
    if (bandArea().contains(event->pos()))
        Q_EMIT stagePicked(stageAt(event->pos().x()));
    else if (event->pos().x() >= bandArea().left())
        Q_EMIT layerPicked(m_axis.layerAt(event->pos().x()));
}

void LayerBars::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (m_figures.empty() || event->button() != Qt::LeftButton || event->pos().x() < bandArea().left())
        return;
    if (m_axis.boundaryAt(event->pos().x(), m_boundaries) >= 0)
        return;
    const int stage = stageAt(event->pos().x());
    const plan::Stage &which = m_document->plan.stages[static_cast<std::size_t>(stage)];
    std::size_t layer = m_axis.edgeAt(event->pos().x());
    if (which.lastLayer - which.firstLayer > 1) // the edge nearest to the mouse that is inside of the stage
        layer = std::clamp(layer, which.firstLayer + 1, which.lastLayer - 1);
    Q_EMIT splitAsked(stage, layer);
}

void LayerBars::wheelEvent(QWheelEvent *event)
{
    const QPoint delta = event->angleDelta();
    const double notches = (delta.y() != 0 ? delta.y() : delta.x()) / static_cast<double>(kNotch);
    if (event->modifiers() & Qt::ControlModifier)
        m_axis.zoom(std::pow(kWheelZoom, notches), event->position().x());
    else if ((event->modifiers() & Qt::ShiftModifier) || delta.x() != 0)
        m_axis.pan(-notches * kWheelPixels);
    else
        return event->ignore();
    event->accept();
    update();
}

void LayerBars::leaveEvent(QEvent *)
{
    m_hover = -1;
    update();
}

bool LayerBars::event(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
        update();
    return answerToolTip(event, this, [this](const QPoint &at) { return describe(at); }) || QWidget::event(event);
}

void LayerBars::resizeEvent(QResizeEvent *)
{
    const QRect band = bandArea();
    m_axis.setPixels(band.left(), band.width());
}

// --- keyboard

void LayerBars::stepBoundary(int by)
{
    if (m_boundaries.empty())
        return;
    const int last = static_cast<int>(m_boundaries.size()) - 1;
    setCurrentBoundary(m_current < 0 ? (by > 0 ? 0 : last) : std::clamp(m_current + by, 0, last));
}

void LayerBars::moveCurrent(int by)
{
    if (m_boundaries.empty())
        return;
    if (m_current < 0) // of the selected stage: the boundary at its end
        return setCurrentBoundary(std::max(m_selection.stage.value, 0));
    const auto from = static_cast<std::int64_t>(m_boundaries[static_cast<std::size_t>(m_current)]);
    const auto to = static_cast<std::size_t>(std::max<std::int64_t>(from + by, 0));
    if (const std::size_t legal = legalLayer(m_current, to); legal != m_boundaries[static_cast<std::size_t>(m_current)])
        Q_EMIT boundaryMoved(m_current, legal);
}

void LayerBars::askMerge()
{
    if (m_current >= 0)
        Q_EMIT mergeAsked(m_current);
    else if (m_selection.stage.valid())
        Q_EMIT mergeAsked(m_selection.stage.value);
}

/// Of the boundary, or of the selected stage.
void LayerBars::askLock()
{
    if (m_current >= 0)
        Q_EMIT boundaryLockAsked(m_current);
    else if (m_selection.stage.valid())
        Q_EMIT stageLockAsked(m_selection.stage.value);
}

bool LayerBars::moveKey(int key, bool far)
{
    switch (key) {
    case Qt::Key_Left: moveCurrent(far ? -kFarStep : -1); return true;
    case Qt::Key_Right: moveCurrent(far ? kFarStep : 1); return true;
    case Qt::Key_BracketLeft: stepBoundary(-1); return true;
    case Qt::Key_BracketRight: stepBoundary(1); return true;
    default: return false;
    }
}

void LayerBars::keyPressEvent(QKeyEvent *event)
{
    if (!m_document || (event->modifiers() & (Qt::ControlModifier | Qt::AltModifier)))
        return QWidget::keyPressEvent(event);
    if (moveKey(event->key(), event->modifiers() & Qt::ShiftModifier))
        return;
    switch (event->key()) {
    case Qt::Key_Delete: return askMerge();
    case Qt::Key_K: return askLock();
    case Qt::Key_Space: return fit();
    case Qt::Key_Escape:
        if (m_drag)
            return cancelDrag();
        setCurrentBoundary(-1);
        Q_EMIT cleared();
        return;
    default: QWidget::keyPressEvent(event);
    }
}

bool LayerBars::focusNextPrevChild(bool next)
{
    const int count = static_cast<int>(m_boundaries.size());
    const int target = m_current + (next ? 1 : -1);
    if (!hasFocus() || target < 0 || target >= count)
        return QWidget::focusNextPrevChild(next);
    setCurrentBoundary(target);
    return true;
}

void LayerBars::focusInEvent(QFocusEvent *event)
{
    if (event->reason() == Qt::TabFocusReason && m_current < 0)
        setCurrentBoundary(0);
    else if (event->reason() == Qt::BacktabFocusReason)
        setCurrentBoundary(static_cast<int>(m_boundaries.size()) - 1);
    QWidget::focusInEvent(event);
    update();
}

void LayerBars::focusOutEvent(QFocusEvent *event)
{
    QWidget::focusOutEvent(event);
    update();
}

} // namespace planloom::ui
