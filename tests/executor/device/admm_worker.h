// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/block_graphs.h"
#include "executor/device/kernel.h"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// ADMM's iterations by kernels, without a Program: for tests and benchmarks of its operators.
namespace planloom::admm {

using Buffer = std::vector<std::byte>;
using Variables = std::map<std::string, Buffer>;

inline Buffer zeros(std::int64_t elements, std::int64_t size = 4)
{
    return Buffer(static_cast<std::size_t>(elements * size));
}
inline float *floatsOf(Buffer &buffer) { return reinterpret_cast<float *>(buffer.data()); }

template <class T>
T orThrow(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().text());
    return *std::move(result);
}

/// A graph with its kernels and buffers. Inputs and parameters are variables of their name; an output NAME' is copied
/// to variable NAME behind a run. Throws std::runtime_error.
class BlockRunner {
public:
    /// @p range: of steps, where the graph is of one.
    BlockRunner(graph::Graph graph, std::int64_t samples, Variables &variables, std::int64_t range = 0)
        : m_graph(std::move(graph)),
          m_range(range)
    {
        std::vector<void *> places;
        m_buffers.resize(m_graph.tensors().size());
        for (const graph::Tensor &tensor : m_graph.tensors()) {
            const std::int64_t elements = tensor.shape.elements(samples);
            if (tensor.role == graph::TensorRole::Input || tensor.role == graph::TensorRole::Parameter) {
                places.push_back(variables.at(tensor.name).data());
                continue;
            }
            Buffer &own = m_buffers[tensor.id.index()] = zeros(elements, graph::sizeOf(tensor.type));
            if (tensor.role == graph::TensorRole::Constant
                && !device::initialize(tensor, elements, 0, {}, own.data()).ok())
                throw std::runtime_error("constant " + tensor.name);
            places.push_back(own.data());
        }
        for (const graph::Op &op : m_graph.ops())
            prepare(op, samples, places);
        for (const TensorId id : m_graph.outputs())
            if (const std::string &name = m_graph.tensor(id).name; name.back() == '\'')
                m_changed.emplace_back(&variables.at(name.substr(0, name.size() - 1)), id);
    }

    void run()
    {
        for (Call &call : m_calls)
            call.kernel->run(call.in, call.out);
        for (const auto &[variable, id] : m_changed)
            std::memcpy(variable->data(), m_buffers[id.index()].data(), variable->size());
    }
    Buffer &at(TensorId id) { return m_buffers[id.index()]; }

private:
    struct Call {
        std::unique_ptr<device::Kernel> kernel;
        std::vector<const void *> in;
        std::vector<void *> out;
    };

    void prepare(const graph::Op &op, std::int64_t samples, const std::vector<void *> &places)
    {
        Call call;
        std::vector<device::Argument> inputs;
        std::vector<device::Argument> outputs;
        const auto argument = [&](TensorId id) {
            return id.valid() ? device::Argument{m_graph.tensor(id).type, m_graph.tensor(id).shape.at(samples), true}
                              : device::Argument{graph::DType::F32, {}, false};
        };
        for (const TensorId id : op.inputs) {
            inputs.push_back(argument(id));
            call.in.push_back(id.valid() ? places[id.index()] : nullptr);
        }
        for (const TensorId id : op.outputs) {
            outputs.push_back(argument(id));
            call.out.push_back(id.valid() ? places[id.index()] : nullptr);
        }
        graph::Op own = op;
        if (op.has("mesh_dim"))
            own.attributes["mesh_index"] = m_range;
        call.kernel = orThrow(device::makeKernel(own, inputs, outputs));
        m_calls.push_back(std::move(call));
    }

    graph::Graph m_graph;
    std::int64_t m_range;
    std::vector<Buffer> m_buffers;
    std::vector<Call> m_calls;
    std::vector<std::pair<Buffer *, TensorId>> m_changed;
};

/// A worker with its samples. Variables u, w, b, v, c, labels and x1, x2 ... are given; the others begin as zeros.
class BlockWorker {
public:
    /// Replaces sums, gram and product one behind the other, by their totals over all workers.
    using Exchange = std::function<void(float *sums, std::int64_t elements)>;

    BlockWorker(const Sizes &sizes, const Method &method, std::int64_t samples, Variables given)
        : m_variables(std::move(given))
    {
        for (std::int64_t t = 1; t <= sizes.steps; ++t)
            for (const char *letter : {"a", "h", "p", "q"})
                m_variables[letter + std::to_string(t)] = zeros(samples * sizes.hidden);
        m_variables["o"] = m_variables["r"] = zeros(samples * sizes.classes);
        m_variables["risk"] = zeros(1);
        const std::int64_t in = sizes.inputs + sizes.hidden + 1;
        const std::int64_t out = sizes.hidden + 1;
        m_variables["gram_in"] = zeros(in * (in + 1) / 2);
        m_variables["product_in"] = zeros(sizes.hidden * in);
        m_variables["gram_out"] = zeros(out * (out + 1) / 2);
        m_variables["product_out"] = zeros(sizes.classes * out);
        for (const Part part :
             {Part::Begin, Part::SolveOut, Part::Backward, Part::SolveIn, Part::Forward, Part::SolveOut, Part::End})
            m_parts.emplace_back(
                part, std::make_unique<BlockRunner>(orThrow(blockGraph(part, sizes, method)), samples, m_variables));
    }

    void iterate(const Exchange &exchange = {})
    {
        for (const auto &[part, runner] : m_parts) {
            runner->run();
            if (exchange && part == Part::Backward)
                total("gram_in", "product_in", exchange);
            else if (exchange && (part == Part::Begin || part == Part::Forward))
                total("gram_out", "product_out", exchange);
        }
    }
    Variables &variables() { return m_variables; }

private:
    void total(const char *gram, const char *product, const Exchange &exchange)
    {
        Buffer &first = m_variables.at(gram);
        Buffer &second = m_variables.at(product);
        Buffer both = first;
        both.insert(both.end(), second.begin(), second.end());
        exchange(floatsOf(both), static_cast<std::int64_t>(both.size() / sizeof(float)));
        std::memcpy(first.data(), both.data(), first.size());
        std::memcpy(second.data(), both.data() + first.size(), second.size());
    }

    Variables m_variables;
    std::vector<std::pair<Part, std::unique_ptr<BlockRunner>>> m_parts;
};

} // namespace planloom::admm
