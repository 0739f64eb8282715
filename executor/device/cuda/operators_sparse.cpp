// SPDX-License-Identifier: Apache-2.0
// Products of a sparse matrix and a dense one, and their gradients.
#include "executor/device/cuda/operator_support.h"

namespace planloom::cuda {

namespace {

/// Of a product @p y with the rows of @p x; nullopt: the shapes or types are none of it.
std::optional<EntryLists> listsOf(const Request &request, const device::Argument &y, std::size_t offsets,
                                  const device::Argument &x)
{
    const device::Argument &ends = request.inputs[offsets];
    const device::Argument &indices = request.inputs[offsets + 1];
    if (!isFull(y) || !isFull(x) || !isInteger(ends) || !isInteger(indices) || y.dims.size() != 2 || x.dims.size() != 2
        || ends.dims.size() != 1 || indices.dims.size() != 1 || y.dims[0] != ends.dims[0] || y.dims[1] != x.dims[1])
        return std::nullopt;
    EntryLists lists;
    lists.rows = y.dims[0];
    lists.entries = indices.dims[0];
    lists.columns = y.dims[1];
    lists.sources = x.dims[0];
    lists.mean = request.op.text("reduce", "sum") == "mean" ? 1 : 0;
    return lists;
}

/// Input 3: one for each entry, if it is there.
bool weightsFit(const Request &request, const EntryLists &lists)
{
    return !request.hasInput(3) || (isFull(request.inputs[3]) && request.in(3) == Dims{lists.entries});
}

void pointTo(EntryLists &lists, const void *offsets, const void *indices, const void *weights)
{
    lists.offsets = static_cast<const std::int64_t *>(offsets);
    lists.indices = static_cast<const std::int64_t *>(indices);
    lists.weights = static_cast<const float *>(weights);
}

Made makeSparseProduct(const Request &request)
{
    const auto lists = listsOf(request, request.outputs[0], 0, request.inputs[2]);
    if (!lists || !weightsFit(request, *lists))
        return onlyOnHost(request);
    SparseProduct kernel;
    kernel.lists = *lists;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        pointTo(kernel.lists, in[0], in[1], given(in, 3));
        kernel.x = static_cast<const float *>(in[2]);
        kernel.y = static_cast<float *>(out[0]);
        queue.items(kernel, kernel.lists.rows * kernel.lists.columns);
    });
}

Made makeSparseProductGradient(const Request &request)
{
    const auto lists = listsOf(request, request.inputs[0], 1, request.outputs[0]);
    if (!lists || !weightsFit(request, *lists))
        return onlyOnHost(request);
    SparseProductGradient kernel;
    kernel.lists = *lists;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        pointTo(kernel.lists, in[1], in[2], given(in, 3));
        kernel.dy = static_cast<const float *>(in[0]);
        kernel.dx = static_cast<float *>(out[0]);
        queue.rows(kernel, (kernel.lists.sources + kernel.kSources - 1) / kernel.kSources);
    });
}

/// Entries behind the last row have no part in the product.
Made makeSparseWeightGradient(const Request &request)
{
    const auto lists = listsOf(request, request.inputs[0], 1, request.inputs[3]);
    if (!lists || !isFull(request.outputs[0]) || request.out(0) != request.in(2))
        return onlyOnHost(request);
    SparseWeightGradient kernel;
    kernel.lists = *lists;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        pointTo(kernel.lists, in[1], in[2], nullptr);
        kernel.dy = static_cast<const float *>(in[0]);
        kernel.x = static_cast<const float *>(in[3]);
        kernel.dw = static_cast<float *>(out[0]);
        queue.fill(out[0], 0, kernel.lists.entries * static_cast<std::int64_t>(sizeof(float)));
        queue.rows(kernel, kernel.lists.rows);
    });
}

constexpr OperatorEntry kSparse[] = {
    {"SpMM", makeSparseProduct},
    {"SpMMGrad", makeSparseProductGradient},
    {"SpMMWeightGrad", makeSparseWeightGradient},
};

} // namespace

std::span<const OperatorEntry> sparseOperators() { return kSparse; }

} // namespace planloom::cuda
