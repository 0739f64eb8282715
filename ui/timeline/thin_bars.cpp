// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/thin_bars.h"

#include <QImage>

#include <algorithm>

namespace planloom::ui {

void ThinBars::begin(int width)
{
    m_body.assign(static_cast<std::size_t>(std::max(width, 0)), 0);
    m_foot.assign(m_body.size(), 0);
    m_any = false;
}

void ThinBars::add(int x, int right, QRgb color, bool serrated, int left)
{
    const bool notched = serrated && (((left + x) >> 1) & 1) != 0;
    const int end = std::min(right, static_cast<int>(m_body.size()));
    for (int column = std::max(x, 0); column < end; ++column) {
        m_body[static_cast<std::size_t>(column)] = color;
        if (!notched)
            m_foot[static_cast<std::size_t>(column)] = color;
        m_any = true;
    }
}

void ThinBars::paint(QPainter &painter, const QRect &row, int notch) const
{
    if (!m_any)
        return;
    const auto draw = [&](const std::vector<QRgb> &line, const QRect &place) {
        const QImage pixels(reinterpret_cast<const uchar *>(line.data()), static_cast<int>(line.size()), 1,
                            static_cast<qsizetype>(line.size() * sizeof(QRgb)), QImage::Format_ARGB32_Premultiplied);
        painter.drawImage(place, pixels);
    };
    draw(m_body, row.adjusted(0, 0, 0, -notch));
    draw(m_foot, QRect(row.left(), row.bottom() + 1 - notch, row.width(), notch));
}

} // namespace planloom::ui
