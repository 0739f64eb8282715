// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/layer_axis.h"

#include <algorithm>
#include <cmath>

namespace planloom::ui {

void LayerAxis::setLayers(std::size_t layers)
{
    if (layers == m_layers)
        return;
    m_layers = layers;
    fit();
}

void LayerAxis::setPixels(double left, double width)
{
    m_left = left;
    m_width = std::max(width, 1.0);
}

double LayerAxis::x(double layer) const { return m_left + (layer - m_begin) / (m_end - m_begin) * m_width; }

std::size_t LayerAxis::layerAt(double pixel) const
{
    if (m_layers == 0)
        return 0;
    const double layer = std::floor(m_begin + (pixel - m_left) / m_width * (m_end - m_begin));
    return static_cast<std::size_t>(std::clamp(layer, 0.0, static_cast<double>(m_layers - 1)));
}

std::size_t LayerAxis::edgeAt(double pixel) const
{
    const double edge = std::round(m_begin + (pixel - m_left) / m_width * (m_end - m_begin));
    return static_cast<std::size_t>(std::clamp(edge, 0.0, static_cast<double>(m_layers)));
}

int LayerAxis::boundaryAt(double pixel, std::span<const std::size_t> boundaries) const
{
    int nearest = -1;
    double distance = kGrip;
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
        const double away = std::abs(x(static_cast<double>(boundaries[i])) - pixel);
        if (away > distance || (nearest >= 0 && away == distance))
            continue;
        nearest = static_cast<int>(i);
        distance = away;
    }
    return nearest;
}

void LayerAxis::zoom(double factor, double aroundPixel)
{
    if (m_layers == 0)
        return;
    const double share = std::clamp((aroundPixel - m_left) / m_width, 0.0, 1.0);
    const double fixed = m_begin + share * (m_end - m_begin);
    const double span = (m_end - m_begin) / factor;
    place(fixed - share * span, span);
}

void LayerAxis::pan(double pixels)
{
    const double span = m_end - m_begin;
    place(m_begin + pixels / m_width * span, span);
}

void LayerAxis::fit()
{
    m_begin = 0;
    m_end = std::max(static_cast<double>(m_layers), 1.0);
}

void LayerAxis::reveal(std::size_t layer)
{
    const auto at = static_cast<double>(layer);
    if (at >= m_begin && at <= m_end)
        return;
    place(at - (m_end - m_begin) / 2, m_end - m_begin);
}

std::size_t LayerAxis::firstVisible() const { return static_cast<std::size_t>(std::max(std::floor(m_begin), 0.0)); }

std::size_t LayerAxis::lastVisible() const { return std::min(m_layers, static_cast<std::size_t>(std::ceil(m_end))); }

void LayerAxis::place(double begin, double span)
{
    const auto all = std::max(static_cast<double>(m_layers), 1.0);
    span = std::clamp(span, std::min(kLeastLayers, all), all);
    m_begin = std::clamp(begin, 0.0, all - span);
    m_end = m_begin + span;
}

} // namespace planloom::ui
