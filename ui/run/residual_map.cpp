// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/residual_map.h"

#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kNames = 30;  // pixels at the left
constexpr double kTitle = 20;  // above
constexpr double kLegend = 34; // beneath: iterations and the scale
constexpr double kDecades = 6; // below the largest are drawn alike

double shareOf(double value, double least, double most)
{
    if (value <= least || most <= least)
        return 0;
    return std::log(value / least) / std::log(most / least);
}

QColor shade(double share) { return paled(theme().ofSeries(0), 1 - share); }

} // namespace

ResidualMap::ResidualMap(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setAccessibleName(tr("Residuals of constraints over iterations"));
}

void ResidualMap::set(run::Residuals residuals)
{
    m_residuals = std::move(residuals);
    m_most = 0;
    for (const double norm : m_residuals.norms)
        m_most = std::isfinite(norm) ? std::max(m_most, norm) : m_most;
    m_least = m_most;
    for (const double norm : m_residuals.norms)
        m_least = norm > 0 ? std::min(m_least, norm) : m_least;
    m_least = std::max(m_least, m_most * std::pow(10, -kDecades));
    setAccessibleDescription(tr("%1 constraints over %2 iterations, the largest residual %3")
                                 .arg(m_residuals.names.size())
                                 .arg(m_residuals.steps.size())
                                 .arg(m_most, 0, 'g', 3));
    paintImage();
}

void ResidualMap::paintImage()
{
    const std::size_t columns = m_residuals.steps.size();
    const std::size_t rows = m_residuals.names.size();
    m_image = columns == 0 ? QImage() : QImage(static_cast<int>(columns), static_cast<int>(rows), QImage::Format_RGB32);
    for (std::size_t column = 0; column < columns; ++column)
        for (std::size_t row = 0; row < rows; ++row)
            m_image.setPixelColor(static_cast<int>(column), static_cast<int>(row),
                                  shade(shareOf(m_residuals.norm(column, row), m_least, m_most)));
    update();
}

QRectF ResidualMap::mapRect() const
{
    return QRectF(kNames, kTitle, width() - kNames - 6, height() - kTitle - kLegend);
}

QString ResidualMap::describe(const QPointF &pixel) const
{
    const QRectF map = mapRect();
    if (m_image.isNull() || !map.contains(pixel))
        return {};
    const auto column = std::min(static_cast<std::size_t>((pixel.x() - map.left()) / map.width() * m_image.width()),
                                 m_residuals.steps.size() - 1);
    const auto row = std::min(static_cast<std::size_t>((pixel.y() - map.top()) / map.height() * m_image.height()),
                              m_residuals.names.size() - 1);
    return tr("iteration %1, %2: residual %3")
        .arg(m_residuals.steps[column])
        .arg(qt(m_residuals.names[row]))
        .arg(m_residuals.norm(column, row), 0, 'g', 3);
}

void ResidualMap::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    const Theme &t = theme();
    painter.fillRect(rect(), t.base);
    painter.setPen(t.text);
    painter.drawText(QRectF(0, 0, width(), kTitle), Qt::AlignCenter, tr("Residuals by step in time"));
    const QRectF map = mapRect();
    if (m_image.isNull() || map.height() < 1) {
        painter.drawText(map, Qt::AlignCenter | Qt::TextWordWrap, tr("None were recorded."));
        return;
    }
    painter.drawImage(map, m_image);
    painter.drawRect(map);
    const double each = map.height() / m_image.height();
    const int every = std::max(1, static_cast<int>(std::ceil(painter.fontMetrics().height() / each)));
    for (int row = 0; row < m_image.height(); row += every)
        painter.drawText(QRectF(0, map.top() + row * each, kNames - 3,
                                std::max<double>(each, painter.fontMetrics().height())),
                         Qt::AlignRight | Qt::AlignTop, qt(m_residuals.names[static_cast<std::size_t>(row)]));
    const QRectF foot(map.left(), map.bottom() + 1, map.width(), 15);
    painter.drawText(foot, Qt::AlignLeft, QString::number(m_residuals.steps.front()));
    painter.drawText(foot, Qt::AlignHCenter, tr("iteration"));
    painter.drawText(foot, Qt::AlignRight, QString::number(m_residuals.steps.back()));
    const QRectF scale(map.left() + map.width() * 0.25, map.bottom() + 18, map.width() * 0.5, 11);
    for (int x = 0; x < static_cast<int>(scale.width()); ++x)
        painter.fillRect(QRectF(scale.left() + x, scale.top(), 1, scale.height()), shade(x / scale.width()));
    const QRectF line(map.left(), scale.top() - 2, map.width(), 15);
    painter.drawText(QRectF(line.left(), line.top(), scale.left() - line.left() - 4, line.height()), Qt::AlignRight,
                     QString::number(m_least, 'g', 2));
    painter.drawText(QRectF(scale.right() + 4, line.top(), line.right() - scale.right(), line.height()), Qt::AlignLeft,
                     QString::number(m_most, 'g', 2));
}

bool ResidualMap::event(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), describe(help->pos()), this);
    return true;
}

void ResidualMap::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        paintImage();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
