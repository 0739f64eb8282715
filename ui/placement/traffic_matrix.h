// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/placement/placement_figures.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// Bytes from each store to each sampler, an iteration: the darker the more, with the figure where there is room; a
/// frame where both are on one machine and nothing travels. Beneath the predicted figure the one that a run has sent,
/// if there is one. Knows no state.
class TrafficMatrix final : public QWidget {
    Q_OBJECT

public:
    explicit TrafficMatrix(QWidget *parent = nullptr);
    /// @p sent as PlacementFigures::features; empty: nothing was sent.
    void set(std::shared_ptr<const PlacementFigures> figures, std::vector<double> sent);
    [[nodiscard]] QRectF cellOf(std::int32_t store, std::int32_t sampler) const;
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {120, 60}; }

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;

private:
    [[nodiscard]] std::size_t placeOf(std::int32_t store, std::int32_t sampler) const;
    [[nodiscard]] bool isLocal(std::int32_t store, std::int32_t sampler) const;

    std::shared_ptr<const PlacementFigures> m_figures;
    std::vector<double> m_sent;
};

} // namespace planloom::ui
