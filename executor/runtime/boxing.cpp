// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/boxing.h"

#include <vector>

namespace planloom::runtime {

using cost::Collective;

namespace {

/// All of it to the member so many places behind. Where none sends anything, the own stays.
Result<comm::Request> startShift(const program::Boxing &boxing, const Communication &what, const BoxingMember &member)
{
    const auto members = static_cast<std::ptrdiff_t>(member.size);
    const auto at = static_cast<std::ptrdiff_t>(member.at);
    std::vector<std::int64_t> to(member.size);
    std::vector<std::int64_t> from(member.size);
    if (const std::ptrdiff_t next = at + boxing.shift; next >= 0 && next < members)
        to[static_cast<std::size_t>(next)] = what.inputBytes;
    if (const std::ptrdiff_t before = at - boxing.shift; before >= 0 && before < members)
        from[static_cast<std::size_t>(before)] = what.outputBytes;
    return member.comm.allToAll(member.group, what.input, to, what.output, from);
}

} // namespace

bool beginsInPlace(const program::Boxing &boxing, const BoxingMember &member)
{
    if (boxing.shift == 0)
        return boxing.collective != Collective::AllGather && boxing.collective != Collective::ReduceScatter
            && boxing.collective != Collective::AllToAll;
    const std::ptrdiff_t before = static_cast<std::ptrdiff_t>(member.at) - boxing.shift;
    return before < 0 || before >= static_cast<std::ptrdiff_t>(member.size);
}

Result<comm::Request> startBoxing(const program::Boxing &boxing, const Communication &what, const BoxingMember &member)
{
    if (boxing.shift != 0)
        return startShift(boxing, what, member);
    const comm::Element element = what.type == graph::DType::BF16 ? comm::Element::BFloat16 : comm::Element::Float32;
    comm::Communicator &comm = member.comm;
    switch (boxing.collective) {
    case Collective::AllGather: return comm.allGather(member.group, what.input, what.output, what.inputBytes);
    case Collective::ReduceScatter:
        return comm.reduceScatter(member.group, element, what.input, what.output,
                                  what.outputBytes / comm::bytesOf(element));
    case Collective::AllToAll:
        return comm.allToAll(member.group, what.input, what.output,
                             what.inputBytes / static_cast<std::int64_t>(member.size));
    default: return comm.allReduce(member.group, element, what.output, what.outputBytes / comm::bytesOf(element));
    }
}

} // namespace planloom::runtime
