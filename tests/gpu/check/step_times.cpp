// SPDX-License-Identifier: Apache-2.0
#include "engine/base/statistics.h"
#include "engine/import/import.h"
#include "engine/simulate/simulate.h"
#include "executor/data/data_set.h"
#include "executor/device/plugin/library.h"
#include "gpu/check/checks.h"
#include "gpu/check/training.h"
#include "profiler/profile_model.h"
#include "tests/bench/peer_process.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace planloom::check {

namespace {

constexpr std::int64_t kWarmUp = 3; ///< first steps that are not timed; PyTorch compiles in its first
constexpr std::int64_t kSteps = 10;
constexpr std::int64_t kLargest = 1 << 20;

using Words = std::vector<std::string>;

/// What PyTorch's program is asked for: a GPT by GPT-2's names of parameters; empty: another model.
Words peerGpt(const graph::Graph &graph)
{
    const TensorId table = graph.find("transformer.wte.weight");
    const TensorId wide = graph.find("transformer.h.0.mlp.c_fc.weight");
    std::int64_t layers = 0, heads = 0, width = 0, context = 0;
    for (const graph::Op &op : graph.ops()) {
        if (op.type != "Attention")
            continue;
        ++layers;
        heads = op.integer("heads");
        context = graph.tensor(op.outputs[0]).shape[1].size;
        width = graph.tensor(op.outputs[0]).shape[2].size;
    }
    if (layers == 0 || !table.valid() || !wide.valid())
        return {};
    Words words{"gpt"};
    for (const std::int64_t size :
         {layers, heads, width, graph.tensor(wide).shape[1].size, graph.tensor(table).shape[0].size, context})
        words.push_back(std::to_string(size));
    return words;
}

/// The same for a ResNet of bottlenecks, by the names of the zoo's.
Words peerResnet(const std::string &model, const graph::Graph &graph)
{
    static const std::map<std::string, const char *> kDepths{{"zoo:resnet-50", "3,4,6,3"},
                                                             {"zoo:resnet-101", "3,4,23,3"}};
    const auto depths = kDepths.find(model);
    if (depths == kDepths.end())
        return {};
    std::int64_t classes = 0, size = 0;
    for (const graph::Op &op : graph.ops()) {
        if (op.type == "Conv" && size == 0)
            size = graph.tensor(op.inputs[0]).shape[2].size;
        if (op.type == "SoftmaxCrossEntropyLoss")
            classes = graph.tensor(op.inputs[0]).shape[1].size;
    }
    return {"resnet", depths->second, std::to_string(classes), std::to_string(size)};
}

double tokensOf(const graph::Graph &graph)
{
    const auto needs = data::needsOf(graph);
    return needs && needs->kind == data::Needs::Kind::Tokens ? static_cast<double>(needs->perSample) : 0;
}

std::string besideThisProgram(const char *name)
{
    std::error_code unknown;
    return (std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() / name).string();
}

/// Seconds of steps behind the warm-up.
double medianOf(const std::vector<double> &seconds)
{
    return seconds.size() <= kWarmUp ? 0 : median({seconds.begin() + kWarmUp, seconds.end()});
}

void timePeer(StepRow &row, const graph::Graph &graph, const std::string &python)
{
    Words model = peerGpt(graph);
    if (model.empty())
        model = peerResnet(row.model, graph);
    if (python.empty() || model.empty()) {
        row.peerNote = python.empty() ? "no PyTorch" : "no such model there";
        return;
    }
    Words arguments{besideThisProgram("bench_gpu_torch.py")};
    arguments.insert(arguments.end(), model.begin(), model.end());
    for (const std::string &word : {std::to_string(row.batch), std::to_string(row.microBatch), row.precision})
        arguments.push_back(word);
    bench::Peer peer("/usr/bin/env", python, arguments);
    std::vector<double> seconds;
    double loss = 0;
    bench::Spent spent;
    if (peer.waitUntilReady())
        while (seconds.size() < kWarmUp + kSteps && peer.step(&loss, &spent))
            seconds.push_back(spent.clock);
    row.peer = medianOf(seconds);
    row.peerNote = row.peer > 0 ? "" : "PyTorch failed: see above";
}

/// The plan's seconds by a profile that is measured now.
Result<double> predict(const plan::Plan &plan, const plan::Subject &subject, int index)
{
    profiler::ProfileOptions how;
    how.device = "cuda:" + std::to_string(index);
    how.deviceType = subject.cluster->typeOf(DeviceId(0)).name;
    NoProgress progress;
    auto profile = profiler::profilePlan(plan, subject, how, progress);
    if (!profile)
        return profile.error();
    const plan::Subject measured =
        plan::makeSubject(subject.graph, subject.cluster, std::make_shared<const cost::Profile>(std::move(*profile)),
                          subject.modelSource);
    const auto simulation = simulate::simulatePlan(plan, plan::inPrecision(measured, plan.precision), {false, false});
    if (!simulation)
        return simulation.error();
    return simulation->report.iterationSeconds;
}

Status timeOurs(StepRow &row, const plan::Subject &subject, int index)
{
    const plan::Plan plan = planOf(subject, row.batch, row.microBatch, *plan::precisionFromName(row.precision));
    // Without records first: CUPTI stays in the process once it has been asked for any.
    const std::pair<Recorded, double StepRow::*> passes[]{{Recorded::Nothing, &StepRow::seconds},
                                                          {Recorded::Graphs, &StepRow::graphSeconds},
                                                          {Recorded::Kernels, &StepRow::kernelSeconds}};
    for (const auto &[what, seconds] : passes) {
        const auto trained = trainRecorded(subject, plan, kWarmUp + kSteps, index, what);
        if (!trained && what == Recorded::Nothing)
            return trained.error();
        if (trained && (what == Recorded::Nothing || trained->recorded > 0))
            row.*seconds = medianOf(trained->seconds);
    }
    const auto predicted = predict(plan, subject, index);
    if (!predicted)
        return predicted.error();
    row.predicted = *predicted;
    return {};
}

bool parsed(std::string_view text, std::int64_t &number)
{
    const char *end = text.data() + text.size();
    const auto got = std::from_chars(text.data(), end, number);
    return got.ec == std::errc() && got.ptr == end && number >= 1 && number <= kLargest;
}

} // namespace

Result<Timed> timedOf(const std::string &text)
{
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    Timed timed;
    const bool good = parts.size() == 4 && parsed(parts[1], timed.batch) && parsed(parts[2], timed.microBatch)
        && timed.microBatch <= timed.batch && plan::precisionFromName(parts[3]);
    if (!good)
        return badInput("'" + text
                        + "' is no step to time; write MODEL,BATCH,MICRO-BATCH,PRECISION, such as "
                          "zoo:gpt2,64,8,bf16");
    timed.model = parts[0];
    timed.precision = parts[3];
    return timed;
}

StepRow timeSteps(int index, const Timed &what, const std::string &python, const Say &say)
{
    StepRow row;
    row.model = what.model;
    row.precision = what.precision;
    row.batch = what.batch;
    row.microBatch = what.microBatch;
    const auto model = import::loadModel(what.model);
    const auto gpus = device::cudaDevices();
    if (!model || !gpus) {
        row.wrong = !model ? model.error().text() : gpus.error().text();
        return row;
    }
    const auto cluster = clusterOf((*gpus)[static_cast<std::size_t>(index)]);
    if (!cluster) {
        row.wrong = cluster.error().text();
        return row;
    }
    row.tokens = tokensOf(*model->graph);
    say(fmt::format("{} in {}: {} steps, and a profile", what.model, what.precision, kWarmUp + kSteps));
    const Status timed = timeOurs(row, plan::makeSubject(model->graph, *cluster, nullptr, what.model), index);
    if (!timed)
        row.wrong = timed.error().text();
    say(fmt::format("{} in PyTorch", what.model));
    timePeer(row, *model->graph, python);
    return row;
}

Result<std::string> peerOf(const std::string &python)
{
    const std::string question = "import torch; print(torch.__version__ if torch.cuda.is_available() else 'no GPU')";
    int answer[2];
    if (python.empty() || ::pipe(answer) != 0)
        return notFound("no PyTorch: it was not asked for");
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(answer[1], STDOUT_FILENO);
        ::close(answer[0]);
        if (std::freopen("/dev/null", "w", stderr) == nullptr)
            ::_exit(127);
        ::execlp(python.c_str(), python.c_str(), "-c", question.c_str(), nullptr);
        ::_exit(127);
    }
    ::close(answer[1]);
    std::string version;
    char buffer[256];
    for (ssize_t got = 0; (got = ::read(answer[0], buffer, sizeof buffer)) > 0;)
        version.append(buffer, static_cast<std::size_t>(got));
    ::close(answer[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    version = version.substr(0, version.find('\n'));
    if (status != 0 || version.empty() || version == "no GPU")
        return notFound("no PyTorch: " + python + (version == "no GPU" ? " has one without a GPU" : " has none"));
    return version;
}

} // namespace planloom::check
