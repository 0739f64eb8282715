// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCheckBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "engine/plan/plan.h"
#include "executor/agent/client.h"

namespace planloom::ui {

/// Asks for the training data, the number of steps, held-out samples and checkpoints. Starts only with data that can be
/// read, settings that run::check() takes, and a folder without a run. To resume a run (its request has `resume`), its
/// folder, its seed and its held-out share are shown and stay.
class TrainDialog final : public QDialog {
    Q_OBJECT

public:
    explicit TrainDialog(const agent::TrainRequest &last, QWidget *parent = nullptr);
    /// The plan that is trained: one that samples a graph asks for its folder and, where its roles are on several
    /// machines, whether messages between these are paced; one that trains by ADMM says how many samples it takes.
    /// Notes on cores that its devices share are shown.
    void setPlan(const plan::Document &document);
    /// In the place of these (cluster::sharedCoreNotes).
    void setSharedCores(const QStringList &notes);
    [[nodiscard]] agent::TrainRequest request() const; ///< without a plan
    [[nodiscard]] QString problem() const { return m_problem->text(); }

private:
    void makeFields();
    QSpinBox *makeCount(std::int64_t value, const QString &none, const QString &toolTip);
    void makeForm();
    void browse(bool forFolder);
    void check();

    agent::TrainRequest m_last;
    QFormLayout *m_form = nullptr;
    QLineEdit *m_data;
    QSpinBox *m_steps;
    QSpinBox *m_seed;
    QDoubleSpinBox *m_holdout; ///< share of the samples
    double m_shownHoldout = 0; ///< its first value
    QSpinBox *m_validations;   ///< steps between them
    QSpinBox *m_checkpoints;
    QSpinBox *m_restarts;
    QSpinBox *m_kernels; ///< seconds
    QCheckBox *m_paced;
    QLineEdit *m_folder;
    QLabel *m_note;
    QLabel *m_crowded; ///< on cores that devices share
    QLabel *m_problem; ///< why it cannot start
    QPushButton *m_start = nullptr;
    bool m_samplesGraph = false;
};

} // namespace planloom::ui
