// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QObject>

#include "engine/analysis/row_grouping.h"
#include "ui/state/latest_job.h"
#include "ui/state/studio_state.h"
#include "ui/timeline/analysis_panel.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/timeline/timeline_model.h"

#include <memory>
#include <optional>

namespace planloom::ui {

/// Works out what stands in the AnalysisPanel, beside the UI thread and only while that is seen, and shows in the
/// timeline what is picked in it: the late rank's cause, with a mark at each late collective. It also shows the opened
/// trace with aligned clocks, or grouped otherwise than by device, and takes that back.
class TraceAnalysis final : public QObject {
    Q_OBJECT

public:
    TraceAnalysis(StudioState *state, TimelineModel &model, TimelineCanvas *canvas, AnalysisPanel *panel);
    /// The model shows another trace: that of the state, not aligned.
    void traceChanged();
    /// Another range of time is selected.
    void rangeChanged();
    [[nodiscard]] bool isAligned() const { return m_aligned != nullptr; }
    /// Chooses what rows are grouped by; for the tool bar.
    [[nodiscard]] QComboBox *rowsBox() { return m_rowsBox; }

Q_SIGNALS:
    void modelChanged(); ///< it shows the aligned trace, or that of the file again

private:
    using TracePtr = std::shared_ptr<const trace::Trace>;
    [[nodiscard]] TracePtr shownTrace() const;
    void refresh();
    void take(FindingsPtr findings);
    /// Shows the opened trace so.
    void reshape(bool align, analysis::GroupBy by);
    void showCollective(std::size_t collective);
    void showRecord(std::uint32_t record);

    StudioState *m_state;
    TimelineModel &m_model;
    TimelineCanvas *m_canvas;
    AnalysisPanel *m_panel;
    QComboBox *m_rowsBox;
    TracePtr m_aligned;                                      ///< null: as in the file
    TracePtr m_base;                                         ///< that m_grouping is of
    std::shared_ptr<const analysis::RowGrouping> m_grouping; ///< null: by device
    bool m_stale = true;
    bool m_showing = false; ///< the range that is selected is ours
    LatestJob m_job;
    LatestJob m_reshapeJob;
};

} // namespace planloom::ui
