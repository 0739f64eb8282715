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

/// Brings samples to a stage's model inputs, through host memory. Two fills are under way at most: the host reads
/// samples while the device still copies those before. Thread contract: one thread.
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
    [[nodiscard]] std::int64_t heldOut() const { return m_feed->order.heldOut(); }

private:
    /// A model input of this stage.
    struct Input {
        Place place; ///< for one sample
        bool labels = false;
        std::size_t index = 0;   ///< among the feed's inputs, if it is not the labels
        std::int32_t table = -1; ///< of which it has the places, not the ids
    };
    struct Buffer {
        std::vector<Staging> staging; ///< per input
        std::unique_ptr<device::Event> copied;
    };

    Feeder(std::int64_t globalBatch, const ComputeContext &context, const Feed &feed)
        : m_globalBatch(globalBatch),
          m_context(context),
          m_feed(&feed)
    {
    }
    Status findInputs(const program::Body &body);
    Status makeBuffers(std::int64_t maxSamples);
    Status fillFetched(const Status &fetched, const SlotAddresses &addresses, std::int64_t count);
    template <class IndexOf>
    void fillJoined(Buffer &buffer, const SlotAddresses &addresses, std::int64_t count, const IndexOf &indexOf);
    template <class IndexOf>
    Status fill(const SlotAddresses &addresses, std::int64_t count, const IndexOf &indexOf);

    std::int64_t m_globalBatch;
    ComputeContext m_context;
    const Feed *m_feed;
    std::vector<Input> m_inputs;
    std::vector<Buffer> m_buffers; ///< taken in turn
    std::size_t m_next = 0;
    std::vector<std::int64_t> m_samples; ///< scratch, of data that join mini-batches
    std::vector<void *> m_joined;        ///< the same: memory by input of the data
};

} // namespace planloom::runtime
