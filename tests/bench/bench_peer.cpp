// SPDX-License-Identifier: Apache-2.0
// GPT-2 training steps of this engine and of PyTorch, taken in turn with the same weights, samples and optimizer: time,
// ratio, rate against the machine's rate of one large matrix product, and how far the losses are apart. On a machine
// that does other work too, the seconds of processor time per core tell more than those of the clock: both are printed.
//     bench_peer [MODEL [STEPS [SAMPLES [fp32 | bf16 [PYTHON]]]]]        default zoo:gpt2 5 1 fp32 /usr/bin/python3
// FLOPs are counted as 6 N + 6 L C T a token (N parameters, the shared table once; L layers of width C over T tokens,
// causal).
#include "engine/import/import.h"
#include "executor/device/kernel.h"
#include "executor/runtime/sleeping_threads.h"
#include "tests/bench/peer_process.h"
#include "tests/executor/runtime/one_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace planloom;
using bench::cores;
using bench::median;
using bench::processorSeconds;
using bench::Spent;
using bench::Times;

constexpr std::int64_t kSeed = 1;
constexpr int kWarmUp = 1; ///< first steps that are not timed

struct Options {
    std::string model = "zoo:gpt2";
    std::int64_t steps = 5;
    std::int64_t samples = 1;
    plan::Precision precision = plan::Precision::Float32;
    std::string python = "/usr/bin/python3";
};

Options parse(int argc, char **argv)
{
    Options options;
    if (argc > 1)
        options.model = argv[1];
    if (argc > 2)
        options.steps = std::strtol(argv[2], nullptr, 10);
    if (argc > 3)
        options.samples = std::strtol(argv[3], nullptr, 10);
    if (argc > 4 && std::string(argv[4]) == "bf16")
        options.precision = plan::Precision::BFloat16;
    if (argc > 5)
        options.python = argv[5];
    return options;
}

/// Sequences in which each token has a likely successor, so that there is something to learn.
class Sequences final : public data::DataSet {
public:
    explicit Sequences(const data::Needs &needs) : m_needs(needs) {}
    [[nodiscard]] std::int64_t samples() const override { return 1 << 16; }
    void fillInput(std::int64_t sample, void *out) const override
    {
        for (std::int64_t i = 0; i < m_needs.perSample; ++i)
            static_cast<std::int64_t *>(out)[i] = token(sample, i);
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        for (std::int64_t i = 0; i < m_needs.perSample; ++i)
            out[i] = token(sample, i + 1);
    }

private:
    [[nodiscard]] std::int64_t token(std::int64_t sample, std::int64_t i) const
    {
        const auto mixed = (static_cast<std::uint64_t>(sample + i / 4) + 1) * 0x9e3779b97f4a7c15U >> 40;
        return static_cast<std::int64_t>((mixed + static_cast<std::uint64_t>(i % 4) * 7)
                                         % static_cast<std::uint64_t>(m_needs.classes));
    }
    data::Needs m_needs;
};

/// The peer's description of the model, from its operators.
struct Sizes {
    std::int64_t layers = 0, heads = 0, width = 0, context = 0;
};

Sizes sizesOf(const graph::Graph &graph)
{
    Sizes sizes;
    for (const graph::Op &op : graph.ops()) {
        if (op.type != "Attention")
            continue;
        ++sizes.layers;
        sizes.heads = op.integer("heads");
        sizes.context = graph.tensor(op.outputs[0]).shape[1].size;
        sizes.width = graph.tensor(op.outputs[0]).shape[2].size;
    }
    return sizes;
}

void writeExchange(const std::filesystem::path &folder, const graph::Graph &graph, const test::OneRank &ours,
                   const Options &options)
{
    const Sizes sizes = sizesOf(graph);
    const plan::Optimizer &how = ours.plan().optimizer;
    std::ofstream settings(folder / "settings.txt");
    settings << "layers " << sizes.layers << "\nheads " << sizes.heads << "\ncontext " << sizes.context << "\nbatch "
             << options.samples << "\nthreads " << std::thread::hardware_concurrency() << "\nlearning_rate "
             << how.learningRate << "\nbeta1 " << how.rule.setting("beta1") << "\nbeta2 " << how.rule.setting("beta2")
             << "\nepsilon " << how.rule.setting("epsilon") << "\nweight_decay " << how.weightDecay << "\n";
    std::ofstream index(folder / "weights.txt");
    std::ofstream weights(folder / "weights.bin", std::ios::binary);
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role != graph::TensorRole::Parameter)
            continue;
        std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements(1)));
        if (!device::initialize(tensor, tensor.shape.elements(1), kSeed, {}, values.data()))
            std::abort();
        index << tensor.name;
        for (const std::int64_t size : tensor.shape.at(1))
            index << " " << size;
        index << "\n";
        weights.write(reinterpret_cast<const char *>(values.data()),
                      static_cast<std::streamsize>(values.size() * sizeof(float)));
    }
    std::ofstream tokens(folder / "tokens.bin", std::ios::binary);
    std::vector<std::int64_t> row(static_cast<std::size_t>(sizes.context));
    for (std::int64_t step = 0; step < options.steps + kWarmUp; ++step) {
        for (const bool labels : {false, true}) {
            for (std::int64_t i = 0; i < options.samples; ++i) {
                const std::int64_t sample = ours.feed().order.sampleIndex(step, options.samples, i);
                if (labels)
                    ours.feed().data->fillLabels(sample, row.data());
                else
                    ours.feed().data->fillInput(sample, row.data());
                tokens.write(reinterpret_cast<const char *>(row.data()),
                             static_cast<std::streamsize>(row.size() * sizeof(std::int64_t)));
            }
        }
    }
}

/// A 1024 x 1024 x 1024 product; the best of all calls is the machine's rate.
class Product {
public:
    Product() : m_data(static_cast<std::size_t>(3 * kSize * kSize), 0.5F)
    {
        graph::Op op;
        op.type = op.name = "MatMul";
        const device::Argument matrix{graph::DType::F32, {kSize, kSize}};
        auto kernel = device::makeKernel(op, {matrix, matrix}, {matrix});
        if (kernel)
            m_kernel = std::move(*kernel);
    }

    void measure()
    {
        const void *inputs[] = {m_data.data(), m_data.data() + kSize * kSize};
        void *outputs[] = {m_data.data() + 2 * kSize * kSize};
        for (int run = 0; m_kernel && run < 10; ++run) {
            const double begin = processorSeconds();
            m_kernel->run(inputs, outputs);
            m_best = std::min(m_best, (processorSeconds() - begin) / cores());
        }
    }

    /// By processor time.
    [[nodiscard]] double flopsPerSecond() const { return 2.0 * static_cast<double>(kSize * kSize * kSize) / m_best; }

private:
    static constexpr std::int64_t kSize = 1024;
    std::vector<float> m_data;
    std::unique_ptr<device::Kernel> m_kernel;
    double m_best = 1e9;
};

double flopsOfStep(const graph::Graph &graph, std::int64_t samples)
{
    const Sizes sizes = sizesOf(graph);
    const double perToken = 6.0 * static_cast<double>(graph.parameterCount())
        + 6.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
    return perToken * static_cast<double>(samples * sizes.context);
}

void report(const Times &ours, const Times &peer, double flops, double machine)
{
    std::printf("median step by the clock: ours %.3f s, PyTorch %.3f s, ratio %.2f\n", median(ours.clock),
                median(peer.clock), median(peer.clock) / median(ours.clock));
    const double seconds = median(ours.processor);
    std::printf("by processor time per core: ours %.3f s, PyTorch %.3f s, ratio %.2f\n", seconds,
                median(peer.processor), median(peer.processor) / seconds);
    std::printf(
        "ours %.1f GFLOP/s (6N + 6LCT), %.1f %% of the %.1f GFLOP/s of one fp32 product; PyTorch %.1f GFLOP/s\n",
        flops / seconds * 1e-9, 100 * flops / seconds / machine, machine * 1e-9, flops / median(peer.processor) * 1e-9);
}

int compare(test::OneRank &ours, bench::Peer &peer, const graph::Graph &graph, const Options &options)
{
    Product product;
    Times ourTimes;
    Times peerTimes;
    double worstLoss = 0;
    for (std::int64_t step = 0; step < options.steps + kWarmUp; ++step) {
        product.measure();
        Spent peerSpent;
        double peerLoss = 0;
        double ourLoss = 0;
        const Spent ourSpent = bench::spentBy([&] { ourLoss = ours.step(); });
        if (!peer.step(&peerLoss, &peerSpent)) {
            std::fprintf(stderr, "bench_peer: the peer stopped; it needs %s with torch\n", options.python.c_str());
            return 1;
        }
        const double apart = std::abs(ourLoss - peerLoss) / std::abs(peerLoss);
        worstLoss = std::max(worstLoss, apart);
        std::printf("step %3ld   loss %.6f %.6f (%.1e)   seconds %.3f %.3f   of processor %.3f %.3f\n",
                    static_cast<long>(step), ourLoss, peerLoss, apart, ourSpent.clock, peerSpent.clock,
                    ourSpent.processor, peerSpent.processor);
        std::fflush(stdout);
        if (step < kWarmUp)
            continue;
        ourTimes.add(ourSpent);
        peerTimes.add(peerSpent);
    }
    report(ourTimes, peerTimes, flopsOfStep(graph, options.samples), product.flopsPerSecond());
    std::printf("largest relative difference of losses: %.2e\n", worstLoss);
    return 0;
}

int refuse(const Error &error)
{
    std::fprintf(stderr, "bench_peer: %s\n", error.text().c_str());
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    const Options options = parse(argc, argv);
    const auto model = import::loadModel(options.model);
    if (!model)
        return refuse(model.error());
    const auto needs = data::needsOf(*model->graph);
    if (!needs)
        return refuse(needs.error());
    const Sequences data(*needs);
    test::OneRank::Options how;
    how.samples = options.samples;
    how.seed = kSeed;
    how.precision = options.precision;
    how.optimizer.learningRate = 1e-4;
    auto ours = test::OneRank::make(model->graph, data, how);
    if (!ours)
        return refuse(ours.error());
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("planloom-peer-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    writeExchange(folder, *model->graph, **ours, options);
    int status = 0;
    {
        bench::Peer peer(options.python, PLANLOOM_PEERS "/gpt2.py", {folder.string()});
        status = compare(**ours, peer, *model->graph, options);
    }
    std::filesystem::remove_all(folder);
    return status;
}
