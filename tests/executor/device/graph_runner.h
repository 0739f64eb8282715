// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/zoo/zoo.h"
#include "executor/device/kernel.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

// Runs a whole training graph by the kernels, every tensor in separate memory: for comparing a graph with what a
// rewrite made of it.
namespace planloom::graphrun {

using graph::DType;

/// The forward and backward pass of all of @p graph.
inline graph::TrainingGraph wholeOf(const graph::Graph &graph)
{
    auto training = graph::differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {}, {});
    if (!training)
        qFatal("%s", training.error().text().c_str());
    return std::move(*training);
}

inline graph::TransformerConfig smallConfig()
{
    graph::TransformerConfig config;
    config.layers = 2;
    config.heads = 4;
    config.hidden = 32;
    config.feedForward = 64;
    config.vocabulary = 48;
    config.context = 24;
    return config;
}

class Runner {
public:
    using Bytes = std::vector<std::byte>;

    Runner(const graph::TrainingGraph &training, std::int64_t samples) : m_training(training), m_samples(samples)
    {
        for (const graph::Tensor &tensor : training.graph.tensors()) {
            m_memory.emplace_back(static_cast<std::size_t>(tensor.bytes(samples).value()) + 64);
            fill(tensor);
        }
        for (const graph::Op &op : training.graph.ops()) {
            auto kernel = device::makeKernel(op, argumentsOf(op.inputs), argumentsOf(op.outputs));
            if (!kernel)
                qFatal("%s", kernel.error().text().c_str());
            m_kernels.push_back(std::move(*kernel));
        }
    }

    /// One forward and backward pass; the loss.
    double run(int step = 0)
    {
        for (const graph::Tensor &tensor : m_training.graph.tensors()) {
            if (tensor.role == graph::TensorRole::Input && tensor.type == DType::I64)
                fillTokens(tensor, step);
        }
        *floats(m_training.lossGradient) = 1.0F;
        for (const graph::Op &op : m_training.graph.ops()) {
            std::vector<const void *> inputs;
            std::vector<void *> outputs;
            for (const TensorId id : op.inputs)
                inputs.push_back(id.valid() ? at(id) : nullptr);
            for (const TensorId id : op.outputs)
                outputs.push_back(id.valid() ? at(id) : nullptr);
            m_kernels[op.id.index()]->run(inputs, outputs);
        }
        return static_cast<double>(*floats(m_training.loss));
    }

    /// The largest element of all gradients.
    double largestGradient()
    {
        double largest = 0;
        for (std::size_t p = 0; p < m_training.gradients.size(); ++p) {
            for (const float x : gradient(p))
                largest = std::max(largest, std::abs(static_cast<double>(x)));
        }
        return largest;
    }

    /// The gradient of parameter @p p as float32.
    std::vector<float> gradient(std::size_t p)
    {
        const TensorId id = m_training.gradients[p];
        const auto n = static_cast<std::size_t>(m_training.graph.tensor(id).shape.elements(m_samples));
        return {floats(id), floats(id) + n};
    }

    /// An AdamW step; parameters of type BF16 are copies of float32 ones kept here.
    void optimize(std::int64_t step)
    {
        for (std::size_t p = 0; p < m_training.parameters.size(); ++p) {
            const graph::Tensor &tensor = m_training.graph.tensor(m_training.parameters[p]);
            const auto n = static_cast<std::size_t>(tensor.shape.elements(1));
            auto &state = m_states[p];
            state.resize(2 * n);
            std::vector<float> &master = m_masters[tensor.name];
            float *parameter = tensor.type == DType::BF16 ? master.data() : floats(tensor.id);
            device::AdamWStep how;
            how.learningRate = 3e-3;
            how.step = step + 1;
            device::adamW(how, parameter, floats(m_training.gradients[p]), state.data(), state.data() + n,
                          static_cast<std::int64_t>(n));
            if (tensor.type == DType::BF16)
                narrow(master, at(tensor.id));
        }
    }

private:
    std::byte *at(TensorId id)
    {
        auto address = reinterpret_cast<std::uintptr_t>(m_memory[id.index()].data());
        return reinterpret_cast<std::byte *>((address + 63) / 64 * 64);
    }
    float *floats(TensorId id) { return reinterpret_cast<float *>(at(id)); }

    std::vector<device::Argument> argumentsOf(const std::vector<TensorId> &ids) const
    {
        std::vector<device::Argument> arguments;
        for (const TensorId id : ids) {
            if (id.valid())
                arguments.push_back(
                    {m_training.graph.tensor(id).type, m_training.graph.tensor(id).shape.at(m_samples), true});
            else
                arguments.push_back({DType::F32, {}, false});
        }
        return arguments;
    }

    /// By cutting and rounding by hand, not by the kernels under test.
    static void narrow(const std::vector<float> &from, std::byte *to)
    {
        auto *half = reinterpret_cast<std::uint16_t *>(to);
        for (std::size_t i = 0; i < from.size(); ++i) {
            const auto bits = std::bit_cast<std::uint32_t>(from[i]);
            half[i] = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
        }
    }

    void fillTokens(const graph::Tensor &tensor, int step)
    {
        const std::int64_t n = tensor.shape.elements(m_samples);
        auto *tokens = reinterpret_cast<std::int64_t *>(at(tensor.id));
        for (std::int64_t i = 0; i < n; ++i)
            tokens[i] = (i * 7 + step * 5 + (tensor.name == "labels" ? 7 : 0)) % 48;
    }

    void fill(const graph::Tensor &tensor)
    {
        const std::int64_t n = tensor.shape.elements(m_samples);
        if (tensor.role == graph::TensorRole::Constant)
            std::memcpy(at(tensor.id), tensor.init.data->data(), tensor.init.data->size());
        if (tensor.role == graph::TensorRole::Input && tensor.type == DType::F32) {
            for (std::int64_t i = 0; i < n; ++i)
                floats(tensor.id)[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1009)));
        }
        if (tensor.role != graph::TensorRole::Parameter)
            return;
        graph::Tensor plain = tensor;
        plain.type = DType::F32;
        std::vector<float> values(static_cast<std::size_t>(n));
        if (!device::initialize(plain, n, 1, {}, values.data()))
            qFatal("%s", tensor.name.c_str());
        if (tensor.type == DType::F32)
            std::memcpy(at(tensor.id), values.data(), values.size() * sizeof(float));
        else
            narrow(values, at(tensor.id));
        if (tensor.type == DType::BF16)
            m_masters[tensor.name] = std::move(values);
    }

    const graph::TrainingGraph &m_training;
    std::int64_t m_samples;
    std::vector<Bytes> m_memory;
    std::vector<std::unique_ptr<device::Kernel>> m_kernels;
    std::map<std::size_t, std::vector<float>> m_states;
    std::map<std::string, std::vector<float>> m_masters;
};

/// Largest difference of two vectors over the largest element of the first, or over @p floor if that is more: a
/// gradient that is zero but for rounding (a key's bias) is not compared with itself.
inline double apart(const std::vector<float> &a, const std::vector<float> &b, double floor)
{
    double largest = floor;
    double difference = a.size() == b.size() ? 0 : 1e30;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(a[i])));
        difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
    return difference / largest;
}

} // namespace planloom::graphrun
