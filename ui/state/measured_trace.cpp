// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/measured_trace.h"

#include "ui/state/run_session.h"

#include <utility>

namespace planloom::ui {

void MeasuredTrace::showFile(const QString &path, TracePtr trace, IndexPtr index, PlanOrigin origin, LaidPtr laid)
{
    m_path = path;
    m_file = std::move(trace);
    m_index = std::move(index);
    m_origin = std::move(origin);
    m_laid = std::move(laid);
}

void MeasuredTrace::showRun() { showFile({}, {}, {}, {}); }

const trace::Trace &MeasuredTrace::trace() const { return m_file ? *m_file : m_run.trace(); }

MeasuredTrace::TracePtr MeasuredTrace::shared() const { return m_file ? m_file : m_run.sharedTrace(); }

const PlanOrigin &MeasuredTrace::origin() const { return m_file ? m_origin : m_run.traceOrigin(); }

void MeasuredTrace::setPrediction(const PlanOrigin &origin)
{
    m_run.setPrediction(origin);
    if (!m_origin.sameAs(origin.fingerprint) || m_origin.simulation || m_origin.measuredFrom)
        return;
    const QString contents = std::exchange(m_origin, origin).contents;
    m_origin.contents = contents;
}

bool MeasuredTrace::setFilePrediction(const PlanOrigin &origin)
{
    if (!m_file || !m_origin.sameAs(origin.fingerprint) || m_origin.measuredFrom != origin.measuredFrom)
        return false;
    m_origin.simulation = origin.simulation;
    m_origin.index = origin.index;
    m_origin.laterSeconds = origin.laterSeconds;
    return true;
}

} // namespace planloom::ui
