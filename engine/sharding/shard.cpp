// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/shard.h"
#include "engine/sharding/line_pass.h"

#include <algorithm>
#include <array>

namespace planloom::sharding {
namespace {

using graph::Tensor;
using graph::TensorRole;
using graph::TrainingGraph;

bool matches(std::string_view pattern, std::string_view name)
{
    std::size_t p = 0;
    std::size_t n = 0;
    std::size_t star = std::string_view::npos;
    std::size_t tried = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            tried = n;
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++tried;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// The pin of each tensor that has one: by its name, or the longest pattern.
std::map<std::string, NdSbp> pinsOf(const graph::Graph &graph, const std::map<std::string, NdSbp> &pins)
{
    std::map<std::string, NdSbp> found;
    std::vector<const std::pair<const std::string, NdSbp> *> patterns;
    for (const auto &pin : pins)
        if (pin.first.find('*') != std::string::npos)
            patterns.push_back(&pin);
    std::stable_sort(patterns.begin(), patterns.end(),
                     [](const auto *a, const auto *b) { return a->first.size() > b->first.size(); });
    for (const Tensor &tensor : graph.tensors()) {
        if (const auto exact = pins.find(tensor.name); exact != pins.end()) {
            found.emplace(tensor.name, exact->second);
            continue;
        }
        for (const auto *pattern : patterns)
            if (matches(pattern->first, tensor.name)) {
                found.emplace(tensor.name, pattern->second);
                break;
            }
    }
    return found;
}

/// Dimension 0: along the batch where a tensor has it.
Sbp onDataDimension(const Tensor &tensor)
{
    for (std::size_t axis = 0; axis < tensor.shape.rank(); ++axis)
        if (tensor.shape[axis].batch)
            return split(static_cast<int>(axis));
    return broadcast();
}

Status checkDimensions(const std::string &what, const NdSbp &sbp, const Mesh &mesh)
{
    if (sbp.size() == mesh.sizes.size())
        return {};
    return badInput(what + " has " + std::to_string(sbp.size()) + " entries ('" + toText(sbp) + "'); the mesh has "
                    + std::to_string(mesh.sizes.size()) + " dimensions, so write as many");
}

/// Shards one dimension of the mesh after the other.
class Shard {
public:
    Shard(const TrainingGraph &logical, const Request &request)
        : m_logical(logical),
          m_request(request),
          m_pins(pinsOf(logical.graph, request.pins))
    {
    }

    Result<Sharded> run()
    {
        if (const Status fits = check(); !fits)
            return fits.error();
        begin();
        for (std::size_t d = 1; d < m_request.mesh.sizes.size(); ++d)
            if (const Status done = dimension(d); !done)
                return done.error();
        return std::move(m_result);
    }

private:
    Status check() const
    {
        const Mesh &mesh = m_request.mesh;
        if (mesh.sizes.empty() || std::any_of(mesh.sizes.begin(), mesh.sizes.end(), [](int size) { return size < 1; }))
            return badInput("a device mesh needs at least one dimension, each of at least one device");
        if (m_request.inputs.size() != m_logical.inputs.size() || m_request.outputs.size() != m_logical.outputs.size())
            return badInput("a sharding must be given for each of the " + std::to_string(m_logical.inputs.size())
                            + " inputs and " + std::to_string(m_logical.outputs.size())
                            + " outputs of a part of model '" + m_logical.graph.name() + "'");
        for (std::size_t i = 0; i < m_request.inputs.size(); ++i)
            if (const Status fits = checkDimensions("the sharding of input '" + name(m_logical.inputs[i]) + "'",
                                                    m_request.inputs[i], mesh);
                !fits)
                return fits;
        for (std::size_t i = 0; i < m_request.outputs.size(); ++i)
            if (!m_request.outputs[i].empty())
                if (const Status fits = checkDimensions("the sharding of output '" + name(m_logical.outputs[i]) + "'",
                                                        m_request.outputs[i], mesh);
                    !fits)
                    return fits;
        for (const auto &[tensor, pin] : m_pins) {
            if (const Status fits = checkDimensions("the pin of '" + tensor + "'", pin, mesh); !fits)
                return fits;
            const TensorRole role = m_logical.graph.tensor(m_logical.graph.find(tensor)).role;
            if ((role == TensorRole::Parameter || role == TensorRole::State) && !isBroadcast(pin[0]))
                return badInput("the pin '" + toText(pin) + "' of '" + tensor
                                + "' shards a parameter over dimension 0, which is data parallel; write B there");
        }
        return {};
    }

    [[nodiscard]] const std::string &name(TensorId id) const { return m_logical.graph.tensor(id).name; }

    /// Dimension 0.
    void begin()
    {
        m_result.local = m_logical;
        const bool replicated = m_request.mesh.sizes[0] > 1;
        for (std::size_t i = 0; i < m_logical.parameters.size(); ++i) {
            ParameterShare share{{broadcast()}, m_logical.graph.tensor(m_logical.parameters[i]).shape, {}};
            if (replicated && m_logical.gradients[i].valid())
                share.reduceOver.push_back(0);
            m_result.parameters.push_back(std::move(share));
        }
        for (const TensorId output : m_logical.outputs)
            m_result.outputs.push_back({onDataDimension(m_logical.graph.tensor(output))});
        for (const Tensor &tensor : m_logical.graph.tensors())
            m_result.chosen[tensor.name] = {onDataDimension(tensor)};
    }

    Status dimension(std::size_t d)
    {
        if (m_request.mesh.sizes[d] == 1) {
            alone(d);
            return {};
        }
        LineRequest line{{static_cast<int>(d), m_request.mesh.sizes[d]}, {}, {}, {}};
        for (const auto &[tensor, pin] : m_pins)
            line.pins.emplace(tensor, pin[d]);
        for (const NdSbp &input : m_request.inputs)
            line.inputs.push_back(input[d]);
        for (const NdSbp &output : m_request.outputs)
            line.outputs.push_back(output.empty() ? nullptr : &output[d]);
        Result<LineResult> sharded = shardLine(m_result.local, line);
        if (!sharded)
            return sharded.error();
        m_result.local = std::move(sharded->local);
        for (std::size_t i = 0; i < m_result.parameters.size(); ++i) {
            m_result.parameters[i].sbp.push_back(sharded->parameters[i]);
            if (sharded->partialGradients[i])
                m_result.parameters[i].reduceOver.push_back(static_cast<int>(d));
        }
        for (std::size_t i = 0; i < m_result.outputs.size(); ++i)
            m_result.outputs[i].push_back(sharded->outputs[i]);
        for (auto &[tensor, sbp] : m_result.chosen) {
            const auto found = sharded->chosen.find(tensor);
            sbp.push_back(found == sharded->chosen.end() ? broadcast() : found->second);
        }
        return {};
    }

    /// A dimension of one device: everything is whole, under whatever name is asked.
    void alone(std::size_t d)
    {
        for (ParameterShare &share : m_result.parameters)
            share.sbp.push_back(broadcast());
        for (std::size_t i = 0; i < m_result.outputs.size(); ++i)
            m_result.outputs[i].push_back(m_request.outputs[i].empty() ? broadcast() : m_request.outputs[i][d]);
        for (auto &[tensor, sbp] : m_result.chosen)
            sbp.push_back(broadcast());
    }

    const TrainingGraph &m_logical;
    const Request &m_request;
    std::map<std::string, NdSbp> m_pins;
    Sharded m_result;
};

} // namespace

Result<Sharded> shard(const TrainingGraph &logical, const Request &request) { return Shard(logical, request).run(); }

} // namespace planloom::sharding
