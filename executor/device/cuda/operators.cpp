// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/operators.h"

#include <algorithm>
#include <map>

namespace planloom::cuda {

namespace {

const std::map<std::string_view, OperatorEntry> &operatorTable()
{
    static const std::map<std::string_view, OperatorEntry> kTable = [] {
        std::map<std::string_view, OperatorEntry> made;
        for (const auto &family : {elementwiseOperators(), tensorOperators(), indexOperators(), rowOperators(),
                                   lossOperators(), shardOperators(), imageOperators(), convolutionOperators(),
                                   productOperators(), attentionOperators(), recurrentOperators(), sparseOperators()})
            for (const OperatorEntry &entry : family)
                made.emplace(entry.type, entry);
        return made;
    }();
    return kTable;
}

bool kernelsCanRead(std::span<const device::Argument> arguments)
{
    return std::all_of(arguments.begin(), arguments.end(),
                       [](const device::Argument &argument) { return argument.dims.size() <= kMostLoops; });
}

bool anyLastChannels(std::span<const device::Argument> arguments)
{
    return std::any_of(arguments.begin(), arguments.end(), areLastChannels);
}

/// As rows, if all arguments are like the first output.
std::optional<std::vector<device::Argument>> asRows(std::span<const device::Argument> arguments,
                                                    const device::Argument &like)
{
    std::vector<device::Argument> made(arguments.begin(), arguments.end());
    for (device::Argument &argument : made) {
        if (argument.present && (argument.dims != like.dims || argument.layout != like.layout))
            return std::nullopt;
        argument.layout = graph::Layout::RowMajor;
    }
    return made;
}

Made makeAlike(const OperatorEntry &entry, const Request &request)
{
    const auto inputs = asRows(request.inputs, request.outputs[0]);
    const auto outputs = asRows(request.outputs, request.outputs[0]);
    if (!inputs || !outputs)
        return onlyOnHost(request);
    return entry.make({request.device, request.op, *inputs, *outputs});
}

} // namespace

bool Request::floatInputs(std::size_t n) const
{
    return inputs.size() >= n && std::all_of(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(n), isFloat);
}

bool Request::floatOutputs(std::size_t n) const
{
    return outputs.size() >= n
        && std::all_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(n), isFloat);
}

std::optional<std::size_t> Request::axis(std::size_t i, std::int64_t fallback) const
{
    const auto rank = static_cast<std::int64_t>(in(i).size());
    const std::int64_t asked = op.integer("axis", fallback);
    const std::int64_t resolved = asked < 0 ? asked + rank : asked;
    if (resolved < 0 || resolved >= rank)
        return std::nullopt;
    return static_cast<std::size_t>(resolved);
}

Error onlyOnHost(const Request &request)
{
    return unsupported("there is no GPU kernel for " + request.op.type + " '" + request.op.name + "'");
}

Dims rowMajor(const Dims &dims)
{
    Dims strides(dims.size());
    std::int64_t stride = 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
        strides[d] = stride;
        stride *= dims[d];
    }
    return strides;
}

std::optional<Dims> broadcast(const Dims &dims, const Dims &target)
{
    if (dims.size() > target.size())
        return std::nullopt;
    const Dims own = rowMajor(dims);
    const std::size_t missing = target.size() - dims.size();
    Dims strides(target.size(), 0);
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != 1 && dims[d] != target[missing + d])
            return std::nullopt;
        strides[missing + d] = dims[d] == 1 ? 0 : own[d];
    }
    return strides;
}

int lanesOf(const Request &request)
{
    constexpr unsigned int kMostLanes = 32;
    return static_cast<int>(std::min(kMostLanes, request.device.provider().rowThreads));
}

std::int64_t partsOf(const Request &request, std::int64_t sums, std::int64_t each, std::int64_t lanes)
{
    constexpr std::int64_t kBlocks = 1024; // more than a GPU runs at a time
    const Provider &provider = request.device.provider();
    const std::int64_t groups = std::max<std::int64_t>(1, (sums + lanes - 1) / lanes);
    const std::int64_t share = provider.leastPart * std::int64_t{provider.rowThreads} / lanes;
    return std::clamp<std::int64_t>(each / std::max<std::int64_t>(1, share), 1,
                                    std::max<std::int64_t>(1, kBlocks / groups));
}

Reduce joinedParts(const Request &request, std::int64_t sums, std::int64_t parts)
{
    Reduce join;
    join.outputs = sums;
    join.each = parts;
    join.lanes = lanesOf(request);
    join.outer = loopsOver<1>({sums}, {Dims{1}});
    join.inner = loopsOver<1>({parts}, {Dims{sums}});
    return join;
}

Result<std::shared_ptr<device::Memory>> constantOf(const Request &request, graph::DType type, double value)
{
    const auto upload = [&](auto element) { return uploaded(request.device, &element, sizeof element); };
    switch (type) {
    case graph::DType::F32: return upload(static_cast<float>(value));
    case graph::DType::BF16: return upload(narrow(static_cast<float>(value)));
    case graph::DType::I64: return upload(static_cast<std::int64_t>(value));
    case graph::DType::I32: return upload(static_cast<std::int32_t>(value));
    case graph::DType::U8:
    case graph::DType::Bool: return upload(static_cast<std::uint8_t>(value));
    default: return std::shared_ptr<device::Memory>();
    }
}

Result<std::shared_ptr<device::Memory>> uploaded(CudaDevice &device, const void *data, std::int64_t bytes)
{
    auto onDevice = device.allocate(device::Space::Device, bytes);
    auto onHost = device.allocate(device::Space::Host, bytes);
    auto queue = device.makeQueue();
    if (!onDevice || !onHost)
        return !onDevice ? onDevice.error() : onHost.error();
    if (!queue)
        return queue.error();
    if (bytes > 0)
        std::memcpy(onHost->data(), data, static_cast<std::size_t>(bytes));
    (*queue)->copyToDevice(onDevice->data(), onHost->data(), bytes);
    queue->reset(); // ends what it was given
    return std::make_shared<device::Memory>(std::move(*onDevice));
}

Made makeOperator(const Request &request)
{
    const auto &table = operatorTable();
    const auto found = table.find(request.op.type);
    if (found == table.end() || !kernelsCanRead(request.inputs) || !kernelsCanRead(request.outputs)
        || !request.hasOutput(0))
        return onlyOnHost(request);
    const bool lastChannels = anyLastChannels(request.inputs) || anyLastChannels(request.outputs);
    if (!lastChannels || found->second.lastChannels == LastChannels::Yes)
        return found->second.make(request);
    return found->second.lastChannels == LastChannels::Alike ? makeAlike(found->second, request) : onlyOnHost(request);
}

std::vector<std::string_view> operatorTypes()
{
    std::vector<std::string_view> types;
    for (const auto &[type, entry] : operatorTable())
        types.push_back(type);
    return types;
}

} // namespace planloom::cuda
