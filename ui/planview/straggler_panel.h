// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QSlider>

#include "engine/admm/settings.h"
#include "engine/plan/plan.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/chart.h"

#include <memory>

class QLineSeries;

namespace planloom::ui {

/// What one slow worker of a plan that trains by ADMM costs: a slider slows it down, and both forms of waiting are
/// simulated beside the UI thread, first as the slider stands, in words, then the curves over its range; until then
/// what was there before is shown pale. The plan stays as it is. Knows no state.
class StragglerPanel final : public QWidget {
    Q_OBJECT

public:
    explicit StragglerPanel(QWidget *parent = nullptr);
    /// The plan of @p document trains by ADMM.
    void show(const std::shared_ptr<const plan::Document> &document);
    [[nodiscard]] bool computes() const { return m_job.running(); }
    [[nodiscard]] QSlider *slider() { return m_slider; }
    [[nodiscard]] QComboBox *workers() { return m_workers; }
    [[nodiscard]] QLabel *textLabel() { return m_text; }
    [[nodiscard]] QLineSeries *synchronous() { return m_synchronous; }
    [[nodiscard]] QLineSeries *asynchronous() { return m_asynchronous; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {180, 110}; } // of hidden tabs, too

protected:
    void changeEvent(QEvent *event) override;

private:
    struct Answer;
    struct Curves;
    class Simulations;
    void ask();
    void askCurves(const std::shared_ptr<Simulations> &simulations, int worker);
    void take(const Answer &answer);
    void draw(const Curves &curves);
    void setPale(bool pale);
    void applyColors();
    [[nodiscard]] double factor() const;

    std::shared_ptr<Simulations> m_simulations; ///< of the document that is shown; null while workers are changed
    QString m_server;                           ///< "AP(1, 4)"
    QComboBox *m_workers;
    QSlider *m_slider;
    QLabel *m_text;
    PlainChart *m_chart;
    QLineSeries *m_synchronous = nullptr;
    QLineSeries *m_asynchronous = nullptr;
    QLineSeries *m_now = nullptr; ///< the slider's factor
    LatestJob m_job;
};

} // namespace planloom::ui
