// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QWidget>

#include "ui/placement/search_run.h"
#include "ui/widgets/chart.h"

#include <memory>

class QLabel;
class QLineSeries;
class QScatterSeries;

namespace planloom::ui {

/// How placements are searched, and the curve of a search: seconds of accepted placements, the best, the bound; a
/// slider goes from point to point. Knows no state.
class SearchPanel final : public QWidget {
    Q_OBJECT

public:
    explicit SearchPanel(QWidget *parent = nullptr);
    /// Null: none was made of the present plan.
    void setRun(std::shared_ptr<const SearchRun> run);
    void setRunning(bool running);
    void setPossible(bool possible);
    [[nodiscard]] QPushButton *searchButton() { return m_search; }
    [[nodiscard]] QPushButton *takeButton() { return m_take; }
    [[nodiscard]] QSlider *slider() { return m_slider; }
    [[nodiscard]] QComboBox *kind() { return m_kind; }
    [[nodiscard]] QSpinBox *proposals() { return m_proposals; }
    [[nodiscard]] QDoubleSpinBox *beta() { return m_beta; }
    /// As the fields have it.
    [[nodiscard]] planners::gnn::SearchOptions options() const;
    [[nodiscard]] QSpinBox *seed() { return m_seed; }
    [[nodiscard]] PlainChart *chart() { return m_chart; }

Q_SIGNALS:
    void searchAsked(); ///< or stopped, where one is running
    void pointShown(int point);
    void pointTaken(int point);

protected:
    void changeEvent(QEvent *event) override;

private:
    void showPoint(int point);
    void enableFields();
    void paintLines();

    QPushButton *m_search;
    QComboBox *m_kind; ///< an item for each planners::gnn::SearchKind, in their order
    QSpinBox *m_proposals;
    QDoubleSpinBox *m_beta; ///< 1/seconds
    QSpinBox *m_seed;
    QSlider *m_slider;
    QLabel *m_what;
    QPushButton *m_take;
    PlainChart *m_chart;
    QScatterSeries *m_accepted = nullptr;
    QLineSeries *m_best = nullptr;
    QLineSeries *m_bound = nullptr;
    QScatterSeries *m_here = nullptr;
    std::shared_ptr<const SearchRun> m_run;
};

} // namespace planloom::ui
