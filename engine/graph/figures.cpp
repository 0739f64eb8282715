// SPDX-License-Identifier: Apache-2.0
// Cost figures of operators: the inputs of a roofline.
#include "engine/graph/operators/operators.h"

#include <algorithm>

namespace planloom::graph {
namespace {

bool isFloat(DType type)
{
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

/// Parameters and tensors computed from them; not pixels, labels or constants.
bool wantsGradient(const Tensor &tensor)
{
    return isFloat(tensor.type) && (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Activation);
}

std::size_t gradientInputs(const OpView &view)
{
    return static_cast<std::size_t>(std::count_if(view.inputs.begin(), view.inputs.end(), [](const Tensor *tensor) {
        return tensor && wantsGradient(*tensor);
    }));
}

/// Backward work as a multiple of the forward work.
double backwardFactor(const OpView &view, const Operator &row)
{
    if (row.backwardFlops != kEachFactor)
        return row.backwardFlops;
    const auto factors = static_cast<std::ptrdiff_t>(std::min<std::size_t>(view.inputs.size(), 2));
    return static_cast<double>(gradientInputs({view.op, {view.inputs.begin(), view.inputs.begin() + factors}}));
}

/// Bytes of inputs that are read.
Bytes inputBytes(const OpView &view, Bytes outputs, std::int64_t samples)
{
    Bytes bytes;
    for (std::size_t i = 0; i < view.inputs.size(); ++i)
        if (view.inputs[i])
            bytes += view.op.traits().picksRows && i == 0 ? outputs : view.inputs[i]->bytes(samples);
    return bytes;
}

} // namespace

OpCostFigures figures(const Graph &graph, OpId id, std::int64_t samples)
{
    const Op &op = graph.op(id);
    OpView view{op, {}};
    for (const TensorId input : op.inputs)
        view.inputs.push_back(input.valid() ? &graph.tensor(input) : nullptr);
    std::vector<TensorInfo> outputs;
    Bytes outputBytes;
    for (const TensorId output : op.outputs) {
        outputs.push_back({graph.tensor(output).type, graph.tensor(output).shape});
        outputBytes += graph.tensor(output).bytes(samples);
    }
    OpCostFigures result;
    result.forwardBytes = inputBytes(view, outputBytes, samples) + outputBytes;
    const Operator *row = op.type.row();
    if (row && row->infer && row->infer(view)) // else a shape in the file is missing, and its figures are not known
        result.forward = Flops(row->flops(view, outputs, samples));
    if (gradientInputs(view) == 0 || !gradientOf(op.type))
        return result;
    result.backward = result.forward * backwardFactor(view, *row);
    result.backwardBytes = result.forwardBytes;
    for (const Tensor *input : view.inputs)
        if (input && wantsGradient(*input))
            result.backwardBytes += input->bytes(samples);
    return result;
}

} // namespace planloom::graph
