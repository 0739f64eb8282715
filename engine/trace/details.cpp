// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/details.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace planloom::trace {

namespace {

/// Rows of @p column in the order of @p order.
template <class Number>
void reorderColumn(std::vector<Number> &column, std::span<const std::uint32_t> order)
{
    if (column.empty())
        return;
    std::vector<Number> sorted;
    sorted.reserve(order.size());
    for (const std::uint32_t old : order)
        sorted.push_back(column[old]);
    column = std::move(sorted);
}

void reorderRelation(Relation &relation, std::span<const std::uint32_t> order,
                     const std::vector<std::int64_t> &newPlace)
{
    if (relation.empty())
        return;
    reorderColumn(relation.groupOf, order);
    Relation made;
    made.groupOf = std::move(relation.groupOf);
    made.groupBegin.push_back(0);
    for (std::size_t g = 0; g + 1 < relation.groupBegin.size(); ++g) {
        std::uint32_t callers = 0;
        for (std::uint32_t at = relation.groupBegin[g]; at < relation.groupBegin[g + 1]; ++at) {
            const std::int64_t place = newPlace[relation.members[at]];
            if (place < 0)
                continue;
            callers += at < relation.callersEnd[g] ? 1 : 0;
            made.members.push_back(static_cast<std::uint32_t>(place));
        }
        made.callersEnd.push_back(made.groupBegin.back() + callers);
        made.groupBegin.push_back(static_cast<std::uint32_t>(made.members.size()));
    }
    relation = std::move(made);
}

void appendRelation(Relation &to, const Relation &from, std::size_t before, std::size_t count)
{
    if (to.empty() && from.empty())
        return;
    to.groupOf.resize(before, -1);
    if (to.groupBegin.empty())
        to.groupBegin.push_back(0);
    const auto groups = static_cast<std::int32_t>(to.callersEnd.size());
    const auto members = static_cast<std::uint32_t>(to.members.size());
    if (from.empty())
        to.groupOf.resize(before + count, -1);
    for (const std::int32_t group : from.groupOf)
        to.groupOf.push_back(group < 0 ? -1 : group + groups);
    for (const std::uint32_t end : from.callersEnd)
        to.callersEnd.push_back(end + members);
    for (std::size_t g = 1; g < from.groupBegin.size(); ++g)
        to.groupBegin.push_back(from.groupBegin[g] + members);
    for (const std::uint32_t member : from.members)
        to.members.push_back(member + static_cast<std::uint32_t>(before));
}

} // namespace

std::span<const std::uint32_t> Relation::of(std::size_t record) const
{
    if (record >= groupOf.size() || groupOf[record] < 0)
        return {};
    const auto group = static_cast<std::size_t>(groupOf[record]);
    return std::span(members).subspan(groupBegin[group], groupBegin[group + 1] - groupBegin[group]);
}

std::span<const std::uint32_t> Relation::callers(std::size_t record) const
{
    const auto all = of(record);
    if (all.empty())
        return {};
    const auto group = static_cast<std::size_t>(groupOf[record]);
    return all.first(callersEnd[group] - groupBegin[group]);
}

std::span<const std::uint32_t> Relation::caused(std::size_t record) const
{
    return of(record).subspan(callers(record).size());
}

bool Relation::isCaller(std::size_t record) const
{
    const auto all = callers(record);
    return std::ranges::find(all, record) != all.end();
}

std::optional<std::size_t> Details::partner(std::size_t record) const
{
    const auto others = launches.isCaller(record) ? launches.caused(record) : launches.callers(record);
    return others.empty() ? std::nullopt : std::optional<std::size_t>(others.front());
}

std::optional<std::size_t> Details::operatorOf(std::size_t record) const
{
    const auto callers = operators.callers(record);
    return callers.empty() || operators.isCaller(record) ? std::nullopt : std::optional<std::size_t>(callers.front());
}

std::string_view Details::argumentsOf(std::size_t record) const
{
    return record < argumentOf.size() ? std::string_view(arguments[argumentOf[record]]) : std::string_view();
}

void Details::reorder(std::span<const std::uint32_t> order)
{
    if (empty())
        return;
    const std::size_t before = std::max({launches.groupOf.size(), operators.groupOf.size(), argumentOf.size()});
    std::vector<std::int64_t> newPlace(before, -1);
    for (std::size_t i = 0; i < order.size(); ++i)
        newPlace[order[i]] = static_cast<std::int64_t>(i);
    reorderRelation(launches, order, newPlace);
    reorderRelation(operators, order, newPlace);
    reorderColumn(argumentOf, order);
}

void Details::append(const Details &other, std::size_t before, std::size_t count)
{
    appendRelation(launches, other.launches, before, count);
    appendRelation(operators, other.operators, before, count);
    if (argumentOf.empty() && other.argumentOf.empty())
        return;
    if (arguments.empty())
        arguments.emplace_back();
    argumentOf.resize(before, 0);
    const auto first = static_cast<std::uint32_t>(arguments.size()) - 1;
    for (const std::uint32_t row : other.argumentOf)
        argumentOf.push_back(row == 0 ? 0 : first + row);
    argumentOf.resize(before + count, 0);
    if (!other.arguments.empty())
        arguments.insert(arguments.end(), other.arguments.begin() + 1, other.arguments.end());
}

Relation relate(std::span<const RelationRow> rows, const std::function<std::int64_t(std::size_t)> &startOf)
{
    std::vector<std::pair<std::int64_t, std::uint32_t>> order; // id, row: sorted where it lies
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].id > 0)
            order.emplace_back(rows[i].id, static_cast<std::uint32_t>(i));
    }
    std::ranges::sort(order);
    Relation made;
    for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
        for (last = first; last < order.size() && order[last].first == order[first].first;)
            ++last;
        if (last - first < 2)
            continue;
        if (made.groupOf.empty()) {
            made.groupOf.assign(rows.size(), -1);
            made.groupBegin.push_back(0);
        }
        std::uint32_t callers = 0;
        const std::size_t begin = made.members.size();
        for (std::size_t at = first; at < last; ++at) {
            made.groupOf[order[at].second] = static_cast<std::int32_t>(made.callersEnd.size());
            made.members.push_back(order[at].second);
            callers += rows[order[at].second].isCaller ? 1 : 0;
        }
        std::ranges::sort(std::span(made.members).subspan(begin), {},
                          [&](std::uint32_t i) { return std::tuple(rows[i].isCaller ? 0 : 1, startOf(i), i); });
        made.callersEnd.push_back(made.groupBegin.back() + callers);
        made.groupBegin.push_back(static_cast<std::uint32_t>(made.members.size()));
    }
    return made;
}

} // namespace planloom::trace
