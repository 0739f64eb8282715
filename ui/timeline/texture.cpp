// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/texture.h"

#include "ui/theme/theme.h"

#include <QImage>

#include <string_view>
#include <utility>

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

Pattern patternOf(std::string_view texture)
{
    constexpr std::pair<std::string_view, Pattern> kPatterns[] = {{"diagonal", Pattern::Diagonal},
                                                                  {"dots", Pattern::Dots},
                                                                  {"points", Pattern::Points},
                                                                  {"lines", Pattern::Lines}};
    for (const auto &[name, pattern] : kPatterns) {
        if (name == texture)
            return pattern;
    }
    return Pattern::Plain;
}

KindStyle styleOf(const QColor &hue, Pattern pattern, bool outlined)
{
    KindStyle style;
    style.fill = hue;
    if (outlined) {
        // A pale body of the hue inside a strong edge.
        style.outline = theme().dark ? hue.lighter(130) : hue.darker(150);
        const QColor &base = theme().base;
        const auto mix = [](int a, int b) { return (a * 2 + b * 3) / 5; };
        style.fill = QColor(mix(hue.red(), base.red()), mix(hue.green(), base.green()), mix(hue.blue(), base.blue()));
    }
    style.text = textOn(style.fill);
    style.texture = pattern == Pattern::Plain ? QBrush(style.fill) : tile(pattern, style.fill, style.fill.darker(122));
    return style;
}

} // namespace

KindStyles::KindStyles() : m_bubble(tile(Pattern::Cross, theme().bubble, theme().bubbleHatch)) {}

const KindStyle &KindStyles::of(const trace::KindInfo &kind) const
{
    const bool outlined = kind.work == trace::Work::Communication;
    const auto [style, isNew] = m_styles.try_emplace({kind.hue, kind.texture, outlined});
    if (isNew)
        style->second = styleOf(theme().hue(kind.hue), patternOf(kind.texture), outlined);
    return style->second;
}

} // namespace planloom::ui
