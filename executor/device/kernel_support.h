// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"

#include <span>
#include <utility>

// Shared by the kernel files: request and answer of a factory, and the table of all factories.
namespace planloom::device {

using Dims = std::vector<std::int64_t>;
using Inputs = std::span<const void *const>;
using Outputs = std::span<void *const>;
/// Tensors of a higher rank are refused.
inline constexpr std::size_t kMaxRank = 8;
using Made = Result<std::unique_ptr<Kernel>>;

/// Request to a factory. Counts, presence and data types of the arguments have been checked against the entry's
/// signature.
struct Request {
    const graph::Op &op;
    const std::vector<Argument> &inputs;
    const std::vector<Argument> &outputs;

    [[nodiscard]] const Dims &in(std::size_t i) const { return inputs[i].dims; }
    [[nodiscard]] const Dims &out(std::size_t i = 0) const { return outputs[i].dims; }
    [[nodiscard]] bool hasInput(std::size_t i) const { return i < inputs.size() && inputs[i].present; }
    [[nodiscard]] bool hasOutput(std::size_t i) const { return i < outputs.size() && outputs[i].present; }
};

/// One operator type. A signature lists data types, a letter an argument: f float32 (bfloat16 is converted
/// around the kernel), h float32 or bfloat16, i int64, b bool, * any;
/// "?" after a letter: may be left out; "+" after the last: repeats ("?+": and each may be left out).
struct KernelEntry {
    const char *type;
    const char *inputs;
    const char *outputs;
    Made (*make)(const Request &);
};

std::span<const KernelEntry> unaryKernels();
std::span<const KernelEntry> unaryGradientKernels();
std::span<const KernelEntry> binaryKernels();
std::span<const KernelEntry> matmulKernels();
std::span<const KernelEntry> matmulGeluKernels();
/// A product of bfloat16 matrices as they lie. Errors: Unsupported for other operator types and on a processor that
/// lacks such products.
Made makeHalfProduct(const Request &request);
std::span<const KernelEntry> attentionKernels();
std::span<const KernelEntry> rotaryKernels();
std::span<const KernelEntry> normKernels();
std::span<const KernelEntry> batchNormKernels();
std::span<const KernelEntry> convolutionKernels();
std::span<const KernelEntry> poolingKernels();
std::span<const KernelEntry> layoutKernels();
std::span<const KernelEntry> shapeKernels();
std::span<const KernelEntry> indexKernels();
std::span<const KernelEntry> gatherKernels();
std::span<const KernelEntry> softmaxKernels();
std::span<const KernelEntry> lossKernels();
std::span<const KernelEntry> elementLossKernels();
std::span<const KernelEntry> boxingKernels();
std::span<const KernelEntry> flatKernels();
std::span<const KernelEntry> reduceKernels();
std::span<const KernelEntry> lstmKernels();
std::span<const KernelEntry> gruKernels();
std::span<const KernelEntry> scatterKernels();
std::span<const KernelEntry> proximalKernels();
std::span<const KernelEntry> sparseKernels();

/// Of types that the other tables do not compute in; asked last.
std::span<const KernelEntry> typedKernels();

/// Dropout with a ratio above 0, and its gradient.
Made makeRandomDropout(const Request &request);
/// Pad in other modes than constant, and its gradient.
Made makeMirroredPad(const Request &request);
Made makePadGrad(const Request &request);

/// A kernel that is a function: f(inputs, outputs).
template <class F>
class FunctionKernel final : public Kernel {
public:
    explicit FunctionKernel(F f) : m_function(std::move(f)) {}
    void run(Inputs inputs, Outputs outputs) override { m_function(inputs, outputs); }

private:
    F m_function;
};

template <class F>
Made makeFunction(F f)
{
    return Made(std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<F>>(std::move(f))));
}

inline const float *floats(const void *p) { return static_cast<const float *>(p); }
inline float *floats(void *p) { return static_cast<float *>(p); }
inline const std::int64_t *ints(const void *p) { return static_cast<const std::int64_t *>(p); }
inline std::int64_t *ints(void *p) { return static_cast<std::int64_t *>(p); }

inline std::int64_t product(const Dims &dims, std::size_t first, std::size_t last)
{
    std::int64_t n = 1;
    for (std::size_t i = first; i < last; ++i)
        n *= dims[i];
    return n;
}
inline std::int64_t product(const Dims &dims) { return product(dims, 0, dims.size()); }

/// "[2, 3]".
std::string text(const Dims &dims);

/// BadInput about @p request's operator: "Gemm 'h/0/fc': WHAT".
Error wrong(const Request &request, const std::string &what);
Error cannot(const Request &request, const std::string &what); ///< the same, Unsupported

/// An axis of a tensor of @p rank from an attribute that may count from the end. Error: BadInput.
Result<std::size_t> resolveAxis(const Request &request, std::int64_t axis, std::size_t rank);

/// A tensor cut at an axis: [outer, n, inner].
struct AxisView {
    std::int64_t outer = 1, n = 1, inner = 1;
};
AxisView viewAt(const Dims &dims, std::size_t axis);

} // namespace planloom::device
