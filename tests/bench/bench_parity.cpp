// SPDX-License-Identifier: Apache-2.0
// Models that torch.onnx.export wrote, trained by this engine and by PyTorch from the same weights on the same samples:
// the losses of each step, how far they are apart, and what the importer recognised of what the exporter spelled out.
//     bench_parity [MODEL [STEPS [small | full [PYTHON]]]]        default all 20 full /usr/bin/python3
// MODEL: gpt2, bert, lstm, resnet50, vit_b_16, or all of these; small also llama, encoder, variants. The sizes are in
// peer/parity_models.py.
#include "engine/import/import.h"
#include "executor/runtime/sleeping_threads.h"
#include "tests/bench/peer_process.h"
#include "tests/executor/runtime/one_rank.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace planloom;
using bench::median;

struct Options {
    std::vector<std::string> models = {"gpt2", "bert", "lstm", "resnet50", "vit_b_16"};
    std::int64_t steps = 20;
    bool small = false;
    std::string python = "/usr/bin/python3";
};

Options parse(int argc, char **argv)
{
    Options options;
    if (argc > 1 && std::string(argv[1]) != "all")
        options.models = {argv[1]};
    if (argc > 2)
        options.steps = std::strtol(argv[2], nullptr, 10);
    options.small = argc > 3 && std::string(argv[3]) == "small";
    if (argc > 4)
        options.python = argv[4];
    return options;
}

/// The script's output; null if it failed.
nlohmann::json peerRun(const std::string &name, const std::filesystem::path &folder, const Options &options)
{
    const std::filesystem::path script = std::filesystem::path(PLANLOOM_PEERS) / "parity.py";
    const std::string command = options.python + " '" + script.string() + "' " + name + " '" + folder.string()
        + "' --steps " + std::to_string(options.steps) + (options.small ? " --small" : "");
    std::string answer;
    if (std::FILE *pipe = ::popen(command.c_str(), "r")) {
        char buffer[4096];
        while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
            answer.append(buffer, n);
        ::pclose(pipe);
    }
    const auto begin = answer.find('{'); // the exporter's warnings come first
    return begin == std::string::npos ? nlohmann::json() : nlohmann::json::parse(answer.substr(begin), nullptr, false);
}

plan::Optimizer optimizerOf(const nlohmann::json &how)
{
    plan::Optimizer optimizer;
    optimizer.rule = *update::ConfiguredRule::named(how["kind"].get<std::string>());
    for (const update::Setting &setting : optimizer.rule.rule().settings)
        if (const std::string name(setting.name); how.contains(name))
            (void)optimizer.rule.set(name, how[name]);
    optimizer.learningRate = how["learning_rate"];
    optimizer.weightDecay = how["weight_decay"];
    return optimizer;
}

void printRecognised(const graph::Graph &graph)
{
    std::printf("  recognised:");
    for (const char *type : {"Attention", "LayerNormalization", "RMSNormalization", "Gelu", "Silu"}) {
        const auto count =
            std::count_if(graph.ops().begin(), graph.ops().end(), [&](const graph::Op &op) { return op.type == type; });
        if (count > 0)
            std::printf(" %s %ld", type, static_cast<long>(count));
    }
    std::printf("; %zu operators, %.1f M parameters\n", graph.ops().size(),
                static_cast<double>(graph.parameterCount()) * 1e-6);
}

/// Trains what the script exported; the largest relative difference of losses.
Result<double> compare(const std::filesystem::path &folder, const nlohmann::json &peer)
{
    const auto model = import::loadModel((folder / "model.onnx").string());
    if (!model)
        return model.error();
    printRecognised(*model->graph);
    const auto needs = data::needsOf(*model->graph);
    if (!needs)
        return needs.error();
    const auto data = data::openDataSet((folder / "data").string(), *needs);
    if (!data)
        return data.error();
    test::OneRank::Options options;
    options.samples = peer["batch"];
    options.optimizer = optimizerOf(peer["optimizer"]);
    options.modelFolder = folder.string();
    const test::InOrder inOrder(**data, options.seed);
    auto rank = test::OneRank::make(model->graph, inOrder, options);
    if (!rank)
        return rank.error();
    double worst = 0;
    std::vector<double> seconds;
    const auto losses = peer["losses"].get<std::vector<double>>();
    for (std::size_t step = 0; step < losses.size(); ++step) {
        double loss = 0;
        seconds.push_back(bench::spentBy([&] { loss = (*rank)->step(); }).clock);
        const double apart = std::abs(loss - losses[step]) / std::abs(losses[step]);
        worst = std::isfinite(loss) ? std::max(worst, apart) : INFINITY;
        std::printf("  step %2zu   loss %.7f   PyTorch %.7f   %.1e\n", step, loss, losses[step], apart);
    }
    std::printf("  median step: %.3f s, PyTorch %.3f s\n", median(seconds),
                median(peer["seconds"].get<std::vector<double>>()));
    return worst;
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    const Options options = parse(argc, argv);
    int status = 0;
    std::string summary;
    for (const std::string &name : options.models) {
        const std::filesystem::path folder =
            std::filesystem::temp_directory_path() / ("planloom-parity-" + name + "-" + std::to_string(getpid()));
        const nlohmann::json peer = peerRun(name, folder, options);
        if (!peer.is_object()) {
            std::fprintf(stderr, "bench_parity: %s with torch and torchvision is needed\n", options.python.c_str());
            return 1;
        }
        std::printf("%s %s\n", name.c_str(), peer["sizes"].dump().c_str());
        const auto worst = compare(folder, peer);
        std::filesystem::remove_all(folder);
        if (worst) {
            char line[128];
            std::snprintf(line, sizeof line, "%-10s largest relative difference of %ld losses: %.2e\n", name.c_str(),
                          static_cast<long>(options.steps), *worst);
            summary += line;
        } else {
            std::fprintf(stderr, "bench_parity: %s: %s\n", name.c_str(), worst.error().text().c_str());
            status = 1;
        }
        std::fflush(stdout);
    }
    std::printf("%s", summary.c_str());
    return status;
}
