// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QImage>
#include <QWidget>

#include "engine/run/admm_record.h"

namespace planloom::ui {

/// Residuals of the constraints of each step in time over the iterations, the darker the larger, on a logarithmic
/// scale. Knows no state.
class ResidualMap final : public QWidget {
    Q_OBJECT

public:
    explicit ResidualMap(QWidget *parent = nullptr);
    void set(run::Residuals residuals);
    [[nodiscard]] const run::Residuals &residuals() const { return m_residuals; }
    /// "iteration 12, a3: residual 0.25"; empty beside the map.
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QRectF mapRect() const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {140, 80}; }

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    void paintImage();

    run::Residuals m_residuals;
    QImage m_image; ///< a pixel a residual; the constraints from top to bottom
    double m_least = 0;
    double m_most = 0;
};

} // namespace planloom::ui
