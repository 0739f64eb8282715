// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/cuda_device.h"

#include "engine/base/log.h"
#include "engine/base/units.h"
#include "executor/device/cuda/activity.h"
#include "executor/device/cuda/operators.h"
#include "executor/device/cuda/parameter_updates.h"
#include "executor/device/plugin/communication_abi.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace planloom::cuda {

namespace {

class CudaEvent final : public device::Event {
public:
    CudaEvent(CudaDevice &device, EventHandle event) : m_device(device), m_event(event) {}
    ~CudaEvent() override { m_device.api().eventDestroy(m_event); }
    CudaEvent(const CudaEvent &) = delete;
    CudaEvent &operator=(const CudaEvent &) = delete;

    Result<bool> poll() override
    {
        if (!m_device.failure().empty())
            return failed(m_device.failure());
        const int state = m_recorded ? m_device.api().eventQuery(m_event) : kSuccess;
        if (state == kNotReady)
            return false;
        if (!m_device.check(state, "work on the device"))
            return failed(m_device.failure());
        return true;
    }
    void recorded() { m_recorded = true; }
    [[nodiscard]] bool isRecorded() const { return m_recorded; }
    [[nodiscard]] EventHandle handle() const { return m_event; }

private:
    CudaDevice &m_device;
    EventHandle m_event;
    bool m_recorded = false;
};

/// What the calling thread captures.
struct Capturing {
    const CudaDevice *device = nullptr; ///< nullptr: nothing
    int error = 0;
    bool ours = true; ///< the error is of the runtime
    const char *failed = nullptr;
    bool usesWorkspace = false;
};
thread_local Capturing t_capturing;
/// The current device of the calling thread, as far as it is ours.
thread_local std::pair<const Provider *, int> t_current{nullptr, 0};

/// Makes @p handle, which stays nullptr where @p library is not there, or does not start: then @p without, as is
/// logged.
template <class Api, class Handle>
void startLibrary(const Api *library, Handle &handle, const char *name, const char *without)
{
    const int status = library != nullptr ? library->create(&handle) : 0;
    if (status == 0)
        return;
    handle = nullptr;
    log(LogLevel::Warning,
        std::string(name) + " is found and does not start (its status " + std::to_string(status) + "): " + without);
}

/// What to do about an error of the runtime that has ended a device.
const char *remedyOf(int error)
{
    switch (error) {
    case 46:  // devices unavailable
    case 100: // no device
    case 101: // invalid device
    case 214: // memory with errors that cannot be corrected
    case 802: // system not ready
    case 999: // unknown: what calls return once the device has left the bus
        return "the GPU does not answer any more: the kernel's log (dmesg, Xid) says why, nvidia-smi whether it is "
               "back";
    case 700: // illegal address
    case 716: // misaligned address
    case 719: // launch failure
        return "the GPU itself works on: start the run again from its checkpoint, and report the error if it comes "
               "back";
    default: return "end other programs that use the GPU, and look at the machine's log";
    }
}

std::size_t sharedBytesOf(unsigned int threads, std::int64_t extra)
{
    return threads * sizeof(double) + static_cast<std::size_t>(extra) * sizeof(float);
}

class CudaGraph final : public device::CommandGraph {
public:
    CudaGraph(CudaDevice &device, GraphExec exec, bool usesWorkspace)
        : m_device(device),
          m_exec(exec),
          m_usesWorkspace(usesWorkspace)
    {
    }
    ~CudaGraph() override
    {
        m_device.use();
        m_device.api().graphExecDestroy(m_exec);
    }
    CudaGraph(const CudaGraph &) = delete;
    CudaGraph &operator=(const CudaGraph &) = delete;
    [[nodiscard]] GraphExec exec() const { return m_exec; }
    [[nodiscard]] bool usesWorkspace() const { return m_usesWorkspace; }

private:
    CudaDevice &m_device;
    GraphExec m_exec;
    bool m_usesWorkspace;
};

} // namespace

// --- Queues ---------------------------------------------------------------------------------------------------------

CudaQueue::~CudaQueue()
{
    m_device.forget(*this);
    m_device.api().streamSynchronize(m_stream); // what its commands use goes next
    m_device.api().streamDestroy(m_stream);
}

void CudaQueue::begin(device::DeviceKernel &kernel, const device::Draw &draw)
{
    static_cast<CudaKernel &>(kernel).begin(draw);
}

void CudaQueue::run(device::DeviceKernel &kernel, device::Mode mode, std::span<const void *const> inputs,
                    std::span<void *const> outputs)
{
    m_device.use();
    static_cast<CudaKernel &>(kernel).run(*this, mode, inputs, outputs);
}

void CudaQueue::accumulate(const float *x, float *y, std::int64_t count)
{
    m_device.use();
    Sum sum;
    sum.x[0] = {x, Kind::F32};
    sum.count = 1;
    sum.y = {y, Kind::F32, true};
    sum.n = count;
    add(sum);
}

void CudaQueue::add(Sum sum)
{
    bool fits = (sum.y.kind == Kind::F32 || sum.y.kind == Kind::BF16) && isAligned(sum.y.data);
    for (int i = 0; i < sum.count; ++i)
        fits = fits && sum.x[i].kind == sum.y.kind && isAligned(sum.x[i].data);
    sum.wide = fits ? 1 : 0;
    items(sum, fits ? sum.n / (Sum::kInFlight * Pack<float>::kCount) + 1 : sum.n);
}

void CudaQueue::move(void *to, const void *from, std::int64_t bytes, CopyKind kind)
{
    if (bytes <= 0)
        return;
    m_device.use();
    m_device.check(m_device.api().memcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, m_stream), "a copy");
}

void CudaQueue::copyToDevice(void *to, const void *host, std::int64_t bytes)
{
    move(to, host, bytes, CopyKind::HostToDevice);
}
void CudaQueue::copyToHost(void *host, const void *from, std::int64_t bytes)
{
    move(host, from, bytes, CopyKind::DeviceToHost);
}
void CudaQueue::copy(void *to, const void *from, std::int64_t bytes)
{
    move(to, from, bytes, CopyKind::DeviceToDevice);
}

void CudaQueue::fill(void *to, std::uint32_t pattern, std::int64_t bytes)
{
    if (bytes <= 0)
        return;
    m_device.use();
    if (pattern == (pattern & 0xffU) * 0x01010101U) {
        m_device.check(m_device.api().memsetAsync(to, static_cast<int>(pattern & 0xffU),
                                                  static_cast<std::size_t>(bytes), m_stream),
                       "a fill");
        return;
    }
    Fill fill;
    fill.to = to;
    fill.pattern = pattern;
    fill.bytes = bytes;
    items(fill, bytes / static_cast<std::int64_t>(sizeof(Words)) + 1);
}

void CudaQueue::update(device::Updates &updates, const device::UpdateStep &how)
{
    m_device.use();
    static_cast<ParameterUpdates &>(updates).update(*this, how);
}

void CudaQueue::squaredNorm(device::Updates &updates, double *host)
{
    m_device.use();
    static_cast<ParameterUpdates &>(updates).squaredNorm(*this, host);
}

void CudaQueue::score(const device::ScoredRows &rows, device::RowScores *host)
{
    static_assert(sizeof(RowScore) == sizeof(device::RowScores));
    m_device.use();
    ScoreRows each;
    each.values = {rows.values, rows.form == device::ScoredRows::Form::HalfLogits ? Kind::BF16 : Kind::F32};
    each.labels = rows.labels;
    each.scores = reinterpret_cast<RowScore *>(m_scores.data());
    each.rows = rows.rows;
    each.width = rows.form == device::ScoredRows::Form::Statistics ? 3 : rows.width;
    each.ignored = rows.ignored;
    each.statistics = rows.form == device::ScoredRows::Form::Statistics ? 1 : 0;
    this->rows(each, kScoreBlocks);
    SumOfScores all;
    all.scores = each.scores;
    all.result = each.scores + kScoreBlocks;
    all.count = kScoreBlocks;
    this->rows(all, 1);
    copyToHost(host, all.result, sizeof *host);
}

void CudaQueue::record(device::Event &event)
{
    m_device.use();
    auto &own = static_cast<CudaEvent &>(event);
    if (m_device.check(m_device.api().eventRecord(own.handle(), m_stream), "an event"))
        own.recorded();
}

void CudaQueue::wait(device::Event &event)
{
    m_device.use();
    auto &own = static_cast<CudaEvent &>(event);
    if (own.isRecorded())
        m_device.check(m_device.api().streamWaitEvent(m_stream, own.handle(), 0), "a wait");
}

void CudaQueue::call(void (*function)(void *), void *data)
{
    m_device.use();
    m_device.check(m_device.api().launchHostFunc(m_stream, function, data), "a call of the host");
}

/// Products find the workspace in this queue's hands: to wait for another queue is no command of a capture.
bool CudaQueue::beginCapture()
{
    m_device.use();
    m_device.workspace(*this);
    if (m_capturesNothing || !m_device.failure().empty())
        return false;
    if (const int error = m_device.api().streamBeginCapture(m_stream, kCaptureThreadLocal); error != kSuccess) {
        m_capturesNothing = true;
        log(LogLevel::Warning,
            std::string("passes are given to the GPU command by command, not as graphs: the begin of "
                        "a capture failed: ")
                + m_device.api().errorText(error));
        return false;
    }
    t_capturing = {&m_device};
    return true;
}

Result<std::unique_ptr<device::CommandGraph>> CudaQueue::endCapture()
{
    const RuntimeApi &api = m_device.api();
    Capturing captured = std::exchange(t_capturing, {});
    const auto note = [&captured](int error, const char *what) {
        if (error != kSuccess && captured.error == 0)
            captured = {captured.device, error, true, what};
    };
    CapturedGraph graph = nullptr;
    GraphExec exec = nullptr;
    note(api.streamEndCapture(m_stream, &graph), "the end of the capture");
    if (captured.error == 0) {
        const Activity::Instantiation instantiation;
        note(api.graphInstantiate(&exec, graph), "making a graph");
    }
    if (graph != nullptr)
        api.graphDestroy(graph);
    if (captured.error == 0)
        return std::unique_ptr<device::CommandGraph>(
            std::make_unique<CudaGraph>(m_device, exec, captured.usesWorkspace));
    return planloom::failed(std::string(captured.failed) + " failed: "
                            + (captured.ours ? std::string(api.errorText(captured.error))
                                             : "the library's status " + std::to_string(captured.error)));
}

void CudaQueue::replay(device::CommandGraph &graph)
{
    m_device.use();
    auto &own = static_cast<CudaGraph &>(graph);
    if (own.usesWorkspace())
        m_device.workspace(*this);
    m_device.check(m_device.api().graphLaunch(own.exec(), m_stream), "the start of a graph");
}

void CudaQueue::launch(KernelNumber number, std::int64_t blocks, unsigned int threads, std::int64_t extra,
                       void **arguments)
{
    if (blocks <= 0)
        return;
    const std::int64_t most = m_device.provider().mostBlocks; // kernels walk what is beyond
    const Grid grid{static_cast<unsigned int>(std::min(blocks, most)), 1, 1};
    const std::size_t sharedBytes = sharedBytesOf(threads, extra);
    m_device.check(m_device.api().launchKernel(m_device.provider().kernels[static_cast<std::size_t>(number)], grid,
                                               {threads, 1, 1}, arguments, sharedBytes, m_stream),
                   "the start of a kernel");
}

/// Whether a block of a real GPU has so much without being asked for it, also on one with smaller blocks.
bool CudaQueue::hasShared(std::int64_t extra)
{
    constexpr std::size_t kMost = std::size_t{48} << 10;
    return sharedBytesOf(kRowThreads, extra) <= kMost
        || m_device.check(kInvalidValue, "a kernel with more than 48 KiB of shared memory");
}

unsigned int CudaQueue::rowThreads() const { return m_device.provider().rowThreads; }

// --- Device ---------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const Provider &provider, int index)
{
    std::unique_ptr<CudaDevice> device(new CudaDevice(provider, index));
    if (const Status prepared = device->prepare(); !prepared)
        return prepared.error();
    return device;
}

Status CudaDevice::prepare()
{
    const int error = api().setDevice(m_index);
    if (!check(error, "opening the device"))
        return planloom::failed(failure());
    t_current = {&m_provider, m_index};
    startLibrary(m_provider.products, m_products, "cuBLASLt", "products of matrices run on the host");
    startLibrary(m_provider.graphs, m_graphs, "cuDNN", "convolutions run by kernels of Planloom");
    void *workspace = nullptr; // of kernels of ours, too
    if (!check(api().malloc(&workspace, kWorkspaceBytes), "memory for products and convolutions")
        || !check(api().eventCreate(&m_workspaceFree, kEventDisableTiming), "an event"))
        return planloom::failed(failure());
    m_workspace = static_cast<std::byte *>(workspace);
    return {};
}

CudaDevice::~CudaDevice()
{
    use();
    if (m_workspaceFree != nullptr)
        api().eventDestroy(m_workspaceFree);
    if (m_workspace != nullptr)
        api().free(m_workspace);
    if (m_pieces != nullptr)
        api().free(m_pieces);
    if (m_products != nullptr)
        m_provider.products->destroy(m_products);
    if (m_graphs != nullptr)
        m_provider.graphs->destroy(m_graphs);
}

void CudaDevice::use() const
{
    if (t_current == std::pair(&m_provider, m_index))
        return;
    api().setDevice(m_index);
    t_current = {&m_provider, m_index};
}

bool CudaDevice::check(int error, const char *what)
{
    if (error == kSuccess)
        return true;
    if (t_capturing.device == this) {
        if (t_capturing.error == 0)
            t_capturing = {this, error, true, what, t_capturing.usesWorkspace};
        return false;
    }
    int none = 0;
    if (m_error.compare_exchange_strong(none, error))
        m_failed = what;
    return false;
}

bool CudaDevice::checkOther(int error, const char *what)
{
    if (error == 0)
        return true;
    if (t_capturing.device == this) {
        if (t_capturing.error == 0)
            t_capturing = {this, error, false, what, t_capturing.usesWorkspace};
        return false;
    }
    int none = 0;
    if (m_error.compare_exchange_strong(none, error)) {
        m_ours = false;
        m_failed = what;
    }
    return false;
}

std::string CudaDevice::failure() const
{
    const int error = m_error;
    if (error == 0)
        return {};
    const char *what = m_failed;
    const std::string reason =
        m_ours ? std::string(api().errorText(error)) : "its library's status " + std::to_string(error);
    return "GPU " + std::to_string(m_index) + ": " + (what != nullptr ? what : "a command") + " failed: " + reason
        + "; " + remedyOf(m_ours ? error : 0);
}

Result<device::Memory> CudaDevice::allocate(device::Space space, std::int64_t bytes)
{
    use();
    void *data = nullptr;
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    const bool host = space == device::Space::Host;
    const int error = host ? api().hostAlloc(&data, size, kHostAllocPortable) : allocateDevice(&data, size);
    if (error != kSuccess && error != kOutOfMemory) {
        check(error, host ? "pinned memory of the host" : "memory");
        return planloom::failed(failure());
    }
    if (error != kSuccess) // not the device's end: others may still work
        return planloom::failed("GPU " + std::to_string(m_index) + " has no " + format(Bytes(bytes)) + " of "
                                + (host ? "pinned memory of the host" : "memory") + " free (" + api().errorText(error)
                                + "); use more stages, recompute or a smaller batch");
    device::Memory memory(*this, space, static_cast<std::byte *>(data), bytes);
    if (host)
        std::fill_n(memory.data(), bytes, std::byte{0});
    else if (!check(api().memset(data, 0, size), "clearing memory"))
        return planloom::failed(failure());
    return memory;
}

void CudaDevice::release(device::Space space, std::byte *data, std::int64_t /*bytes*/)
{
    use();
    if (space == device::Space::Host) {
        api().freeHost(data);
        return;
    }
    bool registrable = false;
    {
        const std::scoped_lock lock(m_mutex);
        registrable = m_registrable.erase(data) > 0;
    }
    if (registrable)
        m_communication->free(data);
    else
        api().free(data);
}

/// Large blocks by NCCL, where the device communicates: memory of the runtime's own is not registered by default.
int CudaDevice::allocateDevice(void **data, std::size_t bytes)
{
    constexpr std::size_t kGranularity = std::size_t{2} << 20; // of such memory: a smaller block takes as much
    if (m_communication != nullptr && bytes >= kGranularity && m_communication->malloc(data, bytes) == kTeamSuccess) {
        const std::scoped_lock lock(m_mutex);
        m_registrable.insert(*data);
        return kSuccess;
    }
    return api().malloc(data, bytes);
}

Result<bool> CudaDevice::identify(char *identity)
{
    use();
    std::fill_n(identity, PLANLOOM_IDENTITY_BYTES, '\0');
    const int error = api().identify(m_index, identity, PLANLOOM_IDENTITY_BYTES);
    if (error != kSuccess)
        return planloom::failed("GPU " + std::to_string(m_index) + " has no identity: " + api().errorText(error));
    MemoryHandle handle{};
    const char *chosen = std::getenv("PLANLOOM_GPU_COPIES");
    const bool isOff = chosen != nullptr && std::string_view(chosen) == "off";
    return !isOff && api().exportMemory(&handle, m_workspace) == kSuccess;
}

Result<std::unique_ptr<device::Queue>> CudaDevice::makeQueue()
{
    use();
    Stream stream = nullptr;
    auto scores = allocate(device::Space::Device, (CudaQueue::kScoreBlocks + 1) * std::int64_t{sizeof(RowScore)});
    if (!scores)
        return scores.error();
    if (!check(api().streamCreate(&stream, kStreamNonBlocking), "a queue"))
        return planloom::failed(failure());
    return std::unique_ptr<device::Queue>(std::make_unique<CudaQueue>(*this, stream, std::move(*scores)));
}

Result<std::unique_ptr<device::Event>> CudaDevice::makeEvent()
{
    use();
    EventHandle event = nullptr;
    if (!check(api().eventCreate(&event, kEventDisableTiming), "an event"))
        return planloom::failed(failure());
    return std::unique_ptr<device::Event>(std::make_unique<CudaEvent>(*this, event));
}

Result<std::unique_ptr<device::DeviceKernel>> CudaDevice::makeKernel(const graph::Op &op,
                                                                     std::span<const device::Argument> inputs,
                                                                     std::span<const device::Argument> outputs)
{
    use();
    return makeOperator({*this, op, inputs, outputs});
}

Result<std::unique_ptr<device::Updates>> CudaDevice::makeUpdates(const update::Formula &formula,
                                                                 std::span<const device::UpdateRange> ranges)
{
    use();
    return ParameterUpdates::make(*this, formula, ranges);
}

std::byte *CudaDevice::workspace(CudaQueue &queue)
{
    if (t_capturing.device == this)
        t_capturing.usesWorkspace = true;
    if (m_workspaceUser != nullptr && m_workspaceUser != &queue) {
        check(api().eventRecord(m_workspaceFree, m_workspaceUser->stream()), "an event");
        check(api().streamWaitEvent(queue.stream(), m_workspaceFree, 0), "a wait");
    }
    m_workspaceUser = &queue;
    return m_workspace;
}

bool CudaDevice::makePieces()
{
    if (m_pieces != nullptr)
        return true;
    void *memory = nullptr;
    const int error = api().malloc(&memory, static_cast<std::size_t>(m_provider.pieceBytes + m_provider.sumBytes));
    if (error == kOutOfMemory)
        log(LogLevel::Warning,
            "the GPU has no memory left for pieces of matrices: products with rows of bfloat16 at odd "
            "addresses take several times as long");
    if (error == kOutOfMemory || !check(error, "memory for pieces of matrices"))
        return false;
    m_pieces = static_cast<std::byte *>(memory);
    return true;
}

void CudaDevice::forget(const CudaQueue &queue)
{
    if (m_workspaceUser == &queue)
        m_workspaceUser = nullptr;
}

} // namespace planloom::cuda
