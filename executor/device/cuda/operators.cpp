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

namespace {

constexpr int kMostDepth = 5; ///< as an exponent of 2: rows that the threads of a block add up side by side

/// How many rows of (outer, rows, columns) a block adds up side by side, as an exponent of 2.
int depthOf(const ColumnSums &sums)
{
    constexpr std::int64_t kEnough = 1 << 16; // threads that load at the rate of memory
    constexpr std::int64_t kFew = 32;         // rows that a thread loads in a few turns
    constexpr std::int64_t kAcross = 32;      // threads to a row, of those that read it in long pieces
    const std::int64_t threads = sums.columns / sums.columnsAtOnce();
    if (sums.outer * threads >= kEnough || sums.rows < kFew)
        return 0;
    return threads >= kAcross ? 3 : kMostDepth;
}

} // namespace

LogitRows logitRows(const Request &request, std::size_t i, std::int64_t rows, std::int64_t classes)
{
    constexpr std::int64_t kOfWarp = 2048; // longer rows take a block
    LogitRows made;
    made.logits = from(request, i);
    made.rows = rows;
    made.classes = classes;
    made.bits = classes <= kOfWarp ? kWarpBits : 8;
    return made;
}

void giveMean(CudaQueue &queue, const CrossEntropyMean &mean)
{
    constexpr unsigned int kMostThreads = 1024; // one block reads all
    constexpr std::int64_t kEach = sizeof(Two<double>) / sizeof(float);
    const unsigned int threads = mean.rows < kMostThreads ? queue.device().provider().rowThreads : kMostThreads;
    queue.blocks(mean, 1, threads, threads * kEach);
}

void giveColumnSums(CudaQueue &queue, ColumnSums sums)
{
    sums.wide = isWhole(sums.x.kind, sums.columns) && isWhole(sums.x.kind, sums.split)
            && areAligned({sums.x.data, sums.y.data, sums.second.data})
        ? 1
        : 0;
    sums.pairs = sums.x.kind == Kind::BF16 && sums.columns % 2 == 0 && sums.split % 2 == 0
            && reinterpret_cast<std::uintptr_t>(sums.x.data) % sizeof(std::uint32_t) == 0
        ? 1
        : 0;
    queue.blocks(sums, sums.blocks(), ColumnSums::kThreads, ColumnSums::kExtra);
}

ColumnSums sumOfParts(const float *parts, std::int64_t count, std::int64_t sums)
{
    ColumnSums join;
    join.x = {parts, Kind::F32};
    join.rows = count;
    join.columns = sums;
    join.bits = count >= std::int64_t{1} << kMostDepth ? kMostDepth : 0;
    return join;
}

Result<RowSums> RowSums::make(const Request &request, Kind kind, std::int64_t outer, std::int64_t rows,
                              std::int64_t columns)
{
    constexpr std::int64_t kBlocks = 264; // two on each processor of an H100, as many as it runs at a time
    constexpr std::int64_t kLeast = 8;    // rows of a thread
    RowSums made;
    ColumnSums &sums = made.m_sums;
    sums.x.kind = kind;
    sums.outer = outer;
    sums.rows = rows;
    sums.columns = columns;
    sums.wide = isWhole(kind, columns) ? 1 : 0;
    sums.bits = depthOf(sums);
    const std::int64_t least = std::min(kLeast, request.device.provider().leastPart) << sums.bits;
    sums.parts = sums.bits == 0
        ? 1
        : std::clamp<std::int64_t>(kBlocks / sums.blocks(), 1, std::max<std::int64_t>(1, rows / least));
    if (sums.parts == 1)
        return made;
    auto parts = scratchOf<float>(request, sums.parts * outer * columns);
    if (!parts)
        return parts.error();
    made.m_parts = std::move(*parts);
    return made;
}

void RowSums::give(CudaQueue &queue, const From &x, const To &y, float divisor) const
{
    ColumnSums sums = m_sums;
    sums.x = x;
    if (!m_parts) {
        sums.y = y;
        sums.divisor = divisor;
        giveColumnSums(queue, sums);
        return;
    }
    sums.y = {m_parts->data(), Kind::F32, false};
    giveColumnSums(queue, sums);
    ColumnSums join = sumOfParts(at<float>(m_parts), sums.parts, sums.outer * sums.columns);
    join.y = y;
    join.divisor = divisor;
    giveColumnSums(queue, join);
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
