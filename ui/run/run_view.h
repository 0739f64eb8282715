// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBoxLayout>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTabWidget>
#include <QTimer>

#include "ui/run/admm_panel.h"
#include "ui/run/replica_panel.h"
#include "ui/run/rows_panel.h"
#include "ui/widgets/view.h"
#include "ui/widgets/chart.h"
#include "ui/widgets/data_table.h"

#include <array>

class QLineSeries;

namespace planloom::ui {

/// The Run dock.
class RunView final : public View {
    Q_OBJECT

public:
    explicit RunView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Run"); }
    [[nodiscard]] QWidget *focusTarget() override { return m_train; }
    [[nodiscard]] QPushButton *stopButton() { return m_stop; }
    [[nodiscard]] QPushButton *lookCloserButton() { return m_lookCloser; }
    [[nodiscard]] QLabel *statusLabel() { return m_status; }
    [[nodiscard]] DataTable *table() { return m_table; }
    /// Where the run changed its course, in the charts of loss and of throughput.
    [[nodiscard]] const std::array<QLineSeries *, 2> &changes() const { return m_changes; }
    [[nodiscard]] ReplicaPanel *replicaPanel() { return m_replicas; }
    [[nodiscard]] RowsPanel *rowsPanel() { return m_rows; }
    [[nodiscard]] AdmmPanel *admmPanel() { return m_admm; }
    [[nodiscard]] QTabWidget *tabs() { return m_tabs; }

Q_SIGNALS:
    void trainAsked();

protected:
    void changeEvent(QEvent *event) override;
    void resizeEvent(
        QResizeEvent *event) override; ///< charts side by side, or one above the other where the view is narrow

private:
    void refresh();
    void refreshStatus();
    void refreshCharts();
    void refreshReplicas();
    void refreshFolder();
    void refreshTable();
    void refreshLog();
    void applyIcons();

    QTimer m_throttle;
    QLabel *m_status;
    QProgressBar *m_progress;
    QPushButton *m_train;
    QPushButton *m_stop;
    QPushButton *m_lookCloser; ///< of runs that record kernels of GPUs
    PlainChart *m_lossChart;
    PlainChart *m_speedChart;
    AdmmPanel *m_admm;        ///< of a run that trains by ADMM
    ReplicaPanel *m_replicas; ///< of a run whose replicas are averaged
    RowsPanel *m_rows;        ///< of a run that exchanges tables by rows
    QBoxLayout *m_charts = nullptr;
    QLineSeries *m_loss;
    QLineSeries *m_speed;
    std::array<QLineSeries *, 2> m_changes; ///< in the charts of loss and of throughput: from here on the run goes by
                                            ///< what it has measured
    QTabWidget *m_tabs;
    DataTable *m_table;
    QPlainTextEdit *m_log;
    qsizetype m_logLines = 0;
};

} // namespace planloom::ui
