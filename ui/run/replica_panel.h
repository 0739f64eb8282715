// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBoxLayout>
#include <QLabel>
#include <QWidget>

#include "engine/run/metrics.h"
#include "ui/run/folder_reader.h"
#include "ui/run/series_lines.h"
#include "ui/widgets/chart.h"

#include <vector>

class QLineSeries;
class QScatterSeries;

namespace planloom::ui {

/// A run whose replicas are averaged now and then: the loss of each on its own samples, thin, their mean, and the loss
/// of the mean model on held-out samples; how far replicas were apart at each average. Knows no state; reads files
/// beside the UI thread when it is told to.
class ReplicaPanel final : public QWidget {
    Q_OBJECT

public:
    explicit ReplicaPanel(QWidget *parent = nullptr);
    /// The steps as they came: their mean losses and distances.
    void showSteps(const std::vector<run::StepMetrics> &steps);
    /// What the run in @p folder has recorded; read again now and then, and once when it @p ended.
    void showRun(const QString &folder, bool ended);
    void setDirection(QBoxLayout::Direction direction) { m_parts->setDirection(direction); }
    [[nodiscard]] bool reads() const { return m_reader.reads(); }
    [[nodiscard]] PlainChart *lossChart() { return m_lossChart; }
    [[nodiscard]] PlainChart *distanceChart() { return m_distanceChart; }
    [[nodiscard]] const std::vector<QLineSeries *> &replicas() const { return m_replicas; }
    [[nodiscard]] QLineSeries *mean() { return m_mean; }
    [[nodiscard]] QLineSeries *distance() { return m_distance; }
    [[nodiscard]] QScatterSeries *meanModel() { return m_meanModel; }
    [[nodiscard]] QLabel *noteLabel() { return m_note; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void take(const ReplicaLines &lines);
    void fitLosses();
    void applyColors();

    QBoxLayout *m_parts;
    PlainChart *m_lossChart;
    PlainChart *m_distanceChart;
    std::vector<QLineSeries *> m_replicas; ///< by number
    QLineSeries *m_mean = nullptr;         ///< of the replicas' losses
    QLineSeries *m_distance = nullptr;
    QScatterSeries *m_meanModel = nullptr;
    QLabel *m_note;
    double m_lastStep = 1;
    FolderReader m_reader;
};

} // namespace planloom::ui
