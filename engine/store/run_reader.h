// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/plan/efficiency.h"
#include "engine/store/store.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::store {

/// True if @p folder has the files of a run: a plan.json and a request.json.
bool isRunOf(const std::string &folder);

/// The folders of runs at @p root and up to four levels beneath it, by path. Folders of runs themselves are not
/// searched. Cost: the entries of the folders. Stopped by @p progress: those found so far.
std::vector<std::string> findRuns(const std::string &root, Progress &progress);

/// Reads what workspaces keep of a run from the run's folder. Thread contract: one thread at a time.
class RunReader {
public:
    /// State "unfinished": there is no result; the figures are then those of the steps so far. Errors: NotFound (it
    /// is no run), BadInput, Io. Cost: that of reading plan.json, once for equal ones.
    Result<Run> read(const std::string &folder);

private:
    struct PlanFacts {
        std::string notation, model, cluster, hash;
        double samplesPerIteration = 1;
        plan::ModelWork work;
    };
    Result<PlanFacts> factsOf(const std::string &path);
    std::map<std::string, PlanFacts> m_facts; ///< by the hash of the file
};

/// Brings the rows of @p workspace up to date with the run folders in its runFolders(), and with those of its runs that
/// have no end. Runs that ended and did not change are not read again; tags and notes stay. Returns sentences about
/// folders that could not be read. Error: those of the workspace; Cancelled.
Result<std::vector<std::string>> refreshRuns(Workspace &workspace, Progress &progress);

} // namespace planloom::store
