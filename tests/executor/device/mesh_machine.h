// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/region.h"
#include "engine/sharding/shard.h"
#include "executor/device/operator_case.h"

#include <cstring>

// All devices of a mesh in one process: kernels run device by device, and what communicates is done here, exactly.
namespace planloom::cases {

/// The part of a tensor with the batch in it that a device has: dimension 0 shares out the samples, @p samples to each
/// device; the others split inside each sample.
inline sharding::Region regionWithSamples(const graph::Shape &shape, const sharding::NdSbp &sbp,
                                          const sharding::Mesh &mesh, int device, std::int64_t samples)
{
    sharding::NdSbp inner = sbp;
    if (!inner.empty())
        inner[0] = {};
    std::vector<std::int64_t> sizes;
    for (const graph::Dim &dim : shape.dims())
        sizes.push_back(dim.size);
    sharding::Region region = sharding::regionOf(sizes, inner, mesh, device);
    const std::int64_t first = mesh.coordinates(device)[0] * samples;
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
        if (!shape[axis].batch)
            continue;
        std::vector<sharding::Interval> all;
        for (std::int64_t n = first; n < first + samples; ++n)
            for (const sharding::Interval &one : region[axis])
                all.push_back({n * sizes[axis] + one.begin, n * sizes[axis] + one.end});
        region[axis] = std::move(all);
    }
    return region;
}

/// Calls f(position in the whole, position in the part) for each element of @p region.
template <class F>
void forRegion(const Dims &dims, const sharding::Region &region, F f)
{
    std::vector<std::vector<std::int64_t>> positions(region.size());
    Dims part;
    for (std::size_t axis = 0; axis < region.size(); ++axis) {
        for (const sharding::Interval &one : region[axis])
            for (std::int64_t i = one.begin; i < one.end; ++i)
                positions[axis].push_back(i);
        part.push_back(static_cast<std::int64_t>(positions[axis].size()));
    }
    std::int64_t local = 0;
    reference::forEach(part, [&](const Dims &index) {
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < dims.size(); ++axis)
            at = at * dims[axis] + positions[axis][static_cast<std::size_t>(index[axis])];
        f(at, local++);
    });
}

inline Array partOf(const Array &whole, const sharding::Region &region)
{
    Dims dims;
    for (const auto &axis : region) {
        std::int64_t size = 0;
        for (const sharding::Interval &one : axis)
            size += one.end - one.begin;
        dims.push_back(size);
    }
    Array part(dims);
    forRegion(whole.dims, region, [&](std::int64_t from, std::int64_t to) { part[to] = whole[from]; });
    return part;
}

inline void addPart(Array &whole, const sharding::Region &region, const Array &part)
{
    forRegion(whole.dims, region, [&](std::int64_t to, std::int64_t from) { whole[to] += part[from]; });
}

class MeshMachine {
public:
    MeshMachine(const graph::Graph &graph, sharding::Mesh mesh, std::int64_t samples)
        : m_graph(graph),
          m_mesh(std::move(mesh)),
          m_samples(samples)
    {
        for (int device = 0; device < m_mesh.devices(); ++device) {
            m_buffers.emplace_back();
            for (const graph::Tensor &tensor : graph.tensors()) {
                const std::int64_t elements = tensor.shape.elements(samples);
                m_buffers.back().emplace_back(static_cast<std::size_t>(elements * graph::sizeOf(tensor.type)) + 1,
                                              std::byte{0xAB});
                if (tensor.role == graph::TensorRole::Constant
                    && !device::initialize(tensor, elements, 0, {}, m_buffers.back().back().data()))
                    m_problem = "constant " + tensor.name;
            }
        }
    }

    void set(int device, TensorId id, const Array &array) { toBytes(array, m_graph.tensor(id).type, data(device, id)); }
    [[nodiscard]] Array get(int device, TensorId id)
    {
        const graph::Tensor &tensor = m_graph.tensor(id);
        return fromBytes(tensor.type, tensor.shape.at(m_samples), data(device, id));
    }
    [[nodiscard]] const std::vector<std::byte> &bytes(int device, TensorId id) const
    {
        return m_buffers[static_cast<std::size_t>(device)][id.index()];
    }

    /// Bytes that the collectives moved, summed over the devices, as the boxing table counts them.
    [[nodiscard]] double moved() const { return m_moved; }
    [[nodiscard]] int count(const std::string &type) const
    {
        int found = 0;
        for (const graph::Op &op : m_graph.ops())
            found += op.type == type ? 1 : 0;
        return found;
    }

    /// Empty if all went well.
    std::string run()
    {
        for (const graph::Op &op : m_graph.ops()) {
            if (op.traits().communicates())
                communicate(op);
            else
                for (int device = 0; device < m_mesh.devices() && m_problem.empty(); ++device)
                    compute(device, op);
            if (!m_problem.empty())
                return m_problem;
        }
        return {};
    }

private:
    std::byte *data(int device, TensorId id) { return m_buffers[static_cast<std::size_t>(device)][id.index()].data(); }

    device::Argument argument(TensorId id) const
    {
        if (!id.valid())
            return {DType::F32, {}, false};
        return {m_graph.tensor(id).type, m_graph.tensor(id).shape.at(m_samples), true};
    }

    void compute(int device, const graph::Op &op)
    {
        graph::Op placed = op;
        if (op.has("mesh_dim"))
            placed.attributes["mesh_index"] =
                std::int64_t{m_mesh.coordinates(device)[static_cast<std::size_t>(op.integer("mesh_dim"))]};
        std::vector<device::Argument> inputs;
        std::vector<device::Argument> outputs;
        std::vector<const void *> in;
        std::vector<void *> out;
        for (const TensorId id : op.inputs) {
            inputs.push_back(argument(id));
            in.push_back(id.valid() ? data(device, id) : nullptr);
        }
        for (const TensorId id : op.outputs) {
            outputs.push_back(argument(id));
            out.push_back(data(device, id));
        }
        auto kernel = device::makeKernel(placed, inputs, outputs);
        if (!kernel) {
            m_problem = kernel.error().text();
            return;
        }
        (*kernel)->run(in, out);
        for (const TensorId id : op.outputs)
            if (bytes(device, id).back() != std::byte{0xAB})
                m_problem = op.type + " wrote behind its output";
    }

    void communicate(const graph::Op &op)
    {
        const auto dimension = static_cast<std::size_t>(op.integer("mesh_dim"));
        if (op.integer("parts") != m_mesh.sizes[dimension])
            m_problem = op.name + ": parts is not the size of the line";
        for (int device = 0; device < m_mesh.devices() && m_problem.empty(); ++device)
            if (m_mesh.coordinates(device)[dimension] == 0)
                exchange(op, m_mesh.line(device, dimension));
    }

    void exchange(const graph::Op &op, const std::vector<int> &line)
    {
        const TensorId in = op.inputs[0];
        const TensorId out = op.outputs[0];
        const auto parts = line.size();
        const std::size_t inBytes = bytes(line[0], in).size() - 1;
        const std::size_t outBytes = bytes(line[0], out).size() - 1;
        const auto others = static_cast<double>(parts - 1);
        if (op.type == "AllReduce" || op.type == "ReduceScatter") {
            const std::vector<float> sum = sumOf(line, in, inBytes / sizeof(float));
            for (std::size_t i = 0; i < parts; ++i)
                std::memcpy(data(line[i], out),
                            reinterpret_cast<const std::byte *>(sum.data())
                                + (op.type == "AllReduce" ? 0 : i * outBytes),
                            outBytes);
            m_moved += (op.type == "AllReduce" ? 2 : 1) * others * static_cast<double>(inBytes);
            return;
        }
        const bool gather = op.type == "AllGather";
        const std::size_t block = gather ? inBytes : inBytes / parts;
        for (std::size_t to = 0; to < parts; ++to)
            for (std::size_t from = 0; from < parts; ++from)
                std::memcpy(data(line[to], out) + from * block, data(line[from], in) + (gather ? 0 : to * block),
                            block);
        m_moved += others * static_cast<double>(gather ? outBytes : inBytes);
    }

    std::vector<float> sumOf(const std::vector<int> &line, TensorId in, std::size_t n)
    {
        if (m_graph.tensor(in).type != DType::F32)
            m_problem = "only floats are summed";
        std::vector<float> sum(n, 0.0F);
        std::vector<float> one(n);
        for (const int device : line) {
            std::memcpy(one.data(), data(device, in), n * sizeof(float));
            for (std::size_t i = 0; i < n; ++i)
                sum[i] += one[i];
        }
        return sum;
    }

    const graph::Graph &m_graph;
    sharding::Mesh m_mesh;
    std::int64_t m_samples;
    std::vector<std::vector<std::vector<std::byte>>> m_buffers; ///< device, tensor
    std::string m_problem;
    double m_moved = 0;
};

} // namespace planloom::cases
