// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/overlay/overlay.h"
#include "engine/trace/index.h"
#include "engine/trace/trace.h"
#include "ui/state/plan_origin.h"

#include <QString>

#include <memory>

namespace planloom::ui {

class RunSession;

/// The measured trace that views show: that of the run, or of an opened file in its place. UI thread.
class MeasuredTrace {
public:
    using TracePtr = std::shared_ptr<const trace::Trace>;
    using IndexPtr = std::shared_ptr<const trace::Index>;
    using LaidPtr = std::shared_ptr<const overlay::Overlay>;

    explicit MeasuredTrace(RunSession &run) : m_run(run) {}

    /// @p laid: what laid another program's trace over the plan; null: the file is a trace of itself.
    void showFile(const QString &path, TracePtr trace, IndexPtr index, PlanOrigin origin, LaidPtr laid = {});
    void showRun();

    /// No ranks: there is none. Grows while a run lasts.
    [[nodiscard]] const trace::Trace &trace() const;
    /// The same, for who reads it on another thread (RunSession::sharedTrace).
    [[nodiscard]] TracePtr shared() const;
    [[nodiscard]] const TracePtr &file() const { return m_file; }   ///< null for a run
    [[nodiscard]] const IndexPtr &index() const { return m_index; } ///< of a file; null for a run
    [[nodiscard]] const QString &path() const { return m_path; }    ///< of a file; empty for a run
    /// How a file of another program lies over the plan, its trace aside; null: it does not.
    [[nodiscard]] const LaidPtr &laid() const { return m_laid; }
    /// The plan that made it, and its own prediction.
    [[nodiscard]] const PlanOrigin &origin() const;

    /// The prediction of a plan has come: it is that of a run and of a file that the same plan made, but for a file of
    /// steps by measured times, whose prediction is another one.
    void setPrediction(const PlanOrigin &origin);
    /// The file's own plan was simulated. False: another file is shown by now, or none.
    bool setFilePrediction(const PlanOrigin &origin);

private:
    RunSession &m_run;
    TracePtr m_file; ///< null: the run's trace is shown
    IndexPtr m_index;
    QString m_path;
    PlanOrigin m_origin;
    LaidPtr m_laid;
};

} // namespace planloom::ui
