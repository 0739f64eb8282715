// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QList>
#include <QSplitter>
#include <QTabWidget>
#include <QTimer>

#include "ui/memory/budget_sweep.h"
#include "ui/memory/copy_scatter.h"
#include "ui/memory/live_panel.h"
#include "ui/memory/memory_chart.h"
#include "ui/memory/memory_knobs.h"
#include "ui/memory/tensor_bands.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/view.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/veil.h"

#include <map>
#include <memory>
#include <vector>

class QAreaSeries;
class QLineSeries;
class QScatterSeries;

namespace planloom::ui {

/// The Memory dock: curves of one device by category, or of all devices; peaks as a table; what is in use at a moment
/// of the curves, as a table and as addresses over time. All is pale while it is of an earlier plan. Of plans with
/// memory policies also what these decide, as a table and as points by cost, where each tensor is that they move, and
/// in the curves of one device its budget and when it waits for copies.
class MemoryView final : public View {
    Q_OBJECT

public:
    explicit MemoryView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Memory"); }
    [[nodiscard]] QWidget *focusTarget() override { return m_devices; }
    [[nodiscard]] QComboBox *devicePicker() { return m_devices; }
    [[nodiscard]] MemoryChart *chart() { return m_chart; }
    [[nodiscard]] QLineSeries *budgetLine() { return m_budget; }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] MemoryKnobs *knobs() { return m_knobs; }
    [[nodiscard]] QTabWidget *tabs() { return m_tabs; }
    [[nodiscard]] DataTable *decisions() { return m_decisions; }
    [[nodiscard]] TensorBands *bands() { return m_bands; }
    [[nodiscard]] CopyScatter *scatter() { return m_scatter; }
    [[nodiscard]] BudgetSweep *sweep() { return m_sweep; }
    [[nodiscard]] LivePanel *live() { return m_live; }
    [[nodiscard]] QString summary() const { return m_summary->text(); }
    /// The values of the curves that are shown, at a moment of the iteration in seconds.
    [[nodiscard]] QString valuesAt(double seconds) const;
    /// True while what is shown is of an earlier plan and therefore pale.
    [[nodiscard]] bool pale() const;

protected:
    void changeEvent(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override; ///< chart beside the table, or above it where the view is narrow

private:
    void refresh();
    void refreshDevices();
    void refreshCurves();
    void refreshTable();
    void refreshDecisions();
    void refreshBands();
    void refreshScatter();
    void refreshTabs();
    void connectLive();
    void showMoment();
    void say(const QString &summary);
    void showAge();
    void pickMoment(double x, double y);
    [[nodiscard]] std::optional<std::size_t> shownRank() const; ///< of all devices, the one with the largest peak
    [[nodiscard]] double axisFactor() const;                    ///< of the chart's axis, per second
    void pickDecision(int row);
    void pickTensor(std::size_t tensor);
    void selectTask(const std::string &task, const MemoryMoves::Tensor &tensor);
    void showAllDevices();
    void showDevice(std::size_t rank);
    void showCapacity(double bytes, double scale, double end);
    void showBudget(std::size_t rank);
    QString showStalls(std::size_t rank, double timeScale);
    void askBudgets();
    void updateLegend(bool one);
    [[nodiscard]] DeviceId shownDevice() const; ///< invalid: all
    void showSelection();
    void paintSeries();
    void makeSeries(int lines);

    QComboBox *m_devices;
    QLabel *m_summary;
    QString m_said; ///< of what is shown, without a mark of its age
    MemoryChart *m_chart;
    QSplitter *m_split;
    DataTable *m_table;
    MemoryKnobs *m_knobs;
    QTabWidget *m_tabs;
    DataTable *m_decisions;
    TensorBands *m_bands;
    CopyScatter *m_scatter;
    BudgetSweep *m_sweep;
    LivePanel *m_live;
    std::vector<Veil *> m_veils;
    QTimer m_slow; ///< runs while a simulation may still be so fast that nothing needs to turn pale
    WhenSeen *m_seen;
    WhenSeen *m_selectionSeen;
    WhenSeen *m_tableSeen;
    WhenSeen *m_decisionsSeen;
    WhenSeen *m_bandsSeen;
    WhenSeen *m_scatterSeen;
    std::vector<QAreaSeries *> m_areas; ///< per simulate::memoryKinds()
    std::vector<QLineSeries *> m_edges; ///< m_edges[k + 1] is the upper edge of area k
    QAreaSeries *m_samples = nullptr;   ///< on top of the first area: what stays for each sample
    QLineSeries *m_samplesEdge = nullptr;
    QList<QLineSeries *> m_lines;      ///< one for each curve of m_curves
    std::vector<std::size_t> m_curves; ///< of each device, as numberCurves() has them
    QLineSeries *m_capacity = nullptr;
    QLineSeries *m_budget = nullptr; ///< of the activations of the device that is shown
    QScatterSeries *m_peak = nullptr;
    std::shared_ptr<const plan::Document> m_budgetsOf; ///< that they were asked for
    std::map<DeviceId, std::int64_t> m_budgets;        ///< bytes; none until they are known
    LatestJob m_budgetJob{tr("Memory budgets")};
};

} // namespace planloom::ui
