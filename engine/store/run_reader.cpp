// SPDX-License-Identifier: Apache-2.0
#include "engine/store/run_reader.h"

#include "engine/base/files.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unordered_map>

namespace planloom::store {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4; ///< levels beneath a folder in which runs are looked for
constexpr std::int64_t kLargestMetrics = std::int64_t{256} << 20; ///< bytes: some two million steps
constexpr std::size_t kMostMessages = 20;

/// Seconds since 1970 of the last write; 0: there is no such file.
std::int64_t writtenAt(const fs::path &file)
{
    struct stat facts {};
    return ::stat(file.c_str(), &facts) == 0 ? static_cast<std::int64_t>(facts.st_mtime) : 0;
}

double finiteOrZero(double value) { return std::isfinite(value) ? value : 0; }

/// The figures of the steps so far, of a run without a summary.
Status addSteps(const fs::path &file, double samplesPerIteration, Run &run)
{
    if (writtenAt(file) == 0)
        return {};
    const auto text = readFile(file, kLargestMetrics);
    if (!text)
        return text.error();
    const auto steps = run::metricsFromJson(*text);
    if (!steps)
        return steps.error().in(file.string());
    if (steps->empty())
        return {};
    run.steps = static_cast<std::int64_t>(steps->size());
    run.lossFirst = finiteOrZero(steps->front().loss);
    run.lossLast = finiteOrZero(steps->back().loss);
    run.iterationSecondsMedian = run::medianSeconds(*steps);
    run.samplesPerSecond = run.iterationSecondsMedian > 0 ? samplesPerIteration / run.iterationSecondsMedian : 0;
    return {};
}

void findBeneath(const fs::path &folder, int depth, Progress &progress, std::vector<std::string> &found)
{
    if (progress.stopped())
        return;
    if (isRunOf(folder.string()))
        return found.push_back(folder.string());
    if (depth == kDeepest)
        return;
    std::error_code refused;
    std::vector<fs::path> inside;
    for (fs::directory_iterator entry(folder, refused), end; !refused && entry != end; entry.increment(refused)) {
        std::error_code unknown;
        if (entry->is_directory(unknown) && !entry->is_symlink(unknown))
            inside.push_back(entry->path());
    }
    std::ranges::sort(inside);
    for (const fs::path &each : inside)
        findBeneath(each, depth + 1, progress, found);
}

/// Whether the row has all that the folder has: nothing was written there after its end.
bool isUpToDate(const Run &row)
{
    if (row.state == "running" || row.state == "unfinished" || row.endedAt == 0)
        return false;
    const fs::path base(row.folder);
    return std::max(writtenAt(base / "summary.json"), writtenAt(base / "metrics.jsonl")) <= row.endedAt;
}

} // namespace

bool isRunOf(const std::string &folder)
{
    std::error_code unknown;
    return fs::is_regular_file(fs::path(folder) / "plan.json", unknown)
        && fs::is_regular_file(fs::path(folder) / "request.json", unknown);
}

std::vector<std::string> findRuns(const std::string &root, Progress &progress)
{
    std::vector<std::string> found;
    findBeneath(fs::path(root), 0, progress, found);
    return found;
}

Result<RunReader::PlanFacts> RunReader::factsOf(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    const std::string key = sha256(*text);
    if (const auto known = m_facts.find(key); known != m_facts.end())
        return known->second;
    const auto document = plan::documentFromJson(*text);
    if (!document)
        return document.error().in(path);
    const plan::Plan &plan = document->plan;
    PlanFacts facts{plan::notation(plan),
                    plan.modelName,
                    plan.clusterName,
                    plan::fingerprint(*document),
                    static_cast<double>(plan.globalBatch),
                    plan::modelWork(*document)};
    return m_facts.emplace(key, std::move(facts)).first->second;
}

Result<Run> RunReader::read(const std::string &folder)
{
    if (!isRunOf(folder))
        return notFound("holds no run (it has no plan.json and request.json); choose a folder that planloom train made")
            .in(folder);
    const fs::path base(folder);
    const auto facts = factsOf((base / "plan.json").string());
    if (!facts)
        return facts.error();
    Run run;
    run.folder = folder;
    run.plan = facts->notation;
    run.model = facts->model;
    run.cluster = facts->cluster;
    run.startedAt = writtenAt(base / "plan.json");
    run.state = "unfinished";
    const fs::path summaryFile = base / "summary.json";
    run.endedAt = writtenAt(summaryFile);
    if (run.endedAt > 0) {
        const auto text = readFile(summaryFile);
        if (!text)
            return text.error();
        const auto summary = run::summaryFromJson(*text);
        if (!summary)
            return summary.error().in(summaryFile.string());
        const auto request = run::readRequest((base / "request.json").string());
        if (!request)
            return request.error();
        conclude(run, Status(), *summary);
        run.state = summary->steps < request->settings.steps && !summary->stoppedEarly ? "stopped" : "finished";
    } else if (const Status added = addSteps(base / "metrics.jsonl", facts->samplesPerIteration, run); !added) {
        return added.error();
    }
    run.planHash = facts->hash;
    if (run.samplesPerSecond == 0 && run.iterationSecondsMedian > 0) // of a summary from before it had this
        run.samplesPerSecond = facts->samplesPerIteration / run.iterationSecondsMedian;
    const plan::Efficiency efficiency = plan::efficiencyOf(facts->work, run.samplesPerSecond);
    run.tokensPerSecond = efficiency.tokensPerSecond;
    run.mfu = run.ranksOnProcessors > 0 ? 0 : efficiency.mfu;
    run.mfuPrecision = run.ranksOnProcessors > 0 ? "" : efficiency.precision;
    return run;
}

Result<std::vector<std::string>> refreshRuns(Workspace &workspace, Progress &progress)
{
    const auto roots = workspace.runFolders();
    if (!roots)
        return roots.error();
    const auto rows = workspace.listRuns();
    if (!rows)
        return rows.error();
    progress.report(-1, "looking for runs");
    std::set<std::string> folders;
    for (const std::string &root : *roots)
        for (std::string &found : findRuns(root, progress))
            folders.insert(std::move(found));
    for (const Run &row : *rows) {
        if (isUpToDate(row))
            folders.erase(row.folder);
        else if (isRunOf(row.folder))
            folders.insert(row.folder);
    }
    RunReader reader;
    std::vector<Run> fresh;
    std::vector<std::string> messages;
    std::size_t done = 0;
    for (const std::string &folder : folders) {
        if (progress.stopped())
            return cancelled();
        progress.report(static_cast<double>(done++) / static_cast<double>(folders.size()), "reading runs");
        auto run = reader.read(folder);
        if (run)
            fresh.push_back(*std::move(run));
        else if (messages.size() < kMostMessages)
            messages.push_back(run.error().text());
    }
    if (const Status merged = workspace.mergeRuns(fresh); !merged)
        return merged.error();
    return messages;
}

} // namespace planloom::store
