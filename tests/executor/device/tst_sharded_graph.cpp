// SPDX-License-Identifier: Apache-2.0
#include "executor/device/mesh_machine.h"

#include "engine/graph/zoo.h"

#include <QtTest/QTest>

using namespace planloom;
using namespace planloom::cases;
using sharding::Mesh;
using sharding::NdSbp;
using sharding::Sharded;

namespace {

using Pins = std::map<std::string, NdSbp>;

NdSbp sbp(const std::string &text)
{
    return *sharding::fromText(text);
}

graph::TransformerConfig tiny(const char *name)
{
    graph::TransformerConfig config;
    config.name = name;
    config.layers = 2;
    config.heads = 4;
    config.hidden = 32;
    config.feedForward = 64;
    config.vocabulary = 48;
    config.context = 8;
    return config;
}

graph::TrainingGraph training(const graph::Graph &graph)
{
    const std::vector<TensorId> outputs(graph.outputs().begin(), graph.outputs().end());
    auto part = graph::differentiate(graph, OpId(0), OpId(static_cast<std::int64_t>(graph.ops().size())), {}, outputs);
    if (!part)
        qFatal("%s", part.error().text().c_str());
    return std::move(*part);
}

/// Values of everything that comes from outside, for all samples together.
Array valueOf(const graph::Tensor &tensor, std::int64_t samples, std::int64_t vocabulary, std::uint64_t seed)
{
    const bool tokens = tensor.type == DType::I64;
    Array value = valuesOf({tensor.shape.at(samples), tokens ? 0 : -0.5, tokens ? static_cast<double>(vocabulary) : 0.5, tensor.type}, seed);
    if (tensor.name == "labels")
        value[3] = -100; // one that does not count
    return value;
}

struct Compared {
    std::string problem;
    double moved = 0;
};

/// Runs @p logical on one device and its shards on all of a mesh: the same loss, and the same gradients once they are put together.
class Comparison {
public:
    Comparison(const graph::TrainingGraph &logical, const Sharded &sharded, Mesh mesh, std::int64_t samples, std::int64_t vocabulary)
        : m_logical(logical), m_sharded(sharded), m_mesh(std::move(mesh)), m_samples(samples), m_all(samples * m_mesh.sizes[0]), m_vocabulary(vocabulary),
          m_whole(logical.graph, Mesh{}, m_all), m_parts(sharded.local.graph, m_mesh, samples)
    {
    }

    std::string run()
    {
        feed();
        if (std::string problem = m_whole.run() + m_parts.run(); !problem.empty())
            return problem;
        if (std::string problem = compareLoss(); !problem.empty())
            return problem;
        for (std::size_t i = 0; i < m_logical.parameters.size(); ++i)
            if (std::string problem = compareGradient(i); !problem.empty())
                return "gradient of " + m_logical.graph.tensor(m_logical.parameters[i]).name + ": " + problem;
        return {};
    }
    [[nodiscard]] const MeshMachine &parts() const { return m_parts; }

private:
    void feed()
    {
        const graph::Graph &local = m_sharded.local.graph;
        std::uint64_t seed = 0;
        for (const graph::Tensor &tensor : m_logical.graph.tensors()) {
            ++seed;
            if (tensor.role == graph::TensorRole::Activation || tensor.role == graph::TensorRole::Constant)
                continue;
            const Array value = valueOf(tensor, m_all, m_vocabulary, seed);
            const TensorId id = local.find(tensor.name);
            const bool gradient = tensor.id == m_logical.lossGradient;
            m_whole.set(0, tensor.id, gradient ? scalar(1) : value);
            for (int device = 0; device < m_mesh.devices() && id.valid(); ++device)
                m_parts.set(device, id, gradient ? scalar(1.0 / m_mesh.sizes[0]) : partOf(value, regionWithSamples(tensor.shape, layoutOf(tensor), m_mesh, device, m_samples)));
        }
    }

    static Array scalar(double value)
    {
        Array array{Dims{}};
        array[0] = value;
        return array;
    }

    [[nodiscard]] NdSbp layoutOf(const graph::Tensor &tensor) const
    {
        for (std::size_t i = 0; i < m_logical.parameters.size(); ++i)
            if (m_logical.parameters[i] == tensor.id)
                return m_sharded.parameters[i].sbp;
        return NdSbp(m_mesh.sizes.size());
    }

    /// Devices see the same number of labels that count but for the first of dimension 0; the mean weighs them by that.
    std::string compareLoss()
    {
        const std::int64_t rows = m_logical.graph.tensor(m_logical.graph.find("labels")).shape.elements(m_samples);
        double sum = 0;
        double weight = 0;
        for (int device = 0; device < m_mesh.devices(); ++device) {
            const auto counted = static_cast<double>(rows - (m_mesh.coordinates(device)[0] == 0 ? 1 : 0));
            sum += counted * m_parts.get(device, m_sharded.local.loss)[0];
            weight += counted;
        }
        return difference(scalar(sum / weight), m_whole.get(0, m_logical.loss), 2e-6, 2e-6);
    }

    std::string compareGradient(std::size_t i)
    {
        const sharding::ParameterShare &share = m_sharded.parameters[i];
        const TensorId id = m_sharded.local.gradients[i];
        const Array expected = m_whole.get(0, m_logical.gradients[i]);
        Array got(expected.dims);
        for (int device = 0; device < m_mesh.devices(); ++device) {
            int first = device;
            for (std::size_t d = 0; d < m_mesh.sizes.size(); ++d) {
                const bool sums = std::find(share.reduceOver.begin(), share.reduceOver.end(), static_cast<int>(d)) != share.reduceOver.end();
                if (!sums && share.sbp[d].kind != sharding::Sbp::Kind::Split)
                    first = m_mesh.line(first, d).front();
            }
            if (first == device)
                addPart(got, sharding::regionOf(share.logical.at(1), share.sbp, m_mesh, device), m_parts.get(device, id));
            else if (m_parts.bytes(device, id) != m_parts.bytes(first, id))
                return "devices " + std::to_string(device) + " and " + std::to_string(first) + " should have the same";
        }
        return difference(got, expected, 3e-6, 2e-5);
    }

    const graph::TrainingGraph &m_logical;
    const Sharded &m_sharded;
    Mesh m_mesh;
    std::int64_t m_samples;
    std::int64_t m_all;
    std::int64_t m_vocabulary;
    MeshMachine m_whole;
    MeshMachine m_parts;
};

sharding::Request requestFor(const graph::TrainingGraph &logical, Mesh mesh, Pins pins)
{
    sharding::Request request{std::move(mesh), std::move(pins), {}, {}};
    request.inputs.resize(logical.inputs.size());
    request.outputs.resize(logical.outputs.size());
    return request;
}

} // namespace

class ShardedGraph : public QObject {
    Q_OBJECT

private slots:
    void columnsAndRows()
    {
        const auto config = tiny("gpt");
        const auto graph = graph::gpt(config);
        QVERIFY(graph.ok());
        const auto logical = training(*graph);
        const Pins pins{
            {"*.attn.c_attn.weight", sbp("B,S(1:32+32+32)")}, {"*.attn.c_attn.bias", sbp("B,S(0:32+32+32)")}, {"*.attn.c_proj.weight", sbp("B,S(0)")},
            {"*.mlp.c_fc.weight", sbp("B,S(1)")},             {"*.mlp.c_fc.bias", sbp("B,S(0)")},             {"*.mlp.c_proj.weight", sbp("B,S(0)")},
        };
        const Mesh mesh{{1, 2}};
        const auto sharded = sharding::shard(logical, requestFor(logical, mesh, pins));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        for (const auto &op : sharded->local.graph.ops())
            if (qEnvironmentVariableIsSet("SHOW_OPS"))
                qInfo("%s %s -> %s", op.type.c_str(), op.name.c_str(), sharded->local.graph.tensor(op.outputs[0]).shape.text().c_str());
        Comparison comparison(logical, *sharded, mesh, 2, config.vocabulary);
        const std::string problem = comparison.run();
        QVERIFY2(problem.empty(), problem.c_str());
        QCOMPARE(comparison.parts().count("AllReduce"), 8); // two a layer forward, two backward
        QCOMPARE(comparison.parts().count("AllGather"), 0);
    }
};

QTEST_GUILESS_MAIN(ShardedGraph)
#include "tst_sharded_graph.moc"
