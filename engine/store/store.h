// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/summary.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::store {

/// Kinds of named documents, each stored as the JSON text of its own folder.
enum class Kind : std::uint8_t { Model, Cluster, Plan, Profile };
const char *name(Kind kind); ///< "model"

/// A document without its text.
struct Entry {
    std::int64_t id = 0;
    std::string name;   ///< unique within its kind
    std::string source; ///< where it came from, for people: "zoo:gpt2", a path
    std::string sha256; ///< of the text
    std::int64_t bytes = 0;
    std::int64_t savedAt = 0; ///< seconds since 1970, UTC
};

/// One training run and its result. Figures are 0 until they are known.
struct Run {
    std::int64_t id = 0;
    std::string folder; ///< absolute; unique
    std::string plan;   ///< name of the plan, for people: the run's folder holds the plan itself
    std::string model;
    std::string cluster;
    std::string state = "running"; ///< running, finished, stopped, failed
    std::string error;             ///< why it failed
    std::int64_t startedAt = 0;    ///< seconds since 1970, UTC; 0: now
    std::int64_t endedAt = 0;
    std::int64_t steps = 0;
    double lossFirst = 0;
    double lossLast = 0;
    double iterationSecondsMedian = 0;
    double predictedIterationSeconds = 0;
    std::int64_t peakBytesMeasured = 0;  ///< of the fullest rank
    std::int64_t peakBytesPredicted = 0; ///< of the same rank
    std::string planHash;                ///< plan::fingerprint(); empty: not known
    double samplesPerSecond = 0;
    double tokensPerSecond = 0;
    double mfu = 0;
    std::string mfuPrecision;           ///< of the peak that mfu is a share of
    std::int64_t ranksOnProcessors = 0; ///< run::Summary; more than 0: measured and predicted are not comparable
    std::string tags;                   ///< the user's, words apart by blanks; set by annotateRun() only
    std::string notes;                  ///< likewise, a text
};

/// The end of @p run: its state and why it failed, by its @p outcome (an error Cancelled: it was stopped), and the
/// figures of its summary, if it has one. Losses that are no numbers are left at 0.
void conclude(Run &run, const Status &outcome, const std::optional<run::Summary> &summary);

/// The workspace: one SQLite file (WAL, so that a studio reads while a run is recorded). Every change is one
/// transaction: it is in the file when the call returns, or not at all. Thread contract: one thread at a time; several
/// processes may share the file.
///
/// Errors, each naming the file: BadInput (not a workspace, damaged, written by a newer Planloom), Io (in use, full
/// disk, no permission), NotFound (no such entry).
class Workspace {
public:
    /// Opens or creates the file, and brings an older one up to date.
    static Result<Workspace> open(const std::string &path);
    /// $XDG_DATA_HOME/planloom/workspace.planloom, or the same under ~/.local/share.
    static std::string defaultPath();

    Workspace(Workspace &&) noexcept;
    Workspace &operator=(Workspace &&) noexcept;
    ~Workspace();

    /// Saves @p text under @p name, replacing a document of that name. Returns the entry's id.
    Result<std::int64_t> put(Kind kind, const std::string &name, const std::string &source, std::string_view text);
    Result<std::string> get(Kind kind, const std::string &name);
    /// By name.
    Result<std::vector<Entry>> list(Kind kind);
    Status remove(Kind kind, const std::string &name);

    /// Notes that a run began; its id. A run in the same folder before is replaced.
    Result<std::int64_t> recordRun(const Run &run);
    /// Overwrites the run with run.id.
    Status updateRun(const Run &run);
    /// Adds runs as their folders have them, or overwrites those in the same folders but for their steps and
    /// validations; a time of start of 0 leaves the one that is there. All in one transaction: 10,000 take about 0.1 s.
    Status mergeRuns(std::span<const Run> runs);
    /// Newest first.
    Result<std::vector<Run>> listRuns();
    Result<Run> run(std::int64_t id);
    /// Sets the tags and notes of the run in @p folder. They stay when the run is recorded again.
    Status annotateRun(const std::string &folder, const std::string &tags, const std::string &notes);
    /// Folders in which the user keeps runs, by path.
    Result<std::vector<std::string>> runFolders();
    Status addRunFolder(const std::string &path);
    Status removeRunFolder(const std::string &path);
    /// Its steps and validations, tags and notes, too.
    Status removeRun(std::int64_t id);

    /// Adds reports of run @p run, all in one transaction; earlier reports of the same steps are replaced. A
    /// number that is none is kept as NULL. Of the throughput the step's number of samples is kept.
    Status record(std::int64_t run, std::span<const run::StepMetrics> steps,
                  std::span<const run::Validation> validations);
    /// Deletes reports of @p step and later ones: the run resumes there.
    Status forgetFrom(std::int64_t run, std::int64_t step);
    /// By step.
    Result<std::vector<run::StepMetrics>> steps(std::int64_t run);
    Result<std::vector<run::Validation>> validations(std::int64_t run);

    /// The schema's number in a file that this Planloom wrote.

private:
    class Database;
    explicit Workspace(std::unique_ptr<Database> database);
    std::unique_ptr<Database> m_database;
};

} // namespace planloom::store
