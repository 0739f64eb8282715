// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QPushButton>

#include "planners/common/exchange_figures.h"
#include "ui/planview/round_map.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/bar_list.h"
#include "ui/widgets/chart.h"
#include "ui/widgets/job_strip.h"
#include "ui/widgets/veil.h"

#include <memory>
#include <vector>

class QLineSeries;
class QScatterSeries;

namespace planloom::ui {

/// Of a plan that averages parameters: how much of an average is hidden, a step's time against the delay, the
/// methods side by side, and at last rounds against delays by the time of a step of progress. All of it is simulated
/// beside the UI thread; until then what was there before stays, pale and without effect. Knows no state.
class AveragingPanel final : public QWidget {
    Q_OBJECT

public:
    explicit AveragingPanel(QWidget *parent = nullptr);
    /// The plan of @p document averages parameters.
    void show(const std::shared_ptr<const plan::Document> &document);
    [[nodiscard]] bool computes() const { return m_job.running(); }
    /// False: what is shown is that of an earlier plan.
    [[nodiscard]] bool current() const { return m_current; }
    [[nodiscard]] QLabel *textLabel() { return m_text; }
    [[nodiscard]] QPushButton *takeButton() { return m_take; }
    [[nodiscard]] BarList *hidden() { return m_hidden; }
    [[nodiscard]] BarList *methods() { return m_methods; }
    [[nodiscard]] QLineSeries *curve() { return m_curve; }
    [[nodiscard]] QScatterSeries *now() { return m_now; }
    [[nodiscard]] QLineSeries *knee() { return m_knee; }
    [[nodiscard]] JobStrip *strip() { return m_strip; }
    [[nodiscard]] RoundMap *rounds() { return m_rounds; }

Q_SIGNALS:
    /// The user wants this delay, and rounds that are no shorter.
    void delayPicked(std::int64_t delay);
    /// The user wants rounds of so many steps, with that delay.
    void roundsPicked(std::int64_t localSteps, std::int64_t delay);

protected:
    void changeEvent(QEvent *event) override;

private:
    void ask();
    void askMap(const std::shared_ptr<const plan::Document> &document);
    void takeMap(Result<planners::AveragingMap> map, const plan::DelayedAveraging &averaging);
    void setCurrent(bool current);
    void clear();
    void take(const Result<planners::AveragingFigures> &figures, const plan::DelayedAveraging &averaging);
    void say(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging);
    void offer(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging);
    void draw(const planners::AveragingFigures &figures, const plan::DelayedAveraging &averaging);
    void applyColors();

    std::shared_ptr<const plan::Document> m_document;
    std::int64_t m_bestDelay = 0; ///< as delay=auto has it
    bool m_current = true;
    bool m_mapCurrent = true;
    QLabel *m_text;
    QPushButton *m_take;
    BarList *m_hidden;
    PlainChart *m_chart;
    BarList *m_methods;
    RoundMap *m_rounds;
    Veil *m_roundsVeil;
    JobStrip *m_strip = nullptr;
    QLineSeries *m_curve = nullptr;
    QLineSeries *m_knee = nullptr;   ///< the least delay that is as long as an average
    QScatterSeries *m_now = nullptr; ///< the plan's delay
    std::vector<Veil *> m_veils;
    LatestJob m_job;
};

} // namespace planloom::ui
