// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/transfers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace planloom::runtime {

namespace {

using program::Body;
using program::Pass;
using program::Task;

/// The pass that a transfer or copy moves data for; nothing: the task is neither.
std::optional<Pass> movedFor(const Task &task)
{
    if (task.as<program::Transfer>() == nullptr && task.as<program::Copy>() == nullptr)
        return std::nullopt;
    return task.pass();
}

bool sends(const Task &task)
{
    const auto *transfer = task.as<program::Transfer>();
    return transfer != nullptr && transfer->sends;
}

/// True if the task moves data over the end of its body that is towards the next stage.
bool towardsNext(const Task &task) { return sends(task) == (task.pass() == Pass::Forward); }

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
        byName[training.graph.tensor(activations[i]).name] = {activations[i],
                                                              i < gradients.size() ? gradients[i] : TensorId()};
    return byName;
}

class TableMaker {
public:
    TableMaker(const program::Program &program, RankId rank, int maxTag)
        : m_program(program),
          m_rank(rank),
          m_maxTag(maxTag)
    {
        for (const Body &body : program.bodies)
            m_tensorsPerCut =
                std::max({m_tensorsPerCut, body.training.outputs.size() + 1, body.training.inputs.size() + 1});
    }

    Result<TransferTable> make()
    {
        for (const TaskId id : m_program.ranks[m_rank.index()].tasks) {
            m_table.first.push_back(static_cast<std::int32_t>(m_table.messages.size()));
            const Task &task = m_program.task(id);
            if (!movedFor(task))
                continue;
            if (const Status status = addTask(task); !status)
                return status.error();
        }
        m_table.first.push_back(static_cast<std::int32_t>(m_table.messages.size()));
        return std::move(m_table);
    }

private:
    Status addTask(const Task &task)
    {
        const Body &body = m_program.body(task.body);
        const bool next = towardsNext(task);
        const auto m = static_cast<std::size_t>(task.microBatch);
        const std::vector<program::Message> &messages = next ? body.outgoing[m] : body.incoming[m];
        const auto mine = crossings(body, next);
        for (const program::Message &message : messages) {
            if (task.pass() == Pass::Forward ? !message.activation : !message.gradient)
                continue;
            const Body &other = bodyOf(message.peer, task.stage.value + (next ? 1 : -1));
            // Messages cover the slice from its first sample on; several may be about the same samples, one per shard
            // of the other side.
            const std::int64_t row = message.samples.begin - messages.front().samples.begin;
            if (const Status status = addMessage(task, {body, other, message, row}, mine, crossings(other, !next));
                !status)
                return status;
        }
        return {};
    }

    /// Rows of this rank's slice, from @c row on, that @c other, a body of another stage, has or needs.
    struct Exchange {
        const Body &body;
        const Body &other;
        const program::Message &message;
        std::int64_t row = 0;
    };

    Status addMessage(const Task &task, const Exchange &exchange, const std::map<std::string_view, Crossing> &mine,
                      const std::map<std::string_view, Crossing> &theirs)
    {
        const program::Message &message = exchange.message;
        if (mine.size() != theirs.size())
            return failed("ranks " + std::to_string(m_rank.value) + " and " + std::to_string(message.peer.value)
                          + " disagree on the tensors between them");
        std::int64_t number = 0;
        for (auto left = mine.begin(), right = theirs.begin(); left != mine.end(); ++left, ++right, ++number) {
            if (left->first != right->first)
                return failed("tensor " + std::string(left->first) + " leaves one stage and does not enter the next");
            if (const Status status = addTensor(task, exchange, left->second, right->second, number); !status)
                return status;
        }
        return {};
    }

    Status addTensor(const Task &task, const Exchange &exchange, const Crossing &mine, const Crossing &theirs,
                     std::int64_t number)
    {
        const bool forward = task.pass() == Pass::Forward;
        const TensorId id = forward ? mine.activation : mine.gradient;
        const TensorId peers = forward ? theirs.activation : theirs.gradient;
        if (!id.valid() || (sends(task) && !peers.valid()))
            return {};
        const Result<std::int64_t> offset = offsetOf(task, exchange.body, id);
        if (!offset)
            return offset.error();
        const Result<std::int32_t> tag = tagOf(task, number);
        if (!tag)
            return tag.error();
        const std::int64_t perSample = exchange.body.training.graph.tensor(id).bytes(1).value();
        const program::Message &message = exchange.message;
        Message moved{*offset + exchange.row * perSample, message.samples.size * perSample,
                      peers.valid() ? message.peer.value : -1, *tag};
        if (message.peer == m_rank && peers.valid()) {
            const Result<std::int64_t> from = offsetOf(task, exchange.other, peers);
            if (!from)
                return from.error();
            moved.from = *from + exchange.row * perSample; // both have the same slice
        }
        m_table.messages.push_back(moved);
        return {};
    }

    /// In its rank's arena, for the micro-batch of @p task.
    static Result<std::int64_t> offsetOf(const Task &task, const Body &body, TensorId id)
    {
        const program::Placement &place =
            (task.pass() == Pass::Forward ? body.forwardPlaces : body.backwardPlaces)[id.index()];
        if (place.offset < 0)
            return failed("tensor " + body.training.graph.tensor(id).name + " crosses between stages and has no place");
        const auto area = static_cast<std::size_t>(place.area);
        const program::Pool &pool = body.pools[area];
        const std::int64_t slot = std::max(body.slotTable[static_cast<std::size_t>(task.microBatch)].slot[area], 0);
        return pool.begin + slot * pool.slotBytes + place.offset;
    }

    [[nodiscard]] const Body &bodyOf(RankId rank, std::int32_t stage) const
    {
        const std::vector<BodyId> &bodies = m_program.ranks[rank.index()].bodies;
        const auto found = std::find_if(bodies.begin(), bodies.end(),
                                        [&](BodyId b) { return m_program.body(b).stage.value == stage; });
        return m_program.body(found == bodies.end() ? bodies.front() : *found);
    }

    /// Numbers (cut, direction, micro-batch, tensor); 0 is for messages before the first step.
    [[nodiscard]] Result<std::int32_t> tagOf(const Task &task, std::int64_t tensor) const
    {
        const std::int64_t cut = task.stage.value + (towardsNext(task) ? 1 : 0);
        const std::int64_t direction = 2 * cut + (task.pass() == Pass::Forward ? 0 : 1);
        const std::int64_t tag = 1
            + (direction * m_program.microBatches + task.microBatch) * static_cast<std::int64_t>(m_tensorsPerCut)
            + tensor;
        if (tag > m_maxTag)
            return unsupported("this plan has more messages per step than the transport tells apart; use fewer "
                               "micro-batches or stages");
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

Status Transfers::prepare(RankParts &parts)
{
    m_parts = &parts;
    Result<TransferTable> table = makeTransfers(parts.program, parts.rank, parts.comm.maxTag());
    if (!table)
        return table.error();
    m_table = std::move(*table);
    m_requests.resize(m_table.messages.size());
    return connect();
}

/// Tells the communicator whom messages go to and come from.
Status Transfers::connect()
{
    std::set<int> sendsTo;
    std::set<int> receivesFrom;
    for (std::size_t task = 0; task + 1 < m_table.first.size(); ++task) {
        const bool sending = sends(m_parts->program.task(m_parts->own().tasks[task]));
        for (auto m = m_table.first[task]; m < m_table.first[task + 1]; ++m) {
            const Message &message = m_table.messages[static_cast<std::size_t>(m)];
            if (message.peer >= 0 && message.from < 0)
                (sending ? sendsTo : receivesFrom).insert(message.peer);
        }
    }
    const std::vector<int> to(sendsTo.begin(), sendsTo.end());
    const std::vector<int> from(receivesFrom.begin(), receivesFrom.end());
    if (const Status connected = m_parts->comm.connect(to, from); !connected)
        return connected;
    expectMessages();
    return {};
}

/// A task's messages are under way together, and no others of their lane.
void Transfers::expectMessages() const
{
    for (std::size_t task = 0; task + 1 < m_table.first.size(); ++task) {
        const bool sending = sends(m_parts->program.task(m_parts->own().tasks[task]));
        std::vector<comm::Communicator::Expected> together;
        for (auto m = m_table.first[task]; m < m_table.first[task + 1]; ++m)
            if (const Message &message = m_table.messages[static_cast<std::size_t>(m)];
                message.peer >= 0 && message.from < 0)
                together.push_back({message.peer, sending, {}, message.bytes});
        m_parts->comm.expect(together);
    }
}

Status Transfers::start(std::size_t task)
{
    const Task &started = m_parts->program.task(m_parts->own().tasks[task]);
    for (auto m = static_cast<std::size_t>(m_table.first[task]); m < static_cast<std::size_t>(m_table.first[task + 1]);
         ++m)
        if (const Status status = startMessage(m, started); !status)
            return status;
    return {};
}

Status Transfers::startMessage(std::size_t index, const Task &task)
{
    const Message &message = m_table.messages[index];
    std::byte *address = m_parts->arena.use(message.offset, message.bytes);
    if (message.from >= 0) {
        m_parts->queue(task.lane).copy(address, m_parts->arena.use(message.from, message.bytes), message.bytes);
        return {};
    }
    if (message.peer < 0) {
        m_parts->queue(task.lane).fill(address, 0, message.bytes);
        return {};
    }
    std::byte *data = m_parts->device.transportAddress(address);
    comm::Communicator &comm = m_parts->comm;
    const Result<comm::Request> request = sends(task) ? comm.isend(data, message.bytes, message.peer, message.tag)
                                                      : comm.irecv(data, message.bytes, message.peer, message.tag);
    if (!request)
        return request.error();
    m_requests[index] = *request;
    return {};
}

Result<bool> Transfers::test(std::size_t task)
{
    bool all = true;
    for (auto m = static_cast<std::size_t>(m_table.first[task]); m < static_cast<std::size_t>(m_table.first[task + 1]);
         ++m) {
        if (!m_requests[m].pending())
            continue;
        const Result<bool> done = m_parts->comm.test(m_requests[m]);
        if (!done)
            return done.error();
        all = *done && all;
    }
    return all;
}

} // namespace planloom::runtime
