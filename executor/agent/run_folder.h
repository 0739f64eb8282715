// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/agent/client.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::agent {

/// Where a run lives (resources/docs/formats/run.md): plan.json, request.json, trace.pltrace, metrics.jsonl,
/// summary.json, log. Holds a lock on the folder while it exists, so that there is one writer. Thread contract: one
/// thread at a time.
class RunFolder {
public:
    /// Makes @p path (and its parents) where it is missing. Errors: BadInput (not absolute, in use by another run,
    /// holds a run already), Io.
    static Result<RunFolder> create(const std::string &path);
    /// A new folder beneath @p root: its name is the time and @p name.
    static Result<RunFolder> createBeneath(const std::string &root, const std::string &name);
    /// The folder of a run to resume. Errors: NotFound (no run there), BadInput (not absolute, in use), Io.
    static Result<RunFolder> reopen(const std::string &path);
    RunFolder(RunFolder &&other) noexcept;
    RunFolder &operator=(RunFolder &&other) noexcept;
    ~RunFolder();

    [[nodiscard]] const std::string &path() const { return m_path; }
    [[nodiscard]] std::string file(const char *name) const { return m_path + "/" + name; }

    /// plan.json and request.json, as the workers read them; a trace and a summary of before are put aside. Error: Io;
    /// nothing is left behind then.
    Status begin(const TrainRequest &request);
    /// request.json for another worker group of the same run.
    Status writeRequest(const TrainRequest &request, const run::Beginning &from);
    /// A line of metrics.jsonl.
    Status appendMetrics(const std::string &line);
    /// Removes @p step and later ones from metrics.jsonl, as the run resumes there: with the next line, or
    /// when shortened. Error: BadInput (damaged), Io.
    Status cutMetrics(std::int64_t step);
    Status shortenMetrics();
    /// Workers' output. A log that cannot be written stops no run.
    void appendLog(std::string_view text);
    Status writeSummary(const run::Summary &summary);
    /// summary.json as it was when the folder was reopened; nothing: there was none that can be read.
    [[nodiscard]] std::optional<run::Summary> summaryBefore() const;
    /// The traces that ranks have written of a measured course (runtime::measuredTraceOf) become one; nothing, if there
    /// are none. No worker may be left. Errors: Io, BadInput (damaged).
    Status joinMeasured();
    /// Those of workers that are followed by others, and their times, get a number. Errors: those of joinMeasured.
    Status putMeasuredAside();
    /// Takes back what create() and begin() made, for a run that did no step; a log with the reason stays. A folder
    /// that was reopened is as it was before.
    void discard();
    /// Closes the files and lets go of the lock; only path() and file() are of use afterwards.
    void release();

private:
    RunFolder() = default;
    static Result<RunFolder> lock(const std::string &path);
    using Renamed = std::vector<std::pair<std::string, std::string>>; ///< from, to
    Status putAside();
    Result<Renamed> putAside(std::span<const char *const> parts);
    void goBack();

    /// Files that begin() replaces in a reopened folder.
    struct Before {
        std::optional<std::string> plan, request, summary; ///< contents, where there were any
        Renamed parts;                                     ///< traces and measured times
    };
    std::string m_path;
    Before m_before;
    bool m_reopened = false;
    bool m_made = false; ///< the folder was not there before
    int m_lock = -1;
    int m_metrics = -1;
    int m_log = -1;
    std::int64_t m_metricsLength = 0;
    bool m_cut = false; ///< metrics.jsonl is longer
};

} // namespace planloom::agent
