// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "app/planloom/verbs.h"
#include "engine/import/import.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"
#include "engine/trace/trace.h"
#include "executor/agent/client.h"

#include <optional>
#include <string>

namespace planloom::cli {

/// Model, cluster and, if @p profile is not empty, measured times. The importer's warnings become notes.
Result<plan::Subject> loadSubject(const std::string &model, const import::ModelOptions &how, const std::string &cluster,
                                  const std::string &profile, Output &output);
/// @p subject with the form of model and the facts of the framework that was chosen; as it is where none was. Errors:
/// NotFound (the framework), those of graph::inForm.
Result<plan::Subject> asComputedBy(const FrameworkChoice &choice, plan::Subject subject, plan::Precision precision);
/// Whether `train` can run a model: what inspect, plan and train go by. Errors: graph::checkTrainable,
/// data::needsOf.
Status checkTraining(const graph::Graph &graph);
/// The same of a model as it was loaded, which may know why it has no loss.
Status checkTraining(const import::Model &model);
Result<cost::Profile> loadProfile(const std::string &path);

/// A run's folder, read back (resources/docs/formats/run.md).
struct RunFiles {
    std::string folder;
    plan::Document document;
    std::optional<run::Summary> summary; ///< missing while it runs, or if it did not get that far
};
/// @p path from the root of the file system; an empty one stays empty.
std::string absolutePath(const std::string &path);
/// True if @p path is a folder.
bool isRunFolder(const std::string &path);
/// Errors: BadInput (not a run's folder), and those of reading.
Result<RunFiles> readRun(const std::string &folder);
/// In the place of a plan file: standard input, or standard output.
inline constexpr const char *kStandardStream = "-";
/// The plan of a plan file, of a run's folder, or of standard input ("-").
Result<plan::Document> readPlanOrRun(const std::string &path);
/// Into a file, or to standard output ("-").
Status writePlanTo(const plan::Document &document, const std::string &path, Output &output);
Result<trace::Trace> readRunTrace(const std::string &folder);
/// What a run has measured for its memory policies. Errors: Io, BadInput.
Result<memory::RunTimes> readMeasuredTimes(const std::string &file);

/// The workspace named with --workspace; nothing if the name is empty.
Result<std::optional<store::Workspace>> openWorkspace(const std::string &path);

/// Says at once, before long work, that its result could not be saved at @p path (empty: it is not to be; "-": standard
/// output can be). Errors:
/// BadInput, Io.
Status checkWritable(const std::string &path);

/// Seconds since 1970.
std::int64_t now();

} // namespace planloom::cli
