// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBoxLayout>
#include <QElapsedTimer>
#include <QLabel>
#include <QPushButton>

#include "ui/run/age_chart.h"
#include "ui/run/residual_map.h"
#include "ui/widgets/chart.h"

#include <vector>

class QLineSeries;
class QScatterSeries;

namespace planloom::ui {

/// What a run that trains by ADMM has recorded in its folder: residuals of each step in time over the iterations, the
/// objective and the augmented Lagrangian, duals beside the gradients in their place, of runs with a parameter server
/// the ages of workers, and held-out accuracy over seconds of training beside other runs. Knows no state; reads files
/// when it is told to.
class AdmmPanel final : public QWidget {
    Q_OBJECT

public:
    explicit AdmmPanel(QWidget *parent = nullptr);
    /// The run in @p folder; read again if it is another one, if @p ended, or if the last reading is a while ago.
    void showRun(const QString &folder, bool ended);
    /// Accuracy of another run, beside this one's. An error is shown in the panel.
    void compareWith(const QString &folder);
    void setDirection(QBoxLayout::Direction direction) { m_parts->setDirection(direction); }
    [[nodiscard]] ResidualMap *map() { return m_map; }
    /// Hidden where workers wait for each other.
    [[nodiscard]] AgeChart *ages() { return m_ages; }
    [[nodiscard]] QScatterSeries *duals() { return m_duals; }
    [[nodiscard]] QLineSeries *objective() { return m_objective; }
    [[nodiscard]] QLineSeries *lagrangian() { return m_lagrangian; }
    [[nodiscard]] QPushButton *compareButton() { return m_compare; }
    [[nodiscard]] QLabel *noteLabel() { return m_note; }
    /// In the place of the chart of accuracies while there are none.
    [[nodiscard]] QLabel *accuracyHint() { return m_accuracyHint; }
    [[nodiscard]] const std::vector<QLineSeries *> &accuracies() const { return m_accuracies; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void readResiduals();
    void readDuals();
    void readAccuracies();
    void readObjective();
    void readAges();
    void applyColors();

    QString m_folder;
    QStringList m_others;
    bool m_ended = false;
    QElapsedTimer m_read;
    QBoxLayout *m_parts;
    ResidualMap *m_map;
    PlainChart *m_objectiveChart;
    PlainChart *m_dualChart;
    PlainChart *m_accuracyChart;
    AgeChart *m_ages;
    QScatterSeries *m_duals = nullptr;
    QLineSeries *m_diagonal = nullptr;
    QLineSeries *m_objective = nullptr;
    QLineSeries *m_lagrangian = nullptr;
    std::vector<QLineSeries *> m_accuracies; ///< of this run, then of the others
    QPushButton *m_compare;
    QLabel *m_note;
    QLabel *m_accuracyHint;
};

} // namespace planloom::ui
