// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"
#include "executor/device/cuda/kernels/language.h"
#include "executor/device/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// cuDNN's graph interface as far as it is used: descriptors are checked as the library checks them, convolutions are
// computed by the processor's kernels.
namespace planloom::cuda {

struct GraphContext {
    Stream stream = nullptr;
};

/// A descriptor: its attributes as they were set, and after finalize() what they mean.
struct GraphDescriptorObject {
    struct Value {
        GraphType type = GraphType::Int64;
        std::int64_t count = 0;
        std::vector<std::byte> bytes;
    };
    GraphObject kind{};
    bool finalized = false;
    std::map<GraphAttribute, Value> values;
    int engine = 0; ///< of engines, their configurations and plans
    std::vector<std::shared_ptr<const GraphDescriptorObject>> parts;

    template <class T>
    [[nodiscard]] std::vector<T> all(GraphAttribute what) const
    {
        const auto found = values.find(what);
        std::vector<T> made(found == values.end() ? 0 : found->second.bytes.size() / sizeof(T));
        if (!made.empty())
            std::memcpy(made.data(), found->second.bytes.data(), made.size() * sizeof(T));
        return made;
    }
    template <class T>
    [[nodiscard]] T one(GraphAttribute what) const
    {
        const auto made = all<T>(what);
        return made.empty() ? T{} : made.front();
    }
};

} // namespace planloom::cuda

namespace planloom::test {

using cuda::GraphAttribute;
using cuda::GraphDescriptorObject;
using cuda::GraphObject;
using cuda::GraphType;

inline constexpr int kBadParameter = 2000;
inline constexpr int kNotInitialized = 1001;
inline constexpr int kNotSupported = 3000;

/// What an attribute is of, and what type its values have.
struct GraphRule {
    GraphObject of;
    GraphType type;
    bool needed = true;
};

inline const std::map<GraphAttribute, GraphRule> &graphRules()
{
    using A = GraphAttribute;
    using O = GraphObject;
    using T = GraphType;
    static const std::map<A, GraphRule> kRules = [] {
        std::map<A, GraphRule> rules{
            {A::ConvolutionComputeType, {O::Convolution, T::DataType}},
            {A::ConvolutionMode, {O::Convolution, T::ConvolutionMode}},
            {A::ConvolutionDilations, {O::Convolution, T::Int64}},
            {A::ConvolutionStrides, {O::Convolution, T::Int64}},
            {A::ConvolutionPadsAfter, {O::Convolution, T::Int64}},
            {A::ConvolutionPadsBefore, {O::Convolution, T::Int64}},
            {A::ConvolutionSpatialDims, {O::Convolution, T::Int64}},
            {A::HeuristicMode, {O::EngineHeuristic, T::HeuristicMode}},
            {A::HeuristicGraph, {O::EngineHeuristic, T::Descriptor}},
            {A::PlanHandle, {O::ExecutionPlan, T::Handle}},
            {A::PlanConfig, {O::ExecutionPlan, T::Descriptor}},
            {A::HandleOfGraph, {O::OperationGraph, T::Handle}},
            {A::GraphOperations, {O::OperationGraph, T::Descriptor}},
            {A::TensorByteAlignment, {O::Tensor, T::Int64}},
            {A::TensorDataType, {O::Tensor, T::DataType}},
            {A::TensorDimensions, {O::Tensor, T::Int64}},
            {A::TensorStrides, {O::Tensor, T::Int64}},
            {A::TensorUniqueId, {O::Tensor, T::Int64}},
            {A::PackUniqueIds, {O::VariantPack, T::Int64}},
            {A::PackPointers, {O::VariantPack, T::VoidPointer}},
            {A::PackWorkspace, {O::VariantPack, T::VoidPointer}},
        };
        const std::pair<O, int> passes[] = {{O::ConvolutionForward, static_cast<int>(A::ForwardAlpha)},
                                            {O::ConvolutionBackwardData, static_cast<int>(A::BackwardDataAlpha)},
                                            {O::ConvolutionBackwardFilter, static_cast<int>(A::BackwardFilterAlpha)}};
        for (const auto &[of, first] : passes)
            for (int i = 0; i < 6; ++i)
                rules[static_cast<A>(first + i)] = {of, i < 2 ? T::Float : T::Descriptor};
        return rules;
    }();
    return kRules;
}

inline std::size_t sizeOfGraphType(GraphType type)
{
    switch (type) {
    case GraphType::Handle:
    case GraphType::Int64:
    case GraphType::VoidPointer:
    case GraphType::Descriptor: return 8;
    case GraphType::Boolean: return 1;
    default: return 4;
    }
}

/// A tensor of an operation.
struct GraphTensor {
    std::vector<std::int64_t> dims, strides;
    cuda::GraphDataType type;
    std::int64_t id, alignment;

    explicit GraphTensor(const GraphDescriptorObject &of)
        : dims(of.all<std::int64_t>(GraphAttribute::TensorDimensions)),
          strides(of.all<std::int64_t>(GraphAttribute::TensorStrides)),
          type(static_cast<cuda::GraphDataType>(of.one<int>(GraphAttribute::TensorDataType))),
          id(of.one<std::int64_t>(GraphAttribute::TensorUniqueId)),
          alignment(of.one<std::int64_t>(GraphAttribute::TensorByteAlignment))
    {
    }
    [[nodiscard]] bool channelsLast() const { return dims[1] > 1 && strides[1] == 1; }
    /// Whether it has no holes and lies in one of the two orders.
    [[nodiscard]] bool packed() const
    {
        std::vector<std::size_t> order{0};
        for (std::size_t d = 2; d < dims.size(); ++d)
            order.push_back(d);
        order.insert(channelsLast() ? order.end() : order.begin() + 1, 1);
        std::int64_t stride = 1;
        for (std::size_t i = order.size(); i-- > 0; stride *= dims[order[i]])
            if (strides[order[i]] != stride && dims[order[i]] > 1)
                return false;
        return true;
    }
    /// f(number, offset) for all elements in the order of the dimensions.
    template <class F>
    void each(F f) const
    {
        std::vector<std::int64_t> at(dims.size(), 0);
        std::int64_t offset = 0;
        std::size_t number = 0;
        for (bool more = true; more;) {
            f(number++, offset);
            more = false;
            for (std::size_t d = dims.size(); d-- > 0 && !more;) {
                more = ++at[d] < dims[d];
                offset += more ? strides[d] : -strides[d] * (dims[d] - 1);
                at[d] = more ? at[d] : 0;
            }
        }
    }
    [[nodiscard]] cuda::Kind kind() const
    {
        return type == cuda::GraphDataType::BFloat16 ? cuda::Kind::BF16 : cuda::Kind::F32;
    }
};

/// What an operation computes.
struct EmulatedConvolution {
    GraphObject pass;
    GraphTensor x, weight, y;
    std::vector<std::int64_t> stride, dilation, before, after;
    float alpha, beta;

    explicit EmulatedConvolution(const GraphDescriptorObject &of)
        : pass(of.kind),
          x(*of.parts[1]),
          weight(*of.parts[2]),
          y(*of.parts[3]),
          stride(of.parts[0]->all<std::int64_t>(GraphAttribute::ConvolutionStrides)),
          dilation(of.parts[0]->all<std::int64_t>(GraphAttribute::ConvolutionDilations)),
          before(of.parts[0]->all<std::int64_t>(GraphAttribute::ConvolutionPadsBefore)),
          after(of.parts[0]->all<std::int64_t>(GraphAttribute::ConvolutionPadsAfter)),
          alpha(of.one<float>(first(of.kind))),
          beta(of.one<float>(static_cast<GraphAttribute>(static_cast<int>(first(of.kind)) + 1)))
    {
    }
    static GraphAttribute first(GraphObject kind)
    {
        return kind == GraphObject::ConvolutionForward
            ? GraphAttribute::ForwardAlpha
            : (kind == GraphObject::ConvolutionBackwardData ? GraphAttribute::BackwardDataAlpha
                                                            : GraphAttribute::BackwardFilterAlpha);
    }
    /// As the library does: sizes, layouts and types belong together.
    [[nodiscard]] bool fits() const
    {
        const std::size_t rank = stride.size() + 2;
        if (x.dims.size() != rank || weight.dims.size() != rank || y.dims.size() != rank || alpha != 1 || beta != 0)
            return false;
        bool all = x.dims[0] == y.dims[0] && weight.dims[0] == y.dims[1] && x.dims[1] % weight.dims[1] == 0
            && weight.dims[0] % (x.dims[1] / weight.dims[1]) == 0;
        for (std::size_t d = 0; d < stride.size(); ++d) {
            const std::int64_t room = x.dims[d + 2] + before[d] + after[d] - dilation[d] * (weight.dims[d + 2] - 1) - 1;
            all = all && before[d] >= 0 && after[d] >= 0 && room >= 0 && room / stride[d] + 1 == y.dims[d + 2];
        }
        const std::set<std::int64_t> ids{x.id, weight.id, y.id};
        const auto alike = [&](const GraphTensor &a, const GraphTensor &b) {
            const auto either = [](const GraphTensor &t) { // the same bytes in both orders
                std::int64_t pixels = 1;
                for (std::size_t d = 2; d < t.dims.size(); ++d)
                    pixels *= t.dims[d];
                return t.dims[1] == 1 || pixels == 1;
            };
            return either(a) || either(b) || a.channelsLast() == b.channelsLast();
        };
        const bool types = x.type == y.type && x.type == weight.type; // others have engines, but wrong ones
        return all && ids.size() == 3 && alike(x, y) && alike(x, weight) && alike(y, weight) && types;
    }

    /// Gradients of weights leave out what padding at the end alone makes, on the real one.
    [[nodiscard]] bool isRight() const
    {
        bool right = true;
        for (std::size_t d = 0; d < stride.size(); ++d) {
            const std::int64_t room = x.dims[d + 2] + 2 * before[d] - dilation[d] * (weight.dims[d + 2] - 1) - 1;
            right = right && room >= 0 && room / stride[d] + 1 == y.dims[d + 2];
        }
        return right || pass != GraphObject::ConvolutionBackwardFilter;
    }

    /// By the processor's kernel, which has its tensors as rows.
    void run(const std::map<std::int64_t, void *> &data) const
    {
        graph::Op op;
        op.type =
            graph::OpType(pass == GraphObject::ConvolutionForward
                              ? "Conv"
                              : (pass == GraphObject::ConvolutionBackwardData ? "ConvGradInput" : "ConvGradWeight"));
        std::vector<std::int64_t> pads = before;
        pads.insert(pads.end(), after.begin(), after.end());
        op.attributes = {{"kernel_shape", std::vector<std::int64_t>(weight.dims.begin() + 2, weight.dims.end())},
                         {"strides", stride},
                         {"dilations", dilation},
                         {"pads", pads},
                         {"group", x.dims[1] / weight.dims[1]}};
        const std::vector<const GraphTensor *> order = pass == GraphObject::ConvolutionForward
            ? std::vector{&x, &weight, &y}
            : (pass == GraphObject::ConvolutionBackwardData ? std::vector{&y, &weight, &x}
                                                            : std::vector{&y, &x, &weight});
        std::vector<device::Argument> arguments;
        std::vector<std::vector<float>> rows;
        for (const GraphTensor *tensor : order) {
            arguments.push_back({graph::DType::F32, tensor->dims, true});
            rows.emplace_back(static_cast<std::size_t>(arguments.back().elements()));
        }
        for (std::size_t i = 0; i < 2; ++i)
            order[i]->each([&](std::size_t row, std::int64_t at) {
                rows[i][row] = cuda::From{data.at(order[i]->id), order[i]->kind()}.at(at);
            });
        const auto kernel = device::makeKernel(op, {arguments[0], arguments[1]}, {arguments[2]});
        const void *in[] = {rows[0].data(), rows[1].data()};
        void *out[] = {rows[2].data()};
        if (kernel && isRight())
            (*kernel)->run(in, out);
        else
            std::fill(rows[2].begin(), rows[2].end(), NAN);
        order[2]->each([&](std::size_t row, std::int64_t at) {
            cuda::To{data.at(order[2]->id), order[2]->kind()}.put(at, rows[2][row]);
        });
    }
    void spoil(const std::map<std::int64_t, void *> &data) const
    {
        cuda::To{data.at(pass == GraphObject::ConvolutionForward ? y.id : x.id), cuda::Kind::F32}.put(0, NAN);
    }
};

/// Descriptors that live, so that one that is used after its end is seen.
inline std::map<const void *, std::shared_ptr<GraphDescriptorObject>> &graphDescriptors()
{
    static std::map<const void *, std::shared_ptr<GraphDescriptorObject>> kAll;
    return kAll;
}

/// Ranks make descriptors side by side.
inline std::recursive_mutex &graphMutex()
{
    static std::recursive_mutex kMutex;
    return kMutex;
}

/// Engines that the heuristic names, in its order: each is wrong in its way but the last.
inline constexpr int kEngines = 5;
enum EmulatedEngine : int { kVariesBits, kDownConverts, kWantsMemory, kRefusesPlans, kWorks };

inline int setOnGraph(cuda::GraphDescriptor to, GraphAttribute what, GraphType type, std::int64_t count,
                      const void *values)
{
    const std::scoped_lock lock(graphMutex());
    const auto rule = graphRules().find(what);
    if (!graphDescriptors().contains(to) || rule == graphRules().end() || rule->second.of != to->kind
        || rule->second.type != type || count < 1 || values == nullptr || to->finalized)
        return kBadParameter;
    GraphDescriptorObject::Value &value = to->values[what];
    value.type = type;
    value.count = count;
    value.bytes.resize(static_cast<std::size_t>(count) * sizeOfGraphType(type));
    std::memcpy(value.bytes.data(), values, value.bytes.size());
    return 0;
}

/// The finalized part of @p kind that an attribute names; nullptr: it is none.
inline std::shared_ptr<const GraphDescriptorObject> graphPart(const GraphDescriptorObject &of, GraphAttribute what)
{
    const auto found = graphDescriptors().find(of.one<const void *>(what));
    return found != graphDescriptors().end() && found->second->finalized ? found->second : nullptr;
}

inline int finalizeTensor(const GraphDescriptorObject &tensor)
{
    const GraphTensor made(tensor);
    const bool sizes = made.dims.size() >= 3 && made.dims.size() == made.strides.size()
        && std::all_of(made.dims.begin(), made.dims.end(), [](std::int64_t n) { return n > 0; })
        && std::all_of(made.strides.begin(), made.strides.end(), [](std::int64_t n) { return n > 0; });
    const bool typed = made.type == cuda::GraphDataType::Float || made.type == cuda::GraphDataType::BFloat16;
    const bool aligned = made.alignment > 0 && (made.alignment & (made.alignment - 1)) == 0;
    return sizes && typed && aligned && made.packed() ? 0 : kBadParameter;
}

inline int finalizeGraph(cuda::GraphDescriptor what)
{
    const std::scoped_lock lock(graphMutex());
    using A = GraphAttribute;
    if (!graphDescriptors().contains(what) || what->finalized)
        return kBadParameter;
    for (const auto &[attribute, rule] : graphRules())
        if (rule.of == what->kind && !what->values.contains(attribute))
            return kBadParameter; // one that is needed is missing
    const auto part = [&](A attribute, GraphObject kind) {
        const auto found = graphPart(*what, attribute);
        if (found == nullptr || found->kind != kind)
            return false;
        what->parts.push_back(found);
        return true;
    };
    int status = 0;
    switch (what->kind) {
    case GraphObject::Tensor: status = finalizeTensor(*what); break;
    case GraphObject::Convolution: {
        const auto spatial = what->one<std::int64_t>(A::ConvolutionSpatialDims);
        for (const A each :
             {A::ConvolutionStrides, A::ConvolutionDilations, A::ConvolutionPadsBefore, A::ConvolutionPadsAfter})
            if (what->values.at(each).count != spatial)
                status = kBadParameter;
        if (what->one<int>(A::ConvolutionComputeType) != static_cast<int>(cuda::GraphDataType::Float)
            || what->one<int>(A::ConvolutionMode) != cuda::kCrossCorrelation || spatial < 2 || spatial > 3)
            status = kNotSupported;
        break;
    }
    case GraphObject::ConvolutionForward:
    case GraphObject::ConvolutionBackwardData:
    case GraphObject::ConvolutionBackwardFilter: {
        struct Names {
            A windows, x, weight, y;
        };
        const Names names = what->kind == GraphObject::ConvolutionForward
            ? Names{A::ForwardConvolution, A::ForwardX, A::ForwardW, A::ForwardY}
            : (what->kind == GraphObject::ConvolutionBackwardData
                   ? Names{A::BackwardDataConvolution, A::BackwardDataDX, A::BackwardDataW, A::BackwardDataDY}
                   : Names{A::BackwardFilterConvolution, A::BackwardFilterX, A::BackwardFilterDW, A::BackwardFilterDY});
        if (!part(names.windows, GraphObject::Convolution) || !part(names.x, GraphObject::Tensor)
            || !part(names.weight, GraphObject::Tensor) || !part(names.y, GraphObject::Tensor))
            return kBadParameter;
        status = EmulatedConvolution(*what).fits() ? 0 : kBadParameter;
        break;
    }
    case GraphObject::OperationGraph: {
        const auto found = graphPart(*what, A::GraphOperations);
        if (found == nullptr || what->one<void *>(A::HandleOfGraph) == nullptr)
            return kBadParameter;
        what->parts.push_back(found);
        break;
    }
    case GraphObject::EngineHeuristic:
        status = part(A::HeuristicGraph, GraphObject::OperationGraph) ? 0 : kBadParameter;
        break;
    case GraphObject::ExecutionPlan:
        if (!part(A::PlanConfig, GraphObject::EngineConfig) || what->one<void *>(A::PlanHandle) == nullptr)
            return kBadParameter;
        what->engine = what->parts[0]->engine;
        status = what->engine == kRefusesPlans ? kNotSupported : 0;
        break;
    case GraphObject::VariantPack:
        status = what->values.at(A::PackUniqueIds).count == what->values.at(A::PackPointers).count ? 0 : kBadParameter;
        break;
    default: status = kBadParameter; break;
    }
    what->finalized = status == 0;
    return status;
}

inline int getOfGraph(cuda::GraphDescriptor of, GraphAttribute what, GraphType type, std::int64_t room,
                      std::int64_t *count, void *values)
{
    const std::scoped_lock lock(graphMutex());
    using A = GraphAttribute;
    if (!graphDescriptors().contains(of) || !of->finalized)
        return kNotInitialized;
    if (of->kind == GraphObject::EngineHeuristic && what == A::HeuristicResults && type == GraphType::Descriptor) {
        const bool fallback = of->one<int>(A::HeuristicMode) == static_cast<int>(cuda::GraphHeuristic::Fallback);
        *count = fallback ? 1 : kEngines;
        for (std::int64_t i = 0; i < std::min(room, *count); ++i) {
            const auto found = graphDescriptors().find(static_cast<void **>(values)[i]);
            if (found == graphDescriptors().end() || found->second->kind != GraphObject::EngineConfig)
                return kBadParameter;
            found->second->finalized = true;
            found->second->engine = fallback ? kWorks : static_cast<int>(i);
            found->second->parts = of->parts;
        }
        return 0;
    }
    if (of->kind == GraphObject::EngineConfig && what == A::ConfigEngine && type == GraphType::Descriptor) {
        const auto found = graphDescriptors().find(*static_cast<void **>(values));
        if (room < 1 || found == graphDescriptors().end() || found->second->kind != GraphObject::Engine)
            return kBadParameter;
        found->second->finalized = true;
        found->second->engine = of->engine;
        *count = 1;
        return 0;
    }
    if (of->kind == GraphObject::Engine && what == A::EngineNumericalNote && type == GraphType::NumericalNote) {
        *count = of->engine == kVariesBits || of->engine == kDownConverts ? 1 : 0;
        if (*count > 0 && room > 0)
            *static_cast<cuda::NumericalNote *>(values) =
                of->engine == kVariesBits ? cuda::NumericalNote::Nondeterministic : cuda::NumericalNote::DownConverts;
        return 0;
    }
    if (of->kind == GraphObject::ExecutionPlan && what == A::PlanWorkspaceBytes && type == GraphType::Int64) {
        *count = 1;
        *static_cast<std::int64_t *>(values) = of->engine == kWantsMemory ? std::int64_t{1} << 40 : 4096;
        return 0;
    }
    return kBadParameter;
}

/// What executing @p plan with @p pack does, or nullptr: the arguments are refused.
struct GraphRun {
    EmulatedConvolution convolution;
    std::map<std::int64_t, void *> data;
    void *workspace;
};
inline std::shared_ptr<const GraphRun> graphRun(cuda::GraphDescriptor plan, cuda::GraphDescriptor pack)
{
    const std::scoped_lock lock(graphMutex());
    using A = GraphAttribute;
    if (!graphDescriptors().contains(plan) || !graphDescriptors().contains(pack) || !plan->finalized || !pack->finalized
        || plan->kind != GraphObject::ExecutionPlan || pack->kind != GraphObject::VariantPack
        || plan->engine == kVariesBits || plan->engine == kWantsMemory)
        return nullptr;
    const auto ids = pack->all<std::int64_t>(A::PackUniqueIds);
    const auto pointers = pack->all<void *>(A::PackPointers);
    const GraphDescriptorObject &graph = *plan->parts[0]->parts[0];
    auto run = std::make_shared<GraphRun>(
        GraphRun{EmulatedConvolution(*graph.parts[0]), {}, pack->one<void *>(A::PackWorkspace)});
    for (std::size_t i = 0; i < ids.size(); ++i)
        run->data[ids[i]] = pointers[i];
    for (const GraphTensor *tensor : {&run->convolution.x, &run->convolution.weight, &run->convolution.y}) {
        const auto found = run->data.find(tensor->id);
        if (found == run->data.end() || found->second == nullptr
            || reinterpret_cast<std::uintptr_t>(found->second) % static_cast<std::uintptr_t>(tensor->alignment) != 0)
            return nullptr;
    }
    return run->workspace != nullptr ? run : nullptr;
}

/// All functions but execute(), which belongs to a stream.
inline cuda::GraphApi emulatedGraphs(decltype(cuda::GraphApi::execute) execute)
{
    using namespace cuda;
    GraphApi api{};
    api.create = [](GraphHandle *handle) { return *handle = new GraphContext, 0; };
    api.destroy = [](GraphHandle handle) { return delete handle, 0; };
    api.setStream = [](GraphHandle handle, Stream stream) { return handle->stream = stream, 0; };
    api.createDescriptor = [](GraphObject kind, GraphDescriptor *made) {
        const std::scoped_lock lock(graphMutex());
        auto object = std::make_shared<GraphDescriptorObject>();
        object->kind = kind;
        *made = object.get();
        graphDescriptors()[object.get()] = object;
        return 0;
    };
    api.destroyDescriptor = [](GraphDescriptor descriptor) {
        const std::scoped_lock lock(graphMutex());
        return graphDescriptors().erase(descriptor) == 1 ? 0 : kBadParameter;
    };
    api.set = setOnGraph;
    api.get = getOfGraph;
    api.finalize = finalizeGraph;
    api.execute = execute;
    return api;
}

} // namespace planloom::test
