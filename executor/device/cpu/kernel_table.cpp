// SPDX-License-Identifier: Apache-2.0
// Which kernel of the processor an operator gets.
#include "executor/device/kernel.h"

#include "engine/graph/operators/operators.h"
#include "executor/device/cpu/bfloat16.h"
#include "executor/device/kernel_support.h"

#include <algorithm>

namespace planloom::device {

namespace {

using Table = graph::OperatorTable<KernelEntry>;

/// Kernels in float32 and int64.
const Table &table()
{
    static const Table kTable = [] {
        Table made;
        for (const auto family :
             {unaryKernels,     unaryGradientKernels, binaryKernels, matmulKernels,    matmulGeluKernels,
              attentionKernels, rotaryKernels,        normKernels,   batchNormKernels, convolutionKernels,
              poolingKernels,   shapeKernels,         indexKernels,  gatherKernels,    softmaxKernels,
              lossKernels,      elementLossKernels,   boxingKernels, flatKernels,      layoutKernels,
              reduceKernels,    lstmKernels,          gruKernels,    scatterKernels,   proximalKernels,
              sparseKernels})
            for (const KernelEntry &entry : family())
                made.add(entry);
        return made;
    }();
    return kTable;
}

const Table &typedTable()
{
    static const Table kTable = [] {
        Table made;
        for (const KernelEntry &entry : typedKernels())
            made.add(entry);
        return made;
    }();
    return kTable;
}

bool fits(char letter, graph::DType type)
{
    switch (letter) {
    case 'f': return type == graph::DType::F32;
    case 'h': return type == graph::DType::F32 || type == graph::DType::BF16;
    case 'i': return type == graph::DType::I64;
    case 'b': return type == graph::DType::Bool;
    default: return true;
    }
}

Status checkArguments(const Request &request, std::string_view signature, const std::vector<Argument> &arguments,
                      const char *side)
{
    std::size_t next = 0;
    for (std::size_t at = 0; at < signature.size();) {
        const char letter = signature[at++];
        bool optional = false;
        bool repeats = false;
        for (; at < signature.size() && (signature[at] == '?' || signature[at] == '+'); ++at)
            (signature[at] == '?' ? optional : repeats) = true;
        const std::size_t last = repeats ? std::max(arguments.size(), next + 1) : next + 1;
        for (; next < last; ++next) {
            const bool given = next < arguments.size() && arguments[next].present;
            if (!given && !optional)
                return wrong(request, std::string(side) + " " + std::to_string(next) + " is missing");
            if (given && arguments[next].dims.size() > kMaxRank)
                return cannot(request,
                              std::string(side) + " " + std::to_string(next) + " has more than "
                                  + std::to_string(kMaxRank) + " dimensions");
            if (given && !fits(letter, arguments[next].type))
                return cannot(request,
                              std::string(side) + " " + std::to_string(next) + " has type "
                                  + graph::name(arguments[next].type)
                                  + ", which the kernel does not compute in; convert it with Cast");
            if (given && arguments[next].layout == graph::Layout::Blocked
                && request.op.traits().blocked == graph::Blocked::No)
                return cannot(request,
                              std::string(side) + " " + std::to_string(next)
                                  + " is blocked, which the kernel does not compute in; put a Reorder before it");
        }
    }
    if (arguments.size() > next)
        return wrong(request,
                     "takes " + std::to_string(next) + " " + side + "s, got " + std::to_string(arguments.size()));
    return {};
}

char letterAt(std::string_view signature, std::size_t index)
{
    char letter = '*';
    std::size_t at = 0;
    for (const char c : signature) {
        if (c == '?' || c == '+')
            continue;
        letter = c;
        if (at++ == index)
            break;
    }
    return letter;
}

/// True if a bfloat16 argument meets a kernel that computes in float32 only.
bool needsConversion(const Request &request, const KernelEntry &entry, bool elementwise)
{
    const auto meets = [&](std::string_view signature, const std::vector<Argument> &arguments) {
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const char letter = letterAt(signature, i);
            if (arguments[i].present && arguments[i].type == graph::DType::BF16
                && (letter == 'f' || (letter == '*' && elementwise)))
                return true;
        }
        return false;
    };
    return meets(entry.inputs, request.inputs) || meets(entry.outputs, request.outputs);
}

bool isHalfCast(const Request &request)
{
    if (request.op.type != "Cast" || request.inputs.size() != 1 || request.outputs.size() != 1)
        return false;
    const auto pair = std::minmax(request.inputs[0].type, request.outputs[0].type);
    return pair.first == graph::DType::F32 && pair.second == graph::DType::BF16;
}

Made makeFrom(const KernelEntry &entry, const Request &request)
{
    if (auto status = checkArguments(request, entry.inputs, request.inputs, "input"); !status)
        return status.error();
    if (auto status = checkArguments(request, entry.outputs, request.outputs, "output"); !status)
        return status.error();
    return entry.make(request);
}

} // namespace

Made makeKernel(const graph::Op &op, const std::vector<Argument> &inputs, const std::vector<Argument> &outputs)
{
    const Request request{op, inputs, outputs};
    const KernelEntry *entry = table().find(op.type);
    const KernelEntry *typed = typedTable().find(op.type);
    if (entry == nullptr && typed == nullptr)
        return cannot(request, "there is no CPU kernel for this operator type; replace it or simulate the plan only");
    if (entry == nullptr)
        return makeFrom(*typed, request);
    if (isHalfCast(request))
        return makeHalfCast(request);
    const bool elementwise = op.traits().elementWise == graph::ElementWise::Computes;
    if (needsConversion(request, *entry, elementwise)) {
        auto half = makeHalfProduct(request);
        if (half || half.error().code != ErrorCode::Unsupported)
            return half;
        return makeConverting(request, elementwise,
                              [&](const Request &asFloats) { return makeFrom(*entry, asFloats); });
    }
    auto made = makeFrom(*entry, request);
    if (made || made.error().code != ErrorCode::Unsupported || typed == nullptr)
        return made;
    auto other = makeFrom(*typed, request);
    return other ? std::move(other) : std::move(made);
}

std::vector<std::string> kernelTypes()
{
    std::vector<std::string> types;
    for (const graph::Operator &row : graph::operators())
        if (table().find(row) != nullptr || typedTable().find(row) != nullptr)
            types.emplace_back(row.type);
    return types;
}

} // namespace planloom::device
