// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/placement/placement_figures.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// Bytes from each store to each sampler, an iteration: the darker the more, with the figure where there is room; a
/// frame where both are on one machine and nothing travels. Beneath the predicted figure the one that a run has sent,
/// if there is one; a line says of how many iterations each is the mean. Knows no state.
class TrafficMatrix final : public QWidget {
    Q_OBJECT

public:
    explicit TrafficMatrix(QWidget *parent = nullptr);
    void set(std::shared_ptr<const PlacementFigures> figures, SentFeatures sent);
    /// What is compared; empty where nothing was sent.
    [[nodiscard]] QString note() const;
    [[nodiscard]] QRectF cellOf(std::int32_t store, std::int32_t sampler) const;
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {120, 60}; }

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;

private:
    [[nodiscard]] QRectF noteArea() const;
    void placeNote();
    [[nodiscard]] std::size_t placeOf(std::int32_t store, std::int32_t sampler) const;
    [[nodiscard]] bool isLocal(std::int32_t store, std::int32_t sampler) const;

    std::shared_ptr<const PlacementFigures> m_figures;
    SentFeatures m_sent;
    QRectF m_note; ///< where it is drawn; empty: there is none, or no room
};

} // namespace planloom::ui
