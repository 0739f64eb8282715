// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/measured_course.h"

#include "engine/plan/fingerprint.h"
#include "executor/runtime/host_pieces.h"

#include <algorithm>

namespace planloom::runtime {

bool decidesByMeasured(const plan::Plan &plan)
{
    return std::any_of(plan.stages.begin(), plan.stages.end(),
                       [](const plan::Stage &stage) { return stage.memory.measures(); });
}

std::string measuredTraceOf(const std::string &runDir, int rank)
{
    return runDir + "/measured.rank" + std::to_string(rank) + ".pltrace";
}

Result<trace::TraceWriter> openMeasuredTrace(const std::string &runDir, int rank, const program::Program &program,
                                             const plan::Document &document)
{
    return trace::TraceWriter::create(measuredTraceOf(runDir, rank), "wall",
                                      program::traceTables(program, *document.subject.cluster),
                                      plan::fingerprint(document));
}

Result<memory::RunTimes> shareTimes(const program::Program &program, const memory::MeasuredTimes &own,
                                    comm::Communicator &communicator, std::chrono::nanoseconds deadline)
{
    constexpr std::size_t kBesides = 3; // numbers of a rank beside its operators
    std::vector<std::size_t> counts;
    std::size_t all = 0;
    std::size_t begin = 0; // of this rank's
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
        const program::Body &body = program.body(program.ranks[r].bodies.front());
        counts.push_back(body.training.graph.ops().size() * body.slices.size());
        begin = r == static_cast<std::size_t>(communicator.rank()) ? all : begin;
        all += counts.back() + kBesides;
    }
    // Everywhere else a rank adds zeros: sums are what one rank has, to the bit.
    std::vector<double> numbers(all, 0);
    numbers[begin] = static_cast<double>(own.copyBytes);
    numbers[begin + 1] = own.secondsOut;
    numbers[begin + 2] = own.secondsIn;
    std::copy(own.operators.begin(), own.operators.end(),
              numbers.begin() + static_cast<std::ptrdiff_t>(begin + kBesides));
    auto request = communicator.allReduce(communicator.world(), comm::Element::Float64, numbers.data(),
                                          static_cast<std::int64_t>(numbers.size()));
    if (!request)
        return request.error();
    if (const Status done = communicator.wait(*request, deadline, "the other ranks' measured times"); !done)
        return done.error();
    memory::RunTimes times;
    auto at = numbers.begin();
    for (const std::size_t count : counts) {
        const auto first = at + static_cast<std::ptrdiff_t>(kBesides);
        const auto last = first + static_cast<std::ptrdiff_t>(count);
        times.ranks.push_back({{first, last}, static_cast<std::int64_t>(at[0]), at[1], at[2]});
        at = last;
    }
    return times;
}

namespace {

using Held = program::PersistentTensor;

/// What is held of @p held, in the order of its fields.
Status addHeld(HostPieces &pieces, const Held &held)
{
    const auto add = [&](std::int64_t offset, std::int64_t count, graph::DType type) -> Status {
        if (offset < 0 || count == 0)
            return {};
        return pieces.add({.name = held.name,
                           .type = type,
                           .shape = {count},
                           .region = checkpoint::wholeRegion({count}),
                           .flatBegin = 0,
                           .flatCount = count},
                          held, offset);
    };
    if (held.kind == Held::Kind::Constant)
        return {};
    if (const Status added = add(held.offset, held.count, held.type); !added)
        return added;
    for (const std::int64_t state : held.states)
        if (const Status added = add(state, held.updateCount, graph::DType::F32); !added)
            return added;
    return add(held.copy, held.copyCount, graph::DType::BF16);
}

Result<HostPieces> piecesHeld(RankExecutor &executor)
{
    auto pieces = HostPieces::create(executor.context());
    if (!pieces)
        return pieces;
    for (const Held &held : executor.persistent())
        if (const Status added = addHeld(*pieces, held); !added)
            return added.error();
    return pieces;
}

} // namespace

Result<Holdings> holdingsOf(RankExecutor &executor)
{
    if (const Status here = executor.bringStates(); !here)
        return here.error();
    auto pieces = piecesHeld(executor);
    if (!pieces)
        return pieces.error();
    if (const Status read = pieces->download(); !read)
        return read.error();
    Holdings holdings;
    for (const checkpoint::Piece &piece : pieces->pieces())
        holdings.emplace_back(piece.data, piece.data + piece.bytes());
    return holdings;
}

Result<Measured> takeMeasured(RankExecutor &executor, comm::Communicator &communicator)
{
    const auto own = executor.measuredTimes(); // before states come to where its copies are made
    if (!own)
        return own.error();
    auto times = shareTimes(executor.program(), *own, communicator, executor.deadline());
    if (!times)
        return times.error();
    auto holdings = holdingsOf(executor);
    if (!holdings)
        return holdings.error();
    return Measured{*std::move(times), *std::move(holdings), {}};
}

Status setHoldings(RankExecutor &executor, const Holdings &holdings)
{
    auto pieces = piecesHeld(executor);
    if (!pieces)
        return pieces.error();
    const auto of = pieces->pieces();
    for (std::size_t i = 0; i < of.size(); ++i) {
        if (of.size() != holdings.size() || std::ssize(holdings[i]) != of[i].bytes())
            return failed("the steps before hold other tensors than those that follow");
        std::copy(holdings[i].begin(), holdings[i].end(), of[i].data);
    }
    return pieces->upload();
}

} // namespace planloom::runtime
