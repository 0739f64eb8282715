// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Shared by the files of operators.
namespace planloom::cuda {

using Dims = std::vector<std::int64_t>;
using Inputs = std::span<const void *const>;
using Outputs = std::span<void *const>;
using Made = Result<std::unique_ptr<device::DeviceKernel>>;

inline std::int64_t productOf(const Dims &dims, std::size_t first, std::size_t last)
{
    std::int64_t n = 1;
    for (std::size_t i = first; i < last; ++i)
        n *= dims[i];
    return n;
}
inline std::int64_t productOf(const Dims &dims) { return productOf(dims, 0, dims.size()); }

/// An operator with its arguments, to make a kernel of.
struct Request {
    CudaDevice &device;
    const graph::Op &op;
    std::span<const device::Argument> inputs;
    std::span<const device::Argument> outputs;

    [[nodiscard]] const Dims &in(std::size_t i) const { return inputs[i].dims; }
    [[nodiscard]] const Dims &out(std::size_t i = 0) const { return outputs[i].dims; }
    [[nodiscard]] bool hasInput(std::size_t i) const { return i < inputs.size() && inputs[i].present; }
    [[nodiscard]] bool hasOutput(std::size_t i) const { return i < outputs.size() && outputs[i].present; }
    /// Elements of an input; -1: left out.
    [[nodiscard]] std::int64_t inSize(std::size_t i) const { return hasInput(i) ? productOf(inputs[i].dims) : -1; }
    [[nodiscard]] std::int64_t outSize(std::size_t i) const { return hasOutput(i) ? productOf(outputs[i].dims) : -1; }
    /// Inputs [first, first + n) and so on: all there, and floats.
    [[nodiscard]] bool floatInputs(std::size_t n) const;
    [[nodiscard]] bool floatOutputs(std::size_t n) const;
    /// Of input @p i: an axis counted from the front; nullopt: there is none.
    [[nodiscard]] std::optional<std::size_t> axis(std::size_t i, std::int64_t fallback) const;
};

/// What a factory makes of images in graph::Layout::Blocked, which on a GPU is (N, H, W, C): channels last.
enum class LastChannels : std::uint8_t {
    No,
    Alike, ///< all arguments are of one shape and layout, and elements meet those at the same place: the factory is
           ///< asked as for rows
    Yes,
};
/// How kernels of a type of operator are made.
struct OperatorEntry {
    const char *type;
    Made (*make)(const Request &);
    LastChannels lastChannels = LastChannels::No;
};
std::span<const OperatorEntry> elementwiseOperators();
std::span<const OperatorEntry> tensorOperators();
std::span<const OperatorEntry> indexOperators();
std::span<const OperatorEntry> rowOperators();
std::span<const OperatorEntry> lossOperators();
std::span<const OperatorEntry> shardOperators();
std::span<const OperatorEntry> imageOperators();
std::span<const OperatorEntry> convolutionOperators();
std::span<const OperatorEntry> productOperators();
std::span<const OperatorEntry> attentionOperators();
std::span<const OperatorEntry> recurrentOperators();
std::span<const OperatorEntry> sparseOperators();

/// There is no GPU kernel for this.
Error onlyOnHost(const Request &request);

inline bool isFloat(const device::Argument &argument)
{
    return argument.present && (argument.type == graph::DType::F32 || argument.type == graph::DType::BF16);
}
inline bool isInteger(const device::Argument &argument)
{
    return argument.present && argument.type == graph::DType::I64;
}
inline bool isTruth(const device::Argument &argument)
{
    return argument.present && argument.type == graph::DType::Bool;
}
inline bool isFull(const device::Argument &argument) { return argument.present && argument.type == graph::DType::F32; }

/// Of types that kernels read and write.
inline Kind kindOf(const device::Argument &argument) { return static_cast<Kind>(argument.type); }
static_assert(static_cast<int>(Kind::F32) == static_cast<int>(graph::DType::F32)
              && static_cast<int>(Kind::BF16) == static_cast<int>(graph::DType::BF16)
              && static_cast<int>(Kind::I64) == static_cast<int>(graph::DType::I64)
              && static_cast<int>(Kind::Bool) == static_cast<int>(graph::DType::Bool));

inline bool areLastChannels(const device::Argument &argument) { return argument.layout == graph::Layout::Blocked; }

/// The same element type, in and out; what moves bytes needs nothing else.
inline bool sameType(const Request &request)
{
    return request.hasInput(0) && request.inputs[0].type == request.outputs[0].type;
}
inline std::int64_t elementBytes(const device::Argument &argument) { return graph::sizeOf(argument.type); }

Dims rowMajor(const Dims &dims);
/// Strides with which @p dims is read as @p target (0 where it repeats); nullopt: it does not fit.
std::optional<Dims> broadcast(const Dims &dims, const Dims &target);

/// Loops over @p dims, neighbours merged where all strides allow it. At most kMostLoops dims.
template <int K>
Loops<K> loopsOver(const Dims &dims, const std::array<Dims, K> &strides)
{
    Loops<K> loops;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] == 1)
            continue;
        bool merges = loops.depth > 0;
        for (std::size_t k = 0; k < K && merges; ++k)
            merges = loops.strides[k][loops.depth - 1] == strides[k][d] * dims[d];
        const int at = merges ? loops.depth - 1 : loops.depth++;
        loops.dims[at] = merges ? loops.dims[at] * dims[d] : dims[d];
        for (std::size_t k = 0; k < K; ++k)
            loops.strides[k][at] = strides[k][d];
    }
    return loops;
}

/// How many blocks add up each of @p sums sums of @p each elements, if @p lanes of them are made by a block.
std::int64_t partsOf(const Request &request, std::int64_t sums, std::int64_t each, std::int64_t lanes);
/// Neighbouring sums that a block makes, so that what lies side by side is read side by side.
int lanesOf(const Request &request);

/// The sum of (parts, sums) over the parts.
Reduce joinedParts(const Request &request, std::int64_t sums, std::int64_t parts);

/// Memory of the device that a kernel keeps between its commands.
template <class T>
Result<std::shared_ptr<device::Memory>> scratchOf(const Request &request, std::int64_t count)
{
    auto memory = request.device.allocate(device::Space::Device, count * static_cast<std::int64_t>(sizeof(T)));
    if (!memory)
        return memory.error();
    return std::make_shared<device::Memory>(std::move(*memory));
}
template <class T>
T *at(const std::shared_ptr<device::Memory> &memory)
{
    return reinterpret_cast<T *>(memory->data());
}

/// Whether all are multiples of 16, which nullptr, one that is left out, is.
inline bool areAligned(std::initializer_list<const void *> addresses)
{
    return std::all_of(addresses.begin(), addresses.end(), isAligned);
}
/// Whether rows of @p size elements are whole pieces of 16 bytes, if the first is aligned.
inline bool isWhole(Kind kind, std::int64_t size)
{
    return (kind == Kind::F32 && size % Pack<float>::kCount == 0)
        || (kind == Kind::BF16 && size % Pack<std::uint16_t>::kCount == 0);
}

/// Groups of how many threads, as an exponent of 2, keep such rows in registers; 0: none.
inline int groupBitsFor(Kind kind, std::int64_t size)
{
    return isWhole(kind, size)
        ? groupBitsFor(size / (kind == Kind::BF16 ? Pack<std::uint16_t>::kCount : Pack<float>::kCount))
        : 0;
}

/// Threads of a block of groups of 2^bits: few, so that blocks share out rows evenly.
inline unsigned int groupThreads(int bits) { return 1U << std::max(bits, 7); }
/// Gives a kernel whose groups of 2^bits threads have a row each.
template <class K>
void giveGroups(CudaQueue &queue, const K &kernel, std::int64_t rows, int bits)
{
    const std::int64_t groups = groupThreads(bits) >> bits;
    queue.blocks(kernel, (rows + groups - 1) / groups, groupThreads(bits));
}

/// Rows of logits as input @p i has them.
LogitRows logitRows(const Request &request, std::size_t i, std::int64_t rows, std::int64_t classes);
void giveMean(CudaQueue &queue, const CrossEntropyMean &mean);

/// Gives @p sums, 16 bytes at a time where that fits.
void giveColumnSums(CudaQueue &queue, ColumnSums sums);
/// Of @p sums sums each of whose @p count parts lie behind those of the part before.
ColumnSums sumOfParts(const float *parts, std::int64_t count, std::int64_t sums);

/// The sums over the middle of (outer, rows, columns), in parts of the rows that other sums join, where there are many
/// rows.
class RowSums {
public:
    static Result<RowSums> make(const Request &request, Kind kind, std::int64_t outer, std::int64_t rows,
                                std::int64_t columns);
    void give(CudaQueue &queue, const From &x, const To &y, float divisor = 1) const;

private:
    ColumnSums m_sums;
    std::shared_ptr<device::Memory> m_parts; ///< nullptr: one part
};

/// An element, for kernels that repeat it: Device memory, or nullptr for types that have no number here.
Result<std::shared_ptr<device::Memory>> constantOf(const Request &request, graph::DType type, double value);

/// Device memory with a copy of @p data. Waits until it is there.
Result<std::shared_ptr<device::Memory>> uploaded(CudaDevice &device, const void *data, std::int64_t bytes);

/// A kernel that is a function: f(queue, adds, inputs, outputs).
template <class F>
class FunctionKernel final : public CudaKernel {
public:
    FunctionKernel(std::uint32_t capabilities, F f) : CudaKernel(capabilities), m_function(std::move(f)) {}
    void run(CudaQueue &queue, device::Mode mode, Inputs inputs, Outputs outputs) override
    {
        m_function(queue, mode == device::Mode::Add, inputs, outputs);
    }

private:
    F m_function;
};

template <class F>
Made makeFunction(F f, std::uint32_t capabilities = 0)
{
    return Made(std::unique_ptr<device::DeviceKernel>(std::make_unique<FunctionKernel<F>>(capabilities, std::move(f))));
}

/// Argument i of a run; nullptr where it is left out.
inline const void *given(Inputs inputs, std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; }
inline void *given(Outputs outputs, std::size_t i) { return i < outputs.size() ? outputs[i] : nullptr; }

/// Argument i of a request as kernels see it, without an address.
inline From from(const Request &request, std::size_t i)
{
    return {nullptr, request.hasInput(i) ? kindOf(request.inputs[i]) : Kind::F32};
}
inline To to(const Request &request, std::size_t i)
{
    return {nullptr, request.hasOutput(i) ? kindOf(request.outputs[i]) : Kind::F32, false};
}

} // namespace planloom::cuda
