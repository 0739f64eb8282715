// SPDX-License-Identifier: Apache-2.0
// Operators whose blocks work on rows: normalisation, softmax, cross-entropy.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>
#include <array>

namespace planloom::cuda {

namespace {

struct NormRows {
    std::int64_t rows = 0, size = 0;
};

/// Rows of input @p like from the axis on; nullopt: the shapes do not fit.
std::optional<NormRows> normRows(const Request &request, std::size_t like, std::size_t scale)
{
    const auto axis = request.hasInput(like) ? request.axis(like, -1) : std::nullopt;
    if (!axis)
        return std::nullopt;
    const Dims &dims = request.in(like);
    const NormRows rows{productOf(dims, 0, *axis), productOf(dims, *axis, dims.size())};
    if (request.inSize(scale) != rows.size || rows.size == 0 || request.outSize(0) != rows.rows * rows.size)
        return std::nullopt;
    return rows;
}

/// @p added: A + B are normalised, inputs and outputs lie one place further.
Made makeNorm(const Request &request, bool centred, bool added)
{
    const std::size_t more = added ? 1 : 0;
    const auto rows = normRows(request, 0, 1 + more);
    if (!rows || !request.floatInputs(2 + more) || !request.floatOutputs(1 + more)
        || (added && (request.inSize(1) != request.outSize(0) || request.outSize(1) != request.outSize(0)))
        || (request.hasInput(2 + more) && request.inSize(2 + more) != rows->size))
        return onlyOnHost(request);
    for (std::size_t statistic = 1 + more; statistic < request.outputs.size(); ++statistic)
        if (request.hasOutput(statistic)
            && (request.outSize(statistic) != rows->rows || !isFull(request.outputs[statistic])))
            return onlyOnHost(request);
    RowNorm kernel;
    kernel.a = from(request, 0);
    kernel.b = added ? from(request, 1) : From();
    kernel.scale = from(request, 1 + more);
    kernel.bias = from(request, 2 + more);
    kernel.y = to(request, 0);
    kernel.sum = added ? to(request, 1) : To();
    kernel.rows = rows->rows;
    kernel.size = rows->size;
    kernel.epsilon = static_cast<float>(request.op.number("epsilon", 1e-5));
    kernel.centred = centred ? 1 : 0;
    if (kernel.y.kind == kernel.a.kind
        && (!added || (kernel.b.kind == kernel.a.kind && kernel.sum.kind == kernel.a.kind)))
        kernel.bits = groupBitsFor(kernel.a.kind, kernel.size);
    return makeFunction([kernel, more, added](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.a.data = in[0];
        kernel.b.data = added ? in[1] : nullptr;
        kernel.scale.data = in[1 + more];
        kernel.bias.data = given(in, 2 + more);
        kernel.y.data = out[0];
        kernel.sum.data = added ? out[1] : nullptr;
        kernel.mean.data = kernel.centred != 0 ? given(out, 1 + more) : nullptr;
        kernel.inverse.data = given(out, (kernel.centred != 0 ? 2 : 1) + more);
        if (kernel.bits > 0
            && areAligned(
                {kernel.a.data, kernel.b.data, kernel.scale.data, kernel.bias.data, kernel.y.data, kernel.sum.data})) {
            giveGroups(queue, kernel, kernel.rows, kernel.bits);
            return;
        }
        RowNorm byBlock = kernel;
        byBlock.bits = 0;
        queue.rows(byBlock, kernel.rows);
    });
}
Made makeLayerNorm(const Request &request) { return makeNorm(request, true, false); }
Made makeRmsNorm(const Request &request) { return makeNorm(request, false, false); }
Made makeAddLayerNorm(const Request &request) { return makeNorm(request, true, true); }
Made makeAddRmsNorm(const Request &request) { return makeNorm(request, false, true); }

/// dx, and the gradients of scale and bias from sums over parts of the rows.
struct NormGradient {
    KeptNormGradient kernel; ///< bits 0: rows that no group keeps
    ColumnNormGradient columns;
    std::int64_t blocks = 0;              ///< of the kernel
    std::int64_t each = 0;                ///< sums of a part
    std::shared_ptr<device::Memory> sums; ///< nullptr: there is no output for them
    To dScale, dBias;

    /// Few, as each has sums of its own, and all with the same number of rows.
    static std::int64_t blocksOf(const KeptNormGradient &kernel, const Provider &provider)
    {
        constexpr std::int64_t kMost = 396; // three on each processor of an H100
        const std::int64_t most = std::min(kMost, provider.mostBlocks);
        const std::int64_t groups = groupThreads(kernel.bits) >> kernel.bits;
        const std::int64_t turns = (kernel.rows + groups - 1) / groups;
        const std::int64_t each = std::max<std::int64_t>(1, (turns + most - 1) / most);
        return (turns + each - 1) / each;
    }
    void give(CudaQueue &queue)
    {
        float *parts = sums ? at<float>(sums) : nullptr;
        std::int64_t count = blocks;
        if (kernel.bits > 0
            && areAligned({kernel.dy.data, kernel.x.data, kernel.scale.data, kernel.addend.data, kernel.dx.data})) {
            kernel.sums = parts;
            const unsigned int threads = groupThreads(kernel.bits);
            queue.blocks(kernel, blocks, threads,
                         threads >> kernel.bits > 1 ? KeptNormGradient::kExtra << kernel.bits : 0);
        } else {
            count = columns.parts;
            byBlocks(queue, parts);
        }
        if (parts == nullptr)
            return;
        ColumnSums join = sumOfParts(parts, count, each);
        join.y = dScale;
        join.second = dBias;
        join.split = kernel.size;
        giveColumnSums(queue, join);
    }

private:
    void byBlocks(CudaQueue &queue, float *parts)
    {
        columns.dy = kernel.dy;
        columns.x = kernel.x;
        columns.mean = kernel.mean;
        columns.inverse = kernel.inverse;
        columns.sums = parts;
        if (parts != nullptr) // first: dx may lie where dy does
            queue.rows(columns, columns.blocks());
        RowNormGradient rows;
        rows.dy = kernel.dy;
        rows.x = kernel.x;
        rows.scale = kernel.scale;
        rows.mean = kernel.mean;
        rows.inverse = kernel.inverse;
        rows.addend = kernel.addend;
        rows.dx = kernel.dx;
        rows.rows = kernel.rows;
        rows.size = kernel.size;
        queue.rows(rows, rows.rows);
    }
};

Made makeNormGrad(const Request &request, bool centred)
{
    const std::size_t statistics = centred ? 5 : 4; // inputs before the addend
    const auto rows = normRows(request, 1, 2);
    if (!rows || !request.floatInputs(statistics) || !request.floatOutputs(1) || request.inSize(0) != request.outSize(0)
        || request.inSize(3) != rows->rows || (centred && request.inSize(4) != rows->rows)
        || (request.hasInput(statistics) && request.inSize(statistics) != request.outSize(0)))
        return onlyOnHost(request);
    for (std::size_t parameter : {std::size_t{1}, std::size_t{2}})
        if (request.hasOutput(parameter) && request.outSize(parameter) != rows->size)
            return onlyOnHost(request);
    NormGradient made;
    KeptNormGradient &kernel = made.kernel;
    kernel.dy = from(request, 0);
    kernel.x = from(request, 1);
    kernel.scale = from(request, 2);
    kernel.mean = centred ? from(request, 3) : From();
    kernel.inverse = from(request, centred ? 4 : 3);
    kernel.addend = from(request, statistics);
    kernel.dx = to(request, 0);
    kernel.rows = rows->rows;
    kernel.size = rows->size;
    const bool alike = kernel.dy.kind == kernel.x.kind && kernel.dx.kind == kernel.x.kind
        && (!request.hasInput(statistics) || kernel.addend.kind == kernel.x.kind);
    kernel.bits = alike ? groupBitsFor(kernel.x.kind, kernel.size) : 0;
    made.columns.rows = rows->rows;
    made.columns.size = rows->size;
    made.columns.lanes = lanesOf(request);
    made.columns.parts = partsOf(request, rows->size, rows->rows, made.columns.lanes);
    made.blocks = kernel.bits > 0 ? NormGradient::blocksOf(kernel, request.device.provider()) : 0;
    made.each = centred ? 2 * rows->size : rows->size;
    if (request.hasOutput(1) || (centred && request.hasOutput(2))) {
        auto sums = scratchOf<float>(request, std::max(made.columns.parts, made.blocks) * made.each);
        if (!sums)
            return sums.error();
        made.sums = *sums;
    }
    made.dScale = to(request, 1);
    made.dBias = centred ? to(request, 2) : To();
    return makeFunction([made, centred, statistics](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        made.kernel.dy.data = in[0];
        made.kernel.x.data = in[1];
        made.kernel.scale.data = in[2];
        made.kernel.mean.data = centred ? in[3] : nullptr;
        made.kernel.inverse.data = in[centred ? 4 : 3];
        made.kernel.addend.data = given(in, statistics);
        made.kernel.dx.data = out[0];
        made.dScale.data = given(out, 1);
        made.dBias.data = centred ? given(out, 2) : nullptr;
        made.give(queue);
    });
}
Made makeLayerNormGrad(const Request &request) { return makeNormGrad(request, true); }
Made makeRmsNormGrad(const Request &request) { return makeNormGrad(request, false); }

// --- Softmax --------------------------------------------------------------------------------------------------------

template <bool logarithm>
Made makeSoftmax(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, -1) : std::nullopt;
    if (!axis || !request.floatInputs(1) || !request.floatOutputs(1) || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    SoftmaxRows kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.outer = productOf(request.in(0), 0, *axis);
    kernel.n = request.in(0)[*axis];
    kernel.inner = productOf(request.in(0), *axis + 1, request.in(0).size());
    kernel.logarithm = logarithm ? 1 : 0;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.rows(kernel, kernel.outer * kernel.inner);
    });
}

template <bool logarithm>
Made makeSoftmaxGrad(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, -1) : std::nullopt;
    if (!axis || !request.floatInputs(2) || !request.floatOutputs(1) || request.inSize(0) != request.outSize(0)
        || request.inSize(1) != request.outSize(0))
        return onlyOnHost(request);
    SoftmaxRowsGradient kernel;
    kernel.dy = from(request, 0);
    kernel.y = from(request, 1);
    kernel.dx = to(request, 0);
    kernel.outer = productOf(request.in(0), 0, *axis);
    kernel.n = request.in(0)[*axis];
    kernel.inner = productOf(request.in(0), *axis + 1, request.in(0).size());
    kernel.logarithm = logarithm ? 1 : 0;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.y.data = in[1];
        kernel.dx.data = out[0];
        queue.rows(kernel, kernel.outer * kernel.inner);
    });
}

// --- Cross-entropy --------------------------------------------------------------------------------------------------

struct LossRows {
    std::int64_t rows = 0, classes = 0, ignored = 0;
};

std::optional<LossRows> lossRows(const Request &request, std::size_t logits)
{
    if (request.inputs.size() < logits + 2 || !isFloat(request.inputs[logits]) || !isInteger(request.inputs[logits + 1])
        || request.in(logits).empty())
        return std::nullopt;
    const Dims &dims = request.in(logits);
    const LossRows rows{productOf(dims, 0, dims.size() - 1), dims.back(), request.op.integer("ignore_index", -100)};
    if (request.inSize(logits + 1) != rows.rows || rows.rows == 0 || rows.classes == 0)
        return std::nullopt;
    return rows;
}

Made makeCrossEntropy(const Request &request)
{
    const auto rows = lossRows(request, 0);
    if (!rows || request.inputs.size() != 2 || request.outSize(0) != 1 || !request.floatOutputs(1)
        || (request.hasOutput(1) && (request.outSize(1) != 2 * rows->rows || !isFull(request.outputs[1]))))
        return onlyOnHost(request);
    auto losses = scratchOf<float>(request, rows->rows);
    if (!losses)
        return losses.error();
    CrossEntropyRows each;
    each.all = logitRows(request, 0, rows->rows, rows->classes);
    each.stats = to(request, 1);
    each.losses = at<float>(*losses);
    each.ignored = rows->ignored;
    CrossEntropyMean mean;
    mean.losses = each.losses;
    mean.loss = to(request, 0);
    mean.rows = rows->rows;
    mean.ignored = rows->ignored;
    return makeFunction([each, mean, kept = *losses](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        each.all.logits.data = in[0];
        each.labels = static_cast<const std::int64_t *>(in[1]);
        each.stats.data = given(out, 1);
        mean.labels = each.labels;
        mean.loss.data = out[0];
        giveGroups(queue, each, each.all.rows, each.all.bits);
        giveMean(queue, mean);
    });
}

Made makeCrossEntropyGrad(const Request &request)
{
    const auto rows = lossRows(request, 1);
    if (!rows || request.inputs.size() != 4 || request.inSize(0) != 1 || !isFloat(request.inputs[0])
        || request.inSize(3) != 2 * rows->rows || !isFull(request.inputs[3]) || !request.floatOutputs(1)
        || request.outSize(0) != rows->rows * rows->classes)
        return onlyOnHost(request);
    auto counted = scratchOf<float>(request, 1);
    if (!counted)
        return counted.error();
    CrossEntropyMean number;
    number.counted = at<float>(*counted);
    number.rows = rows->rows;
    number.ignored = rows->ignored;
    CrossEntropyGradient kernel;
    kernel.dLoss = from(request, 0);
    kernel.logits = from(request, 1);
    kernel.stats = from(request, 3);
    kernel.counted = number.counted;
    kernel.dx = to(request, 0);
    kernel.rows = rows->rows;
    kernel.classes = rows->classes;
    kernel.ignored = rows->ignored;
    kernel.bits = logitRows(request, 1, rows->rows, rows->classes).bits;
    return makeFunction([number, kernel, kept = *counted](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        number.labels = static_cast<const std::int64_t *>(in[2]);
        kernel.dLoss.data = in[0];
        kernel.logits.data = in[1];
        kernel.labels = number.labels;
        kernel.stats.data = in[3];
        kernel.dx.data = out[0];
        giveMean(queue, number);
        giveGroups(queue, kernel, kernel.rows, kernel.bits);
    });
}

constexpr OperatorEntry kRows[] = {
    {"AddLayerNormalization", makeAddLayerNorm},
    {"AddRMSNormalization", makeAddRmsNorm},
    {"LayerNormalization", makeLayerNorm},
    {"LayerNormalizationGrad", makeLayerNormGrad},
    {"LogSoftmax", makeSoftmax<true>},
    {"LogSoftmaxGrad", makeSoftmaxGrad<true>},
    {"RMSNormalization", makeRmsNorm},
    {"RMSNormalizationGrad", makeRmsNormGrad},
    {"Softmax", makeSoftmax<false>},
    {"SoftmaxCrossEntropyLoss", makeCrossEntropy},
    {"SoftmaxCrossEntropyLossGrad", makeCrossEntropyGrad},
    {"SoftmaxGrad", makeSoftmaxGrad<false>},
};

} // namespace

std::span<const OperatorEntry> rowOperators() { return kRows; }

} // namespace planloom::cuda
