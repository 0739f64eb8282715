// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <span>

namespace planloom::ui {

/// Layers on the horizontal axis: layer k takes [x(k), x(k + 1)), boundary "before layer k" stands at x(k). Shows a
/// window of the model's layers, all of them at first. Pure geometry; no widget, no painting.
class LayerAxis {
public:
    static constexpr double kLeastLayers = 4; ///< zoomed in as far as it goes
    static constexpr double kGrip = 5;        ///< pixels to either side of a boundary that still hit it

    /// Keeps the window if the number of layers is the same.
    void setLayers(std::size_t layers);
    void setPixels(double left, double width);
    [[nodiscard]] std::size_t layers() const { return m_layers; }
    [[nodiscard]] double x(double layer) const;
    [[nodiscard]] double layerPixels() const { return m_layers == 0 ? 0 : m_width / (m_end - m_begin); }
    /// The layer under @p pixel, within the model.
    [[nodiscard]] std::size_t layerAt(double pixel) const;
    /// The nearest place for a boundary, 0 .. layers().
    [[nodiscard]] std::size_t edgeAt(double pixel) const;
    /// Index into @p boundaries (ascending layers) of the nearest one within kGrip of @p pixel; -1: none.
    [[nodiscard]] int boundaryAt(double pixel, std::span<const std::size_t> boundaries) const;

    void zoom(double factor, double aroundPixel); ///< above 1: closer
    void pan(double pixels);                      ///< positive: towards later layers
    void fit();
    /// Pans so that layer edge @p layer can be seen.
    void reveal(std::size_t layer);
    [[nodiscard]] bool fitted() const { return m_begin <= 0 && m_end >= static_cast<double>(m_layers); }
    /// Layers that can be seen, in whole or in part: [first, last).
    [[nodiscard]] std::size_t firstVisible() const;
    [[nodiscard]] std::size_t lastVisible() const;

private:
    void place(double begin, double span);

    std::size_t m_layers = 0;
    double m_left = 0;
    double m_width = 1;
    double m_begin = 0; ///< layer at the left edge
    double m_end = 1;   ///< layer at the right edge
};

} // namespace planloom::ui
