// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/looked_up_rows.h"

#include "engine/cost/sparse_rows.h"

#include <algorithm>
#include <cmath>

namespace planloom::cost {
namespace {

TableRows byZipfsLaw(std::int64_t tableRows, std::int64_t ids, std::int64_t workers)
{
    const ExpectedRows rows = expectedRows(tableRows, ids, static_cast<int>(workers));
    return {static_cast<double>(ids), rows.unique, rows.prior, expectedRows(tableRows, ids * workers, 1).unique};
}

} // namespace

TableRows lookedUpRows(const Profile *profile, const std::string &table, std::int64_t tableRows, std::int64_t ids,
                       std::int64_t workers)
{
    TableRows rows = byZipfsLaw(tableRows, ids, workers);
    if (profile == nullptr)
        return rows;
    const auto known = profile->tables.find(table);
    if (known == profile->tables.end())
        return rows;
    const TableRows &counted = known->second;
    const TableRows there = byZipfsLaw(tableRows, std::llround(counted.ids), workers);
    const auto scaled = [](double now, double then, double measured) { return now / then * measured; };
    rows.unique = std::min(scaled(rows.unique, there.unique, counted.unique), rows.ids);
    rows.prior = rows.unique * counted.prior / counted.unique;
    rows.all = std::max(scaled(rows.all, there.all, counted.all), rows.unique);
    return rows;
}

} // namespace planloom::cost
