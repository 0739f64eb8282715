// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/stage_style.h"

#include "ui/theme/theme.h"

#include <QImage>

#include <array>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kTile = 8; // pixels
constexpr int kHatches = 7;

bool inked(int hatch, int x, int y)
{
    switch (hatch) {
    case 0: return false;
    case 1: return (x + y) % kTile < 2;
    case 2: return x % 4 < 2 && y % 4 < 2;
    case 3: return y % 4 == 0;
    case 4: return (x - y + kTile) % kTile < 2;
    case 5: return (x + y) % kTile == 0 || (x - y + kTile) % kTile == 0;
    default: return x % 4 == 0;
    }
}

QBrush makeBrush(const QColor &paper, int hatch)
{
    if (hatch == 0)
        return QBrush(paper);
    const QColor ink = paper.lightness() < 110 ? paper.lighter(140) : paper.darker(130);
    QImage image(kTile, kTile, QImage::Format_RGB32);
    for (int y = 0; y < kTile; ++y) {
        for (int x = 0; x < kTile; ++x)
            image.setPixelColor(x, y, inked(hatch, x, y) ? ink : paper);
    }
    return QBrush(image);
}

} // namespace

QBrush stageBrush(int stage)
{
    struct Made {
        QColor paper;
        QBrush brush;
    };
    static std::array<Made, kSeriesColors * kHatches> all; // they repeat; a map of a cluster asks for thousands
    Made &made = all[static_cast<std::size_t>(stage) % all.size()];
    if (const QColor &paper = theme().ofSeries(stage); made.paper != paper)
        made = {paper, makeBrush(paper, stage % kHatches)};
    return made.brush;
}

QColor paled(const QColor &color, double share)
{
    const QColor &base = theme().base;
    const auto mix = [share](int a, int b) { return static_cast<int>(std::lround(a * (1 - share) + b * share)); };
    return QColor(mix(color.red(), base.red()), mix(color.green(), base.green()), mix(color.blue(), base.blue()));
}

} // namespace planloom::ui
