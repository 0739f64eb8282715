// SPDX-License-Identifier: Apache-2.0
// The search of PipeDream's partition against the same in plain Python, on the published profiles, 4 machines of 4
// devices, 12 and 1 GB/s: bench_pipedream [PYTHON]. Both must reach the same objective, the published optimizer's.
// Prints medians and ratios.
#include "engine/cluster/cluster.h"
#include "engine/import/import.h"
#include "planners/pipedream/pipedream.h"
#include "tests/bench/peer_process.h"
#include "tests/layer_table.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

using namespace planloom;
using namespace planloom::planners::pipedream;

namespace {

constexpr int kRepetitions = 15; // of ours
constexpr int kPeerRepetitions = 3;
constexpr std::size_t kMostStates = 2000;
constexpr double kSame = 1e-9;              // of two objectives that add up in another order
constexpr double kPrinted = 6e-4;           // the published figures have three decimals
constexpr double kPublishedSeconds = 14.75; // of the published program on resnet50, on 2 cores

struct Case {
    const char *table; ///< of tests/golden/profiles
    double speedup;    ///< over one device, the published optimizer's
};
constexpr Case kCases[] = {{"resnet50", 9.426}, {"vgg16", 9.676}, {"alexnet", 4.520}, {"gnmt", 7.106}};

struct Ours {
    Partition partition;
    std::size_t states = 0;
    double total = 0; ///< seconds of a micro-batch on one device
    std::vector<double> times;
};

Ours measureOurs(const std::vector<Layer> &layers, const std::vector<Level> &levels)
{
    Ours ours;
    NoProgress progress;
    for (int i = 0; i < kRepetitions; ++i) {
        const double begin = bench::now();
        const auto states = allStates(layers, kMostStates);
        ours.partition = partition(*states, levels, progress);
        ours.times.push_back(bench::now() - begin);
        ours.states = states->size();
        ours.total = states->back().seconds;
    }
    return ours;
}

std::string problemText(const std::vector<Layer> &layers, const std::vector<Level> &levels)
{
    nlohmann::json problem;
    for (const Layer &layer : layers)
        problem["layers"].push_back({{"seconds", layer.seconds},
                                     {"output_bytes", layer.outputBytes},
                                     {"parameter_bytes", layer.parameterBytes},
                                     {"inputs", layer.inputs}});
    for (const Level &level : levels)
        problem["levels"].push_back({{"parts", level.parts}, {"bandwidth", level.bandwidth}});
    return problem.dump();
}

/// Output of the Python program; discarded if it could not run.
nlohmann::json askPeer(const std::string &python, const std::string &problem)
{
    namespace fs = std::filesystem;
    const fs::path file =
        fs::temp_directory_path() / ("planloom-bench-pipedream-" + std::to_string(::getpid()) + ".json");
    std::ofstream(file) << problem;
    const fs::path script = fs::path(PLANLOOM_PEERS) / "pipedream.py";
    const std::string command =
        python + " '" + script.string() + "' '" + file.string() + "' " + std::to_string(kPeerRepetitions);
    std::string answer;
    if (std::FILE *pipe = ::popen(command.c_str(), "r")) {
        char buffer[4096];
        while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
            answer.append(buffer, n);
        ::pclose(pipe);
    }
    fs::remove(file);
    return nlohmann::json::parse(answer, nullptr, false);
}

/// True if both sides reach the published objective.
bool compare(const Case &each, const std::string &python)
{
    const auto model = import::readLayerProfile(testing::layerProfileText(each.table), each.table);
    auto cluster = cluster::preset("pipedream-4x4");
    if (!model || !cluster) {
        std::fprintf(stderr, "%s\n", (model ? cluster.error() : model.error()).text().c_str());
        return false;
    }
    planners::Problem problem;
    problem.subject = plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                        model->profile, model->source);
    const std::vector<Layer> layers = layersOf(problem, 1);
    const std::vector<Level> levels = levelsOf(*problem.subject.cluster);
    const Ours ours = measureOurs(layers, levels);
    const nlohmann::json peer = askPeer(python, problemText(layers, levels));
    if (peer.is_discarded()) {
        std::fprintf(stderr, "the Python program gave no answer; is '%s' Python 3?\n", python.c_str());
        return false;
    }
    const double speedup = ours.total / ours.partition.seconds;
    const double theirs = ours.total / peer["seconds"].get<double>();
    const double mine = bench::median(ours.times);
    const double python3 = bench::median(peer["times"].get<std::vector<double>>());
    const bool same = std::fabs(speedup / theirs - 1) < kSame && peer["states"].get<std::size_t>() == ours.states
        && std::fabs(speedup - each.speedup) < kPrinted;
    std::printf("%-13s %5zu states  objective %.3f x, Python %.3f x, published %.3f x%s  planloom %9.3f ms  Python "
                "%9.3f s  %7.0f x faster\n",
                each.table, ours.states, speedup, theirs, each.speedup, same ? "" : "  NOT THE SAME", mine * 1e3,
                python3, python3 / mine);
    if (std::string(each.table) == "resnet50")
        std::printf(
            "%-13s the published program took %.2f s on this profile (measured elsewhere, on 2 cores): %.0f x\n", "",
            kPublishedSeconds, kPublishedSeconds / mine);
    std::fflush(stdout);
    return same;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string python = argc > 1 ? argv[1] : "python3";
    bool same = true;
    for (const Case &each : kCases)
        same = compare(each, python) && same;
    return same ? 0 : 1;
}
