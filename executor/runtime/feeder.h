// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/data/data_set.h"
#include "executor/data/order.h"
#include "executor/runtime/compute_context.h"
#include "executor/runtime/row_places.h"

#include <memory>
#include <vector>

namespace planloom::runtime {

/// Brings samples that other processes have made. A sample of Feed::data is then its place among those that were
/// fetched last.
class Arrivals {
public:
    virtual ~Arrivals() = default;
    /// Waits, before a step starts, until its samples are there. Errors: Failed (they did not come in time).
    virtual Status await(std::int64_t step) = 0;
    /// Samples [begin, begin + count) of the global batch of @p step, which was awaited. Errors: Failed (others were).
    virtual Status fetch(std::int64_t step, std::int64_t begin, std::int64_t count) = 0;
    /// Held-out samples from number @p begin on; past the last one from the start again.
    virtual Status fetchHeldOut(std::int64_t begin, std::int64_t count) = 0;
};

/// Samples for the model's inputs: the data set and the order.
struct Feed {
    const data::DataSet *data = nullptr;
    data::Needs needs;
    data::SampleOrder order;
    Arrivals *arrivals = nullptr; ///< fills `data` before it is read; null: `data` has all samples
    RowPlaces *places = nullptr;  ///< of ids in the windows of tables that are exchanged by rows; null: there are none
};

/// Brings samples to a stage's model inputs, through host memory. A device with memory of its own has two buffers of
/// it: while a pass works on the samples of one, those of the next pass come to the other, in the queue of copies, and
/// are moved to their place when the pass begins. Thread contract: one thread.
class Feeder {
public:
    /// @p feed and the members of @p context must outlive it. Error: Unsupported (an input without data), Failed.
    static Result<Feeder> create(const program::Program &program, const program::Body &body,
                                 const ComputeContext &context, const Feed &feed);

    /// Samples [begin, begin + count) of the global batch of @p step, to the slots that @p addresses has. Errors: those
    /// of waitFor().
    Status training(const SlotAddresses &addresses, std::int64_t step, std::int64_t begin, std::int64_t count);
    /// Held-out samples from number @p begin on; past the last one from the start again.
    Status heldOut(const SlotAddresses &addresses, std::int64_t begin, std::int64_t count);
    /// What training() is expected to be asked for next: brought ahead, where samples do not have to be waited for.
    /// Errors: those of waitFor().
    Status bringAhead(std::int64_t step, std::int64_t begin, std::int64_t count);
    [[nodiscard]] std::int64_t heldOut() const { return m_feed->order.heldOut(); }

private:
    /// A model input of this stage.
    struct Input {
        Place place; ///< for one sample
        bool labels = false;
        std::size_t index = 0;   ///< among the feed's inputs, if it is not the labels
        std::int32_t table = -1; ///< of which it has the places, not the ids
    };
    /// Samples that a buffer is filled with.
    struct Batch {
        std::int64_t step = 0; ///< -1: held out
        std::int64_t begin = 0;
        std::int64_t count = 0; ///< 0: none
        bool operator==(const Batch &) const = default;
    };
    struct Buffer {
        Buffer() = default;
        ~Buffer(); ///< waits for the copies that read it: a run that ends has brought samples ahead
        Buffer(Buffer &&) noexcept = default;
        Buffer &operator=(Buffer &&) noexcept = default;
        std::vector<Staging> staging;          ///< per input
        device::Memory ahead;                  ///< inputs one behind the other; none where the host fills their places
        std::unique_ptr<device::Event> copied; ///< to `ahead`
        std::unique_ptr<device::Event> taken;  ///< from it
        Batch batch;
    };

    Feeder(std::int64_t globalBatch, const ComputeContext &context, const Feed &feed)
        : m_globalBatch(globalBatch),
          m_context(context),
          m_feed(&feed)
    {
    }
    Status findInputs(const program::Body &body);
    Status makeBuffers(std::int64_t maxSamples);
    Status give(const SlotAddresses &addresses, const Batch &batch);
    Status fill(Buffer &buffer, const Batch &batch);
    /// @p hostOf: where the host writes input k.
    template <class HostOf>
    void read(const Batch &batch, const HostOf &hostOf);
    template <class HostOf>
    void join(const HostOf &hostOf);
    void find(const Batch &batch);
    void take(Buffer &buffer, const SlotAddresses &addresses);

    std::int64_t m_globalBatch;
    ComputeContext m_context;
    const Feed *m_feed;
    std::vector<Input> m_inputs;
    std::vector<std::int64_t> m_offsets; ///< of inputs in Buffer::ahead
    std::vector<Buffer> m_buffers;       ///< taken in turn; none where the host fills the places of inputs
    std::size_t m_next = 0;
    std::vector<std::int64_t> m_samples; ///< of the batch at hand
    std::int64_t m_firstOfSamples = -1;  ///< data::SampleOrder::ordinal(); -1: m_samples are no training samples
    std::vector<void *> m_joined;        ///< scratch, of data that join mini-batches: memory by input of the data
};

} // namespace planloom::runtime
