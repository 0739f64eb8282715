// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/parameter_server.h"

#include "engine/plan/training.h"
#include "executor/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

namespace planloom::runtime {
namespace {

// Kinds of requests; ServerRequest::reserved of the last two: 0 parameters, s + 1 state s of the update rule.
constexpr std::int64_t kPush = 1;   ///< gradients of a bucket; answered by its parameters, once all are there
constexpr std::int64_t kSet = 2;    ///< first values
constexpr std::int64_t kStates = 3; ///< answered by the values

constexpr std::int64_t kHeaderBytes = sizeof(ServerRequest);

/// A trainer's server, its part of the parameters and what it needs to update them.
class TrainingServer final : public ServerWork {
public:
    TrainingServer(const SampledContext &context, const program::Program &program, const ServedLayout &layout,
                   std::size_t number, ServerLoop &loop)
        : m_context(context),
          m_program(program),
          m_layout(layout),
          m_number(number),
          m_loop(loop),
          m_trainers(static_cast<std::size_t>(SampledRanks(context.plan).trainers())),
          m_arrived(program.buckets.size(), std::vector<bool>(m_trainers))
    {
        m_updateRow = context.link.rowOf(fmt::format("p{}.U", number));
    }

    /// Errors: those of the device.
    Status prepare()
    {
        device::Device &device = device::cpuDevice();
        const auto states = static_cast<std::size_t>(m_context.plan.optimizer.rule.formula().states);
        for (std::size_t i = 0; i < kSums + 1 + states + m_trainers; ++i) {
            auto memory = device.allocate(device::Space::Host, std::max<std::int64_t>(64, m_layout.bytes(m_number)));
            if (!memory)
                return memory.error();
            m_memory.push_back(std::move(*memory));
        }
        m_states = states;
        auto queue = device.makeQueue();
        if (!queue)
            return queue.error();
        m_queue = std::move(*queue);
        for (std::size_t bucket = 0; bucket < m_program.buckets.size(); ++bucket) {
            auto updates = device.makeUpdates(m_context.plan.optimizer.rule.formula(), rangesOf(bucket));
            if (!updates)
                return updates.error();
            m_updates.push_back(std::move(*updates));
        }
        return {};
    }

    Result<std::span<std::byte>> room(int worker, const ServerRequest &request) override
    {
        const bool known = request.part >= 0 && request.part < static_cast<std::int64_t>(m_arrived.size())
            && request.reserved >= 0 && request.reserved <= static_cast<std::int64_t>(m_states);
        if (!known)
            return failed("a trainer asked for a bucket that the plan does not have");
        if (request.kind == kPush)
            return bytesOf(inbox(worker), request.part);
        return request.kind == kSet ? bytesOf(valuesOf(request.reserved), request.part) : std::span<std::byte>();
    }

    Status arrived(int worker, const ServerRequest &request) override
    {
        const auto bucket = static_cast<std::size_t>(request.part);
        if (request.kind == kStates)
            return m_loop.answer(worker, request.part, bytesOf(valuesOf(request.reserved), request.part), request.step,
                                 false);
        if (request.kind != kPush)
            return {};
        m_arrived[bucket][static_cast<std::size_t>(worker)] = true;
        if (std::ranges::count(m_arrived[bucket], true) < static_cast<std::ptrdiff_t>(m_trainers))
            return {};
        m_arrived[bucket].assign(m_trainers, false);
        if (Status free = m_loop.answered(request.part); !free) // of the step before
            return free;
        update(bucket, request.step);
        for (std::size_t trainer = 0; trainer < m_trainers; ++trainer) {
            if (Status gone = m_loop.answer(static_cast<int>(trainer), request.part, bytesOf(m_memory[0], request.part),
                                            request.step);
                !gone)
                return gone;
        }
        note(request.step);
        return {};
    }

    [[nodiscard]] std::vector<int> waitedFor() const override
    {
        std::vector<int> missing;
        for (std::size_t trainer = 0; trainer < m_trainers; ++trainer) {
            const bool late = std::ranges::any_of(m_arrived, [trainer](const std::vector<bool> &of) {
                return !of[trainer] && std::ranges::count(of, true) > 0;
            });
            if (late)
                missing.push_back(static_cast<int>(trainer));
        }
        return missing;
    }

private:
    static constexpr std::size_t kSums = 1; ///< m_memory: parameters, sums of gradients, states, inboxes

    [[nodiscard]] device::Memory &inbox(int worker)
    {
        return m_memory[kSums + 1 + m_states + static_cast<std::size_t>(worker)];
    }
    [[nodiscard]] device::Memory &valuesOf(std::int64_t array)
    {
        return m_memory[array == 0 ? 0 : kSums + static_cast<std::size_t>(array)];
    }
    [[nodiscard]] const ServedLayout::Piece &piece(std::int64_t bucket) const
    {
        return m_layout.piece(m_number, static_cast<std::size_t>(bucket));
    }
    [[nodiscard]] std::span<std::byte> bytesOf(device::Memory &memory, std::int64_t bucket) const
    {
        return {memory.data() + 4 * piece(bucket).at, static_cast<std::size_t>(piece(bucket).bytes())};
    }
    [[nodiscard]] static float *floats(device::Memory &memory, std::int64_t at)
    {
        return reinterpret_cast<float *>(memory.data()) + at;
    }

    /// The parameters of a bucket as far as they are here.
    std::vector<device::UpdateRange> rangesOf(std::size_t index)
    {
        const program::Bucket &bucket = m_program.buckets[index];
        const ServedLayout::Piece &own = m_layout.piece(m_number, index);
        std::vector<device::UpdateRange> ranges;
        for (const program::Bucket::Entry &entry : bucket.entries) {
            const std::int64_t begin = std::max(entry.at, own.begin);
            const std::int64_t end = std::min(entry.at + entry.elements, own.end);
            if (begin >= end)
                continue;
            const plan::ParameterSettings settings =
                plan::settingsOf(m_context.plan.optimizer, entry.parameter, rankOf(entry.parameter));
            const std::int64_t at = own.at + begin - own.begin;
            device::UpdateRange range;
            range.parameter = floats(m_memory[0], at);
            range.gradient = floats(m_memory[kSums], at);
            for (std::size_t state = 0; state < m_states; ++state)
                range.states[state] = floats(m_memory[kSums + 1 + state], at);
            range.count = end - begin;
            range.rateFactor = static_cast<float>(settings.learningRateFactor);
            range.decay = static_cast<float>(settings.weightDecay);
            range.tensor = static_cast<std::int32_t>(ranges.size());
            ranges.push_back(range);
        }
        return ranges;
    }

    [[nodiscard]] std::size_t rankOf(const std::string &parameter) const
    {
        for (const program::PersistentTensor &held : m_program.bodies.front().persistent) {
            if (held.name == parameter)
                return held.sizes.size();
        }
        return 0;
    }

    void update(std::size_t bucket, std::int64_t step)
    {
        const std::int64_t started = m_context.link.now();
        const ServedLayout::Piece &own = m_layout.piece(m_number, bucket);
        std::vector<const float *> gradients;
        for (std::size_t trainer = 0; trainer < m_trainers; ++trainer)
            gradients.push_back(floats(inbox(static_cast<int>(trainer)), own.at));
        addAsAllReduce(m_program.buckets[bucket].elements, own.begin, own.size(), gradients,
                       floats(m_memory[kSums], own.at));
        const plan::Optimizer &how = m_context.plan.optimizer;
        const double rate =
            how.learningRate * plan::learningRateFactor(how.schedule, step, m_context.request.settings.steps);
        m_queue->update(*m_updates[bucket], {.learningRate = rate, .step = step + 1});
        m_context.link.record(m_updateRow, step, started);
    }

    /// What every trainer gets in a step, once.
    void note(std::int64_t step)
    {
        if (step == m_noted)
            return;
        m_noted = step;
        for (std::size_t trainer = 0; trainer < m_trainers; ++trainer)
            m_context.sent.add(step, fmt::format("w{}", trainer), m_layout.bytes(m_number));
    }

    const SampledContext &m_context;
    const program::Program &m_program;
    const ServedLayout &m_layout;
    std::size_t m_number;
    ServerLoop &m_loop;
    std::size_t m_trainers;
    std::size_t m_states = 0;
    std::vector<device::Memory> m_memory;
    std::unique_ptr<device::Queue> m_queue;                  ///< of the processor: it runs in place
    std::vector<std::unique_ptr<device::Updates>> m_updates; ///< by bucket
    std::vector<std::vector<bool>> m_arrived;                ///< by bucket and trainer: gradients of this step
    std::int64_t m_noted = -1;
    std::int32_t m_updateRow = -1;
};

} // namespace

Status runParameterServer(const SampledContext &context, const program::Program &program)
{
    const SampledRanks ranks(context.plan);
    const int own = ranks.numberOf(context.link.communicator().rank());
    std::vector<ServerLoop::Worker> workers;
    for (int trainer = 0; trainer < ranks.trainers(); ++trainer)
        workers.push_back({trainer, ranks.nameOf(trainer), context.link.rowOf(fmt::format("w{}p{}", trainer, own)),
                           context.link.rowOf(fmt::format("p{}w{}", own, trainer))});
    const ServedLayout layout(program, ranks.ofKind(gnn::RoleKind::ParameterServer).size());
    ServerLoop loop(context.link, std::move(workers), context.deadline());
    TrainingServer server(context, program, layout, static_cast<std::size_t>(own), loop);
    const Status prepared = server.prepare();
    return prepared ? loop.run(server) : prepared;
}

std::vector<SampledTransfer> servedTransfers(const plan::Plan &plan, const ServedLayout &layout, std::int64_t step)
{
    std::vector<SampledTransfer> transfers;
    std::size_t server = 0;
    for (const plan::PlacedRole &role : plan.roles) {
        if (role.kind != gnn::RoleKind::ParameterServer)
            continue;
        for (std::size_t trainer = 0; trainer < plan.stages.front().replicas(); ++trainer) {
            const std::string worker = fmt::format("w{}", trainer);
            if (layout.bytes(server) > 0) {
                transfers.push_back(
                    {step, worker, role.name, layout.bytes(server) + kHeaderBytes * layout.pieces(server)});
                transfers.push_back({step, role.name, worker, layout.bytes(server)});
            }
        }
        ++server;
    }
    return transfers;
}

ServedParameters::ServedParameters(const SampledContext &context, const program::Program &program)
    : m_context(context),
      m_program(program),
      m_layout(program, SampledRanks(context.plan).ofKind(gnn::RoleKind::ParameterServer).size())
{
    const SampledRanks ranks(context.plan);
    const int own = context.link.communicator().rank();
    for (const int rank : ranks.ofKind(gnn::RoleKind::ParameterServer)) {
        const int number = ranks.numberOf(rank);
        m_servers.push_back({rank, ranks.nameOf(rank), context.link.rowOf(fmt::format("w{}p{}", own, number)),
                             context.link.rowOf(fmt::format("p{}w{}", number, own)),
                             std::vector<ServerCall>(program.buckets.size())});
    }
}

std::unique_ptr<ServedParameters> ServedParameters::create(const SampledContext &context,
                                                           const program::Program &program)
{
    return std::unique_ptr<ServedParameters>(new ServedParameters(context, program));
}

std::span<std::byte> ServedParameters::bytesAt(std::int64_t offset, const ServedLayout::Piece &piece) const
{
    return {m_parts->forTransport(offset + 4 * piece.begin, piece.bytes()), static_cast<std::size_t>(piece.bytes())};
}

std::size_t ServedParameters::position(const program::Bucket &bucket) const
{
    return m_program.team(bucket.team).position(m_parts->rank);
}

/// Calls @p call for each server, bucket with a part there, and array of values: 0 parameters, s + 1 state s.
template <class Call>
Status ServedParameters::eachArray(std::size_t first, const Call &call)
{
    for (Server &server : m_servers) {
        const auto number = static_cast<std::size_t>(&server - m_servers.data());
        for (std::size_t b = 0; b < m_program.buckets.size(); ++b) {
            const program::Bucket &bucket = m_program.buckets[b];
            const ServedLayout::Piece &piece = m_layout.piece(number, b);
            for (std::size_t array = first; piece.size() > 0 && array <= bucket.states.size(); ++array) {
                const std::size_t at = position(bucket);
                const std::int64_t offset = array == 0 ? bucket.parameters[at] : bucket.states[array - 1][at];
                ServerRequest request;
                request.step = -1; // of no step
                request.part = static_cast<std::int64_t>(b);
                request.reserved = static_cast<std::int64_t>(array);
                if (Status done = call(server, request, bytesAt(offset, piece)); !done)
                    return done;
                if (Status done = server.calls[b].wait(m_context.link, m_context.trainersDeadline(), server.name);
                    !done)
                    return done;
            }
        }
    }
    return {};
}

Status ServedParameters::begin(RankParts &parts)
{
    if (!parts.device.hostAddressable())
        return unsupported(
            "parameter servers get gradients from this machine's memory, and a trainer has them on a GPU; "
            "plan without servers, or train on processors");
    m_parts = &parts;
    if (m_context.link.communicator().rank() != 0)
        return {};
    return eachArray(0, [this](Server &server, ServerRequest request, std::span<std::byte> values) {
        request.kind = kSet;
        return server.calls[static_cast<std::size_t>(request.part)].start(m_context.link, server.rank, request, values,
                                                                          {});
    });
}

Status ServedParameters::fetchStates()
{
    if (m_context.link.communicator().rank() != 0)
        return {};
    return eachArray(1, [this](Server &server, ServerRequest request, std::span<std::byte> values) {
        request.kind = kStates;
        return server.calls[static_cast<std::size_t>(request.part)].start(m_context.link, server.rank, request, {},
                                                                          values);
    });
}

Status ServedParameters::push(BucketId index, std::int64_t step)
{
    const program::Bucket &bucket = m_program.bucket(index);
    const std::size_t at = position(bucket);
    for (std::size_t number = 0; number < m_servers.size(); ++number) {
        Server &server = m_servers[number];
        const ServedLayout::Piece &piece = m_layout.piece(number, index.index());
        if (piece.size() == 0)
            continue;
        ServerRequest request;
        request.kind = kPush;
        request.step = step;
        request.part = index.value;
        if (Status gone = server.calls[index.index()].start(m_context.link, server.rank, request,
                                                            bytesAt(bucket.gradients[at], piece),
                                                            bytesAt(bucket.parameters[at], piece), server.pushRow,
                                                            server.pullRow);
            !gone)
            return gone;
        if (server.noted != step)
            m_context.sent.add(step, server.name, m_layout.bytes(number) + kHeaderBytes * m_layout.pieces(number));
        server.noted = step;
    }
    return {};
}

Result<bool> ServedParameters::pulled(BucketId index)
{
    for (Server &server : m_servers) {
        const Result<bool> done = server.calls[index.index()].test(m_context.link);
        if (!done || !*done)
            return done;
    }
    const program::Bucket &bucket = m_program.bucket(index);
    m_parts->queue(program::Lane::Compute)
        .fill(m_parts->arena.use(bucket.gradients[position(bucket)], bucket.bytes()), 0, bucket.bytes());
    return true;
}

std::string ServedParameters::underWay() const
{
    std::string late;
    for (const Server &server : m_servers) {
        if (std::ranges::any_of(server.calls, &ServerCall::pending))
            late += (late.empty() ? "no answer of parameter server " : " and ") + server.name;
    }
    return late;
}

Status ServedParameters::close()
{
    for (Server &server : m_servers) {
        ServerCall last;
        if (Status gone = last.start(m_context.link, server.rank, {}, {}, {}); !gone)
            return gone;
        if (Status gone = last.wait(m_context.link, m_context.trainersDeadline(), server.name); !gone)
            return gone;
    }
    return {};
}

} // namespace planloom::runtime
