// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/exact.h"
#include "executor/device/kernel.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace planloom::conformance {

using import::TensorFile;

/// Runs a graph of fixed shapes forward by the kernels, a buffer a tensor.
class ForwardMachine {
public:
    explicit ForwardMachine(const graph::Graph &graph) : m_graph(graph)
    {
        for (const graph::Tensor &tensor : graph.tensors())
            m_buffers.emplace_back(static_cast<std::size_t>(tensor.bytes().value()) + 1, kGuard);
    }

    /// Empty if all went well.
    std::string run(const std::vector<TensorFile> &inputs)
    {
        for (const graph::Tensor &tensor : m_graph.tensors()) {
            if (tensor.role == graph::TensorRole::Activation || tensor.role == graph::TensorRole::Input)
                continue;
            if (auto done = device::initialize(tensor, tensor.shape.elements(1), 0, {}, buffer(tensor.id)); !done)
                return done.error().text();
        }
        for (const TensorFile &input : inputs) {
            const TensorId id = m_graph.find(input.name);
            if (id.valid() && m_graph.tensor(id).role == graph::TensorRole::Input)
                std::copy(input.data.begin(), input.data.end(), m_buffers[id.index()].begin());
        }
        for (const graph::Op &op : m_graph.ops())
            if (const std::string problem = runOne(op); !problem.empty())
                return problem;
        return {};
    }

    [[nodiscard]] TensorFile get(TensorId id) const
    {
        const graph::Tensor &tensor = m_graph.tensor(id);
        const auto &bytes = m_buffers[id.index()];
        return {tensor.name, tensor.type, tensor.shape.at(1), {bytes.begin(), bytes.end() - 1}};
    }

private:
    static constexpr std::byte kGuard{0xAB};

    std::byte *buffer(TensorId id) { return id.valid() ? m_buffers[id.index()].data() : nullptr; }

    [[nodiscard]] device::Argument argument(TensorId id) const
    {
        if (!id.valid())
            return {graph::DType::F32, {}, false};
        return {m_graph.tensor(id).type, m_graph.tensor(id).shape.at(1), true};
    }

    std::string runOne(const graph::Op &op)
    {
        std::vector<device::Argument> inputs, outputs;
        std::vector<const void *> in;
        std::vector<void *> out;
        for (const TensorId id : op.inputs) {
            inputs.push_back(argument(id));
            in.push_back(buffer(id));
        }
        for (const TensorId id : op.outputs) {
            outputs.push_back(argument(id));
            out.push_back(buffer(id));
        }
        auto kernel = device::makeKernel(op, inputs, outputs);
        if (!kernel)
            return kernel.error().text();
        (*kernel)->run(in, out);
        for (const TensorId id : op.outputs)
            if (id.valid() && m_buffers[id.index()].back() != kGuard)
                return op.type + " wrote behind its output";
        return {};
    }

    const graph::Graph &m_graph;
    std::vector<std::vector<std::byte>> m_buffers;
};

} // namespace planloom::conformance
