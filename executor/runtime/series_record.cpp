// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/series_record.h"

#include "engine/base/files.h"
#include "engine/cost/looked_up_rows.h"
#include "executor/runtime/call_list.h"

#include <algorithm>
#include <filesystem>

namespace planloom::runtime {
namespace {

constexpr std::chrono::milliseconds kKeepFor{200};
constexpr std::size_t kLongestLine = 160;

std::int64_t samplesIn(const program::Body &body)
{
    std::int64_t samples = 0;
    for (const plan::SampleRange &slice : body.slices)
        samples += slice.size;
    return samples;
}

/// The body on @p rank that counts the loss of a replica; null: there is none.
const program::Body *bodyWithLoss(const program::Program &program, int rank)
{
    for (const BodyId index : program.ranks[static_cast<std::size_t>(rank)].bodies) {
        const program::Body &body = program.body(index);
        const graph::TrainingGraph &training = body.training;
        if (training.loss.valid() && training.graph.tensor(training.loss).producer.valid() && countsLoss(body))
            return &body;
    }
    return nullptr;
}

bool averages(const program::Program &program)
{
    return std::any_of(program.tasks.begin(), program.tasks.end(),
                       [](const program::Task &task) { return task.as<program::Merge>() != nullptr; });
}

/// What the plan expects of @p table in a step, of all replicas together.
run::RowSeries expectedOf(const program::Program &program, const program::Table &table, const cost::Profile *profile)
{
    run::RowSeries series;
    series.table = table.parameter;
    series.rows = table.rows;
    series.replicas = static_cast<std::int64_t>(table.members.size());
    series.splits = table.delays;
    series.counted = profile != nullptr && profile->tables.contains(table.parameter);
    const std::int64_t samples = (program.globalBatch + series.replicas - 1) / series.replicas;
    const cost::TableRows one =
        cost::lookedUpRows(profile, table.parameter, table.rows, samples * table.idsPerSample, series.replicas);
    const auto replicas = static_cast<double>(series.replicas);
    series.expected = {static_cast<double>(program.globalBatch * table.idsPerSample), one.unique * replicas,
                       one.prior * replicas, (one.unique - one.prior) * replicas};
    return series;
}

} // namespace

SeriesFile::SeriesFile(std::string path, const std::string &head, std::int64_t firstStep) : m_path(std::move(path))
{
    const auto before = firstStep > 0 ? readFile(m_path) : Result<std::string>(std::string());
    m_kept = run::keptBefore(before ? *before : std::string(), head, firstStep);
}

void SeriesFile::begin()
{
    std::error_code refused;
    std::filesystem::create_directories(std::filesystem::path(m_path).parent_path(), refused);
    [[maybe_unused]] const Status written = writeFileAtomically(m_path, m_kept); // else the file stays as it is
    m_file.open(m_path, std::ios::app);
    m_kept.clear();
}

void SeriesFile::add(std::string_view line)
{
    if (!m_kept.empty())
        begin();
    m_file.write(line.data(), static_cast<std::streamsize>(line.size()));
    const auto now = std::chrono::steady_clock::now();
    if (now - m_flushed < kKeepFor)
        return;
    m_file.flush();
    m_flushed = now;
}

SeriesRecord::SeriesRecord(const program::Program &program, int rank, const cost::Profile *profile,
                           const std::string &folder, ExecutorOptions &options)
{
    recordLosses(program, rank, folder, options);
    recordRows(program, rank, profile, folder, options);
}

void SeriesRecord::recordLosses(const program::Program &program, int rank, const std::string &folder,
                                ExecutorOptions &options)
{
    const program::Body *body = averages(program) ? bodyWithLoss(program, rank) : nullptr;
    if (body == nullptr)
        return;
    m_losses.emplace(folder + "/" + run::lossesFile(static_cast<std::int64_t>(body->replica)), run::lossesHead(),
                     options.firstStep);
    // A rank's part of the loss of the global batch, of whose samples its replica has some.
    const double ofOwn = static_cast<double>(program.globalBatch) / static_cast<double>(samplesIn(*body));
    options.onOwnLoss = [this, ofOwn](std::int64_t step, double part) {
        char line[kLongestLine];
        m_losses->add({line, run::lossesLine(step, part * ofOwn, line, sizeof line)});
    };
}

void SeriesRecord::recordRows(const program::Program &program, int rank, const cost::Profile *profile,
                              const std::string &folder, ExecutorOptions &options)
{
    m_rows.resize(program.tables.size());
    for (std::size_t t = 0; t < program.tables.size(); ++t) {
        const program::Table &table = program.tables[t];
        if (program.team(table.team).ranks.front() != RankId(rank))
            continue;
        m_rows[t].emplace(folder + "/" + run::rowsFile(static_cast<std::int64_t>(t)),
                          run::rowsHead(expectedOf(program, table, profile)), options.firstStep);
        options.onRows = [this, &program](TableId id, std::int64_t step, const run::RowCounts &counts) {
            char line[kLongestLine];
            const bool splits = program.table(id).delays;
            m_rows[id.index()]->add({line, run::rowsLine(step, counts, splits, line, sizeof line)});
        };
    }
}

} // namespace planloom::runtime
