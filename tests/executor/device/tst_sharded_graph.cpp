// SPDX-License-Identifier: Apache-2.0
#include "executor/device/mesh_machine.h"

#include "engine/graph/zoo/zoo.h"
#include "engine/sharding/megatron.h"

#include <QtTest/QTest>

using namespace planloom;
using namespace planloom::cases;
using sharding::Mesh;
using sharding::NdSbp;
using sharding::Sharded;

namespace {

using Pins = std::map<std::string, NdSbp>;

NdSbp sbp(const std::string &text) { return *sharding::fromText(text); }

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
    Array value = valuesOf({tensor.shape.at(samples), tokens ? 0 : -0.5, tokens ? static_cast<double>(vocabulary) : 0.5,
                            tensor.type},
                           seed);
    if (tensor.name == "labels")
        value[3] = -100; // one that does not count
    return value;
}

struct Compared {
    std::string problem;
    double moved = 0;
};

/// Runs @p logical on one device and its shards on all of a mesh: the same loss, and the same gradients once they are
/// put together.
class Comparison {
public:
    Comparison(const graph::TrainingGraph &logical, const Sharded &sharded, Mesh mesh, std::int64_t samples,
               std::int64_t vocabulary)
        : m_logical(logical),
          m_sharded(sharded),
          m_mesh(std::move(mesh)),
          m_samples(samples),
          m_all(samples * m_mesh.sizes[0]),
          m_vocabulary(vocabulary),
          m_whole(logical.graph, Mesh{}, m_all),
          m_parts(sharded.local.graph, m_mesh, samples)
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
                m_parts.set(device, id,
                            gradient
                                ? scalar(counted(device) / (static_cast<double>(rows() * m_mesh.sizes[0] - 1)))
                                : partOf(value,
                                         regionWithSamples(tensor.shape, layoutOf(tensor), m_mesh, device, m_samples)));
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

    [[nodiscard]] std::int64_t rows() const
    {
        return m_logical.graph.tensor(m_logical.graph.find("labels")).shape.elements(m_samples);
    }
    /// Labels of a device that count: the first sample of all has one that does not.
    [[nodiscard]] double counted(int device) const
    {
        return static_cast<double>(rows() - (m_mesh.coordinates(device)[0] == 0 ? 1 : 0));
    }

    /// The mean over samples weighs the devices by the labels that they count.
    std::string compareLoss()
    {
        double sum = 0;
        double weight = 0;
        for (int device = 0; device < m_mesh.devices(); ++device) {
            sum += counted(device) * m_parts.get(device, m_sharded.local.loss)[0];
            weight += counted(device);
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
                const bool sums = std::find(share.reduceOver.begin(), share.reduceOver.end(), static_cast<int>(d))
                    != share.reduceOver.end();
                if (!sums && share.sbp[d].kind != sharding::Sbp::Kind::Split)
                    first = m_mesh.line(first, d).front();
            }
            if (first == device)
                addPart(got, sharding::regionOf(share.logical.at(1), share.sbp, m_mesh, device),
                        m_parts.get(device, id));
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

Result<graph::Graph> model(const QString &name)
{
    auto config = tiny(qPrintable(name));
    config.tiedEmbeddings = !name.endsWith("untied");
    if (name.startsWith("bert"))
        return graph::bert(config);
    if (name.startsWith("llama"))
        return graph::llama(config, 4, 10000, 1e-5);
    return graph::gpt(config);
}

/// One product and a loss: everything about it can be pinned.
graph::Graph productModel()
{
    graph::GraphBuilder builder("product");
    const TensorId tokens = builder.input("tokens", DType::I64, graph::Shape::batched({8}));
    const TensorId table = builder.parameter("table", graph::Shape::of({48, 16}), {});
    const TensorId w = builder.parameter("w", graph::Shape::of({16, 48}), {});
    const TensorId x = builder.add("Gather", {table, tokens}, {}, "x");
    const TensorId rows = builder.add("Reshape", {builder.add("MatMul", {x, w}, {}, "y")},
                                      {{"shape", Ints{8, 48}}, {"batch_axis", std::int64_t{0}}}, "rows");
    const TensorId labels = builder.input("labels", DType::I64, graph::Shape({graph::Dim{8, true}}));
    const TensorId loss = builder.add("SoftmaxCrossEntropyLoss", {rows, labels}, {}, "loss");
    builder.output(loss);
    builder.loss(loss);
    return *std::move(builder).build();
}

/// Layouts of every tensor that may be pinned, drawn at random: about one in @p every, each component one that divides
/// twice.
Pins randomPins(const graph::Graph &graph, const Mesh &mesh, std::uint64_t seed, double every)
{
    Sequence sequence(seed);
    Pins pins;
    for (const graph::Tensor &tensor : graph.tensors()) {
        const bool held = tensor.role == graph::TensorRole::Parameter;
        if (sequence.next(0, every) >= 1 || tensor.role == graph::TensorRole::Constant)
            continue;
        NdSbp pin(mesh.sizes.size());
        for (std::size_t d = 1; d < mesh.sizes.size(); ++d) {
            const auto axis = static_cast<std::size_t>(sequence.next(0, static_cast<double>(tensor.shape.rank()) + 1));
            if (axis < tensor.shape.rank() && tensor.shape[axis].size % (mesh.devices() / mesh.sizes[0]) == 0)
                pin[d] = {sharding::Sbp::Kind::Split, static_cast<int>(axis), {}};
            else if (!held && tensor.type == DType::F32 && sequence.next(0, 4) < 1)
                pin[d].kind = sharding::Sbp::Kind::Partial;
        }
        pins[tensor.name] = pin;
    }
    return pins;
}

Mesh meshOf(const QString &sizes)
{
    Mesh mesh{{}};
    for (const QString &size : sizes.split(','))
        mesh.sizes.push_back(size.toInt());
    return mesh;
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
            {"*.attn.c_attn.weight", sbp("B,S(1:32+32+32)")},
            {"*.attn.c_attn.bias", sbp("B,S(0:32+32+32)")},
            {"*.attn.c_proj.weight", sbp("B,S(0)")},
            {"*.mlp.c_fc.weight", sbp("B,S(1)")},
            {"*.mlp.c_fc.bias", sbp("B,S(0)")},
            {"*.mlp.c_proj.weight", sbp("B,S(0)")},
        };
        const Mesh mesh{{1, 2}};
        const auto sharded = sharding::shard(logical, requestFor(logical, mesh, pins));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        Comparison comparison(logical, *sharded, mesh, 2, config.vocabulary);
        const std::string problem = comparison.run();
        QVERIFY2(problem.empty(), problem.c_str());
        QCOMPARE(comparison.parts().count("AllReduce"), 8); // two a layer forward, two backward
        QCOMPARE(comparison.parts().count("AllGather"), 0);
        // Each moves 2 (p - 1) times 2 samples of 8 x 32 floats.
        QCOMPARE(comparison.parts().moved(), 8 * 2.0 * 2 * 8 * 32 * 4);
    }

    void megatron_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("sizes");
        QTest::addColumn<bool>("tokens");
        QTest::addColumn<bool>("vocabulary");
        for (const char *name : {"gpt", "gpt untied", "bert", "llama"})
            for (const char *sizes : {"2", "1,2", "2,2", "1,4", "1,2,2", "2,1,2"})
                for (const bool tokens : {false, true})
                    for (const bool vocabulary : {false, true})
                        QTest::addRow("%s on %s%s%s", name, sizes, tokens ? " tokens" : "",
                                      vocabulary ? " vocabulary" : "")
                            << name << sizes << tokens << vocabulary;
    }

    void megatron()
    {
        QFETCH(QString, name);
        QFETCH(QString, sizes);
        QFETCH(bool, tokens);
        QFETCH(bool, vocabulary);
        const auto graph = model(name);
        QVERIFY(graph.ok());
        const auto logical = training(*graph);
        const Mesh mesh = meshOf(sizes);
        const auto sharded =
            sharding::shard(logical,
                            requestFor(logical, mesh, sharding::megatronPins(*graph, mesh, {tokens, vocabulary})));
        QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
        if (qEnvironmentVariableIsSet("SHOW_OPS"))
            show(sharded->local.graph);
        Comparison comparison(logical, *sharded, mesh, 2, 48);
        const std::string problem = comparison.run();
        QVERIFY2(problem.empty(), problem.c_str());
    }

    /// All pairs of layouts of both factors, on two dimensions at once.
    void productsOnTwoDimensions()
    {
        const graph::Graph graph = productModel();
        const auto logical = training(graph);
        const Mesh mesh{{1, 2, 2}};
        int possible = 0;
        for (const char *x : {"B,B", "B,S(1)", "B,S(2)", "S(1),B", "S(1),S(1)", "S(1),S(2)", "S(2),B", "S(2),S(1)",
                              "S(2),S(2)", "P,S(1)", "B,P"})
            for (const char *w :
                 {"B,B", "B,S(0)", "B,S(1)", "S(0),B", "S(0),S(0)", "S(0),S(1)", "S(1),B", "S(1),S(0)", "S(1),S(1)"}) {
                const Pins pins{{"x", sbp(std::string("S(0),") + x)}, {"w", sbp(std::string("B,") + w)}};
                const auto sharded = sharding::shard(logical, requestFor(logical, mesh, pins));
                QVERIFY2(sharded.ok(), sharded.ok() ? "" : sharded.error().text().c_str());
                Comparison comparison(logical, *sharded, mesh, 2, 48);
                const std::string problem = std::string(x) + " times " + w + ": " + comparison.run();
                QVERIFY2(problem.ends_with(": "), problem.c_str());
                ++possible;
            }
        QCOMPARE(possible, 99);
    }

    /// Whatever is pinned, the result is the same, or the pin of a parameter is refused by name.
    void randomLayouts_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("sizes");
        for (const char *name : {"gpt", "bert", "llama"})
            for (const char *sizes : {"1,2", "1,2,2", "2,4"})
                QTest::addRow("%s on %s", name, sizes) << name << sizes;
    }

    void randomLayouts()
    {
        QFETCH(QString, name);
        QFETCH(QString, sizes);
        const auto graph = model(name);
        QVERIFY(graph.ok());
        const auto logical = training(*graph);
        const Mesh mesh = meshOf(sizes);
        int possible = 0;
        for (std::uint64_t seed = 1; seed <= 24; ++seed) {
            const auto sharded =
                sharding::shard(logical,
                                requestFor(logical, mesh, randomPins(*graph, mesh, seed, seed % 2 == 0 ? 2 : 8)));
            if (!sharded) {
                QVERIFY2(sharded.error().message.find("has no signature that allows the pins of '")
                             != std::string::npos,
                         sharded.error().message.c_str());
                continue;
            }
            ++possible;
            Comparison comparison(logical, *sharded, mesh, 1, 48);
            const std::string problem = "seed " + std::to_string(seed) + ": " + comparison.run();
            QVERIFY2(problem.ends_with(": "), problem.c_str());
        }
        QVERIFY2(possible >= 3, std::to_string(possible).c_str());
    }

private:
    static void show(const graph::Graph &graph)
    {
        for (const auto &op : graph.ops())
            qInfo("%s %s -> %s", op.type.name().c_str(), op.name.c_str(),
                  graph.tensor(op.outputs[0]).shape.text().c_str());
    }
};

QTEST_GUILESS_MAIN(ShardedGraph)
#include "tst_sharded_graph.moc"
