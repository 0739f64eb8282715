// SPDX-License-Identifier: Apache-2.0
#include "engine/import/loss/attach.h"

#include "engine/graph/gradients/loss.h"
#include "engine/graph/operators/operators.h"
#include "engine/import/loss/infer.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace planloom::import {
namespace {

using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::LossOrigin;
using graph::Op;
using graph::Shape;
using graph::Tensor;
using graph::TensorRole;

/// A choice with the tensors that it means.
struct Comparison {
    LossChoice choice;
    TensorId output;
    TensorId values; ///< logits where the output is made of them; else the output
    std::size_t axis = 0;
};

std::string outputNames(const Graph &graph)
{
    std::string names;
    for (const TensorId id : floatOutputs(graph))
        names +=
            fmt::format("{}'{}' {}", names.empty() ? "" : ", ", graph.tensor(id).name, graph.tensor(id).shape.text());
    return names.empty() ? "none" : names;
}

/// A file of one output needs no name for it; a scalar is a loss, not an output to compare.
Result<TensorId> findOutput(const Graph &graph, const LossChoice &choice)
{
    const bool own = *choice.kind->type == '\0';
    for (const TensorId id : floatOutputs(graph)) {
        const Tensor &tensor = graph.tensor(id);
        if (choice.output.empty() ? own == (tensor.shape.rank() == 0) : tensor.name == choice.output)
            return id;
    }
    return badInput(fmt::format("--loss {}: there is no such output; the model's outputs of floats are {}",
                                toText(choice), outputNames(graph)));
}

const Op *softmaxOf(const Graph &graph, TensorId id)
{
    const Op *op = madeBy(graph, id, "Softmax");
    return op != nullptr ? op : madeBy(graph, id, "LogSoftmax");
}

Status resolveClasses(const Graph &graph, Comparison &comparison)
{
    const Tensor &output = graph.tensor(comparison.output);
    const auto rank = static_cast<std::int64_t>(output.shape.rank());
    const Op *softmax = softmaxOf(graph, output.id);
    const auto told = softmax ? std::nullopt : classAxis(graph, output.id);
    std::int64_t axis = softmax ? softmax->integer("axis", -1) : rank - 1;
    if (told)
        axis = static_cast<std::int64_t>(*told);
    if (!comparison.choice.axis && !told && !softmax && rank > 3)
        return badInput(fmt::format("--loss {}: '{}' {} may have its classes along any axis; add axis=N",
                                    toText(comparison.choice), output.name, output.shape.text()));
    axis = comparison.choice.axis.value_or(axis);
    axis += axis < 0 ? rank : 0;
    if (axis < 1 || axis >= rank || output.shape[static_cast<std::size_t>(axis)].size < 2)
        return badInput(fmt::format("--loss {}: axis {} of '{}' {} does not hold two classes or more; "
                                    "binary-cross-entropy takes one logit",
                                    toText(comparison.choice), axis, output.name, output.shape.text()));
    comparison.axis = static_cast<std::size_t>(axis);
    comparison.choice.axis = axis;
    if (softmax && (softmax->integer("axis", -1) + rank) % rank == axis)
        comparison.values = softmax->inputs[0];
    return {};
}

Result<Comparison> resolve(const Graph &graph, const LossChoice &choice)
{
    const auto output = findOutput(graph, choice);
    if (!output)
        return output.error();
    Comparison comparison{choice, *output, *output};
    const Tensor &tensor = graph.tensor(*output);
    comparison.choice.output = tensor.name;
    const bool own = *choice.kind->type == '\0';
    if (own && tensor.shape.rank() != 0)
        return badInput(
            fmt::format("--loss {}: '{}' {} is no scalar", toText(choice), tensor.name, tensor.shape.text()));
    if (!own && !tensor.shape.batchLeading())
        return badInput(fmt::format("--loss {}: '{}' {} does not have the samples along its first axis alone",
                                    toText(choice), tensor.name, tensor.shape.text()));
    if (std::string_view(choice.kind->name) == "cross-entropy")
        if (const Status classes = resolveClasses(graph, comparison); !classes)
            return classes.error();
    if (const Op *sigmoid = madeBy(graph, *output, "Sigmoid");
        sigmoid && std::string_view(choice.kind->name) == "binary-cross-entropy")
        comparison.values = sigmoid->inputs[0];
    return comparison;
}

/// Copies a model without what only its replaced outputs need, and adds the losses.
class LossWriter {
public:
    LossWriter(const Graph &from, const std::vector<Comparison> &comparisons, LossOrigin origin)
        : m_from(from),
          m_comparisons(comparisons),
          m_origin(std::move(origin)),
          m_builder(from.name()),
          m_to(from.tensors().size())
    {
    }

    Result<Graph> write()
    {
        copyLive();
        m_builder.pushScope(freshScope());
        TensorId total;
        for (const Comparison &comparison : m_comparisons)
            total = plus(total, weighted(add(comparison), comparison.choice.weight));
        m_builder.popScope();
        m_builder.loss(total, m_origin);
        m_builder.output(total);
        return std::move(m_builder).build();
    }

private:
    /// The model's outputs, but for scalars that are not trained; logits in place of what is made of them.
    [[nodiscard]] std::vector<TensorId> outputs() const
    {
        std::vector<TensorId> kept;
        for (const TensorId id : m_from.outputs()) {
            const auto compared = std::find_if(m_comparisons.begin(), m_comparisons.end(),
                                               [&](const Comparison &one) { return one.output == id; });
            const bool scalar = m_from.tensor(id).shape.rank() == 0;
            if (compared != m_comparisons.end() && !scalar)
                kept.push_back(compared->values);
            else if (!scalar)
                kept.push_back(id);
        }
        return kept;
    }

    [[nodiscard]] std::vector<bool> live() const
    {
        std::vector<bool> used(m_from.tensors().size());
        for (const TensorId id : outputs())
            used[id.index()] = true;
        for (const Comparison &comparison : m_comparisons)
            used[comparison.values.index()] = true;
        const auto ops = m_from.ops();
        for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
            const bool any =
                std::any_of(op->outputs.begin(), op->outputs.end(), [&](TensorId id) { return used[id.index()]; });
            for (const TensorId id : op->inputs)
                if (any && id.valid())
                    used[id.index()] = true;
            for (const TensorId id : op->outputs)
                used[id.index()] = any;
        }
        return used;
    }

    void copyLive()
    {
        const std::vector<bool> used = live();
        for (const Tensor &tensor : m_from.tensors())
            if (used[tensor.id.index()])
                m_to[tensor.id.index()] = m_builder.copy(tensor);
        for (const Op &op : m_from.ops())
            if (used[op.outputs[0].index()])
                m_builder.addOp(op.type, op.name, op.scope, mapped(op.inputs), mapped(op.outputs), op.attributes);
        for (const TensorId id : outputs())
            m_builder.output(m_to[id.index()]);
    }

    [[nodiscard]] std::vector<TensorId> mapped(const std::vector<TensorId> &ids) const
    {
        std::vector<TensorId> made;
        for (const TensorId id : ids)
            made.push_back(id.valid() ? m_to[id.index()] : TensorId());
        return made;
    }

    /// "loss", or another scope that no operator of the model stands in.
    [[nodiscard]] std::string freshScope() const
    {
        std::string scope = "loss";
        const auto taken = [&](const Op &op) { return op.name.starts_with(scope + "/"); };
        for (int i = 1; std::any_of(m_from.ops().begin(), m_from.ops().end(), taken); ++i)
            scope = fmt::format("loss_{}", i);
        return scope;
    }

    TensorId target(const Comparison &comparison, const char *what, DType type, const Shape &shape)
    {
        const bool shared = m_comparisons.size() == 1 && !m_from.find(what).valid();
        return m_builder.input(shared ? what : fmt::format("{}.{}", comparison.choice.output, what), type, shape);
    }

    TensorId add(const Comparison &comparison)
    {
        if (*comparison.choice.kind->type == '\0')
            return m_to[comparison.values.index()];
        if (comparison.axis > 0)
            return addClasses(comparison);
        const Shape &shape = m_from.tensor(comparison.values).shape;
        std::vector<TensorId> inputs{m_to[comparison.values.index()], target(comparison, "targets", DType::F32, shape)};
        if (comparison.choice.mask)
            inputs.push_back(target(comparison, "mask", DType::Bool, shape));
        graph::Attributes attributes;
        if (std::string_view(comparison.choice.kind->name) == "huber")
            attributes["delta"] = comparison.choice.delta;
        return m_builder.add(comparison.choice.kind->type, std::move(inputs), std::move(attributes));
    }

    TensorId addClasses(const Comparison &comparison)
    {
        std::vector<graph::Dim> rows = m_from.tensor(comparison.values).shape.dims();
        const std::int64_t classes = rows[comparison.axis].size;
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(comparison.axis));
        TensorId logits = classesLast(comparison, rows.size());
        TensorId labels = target(comparison, "labels", DType::I64, Shape(rows));
        if (rows.size() > 1) {
            const std::int64_t perSample = Shape(rows).elements(1);
            logits = reshape(logits, {perSample, classes});
            labels = reshape(labels, {perSample});
        }
        return m_builder.add(comparison.choice.kind->type, {logits, labels},
                             {{"ignore_index", comparison.choice.ignored}});
    }

    TensorId classesLast(const Comparison &comparison, std::size_t last)
    {
        const TensorId logits = m_to[comparison.values.index()];
        if (comparison.axis == last)
            return logits;
        std::vector<std::int64_t> order;
        for (std::size_t axis = 0; axis <= last; ++axis)
            if (axis != comparison.axis)
                order.push_back(static_cast<std::int64_t>(axis));
        order.push_back(static_cast<std::int64_t>(comparison.axis));
        return m_builder.add("Transpose", {logits}, {{"perm", order}});
    }

    TensorId reshape(TensorId x, std::vector<std::int64_t> shape)
    {
        return m_builder.add("Reshape", {x}, {{"shape", std::move(shape)}, {"batch_axis", std::int64_t{0}}});
    }

    TensorId weighted(TensorId loss, double weight)
    {
        if (weight == 1)
            return loss;
        const auto value = static_cast<float>(weight);
        std::vector<std::byte> bytes(sizeof value);
        std::memcpy(bytes.data(), &value, sizeof value);
        const std::string name = fmt::format("loss.weight.{}", m_weights++);
        return m_builder.add("Mul", {loss, m_builder.constant(name, DType::F32, Shape(), std::move(bytes))});
    }

    TensorId plus(TensorId sum, TensorId term) { return sum.valid() ? m_builder.add("Add", {sum, term}) : term; }

    const Graph &m_from;
    const std::vector<Comparison> &m_comparisons;
    LossOrigin m_origin;
    GraphBuilder m_builder;
    std::vector<TensorId> m_to;
    int m_weights = 0;
};

/// Inputs of @p op that are summed or scaled to make its scalar.
std::vector<TensorId> summands(const Graph &graph, const Op &op)
{
    static const std::set<std::string, std::less<>> kKeep{"Identity", "Cast",      "Neg",        "Reshape", "Add",
                                                          "Squeeze",  "Unsqueeze", "ReduceMean", "Sub"};
    const auto fixed = [&](TensorId id) { return id.valid() && graph.tensor(id).role == TensorRole::Constant; };
    const bool scales = (op.type == "Mul" || op.type == "Div") && (fixed(op.inputs[0]) || fixed(op.inputs[1]));
    std::vector<TensorId> found;
    for (const TensorId id : op.inputs)
        if ((scales || kKeep.contains(op.type.name())) && id.valid() && graph.tensor(id).shape.rank() == 0)
            found.push_back(id);
    return found;
}

/// Whether a scalar is a sum over the samples of a batch, perhaps scaled: in slices it is another number than in one.
bool sumsOverSamples(const Graph &graph, TensorId scalar)
{
    std::set<TensorId> seen;
    std::vector<TensorId> open{scalar};
    while (!open.empty()) {
        const TensorId id = open.back();
        open.pop_back();
        const OpId producer = graph.tensor(id).producer;
        if (!producer.valid() || !seen.insert(id).second)
            continue;
        const Op &op = graph.op(producer);
        if (op.type == "ReduceSum" && graph.tensor(op.inputs[0]).shape.batched())
            return true;
        const std::vector<TensorId> more = summands(graph, op);
        open.insert(open.end(), more.begin(), more.end());
    }
    return false;
}

/// Names of outputs that no loss compares; of many, the first.
std::string untrained(const Graph &graph, TensorId trained)
{
    constexpr int kNamed = 3;
    std::string names;
    int count = 0;
    for (const TensorId id : floatOutputs(graph))
        if (id != trained && ++count <= kNamed)
            names += (names.empty() ? "'" : ", '") + graph.tensor(id).name + "'";
    return count > kNamed ? fmt::format("{} and {} more", names, count - kNamed) : names;
}

std::string addedNote(const LossChoice &choice, const std::string &reason, const std::string &others)
{
    std::string note = fmt::format("has no loss: training takes the {} of '{}' ({}) against the added input '{}'",
                                   choice.kind->text, choice.output, reason, choice.axis ? "labels" : "targets");
    if (!others.empty())
        note += ", and nothing of " + others;
    return note + "; --loss chooses another";
}

Status attach(Model &model, const std::vector<LossChoice> &choices, LossOrigin::Kind kind)
{
    std::vector<Comparison> comparisons;
    LossOrigin origin{kind};
    for (const LossChoice &choice : choices) {
        auto comparison = resolve(*model.graph, choice);
        if (!comparison)
            return comparison.error();
        if (std::any_of(comparisons.begin(), comparisons.end(),
                        [&](const Comparison &before) { return before.output == comparison->output; }))
            return badInput(fmt::format("--loss {}: '{}' is compared twice; give each output one loss", toText(choice),
                                        comparison->choice.output));
        origin.terms.push_back(toText(comparison->choice));
        comparisons.push_back(*std::move(comparison));
    }
    const bool own = std::all_of(choices.begin(), choices.end(),
                                 [](const LossChoice &choice) { return *choice.kind->type == '\0'; });
    for (const Comparison &comparison : comparisons)
        if (sumsOverSamples(*model.graph, comparison.values))
            model.warnings.push_back(
                fmt::format("the loss '{}' is a sum over the samples: each slice of a batch has its own, and training "
                            "takes their mean; export the mean (reduction='mean') to train what one device would",
                            comparison.choice.output));
    if (own && kind == LossOrigin::Kind::Added)
        origin = {};
    auto graph = LossWriter(*model.graph, comparisons, std::move(origin)).write();
    if (!graph)
        return graph.error();
    model.graph = std::make_shared<const Graph>(*std::move(graph));
    return {};
}

Result<Model> withInferredLoss(Model model)
{
    const Ending ending = endingOf(*model.graph);
    if (!ending.loss) {
        model.noLoss = ending.reason;
        return model;
    }
    const std::string others = untrained(*model.graph, model.graph->find(ending.loss->output));
    if (const Status attached = attach(model, {*ending.loss}, LossOrigin::Kind::Added); !attached)
        model.noLoss = attached.error().message;
    else if (!ending.reason.empty())
        model.warnings.push_back(addedNote(*ending.loss, ending.reason, others));
    return model;
}

} // namespace

Result<Model> withLoss(Model model, const std::vector<std::string> &chosen)
{
    if (graph::isLayerProfile(*model.graph) && !chosen.empty())
        return badInput("is a layer profile, which is planned and not trained; leave --loss out");
    if (model.graph->loss().valid() || graph::isLayerProfile(*model.graph)) {
        if (chosen.empty())
            return model;
        return badInput("has its loss already; leave --loss out");
    }
    if (chosen.empty())
        return withInferredLoss(std::move(model));
    std::vector<LossChoice> choices;
    for (const std::string &text : chosen) {
        auto choice = lossFromText(text);
        if (!choice)
            return badInput("--loss " + choice.error().message);
        choices.push_back(*std::move(choice));
    }
    if (const Status attached = attach(model, choices, LossOrigin::Kind::Chosen); !attached)
        return attached.error();
    return model;
}

} // namespace planloom::import
