// SPDX-License-Identifier: Apache-2.0
// Where a training step's time goes: every operator of a model's forward and backward pass on this machine, by type and
// shape, with floating-point rate, beside the rate of one large matrix product measured in the same run.
//     bench_operators [MODEL [SAMPLES]]        MODEL as for --model; default zoo:gpt2 and 1
#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/rewrite/fuse.h"
#include "engine/graph/operators/operators.h"
#include "engine/import/import.h"
#include "executor/device/kernel.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/arena.h"
#include "executor/runtime/sleeping_threads.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace planloom;
using graph::DType;

constexpr int kRuns = 3;

/// Seconds of processor time per thread: what else runs on the machine does not count.
double now()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    static const double kThreads = std::max(1U, std::thread::hardware_concurrency());
    return (static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)) / kThreads;
}

std::vector<device::Argument> argumentsOf(const graph::Graph &graph, const std::vector<TensorId> &ids,
                                          std::int64_t samples)
{
    std::vector<device::Argument> arguments;
    for (const TensorId id : ids) {
        if (id.valid())
            arguments.push_back(
                {graph.tensor(id).type, graph.tensor(id).shape.at(samples), true, graph.tensor(id).layout});
        else
            arguments.push_back({DType::F32, {}, false});
    }
    return arguments;
}

/// A training graph with its kernels and a separate place for every tensor.
class Model {
public:
    static Result<Model> make(const graph::TrainingGraph &training, std::int64_t samples)
    {
        Model model(training, samples);
        std::int64_t bytes = 0;
        for (const graph::Tensor &tensor : training.graph.tensors()) {
            model.m_offsets.push_back(bytes);
            bytes += (tensor.bytes(samples).value() + 63) / 64 * 64;
        }
        auto arena = runtime::Arena::allocate(device::cpuDevice(), bytes);
        if (!arena)
            return arena.error();
        model.m_arena = std::move(*arena);
        for (const graph::Tensor &tensor : training.graph.tensors())
            model.fill(tensor);
        for (const graph::Op &op : training.graph.ops()) {
            auto kernel = device::makeKernel(op, argumentsOf(training.graph, op.inputs, samples),
                                             argumentsOf(training.graph, op.outputs, samples));
            if (!kernel)
                return kernel.error();
            model.m_kernels.push_back(std::move(*kernel));
        }
        return model;
    }

    /// Seconds of every operator.
    std::vector<double> run()
    {
        std::vector<double> seconds;
        std::vector<const void *> inputs;
        std::vector<void *> outputs;
        for (const graph::Op &op : m_training.graph.ops()) {
            inputs.clear();
            outputs.clear();
            for (const TensorId id : op.inputs)
                inputs.push_back(id.valid() ? at(id) : nullptr);
            for (const TensorId id : op.outputs)
                outputs.push_back(id.valid() ? at(id) : nullptr);
            const double begin = now();
            m_kernels[op.id.index()]->run(inputs, outputs);
            seconds.push_back(now() - begin);
        }
        return seconds;
    }

private:
    Model(const graph::TrainingGraph &training, std::int64_t samples) : m_training(training), m_samples(samples) {}

    std::byte *at(TensorId id)
    {
        return m_arena.use(m_offsets[id.index()], m_training.graph.tensor(id).bytes(m_samples).value());
    }

    void fill(const graph::Tensor &tensor)
    {
        if (tensor.role == graph::TensorRole::Activation)
            return;
        const std::int64_t n = tensor.shape.elements(m_samples);
        if (tensor.role == graph::TensorRole::Constant) {
            std::copy(tensor.init.data->begin(), tensor.init.data->end(), at(tensor.id));
        } else if (tensor.type == DType::I64) {
            auto *values = reinterpret_cast<std::int64_t *>(at(tensor.id));
            std::generate(values, values + n, [&] { return static_cast<std::int64_t>(m_random() % 2); });
        } else if (tensor.type == DType::F32) {
            auto *values = reinterpret_cast<float *>(at(tensor.id));
            const float offset = tensor.init.kind == graph::Initializer::Kind::Ones ? 1.0F : 0.0F;
            std::generate(values, values + n, [&] {
                return offset + 0.04F * (static_cast<float>(m_random() >> 8) / static_cast<float>(1 << 24) - 0.5F);
            });
        }
    }

    const graph::TrainingGraph &m_training;
    std::int64_t m_samples;
    runtime::Arena m_arena;
    std::vector<std::int64_t> m_offsets;
    std::vector<std::unique_ptr<device::Kernel>> m_kernels;
    std::minstd_rand m_random{1};
};

struct Row {
    double seconds = 0;
    double flops = 0;
    double bytes = 0;
    int count = 0;

    void add(const Row &other)
    {
        seconds += other.seconds;
        flops += other.flops;
        bytes += other.bytes;
        count += other.count;
    }
};

bool isProduct(const std::string &type)
{
    return type.find("MatMul") != std::string::npos || type.find("Gemm") != std::string::npos
        || type.find("Attention") != std::string::npos;
}

std::string describe(const graph::Graph &graph, const graph::Op &op, std::int64_t samples)
{
    std::string key = op.type;
    for (const TensorId id : op.inputs) {
        if (!id.valid())
            continue;
        key += " ";
        for (const std::int64_t size : graph.tensor(id).shape.at(samples))
            key += (key.back() == ' ' ? "" : "x") + std::to_string(size);
    }
    for (const char *flag : {"transA", "transB"})
        key += op.integer(flag) != 0 ? std::string(" ") + flag : "";
    return key;
}

/// Billions per second.
double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds * 1e-9 : 0; }

/// GFLOP/s of one 1024 x 1024 x 1024 product, the best of many.
double matmulRate()
{
    graph::Op op;
    op.type = op.name = "MatMul";
    const std::int64_t n = 1024;
    const device::Argument matrix{DType::F32, {n, n}};
    auto kernel = device::makeKernel(op, {matrix, matrix}, {matrix});
    if (!kernel)
        return 0;
    std::vector<float> data(static_cast<std::size_t>(3 * n * n), 0.5F);
    const void *inputs[] = {data.data(), data.data() + n * n};
    void *outputs[] = {data.data() + 2 * n * n};
    double best = 1e9;
    for (int run = 0; run < 40; ++run) {
        const double begin = now();
        (*kernel)->run(inputs, outputs);
        best = std::min(best, now() - begin);
    }
    return rate(2.0 * static_cast<double>(n * n * n), best);
}

/// Prints the times by type and shape, the heaviest first; returns the seconds of all.
double print(const graph::TrainingGraph &training, const std::vector<double> &seconds, std::int64_t samples)
{
    std::map<std::string, Row> rows;
    Row products;
    for (const graph::Op &op : training.graph.ops()) {
        Row row{seconds[op.id.index()], 0, 0, 1};
        const graph::OpCostFigures cost = graph::figures(training.graph, op.id, samples);
        row.flops = cost.forward.value();
        row.bytes = static_cast<double>(cost.forwardBytes.value());
        rows[describe(training.graph, op, samples)].add(row);
        if (isProduct(op.type))
            products.add(row);
    }
    std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
    std::printf("%9s %6s %9s %8s  %s\n", "ms", "calls", "GFLOP/s", "GB/s", "operator");
    for (const auto &[key, row] : sorted) {
        if (row.seconds > 0.002)
            std::printf("%9.1f %6d %9.1f %8.1f  %s\n", row.seconds * 1e3, row.count, rate(row.flops, row.seconds),
                        rate(row.bytes, row.seconds), key.c_str());
    }
    std::printf("%9.1f %6d %9.1f %8s  products and attention\n", products.seconds * 1e3, products.count,
                rate(products.flops, products.seconds), "");
    double total = 0;
    for (const double s : seconds)
        total += s;
    std::printf("%9.1f %6zu %9s %8s  all\n", total * 1e3, seconds.size(), "", "");
    return total;
}

Result<double> measure(const char *title, const graph::TrainingGraph &training, std::int64_t samples)
{
    auto model = Model::make(training, samples);
    if (!model)
        return model.error();
    std::vector<double> best;
    for (int run = 0; run < kRuns; ++run) {
        const std::vector<double> seconds = model->run();
        if (run == 0)
            best = seconds;
        for (std::size_t i = 0; i < seconds.size(); ++i)
            best[i] = std::min(best[i], seconds[i]);
    }
    std::printf("\n%s\n", title);
    return print(training, best, samples);
}

int refuse(const Error &error)
{
    std::fprintf(stderr, "bench_operators: %s\n", error.text().c_str());
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    const std::string name = argc > 1 ? argv[1] : "zoo:gpt2";
    const std::int64_t samples = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 1;
    const auto model = import::loadModel(name);
    if (!model)
        return refuse(model.error());
    const graph::Graph &graph = *model->graph;
    const auto training =
        graph::differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {}, {});
    if (!training)
        return refuse(training.error());
    std::printf("matrix product 1024 x 1024 x 1024: %.1f GFLOP/s\n", matmulRate());
    const auto plain = measure("operators as they are", *training, samples);
    if (!plain)
        return refuse(plain.error());
    const auto fused = graph::fuse(*training);
    if (!fused)
        return refuse(fused.error());
    const auto joined = measure("operators that fuse() joined", *fused, samples);
    if (!joined)
        return refuse(joined.error());
    std::printf("\nseparate / fused: %.3f\n", *plain / *joined);
    return 0;
}
