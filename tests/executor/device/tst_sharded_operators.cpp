// SPDX-License-Identifier: Apache-2.0
// Every signature of every operator, on two and three devices, against the operator on one.
#include "executor/device/mesh_machine.h"
#include "executor/device/shard_cases.h"

#include "engine/graph/operators/families.h"
#include "engine/sharding/localize.h"
#include "engine/sharding/signature_rules.h"

#include <QtTest/QTest>

#include <optional>
#include <set>

using namespace planloom;
using namespace planloom::cases;
using sharding::Mesh;
using sharding::NdSbp;
using sharding::OpAtHand;
using sharding::Sbp;
using sharding::Signature;

namespace {

/// A graph around one operator and its gradient, with values for all tensors: what every operator in it reads.
class Surroundings {
public:
    explicit Surroundings(const Case &c)
    {
        graph::GraphBuilder builder("case");
        const TensorId p =
            builder.parameter("p", graph::Shape(), {graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0});
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < c.inputs.size(); ++i) {
            inputs.push_back(c.inputs[i].present
                                 ? builder.input("x" + std::to_string(i), c.inputs[i].type, c.inputs[i].shape())
                                 : TensorId{});
            if (c.inputs[i].present && c.inputs[i].type == DType::F32 && c.inputs[i].trained)
                inputs.back() = builder.add("Add", {inputs.back(), p}, {}, "leaf" + std::to_string(i));
        }
        std::vector<TensorId> outputs;
        for (int i = 0; i < c.outputs; ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(c.type, "op", {}, inputs, outputs, c.attributes);
        const std::size_t leaving =
            std::string(c.type) == "Split" ? outputs.size() : 1; // others have one output that trains
        for (std::size_t i = 0; i < leaving; ++i)
            builder.output(outputs[i]);
        auto graph = std::move(builder).build();
        if (!graph) {
            m_problem = graph.error().text();
            return;
        }
        const std::vector<TensorId> leave(graph->outputs().begin(), graph->outputs().end());
        auto part =
            graph::differentiate(*graph, OpId(0), OpId(static_cast<std::int64_t>(graph->ops().size())), {}, leave);
        m_graph = part ? std::move(part->graph) : std::move(*graph);
        fill(c);
    }

    [[nodiscard]] const std::string &problem() const { return m_problem; }
    [[nodiscard]] const graph::Graph &graph() const { return *m_graph; }
    [[nodiscard]] const Array &value(TensorId id) const { return m_values[id.index()]; }

private:
    void fill(const Case &c)
    {
        MeshMachine machine(*m_graph, Mesh{}, kSamples);
        m_values.resize(m_graph->tensors().size());
        for (const graph::Tensor &tensor : m_graph->tensors()) {
            if (tensor.role == graph::TensorRole::Activation || tensor.role == graph::TensorRole::Constant)
                continue;
            const bool own = tensor.name.size() == 2 && tensor.name[0] == 'x';
            const Input other{tensor.shape.at(kSamples), tensor.name == "p" ? 0.0 : -1.0,
                              tensor.name == "p" ? 0.0 : 1.0, tensor.type};
            machine.set(0, tensor.id,
                        valuesOf(own ? c.inputs[static_cast<std::size_t>(tensor.name[1] - '0')] : other,
                                 tensor.id.index() + 1));
        }
        m_problem = machine.run();
        for (const graph::Tensor &tensor : m_graph->tensors())
            m_values[tensor.id.index()] = machine.get(0, tensor.id);
    }

    std::optional<graph::Graph> m_graph;
    Values m_values;
    std::string m_problem;
};

/// One operator by itself, whole and in shards.
class Trial {
public:
    Trial(const Surroundings &around, const graph::Op &op, int parts) : m_around(around), m_old(op), m_parts(parts)
    {
        graph::GraphBuilder builder("trial");
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const bool given = op.inputs[i].valid();
            inputs.push_back(
                given ? builder.input("x" + std::to_string(i), tensor(op.inputs[i]).type, tensor(op.inputs[i]).shape)
                      : TensorId{});
        }
        std::vector<TensorId> outputs;
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(op.type, "op", {}, inputs, outputs, op.attributes);
        auto graph = std::move(builder).build();
        if (!graph)
            qFatal("%s", graph.error().text().c_str());
        m_one.graph = std::move(*graph);
        m_one.forwardOps = 1;
        MeshMachine machine(m_one.graph, Mesh{}, kSamples);
        feed(machine, m_one.graph, Mesh{}, {});
        m_problem = machine.run();
        for (const TensorId output : m_one.graph.ops()[0].outputs)
            m_expected.push_back(machine.get(0, output));
    }

    /// All signatures, also the ones proposed when an input has segments.
    [[nodiscard]] std::vector<Signature> all() const
    {
        OpAtHand at = sharding::atHand(m_one.graph, m_one.graph.ops()[0], m_parts);
        std::vector<Signature> found = sharding::signatures(at);
        for (std::size_t i = 0; i < at.inputs.size(); ++i)
            for (std::size_t axis = 0; at.inputs[i] && axis < at.inputs[i]->shape.rank(); ++axis) {
                const std::int64_t size = at.inputs[i]->shape[axis].size;
                if (size < 2 * m_parts)
                    continue;
                at.have.assign(at.inputs.size(), Sbp{});
                at.have[i] = sharding::split(static_cast<int>(axis), {m_parts, size - m_parts});
                for (Signature &signature : sharding::signatures(at))
                    if (std::find(found.begin(), found.end(), signature) == found.end())
                        found.push_back(std::move(signature));
            }
        return found;
    }

    std::string run(const Signature &signature) const
    {
        if (!m_problem.empty())
            return m_problem;
        graph::Rewriter rewriter(m_one);
        const OpAtHand at = sharding::atHand(m_one.graph, m_one.graph.ops()[0], m_parts);
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < at.inputs.size(); ++i)
            inputs.push_back(at.inputs[i] ? rewriter.builder().input("x" + std::to_string(i), at.inputs[i]->type,
                                                                     sharding::localShape(at.inputs[i]->shape,
                                                                                          signature.inputs[i], m_parts))
                                          : TensorId{});
        const std::vector<TensorId> outputs = sharding::localize(rewriter, at, signature, inputs, {1, m_parts});
        auto local = std::move(rewriter).finish();
        if (!local)
            return local.error().text();
        const Mesh mesh{{1, m_parts}};
        MeshMachine machine(local->graph, mesh, kSamples);
        feed(machine, local->graph, mesh, signature.inputs);
        if (std::string problem = machine.run(); !problem.empty())
            return problem;
        for (std::size_t i = 0; i < at.outputs.size(); ++i)
            if (std::string wrong =
                    compare(machine, local->graph.find(at.outputs[i]->name), i, signature.outputs[i], mesh);
                !wrong.empty())
                return "output " + std::to_string(i) + ": " + wrong;
        return {};
    }

private:
    [[nodiscard]] const graph::Tensor &tensor(TensorId id) const { return m_around.graph().tensor(id); }

    void feed(MeshMachine &machine, const graph::Graph &graph, const Mesh &mesh, const std::vector<Sbp> &layouts) const
    {
        for (std::size_t i = 0; i < m_old.inputs.size(); ++i) {
            if (!m_old.inputs[i].valid())
                continue;
            const TensorId id = graph.find("x" + std::to_string(i));
            const Array &value = m_around.value(m_old.inputs[i]);
            const Sbp sbp = layouts.empty() ? Sbp{} : layouts[i];
            Array rest = value;
            for (int device = 0; device < mesh.devices(); ++device) {
                NdSbp nd(mesh.sizes.size());
                nd.back() = sbp;
                Array part =
                    partOf(value, regionWithSamples(tensor(m_old.inputs[i]).shape, nd, mesh, device, kSamples));
                if (sharding::isPartial(sbp))
                    part = share(rest, device + 1 == mesh.devices(), static_cast<std::uint64_t>(device) + 7 * i);
                machine.set(device, id, part);
            }
        }
    }

    /// A random part of what is left of a sum; the last takes all of it.
    static Array share(Array &rest, bool last, std::uint64_t seed)
    {
        Array part = rest;
        Sequence sequence(seed + 11);
        for (std::int64_t k = 0; k < part.size() && !last; ++k)
            part[k] = static_cast<double>(static_cast<float>(sequence.next(-1, 1)));
        for (std::int64_t k = 0; k < part.size(); ++k)
            rest[k] -= part[k];
        return part;
    }

    std::string compare(MeshMachine &machine, TensorId id, std::size_t i, const Sbp &sbp, const Mesh &mesh) const
    {
        const Array &expected = m_expected[i];
        Array got(expected.dims);
        for (int device = 0; device < mesh.devices(); ++device) {
            NdSbp nd(mesh.sizes.size());
            nd.back() = sbp;
            const Array part = machine.get(device, id);
            const std::string who = " on device " + std::to_string(device);
            if (sharding::isBroadcast(sbp))
                if (std::string wrong = difference(part, expected, 4e-6, 2e-5); !wrong.empty())
                    return wrong + who;
            const auto region = regionWithSamples(m_one.graph.tensor(m_one.graph.ops()[0].outputs[i]).shape, nd, mesh,
                                                  device, kSamples);
            if (part.dims != partOf(expected, region).dims)
                return "shapes differ" + who;
            if (!sharding::isBroadcast(sbp))
                addPart(got, region, part);
        }
        return sharding::isBroadcast(sbp) ? std::string() : difference(got, expected, 4e-6, 2e-5);
    }

    const Surroundings &m_around;
    const graph::Op &m_old;
    int m_parts;
    graph::TrainingGraph m_one;
    std::vector<Array> m_expected;
    std::string m_problem;
};

std::string text(const Signature &signature)
{
    std::string result;
    for (const Sbp &sbp : signature.inputs)
        result += sharding::toText({sbp}) + " ";
    result += "->";
    for (const Sbp &sbp : signature.outputs)
        result += " " + sharding::toText({sbp});
    return result;
}

} // namespace

class ShardedOperators : public QObject {
    Q_OBJECT

private slots:
    void everySignature_data()
    {
        QTest::addColumn<int>("at");
        m_cases = allShardCases();
        for (std::size_t i = 0; i < m_cases.size(); ++i)
            QTest::addRow("%s #%d", m_cases[i].name, static_cast<int>(i)) << static_cast<int>(i);
    }

    void everySignature()
    {
        QFETCH(int, at);
        const Surroundings around(m_cases[static_cast<std::size_t>(at)]);
        QVERIFY2(around.problem().empty(), around.problem().c_str());
        for (const graph::Op &op : around.graph().ops())
            for (const int parts : {2, 3}) {
                const Trial trial(around, op, parts);
                for (const Signature &signature : trial.all()) {
                    const std::string problem = trial.run(signature);
                    const std::string what = op.type + " '" + op.name + "' on " + std::to_string(parts) + ": "
                        + text(signature) + ": " + problem;
                    QVERIFY2(problem.empty(), what.c_str());
                    const bool whole =
                        signature == sharding::signatures(sharding::atHand(around.graph(), op, parts)).front();
                    m_tried[op.type.name()] += whole ? 0 : 1;
                }
            }
    }

    /// Operators with rules beyond all-B have been split in the cases above.
    void everyTypeWasTried()
    {
        std::set<std::string> others{"DropoutGrad"}; // of which only the whole is read
        for (const auto family : {graph::boxingOperators, graph::flatOperators, graph::unfusedOperators})
            for (const graph::Operator &row : family())
                others.insert(row.type); // tst_sharded_graph
        for (const graph::Operator &row : graph::operators()) {
            const sharding::SignatureRule *rule = sharding::findRule(row.type);
            if (rule != nullptr && rule->propose != nullptr && !others.contains(row.type))
                QVERIFY2(m_tried[row.type] > 0, row.type);
        }
        int all = 0;
        for (const auto &[type, count] : m_tried)
            all += count;
        qInfo("%d signatures of %d types", all, static_cast<int>(m_tried.size()));
    }

private:
    std::vector<Case> m_cases;
    std::map<std::string, int> m_tried;
};

QTEST_GUILESS_MAIN(ShardedOperators)
#include "tst_sharded_operators.moc"
