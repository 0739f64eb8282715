// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/trace.h"

#include <algorithm>
#include <tuple>

namespace planloom::trace {

const char *name(Kind kind)
{
    switch (kind) {
    case Kind::Forward: return "forward";
    case Kind::Backward: return "backward";
    case Kind::Recompute: return "recompute";
    case Kind::Send: return "send";
    case Kind::Receive: return "receive";
    case Kind::AllReduce: return "all-reduce";
    case Kind::Optimizer: return "optimizer";
    case Kind::Load: return "load";
    case Kind::Other: return "other";
    case Kind::AllGather: return "all-gather";
    case Kind::ReduceScatter: return "reduce-scatter";
    case Kind::AllToAll: return "all-to-all";
    case Kind::WeightGradient: return "weight-gradient";
    }
    return "other";
}

void Trace::sort()
{
    const auto key = [](const Record &r) { return std::tuple(r.rank, r.lane, r.start); };
    const auto before = [&](const Record &a, const Record &b) { return key(a) < key(b); };
    if (!std::ranges::is_sorted(records, before))
        std::ranges::stable_sort(records, before);
}

std::int64_t Trace::begin() const
{
    if (records.empty())
        return 0;
    return std::ranges::min_element(records, {}, &Record::start)->start;
}

std::int64_t Trace::end() const
{
    std::int64_t last = records.empty() ? 0 : records.front().start + records.front().duration;
    for (const Record &record : records)
        last = std::max(last, record.start + record.duration);
    return last;
}

} // namespace planloom::trace
