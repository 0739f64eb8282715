// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "engine/simulate/sweeps.h"
#include "ui/state/latest_job.h"

#include <memory>
#include <optional>

namespace planloom::ui {

/// An iteration of ADMM as it is predicted: steps in time from bottom to top, the updates of hidden states and inputs
/// where and when they are made, sweeps as bands with the backward one hatched, and the exchanges between them. It is
/// computed beside the UI thread; until then the one before is shown pale. Knows no state.
class SweepChart final : public QWidget {
    Q_OBJECT

public:
    explicit SweepChart(QWidget *parent = nullptr);
    void show(std::shared_ptr<const plan::Document> document);
    [[nodiscard]] bool computes() const { return m_job.running(); }
    [[nodiscard]] const std::optional<simulate::Sweeps> &sweeps() const { return m_sweeps; }
    [[nodiscard]] QRectF chartRect() const;
    /// Of an update, in the widget's pixels.
    [[nodiscard]] QRectF rectOf(const simulate::Sweeps::Update &update) const;
    /// "h3, backward sweep: 0.17 ms from 2.31 ms"; empty where nothing is updated.
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {180, 110}; }

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;

private:
    void take(const Result<simulate::Sweeps> &sweeps);
    [[nodiscard]] double xOf(double seconds) const;
    void paintBands(QPainter &painter) const;
    void paintUpdates(QPainter &painter) const;
    void paintScale(QPainter &painter) const;

    std::optional<simulate::Sweeps> m_sweeps;
    QString m_problem; ///< why there are none
    LatestJob m_job;
};

} // namespace planloom::ui
