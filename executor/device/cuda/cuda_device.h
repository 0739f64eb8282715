// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/communication_api.h"
#include "executor/device/cuda/cuda_api.h"
#include "executor/device/cuda/kernels/list.h"
#include "executor/device/device.h"
#include "executor/device/plugin/host_calls.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace planloom::cuda {

class CudaDevice;

/// A stream. Commands that fail stop the device (CudaDevice::failure()).
class CudaQueue final : public device::Queue, public device::HostCalls {
public:
    /// @p scores: kScoreBlocks + 1 of RowScore.
    CudaQueue(CudaDevice &device, Stream stream, device::Memory scores)
        : m_device(device),
          m_stream(stream),
          m_scores(std::move(scores))
    {
    }
    ~CudaQueue() override;
    CudaQueue(const CudaQueue &) = delete;
    CudaQueue &operator=(const CudaQueue &) = delete;

    void begin(device::DeviceKernel &kernel, const device::Draw &draw) override;
    void run(device::DeviceKernel &kernel, device::Mode mode, std::span<const void *const> inputs,
             std::span<void *const> outputs) override;
    void accumulate(const float *x, float *y, std::int64_t count) override;
    void copyToDevice(void *to, const void *host, std::int64_t bytes) override;
    void copyToHost(void *host, const void *from, std::int64_t bytes) override;
    void copy(void *to, const void *from, std::int64_t bytes) override;
    void fill(void *to, std::uint32_t pattern, std::int64_t bytes) override;
    void update(device::Updates &updates, const device::UpdateStep &how) override;
    void squaredNorm(device::Updates &updates, double *host) override;
    void score(const device::ScoredRows &rows, device::RowScores *host) override;
    void record(device::Event &event) override;
    void wait(device::Event &event) override;
    void call(void (*function)(void *), void *data) override;
    bool beginCapture() override;
    Result<std::unique_ptr<device::CommandGraph>> endCapture() override;
    void replay(device::CommandGraph &graph) override;

    /// Starts @p kernel, one of kernels/list.h, with a block for each of @p blocks rows. Block::extra gets @p extra
    /// floats and @p each for each thread.
    template <class K>
    void rows(const K &kernel, std::int64_t blocks, std::int64_t extra = 0, std::int64_t each = 0)
    {
        if (hasShared(extra + each * kRowThreads))
            start(kNumberOf<K>, kernel, blocks, rowThreads(), extra + each * rowThreads());
    }
    /// The same with @p threads threads a block.
    template <class K>
    void blocks(const K &kernel, std::int64_t blocks, unsigned int threads, std::int64_t extra = 0)
    {
        if (hasShared(extra))
            start(kNumberOf<K>, kernel, blocks, threads, extra);
    }
    /// Sums, 16 bytes at a time where that fits.
    void add(Sum sum);
    /// The same for @p items independent items.
    template <class K>
    void items(const K &kernel, std::int64_t items)
    {
        constexpr unsigned int kThreads = 256;
        start(kNumberOf<K>, kernel, (items + kThreads - 1) / kThreads, kThreads, 0);
    }

    /// The same for @p n elements, several a thread where the kernel can.
    template <class K>
    void elements(const K &kernel, std::int64_t n)
    {
        items(kernel, threadsOver(n, kernel.several()));
    }

    static constexpr std::int64_t kScoreBlocks = 256;
    [[nodiscard]] CudaDevice &device() const { return m_device; }
    [[nodiscard]] Stream stream() const { return m_stream; }

private:
    [[nodiscard]] bool hasShared(std::int64_t extra);
    template <class K>
    void start(KernelNumber number, const K &kernel, std::int64_t blocks, unsigned int threads, std::int64_t extra)
    {
        K copy = kernel; // launches take the address of what they read during the call
        void *arguments[] = {&copy};
        launch(number, blocks, threads, extra, arguments);
    }
    void launch(KernelNumber number, std::int64_t blocks, unsigned int threads, std::int64_t extra, void **arguments);
    [[nodiscard]] unsigned int rowThreads() const;
    void move(void *to, const void *from, std::int64_t bytes, CopyKind kind);

    CudaDevice &m_device;
    Stream m_stream;
    device::Memory m_scores;
    bool m_capturesNothing = false; ///< the runtime has refused to
};

/// An operator of ours: gives its commands to a queue.
class CudaKernel : public device::DeviceKernel {
public:
    /// One that draws has to say itself that it can be captured.
    explicit CudaKernel(std::uint32_t capabilities)
        : DeviceKernel(capabilities | ((capabilities & kDraws) != 0 ? 0U : std::uint32_t{kCaptures}))
    {
    }
    /// Random numbers of the runs from here on; of kernels that draw.
    virtual void begin(const device::Draw & /*draw*/) {}
    virtual void run(CudaQueue &queue, device::Mode mode, std::span<const void *const> inputs,
                     std::span<void *const> outputs) = 0;
};

/// One GPU. Errors are sticky: after the first one every poll fails with it.
///
/// Thread contract: as Device.
class CudaDevice final : public device::Device {
public:
    /// @p provider must outlive it. Errors: Failed (the device cannot be used).
    static Result<std::unique_ptr<CudaDevice>> open(const Provider &provider, int index);
    ~CudaDevice() override;
    CudaDevice(const CudaDevice &) = delete;
    CudaDevice &operator=(const CudaDevice &) = delete;

    [[nodiscard]] bool hostAddressable() const override { return false; }
    [[nodiscard]] std::byte *transportAddress(std::byte *address) override { return address; }
    Result<device::Memory> allocate(device::Space space, std::int64_t bytes) override;
    Result<std::unique_ptr<device::Queue>> makeQueue() override;
    Result<std::unique_ptr<device::Event>> makeEvent() override;
    Result<std::unique_ptr<device::DeviceKernel>> makeKernel(const graph::Op &op,
                                                             std::span<const device::Argument> inputs,
                                                             std::span<const device::Argument> outputs) override;
    Result<std::unique_ptr<device::Updates>> makeUpdates(const update::Formula &formula,
                                                         std::span<const device::UpdateRange> ranges) override;

    /// @p identity: of PLANLOOM_IDENTITY_BYTES. True if other processes can open its memory. Errors: those of the
    /// device.
    Result<bool> identify(char *identity);
    /// From here on Space::Device is memory that NCCL can register; @p api must outlive it.
    void communicates(const CommunicationApi &api) { m_communication = &api; }

    [[nodiscard]] const Provider &provider() const { return m_provider; }
    [[nodiscard]] const RuntimeApi &api() const { return m_provider.runtime; }
    /// nullptr without cuBLASLt.
    [[nodiscard]] ProductHandle products() const { return m_products; }
    /// nullptr without cuDNN.
    [[nodiscard]] GraphHandle graphs() const { return m_graphs; }
    /// Makes the device current for the calling thread.
    void use() const;
    /// Notes the first error of the device, @p what with the runtime's text. True if there was none. While the calling
    /// thread captures, an error is the capture's and not the device's.
    bool check(int error, const char *what);
    /// Of another library: the same.
    bool checkOther(int error, const char *what);
    /// Empty: none so far.
    [[nodiscard]] std::string failure() const;
    /// Device memory that commands of @p queue may use until another queue asks for it.
    std::byte *workspace(CudaQueue &queue);
    static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
    /// Makes memory for pieces of matrices and for sums over them, once. False: the device has none left.
    bool makePieces();
    /// That memory, Provider::pieceBytes, then sumBytes: of the queue that asked for the workspace last.
    [[nodiscard]] std::byte *pieces() const { return m_pieces; }
    void forget(const CudaQueue &queue);

private:
    CudaDevice(const Provider &provider, int index) : m_provider(provider), m_index(index) {}
    Status prepare();
    void release(device::Space space, std::byte *data, std::int64_t bytes) override;
    int allocateDevice(void **data, std::size_t bytes);

    const Provider &m_provider;
    int m_index;
    std::atomic<int> m_error{0};
    std::atomic<const char *> m_failed{nullptr}; ///< what failed; nullptr: nothing
    std::atomic<bool> m_ours{true};              ///< the error is of the runtime
    ProductHandle m_products = nullptr;
    GraphHandle m_graphs = nullptr;
    std::byte *m_workspace = nullptr;
    CudaQueue *m_workspaceUser = nullptr;
    std::byte *m_pieces = nullptr;
    const CommunicationApi *m_communication = nullptr;
    std::mutex m_mutex;
    std::set<void *> m_registrable; ///< blocks of NCCL; guarded by m_mutex
    EventHandle m_workspaceFree = nullptr;
};

} // namespace planloom::cuda
