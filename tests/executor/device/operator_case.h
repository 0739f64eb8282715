// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "executor/device/kernel.h"
#include "executor/device/reference.h"
#include "executor/device/reference_elementwise.h"
#include "executor/device/reference_indexing.h"
#include "executor/device/reference_linear.h"
#include "executor/device/reference_normalisation.h"
#include "executor/device/reference_recurrent.h"
#include "executor/device/reference_scatter.h"
#include "executor/device/reference_shapes.h"

#include <cstring>

// One operator with concrete arguments, and two ways to run the graphs that hold it: by the kernels, and by the
// reference.
namespace planloom::cases {

using graph::Attributes;
using graph::DType;
using reference::Array;
using reference::Dims;
using Ints = std::vector<std::int64_t>;

inline constexpr std::int64_t kSamples = 2; ///< where the first dimension of a case carries the batch

struct Input {
    Dims dims;
    double low = -1, high = 1;
    DType type = DType::F32;
    bool batched = false; ///< the first dimension is the batch times something
    bool trained = true;  ///< float: its gradient is tested
    std::vector<double> values = {};
    std::size_t batchAxis = 0; ///< the dimension that is the batch times something, if `batched` or not the first
    bool present = true;       ///< false: an optional input left out

    [[nodiscard]] graph::Shape shape() const
    {
        std::vector<graph::Dim> result;
        for (const auto d : dims)
            result.push_back({d, false});
        if (batched || batchAxis > 0)
            result[batchAxis] = {dims[batchAxis] / kSamples, true};
        return graph::Shape(result);
    }
};

/// A float input in [low, high) whose first dimension may carry the batch.
inline Input real(Dims dims, double low = -1, double high = 1) { return {std::move(dims), low, high}; }
inline Input batch(Dims dims, double low = -1, double high = 1)
{
    return {std::move(dims), low, high, DType::F32, true};
}
inline Input fixed(Dims dims, std::vector<double> values)
{
    return {std::move(dims), 0, 0, DType::F32, false, true, std::move(values)};
}
inline Input frozen(Input input)
{
    input.trained = false;
    return input;
}
inline Input batched(Input input)
{
    input.batched = true;
    return input;
}
inline Input index(Dims dims, std::int64_t below, bool batched = false)
{
    return {std::move(dims), 0, static_cast<double>(below), DType::I64, batched, false};
}
inline Input given(Dims dims, std::vector<double> values, DType type = DType::I64)
{
    return {std::move(dims), 0, 0, type, false, false, std::move(values)};
}
inline Input absent()
{
    Input input;
    input.present = false;
    input.trained = false;
    return input;
}
inline Input truth(Dims dims) { return {std::move(dims), 0, 2, DType::Bool, false, false}; }

struct Case {
    const char *name;
    const char *type;
    std::vector<Input> inputs;
    Attributes attributes = {};
    int outputs = 1;
    int trainedOutputs = 1; ///< how many of them the loss counts
};

/// Numbers that look random and are the same everywhere.
class Sequence {
public:
    explicit Sequence(std::uint64_t seed) : m_state(seed * 2654435761U + 1) {}
    double next(double low, double high)
    {
        m_state = m_state * 6364136223846793005ULL + 1442695040888963407ULL;
        return low + (high - low) * static_cast<double>(m_state >> 11) * 0x1.0p-53;
    }

private:
    std::uint64_t m_state;
};

/// The first values of an input, as numbers that its type can hold.
inline Array valuesOf(const Input &input, std::uint64_t seed)
{
    Array array(input.dims);
    Sequence sequence(seed);
    for (std::int64_t i = 0; i < array.size(); ++i) {
        const double value =
            input.values.empty() ? sequence.next(input.low, input.high) : input.values[static_cast<std::size_t>(i)];
        array[i] = input.type == DType::F32 ? static_cast<double>(static_cast<float>(value)) : std::floor(value);
    }
    return array;
}

inline Array fromBytes(DType type, const Dims &dims, const void *data)
{
    Array array(dims);
    for (std::int64_t i = 0; i < array.size(); ++i) {
        switch (type) {
        case DType::F32: array[i] = static_cast<double>(static_cast<const float *>(data)[i]); break;
        case DType::I64: array[i] = static_cast<double>(static_cast<const std::int64_t *>(data)[i]); break;
        case DType::I32: array[i] = static_cast<double>(static_cast<const std::int32_t *>(data)[i]); break;
        default: array[i] = static_cast<double>(static_cast<const std::uint8_t *>(data)[i]); break;
        }
    }
    return array;
}

inline void toBytes(const Array &array, DType type, void *data)
{
    for (std::int64_t i = 0; i < array.size(); ++i) {
        switch (type) {
        case DType::F32: static_cast<float *>(data)[i] = static_cast<float>(array[i]); break;
        case DType::I64: static_cast<std::int64_t *>(data)[i] = static_cast<std::int64_t>(array[i]); break;
        case DType::I32: static_cast<std::int32_t *>(data)[i] = static_cast<std::int32_t>(array[i]); break;
        default: static_cast<std::uint8_t *>(data)[i] = static_cast<std::uint8_t>(array[i]); break;
        }
    }
}

/// Values of a graph's tensors, by tensor.
using Values = std::vector<Array>;

/// Runs operators [first, last) of @p graph by the reference.
inline void runReference(const graph::Graph &graph, std::size_t first, std::size_t last, Values &values)
{
    for (std::size_t i = first; i < last; ++i) {
        const graph::Op &op = graph.ops()[i];
        std::vector<Array> in;
        for (const TensorId id : op.inputs) {
            in.push_back(id.valid() ? values[id.index()] : Array());
            in.back().present = id.valid();
        }
        std::vector<Array> out;
        for (const TensorId id : op.outputs)
            out.emplace_back(graph.tensor(id).shape.at(kSamples));
        reference::table().at(op.type.name())({op, in, out});
        for (std::size_t k = 0; k < out.size(); ++k)
            values[op.outputs[k].index()] = std::move(out[k]);
    }
}

/// Buffers for every tensor of a graph, and its kernels.
class Machine {
public:
    explicit Machine(const graph::Graph &graph, std::int64_t samples = kSamples) : m_graph(graph), m_samples(samples)
    {
        for (const graph::Tensor &tensor : graph.tensors()) {
            const std::int64_t elements = tensor.shape.elements(m_samples);
            m_buffers.emplace_back(static_cast<std::size_t>(elements * graph::sizeOf(tensor.type)) + 1,
                                   std::byte{0xAB});
            if (tensor.role == graph::TensorRole::Constant
                && !device::initialize(tensor, elements, 0, {}, m_buffers.back().data()))
                m_problem = "constant " + tensor.name;
        }
    }

    void set(TensorId id, const Array &array) { toBytes(array, m_graph.tensor(id).type, m_buffers[id.index()].data()); }
    [[nodiscard]] Array get(TensorId id) const
    {
        const graph::Tensor &tensor = m_graph.tensor(id);
        return fromBytes(tensor.type, tensor.shape.at(m_samples), m_buffers[id.index()].data());
    }
    [[nodiscard]] const std::vector<std::byte> &bytes(TensorId id) const { return m_buffers[id.index()]; }

    /// Empty if all went well.
    std::string run(std::size_t first, std::size_t last)
    {
        for (std::size_t i = first; i < last && m_problem.empty(); ++i)
            runOne(m_graph.ops()[i]);
        return m_problem;
    }

private:
    device::Argument argument(TensorId id) const
    {
        if (!id.valid())
            return {DType::F32, {}, false};
        return {m_graph.tensor(id).type, m_graph.tensor(id).shape.at(m_samples), true};
    }

    void runOne(const graph::Op &op)
    {
        std::vector<device::Argument> inputs;
        std::vector<device::Argument> outputs;
        std::vector<const void *> in;
        std::vector<void *> out;
        for (const TensorId id : op.inputs) {
            inputs.push_back(argument(id));
            in.push_back(id.valid() ? m_buffers[id.index()].data() : nullptr);
        }
        for (const TensorId id : op.outputs) {
            outputs.push_back(argument(id));
            out.push_back(id.valid() ? m_buffers[id.index()].data() : nullptr);
        }
        auto kernel = device::makeKernel(op, inputs, outputs);
        if (!kernel) {
            m_problem = kernel.error().text();
            return;
        }
        (*kernel)->run(in, out);
        for (const TensorId id : op.outputs) {
            if (id.valid() && m_buffers[id.index()].back() != std::byte{0xAB})
                m_problem = op.type + " wrote behind its output";
        }
    }

    const graph::Graph &m_graph;
    std::int64_t m_samples;
    std::vector<std::vector<std::byte>> m_buffers;
    std::string m_problem;
};

/// Where two arrays differ by more than @p absolute + @p relative * |expected|; empty if nowhere. NaN equals NaN.
inline std::string difference(const Array &got, const Array &expected, double absolute, double relative)
{
    if (got.dims != expected.dims)
        return "shapes differ";
    for (std::int64_t i = 0; i < got.size(); ++i) {
        const bool bothNan = std::isnan(got[i]) && std::isnan(expected[i]);
        const bool same = bothNan || got[i] == expected[i]
            || std::fabs(got[i] - expected[i]) <= absolute + relative * std::fabs(expected[i]);
        if (!same)
            return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected "
                + std::to_string(expected[i]);
    }
    return {};
}

} // namespace planloom::cases
