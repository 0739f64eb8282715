// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/training_graph.h"

#include "engine/admm/block_graphs.h"
#include "engine/admm/message.h"
#include "engine/admm/pattern.h"
#include "engine/graph/gradients/stash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace planloom::admm {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::Shape;
using graph::Tensor;
using graph::TensorRole;

constexpr const char *kScope = "admm";   ///< of all operators behind the forward pass
constexpr const char *kStates = "admm/"; ///< before the names of duals

using Numbers = std::vector<std::int64_t>;

/// p1, p2 ..., q1, q2 ..., r.
std::vector<std::string> dualNames(std::int64_t steps)
{
    std::vector<std::string> names;
    for (const char letter : {'p', 'q'})
        for (std::int64_t step = 1; step <= steps; ++step)
            names.push_back(fmt::format("{}{}", letter, step));
    names.emplace_back("r");
    return names;
}

/// What blockGraph() calls the squared residual of a constraint without dual, by the name that its dual would have.
std::string squareName(const std::string &dual)
{
    return fmt::format("square_{}{}", dual.front() == 'p' ? 'a' : 'h', dual.substr(1));
}

/// True if the layer's final state is all that is read of it.
bool readsFinalState(const Graph &model, const graph::Op &layer)
{
    for (std::size_t i = 0; i < layer.outputs.size(); ++i)
        if (const TensorId made = layer.outputs[i]; made.valid() && i != 1 && !model.consumers(made).empty())
            return false;
    return layer.outputs.size() > 1 && layer.outputs[1].valid();
}

/// Writes the model, then the parts of an iteration behind it.
class TrainingWriter {
public:
    TrainingWriter(const Graph &model, const Pattern &pattern, const Method &method, std::int64_t workers)
        : m_model(model),
          m_pattern(pattern),
          m_method(method),
          m_sizes{pattern.inputs, pattern.hidden, pattern.classes, pattern.steps},
          m_workers(workers),
          m_unfolded(readsFinalState(model, model.op(pattern.recurrent))),
          m_builder(model.name())
    {
    }

    Result<graph::TrainingGraph> write()
    {
        copyTensors();
        for (const graph::Op &op : m_model.ops())
            copy(op);
        m_builder.loss(copyOf(m_model.loss()), m_model.lossOrigin());
        m_builder.output(copyOf(m_model.loss()));
        m_builder.pushScope(kScope);
        if (!m_unfolded)
            name();
        if (m_method.settings.timeRanges > 1)
            takeRange();
        const std::map<std::string, TensorId> old = m_values;
        const bool alone = m_method.settings.parallel == Parallel::Asynchronous;
        if (const Status written = alone ? writeAlone() : writeTogether(); !written)
            return written.error();
        giveParameters();
        figures(m_residuals, old); // the last, so that nothing takes their place before they are read
        m_builder.popScope();
        return finish();
    }

private:
    /// An iteration in which all workers wait for each other's sums.
    Status writeTogether()
    {
        const bool exact = m_method.settings.subproblems == Subproblems::Exact;
        const Status written = exact ? writeSolutions() : writeSteps();
        if (!written)
            return written;
        std::vector<TensorId> own = keepDuals();
        if (m_method.settings.timeRanges > 1)
            own = {summed(own)};
        own.push_back(summed(m_lagrangian));
        m_residuals = allReduced(joined(own));
        return written;
    }

    Status writeSolutions()
    {
        if (m_method.settings.timeRanges > 1)
            return writeRanges();
        for (const Part part :
             {Part::Begin, Part::SolveOut, Part::Backward, Part::SolveIn, Part::Forward, Part::SolveOut, Part::End}) {
            if (const Status added = add(part); !added)
                return added;
            if (part == Part::Begin || part == Part::Forward)
                exchange("gram_out", "product_out");
            else if (part == Part::Backward)
                exchange("gram_in", "product_in");
        }
        return {};
    }

    /// Of a range of steps: what goes to its neighbours travels while it works on what needs nothing of theirs.
    Status writeRanges()
    {
        const std::string last = fmt::format("h{}", m_sizes.steps / m_method.settings.timeRanges);
        for (const Part part : {Part::Begin, Part::SolveOut, Part::LastHidden, Part::RestBackward, Part::SolveIn,
                                Part::FirstInput, Part::RestForward, Part::SolveOut, Part::End}) {
            if (const Status added = add(part); !added)
                return added;
            if (part == Part::Begin || part == Part::FirstInput)
                m_values["ahead"] = shifted(m_values["pull"], -1);
            if (part == Part::LastHidden || part == Part::RestForward)
                m_values["before"] = shifted(m_values[last], 1);
            if (part == Part::Begin || part == Part::RestForward)
                exchange("gram_out", "product_out");
            else if (part == Part::RestBackward)
                exchange("gram_in", "product_in");
        }
        return {};
    }

    TensorId shifted(TensorId tensor, std::int64_t places)
    {
        return m_builder.add(
            "NeighbourShift", {tensor},
            {{"mesh_dim", std::int64_t{1}}, {"parts", std::int64_t{m_method.settings.timeRanges}}, {"shift", places}});
    }

    /// Of all steps, the variables of the own range under its names.
    void takeRange()
    {
        const std::int64_t ranges = m_method.settings.timeRanges;
        const std::int64_t own = m_sizes.steps / ranges;
        for (const char letter : {'a', 'h', 'x'}) {
            const std::int64_t width = letter == 'x' ? m_sizes.inputs : m_sizes.hidden;
            std::vector<TensorId> steps;
            for (std::int64_t step = 1; step <= m_sizes.steps; ++step)
                steps.push_back(m_values[fmt::format("{}{}", letter, step)]);
            const TensorId all = m_builder.add("Concat", steps, {{"axis", std::int64_t{1}}});
            const TensorId mine = m_builder.add("ShardSlice", {all},
                                                {{"mesh_dim", std::int64_t{1}},
                                                 {"parts", ranges},
                                                 {"axis", std::int64_t{1}},
                                                 {"segments", Numbers{m_sizes.steps * width}}});
            for (std::int64_t step = 1; step <= m_sizes.steps; ++step)
                m_values.erase(fmt::format("{}{}", letter, step));
            for (std::int64_t step = 1; step <= own; ++step)
                m_values[fmt::format("{}{}", letter, step)] = slice(mine, 1, (step - 1) * width, step * width);
        }
    }

    /// The linearised form: a block of parameters after the other, each with the others' new values.
    Status writeSteps()
    {
        struct Stretch {
            Part part;
            std::vector<const char *> blocks;
        };
        const Stretch stretches[] = {{Part::Begin, {"c", "v"}},
                                     {Part::Backward, {"b", "w", "u", "u", "w", "b"}},
                                     {Part::Forward, {"v", "c"}},
                                     {Part::End, {}}};
        for (const Stretch &stretch : stretches) {
            if (const Status added = add(stretch.part); !added)
                return added;
            for (const char *block : stretch.blocks) {
                if (const Status added = add(stepGraph(block, m_sizes, m_method)); !added)
                    return added;
                exchangeStep();
                if (const Status added = add(takeStepGraph(block, m_sizes, m_method)); !added)
                    return added;
            }
        }
        return {};
    }

    /// Sums a numerator and a norm up over workers, in one message.
    void exchangeStep()
    {
        if (m_workers < 2)
            return;
        const Shape shape = m_builder.tensor(m_values["numerator"]).shape;
        const std::int64_t count = shape.elements(1);
        const TensorId own = m_builder.add("Concat", {flat(m_values["numerator"], count), m_values["norm"]},
                                           {{"axis", std::int64_t{0}}});
        const TensorId all = allReduced(own);
        Numbers sizes;
        for (const graph::Dim &dim : shape.dims())
            sizes.push_back(dim.size);
        const TensorId numerator = slice(all, 0, 0, count);
        m_values["numerator"] = sizes.size() == 1 ? numerator : reshaped(numerator, sizes);
        m_values["norm"] = slice(all, 0, count, count + 1);
    }

    /// An iteration between two versions of a parameter server: all sums in one message (MessageLayout), all
    /// parameters in its answer.
    Status writeAlone()
    {
        const std::vector<TensorId> weights{squares(m_values["u"], 2), squares(m_values["w"], 2),
                                            squares(m_values["v"], 2)};
        std::vector<TensorId> old;
        if (MessageLayout(m_sizes, m_method.settings).bringsParameters)
            for (const char *name : kParameterNames)
                old.push_back(flat(m_values[name], sharedElements(m_sizes, name)));
        if (const Status added = add(Part::Alone); !added)
            return added;
        std::vector<TensorId> squares = keepDuals();
        const TensorId residual = summed(squares);
        const TensorId lagrangian = summed(m_lagrangian);
        squares.push_back(lagrangian);
        m_residuals = joined(squares);
        std::vector<TensorId> parts{m_values["gram_in"],
                                    flat(m_values["product_in"], sharedElements(m_sizes, "product_in")),
                                    m_values["gram_out"],
                                    flat(m_values["product_out"], sharedElements(m_sizes, "product_out")),
                                    reshaped(copyOf(m_model.loss()), {1}),
                                    residual,
                                    summed(weights),
                                    lagrangian};
        parts.insert(parts.end(), old.begin(), old.end());
        const TensorId message = m_builder.add("Concat", parts, {{"axis", std::int64_t{0}}});
        const TensorId answer = m_builder.add("ServerRound", {message},
                                              {{"mesh_dim", std::int64_t{0}}, {"parts", m_workers}}, "admm/answer");
        std::int64_t at = 0;
        for (const char *name : kParameterNames) {
            const std::int64_t count = sharedElements(m_sizes, name);
            m_values[name] = shaped(slice(answer, 0, at, at + count), name);
            at += count;
        }
        return {};
    }

    TensorId flat(TensorId tensor, std::int64_t elements) { return reshaped(tensor, {elements}); }
    /// From a row of numbers, a variable in its shape.
    TensorId shaped(TensorId numbers, const char *name)
    {
        const Numbers sizes = sharedShape(m_sizes, name)->at(1);
        return sizes.size() == 1 ? numbers : reshaped(numbers, sizes);
    }

    /// All but what the recurrent layer makes where it is unfolded.
    void copyTensors()
    {
        const graph::Op &layer = m_model.op(m_pattern.recurrent);
        for (const Tensor &tensor : m_model.tensors()) {
            const bool gone = m_unfolded && tensor.producer == layer.id && tensor.id != layer.outputs[1];
            m_copies.push_back(gone ? TensorId() : m_builder.copy(tensor));
        }
    }

    void copy(const graph::Op &op)
    {
        const auto copies = [this](const std::vector<TensorId> &ids) {
            std::vector<TensorId> made;
            for (const TensorId id : ids)
                made.push_back(id.valid() ? copyOf(id) : id);
            return made;
        };
        if (m_unfolded && op.id == m_pattern.recurrent)
            unfold(op);
        else
            m_builder.addOp(op.type, op.name, op.scope, copies(op.inputs), copies(op.outputs), op.attributes);
        if (op.id == m_pattern.product)
            m_values["o"] = copyOf(op.outputs[0]);
    }

    /// The recurrent layer step by step, so that its forward pass is the restart of the iteration.
    void unfold(const graph::Op &op)
    {
        m_builder.pushScope(op.scope.empty() ? "unfolded" : op.scope);
        name();
        const Attributes transposed{{"transB", std::int64_t{1}}};
        TensorId before;
        for (std::int64_t step = 1; step <= m_sizes.steps; ++step) {
            TensorId sum =
                m_builder.add("Gemm", {m_values[fmt::format("x{}", step)], m_values["u"], m_values["b"]}, transposed);
            if (step > 1)
                sum = m_builder.add("Add", {sum, m_builder.add("MatMul", {before, m_values["w"]}, transposed)});
            m_values[fmt::format("a{}", step)] = sum;
            m_values[fmt::format("h{}", step)] = before = m_builder.add("Tanh", {sum});
        }
        m_builder.popScope();
        m_builder.addOp("Unsqueeze", op.name, op.scope, {before}, {copyOf(op.outputs[1])},
                        {{"axes", Numbers{m_pattern.batchFirst ? 1 : 0}}});
    }
    [[nodiscard]] TensorId copyOf(TensorId id) const { return m_copies[id.index()]; }

    // --- Names of the blocks' variables for the model's tensors

    TensorId slice(TensorId tensor, std::int64_t axis, std::int64_t first, std::int64_t last)
    {
        return m_builder.add(
            "Slice", {tensor},
            {{"starts", Numbers{first}}, {"ends", Numbers{last}}, {"axes", Numbers{axis}}, {"steps", Numbers{1}}});
    }
    TensorId without(TensorId tensor, std::int64_t axis)
    {
        return m_builder.add("Squeeze", {tensor}, {{"axes", Numbers{axis}}});
    }
    TensorId reshaped(TensorId tensor, const Numbers &sizes, std::string name = {})
    {
        return m_builder.add("Reshape", {tensor}, {{"shape", sizes}}, std::move(name));
    }

    void name()
    {
        const std::int64_t h = m_sizes.hidden;
        const std::int64_t axis = m_pattern.batchFirst ? 1 : 0;
        m_values["u"] = without(copyOf(m_pattern.u), 0);
        m_values["w"] = without(copyOf(m_pattern.w), 0);
        const TensorId bias = without(copyOf(m_pattern.bias), 0);
        m_values["b"] = m_builder.add("Add", {slice(bias, 0, 0, h), slice(bias, 0, h, 2 * h)});
        m_values["v"] = m_pattern.transposed ? m_builder.add("Transpose", {copyOf(m_pattern.v)}) : copyOf(m_pattern.v);
        m_values["c"] = copyOf(m_pattern.c);
        m_values["labels"] = copyOf(m_pattern.labels);
        for (std::int64_t step = 1; step <= m_sizes.steps; ++step)
            m_values[fmt::format("x{}", step)] = without(slice(copyOf(m_pattern.x), axis, step - 1, step), axis);
    }

    // --- Parts

    static graph::Initializer zeros()
    {
        graph::Initializer initializer;
        initializer.kind = graph::Initializer::Kind::Zeros;
        return initializer;
    }

    /// The newest value of a part's input; duals are made at their first use.
    TensorId value(const Tensor &input)
    {
        const auto found = m_values.find(input.name);
        if (found != m_values.end())
            return found->second;
        const std::int64_t shards = m_method.settings.shards;
        graph::Shape shape = input.shape;
        if (shards > 1)
            shape = Shape({shape[0], {shards * shape[1].size, false}});
        const TensorId dual = m_builder.state(kStates + input.name, shape, zeros());
        const TensorId own = shards > 1 ? m_builder.add("ReadState", {dual}, {{"shards", shards}}) : dual;
        m_duals[input.name] = dual;
        return m_values[input.name] = own;
    }

    Status add(Part part) { return add(blockGraph(part, m_sizes, m_method, m_unfolded)); }

    Status add(const Result<Graph> &block)
    {
        if (!block)
            return block.error();
        const std::string prefix = fmt::format("admm/{}/", m_parts++);
        std::vector<TensorId> made;
        for (const Tensor &tensor : block->tensors()) {
            if (tensor.role == TensorRole::Input) {
                made.push_back(value(tensor));
                continue;
            }
            Tensor renamed = tensor;
            renamed.name = prefix + tensor.name;
            made.push_back(m_builder.copy(renamed));
        }
        const auto to = [&made](const std::vector<TensorId> &ids) {
            std::vector<TensorId> mapped;
            for (const TensorId id : ids)
                mapped.push_back(id.valid() ? made[id.index()] : id);
            return mapped;
        };
        for (const graph::Op &op : block->ops())
            m_builder.addOp(op.type, prefix + op.name, kScope, to(op.inputs), to(op.outputs), op.attributes);
        for (const TensorId id : block->outputs()) {
            const std::string &name = block->tensor(id).name;
            m_values[name.substr(0, name.size() - 1)] = made[id.index()];
        }
        return {};
    }

    /// Over ranges of steps first, as far as there are any, then over workers.
    TensorId allReduced(TensorId tensor)
    {
        const std::int64_t parts[] = {m_workers, m_method.settings.timeRanges};
        for (const std::int64_t dimension : {1, 0})
            if (parts[dimension] > 1)
                tensor = m_builder.add("AllReduce", {tensor}, {{"mesh_dim", dimension}, {"parts", parts[dimension]}});
        return tensor;
    }

    /// Sums a gram, packed, and a product up over workers, in one message.
    void exchange(const char *gram, const char *product)
    {
        const std::int64_t shards = m_method.settings.shards;
        if (m_workers < 2 && m_method.settings.timeRanges < 2 && shards < 2)
            return;
        const std::int64_t triangle = sharedElements(m_sizes, gram);
        const std::int64_t rest = sharedElements(m_sizes, product);
        const TensorId own =
            m_builder.add("Concat", {m_values[gram], reshaped(m_values[product], {rest})}, {{"axis", std::int64_t{0}}});
        TensorId all = allReduced(own);
        if (shards > 1) { // those of the others are their last ones
            TensorId &kept = m_sums[gram];
            if (!kept.valid())
                kept = m_builder.state(std::string(kStates) + gram, Shape::of({shards, triangle + rest}), zeros());
            all = m_builder.add("SumsOfShards", {kept, all}, {{"shards", shards}});
        }
        m_values[gram] = slice(all, 0, 0, triangle);
        m_values[product] = shaped(slice(all, 0, triangle, triangle + rest), product);
    }

    // --- What stays of an iteration

    /// Stores the new duals. Returns the squared residuals, of which their changes are multiples, in the order of
    /// residualNames(). A constraint's part of the augmented Lagrangian, penalty / 2 |residual|^2 - dual * residual,
    /// is what the dual's square grows by, over twice the penalty: the new dual is the old one - penalty * residual.
    /// Of steps without duals it is the first half.
    std::vector<TensorId> keepDuals()
    {
        std::vector<TensorId> squares;
        m_lagrangian = {m_values.at("risk")};
        for (const std::string &name : dualNames(m_sizes.steps / m_method.settings.timeRanges)) {
            const std::int64_t before = m_sizes.steps - m_sizes.steps / m_method.settings.timeRanges;
            const double penalty = name == "r"
                ? m_method.settings.rho
                : m_method.penalty[static_cast<std::size_t>(before + std::stoll(name.substr(1)) - 1)];
            if (const auto square = m_values.find(squareName(name)); square != m_values.end()) {
                const TensorId half = m_builder.constantFloats(fmt::format("admm/half_{}", name), {1}, penalty / 2);
                squares.push_back(square->second);
                m_lagrangian.push_back(m_builder.add("Mul", {square->second, half}));
                continue;
            }
            graph::Attributes how{{"scale", 1 / (penalty * penalty)}};
            if (m_method.settings.shards > 1)
                how["shards"] = std::int64_t{m_method.settings.shards};
            const auto kept = m_builder.addMany("KeepState", {m_duals.at(name), m_values[name]}, 2, how);
            const auto ofRange = [&](TensorId sum, int power) {
                if (m_method.settings.timeRanges < 2)
                    return sum;
                const auto scales = name == "r" ? ofLastRange(m_method, 1, 0) : rangeScales(m_method, power);
                return m_builder.add("Mul",
                                     {sum, byRange(m_builder, scales, fmt::format("admm/ranges/{}{}", name, power))});
            };
            squares.push_back(ofRange(kept[0], -2));
            m_lagrangian.push_back(ofRange(kept[1], -1));
        }
        return squares;
    }

    TensorId joined(const std::vector<TensorId> &scalars)
    {
        return m_builder.add("Concat", scalars, {{"axis", std::int64_t{0}}});
    }
    TensorId summed(const std::vector<TensorId> &scalars)
    {
        const TensorId all = joined(scalars);
        return m_builder.add("ReduceSum", {all}, {{"axes", Numbers{0}}, {"keepdims", std::int64_t{1}}});
    }

    TensorId squares(TensorId tensor, std::int64_t rank)
    {
        Numbers axes;
        for (std::int64_t axis = 0; axis < rank; ++axis)
            axes.push_back(axis);
        const TensorId sum = m_builder.add("ReduceSum", {m_builder.add("Mul", {tensor, tensor})},
                                           {{"axes", axes}, {"keepdims", std::int64_t{0}}});
        return reshaped(sum, {1});
    }

    void figures(TensorId residuals, const std::map<std::string, TensorId> &old)
    {
        std::vector<TensorId> changes;
        std::vector<TensorId> before;
        std::vector<TensorId> behind;
        for (const char *name : {"u", "w", "b", "v", "c"}) {
            const std::int64_t rank = *name == 'b' || *name == 'c' ? 1 : 2;
            changes.push_back(squares(m_builder.add("Sub", {m_values[name], old.at(name)}), rank));
            if (rank == 1)
                continue;
            before.push_back(squares(old.at(name), rank));
            behind.push_back(squares(m_values[name], rank));
        }
        const TensorId all = joined({residuals, summed(changes), summed(before), summed(behind)});
        m_builder.rename(all, kFigures);
        m_builder.output(all);
    }

    /// The new parameters in the model's shapes; half of the two biases of an RNN stays zero.
    void giveParameters()
    {
        const std::int64_t h = m_sizes.hidden;
        const TensorId none = m_builder.constantFloats("admm/no_bias", {h}, 0);
        const TensorId bias = m_builder.add("Concat", {m_values["b"], none}, {{"axis", std::int64_t{0}}});
        give(m_pattern.u, reshaped(m_values["u"], {1, h, m_sizes.inputs}, "admm/new_u"));
        give(m_pattern.w, reshaped(m_values["w"], {1, h, h}, "admm/new_w"));
        give(m_pattern.bias, reshaped(bias, {1, 2 * h}, "admm/new_bias"));
        give(m_pattern.v,
             m_pattern.transposed ? m_builder.add("Transpose", {m_values["v"]}, {}, "admm/new_v")
                                  : reshaped(m_values["v"], {m_sizes.classes, h}, "admm/new_v"));
        give(m_pattern.c, reshaped(m_values["c"], {m_sizes.classes}, "admm/new_c"));
    }
    void give(TensorId parameter, TensorId made)
    {
        m_builder.output(made);
        m_new[m_model.tensor(parameter).name] = m_builder.tensor(made).name;
    }

    Result<graph::TrainingGraph> finish()
    {
        auto built = std::move(m_builder).build();
        if (!built)
            return built.error();
        graph::TrainingGraph training;
        training.graph = *std::move(built);
        const auto ops = training.graph.ops();
        training.forwardOps = static_cast<std::size_t>(
            std::find_if(ops.begin(), ops.end(), [](const graph::Op &op) { return op.scope == kScope; }) - ops.begin());
        for (const TensorId parameter : m_model.withRole(TensorRole::Parameter)) {
            const std::string &name = m_model.tensor(parameter).name;
            training.parameters.push_back(training.graph.find(name));
            training.gradients.push_back(training.graph.find(m_new.at(name)));
        }
        training.loss = training.graph.loss();
        training.stash = graph::findStash(training.graph, training.forwardOps);
        return training;
    }

    const Graph &m_model;
    const Pattern &m_pattern;
    const Method &m_method;
    Sizes m_sizes;
    std::int64_t m_workers;
    bool m_unfolded; ///< the recurrent layer is written step by step
    graph::GraphBuilder m_builder;
    std::vector<TensorId> m_copies;
    std::map<std::string, TensorId> m_values; ///< newest, by name in blockGraph()
    std::map<std::string, TensorId> m_duals;  ///< states, of all shards
    std::map<std::string, TensorId> m_sums;   ///< of all shards
    std::map<std::string, std::string> m_new; ///< by parameter
    TensorId m_residuals;                     ///< squared: of each constraint, or their sum; then the Lagrangian
    std::vector<TensorId> m_lagrangian;       ///< its summands, without the ridge
    int m_parts = 0;
};

Status checkBias(const Graph &model, OpId op, TensorId bias)
{
    if (bias.valid())
        return {};
    return unsupported(fmt::format("operator '{}' ({}) does not fit training by ADMM: a bias is expected; give it one",
                                   model.op(op).name, model.op(op).type.name()));
}

} // namespace

Status checkWorkers(const Settings &settings, std::int64_t workers)
{
    if (settings.parallel != Parallel::Asynchronous)
        return {};
    if (workers < 2)
        return badInput(
            "a parameter server needs two workers at least; choose parallel \"synchronous\", or more workers");
    if (settings.barrier > workers)
        return badInput(fmt::format("barrier is {}, and there are {} workers; it is at most their number",
                                    settings.barrier, workers));
    if (settings.subproblems != Subproblems::Exact)
        return unsupported("the linearised form exchanges sums ten times an iteration and has no asynchronous mode; "
                           "choose subproblems \"exact\"");
    return {};
}

std::vector<std::string> residualNames(const Graph &model, const Settings &settings)
{
    const auto pattern = findPattern(model);
    if (!pattern || settings.timeRanges > 1)
        return {};
    std::vector<std::string> names;
    for (std::string name : dualNames(pattern->steps)) {
        name.front() = name.front() == 'p' ? 'a' : name.front() == 'q' ? 'h' : 'o';
        names.push_back(std::move(name));
    }
    return names;
}

StateNames stateNames(const Graph &model, const Settings &settings)
{
    const auto pattern = findPattern(model);
    if (!pattern || settings.timeRanges < 2)
        return {};
    const std::int64_t ranges = settings.timeRanges;
    const std::int64_t steps = pattern->steps / ranges;
    return [ranges, steps](const std::string &local, int range) -> std::string {
        const std::size_t letter = std::strlen(kStates);
        if (local.size() == letter + 1) // of the outputs
            return range + 1 == ranges ? local : std::string();
        return fmt::format("{}{}", local.substr(0, letter + 1), range * steps + std::stoll(local.substr(letter + 1)));
    };
}

namespace {

/// "2 or 4": of the numbers up to @p most that divide @p steps those next to @p wanted.
std::string dividersNear(std::int64_t steps, std::int64_t wanted, std::int64_t most)
{
    most = std::min(most, steps);
    std::int64_t below = std::min(wanted, most);
    while (steps % below != 0)
        --below;
    std::int64_t above = wanted;
    while (above < most && steps % above != 0)
        ++above;
    const bool divides = above <= most && steps % above == 0;
    return divides && above != below ? fmt::format("{} or {}", below, above) : std::to_string(below);
}

} // namespace

Status checkRanges(const Settings &settings, std::int64_t steps, std::int64_t most)
{
    if (steps % settings.timeRanges == 0)
        return {};
    return badInput(fmt::format("time_ranges is {}: {} steps in time do not divide into so many equal ranges; choose "
                                "{}",
                                settings.timeRanges, steps, dividersNear(steps, settings.timeRanges, most)));
}

Result<graph::TrainingGraph> trainingGraph(const Graph &model, const Settings &settings, std::int64_t workers)
{
    if (!settings.restart)
        return unsupported("training by ADMM begins each iteration with a forward pass; leave restart at true");
    const auto pattern = findPattern(model);
    if (!pattern)
        return pattern.error();
    for (const Status &found :
         {checkBias(model, pattern->recurrent, pattern->bias), checkBias(model, pattern->product, pattern->c)})
        if (!found)
            return found.error();
    const auto method = Method::of(settings, static_cast<int>(pattern->steps));
    if (!method)
        return method.error();
    if (const Status together = checkWorkers(settings, workers); !together)
        return together.error();
    if (settings.timeRanges > 1) {
        if (const Status equal = checkRanges(settings, pattern->steps, pattern->steps); !equal)
            return equal.error();
        if (!readsFinalState(model, model.op(pattern->recurrent)))
            return unsupported(fmt::format("operator '{}' ({}) gives states of all steps; ranges of steps need a model "
                                           "that reads its final state: choose time_ranges 1",
                                           model.op(pattern->recurrent).name,
                                           model.op(pattern->recurrent).type.name()));
    }
    return TrainingWriter(model, *pattern, *method, workers).write();
}

} // namespace planloom::admm
