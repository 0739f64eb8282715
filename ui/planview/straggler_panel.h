// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QSlider>

#include "engine/simulate/straggler.h"
#include "ui/widgets/chart.h"

#include <optional>

class QLineSeries;

namespace planloom::ui {

/// What one slow worker of a plan that trains by ADMM costs: a slider slows it down, and both forms of waiting are
/// simulated at once. The plan stays as it is. Knows no state.
class StragglerPanel final : public QWidget {
    Q_OBJECT

public:
    explicit StragglerPanel(QWidget *parent = nullptr);
    /// @p plan trains by ADMM.
    void show(const plan::Plan &plan, const plan::Subject &subject);
    [[nodiscard]] QSlider *slider() { return m_slider; }
    [[nodiscard]] QComboBox *workers() { return m_workers; }
    [[nodiscard]] QLabel *textLabel() { return m_text; }
    [[nodiscard]] QLineSeries *synchronous() { return m_synchronous; }
    [[nodiscard]] QLineSeries *asynchronous() { return m_asynchronous; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void draw();
    void answer();
    void applyColors();
    [[nodiscard]] double factor() const;

    std::optional<simulate::Straggler> m_straggler;
    QString m_server; ///< "AP(1, 4)"
    QComboBox *m_workers;
    QSlider *m_slider;
    QLabel *m_text;
    PlainChart *m_chart;
    QLineSeries *m_synchronous = nullptr;
    QLineSeries *m_asynchronous = nullptr;
    QLineSeries *m_now = nullptr; ///< the slider's factor
};

} // namespace planloom::ui
