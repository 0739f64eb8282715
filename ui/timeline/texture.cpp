// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/texture.h"

#include "ui/theme/theme.h"

#include <QImage>
#include <QObject>

namespace planloom::ui {

namespace {

constexpr int kTile = 8; // pixels; a power of two, so that diagonals meet at the tile's edges

enum class Pattern { Plain, Diagonal, Dots, Points, Lines, Cross };

bool inked(Pattern pattern, int x, int y)
{
    switch (pattern) {
    case Pattern::Plain: return false;
    case Pattern::Diagonal: return (x + y) % kTile < 2;
    case Pattern::Dots: return x % 4 < 2 && y % 4 < 2;
    case Pattern::Points: return x % 4 == 0 && y % 4 == 0;
    case Pattern::Lines: return y % 4 == 0;
    case Pattern::Cross: return (x + y) % kTile == 0 || (x - y + kTile) % kTile == 0;
    }
    return false;
}

/// An opaque tile: one copy per box, where a pattern brush over a fill would be two passes with blending.
QBrush tile(Pattern pattern, const QColor &paper, const QColor &ink)
{
    QImage image(kTile, kTile, QImage::Format_RGB32);
    for (int y = 0; y < kTile; ++y) {
        for (int x = 0; x < kTile; ++x)
            image.setPixelColor(x, y, inked(pattern, x, y) ? ink : paper);
    }
    return QBrush(image);
}

Pattern patternOf(trace::Kind kind)
{
    switch (kind) {
    case trace::Kind::Backward: return Pattern::Diagonal;
    case trace::Kind::Recompute: return Pattern::Dots;
    case trace::Kind::WeightGradient: return Pattern::Points;
    case trace::Kind::Optimizer: return Pattern::Lines;
    default: return Pattern::Plain;
    }
}

bool isCommunication(trace::Kind kind)
{
    switch (kind) {
    case trace::Kind::Send:
    case trace::Kind::Receive:
    case trace::Kind::AllReduce:
    case trace::Kind::AllGather:
    case trace::Kind::ReduceScatter:
    case trace::Kind::AllToAll: return true;
    default: return false;
    }
}

} // namespace

KindStyles::KindStyles() : m_bubble(tile(Pattern::Cross, theme().bubble, theme().bubbleHatch))
{
    for (int k = 0; k < kTraceKinds; ++k) {
        const auto kind = static_cast<trace::Kind>(k);
        KindStyle &style = m_kinds[static_cast<std::size_t>(k)];
        style.fill = theme().kind(kind);
        style.text = textOn(style.fill);
        if (isCommunication(kind)) {
            style.outline = theme().dark ? style.fill.lighter(130) : style.fill.darker(150);
            // Communication is outlined: a pale body of its hue inside a strong edge.
            const QColor &base = theme().base;
            const auto mix = [&](int a, int b) { return (a * 2 + b * 3) / 5; };
            style.fill = QColor(mix(style.fill.red(), base.red()), mix(style.fill.green(), base.green()), mix(style.fill.blue(), base.blue()));
            style.text = textOn(style.fill);
        }
        const Pattern pattern = patternOf(kind);
        style.texture = pattern == Pattern::Plain ? QBrush(style.fill) : tile(pattern, style.fill, style.fill.darker(122));
    }
}

QString kindName(trace::Kind kind)
{
    switch (kind) {
    case trace::Kind::Forward: return QObject::tr("forward");
    case trace::Kind::Backward: return QObject::tr("backward");
    case trace::Kind::Recompute: return QObject::tr("recompute");
    case trace::Kind::Send: return QObject::tr("send");
    case trace::Kind::Receive: return QObject::tr("receive");
    case trace::Kind::AllReduce: return QObject::tr("all-reduce");
    case trace::Kind::Optimizer: return QObject::tr("optimizer");
    case trace::Kind::Load: return QObject::tr("load");
    case trace::Kind::Other: return QObject::tr("other");
    case trace::Kind::AllGather: return QObject::tr("all-gather");
    case trace::Kind::ReduceScatter: return QObject::tr("reduce-scatter");
    case trace::Kind::AllToAll: return QObject::tr("all-to-all");
    case trace::Kind::WeightGradient: return QObject::tr("weight gradient");
    }
    return {};
}

} // namespace planloom::ui
