// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/batch_form.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace planloom::plan {
namespace {

/// Elements a sample of the model's input @p name; 0: it has none of that type.
std::int64_t sampledElements(const graph::Graph &model, std::string_view name, graph::DType type)
{
    for (const graph::Tensor &tensor : model.tensors()) {
        if (tensor.role == graph::TensorRole::Input && tensor.name == name && tensor.type == type)
            return tensor.shape.elements(1);
    }
    return 0;
}

std::int64_t listElements(const graph::Graph &model, std::string_view name)
{
    return sampledElements(model, name, graph::DType::I64);
}
std::int64_t rowElements(const graph::Graph &model, std::string_view name)
{
    return sampledElements(model, name, graph::DType::F32);
}

/// Of block form: targets of layer 0 are a node and its first hop, whose lists are all that is drawn.
SampledInputs inputsOfBlocks(const graph::Graph &model)
{
    SampledInputs inputs;
    inputs.fanout.first = listElements(model, "own0") - 1;
    if (inputs.fanout.first < 1)
        return {};
    inputs.fanout.second = listElements(model, "indices0") / inputs.fanout.first - 1;
    inputs.features = rowElements(model, "x") / inputs.fanout.rows();
    return inputs;
}

SampledInputs inputsOfTrees(const graph::Graph &model)
{
    SampledInputs inputs;
    inputs.features = rowElements(model, "x");
    const std::int64_t first = rowElements(model, "x1");
    if (inputs.features > 0 && first > 0)
        inputs.fanout = {first / inputs.features, rowElements(model, "x2") / first};
    return inputs;
}

Status refuseFactors(const graph::Graph &model)
{
    if (rowElements(model, "weights0") == 0)
        return {};
    return badInput("the model's lists have factors (input \"weights0\"), which samplers do not send; plan "
                    "zoo:graphsage-rows or zoo:graphsage, or train it by another planner's plan, whose trainers read "
                    "the whole graph");
}

} // namespace

BatchForm batchFormOf(const graph::Graph &model)
{
    return listElements(model, "offsets0") > 0 ? BatchForm::Blocks : BatchForm::Trees;
}

Status checkSampledInputs(const graph::Graph &model, const SampledInputs &wanted)
{
    if (Status lists = refuseFactors(model); !lists)
        return lists;
    const gnn::Fanout &fanout = wanted.fanout;
    using Named = std::pair<const char *, std::int64_t>;
    const bool blocks = batchFormOf(model) == BatchForm::Blocks;
    const std::int64_t targets = 1 + fanout.first;
    const std::int64_t drawn = fanout.first * (1 + fanout.second);
    const std::vector<Named> rows = blocks ? std::vector<Named>{{"x", wanted.features * fanout.rows()}}
                                           : std::vector<Named>{{"x", wanted.features},
                                                                {"x1", wanted.features * fanout.first},
                                                                {"x2", wanted.features * fanout.first * fanout.second}};
    std::vector<Named> lists;
    if (blocks)
        lists = {{"own0", targets}, {"offsets0", targets}, {"indices0", drawn},
                 {"own1", 1},       {"offsets1", 1},       {"indices1", fanout.first}};
    const auto check = [&](const Named &named, std::int64_t has) {
        if (has == named.second)
            return Status();
        return Status(badInput(fmt::format("the model's input \"{}\" has {} numbers a sample, and {} of fan-out {}, {} "
                                           "with {} features need {}; use zoo:graphsage with these figures",
                                           named.first, has, blocks ? "blocks" : "trees", fanout.first, fanout.second,
                                           wanted.features, named.second)));
    };
    for (const Named &named : rows) {
        if (Status fits = check(named, rowElements(model, named.first)); !fits)
            return fits;
    }
    for (const Named &named : lists) {
        if (Status fits = check(named, listElements(model, named.first)); !fits)
            return fits;
    }
    return {};
}

Result<SampledInputs> sampledInputsOf(const graph::Graph &model)
{
    if (Status lists = refuseFactors(model); !lists)
        return lists.error();
    const SampledInputs inputs = batchFormOf(model) == BatchForm::Blocks ? inputsOfBlocks(model) : inputsOfTrees(model);
    if (inputs.features < 1 || inputs.fanout.first < 1 || inputs.fanout.second < 1
        || !checkSampledInputs(model, inputs))
        return badInput("the model takes no trees: inputs x, x1 and x2 of a node, of its neighbours and of theirs, nor "
                        "blocks of rows and lists of them; plan zoo:graphsage or zoo:graphsage-rows");
    return inputs;
}

} // namespace planloom::plan
