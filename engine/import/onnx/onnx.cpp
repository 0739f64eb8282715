// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators/operators.h"
#include "engine/import/import.h"
#include "engine/import/loss/attach.h"
#include "engine/import/onnx/exact.h"
#include "engine/import/onnx/expand.h"
#include "engine/import/onnx/node.h"
#include "engine/import/onnx/order.h"
#include "engine/import/onnx/parse.h"
#include "engine/import/onnx/sizes.h"
#include "engine/import/onnx/tensor.h"
#include "engine/import/onnx/weights.h"
#include "engine/import/patterns/patterns.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace planloom::import {
namespace {

using graph::DType;
using graph::Shape;
using graph::TensorInfo;

/// Meaning of a name in the file.
struct Value {
    TensorInfo info;
    bool shapeKnown = true;
    std::optional<KnownValue> known;
    std::optional<StoredTensor> stored; ///< initializers: made into a tensor when an operator first reads them
    bool fromFile = false;              ///< an initializer, not computed by a Constant node
    TensorId tensor;                    ///< in the graph under construction
};

class OnnxReader {
public:
    /// @p fed: values of the inputs, if the file is to be run as it is.
    OnnxReader(const onnx::ModelProto &model, const std::string &name, const std::string &folder,
               const std::vector<FedInput> *fed = nullptr)
        : m_proto(model.graph()),
          m_source(name),
          m_folder(folder),
          m_fed(fed),
          m_builder(name)
    {
        m_reading.exact = fed != nullptr;
        for (const auto &import : model.opset_import())
            if (import.domain().empty() || import.domain() == "ai.onnx")
                m_reading.opset = import.version();
    }

    Result<Model> read()
    {
        if (m_proto.node().empty())
            return badInput("holds no operators; export the model again");
        if (m_reading.opset == 0)
            return badInput("names no version of the ONNX operators; export the model again");
        if (const Status done = readInitializers(); !done)
            return done.error();
        if (const Status done = m_fed ? takeFedInputs() : readInputs(); !done)
            return done.error();
        readDeclaredShapes();
        const auto order = sortNodes(m_proto, [this](const std::string &tensor) { return m_values.contains(tensor); });
        if (!order)
            return order.error();
        for (const int index : *order)
            if (const Status done = readNode(m_proto.node(index)); !done)
                return done.error();
        if (const Status done = m_fed ? keepOutputs() : finishOutputs(); !done)
            return done.error();
        auto graph = std::move(m_builder).build();
        if (!graph)
            return graph.error();
        Model model;
        model.graph = std::make_shared<const graph::Graph>(m_fed ? *std::move(graph) : fusePatterns(*graph));
        model.source = m_source;
        model.warnings = warnings();
        return model;
    }

private:
    // --- Before the nodes -----------------------------------------------------------------------------------------

    Status readInitializers()
    {
        for (const onnx::TensorProto &proto : m_proto.initializer()) {
            auto stored = readTensor(proto, m_folder, m_reading.floats());
            if (!stored)
                return stored.error();
            Value value;
            value.info = {stored->type, Shape::of(stored->dims)};
            value.fromFile = true;
            const bool small = stored->type != DType::F32 || stored->dims.empty() || value.info.shape.elements(1) == 1;
            if (small)
                value.known = knownValue(*stored);
            value.stored = *std::move(stored);
            if (!m_values.emplace(proto.name(), std::move(value)).second)
                return badInput(fmt::format("tensor '{}' is stored twice; the file is damaged", proto.name()));
        }
        return {};
    }

    Status takeFedInputs()
    {
        for (const FedInput &input : *m_fed) {
            Value value;
            value.info = {input.tensor.type, Shape::of(input.tensor.dims)};
            if (input.known)
                value.known = knownValue({input.tensor.type, input.tensor.dims, dataInitializer(input.tensor)});
            else
                value.tensor = m_builder.input(input.tensor.name, value.info.type, value.info.shape);
            m_values[input.tensor.name] = std::move(value);
        }
        return {};
    }

    /// True inputs get the batch as their first dimension; files without weights list those as inputs, too.
    Status readInputs()
    {
        std::vector<const onnx::ValueInfoProto *> fed;
        for (const onnx::ValueInfoProto &input : m_proto.input()) {
            if (m_values.contains(input.name()))
                continue; // older files list initializers among the inputs
            if (!looksLikeWeight(m_proto, input)) {
                fed.push_back(&input);
                continue;
            }
            if (const Status added = addBareWeight(input); !added)
                return added;
        }
        m_reading.batchSize = m_sizes.findBatch(m_proto, fed);
        for (const onnx::ValueInfoProto *input : fed) {
            Value value;
            const auto &tensor = input->type().tensor_type();
            if (!dataType(tensor.elem_type(), value.info.type))
                return unsupported(
                    fmt::format("input '{}' has ONNX element type {}; only floats and integers can be fed",
                                input->name(), tensor.elem_type()));
            const auto shape = m_sizes.shapeOf(tensor.shape(), input->name(), batchAxisOf(m_proto, input->name()));
            if (!shape)
                return shape.error();
            value.info.shape = *shape;
            value.tensor = m_builder.input(input->name(), value.info.type, *shape);
            m_values[input->name()] = std::move(value);
        }
        return {};
    }

    Status addBareWeight(const onnx::ValueInfoProto &input)
    {
        StoredTensor stored;
        dataType(input.type().tensor_type().elem_type(), stored.type);
        for (const auto &dim : input.type().tensor_type().shape().dim())
            stored.dims.push_back(dim.dim_value());
        for (const std::int64_t dim : stored.dims)
            if (dim < 0)
                return badInput(fmt::format("input '{}' has a negative size; the file is damaged", input.name()));
        stored.init = initialGuess(input.name(), stored.dims);
        Value value;
        value.info = {stored.type, Shape::of(stored.dims)};
        value.fromFile = true;
        value.stored = std::move(stored);
        m_values.emplace(input.name(), std::move(value));
        return {};
    }

    void readDeclaredShapes()
    {
        DeclaredSizes sizes = m_sizes; // only sizes that the inputs leave open are reported
        for (const onnx::ValueInfoProto &info : m_proto.value_info()) {
            TensorInfo declared;
            if (!info.type().has_tensor_type()
                || !dataType(info.type().tensor_type().elem_type(), declared.type, m_reading.floats()))
                continue;
            if (const auto shape = sizes.shapeOf(info.type().tensor_type().shape(), info.name())) {
                declared.shape = *shape;
                m_declared[info.name()] = declared;
            }
        }
    }

    // --- Nodes ----------------------------------------------------------------------------------------------------

    Status readNode(const onnx::NodeProto &node)
    {
        std::vector<NodeInput> inputs;
        for (const std::string &name : node.input()) {
            const Value *value = name.empty() ? nullptr : &m_values.at(name);
            inputs.push_back({name, value ? &value->info : nullptr, value && value->known ? &*value->known : nullptr});
        }
        if (const auto steps = expandNode(node, inputs, m_reading); !steps.empty()) {
            for (const onnx::NodeProto &step : steps)
                if (const Status done = readNode(step); !done)
                    return done;
            return {};
        }
        auto normal = normalize(node, inputs, m_reading);
        if (!normal)
            return normal.error();
        if (normal->constant)
            return setKnown(node, *std::move(normal->constant));
        graph::Op op = std::move(normal->op);
        if (auto folded = tryFold(op, node, normal->inputs))
            return setKnown(node, *std::move(folded));
        if (op.type == "Identity" && !normal->inputs.empty() && !normal->inputs[0].empty()
            && m_values.at(normal->inputs[0]).stored) {
            m_alias[node.output(0)] = m_alias.contains(node.input(0)) ? m_alias[node.input(0)] : node.input(0);
            m_values[node.output(0)] = m_values.at(node.input(0));
            return {};
        }
        return addOperator(std::move(op), node, normal->inputs);
    }

    std::optional<KnownValue> tryFold(const graph::Op &op, const onnx::NodeProto &node,
                                      const std::vector<std::string> &inputs) const
    {
        if (node.output_size() != 1)
            return {};
        const bool asksShape = (op.type == "Shape" || op.type == "Size") && inputs.size() == 1 && !inputs[0].empty();
        if (asksShape && m_values.at(inputs[0]).shapeKnown)
            return foldShape(op, m_values.at(inputs[0]).info.shape);
        std::vector<KnownValue> loaded;
        loaded.reserve(inputs.size());
        std::vector<const KnownValue *> known;
        for (const std::string &name : inputs) {
            const auto value = m_values.find(name);
            if (value != m_values.end() && !value->second.known && value->second.stored
                && isMaskHandling(name, op.type))
                if (auto elements = knownValue(*value->second.stored))
                    known.push_back(&loaded.emplace_back(*std::move(elements)));
            if (value != m_values.end() && value->second.known)
                known.push_back(&*value->second.known);
        }
        return known.size() == inputs.size() ? fold(op, known) : std::nullopt;
    }

    Status setKnown(const onnx::NodeProto &node, KnownValue known)
    {
        Value value;
        value.info = {known.type, Shape::of(known.dims)};
        value.known = std::move(known);
        m_values[node.output(0)] = std::move(value);
        return {};
    }

    Status addOperator(graph::Op op, const onnx::NodeProto &node, const std::vector<std::string> &inputs)
    {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (inputs[i].empty()) {
                op.inputs.emplace_back();
                continue;
            }
            const auto id = tensorFor(inputs[i], op, i);
            if (!id)
                return id.error();
            op.inputs.push_back(*id);
        }
        op.name = uniqueName(node);
        op.scope = scopeOf(node);
        op.outputs.resize(static_cast<std::size_t>(node.output_size())); // some have optional outputs
        auto infos = inferOutputs(op, node);
        if (!infos)
            return infos.error();
        op.outputs.clear();
        for (std::size_t i = 0; i < infos->size(); ++i) {
            const bool named = static_cast<int>(i) < node.output_size() && !node.output(static_cast<int>(i)).empty();
            const std::string output = named ? node.output(static_cast<int>(i)) : fmt::format("{}:{}", op.name, i);
            Value value;
            value.info = (*infos)[i];
            value.tensor = m_builder.activation(output, value.info.type, value.info.shape, true);
            op.outputs.push_back(value.tensor);
            m_values[output] = std::move(value);
        }
        m_builder.addOp(op.type, op.name, op.scope, op.inputs, op.outputs, op.attributes);
        return {};
    }

    Result<std::vector<TensorInfo>> inferOutputs(const graph::Op &op, const onnx::NodeProto &node)
    {
        const graph::Operator *row = op.type.row();
        if (row && row->infer) {
            graph::OpView view{op, {}};
            for (const TensorId id : op.inputs)
                view.inputs.push_back(id.valid() ? &m_builder.tensor(id) : nullptr);
            const auto count = static_cast<int>(view.inputs.size());
            if (!row->inputs.allows(count))
                return badInput(fmt::format("operator '{}' ({}) has {} inputs; the file is damaged", op.name,
                                            op.type.name(), count));
            if (std::find(view.inputs.begin(), view.inputs.begin() + row->inputs.least, nullptr)
                != view.inputs.begin() + row->inputs.least)
                return badInput(
                    fmt::format("operator '{}' ({}) lacks an input; the file is damaged", op.name, op.type.name()));
            auto infos = row->infer(view);
            if (!infos)
                return badInput(fmt::format("operator '{}' ({}): {}", op.name, op.type.name(), infos.error().message));
            return infos;
        }
        m_unknown.insert(op.type.name());
        std::vector<TensorInfo> infos;
        for (const std::string &output : node.output()) {
            const auto declared = m_declared.find(output);
            if (declared != m_declared.end())
                infos.push_back(declared->second);
            else
                infos.push_back(node.input_size() > 0 && !node.input(0).empty() ? m_values.at(node.input(0)).info
                                                                                : TensorInfo{});
        }
        return infos;
    }

    /// The graph's tensor for a name, made now if it is an initializer or a folded value.
    Result<TensorId> tensorFor(const std::string &name, const graph::Op &op, std::size_t input)
    {
        Value &value = m_values.at(name);
        if (value.tensor.valid())
            return value.tensor;
        if (const auto alias = m_alias.find(name); alias != m_alias.end()) {
            const auto shared = tensorFor(alias->second, op, input);
            if (shared)
                value.tensor = *shared;
            return shared;
        }
        if (value.stored) {
            value.tensor = addStored(name, value, op, input);
            return value.tensor;
        }
        if (!value.known || value.known->symbolic())
            return unsupported(fmt::format("operator '{}' ({}) computes with a size that depends on the batch; export "
                                           "the model with fixed sizes inside",
                                           op.name, op.type.name()));
        const KnownValue &known = *value.known;
        if (isRearrangedWeight(op.type, input, known))
            value.tensor =
                m_builder.parameter(name, Shape::of(known.dims),
                                    dataInitializer({name, known.type, known.dims, known.bytes()}), known.type);
        else
            value.tensor = m_builder.constant(name, known.type, Shape::of(known.dims), known.bytes());
        return value.tensor;
    }

    TensorId addStored(const std::string &name, const Value &value, const graph::Op &op, std::size_t input)
    {
        const StoredTensor &stored = *value.stored;
        const bool running = op.traits().isState(input);
        if (running)
            return m_builder.state(name, value.info.shape, stored.init, stored.type);
        const bool trains = stored.type == DType::F32 && !stored.dims.empty() && !hasBufferName(name)
            && (isWeightPosition(op.type, input) || hasWeightName(name) || isLearnedAddend(stored, op.type));
        if (trains)
            return m_builder.parameter(name, value.info.shape, stored.init, stored.type);
        if (stored.type == DType::F32 && looksNamed(name, stored) && !hasBufferName(name))
            m_fixed += (m_fixed.empty() ? "'" : ", '") + name + "'";
        if (stored.init.kind == graph::Initializer::Kind::Data)
            return m_builder.constant(name, stored.type, value.info.shape, *stored.init.data);
        return m_builder.state(name, value.info.shape, stored.init, stored.type);
    }

    std::string uniqueName(const onnx::NodeProto &node)
    {
        std::string base = node.name();
        while (base.starts_with('/'))
            base.erase(0, 1);
        if (base.empty())
            base = node.op_type();
        std::string name = base;
        for (int i = 1; !m_names.insert(name).second; ++i)
            name = fmt::format("{}_{}", base, i);
        return name;
    }

    /// The module path: from names such as "/layer1/layer1.0/conv1/Conv", else from the weight that the node reads.
    std::string scopeOf(const onnx::NodeProto &node) const
    {
        std::string_view name = node.name();
        while (name.starts_with('/'))
            name.remove_prefix(1);
        if (const auto slash = name.rfind('/'); slash != std::string_view::npos)
            return std::string(name.substr(0, slash));
        for (const std::string &input : node.input()) {
            const auto value = m_values.find(input);
            if (value == m_values.end() || !value->second.stored)
                continue;
            const auto dot = input.rfind('.');
            if (dot == std::string::npos)
                continue;
            std::string scope = input.substr(0, dot);
            std::replace(scope.begin(), scope.end(), '.', '/');
            return scope;
        }
        return {};
    }

    // --- After the nodes ------------------------------------------------------------------------------------------

    Status finishOutputs()
    {
        for (const auto &output : m_proto.output()) {
            const auto value = m_values.find(output.name());
            if (value == m_values.end())
                return badInput(fmt::format("output '{}' is made by no operator; the file is damaged", output.name()));
            if (!value->second.tensor.valid())
                continue; // a constant: nothing to compute
            m_builder.output(value->second.tensor);
        }
        return {};
    }

    /// Every output of the file, in order, by a copy where no operator makes it under its own name.
    Status keepOutputs()
    {
        for (const auto &output : m_proto.output()) {
            const auto found = m_values.find(output.name());
            if (found == m_values.end())
                return badInput(fmt::format("output '{}' is made by no operator; the file is damaged", output.name()));
            const Value &value = found->second;
            TensorId from = value.tensor;
            if (!from.valid() && value.known)
                from = m_builder.constant(output.name(), value.known->type, Shape::of(value.known->dims),
                                          value.known->bytes());
            else if (!from.valid() && value.stored && value.stored->init.data)
                from =
                    m_builder.constant(output.name(), value.stored->type, value.info.shape, *value.stored->init.data);
            if (!from.valid())
                return unsupported(
                    fmt::format("output '{}' is a part of the file that is not computed", output.name()));
            if (m_builder.tensor(from).role != graph::TensorRole::Activation)
                from = m_builder.add("Identity", {from}, {}, output.name() + "/copy");
            m_builder.output(from);
        }
        return {};
    }

    [[nodiscard]] std::vector<std::string> warnings() const
    {
        std::vector<std::string> all;
        if (!m_unknown.empty()) {
            std::string types;
            for (const std::string &type : m_unknown)
                types += (types.empty() ? "" : ", ") + type;
            all.push_back("operators that are kept but cannot be trained: " + types);
        }
        for (const std::string &open : m_sizes.open())
            all.push_back(
                fmt::format("the size '{}' is left open and taken as {}", open, DeclaredSizes::kOpenDimension));
        if (!m_fixed.empty() && !m_fed)
            all.push_back("is not trained: " + m_fixed + "; the name of a weight ends in weight, bias or scale");
        return all;
    }

    const onnx::GraphProto &m_proto;
    std::string m_source;
    std::string m_folder;
    const std::vector<FedInput> *m_fed;
    graph::GraphBuilder m_builder;
    Reading m_reading;
    DeclaredSizes m_sizes;
    std::string m_fixed; ///< stored tensors with hand-written names that are not trained
    std::map<std::string, Value> m_values;
    std::map<std::string, std::string> m_alias;
    std::map<std::string, TensorInfo> m_declared;
    std::set<std::string> m_names;
    std::set<std::string> m_unknown;
};

/// Remedy for operators that do not fit one another in a file that was exported for a fixed number of samples:
/// not every place that this number went to can be told from others of the same size.
std::string remedyOf(const Error &error, const onnx::GraphProto &graph)
{
    if (!error.message.starts_with("operator '"))
        return {};
    for (const onnx::ValueInfoProto &input : graph.input()) {
        const auto isThis = [&](const onnx::TensorProto &stored) { return stored.name() == input.name(); };
        if (std::any_of(graph.initializer().begin(), graph.initializer().end(), isThis)
            || looksLikeWeight(graph, input))
            continue;
        const auto &shape = input.type().tensor_type().shape();
        const int axis = batchAxisOf(graph, input.name());
        if (axis < shape.dim_size() && shape.dim(axis).has_dim_value())
            return fmt::format(" (the file was exported for a batch of {}: export it with the first dimension of its "
                               "inputs left open, dynamic_axes)",
                               shape.dim(axis).dim_value());
    }
    return {};
}

} // namespace

Result<Model> readOnnx(std::string_view bytes, const std::string &name, const std::string &folder,
                       const std::vector<std::string> &loss)
{
    const auto model = parseOnnx(bytes);
    if (!model)
        return model.error().in(name);
    auto result = OnnxReader(**model, name, folder).read();
    if (!result) {
        Error error = result.error();
        error.message += remedyOf(error, (*model)->graph());
        return error.in(name);
    }
    auto trained = withLoss(*std::move(result), loss);
    return trained ? std::move(trained) : trained.error().in(name);
}

Result<Model> readOnnxExactly(std::string_view bytes, const std::string &name, const std::string &folder,
                              const std::vector<FedInput> &inputs)
{
    const auto model = parseOnnx(bytes);
    if (!model)
        return model.error().in(name);
    auto result = OnnxReader(**model, name, folder, &inputs).read();
    return result ? std::move(result) : result.error().in(name);
}

} // namespace planloom::import
