// SPDX-License-Identifier: Apache-2.0
#include "engine/store/store.h"

#include "engine/base/files.h"
#include "engine/store/database.h"
#include "engine/store/migrations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <variant>

namespace planloom::store {
namespace {

const char *tableOf(Kind kind)
{
    switch (kind) {
    case Kind::Model: return "models";
    case Kind::Cluster: return "clusters";
    case Kind::Plan: return "plans";
    case Kind::Profile: return "profiles";
    }
    return "models";
}

void bind(Binder &values, std::int64_t value) { values.integer(value); }
void bind(Binder &values, double value) { values.number(value); }
void bind(Binder &values, const std::string &value) { values.text(value); }

/// A column of a value's table, and how it is written and read.
template <class Value>
struct Column {
    const char *name;
    std::variant<std::int64_t Value::*, double Value::*, std::string Value::*, std::int64_t (*)(const Value &),
                 double (Value::*)() const>
        from;
    void (*read)(Value &, std::int64_t) = nullptr; ///< where it is no member
};

std::int64_t samplesOf(const run::StepMetrics &step) { return std::llround(step.samplesPerSecond * step.seconds); }
/// After the column of the seconds.
void readSamples(run::StepMetrics &step, std::int64_t samples)
{
    step.samplesPerSecond = step.seconds > 0 ? static_cast<double>(samples) / step.seconds : 0;
}

constexpr Column<run::StepMetrics> kStepColumns[] = {
    {"step", &run::StepMetrics::step},
    {"loss", &run::StepMetrics::loss},
    {"seconds", &run::StepMetrics::seconds},
    {"learning_rate", &run::StepMetrics::learningRate},
    {"gradient_norm", &run::StepMetrics::gradientNorm},
    {"samples", samplesOf, readSamples},
    {"consensus_distance", &run::StepMetrics::consensusDistance},
    {"objective", &run::StepMetrics::objective},
    {"primal_residual", &run::StepMetrics::primalResidual},
    {"dual_residual", &run::StepMetrics::dualResidual},
    {"lagrangian", &run::StepMetrics::lagrangian},
};

constexpr Column<Run> kRunColumns[] = {
    {"folder", &Run::folder},
    {"plan", &Run::plan},
    {"model", &Run::model},
    {"cluster", &Run::cluster},
    {"state", &Run::state},
    {"error", &Run::error},
    {"started_at", &Run::startedAt},
    {"ended_at", &Run::endedAt},
    {"steps", &Run::steps},
    {"loss_first", &Run::lossFirst},
    {"loss_last", &Run::lossLast},
    {"iteration_seconds_median", &Run::iterationSecondsMedian},
    {"predicted_iteration_seconds", &Run::predictedIterationSeconds},
    {"peak_bytes_measured", &Run::peakBytesMeasured},
    {"peak_bytes_predicted", &Run::peakBytesPredicted},
    {"plan_hash", &Run::planHash},
    {"samples_per_second", &Run::samplesPerSecond},
    {"tokens_per_second", &Run::tokensPerSecond},
    {"mfu", &Run::mfu},
    {"mfu_precision", &Run::mfuPrecision},
    {"ranks_on_processors", &Run::ranksOnProcessors},
};

constexpr Column<run::Validation> kValidationColumns[] = {
    {"step", &run::Validation::step},         {"loss", &run::Validation::loss},
    {"accuracy", &run::Validation::accuracy}, {"perplexity", &run::Validation::perplexity},
    {"samples", &run::Validation::samples},
};

template <class Value, std::size_t N>
std::string namesOf(const Column<Value> (&columns)[N])
{
    std::string names;
    for (const Column<Value> &column : columns)
        names += (names.empty() ? "" : ", ") + std::string(column.name);
    return names;
}

/// The values of @p columns, in their order.
template <class Value, std::size_t N>
void bindAll(Binder &values, const Column<Value> (&columns)[N], const Value &value)
{
    for (const Column<Value> &column : columns)
        std::visit([&](auto from) { bind(values, std::invoke(from, value)); }, column.from);
}

/// The same of a row in which they begin at @p first.
template <class Value, std::size_t N>
void readAll(const Row &row, int first, const Column<Value> (&columns)[N], Value &value)
{
    for (int i = 0; i < static_cast<int>(N); ++i) {
        const Column<Value> &column = columns[i];
        if (const auto *integer = std::get_if<std::int64_t Value::*>(&column.from))
            value.**integer = row.integer(first + i);
        else if (const auto *number = std::get_if<double Value::*>(&column.from))
            value.**number = row.number(first + i);
        else if (const auto *text = std::get_if<std::string Value::*>(&column.from))
            value.**text = row.text(first + i);
        else if (column.read)
            column.read(value, row.integer(first + i));
    }
}

/// "?1, ?2, ?3".
std::string placesFor(std::size_t columns)
{
    std::string places;
    for (std::size_t i = 1; i <= columns; ++i)
        places += fmt::format("{}?{}", i == 1 ? "" : ", ", i);
    return places;
}

/// "folder = ?1, plan = ?2 ..."; a time of start of 0 leaves the one that is there.
std::string assignmentsOfRun()
{
    std::string text;
    for (std::size_t i = 0; i < std::size(kRunColumns); ++i) {
        const std::string_view name = kRunColumns[i].name;
        text += i == 0 ? "" : ", ";
        text += name == "started_at" ? fmt::format("{0} = CASE WHEN ?{1} = 0 THEN {0} ELSE ?{1} END", name, i + 1)
                                     : fmt::format("{} = ?{}", name, i + 1);
    }
    return text;
}

/// What listRuns() and run() select: the id, kRunColumns, tags and notes.
std::string selectRuns(const char *rest)
{
    std::string names;
    for (const Column<Run> &column : kRunColumns)
        names += fmt::format(", r.{}", column.name);
    return fmt::format("SELECT r.id{}, n.tags, n.notes FROM runs r LEFT JOIN run_notes n ON n.folder = r.folder {}",
                       names, rest);
}

Run runOf(const Row &row)
{
    Run run;
    run.id = row.integer(0);
    readAll(row, 1, kRunColumns, run);
    run.tags = row.text(1 + static_cast<int>(std::size(kRunColumns)));
    run.notes = row.text(2 + static_cast<int>(std::size(kRunColumns)));
    return run;
}

template <class Value, std::size_t N>
Status insert(Connection &database, const char *table, const Column<Value> (&columns)[N], std::int64_t run,
              const Value &value)
{
    std::string sql = fmt::format("INSERT OR REPLACE INTO {} (run, {}) VALUES (?1", table, namesOf(columns));
    for (std::size_t i = 0; i < N; ++i)
        sql += fmt::format(", ?{}", i + 2);
    return database.run((sql + ")").c_str(), [&](Binder &values) {
        values.integer(run);
        bindAll(values, columns, value);
    });
}

/// By step.
template <class Value, std::size_t N>
Result<std::vector<Value>> select(Connection &database, const char *table, const Column<Value> (&columns)[N],
                                  std::int64_t run)
{
    std::vector<Value> all;
    const Status done = database.run(
        fmt::format("SELECT {} FROM {} WHERE run = ?1 ORDER BY step", namesOf(columns), table).c_str(),
        [&](Binder &values) { values.integer(run); },
        [&](const Row &row) { readAll(row, 0, columns, all.emplace_back()); });
    if (!done)
        return done.error();
    return all;
}

} // namespace

void conclude(Run &run, const Status &outcome, const std::optional<run::Summary> &summary)
{
    run.state = outcome ? "finished" : outcome.error().code == ErrorCode::Cancelled ? "stopped" : "failed";
    run.error = outcome ? "" : outcome.error().text();
    if (!summary)
        return;
    run.steps = summary->steps;
    run.lossFirst = std::isfinite(summary->lossFirst) ? summary->lossFirst : 0;
    run.lossLast = std::isfinite(summary->lossLast) ? summary->lossLast : 0;
    run.iterationSecondsMedian = summary->iterationSecondsMedian;
    run.planHash = summary->planHash;
    run.samplesPerSecond = summary->samplesPerSecond;
    run.tokensPerSecond = summary->tokensPerSecond;
    run.mfu = summary->mfu;
    run.mfuPrecision = summary->mfuPrecision;
    run.ranksOnProcessors = summary->ranksOnProcessors;
    run.predictedIterationSeconds = summary->predictedIterationSeconds;
    const auto fullest = std::ranges::max_element(summary->peakBytesMeasured);
    if (fullest == summary->peakBytesMeasured.end())
        return;
    const auto rank = static_cast<std::size_t>(fullest - summary->peakBytesMeasured.begin());
    run.peakBytesMeasured = *fullest;
    run.peakBytesPredicted = rank < summary->peakBytesPredicted.size() ? summary->peakBytesPredicted[rank] : 0;
}

const char *name(Kind kind)
{
    switch (kind) {
    case Kind::Model: return "model";
    case Kind::Cluster: return "cluster";
    case Kind::Plan: return "plan";
    case Kind::Profile: return "profile";
    }
    return "model";
}

class Workspace::Database : public Connection {
public:
    explicit Database(Connection connection) : Connection(std::move(connection)) {}
};

Workspace::Workspace(std::unique_ptr<Database> database) : m_database(std::move(database)) {}
Workspace::Workspace(Workspace &&) noexcept = default;
Workspace &Workspace::operator=(Workspace &&) noexcept = default;
Workspace::~Workspace() = default;

std::string Workspace::defaultPath()
{
    const char *data = std::getenv("XDG_DATA_HOME");
    const char *home = std::getenv("HOME");
    std::filesystem::path base =
        data && *data ? std::filesystem::path(data) : std::filesystem::path(home ? home : ".") / ".local/share";
    return (base / "planloom" / "workspace.planloom").string();
}

Result<Workspace> Workspace::open(const std::string &path)
{
    std::error_code refused;
    if (std::filesystem::is_directory(path, refused))
        return badInput("is a folder, not a file; name a file in it").in(path);
    auto connection = Connection::open(path);
    if (!connection)
        return connection.error();
    // NORMAL is safe with WAL: a power cut may lose the last transaction, never the file.
    if (auto ready = migrate(*connection); !ready)
        return ready.error();
    if (auto set =
            connection->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
        !set)
        return set.error();
    return Workspace(std::make_unique<Database>(std::move(*connection)));
}

Result<std::int64_t> Workspace::put(Kind kind, const std::string &name, const std::string &source,
                                    std::string_view text)
{
    if (name.empty())
        return badInput(fmt::format("a {} needs a name", store::name(kind)));
    const std::string digest = sha256(text);
    const std::string sql =
        fmt::format("INSERT INTO {} (name, source, sha256, saved_at, text) VALUES (?1, ?2, ?3, unixepoch(), ?4) "
                    "ON CONFLICT (name) DO UPDATE SET source = ?2, sha256 = ?3, saved_at = unixepoch(), text = ?4 "
                    "RETURNING id",
                    tableOf(kind));
    std::int64_t id = 0;
    const Status done = m_database->run(
        sql.c_str(), [&](Binder &values) { values.text(name).text(source).text(digest).text(text); },
        [&](const Row &row) { id = row.integer(0); });
    if (!done)
        return done.error();
    return id;
}

Result<std::string> Workspace::get(Kind kind, const std::string &name)
{
    const std::string sql = fmt::format("SELECT text FROM {} WHERE name = ?1", tableOf(kind));
    std::string text;
    bool found = false;
    const Status done = m_database->run(
        sql.c_str(), [&](Binder &values) { values.text(name); },
        [&](const Row &row) {
            text = row.text(0);
            found = true;
        });
    if (!done)
        return done.error();
    if (!found)
        return notFound(fmt::format("has no {} '{}'", store::name(kind), name)).in(m_database->path());
    return text;
}

Result<std::vector<Entry>> Workspace::list(Kind kind)
{
    const std::string sql = fmt::format("SELECT id, name, source, sha256, octet_length, saved_at FROM "
                                        "(SELECT *, length(CAST(text AS BLOB)) AS octet_length FROM {}) ORDER BY name",
                                        tableOf(kind));
    std::vector<Entry> entries;
    const Status done = m_database->run(sql.c_str(), {}, [&](const Row &row) {
        entries.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.integer(4), row.integer(5)});
    });
    if (!done)
        return done.error();
    return entries;
}

Status Workspace::remove(Kind kind, const std::string &name)
{
    const std::string sql = fmt::format("DELETE FROM {} WHERE name = ?1", tableOf(kind));
    if (auto done = m_database->run(sql.c_str(), [&](Binder &values) { values.text(name); }); !done)
        return done;
    if (m_database->changes() == 0)
        return notFound(fmt::format("has no {} '{}'", store::name(kind), name)).in(m_database->path());
    return {};
}

Result<std::int64_t> Workspace::recordRun(const Run &run)
{
    if (run.folder.empty())
        return badInput("a run needs its folder");
    Run dated = run;
    if (dated.startedAt == 0)
        dated.startedAt = std::time(nullptr);
    std::int64_t id = 0;
    const std::string sql = fmt::format("INSERT OR REPLACE INTO runs ({}) VALUES ({}) RETURNING id",
                                        namesOf(kRunColumns), placesFor(std::size(kRunColumns)));
    const Status done = m_database->run(
        sql.c_str(), [&](Binder &values) { bindAll(values, kRunColumns, dated); },
        [&](const Row &row) { id = row.integer(0); });
    if (!done)
        return done.error();
    return id;
}

Status Workspace::updateRun(const Run &run)
{
    const std::string sql =
        fmt::format("UPDATE runs SET {} WHERE id = ?{}", assignmentsOfRun(), std::size(kRunColumns) + 1);
    const Status done = m_database->run(sql.c_str(), [&](Binder &values) {
        bindAll(values, kRunColumns, run);
        values.integer(run.id);
    });
    if (!done)
        return done;
    if (m_database->changes() == 0)
        return notFound(fmt::format("has no run {}", run.id)).in(m_database->path());
    return {};
}

Status Workspace::mergeRuns(std::span<const Run> runs)
{
    const std::string sql = fmt::format("INSERT INTO runs ({}) VALUES ({}) ON CONFLICT (folder) DO UPDATE SET {}",
                                        namesOf(kRunColumns), placesFor(std::size(kRunColumns)), assignmentsOfRun());
    return m_database->transaction([&]() -> Status {
        Status done;
        for (std::size_t i = 0; done && i < runs.size(); ++i)
            done = m_database->run(sql.c_str(), [&](Binder &values) { bindAll(values, kRunColumns, runs[i]); });
        return done;
    });
}

Result<std::vector<Run>> Workspace::listRuns()
{
    std::vector<Run> runs;
    const Status done = m_database->run(selectRuns("ORDER BY r.started_at DESC, r.id DESC").c_str(), {},
                                        [&](const Row &row) { runs.push_back(runOf(row)); });
    if (!done)
        return done.error();
    return runs;
}

Result<Run> Workspace::run(std::int64_t id)
{
    Run found;
    const Status done = m_database->run(
        selectRuns("WHERE r.id = ?1").c_str(), [&](Binder &values) { values.integer(id); },
        [&](const Row &row) { found = runOf(row); });
    if (!done)
        return done.error();
    if (found.id == 0)
        return notFound(fmt::format("has no run {}", id)).in(m_database->path());
    return found;
}

Status Workspace::annotateRun(const std::string &folder, const std::string &tags, const std::string &notes)
{
    return m_database->run("INSERT INTO run_notes (folder, tags, notes) VALUES (?1, ?2, ?3) "
                           "ON CONFLICT (folder) DO UPDATE SET tags = ?2, notes = ?3",
                           [&](Binder &values) { values.text(folder).text(tags).text(notes); });
}

Status Workspace::addRunFolder(const std::string &path)
{
    return m_database->run("INSERT OR IGNORE INTO run_folders (path) VALUES (?1)",
                           [&](Binder &values) { values.text(path); });
}

Status Workspace::removeRunFolder(const std::string &path)
{
    return m_database->run("DELETE FROM run_folders WHERE path = ?1", [&](Binder &values) { values.text(path); });
}

Result<std::vector<std::string>> Workspace::runFolders()
{
    std::vector<std::string> paths;
    const Status done = m_database->run("SELECT path FROM run_folders ORDER BY path", {},
                                        [&](const Row &row) { paths.push_back(row.text(0)); });
    if (!done)
        return done.error();
    return paths;
}

Status Workspace::record(std::int64_t run, std::span<const run::StepMetrics> steps,
                         std::span<const run::Validation> validations)
{
    return m_database->transaction([&]() -> Status {
        Status done;
        for (std::size_t i = 0; done && i < steps.size(); ++i)
            done = insert(*m_database, "steps", kStepColumns, run, steps[i]);
        for (std::size_t i = 0; done && i < validations.size(); ++i)
            done = insert(*m_database, "validations", kValidationColumns, run, validations[i]);
        return done;
    });
}

Status Workspace::forgetFrom(std::int64_t run, std::int64_t step)
{
    return m_database->transaction([&]() -> Status {
        for (const char *sql : {"DELETE FROM steps WHERE run = ?1 AND step >= ?2",
                                "DELETE FROM validations WHERE run = ?1 AND step >= ?2"}) {
            if (auto done = m_database->run(sql, [&](Binder &values) { values.integer(run).integer(step); }); !done)
                return done;
        }
        return {};
    });
}

Result<std::vector<run::StepMetrics>> Workspace::steps(std::int64_t run)
{
    return select<run::StepMetrics>(*m_database, "steps", kStepColumns, run);
}

Result<std::vector<run::Validation>> Workspace::validations(std::int64_t run)
{
    return select<run::Validation>(*m_database, "validations", kValidationColumns, run);
}

Status Workspace::removeRun(std::int64_t id)
{
    const auto byId = [&](Binder &values) { values.integer(id); };
    return m_database->transaction([&]() -> Status {
        if (auto done =
                m_database->run("DELETE FROM run_notes WHERE folder = (SELECT folder FROM runs WHERE id = ?1)", byId);
            !done)
            return done;
        if (auto done = m_database->run("DELETE FROM runs WHERE id = ?1", byId); !done)
            return done;
        if (m_database->changes() == 0)
            return notFound(fmt::format("has no run {}", id)).in(m_database->path());
        return {};
    });
}

} // namespace planloom::store
