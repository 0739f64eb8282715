// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"
#include "engine/update/formula.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// The compute device of a rank: memory, queues of commands, events, kernels. The runtime reaches a device's memory
/// through this interface only and never dereferences an address in it; it does arithmetic on addresses.
///
/// Commands of one queue run in the order in which they were given. Those of different queues are ordered by events and
/// by the host, which gives a command after it has seen an event complete. Queue calls return at once and do not fail:
/// a later failure stops the device and is the error of every Event::poll() from then on. Everything that a queue
/// call gets by value, reference or span is taken during the call; only memory that is named by address is used later,
/// and has to stay as it is until the command has ended. Nothing is allocated by queue calls and poll().
///
/// Thread contract: a Device may be asked for objects by any thread; its objects, queues, events, kernels, updates,
/// and their commands, belongs to one thread at a time.
///
/// A back end in a separate library is reached through a C table: an ABI version, a create function, and one function
/// pointer for each virtual member here, whose classes are opaque handles there. For that, queue calls use only
/// integers, doubles, addresses, spans (pointer and count) and plain structs of those; Result (code and text) is for
/// calls before the first step and for poll(); no exception, template or std::function crosses. An operator crosses as
/// its type, name and attributes, an update rule as its formula's nodes and stores.
namespace planloom::device {

/// A concrete tensor argument: type, sizes and layout; contiguous.
struct Argument {
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> dims;
    bool present = true; ///< false: an optional input left out
    graph::Layout layout = graph::Layout::RowMajor;
    [[nodiscard]] std::int64_t elements() const;
};

/// The seed of a pass's random numbers. Nothing in it depends on the layout of ranks, and a run that resumes from a
/// checkpoint gives the same values.
struct Draw {
    std::int64_t seed = 0;        ///< the run's
    std::int64_t step = 0;        ///< optimizer step
    std::int64_t firstSample = 0; ///< of the slice at hand, within the global batch
    std::int64_t samples = 1;     ///< in the slice
    bool training = false;        ///< false: as in inference, nothing is drawn
};

/// A run of parameters that share learning rate and decay, in fp32. The buffers do not overlap.
struct UpdateRange {
    float *parameter = nullptr;
    float *gradient = nullptr;
    std::array<float *, update::kMostStates> states{}; ///< of the rule, in its order
    std::uint16_t *copy = nullptr; ///< bfloat16 copy of the parameters that is refreshed; or nullptr
    std::int64_t count = 0;
    float rateFactor = 1; ///< of the step's learning rate
    float decay = 0;
    std::int32_t tensor = 0; ///< its row in UpdateStep's tables; every range of an Updates has another
    bool counts = true;      ///< its elements count in norms; no where another rank has them, too
};

/// How a step is made.
struct UpdateStep {
    double learningRate = 0;
    std::int64_t step = 1;    ///< from 1
    double gradientScale = 1; ///< gradients count this much: clipping
    int phase = 0;            ///< of the formula
    /// Tables of the host, a row per tensor and in it a number per norm of the formula. Phase 0 writes the squares of
    /// norms over what counts here; phase 1 reads them as they are over all ranks.
    double *squares = nullptr;
    const double *allSquares = nullptr;
};

/// Rows that are compared with their labels.
struct ScoredRows {
    enum class Form : std::uint8_t {
        Logits,     ///< float32 (rows, width)
        HalfLogits, ///< bfloat16 (rows, width)
        Statistics, ///< float32 (rows, 3): LossStatistics in engine/graph/operators/README.md
    };
    Form form = Form::Logits;
    const void *values = nullptr;
    const std::int64_t *labels = nullptr;
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::int64_t ignored = 0; ///< rows with this label do not count
};

/// Of rows that count.
struct RowScores {
    double crossEntropy = 0; ///< sum
    double right = 0;        ///< rows whose largest logit is the label's; of equal ones the first
    double rows = 0;
};

/// Whose memory a block is.
enum class Space : std::uint8_t {
    Device,
    Host, ///< of the host, which may use it freely; copies from and to it do not block
};

class Device;

/// A block of memory, cleared when made, on a boundary of at least 64 bytes; given back when destroyed. Its device must
/// outlive it.
class Memory {
public:
    Memory() = default;
    Memory(Device &device, Space space, std::byte *data, std::int64_t bytes)
        : m_device(&device),
          m_space(space),
          m_data(data),
          m_bytes(bytes)
    {
    }
    Memory(Memory &&other) noexcept { swap(other); }
    Memory &operator=(Memory &&other) noexcept
    {
        Memory(std::move(other)).swap(*this);
        return *this;
    }
    inline ~Memory();

    [[nodiscard]] std::byte *data() const { return m_data; }
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }

private:
    void swap(Memory &other) noexcept
    {
        std::swap(m_device, other.m_device);
        std::swap(m_space, other.m_space);
        std::swap(m_data, other.m_data);
        std::swap(m_bytes, other.m_bytes);
    }
    Device *m_device = nullptr;
    Space m_space = Space::Device;
    std::byte *m_data = nullptr;
    std::int64_t m_bytes = 0;
};

/// A point in a queue. Complete before it is recorded for the first time; recorded again, it stands for the new point.
class Event {
public:
    virtual ~Event() = default;
    /// True once all commands before the point have ended. Error: Failed, if the device has stopped.
    virtual Result<bool> poll() = 0;
};

/// An operator made ready for concrete shapes. Its scratch memory and tables are made with it.
class DeviceKernel {
public:
    enum Capability : std::uint32_t {
        kAdds = 1,   ///< Mode::Add; of operators with one output, of float32
        kDraws = 2,  ///< draws random numbers: needs Queue::begin()
        kInfers = 4, ///< Mode::Infer computes something else than Mode::Run
        /// Its runs can be captured: they depend on their arguments alone, or read what begin() left in the device's
        /// memory.
        kCaptures = 8,
    };

    explicit DeviceKernel(std::uint32_t capabilities) : m_capabilities(capabilities) {}
    virtual ~DeviceKernel() = default;
    [[nodiscard]] bool has(Capability capability) const { return (m_capabilities & capability) != 0; }

private:
    std::uint32_t m_capabilities;
};

/// Parameters that are updated together.
class Updates {
public:
    virtual ~Updates() = default;
};

/// Commands that a queue has taken down, for replay() of the queues of its device. May be destroyed while they run.
class CommandGraph {
public:
    virtual ~CommandGraph() = default;
};

/// What a kernel does with its outputs.
enum class Mode : std::uint8_t {
    Run,
    Add,   ///< outputs[0] += the result of Run
    Infer, ///< as where nothing is trained: running statistics are used and stay as they are
};

/// Commands that a device executes in order.
class Queue {
public:
    virtual ~Queue() = default;

    /// Random numbers of @p kernel's runs from here on; before the first begin() it draws nothing.
    virtual void begin(DeviceKernel &kernel, const Draw &draw) = 0;
    /// Addresses of left out arguments are nullptr.
    virtual void run(DeviceKernel &kernel, Mode mode, std::span<const void *const> inputs,
                     std::span<void *const> outputs) = 0;
    /// y[i] += x[i], @p count floats.
    virtual void accumulate(const float *x, float *y, std::int64_t count) = 0;

    virtual void copyToDevice(void *device, const void *host, std::int64_t bytes) = 0;
    virtual void copyToHost(void *host, const void *device, std::int64_t bytes) = 0;
    /// Within the device; the ranges do not overlap.
    virtual void copy(void *to, const void *from, std::int64_t bytes) = 0;
    /// Repeats @p pattern, lowest byte first; the last one may be cut short.
    virtual void fill(void *to, std::uint32_t pattern, std::int64_t bytes) = 0;

    /// One phase of an optimizer step over all ranges. The last one also clears the gradients and refreshes the
    /// bfloat16 copies.
    virtual void update(Updates &updates, const UpdateStep &how) = 0;
    /// The sum of the squared gradients, in double precision and a fixed order of addition, to @p host.
    virtual void squaredNorm(Updates &updates, double *host) = 0;
    /// The scores of @p rows, whose labels and values lie in the device's memory, to @p host.
    virtual void score(const ScoredRows &rows, RowScores *host) = 0;

    /// From here to endCapture() commands are taken down instead of given: runs of kernels with kCaptures,
    /// accumulate(), copy() and fill() alone, by the calling thread, which asks nothing else of the device meanwhile.
    /// False: this queue captures nothing.
    virtual bool beginCapture() { return false; }
    /// Before the first step is over. Error: Failed (one of the commands cannot be captured); nothing has changed.
    virtual Result<std::unique_ptr<CommandGraph>> endCapture() { return failed("this queue captures nothing"); }
    /// Gives the commands once more, with the values and addresses that they were captured with.
    virtual void replay(CommandGraph & /*graph*/) {}

    /// @p event stands for this point of the queue.
    virtual void record(Event &event) = 0;
    /// Later commands of this queue begin when @p event, as recorded by now, is complete.
    virtual void wait(Event &event) = 0;
};

/// What the runtime knows of a device: memory, queues, events, kernels.
class Device {
public:
    virtual ~Device() = default;

    /// Whether the host may read and write Space::Device at the same addresses. Only for devices whose queues run
    /// commands during the call.
    [[nodiscard]] virtual bool hostAddressable() const = 0;
    /// The address at which the rank's transport, a Communicator, finds the device's memory at @p address. The range
    /// that it moves must not be used by commands at the same time.
    [[nodiscard]] virtual std::byte *transportAddress(std::byte *address) = 0;

    /// Errors: Failed, if there is not as much.
    virtual Result<Memory> allocate(Space space, std::int64_t bytes) = 0;
    virtual Result<std::unique_ptr<Queue>> makeQueue() = 0;
    virtual Result<std::unique_ptr<Event>> makeEvent() = 0;
    /// Errors: Unsupported (operator type, data type or attribute, named), BadInput.
    virtual Result<std::unique_ptr<DeviceKernel>> makeKernel(const graph::Op &op, std::span<const Argument> inputs,
                                                             std::span<const Argument> outputs) = 0;
    /// Errors: Unsupported (a formula that takes more memory than the device has for it).
    virtual Result<std::unique_ptr<Updates>> makeUpdates(const update::Formula &formula,
                                                         std::span<const UpdateRange> ranges) = 0;

private:
    friend class Memory;
    virtual void release(Space space, std::byte *data, std::int64_t bytes) = 0;
};

Memory::~Memory()
{
    if (m_data != nullptr)
        m_device->release(m_space, m_data, m_bytes);
}

} // namespace planloom::device
