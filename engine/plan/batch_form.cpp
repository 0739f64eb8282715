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

/// Whether targets are entries of their own lists, as in a graph convolution.
bool hasLoops(const graph::Graph &model)
{
    return batchFormOf(model) == BatchForm::WholeBlocks && listElements(model, "own0") == 0;
}

/// Of block form: targets of layer 0 are a node and its first hop, whose lists are all that is drawn.
SampledInputs inputsOfBlocks(const graph::Graph &model)
{
    SampledInputs inputs;
    const std::int64_t targets = listElements(model, "offsets0");
    inputs.fanout.first = targets - 1;
    if (inputs.fanout.first < 1)
        return {};
    const std::int64_t drawn = listElements(model, "indices0") - (hasLoops(model) ? targets : 0);
    inputs.fanout.second = drawn / inputs.fanout.first - 1;
    if (inputs.fanout.second < 1)
        return {};
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

/// An input's name and its elements a sample.
using Named = std::pair<const char *, std::int64_t>;

struct InputSizes {
    std::vector<Named> rows; ///< of float32
    std::vector<Named> lists;
};

InputSizes sizesOf(const graph::Graph &model, const SampledInputs &wanted)
{
    const gnn::Fanout &fanout = wanted.fanout;
    const std::int64_t features = wanted.features;
    if (batchFormOf(model) == BatchForm::Trees)
        return {{{"x", features}, {"x1", features * fanout.first}, {"x2", features * fanout.first * fanout.second}},
                {}};
    const std::int64_t targets = 1 + fanout.first;
    const bool loops = hasLoops(model);
    const std::int64_t entries0 = fanout.first * (1 + fanout.second) + (loops ? targets : 0);
    const std::int64_t entries1 = fanout.first + (loops ? 1 : 0);
    InputSizes sizes{{{"x", features * fanout.rows()}},
                     {{"offsets0", targets}, {"indices0", entries0}, {"offsets1", 1}, {"indices1", entries1}}};
    if (!loops)
        sizes.lists.insert(sizes.lists.end(), {{"own0", targets}, {"own1", 1}});
    if (batchFormOf(model) == BatchForm::WholeBlocks)
        sizes.rows.insert(sizes.rows.end(), {{"weights0", entries0}, {"weights1", entries1}});
    return sizes;
}

} // namespace

BatchForm batchFormOf(const graph::Graph &model)
{
    if (listElements(model, "offsets0") == 0)
        return BatchForm::Trees;
    return rowElements(model, "weights0") > 0 ? BatchForm::WholeBlocks : BatchForm::Blocks;
}

Status checkSampledInputs(const graph::Graph &model, const SampledInputs &wanted)
{
    const bool blocks = batchFormOf(model) != BatchForm::Trees;
    const gnn::Fanout &fanout = wanted.fanout;
    const auto check = [&](const Named &named, std::int64_t has) {
        if (has == named.second)
            return Status();
        return Status(badInput(fmt::format("the model's input \"{}\" has {} numbers a sample, and {} of fan-out {}, {} "
                                           "with {} features need {}; use zoo:graphsage with these figures",
                                           named.first, has, blocks ? "blocks" : "trees", fanout.first, fanout.second,
                                           wanted.features, named.second)));
    };
    const InputSizes sizes = sizesOf(model, wanted);
    for (const Named &named : sizes.rows) {
        if (Status fits = check(named, rowElements(model, named.first)); !fits)
            return fits;
    }
    for (const Named &named : sizes.lists) {
        if (Status fits = check(named, listElements(model, named.first)); !fits)
            return fits;
    }
    return {};
}

Result<SampledInputs> sampledInputsOf(const graph::Graph &model)
{
    const SampledInputs inputs = batchFormOf(model) == BatchForm::Trees ? inputsOfTrees(model) : inputsOfBlocks(model);
    if (inputs.features < 1 || inputs.fanout.first < 1 || inputs.fanout.second < 1
        || !checkSampledInputs(model, inputs))
        return badInput("the model takes no trees: inputs x, x1 and x2 of a node, of its neighbours and of theirs, nor "
                        "blocks of rows and lists of them; plan zoo:graphsage, zoo:graphsage-rows or zoo:gcn");
    return inputs;
}

} // namespace planloom::plan
