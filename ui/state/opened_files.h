// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/import/trace/foreign_trace.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/plan.h"
#include "engine/trace/index.h"
#include "engine/trace/trace.h"
#include "ui/state/plan_origin.h"

#include <QString>
#include <QStringList>

#include <memory>
#include <optional>
#include <string>

namespace planloom::ui {

/// A plan file with the hash of its model and cluster.
struct OpenedPlan {
    plan::Document document;
    std::string subjectHash; ///< plan::subjectHash()
};

/// A plan file. Not for the UI thread: hashes graph and cluster.
Result<OpenedPlan> openPlanFile(const QString &file);

/// A trace of ours or another program's; several files are the ranks of one training of another program. Not for the UI
/// thread.
Result<import::ForeignTrace> readTraceFiles(const QStringList &paths, Progress &progress);

/// The plan that a trace is of.
struct TraceSource {
    PlanOrigin origin;
    std::shared_ptr<const plan::Document> document; ///< null: not found
    std::optional<memory::RunTimes> times; ///< that the steps of a trace of a run's measured course follow from
};

/// The plan that made @p trace, which was read from @p path: by the trace's own fingerprint, and by the plans that
/// stand beside it. A run's trace without a fingerprint is of its folder's plan.json; any other file is the trace's
/// plan only if the fingerprints agree. A trace of a run's measured course has also what the run measured, as far as it
/// can be read. Not for the UI thread: reads the heads of the folder's JSON files, and up to 16
/// plans.
TraceSource sourceOf(const trace::Trace &trace, const trace::Index &index, const QString &path);

} // namespace planloom::ui
