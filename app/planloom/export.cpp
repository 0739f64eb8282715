// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/export/export.h"

#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/plan/fingerprint.h"
#include "engine/simulate/simulate.h"
#include "executor/agent/child.h"
#include "executor/checkpoint/export_weights.h"
#include "executor/checkpoint/restore.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

namespace fs = std::filesystem;
constexpr int kPollMilliseconds = 50;

/// The predicted timeline of a plan, or the recorded one of a run.
Result<trace::Trace> traceOf(const ExportOptions &options, const plan::Document &document)
{
    if (isRunFolder(options.what)) {
        auto trace = readRunTrace(options.what);
        if (trace && trace->records.empty())
            return badInput("holds no trace: it was trained with --trace off; train it with a trace, or export the "
                            "predicted timeline of its plan, plan.json in that folder")
                .in(options.what);
        return trace;
    }
    auto simulation = simulate::simulatePlan(document.plan, document.subject, {true, false});
    if (!simulation)
        return simulation.error().in(options.what);
    simulation->trace.plan = plan::fingerprint(document);
    return std::move(simulation->trace);
}

std::string dotOf(const plan::Document &document)
{
    return exporting::graphvizDot(*document.subject.graph, &document.plan, &document.subject.layers());
}

/// A private folder that goes with its owner.
class TemporaryFolder {
public:
    static Result<TemporaryFolder> make()
    {
        std::error_code unknown;
        std::string path = (fs::temp_directory_path(unknown) / "planloom-XXXXXX").string();
        if (!::mkdtemp(path.data()))
            return ioError("no temporary folder can be made; check TMPDIR and its free space");
        return TemporaryFolder(path);
    }
    explicit TemporaryFolder(std::string path) : m_path(std::move(path)) {}
    TemporaryFolder(TemporaryFolder &&other) noexcept : m_path(std::exchange(other.m_path, {})) {}
    TemporaryFolder &operator=(TemporaryFolder &&) = delete;
    ~TemporaryFolder()
    {
        std::error_code unknown;
        if (!m_path.empty())
            fs::remove_all(m_path, unknown);
    }
    [[nodiscard]] std::string file(const char *name) const { return m_path + "/" + name; }

private:
    std::string m_path;
};

/// Lays the drawing out with Graphviz in a child process, which Ctrl-C ends.
Result<std::string> svgOf(const plan::Document &document, Output &output)
{
    const auto dot = agent::findProgram("dot");
    if (!dot)
        return notFound("Graphviz's dot is not installed; install the package graphviz, or export to dot");
    const auto folder = TemporaryFolder::make();
    if (!folder)
        return folder.error();
    if (auto written = writeFileAtomically(folder->file("model.dot"), dotOf(document)); !written)
        return written.error();
    agent::Command command;
    command.program = *dot;
    command.arguments = {"-Tsvg", "-o", folder->file("model.svg"), folder->file("model.dot")};
    command.environment = agent::allowedEnvironment();
    auto child = agent::Child::start(command);
    if (!child)
        return child.error();
    TerminalProgress progress(output.showsProgress());
    std::string messages;
    std::optional<agent::Exit> end;
    while (!(end = child->poll())) {
        messages += child->read(kPollMilliseconds);
        progress.report(-1, "Graphviz lays out the model");
        if (progress.stopped())
            return cancelled(); // the child goes with its owner
    }
    if (end->status != 0 || end->signal != 0)
        return failed(fmt::format("Graphviz's dot failed ({}): {}", agent::describe(*end),
                                  messages.substr(0, messages.find('\n'))));
    return readFile(folder->file("model.svg"));
}

Status writeWeights(const ExportOptions &options, Output &output)
{
    if (!isRunFolder(options.what))
        return badInput("is a plan, which holds no trained weights; name the folder of a run that was trained with "
                        "--checkpoint-every")
            .in(options.what);
    std::vector<std::string> skipped;
    const auto manifest = checkpoint::newestCheckpoint(options.what, &skipped);
    for (const std::string &why : skipped)
        output.note("warning: " + why);
    if (!manifest && manifest.error().code == ErrorCode::NotFound)
        return notFound("holds no whole checkpoint; train it with --checkpoint-every").in(options.what);
    if (!manifest)
        return manifest.error();
    return checkpoint::exportWeights(*manifest, options.out,
                                     options.dtype == "bf16" ? graph::DType::BF16 : graph::DType::F32);
}

Result<exporting::Configuration> scheduleOf(const plan::Document &document, exporting::PytorchForm form)
{
    const auto program = compile::compilePlan(document.plan, document.subject, {false});
    return program ? exporting::pytorchScheduleCsv(*program, form) : Result<exporting::Configuration>(program.error());
}

/// Configurations of other programs by format.
using Configure = Result<exporting::Configuration> (*)(const plan::Document &);
Configure configureOf(const std::string &format)
{
    using exporting::PytorchForm;
    static const std::map<std::string, Configure> table = {
        {"megatron", exporting::megatronArguments},
        {"deepspeed", exporting::deepSpeedConfig},
        {"torchtitan", exporting::torchtitanConfig},
        {"pytorch-csv", [](const plan::Document &document) { return scheduleOf(document, PytorchForm::ComputeOnly); }},
        {"pytorch-csv-comms",
         [](const plan::Document &document) { return scheduleOf(document, PytorchForm::ComputeComms); }}};
    const auto found = table.find(format);
    return found == table.end() ? nullptr : found->second;
}

/// @p notes: facts outside of the file, with its name in them.
Status writeConfiguration(const ExportOptions &options, const plan::Document &document, std::vector<std::string> &notes)
{
    auto made = configureOf(options.format)(document);
    if (!made)
        return made.error().in(options.what);
    if (auto written = writeFileAtomically(options.out, made->text); !written)
        return written;
    constexpr std::string_view kPlaceholder = "FILE";
    for (std::string &note : made->notes) {
        if (const std::size_t at = note.find(kPlaceholder); at != std::string::npos)
            note.replace(at, kPlaceholder.size(), options.out);
        notes.push_back(std::move(note));
    }
    return {};
}

Status writeFormat(const ExportOptions &options, const plan::Document &document, Output &output,
                   std::vector<std::string> &notes)
{
    const std::string &format = options.format;
    if (document.plan.admm && configureOf(format))
        return unsupported(
                   fmt::format("a plan that trains by ADMM cannot be exported to {}, which trains by gradients; "
                               "export its weights (safetensors)",
                               format))
            .in(options.what);
    if (format == "plan")
        return plan::writePlan(document, options.out);
    if (format == "model")
        return writeFileAtomically(options.out, graph::toJson(*document.subject.graph) + "\n");
    if (format == "cluster")
        return writeFileAtomically(options.out, cluster::toJson(*document.subject.cluster) + "\n");
    if (format == "safetensors")
        return writeWeights(options, output);
    if (configureOf(format))
        return writeConfiguration(options, document, notes);
    if (format == "dot")
        return writeFileAtomically(options.out, dotOf(document));
    if (format == "svg") {
        const auto svg = svgOf(document, output);
        return svg ? writeFileAtomically(options.out, *svg) : Status(svg.error());
    }
    if (format == "chrome-trace" || format == "perfetto-trace" || format == "task-csv" || format == "trace") {
        const auto trace = traceOf(options, document);
        if (!trace)
            return trace.error();
        if (isRunFolder(options.what)) {
            const auto [first, last] =
                std::minmax_element(trace->records.begin(), trace->records.end(),
                                    [](const trace::Record &a, const trace::Record &b) { return a.step < b.step; });
            if (first->step > 0)
                notes.push_back(
                    fmt::format("the run's trace has steps {} to {}, counted from 0", first->step, last->step));
        }
        return format == "trace"       ? trace::writeTrace(*trace, options.out)
            : format == "task-csv"     ? exporting::writeTaskTable(*trace, options.out)
            : format == "chrome-trace" ? exporting::writeChromeTrace(*trace, options.out)
                                       : exporting::writePerfettoTrace(*trace, options.out);
    }
    return failed(
        fmt::format("format {} has no writer", format)); // a row of exporting::formats() without a branch here
}

Status checkFormat(const std::string &wanted)
{
    std::string known;
    for (const auto &format : exporting::formats()) {
        if (format.name == wanted)
            return {};
        known += (known.empty() ? "" : ", ") + format.name;
    }
    return notFound(fmt::format("there is no format '{}'; choose one of {}", wanted, known));
}

} // namespace

Status exportTo(const ExportOptions &options, Output &output)
{
    if (auto good = checkFormat(options.format); !good)
        return good;
    if (auto good = checkWritable(options.out); !good)
        return good;
    const auto document = readPlanOrRun(options.what);
    if (!document)
        return document.error();
    std::vector<std::string> notes;
    if (auto written = writeFormat(options, *document, output, notes); !written)
        return written;
    output.line(fmt::format("{} written to {}", options.format, options.out));
    for (const std::string &note : notes)
        output.line("  " + note);
    ordered_json json = ordered_json::object();
    json["format"] = options.format;
    json["path"] = options.out;
    if (!notes.empty())
        json["notes"] = notes;
    output.result(json);
    return {};
}

} // namespace planloom::cli
