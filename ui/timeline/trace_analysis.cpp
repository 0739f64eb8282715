// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/trace_analysis.h"

#include "engine/trace/index.h"
#include "ui/state/whole_trace.h"
#include "ui/widgets/text.h"

#include <algorithm>
#include <utility>

namespace planloom::ui {

TraceAnalysis::TraceAnalysis(StudioState *state, TimelineModel &model, TimelineCanvas *canvas, AnalysisPanel *panel)
    : QObject(panel),
      m_state(state),
      m_model(model),
      m_canvas(canvas),
      m_panel(panel),
      m_rowsBox(new QComboBox(canvas->parentWidget())),
      m_job(tr("Looking for late ranks")),
      m_reshapeJob(tr("Ordering rows"))
{
    m_rowsBox->addItems({tr("Rows by device"), tr("Rows by stream"), tr("Rows by kind")}); // analysis::GroupBy
    m_rowsBox->setToolTip(tr("What the rows of an opened trace are grouped by"));
    m_rowsBox->setAccessibleName(tr("What rows are grouped by"));
    m_rowsBox->setObjectName(QStringLiteral("rowsBy"));
    m_rowsBox->setEnabled(false);
    connect(m_rowsBox, &QComboBox::activated, this,
            [this](int by) { reshape(isAligned(), static_cast<analysis::GroupBy>(by)); });
    connect(panel, &AnalysisPanel::shown, this, [this] {
        if (m_stale)
            refresh();
    });
    connect(panel, &AnalysisPanel::alignAsked, this, [this](bool align) {
        m_panel->setBusy();
        reshape(align, static_cast<analysis::GroupBy>(m_rowsBox->currentIndex()));
    });
    connect(panel, &AnalysisPanel::collectivePicked, this, &TraceAnalysis::showCollective);
    connect(panel, &AnalysisPanel::kernelPicked, this, [this](const std::string &name) {
        if (const auto slice = m_model.find(name, {}))
            m_canvas->showSlice(*slice);
    });
}

void TraceAnalysis::traceChanged()
{
    m_whole.reset();
    m_aligned.reset();
    m_grouping.reset();
    m_base.reset();
    m_rowsBox->setCurrentIndex(0);
    m_rowsBox->setEnabled(m_model.hasMeasured() && m_state->measuredFile());
    m_stale = true;
    m_job.abandon();
    m_reshapeJob.abandon();
    m_canvas->setLateMarks({});
    m_panel->setFindings(nullptr, false);
    if (m_panel->isVisible())
        refresh();
}

void TraceAnalysis::rangeChanged()
{
    if (m_showing)
        return;
    m_stale = true;
    if (m_panel->isVisible())
        refresh();
}

TraceAnalysis::TraceMaker TraceAnalysis::wholeFile() const
{
    const TracePtr known = m_whole ? m_whole : m_state->measuredFile();
    if (!known)
        return {};
    return [known, index = m_state->measuredIndex()]() -> TracePtr {
        if (!known->records.empty() || !index)
            return known;
        return std::make_shared<const trace::Trace>(wholeTrace(*known, *index));
    };
}

TraceAnalysis::TraceMaker TraceAnalysis::shownTrace() const
{
    const auto known = [](TracePtr trace) -> TraceMaker { return [trace = std::move(trace)] { return trace; }; };
    if (m_aligned)
        return known(m_aligned);
    if (m_model.hasMeasured()) {
        if (m_state->measuredFile())
            return wholeFile();
        if (m_state->run().active())
            return {};
        return known(m_state->sharedMeasured());
    }
    const auto &simulation = m_model.simulation();
    return simulation ? known(TracePtr(simulation, &simulation->trace)) : TraceMaker();
}

void TraceAnalysis::refresh()
{
    m_stale = false;
    const TraceMaker trace = shownTrace();
    if (!trace) {
        m_job.abandon();
        m_panel->setFindings(nullptr, false);
        return;
    }
    std::optional<trace::Window> window;
    const std::int64_t offset = m_model.hasMeasured() ? 0 : m_model.offset();
    if (const auto &range = m_state->selection().time)
        window = trace::Window{range->begin - offset, range->end - offset};
    m_panel->setBusy();
    m_job.ask([this, trace, window](Progress &) -> Job::Completion {
        return [this, made = std::make_shared<const TraceFindings>(TraceFindings::in(trace(), window))] { take(made); };
    });
}

void TraceAnalysis::take(FindingsPtr findings)
{
    constexpr std::size_t kMostMarks = 1000;
    const std::int64_t offset = m_model.hasMeasured() ? 0 : m_model.offset();
    std::vector<TimelineOverlay::Mark> marks;
    for (const std::size_t at : findings->latest) {
        const analysis::Collective &each = findings->collectives.all[at];
        if (marks.size() < kMostMarks && each.behind > 0)
            marks.push_back({findings->collectives.last(each).at + offset, {}});
    }
    m_canvas->setLateMarks(std::move(marks));
    if (m_model.hasMeasured() && !m_aligned && m_state->measuredFile())
        m_whole = findings->trace;
    m_panel->setFindings(std::move(findings), isAligned());
}

void TraceAnalysis::reshape(bool align, analysis::GroupBy by)
{
    const auto findings = m_panel->findings();
    const TraceMaker file = wholeFile();
    if (!file || (align && !m_aligned && !findings))
        return m_panel->alignButton()->setChecked(isAligned());
    m_reshapeJob.ask([this, align, by, file, findings, known = m_aligned](Progress &) -> Job::Completion {
        TracePtr base = align ? known : file();
        if (!base)
            base = std::make_shared<const trace::Trace>(analysis::aligned(*file(), findings->skew));
        const auto grouping = std::make_shared<const analysis::RowGrouping>(*base, by);
        const bool byDevice = by == analysis::GroupBy::Device;
        const TracePtr shown = byDevice ? base : std::make_shared<const trace::Trace>(grouping->apply());
        const auto index = std::make_shared<const trace::Index>(shown);
        return [this, align, byDevice, base, grouping, shown, index] {
            m_aligned = align ? base : nullptr;
            m_base = base;
            m_grouping = byDevice ? nullptr : grouping;
            const int step = m_model.anchorStep();
            m_model.resetMeasured(*shown, index, shown);
            m_model.setAnchorStep(step);
            Q_EMIT modelChanged();
            m_stale = true;
            if (m_panel->isVisible())
                refresh();
        };
    });
}

void TraceAnalysis::showRecord(std::uint32_t record)
{
    const bool measured = m_model.hasMeasured();
    const trace::Record &own = m_panel->findings()->trace->records[record];
    if (const auto found = m_model.traceIndex(measured).sliceOf(m_grouping ? m_grouping->of(own) : own))
        m_canvas->showSlice({measured, found->row, found->index});
}

/// The time in which only the last member was missing is selected, and what kept it.
void TraceAnalysis::showCollective(std::size_t collective)
{
    const TraceFindings &findings = *m_panel->findings();
    const analysis::Collective &each = findings.collectives.all[collective];
    const analysis::LateCause cause = analysis::causeOf(*findings.trace, findings.collectives, each);
    const analysis::Arrival &last = findings.collectives.last(each);
    const std::int64_t offset = m_model.hasMeasured() ? 0 : m_model.offset();
    const TimeRange late{last.at - std::max<std::int64_t>(each.behind, 1) + offset, last.at + offset};
    const std::int64_t around = std::max<std::int64_t>(late.length(), 1000);
    m_showing = true;
    m_canvas->viewport().focus(TimeRange{late.begin - 2 * around, late.end + 2 * around}, std::nullopt);
    showRecord(cause.record.value_or(last.record));
    Selection next = m_state->selection();
    next.time = late;
    m_state->select(next);
    m_showing = false;
    m_panel->say(findings.lateText(collective, cause));
}

} // namespace planloom::ui
