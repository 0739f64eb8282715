// SPDX-License-Identifier: Apache-2.0
// A training of a small model, as PyTorch's profiler writes it, with times that are known.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace planloom::tests {

/// Blocks of a linear layer and a ReLU, a head, and a loss. All times in microseconds.
struct KinetoTraining {
    int blocks = 3;
    int microBatches = 2;
    int steps = 3;
    int rank = 0;
    bool gpu = false;      ///< kernels on a GPU, launched by operators that take 2 us each
    bool operators = true; ///< false: kernels alone
    bool allForwardFirst = false;
    bool marks = true;                                          ///< of steps
    bool extras = false;                                        ///< operators beside the model's
    bool reduces = false;                                       ///< an all-reduce at the end of each step
    bool lateReduces = false;                                   ///< it is launched there, and runs in the next step
    bool recomputes = false;                                    ///< blocks run again before their backward
    std::string scope;                                          ///< of blocks, as ranges: "h." gives "h.0"; empty: none
    int width = 0;                                              ///< of the products' sizes among the arguments; 0: none
    std::string first = "linear", firstNode = "AddmmBackward0"; ///< of blocks

    static constexpr int kRelu = 7, kLoss = 20, kReluBack = 9, kLossBack = 11, kUpdate = 50, kReduce = 40, kExtra = 5;
    static int linear(int block) { return 100 + 10 * block; }
    static int linearBack(int block) { return 200 + 20 * block; }

    /// Begin and end of passes, by step, pass and micro-batch, where they were laid; made by text().
    mutable std::map<std::tuple<int, char, int>, std::pair<std::int64_t, std::int64_t>> passes;

    [[nodiscard]] std::string text() const
    {
        Writer writer(*this);
        for (int step = 0; step < steps; ++step) {
            const std::int64_t begin = writer.at;
            if (allForwardFirst) {
                for (int m = 0; m < microBatches; ++m)
                    forward(writer, step, m);
                for (int m = 0; m < microBatches; ++m)
                    backward(writer, step, m);
            }
            for (int m = 0; m < microBatches && !allForwardFirst; ++m) {
                forward(writer, step, m);
                backward(writer, step, m);
            }
            if (lateReduces)
                writer.lateKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", kReduce, 20);
            else if (reduces)
                writer.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", kReduce, 20);
            const std::int64_t update = writer.at;
            writer.call("aten::_fused_adamw_", "multi_tensor_apply_kernel", kUpdate);
            if (operators)
                writer.range("user_annotation", "Optimizer.step#AdamW.step", update - 1, writer.at + 1);
            writer.at += 20;
            if (marks)
                writer.range("user_annotation", fmt::format("ProfilerStep#{}", step), begin - 1, writer.at - 5);
        }
        return fmt::format("{{\"distributedInfo\": {{\"rank\": {}}}, \"traceEvents\": [\n{}\n]}}", rank, writer.events);
    }

    [[nodiscard]] std::string write(const std::string &path) const
    {
        std::ofstream(path) << text();
        return path;
    }

private:
    struct Writer {
        explicit Writer(const KinetoTraining &training) : of(training) {}
        const KinetoTraining &of;
        std::int64_t at = 1000;
        int correlation = 0;
        std::string events;

        void event(const std::string &category, const std::string &name, int process, int thread, std::int64_t start,
                   std::int64_t duration, const std::string &arguments = {})
        {
            events +=
                fmt::format("{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, "
                            "\"ts\": {}, \"dur\": {}, \"args\": {{{}}}}}",
                            events.empty() ? "" : ",\n", category, name, process, thread, start, duration, arguments);
        }
        void range(const std::string &category, const std::string &name, std::int64_t from, std::int64_t to)
        {
            event(category, name, 100 + of.rank, 1, from, to - from);
        }
        void kernel(const std::string &name, int duration, int stream = 7)
        {
            event("kernel", name, of.rank, stream, at, duration);
            at += duration + 1;
        }
        void lateKernel(const std::string &name, int duration, int stream)
        {
            const std::string joined = fmt::format("\"correlation\": {}", ++correlation);
            event("cuda_runtime", "cudaLaunchKernel", 100 + of.rank, 1, at, 1, joined);
            event("kernel", name, of.rank, stream, at + kUpdate + 200, duration, joined);
            at += 2;
        }
        /// An operator on the host that calls @p inner, or its kernel.
        void call(const std::string &name, const std::string &kernelName, int duration, const std::string &inner = {},
                  int thread = 1)
        {
            if (!of.operators)
                return kernel(kernelName, duration);
            const int host = of.gpu ? 2 : duration;
            const bool isProduct = of.width > 0 && name == "aten::linear";
            event("cpu_op", name, 100 + of.rank, thread, at, host,
                  isProduct ? fmt::format("\"Input Dims\": [[16, {0}], [{0}, 8], [{0}]]", of.width) : "");
            if (!inner.empty())
                event("cpu_op", inner, 100 + of.rank, thread, at, host);
            if (of.gpu) {
                const std::string joined = fmt::format("\"correlation\": {}", ++correlation);
                event("cuda_runtime", "cudaLaunchKernel", 100 + of.rank, thread, at, 1, joined);
                event("kernel", kernelName, of.rank, 7, at + 3, duration, joined);
                at += 3;
            }
            at += duration + 1;
        }
    };

    void forward(Writer &writer, int step, int m) const
    {
        const std::int64_t begin = writer.at + (gpu && operators ? 3 : 0);
        for (int block = 0; block < blocks; ++block) {
            const std::int64_t from = writer.at;
            writer.call("aten::" + first, "sm90_gemm", linear(block), "aten::addmm");
            if (extras)
                writer.call("aten::isnan", "isnan", kExtra);
            writer.call("aten::relu", "relu_kernel", kRelu, "aten::clamp_min");
            if (!scope.empty())
                writer.range("user_annotation", scope + std::to_string(block), from, writer.at - 1);
        }
        writer.call("aten::linear", "sm90_gemm", linear(blocks), "aten::addmm");
        writer.call("aten::mse_loss", "mse_loss_kernel", kLoss);
        passes[{step, 'F', m}] = {begin, writer.at - 1};
        writer.at += 3;
    }

    void backward(Writer &writer, int step, int m) const
    {
        const std::int64_t begin = writer.at + (gpu && operators ? 3 : 0);
        const auto node = [&](const std::string &name, const std::string &kernelName, int duration) {
            writer.call("autograd::engine::evaluate_function: " + name, kernelName, duration, name, 2);
        };
        if (recomputes) {
            const std::int64_t from = writer.at;
            for (int block = 0; block < blocks; ++block)
                writer.call("aten::" + first, "sm90_gemm", linear(block), "aten::addmm", 2);
            writer.event("cpu_op", "CheckpointFunctionBackward", 100 + rank, 2, from, writer.at - from);
            writer.at += 2;
        }
        node("MseLossBackward0", "mse_loss_backward_kernel", kLossBack);
        node("AddmmBackward0", "sm90_gemm", linearBack(blocks));
        for (int block = blocks - 1; block >= 0; --block) {
            node("ReluBackward0", "threshold_backward_kernel", kReluBack);
            node(firstNode, "sm90_gemm", linearBack(block));
        }
        passes[{step, 'B', m}] = {begin, writer.at - 1};
        if (extras)
            node("torch::autograd::AccumulateGrad", "add", kExtra);
        writer.at += 3;
    }
};

} // namespace planloom::tests
