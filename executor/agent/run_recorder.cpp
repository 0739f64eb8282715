// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run_recorder.h"

#include "engine/base/files.h"
#include "engine/base/log.h"

#include <algorithm>
#include <utility>

namespace planloom::agent {
namespace {

constexpr std::size_t kUnwrittenRecords = 1 << 22; ///< records; 128 MB
constexpr std::size_t kRecentSteps = 64;           ///< few: the median is asked for at every look at the workers

} // namespace

// --- Any thread -----------------------------------------------------------------------------------------------------

void RunRecorder::add(const run::StepMetrics &step)
{
    const std::lock_guard lock(m_mutex);
    m_steps.push_back(step);
    m_lines.emplace_back(step);
}

void RunRecorder::add(const run::Validation &validation)
{
    const std::lock_guard lock(m_mutex);
    m_lines.emplace_back(validation);
}

void RunRecorder::add(std::span<const trace::Record> records, std::int64_t lost)
{
    const std::lock_guard lock(m_mutex);
    const auto taken = records.subspan(0, std::min(records.size(), kUnwrittenRecords - m_records.size()));
    m_records.insert(m_records.end(), taken.begin(), taken.end());
    m_dropped += static_cast<std::int64_t>(records.size() - taken.size());
    m_lost = lost;
}

void RunRecorder::askFor(std::int64_t steps)
{
    const std::lock_guard lock(m_mutex);
    m_askedFor = steps;
}

std::vector<run::StepMetrics> RunRecorder::steps() const
{
    const std::lock_guard lock(m_mutex);
    return m_steps;
}

std::int64_t RunRecorder::stepsDone() const
{
    const std::lock_guard lock(m_mutex);
    return m_steps.empty() ? m_firstStep : m_steps.back().step + 1;
}

double RunRecorder::longestSeconds() const
{
    const std::lock_guard lock(m_mutex);
    return run::longestSeconds(m_steps, m_period, kRecentSteps);
}

std::int64_t RunRecorder::lostRecords() const
{
    const std::lock_guard lock(m_mutex);
    return m_lost + m_dropped;
}

// --- The supervisor's thread ----------------------------------------------------------------------------------------

Status RunRecorder::open(const simulate::Prediction &prediction, bool resumed)
{
    m_model = prediction.modelName;
    m_period = static_cast<std::size_t>(prediction.periodSteps);
    auto writer =
        trace::TraceWriter::create(m_folder.file("trace.pltrace"), "wall", prediction.tables, prediction.plan);
    if (!writer)
        return writer.error();
    m_trace.emplace(std::move(*writer));
    auto database = MetricsDatabase::open(m_folder.file("metrics.db"), databaseRow());
    if (database)
        m_database.emplace(std::move(*database));
    else
        giveUpDatabase(database.error());
    if (!resumed)
        return {};
    auto steps = readMetrics();
    if (!steps)
        return steps.error();
    const std::lock_guard lock(m_mutex);
    m_steps = std::move(*steps);
    return {};
}

store::Run RunRecorder::databaseRow() const
{
    store::Run row;
    row.folder = m_folder.path();
    row.model = m_model;
    return row;
}

/// The steps of metrics.jsonl. Rows that metrics.db lacks are added there.
Result<std::vector<run::StepMetrics>> RunRecorder::readMetrics()
{
    const std::string path = m_folder.file("metrics.jsonl");
    const auto lines = readFile(path);
    if (!lines)
        return lines.error();
    auto steps = run::metricsFromJson(*lines);
    if (!steps)
        return steps.error().in(path);
    const auto validations = run::validationsFromJson(*lines);
    if (!validations)
        return validations.error().in(path);
    if (const Status added = m_database ? m_database->addMissing(*steps, *validations) : Status(); !added)
        note(added.error().text());
    return steps;
}

void RunRecorder::giveUpDatabase(const Error &why)
{
    note(why.text() + "; the run goes on without it");
    m_database.reset();
}

void RunRecorder::note(const std::string &text)
{
    m_folder.appendLog("planloom agent: " + text + "\n"); // workers write there, too
    log(LogLevel::Info, text);
}

Status RunRecorder::goOnFrom(std::int64_t step)
{
    if (const Status forgotten = m_database ? m_database->forgetFrom(step) : Status(); !forgotten)
        note(forgotten.error().text());
    {
        const std::lock_guard lock(m_mutex);
        m_firstStep = step;
        m_askedFor = 0;
        m_lines.clear();
        std::erase_if(m_steps, [step](const run::StepMetrics &done) { return done.step >= step; });
    }
    return m_folder.cutMetrics(step);
}

Result<std::int64_t> RunRecorder::write(bool last)
{
    const Status traced = writeTrace();
    std::vector<Line> lines;
    std::int64_t askedFor = 0;
    {
        const std::lock_guard lock(m_mutex);
        lines.swap(m_lines);
        const std::int64_t done = m_steps.empty() ? m_firstStep : m_steps.back().step + 1;
        if (m_askedFor <= done) // else another rank's reports are on their way
            askedFor = std::exchange(m_askedFor, 0);
    }
    const Status written = writeLines(lines);
    if (const Status flushed = m_database ? m_database->flush(last) : Status(); !flushed)
        giveUpDatabase(flushed.error());
    if (!traced)
        return traced.error();
    if (!written)
        return written.error();
    return askedFor;
}

Status RunRecorder::writeTrace()
{
    std::vector<trace::Record> records;
    std::int64_t lost = 0;
    {
        const std::lock_guard lock(m_mutex);
        records.swap(m_records);
        lost = m_lost + m_dropped;
    }
    return m_trace ? m_trace->append(records, lost) : Status();
}

/// To metrics.jsonl, without which there is no run, and to metrics.db, without which there is.
Status RunRecorder::writeLines(const std::vector<Line> &lines)
{
    Status written;
    for (const Line &line : lines) {
        std::visit(
            [&](const auto &value) {
                if (written)
                    written = m_folder.appendMetrics(run::toJson(value));
                if (m_database)
                    m_database->add(value);
            },
            line);
    }
    return written;
}

Status RunRecorder::closeTrace() { return m_trace ? m_trace->close() : Status(); }

Status RunRecorder::writeSummary(const run::Summary &summary)
{
    const Status shortened = m_folder.shortenMetrics();
    return shortened ? m_folder.writeSummary(summary) : shortened;
}

void RunRecorder::discard(bool resumed)
{
    if (!resumed)
        m_database.reset(); // its file goes, too
    m_folder.discard();
    if (m_database) [[maybe_unused]]
        const auto steps = readMetrics(); // or when the run goes on
    m_database.reset();
}

void RunRecorder::conclude(const Status &outcome, const std::optional<run::Summary> &summary)
{
    if (!m_database)
        return;
    store::Run row = databaseRow();
    store::conclude(row, outcome, summary);
    row.steps = stepsDone();
    if (const Status recorded = m_database->end(row); !recorded)
        note(recorded.error().text());
    m_database.reset();
}

} // namespace planloom::agent
