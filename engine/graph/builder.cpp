// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/graph.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_set>

namespace planloom::graph {
namespace {

/// More elements than any tensor of a real model; a larger product means a corrupt or hostile file.
constexpr std::int64_t kMostTensorElements = std::int64_t{1} << 46;

std::string describe(const Op &op) { return "operator '" + op.name + "' (" + op.type + ")"; }

std::string inputShapes(const OpView &view)
{
    std::string text;
    for (const Tensor *tensor : view.inputs)
        text += (text.empty() ? "" : ", ") + (tensor ? tensor->shape.text() : std::string("none"));
    return text;
}

/// Walks backwards through operators that could not be sorted until one comes up again: that is a cycle.
std::string nameCycle(const std::vector<Op> &ops, const std::vector<Tensor> &tensors, const std::vector<int> &waiting)
{
    const auto stuckProducer = [&](std::size_t op) {
        for (const TensorId input : ops[op].inputs) {
            const OpId producer = input.valid() ? tensors[input.index()].producer : OpId{};
            if (producer.valid() && waiting[producer.index()] > 0)
                return producer.index();
        }
        return op;
    };
    std::size_t at = 0;
    while (waiting[at] <= 0)
        ++at;
    std::vector<std::size_t> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
        path.push_back(at);
        at = stuckProducer(at);
    }
    std::string text = "'" + ops[at].name + "'";
    for (auto step = path.rbegin(); step != path.rend(); ++step) {
        text += " -> '" + ops[*step].name + "'";
        if (*step == at)
            break;
    }
    return text;
}

/// Keeps inference far from overflow.
Status checkShape(const Tensor &tensor)
{
    const auto &dims = tensor.shape.dims();
    const bool outside = std::any_of(dims.begin(), dims.end(),
                                     [](const Dim &dim) { return dim.size < 0 || dim.size > kMostTensorElements; });
    if (outside || tensor.shape.elements(1) > kMostTensorElements)
        return badInput("tensor '" + tensor.name + "' has an impossible shape " + tensor.shape.text()
                        + "; correct its sizes");
    return {};
}

Status checkData(const Tensor &tensor)
{
    // States of samples, a row for each, are of trainings that are made by rewrites: no model may have them.
    const bool ofSamples = tensor.role == TensorRole::State && tensor.init.kind == Initializer::Kind::Zeros;
    if (tensor.shape.batched() && !ofSamples && tensor.role != TensorRole::Input
        && tensor.role != TensorRole::Activation)
        return badInput("tensor '" + tensor.name + "' is fixed but its shape " + tensor.shape.text()
                        + " depends on the batch; give it fixed sizes");
    if (tensor.role == TensorRole::Constant && tensor.init.kind == Initializer::Kind::None)
        return badInput("constant '" + tensor.name + "' has no value; give it an initializer");
    if (tensor.init.kind != Initializer::Kind::Data)
        return {};
    const std::int64_t have = tensor.init.data ? static_cast<std::int64_t>(tensor.init.data->size()) : 0;
    if (have != tensor.bytes().value())
        return badInput("tensor '" + tensor.name + "' holds " + std::to_string(have) + " bytes of data where its shape "
                        + tensor.shape.text() + " of " + name(tensor.type) + " needs "
                        + std::to_string(tensor.bytes().value()));
    return {};
}

} // namespace

GraphBuilder::GraphBuilder(std::string name) { m_graph.m_name = std::move(name); }

TensorId GraphBuilder::addTensor(std::string name, DType type, Shape shape, TensorRole role, Initializer init)
{
    const TensorId id(static_cast<std::int64_t>(m_graph.m_tensors.size()));
    m_graph.m_tensors.push_back(
        {id, std::move(name), type, std::move(shape), Layout::RowMajor, role, {}, std::move(init)});
    m_shapeKnown.push_back(role != TensorRole::Activation);
    return id;
}

TensorId GraphBuilder::input(std::string name, DType type, Shape shape)
{
    return addTensor(std::move(name), type, std::move(shape), TensorRole::Input, {});
}

TensorId GraphBuilder::parameter(std::string name, Shape shape, Initializer init, DType type)
{
    return addTensor(std::move(name), type, std::move(shape), TensorRole::Parameter, std::move(init));
}

TensorId GraphBuilder::state(std::string name, Shape shape, Initializer init, DType type)
{
    return addTensor(std::move(name), type, std::move(shape), TensorRole::State, std::move(init));
}

TensorId GraphBuilder::constant(std::string name, DType type, Shape shape, std::vector<std::byte> data)
{
    Initializer init;
    init.kind = Initializer::Kind::Data;
    init.data = std::make_shared<const std::vector<std::byte>>(std::move(data));
    return addTensor(std::move(name), type, std::move(shape), TensorRole::Constant, std::move(init));
}

TensorId GraphBuilder::copy(const Tensor &tensor)
{
    const bool made = tensor.role == TensorRole::Activation;
    const TensorId id =
        addTensor(tensor.name, tensor.type, tensor.shape, tensor.role, made ? Initializer() : tensor.init);
    m_shapeKnown.back() = true;
    return id;
}

TensorId GraphBuilder::constantInts(std::string name, const std::vector<std::int64_t> &values)
{
    std::vector<std::byte> data(values.size() * sizeof(std::int64_t));
    if (!data.empty())
        std::memcpy(data.data(), values.data(), data.size());
    return constant(std::move(name), DType::I64, Shape::of({static_cast<std::int64_t>(values.size())}),
                    std::move(data));
}

TensorId GraphBuilder::constantFloats(std::string name, std::vector<std::int64_t> sizes, double value)
{
    const Shape shape = Shape::of(sizes);
    const std::vector<float> values(static_cast<std::size_t>(shape.elements(1)), static_cast<float>(value));
    std::vector<std::byte> data(values.size() * sizeof(float));
    if (!data.empty())
        std::memcpy(data.data(), values.data(), data.size());
    return constant(std::move(name), DType::F32, shape, std::move(data));
}

void GraphBuilder::pushScope(const std::string &name)
{
    m_scope += (m_scope.empty() ? "" : "/") + name;
    m_scopeLengths.push_back(name.size());
}

void GraphBuilder::popScope()
{
    if (m_scopeLengths.empty())
        return;
    const std::size_t length = m_scopeLengths.back();
    m_scopeLengths.pop_back();
    m_scope.resize(m_scope.size() - length);
    if (!m_scope.empty())
        m_scope.pop_back(); // the separator
}

std::string GraphBuilder::freshName(const std::string &stem)
{
    const int number = m_used[stem]++;
    return number == 0 ? stem : stem + "_" + std::to_string(number);
}

TensorId GraphBuilder::add(const OpType &type, std::vector<TensorId> inputs, Attributes attributes, std::string name)
{
    const std::string local = name.empty() ? type.name() : std::move(name);
    const std::string full = freshName(m_scope.empty() ? local : m_scope + "/" + local);
    const TensorId output = activation(full);
    addOp(type, full, m_scope, std::move(inputs), {output}, std::move(attributes));
    return output;
}

std::vector<TensorId> GraphBuilder::addMany(const OpType &type, std::vector<TensorId> inputs, std::size_t outputs,
                                            Attributes attributes, std::string name)
{
    std::vector<TensorId> made{add(type, std::move(inputs), std::move(attributes), std::move(name))};
    Op &op = m_graph.m_ops.back();
    while (op.outputs.size() < outputs) {
        op.outputs.push_back(activation(op.name + ":" + std::to_string(op.outputs.size())));
        made.push_back(op.outputs.back());
    }
    return made;
}

OpId GraphBuilder::addOp(OpType type, std::string name, std::string scope, std::vector<TensorId> inputs,
                         std::vector<TensorId> outputs, Attributes attributes)
{
    const OpId id(static_cast<std::int64_t>(m_graph.m_ops.size()));
    m_graph.m_ops.push_back({id, std::move(type), std::move(name), std::move(scope), std::move(inputs),
                             std::move(outputs), std::move(attributes)});
    return id;
}

TensorId GraphBuilder::activation(std::string name, DType type, Shape shape, bool shapeKnown)
{
    const TensorId id = addTensor(std::move(name), type, std::move(shape), TensorRole::Activation, {});
    m_shapeKnown.back() = shapeKnown;
    return id;
}

void GraphBuilder::rename(TensorId id, std::string name) { m_graph.m_tensors[id.index()].name = std::move(name); }

void GraphBuilder::output(TensorId id) { m_graph.m_outputs.push_back(id); }

void GraphBuilder::loss(TensorId id, LossOrigin origin)
{
    m_graph.m_loss = id;
    m_graph.m_lossOrigin = std::move(origin);
}

Status GraphBuilder::checkTensors() const
{
    std::unordered_set<std::string_view> names;
    for (const Tensor &tensor : m_graph.m_tensors) {
        if (!names.insert(tensor.name).second)
            return badInput("two tensors are called '" + tensor.name + "'; rename one");
        if (const Status data = checkData(tensor); !data)
            return data;
    }
    names.clear();
    for (const Op &op : m_graph.m_ops)
        if (!names.insert(op.name).second)
            return badInput("two operators are called '" + op.name + "'; rename one");
    return {};
}

Status GraphBuilder::linkProducers()
{
    const auto count = static_cast<std::int32_t>(m_graph.m_tensors.size());
    for (const Op &op : m_graph.m_ops) {
        if (op.outputs.empty())
            return badInput(describe(op) + " has no output; remove it");
        for (const TensorId input : op.inputs)
            if (input.value >= count)
                return badInput(describe(op) + " reads a tensor that does not exist");
        for (const TensorId output : op.outputs) {
            if (!output.valid() || output.value >= count)
                return badInput(describe(op) + " writes a tensor that does not exist");
            Tensor &tensor = m_graph.m_tensors[output.index()];
            if (tensor.role != TensorRole::Activation)
                return badInput(describe(op) + " writes '" + tensor.name + "', which is not an activation");
            if (tensor.producer.valid())
                return badInput("tensor '" + tensor.name + "' has two producers, '" + m_graph.op(tensor.producer).name
                                + "' and '" + op.name + "'; rename one output");
            tensor.producer = op.id;
        }
    }
    for (const Tensor &tensor : m_graph.m_tensors)
        if (tensor.role == TensorRole::Activation && !tensor.producer.valid())
            return badInput("no operator produces tensor '" + tensor.name + "'; make it an input, or add its operator");
    return {};
}

Status GraphBuilder::sort()
{
    std::vector<Op> &ops = m_graph.m_ops;
    std::vector<int> waiting(ops.size(), 0); // inputs whose producer has not been placed yet
    std::vector<std::vector<std::size_t>> readers(ops.size());
    for (const Op &op : ops)
        for (const TensorId input : op.inputs) {
            const OpId producer = input.valid() ? m_graph.tensor(input).producer : OpId{};
            if (!producer.valid())
                continue;
            ++waiting[op.id.index()];
            readers[producer.index()].push_back(op.id.index());
        }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < ops.size(); ++i)
        if (waiting[i] == 0)
            ready.push(i);
    std::vector<std::size_t> order;
    order.reserve(ops.size());
    while (!ready.empty()) {
        order.push_back(ready.top());
        ready.pop();
        for (const std::size_t reader : readers[order.back()])
            if (--waiting[reader] == 0)
                ready.push(reader);
    }
    if (order.size() < ops.size())
        return badInput("the operators form a cycle: " + nameCycle(ops, m_graph.m_tensors, waiting)
                        + "; a model must be acyclic");

    std::vector<Op> sorted;
    sorted.reserve(ops.size());
    for (const std::size_t from : order) {
        sorted.push_back(std::move(ops[from]));
        sorted.back().id = OpId(static_cast<std::int64_t>(sorted.size()) - 1);
        for (const TensorId output : sorted.back().outputs)
            m_graph.m_tensors[output.index()].producer = sorted.back().id;
    }
    ops = std::move(sorted);
    return {};
}

void GraphBuilder::appendOutputs(Op &op, std::size_t count)
{
    while (op.outputs.size() < count) {
        const TensorId extra = activation(op.name + ":" + std::to_string(op.outputs.size()));
        m_graph.m_tensors.back().producer = op.id;
        op.outputs.push_back(extra);
    }
}

Status GraphBuilder::inferOp(Op &op)
{
    const Operator *row = op.type.row();
    if (!row)
        return {};
    const auto count = static_cast<int>(op.inputs.size());
    const InputCount takes = row->inputs;
    if (!takes.allows(count))
        return badInput(describe(op) + " has " + std::to_string(count) + " inputs; it takes "
                        + std::to_string(takes.least)
                        + (takes.most < 0 ? " or more" : " to " + std::to_string(takes.most)));
    OpView view{op, {}};
    bool known = true;
    for (const TensorId input : op.inputs) {
        if (!input.valid() && static_cast<int>(view.inputs.size()) < takes.least)
            return badInput(describe(op) + " lacks input " + std::to_string(view.inputs.size())
                            + ", which is not optional");
        view.inputs.push_back(input.valid() ? &m_graph.m_tensors[input.index()] : nullptr);
        known = known && (!input.valid() || m_shapeKnown[input.index()]);
    }
    if (!known || !row->infer)
        return {};
    Result<std::vector<TensorInfo>> infos = row->infer(view);
    if (!infos)
        return badInput(describe(op) + " does not fit its inputs " + inputShapes(view) + ": " + infos.error().message);
    appendOutputs(op, infos->size()); // from here on view's pointers may be stale
    if (op.outputs.size() > infos->size())
        return badInput(describe(op) + " has " + std::to_string(op.outputs.size()) + " outputs; it makes "
                        + std::to_string(infos->size()));
    for (std::size_t i = 0; i < infos->size(); ++i) {
        Tensor &output = m_graph.m_tensors[op.outputs[i].index()];
        output.type = (*infos)[i].type;
        output.shape = std::move((*infos)[i].shape);
        m_shapeKnown[op.outputs[i].index()] = true;
        if (const Status possible = checkShape(output); !possible)
            return possible;
    }
    return {};
}

Status GraphBuilder::inferShapes()
{
    for (const Tensor &tensor : m_graph.m_tensors)
        if (const Status possible = checkShape(tensor); !possible)
            return possible;
    for (Op &op : m_graph.m_ops)
        if (const Status fits = inferOp(op); !fits)
            return fits;
    return {};
}

void GraphBuilder::indexTensors()
{
    m_graph.m_consumers.assign(m_graph.m_tensors.size(), {});
    for (const Op &op : m_graph.m_ops)
        for (const TensorId input : op.inputs) {
            if (!input.valid())
                continue;
            auto &consumers = m_graph.m_consumers[input.index()];
            if (consumers.empty() || consumers.back() != op.id)
                consumers.push_back(op.id);
        }
    for (const Tensor &tensor : m_graph.m_tensors)
        m_graph.m_byName.push_back(tensor.id);
    std::sort(m_graph.m_byName.begin(), m_graph.m_byName.end(),
              [&](TensorId a, TensorId b) { return m_graph.tensor(a).name < m_graph.tensor(b).name; });
}

Result<Graph> GraphBuilder::build() &&
{
    if (m_graph.m_ops.empty())
        return badInput("model '" + m_graph.m_name + "' has no operators; there is nothing to train");
    for (const auto step : {&GraphBuilder::linkProducers, &GraphBuilder::sort, &GraphBuilder::inferShapes})
        if (const Status done = (this->*step)(); !done)
            return done.error();
    if (const Status tensors = checkTensors(); !tensors)
        return tensors.error();
    const auto count = static_cast<std::int32_t>(m_graph.m_tensors.size());
    for (const TensorId output : m_graph.m_outputs)
        if (!output.valid() || output.value >= count)
            return badInput("model '" + m_graph.m_name + "' names an output that does not exist");
    if (m_graph.m_loss.value >= count)
        return badInput("model '" + m_graph.m_name + "' names a loss that does not exist");
    if (m_graph.m_loss.valid() && m_graph.tensor(m_graph.m_loss).shape.elements(2) != 1)
        return badInput("the loss '" + m_graph.tensor(m_graph.m_loss).name + "' has shape "
                        + m_graph.tensor(m_graph.m_loss).shape.text() + "; a loss is one number");
    indexTensors();
    return std::move(m_graph);
}

} // namespace planloom::graph
