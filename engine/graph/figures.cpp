// SPDX-License-Identifier: Apache-2.0
// Cost figures of operators: what a roofline is fed with.
#include "engine/graph/differentiate.h"
#include "engine/graph/operators.h"

#include <algorithm>
#include <array>

namespace planloom::graph {
namespace {

bool isFloat(DType type)
{
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

/// Parameters and what operators made of them; not pixels, labels or constants.
bool wantsGradient(const Tensor &tensor)
{
    return isFloat(tensor.type) && (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Activation);
}

std::size_t gradientInputs(const OpView &view)
{
    return static_cast<std::size_t>(
        std::count_if(view.inputs.begin(), view.inputs.end(), [](const Tensor *tensor) { return tensor && wantsGradient(*tensor); }));
}

/// Backward work as a multiple of the forward work. Products and convolutions do the forward work again for each factor that wants
/// a gradient; attention computes its probabilities again (five products for two); the rest reads and writes what forward did.
double backwardFactor(const OpView &view)
{
    static constexpr std::array kBilinear{"MatMul", "Gemm", "Conv"};
    if (std::find(kBilinear.begin(), kBilinear.end(), view.op.type) != kBilinear.end()) {
        const std::size_t factors = std::min<std::size_t>(view.inputs.size(), 2);
        return static_cast<double>(gradientInputs({view.op, {view.inputs.begin(), view.inputs.begin() + static_cast<std::ptrdiff_t>(factors)}}));
    }
    if (view.op.type == "Attention")
        return 2.5;
    if (view.op.type == "UnfusedAttention")
        return 2;
    return view.op.type.find("Normalization") != std::string::npos ? 2 : 1;
}

/// Bytes of inputs that are read. A Gather reads the rows that it picks, not the table.
Bytes inputBytes(const OpView &view, Bytes outputs, std::int64_t samples)
{
    Bytes bytes;
    for (std::size_t i = 0; i < view.inputs.size(); ++i)
        if (view.inputs[i])
            bytes += view.op.type == "Gather" && i == 0 ? outputs : view.inputs[i]->bytes(samples);
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
    const OpSchema *schema = findSchema(op.type);
    if (schema && schema->infer && schema->infer(view)) // else a shape in the file is missing, and its figures are not known
        result.forward = Flops(schema->flops(view, outputs, samples));
    if (gradientInputs(view) == 0 || !isDifferentiable(op.type))
        return result;
    result.backward = result.forward * backwardFactor(view);
    result.backwardBytes = result.forwardBytes;
    for (const Tensor *input : view.inputs)
        if (input && wantsGradient(*input))
            result.backwardBytes += input->bytes(samples);
    return result;
}

} // namespace planloom::graph
