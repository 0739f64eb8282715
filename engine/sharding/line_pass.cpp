// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/line_pass.h"
#include "engine/sharding/assign.h"

#include <algorithm>

namespace planloom::sharding {
namespace {

using graph::Op;
using graph::Tensor;
using graph::TensorRole;
using graph::TrainingGraph;

/// A tensor of the graph at hand, in one layout.
struct Version {
    Sbp sbp;
    TensorId id;
};

class LinePass {
public:
    LinePass(const TrainingGraph &logical, const LineRequest &request)
        : m_logical(logical),
          m_graph(logical.graph),
          m_request(request),
          m_parts(request.line.parts),
          m_to(logical),
          m_versions(m_graph.tensors().size()),
          m_goals(m_graph.tensors().size()),
          m_arrives(m_graph.tensors().size()),
          m_hasArrival(m_graph.tensors().size(), false),
          m_pinned(m_graph.tensors().size(), false),
          m_made(m_graph.tensors().size())
    {
    }

    Result<LineResult> run()
    {
        for (const auto step : {&LinePass::readRequest, &LinePass::walk, &LinePass::end})
            if (const Status done = (this->*step)(); !done)
                return done.error();
        for (const Tensor &tensor : m_graph.tensors())
            if (!m_versions[tensor.id.index()].empty() && !m_listed.count(tensor.id.value))
                m_to.map(tensor.id, m_versions[tensor.id.index()].front().id);
        auto local = std::move(m_to).finish();
        if (!local)
            return local.error();
        m_result.local = std::move(*local);
        return std::move(m_result);
    }

private:
    // --- requirements

    Status arrives(TensorId id, const Sbp &sbp)
    {
        if (!id.valid())
            return {};
        const Tensor &tensor = m_graph.tensor(id);
        if (isPartial(sbp))
            return badInput("tensor '" + tensor.name + "' is asked to cross a cut as P; ask for B or S");
        if (const std::string reason = whyNot(tensor, sbp, m_parts); !reason.empty())
            return badInput(reason + "; choose another sharding for it");
        m_arrives[id.index()] = sbp;
        m_hasArrival[id.index()] = true;
        return {};
    }

    Status readRequest()
    {
        for (std::size_t i = 0; i < m_logical.inputs.size(); ++i)
            if (const Status fits = arrives(m_logical.inputs[i], m_request.inputs[i]); !fits)
                return fits;
        for (std::size_t i = 0; i < m_logical.outputs.size(); ++i)
            if (m_request.outputs[i])
                if (const std::string reason =
                        whyNot(m_graph.tensor(m_logical.outputs[i]), *m_request.outputs[i], m_parts);
                    !reason.empty() || isPartial(*m_request.outputs[i]))
                    return badInput(
                        (reason.empty() ? "tensor '" + m_graph.tensor(m_logical.outputs[i]).name + "' cannot leave as P"
                                        : reason)
                        + "; choose another sharding for it");
        for (const Tensor &tensor : m_graph.tensors())
            if (const auto pin = m_request.pins.find(tensor.name); pin != m_request.pins.end())
                if (const Status fits = readPin(tensor, pin->second); !fits)
                    return fits;
        for (std::size_t i = 0; i < m_logical.inputGradients.size(); ++i)
            if (const TensorId id = m_logical.inputGradients[i];
                id.valid() && m_graph.tensor(id).role == TensorRole::Activation)
                m_goals[id.index()] = m_request.inputs[i];
        return {};
    }

    Status readPin(const Tensor &tensor, const Sbp &pin)
    {
        if (const std::string reason = whyNot(tensor, pin, m_parts); !reason.empty())
            return badInput(reason + "; its pin " + toText({pin}) + " is not possible on " + std::to_string(m_parts)
                            + " devices");
        const bool held = tensor.role == TensorRole::Parameter || tensor.role == TensorRole::State;
        if (held && isPartial(pin))
            return badInput("tensor '" + tensor.name + "' is kept between steps and cannot be P; pin it to B or S");
        if (tensor.role == TensorRole::State && !isBroadcast(pin))
            return unsupported("tensor '" + tensor.name
                               + "' is a state that operators update in place; only B is possible");
        m_pinned[tensor.id.index()] = true;
        m_goals[tensor.id.index()] = pin;
        if (held || isPartial(pin))
            return {};
        if (const TensorId again = m_graph.find("again/" + tensor.name);
            again.valid() && !m_request.pins.count(m_graph.tensor(again).name))
            m_goals[again.index()] = pin;
        for (const char *suffix : {"", "#sum"}) {
            const TensorId gradient = m_graph.find("grad/" + tensor.name + suffix);
            if (gradient.valid() && m_graph.tensor(gradient).role == TensorRole::Activation
                && !m_request.pins.count(m_graph.tensor(gradient).name))
                m_goals[gradient.index()] = pin;
        }
        return {};
    }

    // --- layouts of tensors

    std::vector<Version> &versions(TensorId id) { return m_versions[id.index()]; }

    /// Makes a tensor that no operator makes, as it comes.
    void create(TensorId id, const Sbp &sbp)
    {
        const Tensor &tensor = m_graph.tensor(id);
        const graph::Shape shape = localShape(tensor.shape, sbp, m_parts);
        graph::Initializer init = tensor.init;
        if (isSplit(sbp) && init.kind == graph::Initializer::Kind::Data)
            init = {}; // the whole value is in the logical graph
        TensorId made;
        switch (tensor.role) {
        case TensorRole::Input: made = m_to.builder().input(tensor.name, tensor.type, shape); break;
        case TensorRole::Parameter: made = m_to.builder().parameter(tensor.name, shape, init, tensor.type); break;
        default: made = m_to.to(id); break;
        }
        m_to.map(id, made);
        versions(id) = {{sbp, made}};
    }

    /// True for a parameter whose layout is still open.
    [[nodiscard]] bool isOpen(TensorId id) const
    {
        return m_graph.tensor(id).role == TensorRole::Parameter && m_versions[id.index()].empty()
            && !m_pinned[id.index()];
    }

    void ensure(TensorId id, const Op &reader)
    {
        const Tensor &tensor = m_graph.tensor(id);
        if (!versions(id).empty() || tensor.role == TensorRole::Activation || isOpen(id))
            return;
        const bool pinned = m_pinned[id.index()];
        if (tensor.role == TensorRole::Parameter)
            return create(id, m_goals[id.index()].value_or(broadcast()));
        create(id, m_hasArrival[id.index()] ? m_arrives[id.index()] : broadcast());
        if (pinned)
            settle(id, *m_goals[id.index()], reader);
    }

    /// The tensor as @p want, converted from the layout at hand that is cheapest.
    TensorId box(TensorId id, const Sbp &want, const Op &like)
    {
        std::vector<Version> &have = versions(id);
        for (const Version &version : have)
            if (version.sbp == want)
                return version.id;
        const auto price = [&](const Version &version) { return rank(version.sbp, want); };
        const Version from = *std::min_element(have.begin(), have.end(),
                                               [&](const Version &a, const Version &b) { return price(a) < price(b); });
        const TensorId made = convert(m_to, from.id, m_graph.tensor(id), from.sbp, want, m_request.line, like);
        if (isPartial(from.sbp))
            have = {{want, made}}; // whatever comes later starts as cheaply from here
        else
            have.push_back({want, made});
        return made;
    }

    [[nodiscard]] static int rank(const Sbp &from, const Sbp &want)
    {
        if (isBroadcast(from))
            return 0;
        if (isPartial(from))
            return 3;
        return isSplit(want) ? 1 : 2;
    }

    /// From now on @p sbp is the tensor's layout.
    void settle(TensorId id, const Sbp &sbp, const Op &like)
    {
        const TensorId made = box(id, sbp, like);
        versions(id) = {{sbp, made}};
    }

    // --- operators

    Status walk()
    {
        findGradients();
        const auto ops = m_graph.ops();
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (i == m_logical.forwardOps)
                if (const Status ended = endForward(); !ended)
                    return ended;
            if (const Status done = one(ops[i]); !done)
                return done;
        }
        return m_logical.forwardOps >= ops.size() ? endForward() : Status();
    }

    /// Gradients of parameters, and their addends, are wanted in the parameter's layout.
    void findGradients()
    {
        m_parameterOf.assign(m_graph.tensors().size(), TensorId{});
        for (std::size_t i = 0; i < m_logical.gradients.size(); ++i) {
            const TensorId gradient = m_logical.gradients[i];
            if (!gradient.valid())
                continue;
            m_parameterOf[gradient.index()] = m_logical.parameters[i];
            const OpId producer = m_graph.tensor(gradient).producer;
            if (producer.valid() && m_graph.op(producer).type == "AddN")
                for (const TensorId part : m_graph.op(producer).inputs)
                    m_parameterOf[part.index()] = m_logical.parameters[i];
        }
    }

    [[nodiscard]] Goal goalOf(TensorId output)
    {
        const TensorId parameter = m_parameterOf[output.index()];
        if (!parameter.valid() || versions(parameter).empty())
            return {m_goals[output.index()], false};
        const Sbp &sbp = versions(parameter).front().sbp;
        const std::optional<Sbp> &pin = m_goals[output.index()];
        if (isBroadcast(sbp) && m_pinned[output.index()] && pin && !isSplit(*pin))
            return {pin, false}; // asked to be made in parts, or whole, although either would do
        return {sbp, isBroadcast(sbp)};
    }

    [[nodiscard]] Candidate candidate(TensorId input)
    {
        const Tensor &tensor = m_graph.tensor(input);
        Candidate result;
        for (const Version &version : versions(input))
            result.have.push_back(version.sbp);
        result.parameter = tensor.role == TensorRole::Parameter;
        result.pinned = result.parameter && m_pinned[input.index()];
        result.fixed = tensor.role == TensorRole::State;
        return result;
    }

    Status one(const Op &op)
    {
        OpAtHand at = atHand(m_graph, op, m_parts);
        std::vector<Candidate> candidates;
        for (const TensorId input : op.inputs) {
            if (input.valid())
                ensure(input, op);
            candidates.push_back(input.valid() ? candidate(input) : Candidate{});
            at.have.push_back(candidates.back().have.empty() ? broadcast() : candidates.back().have.front());
        }
        std::vector<Goal> goals;
        for (const TensorId output : op.outputs)
            goals.push_back(goalOf(output));
        const std::optional<Signature> signature = choose(at, candidates, goals);
        if (!signature)
            return impossible(at);
        write(at, *signature, goals);
        return {};
    }

    void write(const OpAtHand &at, const Signature &signature, const std::vector<Goal> &goals)
    {
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < at.op.inputs.size(); ++i) {
            const TensorId input = at.op.inputs[i];
            if (input.valid() && isOpen(input))
                create(input, isPartial(signature.inputs[i]) ? broadcast() : signature.inputs[i]);
            inputs.push_back(input.valid() ? box(input, signature.inputs[i], at.op) : TensorId{});
        }
        const std::vector<TensorId> outputs = localize(m_to, at, signature, inputs, m_request.line);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const TensorId output = at.op.outputs[i];
            versions(output) = {{signature.outputs[i], outputs[i]}};
            m_made[output.index()] = signature.outputs[i];
            const bool stays = goals[i].partialToo && isPartial(signature.outputs[i]);
            const bool addend = m_parameterOf[output.index()].valid() && !isWhole(output);
            if (goals[i].sbp && !stays && !addend)
                settle(output, *goals[i].sbp, at.op);
        }
    }

    /// False for addends of a parameter's gradient: the sum is converted, not the addends.
    [[nodiscard]] bool isWhole(TensorId gradient) const
    {
        return std::find(m_logical.gradients.begin(), m_logical.gradients.end(), gradient) != m_logical.gradients.end();
    }

    [[nodiscard]] Status impossible(const OpAtHand &at) const
    {
        std::string text;
        for (std::size_t i = 0; i < at.inputs.size(); ++i)
            if (at.inputs[i] && m_pinned[at.op.inputs[i].index()] && at.inputs[i]->role == TensorRole::Parameter)
                text += (text.empty() ? "" : ", ")
                    + ("'" + at.inputs[i]->name + "' to " + toText({*m_goals[at.op.inputs[i].index()]}));
        return badInput("operator '" + at.op.name + "' (" + at.op.type + ") has no signature that allows the pins of "
                        + text + " on " + std::to_string(m_parts)
                        + " devices; pin the tensor to B or along another axis");
    }

    // --- borders

    /// Outputs and the loss leave; only needed tensors are kept for the backward pass.
    Status endForward()
    {
        const Op &last = m_graph.ops()[m_logical.forwardOps - 1];
        for (std::size_t i = 0; i < m_logical.outputs.size(); ++i) {
            const TensorId id = m_logical.outputs[i];
            ensure(id, last);
            Sbp leaves = versions(id).front().sbp;
            if (m_request.outputs[i])
                leaves = *m_request.outputs[i];
            else if (isPartial(leaves) || id == m_logical.loss)
                leaves = broadcast();
            m_outputIds.push_back(box(id, leaves, last));
            m_result.outputs.push_back(leaves);
            if (const Status fits =
                    arrives(m_logical.outputGradients.size() > i ? m_logical.outputGradients[i] : TensorId{}, leaves);
                !fits)
                return fits;
        }
        if (m_logical.loss.valid())
            settle(m_logical.loss, broadcast(), last);
        for (auto &have : m_versions)
            if (have.size() > 1)
                have.resize(1);
        m_to.beginBackward();
        return {};
    }

    void list(TensorId id, TensorId made)
    {
        if (m_listed.emplace(id.value, made).second)
            m_to.map(id, made);
    }

    Status end()
    {
        const Op &last = m_graph.ops().back();
        for (const Tensor &tensor : m_graph.tensors()) // unread inputs arrive all the same
            if (tensor.role == TensorRole::Input)
                ensure(tensor.id, last);
        for (std::size_t i = 0; i < m_logical.outputs.size(); ++i)
            list(m_logical.outputs[i], m_outputIds[i]);
        for (std::size_t i = 0; i < m_logical.inputGradients.size(); ++i)
            if (const TensorId id = m_logical.inputGradients[i]; id.valid()) {
                ensure(id, last);
                list(id, box(id, m_request.inputs[i], last));
            }
        endParameters();
        for (const Tensor &tensor : m_graph.tensors())
            if (!versions(tensor.id).empty())
                m_result.chosen[tensor.name] =
                    tensor.producer.valid() ? m_made[tensor.id.index()] : versions(tensor.id).front().sbp;
        return {};
    }

    void endParameters()
    {
        for (std::size_t i = 0; i < m_logical.parameters.size(); ++i) {
            const TensorId id = m_logical.parameters[i];
            if (versions(id).empty())
                create(id, m_goals[id.index()].value_or(broadcast()));
            m_result.parameters.push_back(versions(id).front().sbp);
            const TensorId gradient = m_logical.gradients[i];
            m_result.partialGradients.push_back(gradient.valid() && isPartial(versions(gradient).front().sbp));
        }
    }

    const TrainingGraph &m_logical;
    const graph::Graph &m_graph;
    const LineRequest &m_request;
    int m_parts;
    graph::Rewriter m_to;
    std::vector<std::vector<Version>> m_versions; ///< by tensor; the first is its own layout
    std::vector<std::optional<Sbp>> m_goals;      ///< by tensor: its pin
    std::vector<Sbp> m_arrives;
    std::vector<bool> m_hasArrival;
    std::vector<bool> m_pinned;
    std::vector<Sbp> m_made;             ///< by tensor: as its producer makes it
    std::vector<TensorId> m_parameterOf; ///< by tensor: the parameter whose gradient it is, or is added to
    std::vector<TensorId> m_outputIds;
    std::map<std::int32_t, TensorId> m_listed;
    LineResult m_result;
};

} // namespace

Result<LineResult> shardLine(const TrainingGraph &logical, const LineRequest &request)
{
    return LinePass(logical, request).run();
}

} // namespace planloom::sharding
