// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/transfers.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace planloom::runtime {

namespace {

using program::Body;
using program::Message;
using program::Pass;
using program::Task;

/// A tensor that crosses a cut, seen from one side.
struct Crossing {
    TensorId activation;
    TensorId gradient; ///< invalid: this side has none
};

/// The tensors of one end of a body, by name: both ends number them alike.
std::map<std::string_view, Crossing> crossings(const Body &body, bool outgoing)
{
    const graph::TrainingGraph &training = body.training;
    const std::vector<TensorId> &activations = outgoing ? training.outputs : training.inputs;
    const std::vector<TensorId> &gradients = outgoing ? training.outputGradients : training.inputGradients;
    std::map<std::string_view, Crossing> byName;
    for (std::size_t i = 0; i < activations.size(); ++i)
        byName[training.graph.tensor(activations[i]).name] = {activations[i], i < gradients.size() ? gradients[i] : TensorId()};
    return byName;
}

class TableMaker {
public:
    TableMaker(const program::Program &program, RankId rank, int maxTag) : m_program(program), m_rank(rank), m_maxTag(maxTag)
    {
        for (const Body &body : program.bodies)
            m_tensorsPerCut = std::max({m_tensorsPerCut, body.training.outputs.size() + 1, body.training.inputs.size() + 1});
    }

    Result<TransferTable> make()
    {
        for (const TaskId id : m_program.ranks[m_rank.index()].tasks) {
            m_table.first.push_back(static_cast<std::int32_t>(m_table.transfers.size()));
            const Task &task = m_program.task(id);
            if (task.kind != trace::Kind::Send && task.kind != trace::Kind::Receive)
                continue;
            if (const Status status = addTask(task); !status)
                return status.error();
        }
        m_table.first.push_back(static_cast<std::int32_t>(m_table.transfers.size()));
        return std::move(m_table);
    }

private:
    Status addTask(const Task &task)
    {
        const Body &body = m_program.bodies[static_cast<std::size_t>(task.body)];
        const bool sends = task.kind == trace::Kind::Send;
        const bool towardsNext = sends == (task.pass == Pass::Forward); // the end of the body that the messages pass
        const auto m = static_cast<std::size_t>(task.microBatch);
        const std::vector<Message> &messages = towardsNext ? body.outgoing[m] : body.incoming[m];
        const auto mine = crossings(body, towardsNext);
        for (const Message &message : messages) {
            if (task.pass == Pass::Forward ? !message.activation : !message.gradient)
                continue;
            const Body &other = bodyOf(message.peer, task.stage.value + (towardsNext ? 1 : -1));
            // Messages cover the slice from its first sample on; several may be about the same samples, one per shard of the other side.
            const std::int64_t row = message.samples.begin - messages.front().samples.begin;
            if (const Status status = addMessage(task, {body, other, message, row}, mine, crossings(other, !towardsNext)); !status)
                return status;
        }
        return {};
    }

    /// Rows of this rank's slice, from @c row on, that @c other, a body of another stage, has or needs.
    struct Exchange {
        const Body &body;
        const Body &other;
        const Message &message;
        std::int64_t row = 0;
    };

    Status addMessage(const Task &task, const Exchange &exchange, const std::map<std::string_view, Crossing> &mine, const std::map<std::string_view, Crossing> &theirs)
    {
        const Message &message = exchange.message;
        if (mine.size() != theirs.size())
            return failed("ranks " + std::to_string(m_rank.value) + " and " + std::to_string(message.peer.value) + " disagree on the tensors between them");
        std::int64_t number = 0;
        for (auto left = mine.begin(), right = theirs.begin(); left != mine.end(); ++left, ++right, ++number) {
            if (left->first != right->first)
                return failed("tensor " + std::string(left->first) + " leaves one stage and does not enter the next");
            if (const Status status = addTensor(task, exchange, left->second, right->second, number); !status)
                return status;
        }
        if (message.peer == m_rank)
            return {};
        const Result<std::int32_t> tag = tagOf(task, number);
        if (!tag)
            return tag.error();
        m_table.transfers.push_back({m_table.stamps++, static_cast<std::int64_t>(sizeof(std::int64_t)), message.peer.value, *tag, true});
        return {};
    }

    Status addTensor(const Task &task, const Exchange &exchange, const Crossing &mine, const Crossing &theirs, std::int64_t number)
    {
        const bool forward = task.pass == Pass::Forward;
        const TensorId id = forward ? mine.activation : mine.gradient;
        const TensorId peers = forward ? theirs.activation : theirs.gradient;
        const bool sends = task.kind == trace::Kind::Send;
        if (!id.valid() || (sends && !peers.valid()))
            return {};
        const Result<std::int64_t> offset = offsetOf(task, exchange.body, id);
        if (!offset)
            return offset.error();
        const Result<std::int32_t> tag = tagOf(task, number);
        if (!tag)
            return tag.error();
        const std::int64_t perSample = exchange.body.training.graph.tensor(id).bytes(1).value();
        const Message &message = exchange.message;
        Transfer transfer{*offset + exchange.row * perSample, message.samples.size * perSample, peers.valid() ? message.peer.value : -1, *tag};
        if (message.peer == m_rank && peers.valid()) {
            const Result<std::int64_t> from = offsetOf(task, exchange.other, peers);
            if (!from)
                return from.error();
            transfer.from = *from + exchange.row * perSample; // both have the same slice
        }
        m_table.transfers.push_back(transfer);
        return {};
    }

    /// In its rank's arena, for the micro-batch of @p task.
    static Result<std::int64_t> offsetOf(const Task &task, const Body &body, TensorId id)
    {
        const program::Placement &place = (task.pass == Pass::Forward ? body.forwardPlaces : body.backwardPlaces)[id.index()];
        if (place.offset < 0)
            return failed("tensor " + body.training.graph.tensor(id).name + " crosses between stages and has no place");
        const auto area = static_cast<std::size_t>(place.area);
        const program::Pool &pool = body.pools[area];
        const std::int64_t slot = std::max(body.slotTable[static_cast<std::size_t>(task.microBatch)].slot[area], 0);
        return pool.begin + slot * pool.slotBytes + place.offset;
    }

    [[nodiscard]] const Body &bodyOf(RankId rank, std::int32_t stage) const
    {
        const std::vector<std::int32_t> &bodies = m_program.ranks[rank.index()].bodies;
        const auto found = std::find_if(bodies.begin(), bodies.end(), [&](std::int32_t b) { return m_program.bodies[static_cast<std::size_t>(b)].stage.value == stage; });
        return m_program.bodies[static_cast<std::size_t>(found == bodies.end() ? bodies.front() : *found)];
    }

    /// Numbers (cut, direction, micro-batch, tensor); 0 is left for what is sent before the first step.
    [[nodiscard]] Result<std::int32_t> tagOf(const Task &task, std::int64_t tensor) const
    {
        const bool sends = task.kind == trace::Kind::Send;
        const bool towardsNext = sends == (task.pass == Pass::Forward);
        const std::int64_t cut = task.stage.value + (towardsNext ? 1 : 0);
        const std::int64_t direction = 2 * cut + (task.pass == Pass::Forward ? 0 : 1);
        const std::int64_t tag = 1 + (direction * m_program.microBatches + task.microBatch) * static_cast<std::int64_t>(m_tensorsPerCut) + tensor;
        if (tag > m_maxTag)
            return unsupported("this plan has more messages per step than the transport tells apart; use fewer micro-batches or stages");
        return static_cast<std::int32_t>(tag);
    }

    const program::Program &m_program;
    RankId m_rank;
    int m_maxTag;
    std::size_t m_tensorsPerCut = 1;
    TransferTable m_table;
};

} // namespace

Result<TransferTable> makeTransfers(const program::Program &program, RankId rank, int maxTag)
{
    return TableMaker(program, rank, maxTag).make();
}

} // namespace planloom::runtime
