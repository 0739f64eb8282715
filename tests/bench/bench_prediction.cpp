// SPDX-License-Identifier: Apache-2.0
// Predicted against measured: pairs of model and layout are profiled (`planloom profile --plan`), predicted from that
// profile alone, and trained for some steps by real ranks. Prints per pair the predicted and the measured seconds of an
// iteration and the error; the arena of the fullest rank, predicted and measured to the byte, and its process's memory
// beyond it; and the share of the machine's time that went to other programs meanwhile, which is to be next to nothing
// if the figures are to mean anything. Then the median and the worst error. With ROUNDS every pair is profiled and
// trained so often, by turns, and medians are compared: for machines that have other work. usage: bench_prediction
// [STEPS AT LEAST] [PART OF A PAIR'S NAME] [ROUNDS] [FOLDER, which keeps plan.json, profile.json and run of the last
// pair]
#include "engine/base/files.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/import.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "tests/bench/planloom_command.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <unistd.h>

using namespace planloom;

namespace {

using GraphPointer = std::shared_ptr<const graph::Graph>;

enum class Layout { One, Data, Zero, Stages, Tensor };

struct Pair {
    std::string name;
    std::function<Result<graph::Graph>()> model;
    Layout layout;
    std::int64_t batch;
    std::int64_t microBatches;
};

Result<graph::Graph> gpt(const char *name, std::int64_t layers, std::int64_t hidden, std::int64_t context)
{
    graph::TransformerConfig config;
    config.name = name;
    config.layers = layers;
    config.heads = 4;
    config.hidden = hidden;
    config.feedForward = 4 * hidden;
    config.vocabulary = 256;
    config.context = context;
    return graph::gpt(config);
}

Result<graph::Graph> bertTiny()
{
    graph::TransformerConfig config;
    config.name = "bert-tiny";
    config.layers = 2;
    config.heads = 2;
    config.hidden = 128;
    config.feedForward = 512;
    config.vocabulary = 256;
    config.context = 128;
    return graph::bert(config);
}

Result<graph::Graph> lstm()
{
    graph::LstmConfig config;
    config.embedding = config.hidden = 128;
    config.vocabulary = 256;
    return graph::lstmLanguageModel(config);
}

/// Convolutions and a residual sum over 16 x 16 images, ten classes.
Result<graph::Graph> convolutions()
{
    using graph::DType;
    using graph::Initializer;
    using graph::Shape;
    graph::GraphBuilder builder("small-cnn");
    const Initializer weights{Initializer::Kind::Normal, 0, 0.05, nullptr, {}, 0};
    TensorId x = builder.input("x", DType::F32, Shape::batched({3, 16, 16}));
    const TensorId labels = builder.input("labels", DType::I64, Shape::batched({}));
    const auto convolution = [&](TensorId from, std::int64_t in, std::int64_t out, int number) {
        const TensorId w = builder.parameter(fmt::format("conv{}.weight", number), Shape::of({out, in, 3, 3}), weights);
        return builder.add("Conv", {from, w},
                           {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                            {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
    };
    builder.pushScope("stem");
    x = builder.add("Relu", {convolution(x, 3, 64, 0)});
    builder.popScope();
    for (int block = 1; block <= 3; ++block) {
        builder.pushScope("block" + std::to_string(block));
        x = builder.add("Relu", {builder.add("Add", {x, convolution(x, 64, 64, block)})});
        builder.popScope();
    }
    builder.pushScope("head");
    const TensorId pooled =
        builder.add("Flatten", {builder.add("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
    const TensorId w = builder.parameter("head.weight", Shape::of({10, 64}), weights);
    const TensorId loss = builder.add("SoftmaxCrossEntropyLoss",
                                      {builder.add("Gemm", {pooled, w}, {{"transB", std::int64_t{1}}}), labels});
    builder.popScope();
    builder.loss(loss);
    builder.output(loss);
    return std::move(builder).build();
}

/// Residual blocks with batch normalisation over 32 x 32 images, each stage at half the resolution and twice the width.
Result<graph::Graph> residual()
{
    using graph::DType;
    using graph::Initializer;
    using graph::Shape;
    using Sizes = std::vector<std::int64_t>;
    graph::GraphBuilder builder("small-resnet");
    const Initializer weights{Initializer::Kind::Normal, 0, 0.05, nullptr, {}, 0};
    const auto filled = [](double value) {
        return Initializer{value == 0 ? Initializer::Kind::Zeros : Initializer::Kind::Ones, 0, 0, nullptr, {}, 0};
    };
    int number = 0;
    const auto unit = [&](TensorId from, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
        const std::string name = "conv" + std::to_string(number++);
        const TensorId w = builder.parameter(name + ".weight", Shape::of({out, in, kernel, kernel}), weights);
        const TensorId y = builder.add("Conv", {from, w},
                                       {{"kernel_shape", Sizes{kernel, kernel}},
                                        {"strides", Sizes{stride, stride}},
                                        {"pads", Sizes(4, kernel / 2)}});
        return builder.add("BatchNormalization",
                           {y, builder.parameter(name + ".scale", Shape::of({out}), filled(1)),
                            builder.parameter(name + ".bias", Shape::of({out}), filled(0)),
                            builder.state(name + ".mean", Shape::of({out}), filled(0)),
                            builder.state(name + ".var", Shape::of({out}), filled(1))},
                           {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", std::int64_t{1}}});
    };
    builder.pushScope("stem");
    TensorId x = builder.input("x", DType::F32, Shape::batched({3, 32, 32}));
    const TensorId labels = builder.input("labels", DType::I64, Shape::batched({}));
    x = builder.add("Relu", {unit(x, 3, 32, 3, 1)});
    builder.popScope();
    for (std::int64_t block = 0, width = 32; block < 3; ++block, width *= 2) {
        builder.pushScope("block" + std::to_string(block));
        const TensorId main = unit(builder.add("Relu", {unit(x, width, 2 * width, 3, 2)}), 2 * width, 2 * width, 3, 1);
        x = builder.add("Relu", {builder.add("Add", {main, unit(x, width, 2 * width, 1, 2)})});
        builder.popScope();
    }
    builder.pushScope("head");
    const TensorId pooled =
        builder.add("Flatten", {builder.add("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
    const TensorId w = builder.parameter("head.weight", Shape::of({10, 256}), weights);
    const TensorId loss = builder.add("SoftmaxCrossEntropyLoss",
                                      {builder.add("Gemm", {pooled, w}, {{"transB", std::int64_t{1}}}), labels});
    builder.popScope();
    builder.loss(loss);
    builder.output(loss);
    return std::move(builder).build();
}

/// GPT-2 124M with a shorter context: large enough that its arena is most of its process.
Result<graph::Graph> gpt2()
{
    graph::TransformerConfig config;
    config.name = "gpt2-256";
    config.context = 256;
    return graph::gpt(config);
}

std::vector<Pair> pairs()
{
    const auto nano = [] { return gpt("nano", 4, 128, 64); };
    const auto wide = [] { return gpt("wide", 4, 256, 128); };
    const auto perceptron = [] { return graph::mlp("perceptron", {64, 2048, 2048, 10}); };
    return {
        {"gpt-nano, 1 rank", nano, Layout::One, 32, 2},
        {"gpt-nano, 2 data parallel", nano, Layout::Data, 32, 2},
        {"gpt-nano, 2 stages", nano, Layout::Stages, 32, 4},
        {"gpt-nano, tensor parallel", nano, Layout::Tensor, 32, 2},
        {"gpt-wide, 1 rank", wide, Layout::One, 16, 2},
        {"gpt-wide, 2 data parallel", wide, Layout::Data, 16, 2},
        {"gpt-wide, 2 stages", wide, Layout::Stages, 16, 4},
        {"gpt-wide, tensor parallel", wide, Layout::Tensor, 16, 2},
        {"perceptron, 1 rank", perceptron, Layout::One, 256, 1},
        {"perceptron, 2 data parallel", perceptron, Layout::Data, 256, 1},
        {"bert-tiny, 1 rank", bertTiny, Layout::One, 16, 1},
        {"bert-tiny, 2 data parallel", bertTiny, Layout::Data, 16, 1},
        {"bert-tiny, 2 stages", bertTiny, Layout::Stages, 16, 4},
        {"cnn, 1 rank", convolutions, Layout::One, 32, 1},
        {"cnn, 2 data parallel", convolutions, Layout::Data, 32, 1},
        {"lstm, 1 rank", lstm, Layout::One, 32, 1},
        {"lstm, 2 data parallel", lstm, Layout::Data, 32, 1},
        {"gpt-wide, ZeRO 2", wide, Layout::Zero, 16, 2},
        {"perceptron, ZeRO 2", perceptron, Layout::Zero, 256, 1},
        {"resnet, 1 rank", residual, Layout::One, 32, 1},
        {"resnet, 2 data parallel", residual, Layout::Data, 32, 1},
        {"gpt2-124m, 1 rank", gpt2, Layout::One, 1, 1},
    };
}

/// Parameters of a transformer split by columns, then by rows; queries, keys and values each for themselves.
std::map<std::string, std::string> columnsThenRows(const graph::Graph &graph)
{
    const TensorId packed = graph.find("transformer.h.0.attn.c_attn.bias");
    const std::int64_t width = packed.valid() ? graph.tensor(packed).shape.elements(1) / 3 : 0;
    const std::string three = fmt::format("{0}+{0}+{0}", width);
    return {{"*.attn.c_attn.weight", "B,S(1:" + three + ")"},
            {"*.attn.c_attn.bias", "B,S(0:" + three + ")"},
            {"*.attn.c_proj.weight", "B,S(0)"},
            {"*.mlp.c_fc.weight", "B,S(1)"},
            {"*.mlp.c_fc.bias", "B,S(0)"},
            {"*.mlp.c_proj.weight", "B,S(0)"}};
}

plan::Plan planOf(const Pair &pair, const plan::Subject &subject)
{
    plan::Plan made;
    made.modelName = subject.graph->name();
    made.modelSource = "zoo:" + made.modelName;
    made.clusterName = subject.cluster->name();
    made.planner.name = "manual";
    made.globalBatch = pair.batch;
    made.microBatches = pair.microBatches;
    const std::size_t layers = subject.layers().size();
    plan::Stage stage;
    stage.name = "stage0";
    stage.lastLayer = layers;
    stage.devices = {DeviceId(0)};
    if (pair.layout == Layout::Data || pair.layout == Layout::Zero || pair.layout == Layout::Tensor)
        stage.devices.emplace_back(1);
    if (pair.layout == Layout::Zero)
        stage.zero = 2;
    if (pair.layout == Layout::Tensor) {
        stage.mesh = {1, 2};
        stage.shardings = columnsThenRows(*subject.graph);
    }
    if (pair.layout == Layout::Stages)
        stage.lastLayer = layers / 2;
    made.stages = {stage};
    if (pair.layout == Layout::Stages) {
        stage.name = "stage1";
        stage.firstLayer = layers / 2;
        stage.lastLayer = layers;
        stage.devices = {DeviceId(1)};
        made.stages.push_back(stage);
    }
    return made;
}

/// Numbers for models that take features: rows of values and a class.
Status writeFeatures(const std::string &path, std::int64_t columns)
{
    std::string text;
    for (int row = 0; row < 512; ++row) {
        for (std::int64_t column = 0; column < columns; ++column)
            text += fmt::format("{},", (row * 31 + column * 17) % 101 * 0.02 - 1);
        text += fmt::format("{}\n", row % 10);
    }
    return writeFileAtomically(path, text);
}

/// Seconds that processors of this machine have worked so far: all together, and for this program and the ones that it
/// has started and seen end.
class Work {
public:
    static Work now()
    {
        Work work;
        std::ifstream stat("/proc/stat");
        std::string cpu;
        double ticks[8] = {}; // user nice system idle iowait irq softirq steal
        stat >> cpu;
        for (double &value : ticks)
            stat >> value;
        constexpr std::size_t kIdle = 3;
        constexpr std::size_t kWait = 4;
        const double perSecond = static_cast<double>(::sysconf(_SC_CLK_TCK));
        for (std::size_t i = 0; i < std::size(ticks); ++i)
            (i == kIdle || i == kWait ? work.m_idle : work.m_all) += ticks[i] / perSecond;
        for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
            rusage usage{};
            ::getrusage(who, &usage);
            for (const timeval &time : {usage.ru_utime, usage.ru_stime})
                work.m_own += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
        }
        return work;
    }
    /// Of the machine's time since @p begin, the share that went to others.
    [[nodiscard]] double othersSince(const Work &begin) const
    {
        const double others = m_all - begin.m_all - (m_own - begin.m_own);
        return std::max(others, 0.0) / std::max(m_all - begin.m_all + m_idle - begin.m_idle, 1e-9);
    }

private:
    double m_all = 0;
    double m_idle = 0;
    double m_own = 0;
};

struct Outcome {
    double predicted = 0;
    double measured = 0;
    std::int64_t arenaPredicted = 0; ///< of the fullest rank
    std::int64_t arenaMeasured = 0;
    std::int64_t beyond = 0; ///< of the same rank's process
};

constexpr double kLongEnough = 2; ///< seconds of training
constexpr int kMostTimes = 10;

class Bench {
public:
    Bench(std::string folder, int steps) : m_folder(std::move(folder)), m_steps(steps) {}

    Result<Outcome> run(const Pair &pair)
    {
        auto graph = pair.model();
        if (!graph)
            return graph.error();
        const auto model = std::make_shared<const graph::Graph>(std::move(*graph));
        const auto cluster = import::loadCluster(pair.layout == Layout::One ? "local" : "local:2");
        if (!cluster)
            return cluster.error();
        const std::string planFile = m_folder + "/plan.json";
        plan::Subject subject = plan::makeSubject(model, *cluster, nullptr, "zoo:" + model->name());
        const plan::Plan made = planOf(pair, subject);
        if (const Status written = plan::writePlan({made, subject}, planFile); !written)
            return written.error();
        const std::string profileFile = m_folder + "/profile.json";
        if (const auto ran = bench::planloom({"profile", "--plan", planFile, "-o", profileFile, "--quiet"}); !ran)
            return ran.error();
        const auto text = readFile(profileFile);
        auto profile = text ? cost::profileFromJson(*text) : Result<cost::Profile>(text.error());
        if (!profile)
            return profile.error();
        subject = plan::makeSubject(model, *cluster, std::make_shared<const cost::Profile>(std::move(*profile)),
                                    "zoo:" + model->name());
        if (const Status written = plan::writePlan({made, subject}, planFile); !written)
            return written.error();
        const auto simulated = simulate::simulatePlan(made, subject, {.trace = false, .memory = false});
        if (!simulated)
            return simulated.error();
        return train(*model, planFile, simulated->report.iterationSeconds);
    }

    /// Medians of both times over @p rounds, the memory of the last.
    Result<Outcome> runOften(const Pair &pair, int rounds)
    {
        std::vector<double> predicted;
        std::vector<double> measured;
        Result<Outcome> outcome = failed("no round was asked for");
        for (int round = 0; round < rounds; ++round) {
            outcome = run(pair);
            if (!outcome)
                return outcome;
            predicted.push_back(outcome->predicted);
            measured.push_back(outcome->measured);
        }
        if (outcome) {
            outcome->predicted = median(std::move(predicted));
            outcome->measured = median(std::move(measured));
        }
        return outcome;
    }

private:
    static double median(std::vector<double> values)
    {
        std::ranges::sort(values);
        return values[values.size() / 2];
    }

    Result<Outcome> train(const graph::Graph &model, const std::string &planFile, double predicted)
    {
        std::string data = "/usr/share/common-licenses/GPL-3";
        if (const TensorId x = model.find("x"); x.valid()) {
            data = m_folder + "/features.csv";
            if (const Status written = writeFeatures(data, model.tensor(x).shape.elements(1)); !written)
                return written.error();
        }
        // Short steps are done more often: what disturbs a machine lasts for a while.
        const int steps =
            std::clamp(static_cast<int>(kLongEnough / std::max(predicted, 1e-6)), m_steps, kMostTimes * m_steps);
        const std::string runFolder = m_folder + "/run";
        std::filesystem::remove_all(runFolder);
        const auto text = bench::planloom(
            {"train", planFile, "--data", data, "--steps", std::to_string(steps), "--run-dir", runFolder, "--json"});
        if (!text)
            return text.error();
        const auto begin = text->find("{\"summary\"");
        const auto last =
            begin == std::string::npos ? nlohmann::json() : nlohmann::json::parse(text->substr(begin), nullptr, false);
        if (!last.is_object() || !last.contains("summary"))
            return failed("train said: " + *text);
        const auto &summary = last.at("summary");
        const auto measured = summary.at("peak_bytes_measured").get<std::vector<std::int64_t>>();
        const auto fullest =
            static_cast<std::size_t>(std::max_element(measured.begin(), measured.end()) - measured.begin());
        return Outcome{summary.at("predicted_iteration_seconds").get<double>(),
                       summary.at("iteration_seconds_median").get<double>(),
                       summary.at("peak_bytes_predicted").at(fullest).get<std::int64_t>(), measured.at(fullest),
                       summary.at("beyond_arena_bytes").at(fullest).get<std::int64_t>()};
    }

    std::string m_folder;
    int m_steps;
};

} // namespace

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
    const std::string wanted = argc > 2 ? argv[2] : "";
    const int rounds = argc > 3 ? std::max(std::atoi(argv[3]), 1) : 1;
    const bool keeps = argc > 4;
    const std::string folder = keeps
        ? argv[4]
        : (std::filesystem::temp_directory_path() / fmt::format("planloom-prediction-{}", ::getpid())).string();
    std::filesystem::create_directories(folder);
    Bench pairsBench(folder, steps);
    std::vector<double> errors;
    fmt::print("{:<26} {:>12} {:>11} {:>7}  {:>13} {:>10} {:>11} {:>6}  {:>6}\n", "", "predicted ms", "measured ms",
               "error", "arena bytes", "predicted", "beyond MiB", "share", "others");
    for (const Pair &pair : pairs()) {
        if (pair.name.find(wanted) == std::string::npos)
            continue;
        const Work begin = Work::now();
        const auto outcome = pairsBench.runOften(pair, rounds);
        if (!outcome) {
            fmt::print("{:<30} {}\n", pair.name, outcome.error().text());
            continue;
        }
        const double error = outcome->predicted / outcome->measured - 1;
        errors.push_back(std::abs(error));
        fmt::print("{:<26} {:>12.2f} {:>11.2f} {:>+6.1f}%  {:>13} {:>10} {:>11.1f} {:>5.0f}%  {:>5.1f}%\n", pair.name,
                   outcome->predicted * 1e3, outcome->measured * 1e3, error * 100, outcome->arenaMeasured,
                   outcome->arenaMeasured == outcome->arenaPredicted ? "equal" : "NOT EQUAL",
                   static_cast<double>(outcome->beyond) / (1 << 20),
                   static_cast<double>(outcome->beyond) / static_cast<double>(outcome->arenaMeasured) * 100,
                   Work::now().othersSince(begin) * 100);
        std::fflush(stdout);
    }
    std::error_code ignored;
    if (!keeps)
        std::filesystem::remove_all(folder, ignored);
    if (errors.empty())
        return 1;
    std::sort(errors.begin(), errors.end());
    fmt::print("{} pairs: median error {:.1f} %, worst {:.1f} %\n", errors.size(), errors[errors.size() / 2] * 100,
               errors.back() * 100);
    return 0;
}
