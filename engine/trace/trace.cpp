// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/trace.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace planloom::trace {

namespace {

/// Made as data, checked by the compiler: row k describes kind k.
struct KindRow {
    Kind kind;
    const char *name;
    Work work;
    const char *hue;
    const char *texture;
    const char *legend;
};
constexpr KindRow kKinds[] = {
    {Kind::Forward, "forward", Work::Compute, "sky", "plain", "forward"},
    {Kind::Backward, "backward", Work::Compute, "orange", "diagonal", "backward"},
    {Kind::Recompute, "recompute", Work::Compute, "yellow", "dots", "recompute"},
    {Kind::Send, "send", Work::Communication, "green", "plain", "send, receive"},
    {Kind::Receive, "receive", Work::Communication, "green", "plain", "send, receive"},
    {Kind::AllReduce, "all-reduce", Work::Communication, "purple", "plain", "collectives"},
    {Kind::Optimizer, "optimizer", Work::Update, "vermilion", "lines", "optimizer"},
    {Kind::Load, "load", Work::Host, "grey", "plain", "load"},
    {Kind::Other, "other", Work::Host, "grey", "plain", ""},
    {Kind::AllGather, "all-gather", Work::Communication, "purple", "plain", "collectives"},
    {Kind::ReduceScatter, "reduce-scatter", Work::Communication, "purple", "plain", "collectives"},
    {Kind::AllToAll, "all-to-all", Work::Communication, "purple", "plain", "collectives"},
    {Kind::WeightGradient, "weight-gradient", Work::Compute, "orange", "points", "weight gradient"},
    {Kind::Agreement, "agreement", Work::Host, "grey", "plain", "agreement"},
    {Kind::Snapshot, "snapshot", Work::Update, "vermilion", "points", "snapshot, merge, rows"},
    {Kind::Merge, "merge", Work::Update, "vermilion", "points", "snapshot, merge, rows"},
    {Kind::Rows, "rows", Work::Update, "vermilion", "points", "snapshot, merge, rows"},
    {Kind::CopyOut, "copy-out", Work::Communication, "green", "lines", "copies to and from the host"},
    {Kind::CopyIn, "copy-in", Work::Communication, "green", "lines", "copies to and from the host"},
    {Kind::LookUp, "look-up", Work::Communication, "purple", "dots", "rows looked up"},
    {Kind::RowGradients, "row-gradients", Work::Communication, "purple", "diagonal", "gradients of rows"},
    {Kind::DelayedRows, "delayed-rows", Work::Communication, "purple", "lines", "delayed rows"},
    {Kind::Average, "average", Work::Communication, "purple", "points", "average"},
};

consteval bool inOrder()
{
    std::size_t next = 0;
    for (const KindRow &row : kKinds) {
        if (static_cast<std::size_t>(row.kind) != next++)
            return false;
    }
    return true;
}
static_assert(inOrder());

template <class Rows, class Row>
const Row &rowOr(const Rows &rows, std::int64_t index, const Row &none)
{
    return index >= 0 && static_cast<std::size_t>(index) < rows.size() ? rows[static_cast<std::size_t>(index)] : none;
}

} // namespace

const char *name(Work work)
{
    switch (work) {
    case Work::Compute: return "compute";
    case Work::Communication: return "communication";
    case Work::Update: return "update";
    case Work::Host: return "host";
    case Work::Device: return "device";
    }
    return "?";
}

const std::vector<KindInfo> &standardKinds()
{
    static const std::vector<KindInfo> kinds = [] {
        std::vector<KindInfo> made;
        for (const KindRow &row : kKinds)
            made.push_back({row.name, row.work, row.hue, row.texture, row.legend});
        return made;
    }();
    return kinds;
}

const LaneInfo &Tables::lane(std::int32_t index) const
{
    static const LaneInfo none{"?", Work::Host, 1};
    return rowOr(lanes, index, none);
}

const KindInfo &Tables::kind(Kind index) const
{
    static const KindInfo none{"?", Work::Host, "grey", "plain", ""};
    return rowOr(kinds, static_cast<std::int64_t>(index), none);
}

const TaskInfo *Tables::task(std::int32_t index) const
{
    return index >= 0 && static_cast<std::size_t>(index) < tasks.size() ? &tasks[static_cast<std::size_t>(index)]
                                                                        : nullptr;
}

namespace {

auto placeOfRecord(const Record &r) { return std::tuple(r.rank, r.lane, r.start); }

} // namespace

void Trace::sort()
{
    const auto before = [](const Record &a, const Record &b) { return placeOfRecord(a) < placeOfRecord(b); };
    if (std::ranges::is_sorted(records, before))
        return;
    if (details.empty()) {
        std::ranges::stable_sort(records, before);
        return;
    }
    std::vector<std::uint32_t> order(records.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return before(records[a], records[b]); });
    std::vector<Record> sorted;
    sorted.reserve(records.size());
    for (const std::uint32_t old : order)
        sorted.push_back(records[old]);
    records = std::move(sorted);
    details.reorder(order);
}

std::optional<std::size_t> Trace::numberOf(const Record &record) const
{
    const auto place = placeOfRecord(record);
    auto at = std::ranges::lower_bound(records, place, {}, placeOfRecord);
    for (; at != records.end() && placeOfRecord(*at) == place; ++at) {
        if (*at == record)
            return static_cast<std::size_t>(at - records.begin());
    }
    return std::nullopt;
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
