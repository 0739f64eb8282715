// SPDX-License-Identifier: GPL-3.0-or-later
// What is written in a picture, where, and how well it can be read there.
#pragma once

#include "ui/theme/theme.h"

#include <QHash>
#include <QImage>
#include <QPaintDevice>
#include <QPaintEngine>
#include <QPainter>
#include <QRegion>

#include <algorithm>
#include <vector>

namespace planloom::ui::testing {

/// A piece of text as it was painted.
struct PaintedText {
    QString text;
    QRectF place; ///< in the picture
    QColor ink;
    QColor paper;        ///< the most common colour where it stands, before it was painted
    double contrast = 1; ///< of both
    QRect box;           ///< of the picture
    QImage drawn;        ///< what was there then
};

/// Paints into a picture and notes each text. Text in pictures that widgets keep (QPixmap) is not seen.
class RecordingEngine final : public QPaintEngine {
public:
    explicit RecordingEngine(QImage &picture) : QPaintEngine(AllFeatures), m_picture(picture) {}
    [[nodiscard]] const std::vector<PaintedText> &texts() const { return m_texts; }

    bool begin(QPaintDevice *) override { return m_painter.begin(&m_picture); }
    bool end() override { return m_painter.end(); }
    [[nodiscard]] Type type() const override { return User; }

    void updateState(const QPaintEngineState &now) override
    {
        const auto changed = now.state();
        if (changed & DirtyTransform)
            m_painter.setTransform(now.transform());
        if (changed & DirtyPen)
            m_painter.setPen(now.pen());
        if (changed & DirtyBrush)
            m_painter.setBrush(now.brush());
        if (changed & DirtyBrushOrigin)
            m_painter.setBrushOrigin(now.brushOrigin());
        if (changed & DirtyHints)
            m_painter.setRenderHints(now.renderHints());
        if (changed & DirtyCompositionMode)
            m_painter.setCompositionMode(now.compositionMode());
        if (changed & DirtyOpacity)
            m_painter.setOpacity(now.opacity());
        if (changed & DirtyClipRegion)
            m_painter.setClipRegion(now.clipRegion(), now.clipOperation());
        if (changed & DirtyClipPath)
            m_painter.setClipPath(now.clipPath(), now.clipOperation());
        if (changed & DirtyClipEnabled)
            m_painter.setClipping(now.isClipEnabled());
    }
    void drawPath(const QPainterPath &path) override
    {
        clip();
        m_painter.drawPath(path);
    }
    using QPaintEngine::drawPolygon;
    void drawPolygon(const QPointF *points, int count, PolygonDrawMode mode) override
    {
        clip();
        if (mode == PolylineMode)
            m_painter.drawPolyline(points, count);
        else
            m_painter.drawPolygon(points, count, mode == WindingMode ? Qt::WindingFill : Qt::OddEvenFill);
    }
    void drawRects(const QRectF *rects, int count) override
    {
        clip();
        m_painter.drawRects(rects, count);
    }
    void drawRects(const QRect *rects, int count) override
    {
        clip();
        m_painter.drawRects(rects, count);
    }
    void drawPixmap(const QRectF &place, const QPixmap &picture, const QRectF &part) override
    {
        clip();
        m_painter.drawPixmap(place, picture, part);
    }
    void drawImage(const QRectF &place, const QImage &picture, const QRectF &part, Qt::ImageConversionFlags) override
    {
        clip();
        m_painter.drawImage(place, picture, part);
    }
    void drawTextItem(const QPointF &at, const QTextItem &item) override
    {
        clip();
        const QRectF box(at.x(), at.y() - item.ascent(), item.width(), item.ascent() + item.descent());
        note(item.text(), m_painter.transform().mapRect(box));
        m_painter.setFont(item.font());
        m_painter.drawText(at, item.text());
        if (!m_texts.empty() && m_texts.back().drawn.isNull())
            m_texts.back().drawn = m_picture.copy(m_texts.back().box);
    }

private:
    /// To the widget that paints.
    void clip()
    {
        if (systemClip() == m_clip)
            return;
        m_clip = systemClip();
        m_picture.paintEngine()->setSystemClip(m_clip);
    }
    void note(const QString &text, const QRectF &place)
    {
        const QRect inside =
            place.toAlignedRect() & m_picture.rect() & (m_clip.isEmpty() ? m_picture.rect() : m_clip.boundingRect());
        if (text.trimmed().isEmpty() || inside.width() < 2 || inside.height() < 2)
            return;
        QHash<QRgb, int> colors;
        for (int y = inside.top(); y <= inside.bottom(); y += 2)
            for (int x = inside.left(); x <= inside.right(); x += 2)
                ++colors[m_picture.pixel(x, y)];
        QRgb most = 0;
        int count = 0;
        for (auto it = colors.cbegin(); it != colors.cend(); ++it)
            if (it.value() > count) {
                most = it.key();
                count = it.value();
            }
        const QColor paper(most);
        QColor ink = m_painter.pen().color();
        const double share = ink.alphaF() * m_painter.opacity();
        const auto mix = [&](int a, int b) { return static_cast<int>(a * share + b * (1 - share)); };
        ink = QColor(mix(ink.red(), paper.red()), mix(ink.green(), paper.green()), mix(ink.blue(), paper.blue()));
        m_texts.push_back({text, place, ink, paper, ui::contrast(ink, paper), inside, {}});
    }

    QImage &m_picture;
    QPainter m_painter;
    QRegion m_clip;
    std::vector<PaintedText> m_texts;
};

/// A device for QWidget::render() whose texts are noted.
class TextRecorder final : public QPaintDevice {
public:
    TextRecorder(QSize size, const QColor &paper) : m_picture(size, QImage::Format_RGB32), m_engine(m_picture)
    {
        m_picture.fill(paper);
    }
    [[nodiscard]] QPaintEngine *paintEngine() const override { return &m_engine; }
    [[nodiscard]] const std::vector<PaintedText> &texts() const { return m_engine.texts(); }
    /// Whether other widgets were painted over most of @p text.
    [[nodiscard]] bool isCovered(const PaintedText &text) const
    {
        const QImage now = m_picture.copy(text.box);
        int same = 0;
        for (int y = 0; y < now.height(); ++y)
            for (int x = 0; x < now.width(); ++x)
                same += now.pixel(x, y) == text.drawn.pixel(x, y) ? 1 : 0;
        return 2 * same < now.width() * now.height();
    }

protected:
    int metric(PaintDeviceMetric metric) const override
    {
        switch (metric) {
        case PdmWidth: return m_picture.width();
        case PdmHeight: return m_picture.height();
        case PdmWidthMM: return m_picture.widthMM();
        case PdmHeightMM: return m_picture.heightMM();
        case PdmNumColors: return m_picture.colorCount();
        case PdmDepth: return m_picture.depth();
        case PdmDpiX:
        case PdmPhysicalDpiX: return m_picture.logicalDpiX();
        case PdmDpiY:
        case PdmPhysicalDpiY: return m_picture.logicalDpiY();
        default: return QPaintDevice::metric(metric);
        }
    }

private:
    QImage m_picture;
    mutable RecordingEngine m_engine;
};

} // namespace planloom::ui::testing
