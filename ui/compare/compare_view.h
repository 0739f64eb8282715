// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QStackedWidget>
#include <QTabWidget>

#include "engine/analysis/kernel_changes.h"
#include "engine/compare/comparison.h"
#include "engine/trace/index.h"
#include "ui/compare/lane_pair.h"
#include "ui/compare/source_box.h"
#include "ui/compare/step_histogram.h"
#include "ui/compare/waterfall_chart.h"
#include "ui/state/latest_job.h"
#include "ui/timeline/legend.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/view.h"

#include <functional>
#include <memory>

namespace planloom::ui {

/// The Compare dock: two plans or runs, A and B, with their differences; or two traces of any program, with their
/// kernels and timelines. Sides are read and simulated beside the UI
/// thread, once each; the open plan again after each edit, while the view is in sight.
class CompareView final : public View {
    Q_OBJECT

public:
    explicit CompareView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Compare"); }
    [[nodiscard]] QList<QAction *> commands() const override { return m_commands; }
    [[nodiscard]] QWidget *focusTarget() override { return m_boxes[0]; }
    /// Side 0 is A, 1 is B.
    void setSource(int side, const CompareSource &source);
    void compareRuns(const QString &a, const QString &b); ///< folders
    void swapSides();
    void readAgain(); ///< files and folders, too
    [[nodiscard]] SourceBox *box(int side) { return m_boxes[side]; }
    /// The newest; null: there is none.
    [[nodiscard]] const std::shared_ptr<const compare::Comparison> &comparison() const { return m_comparison; }
    [[nodiscard]] QTabWidget *tabs() { return m_tabs; }
    [[nodiscard]] DataTable *figures() { return m_figures; }
    [[nodiscard]] DataTable *kernels() { return m_kernels; }
    [[nodiscard]] DataTable *differences() { return m_differences; }
    [[nodiscard]] WaterfallChart *waterfall() { return m_waterfall; }
    [[nodiscard]] LanePair *lanes() { return m_lanes; }
    [[nodiscard]] StepHistogram *histogram() { return m_histogram; }
    [[nodiscard]] QLabel *noteLabel() { return m_note; }
    [[nodiscard]] bool isEmpty() const { return m_stack->currentIndex() == 0; }

private:
    using SidePtr = std::shared_ptr<const compare::Side>;
    using IndexPtr = std::shared_ptr<const trace::Index>;
    /// A side that was read, and of what.
    struct Read {
        CompareSource source;
        std::shared_ptr<const plan::Document> document; ///< of the open plan and its alternatives
        SidePtr side;
    };
    /// What the work beside the UI thread returns.
    struct Answer {
        SidePtr sides[2];
        std::shared_ptr<const compare::Comparison> comparison;
        IndexPtr indexes[2];
        QString problem;
    };
    /// Of two traces.
    struct TraceAnswer {
        std::vector<analysis::KernelChange> changes;
        IndexPtr indexes[2];
        QString problem;
    };
    QWidget *makeEmptyPage();
    QWidget *makeTabs();
    void showTabs(bool ofTraces);
    void refreshTraces();
    static TraceAnswer traceAnswer(const QString &a, const QString &b, Progress &progress);
    void takeTraces(const TraceAnswer &answer);
    void refreshSources();
    void refresh();
    [[nodiscard]] std::function<Result<compare::Side>()> readerOf(const CompareSource &source) const;
    static Answer answer(const std::function<Result<compare::Side>()> readers[2], const SidePtr known[2]);
    void take(Answer answer, const std::shared_ptr<const plan::Document> &document);
    void showComparison();
    void showFigures();
    void showNote(const QString &problem);
    void refreshEmptyText();

    SourceBox *m_boxes[2];
    QPushButton *m_swap;
    ElidedLabel *m_note;
    QStackedWidget *m_stack;
    QLabel *m_emptyText = nullptr;
    QTabWidget *m_tabs = nullptr;
    DataTable *m_figures = nullptr;
    DataTable *m_differences = nullptr;
    DataTable *m_kernels = nullptr;
    WaterfallChart *m_waterfall = nullptr;
    LanePair *m_lanes = nullptr;
    Legend *m_legend = nullptr;
    StepHistogram *m_histogram = nullptr;
    QList<QAction *> m_commands;
    Read m_read[2];
    std::shared_ptr<const compare::Comparison> m_comparison;
    IndexPtr m_indexes[2];
    WhenSeen *m_seen;
    LatestJob m_job; ///< last: its thread ends first
};

} // namespace planloom::ui
