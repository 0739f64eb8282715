// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_reader.h"
#include "engine/cost/cost.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::cost {
namespace {

constexpr const char *kSchema = "planloom.profile/1";

OpTime timeFrom(JsonReader &reader)
{
    const OpTime time{reader.number("samples"), Seconds(reader.number("forward")), Seconds(reader.number("backward"))};
    if (!reader.failed() && time.samples <= 0)
        reader.fail("samples", "must be greater than zero");
    if (!reader.failed() && (time.forward.value() < 0 || time.backward.value() < 0))
        reader.fail({}, "times must not be negative");
    return time;
}

std::vector<OpTime> timesFrom(JsonReader &reader)
{
    std::vector<OpTime> times;
    reader.each([&times](JsonReader &entry) { times.push_back(timeFrom(entry)); });
    if (times.empty())
        reader.fail({}, "needs at least one entry {samples, forward, backward}");
    std::sort(times.begin(), times.end(), [](const OpTime &a, const OpTime &b) { return a.samples < b.samples; });
    const auto twice = std::adjacent_find(times.begin(), times.end(),
                                          [](const OpTime &a, const OpTime &b) { return a.samples == b.samples; });
    if (twice != times.end())
        reader.fail({}, fmt::format("has two entries for {} samples", twice->samples));
    return times;
}

KernelTime kernelFrom(JsonReader &reader)
{
    const KernelTime time{reader.number("samples"), Seconds(reader.number("seconds"))};
    if (!reader.failed() && !(time.samples > 0))
        reader.fail("samples", "must be greater than zero");
    if (!reader.failed() && !(time.seconds.value() >= 0))
        reader.fail("seconds", "must not be negative");
    return time;
}

CurvePoint pointFrom(JsonReader &reader)
{
    const CurvePoint point{reader.number("bytes"), Seconds(reader.number("seconds"))};
    if (!reader.failed() && !(point.bytes > 0))
        reader.fail("bytes", "must be greater than zero");
    if (!reader.failed() && !(point.seconds.value() >= 0))
        reader.fail("seconds", "must not be negative");
    return point;
}

TableRows rowsFrom(JsonReader &reader)
{
    const TableRows rows{reader.number("ids"), reader.number("unique"), reader.number("prior"), reader.number("all")};
    const bool ordered = 0 <= rows.prior && rows.prior <= rows.unique && 0 < rows.unique && rows.unique <= rows.ids
        && rows.unique <= rows.all;
    if (!reader.failed() && !ordered)
        reader.fail({}, "must have 0 <= prior <= unique <= ids, unique <= all, and unique greater than zero");
    return rows;
}

/// The entries of a list, sorted by @p key, which no two may share.
template <class Entry, class From>
std::vector<Entry> sortedBy(JsonReader &reader, const From &from, double Entry::*key, const char *keyName)
{
    std::vector<Entry> entries;
    reader.each([&](JsonReader &entry) { entries.push_back(from(entry)); });
    if (entries.empty())
        reader.fail({}, "needs at least one entry");
    std::sort(entries.begin(), entries.end(), [key](const Entry &a, const Entry &b) { return a.*key < b.*key; });
    const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                          [key](const Entry &a, const Entry &b) { return a.*key == b.*key; });
    if (twice != entries.end())
        reader.fail({}, fmt::format("has two entries for {} {}", (*twice).*key, keyName));
    return entries;
}

nlohmann::json kernelsJson(const Profile &profile)
{
    nlohmann::json kernels = nlohmann::json::object();
    for (const auto &[signature, times] : profile.kernels) {
        for (const KernelTime &time : times)
            kernels[signature].push_back({{"samples", time.samples}, {"seconds", time.seconds.value()}});
    }
    return kernels;
}

nlohmann::json curvesJson(const Profile &profile)
{
    nlohmann::json curves = nlohmann::json::object();
    for (const auto &[name, points] : profile.curves) {
        for (const CurvePoint &point : points)
            curves[name].push_back({{"bytes", point.bytes}, {"seconds", point.seconds.value()}});
    }
    return curves;
}

} // namespace

std::string toJson(const Profile &profile)
{
    nlohmann::json ops = nlohmann::json::object();
    for (const auto &[name, times] : profile.ops) {
        nlohmann::json entries = nlohmann::json::array();
        for (const OpTime &time : times)
            entries.push_back(
                {{"samples", time.samples}, {"forward", time.forward.value()}, {"backward", time.backward.value()}});
        ops[name] = std::move(entries);
    }
    nlohmann::json document{{"schema", kSchema},        {"model", profile.model}, {"device_type", profile.deviceType},
                            {"source", profile.source}, {"ops", std::move(ops)},  {"extra", profile.extra}};
    if (profile.ranks != 1)
        document["ranks"] = profile.ranks;
    if (!profile.kernels.empty())
        document["kernels"] = kernelsJson(profile);
    if (!profile.curves.empty())
        document["curves"] = curvesJson(profile);
    for (const auto &[table, rows] : profile.tables)
        document["tables"][table] = {
            {"ids", rows.ids}, {"unique", rows.unique}, {"prior", rows.prior}, {"all", rows.all}};
    return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Profile> profileFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    if (const std::string schema = reader.text("schema"); !reader.failed() && schema != kSchema)
        return unsupported(
            fmt::format("field \"schema\": \"{}\" is not \"{}\"; this Planloom reads no other", schema, kSchema));
    Profile profile;
    profile.model = reader.text("model", std::string());
    profile.deviceType = reader.text("device_type", std::string());
    profile.source = reader.text("source", std::string());
    reader.each("ops", [&profile](JsonReader &entry) { profile.ops[entry.name()] = timesFrom(entry); });
    constexpr std::int64_t kMostRanks = 1 << 20;
    profile.ranks = static_cast<int>(reader.integerOr("ranks", 1, 1, kMostRanks));
    reader.each("kernels", [&profile](JsonReader &entry) {
        profile.kernels[entry.name()] = sortedBy<KernelTime>(entry, kernelFrom, &KernelTime::samples, "samples");
    });
    reader.each("curves", [&profile](JsonReader &entry) {
        profile.curves[entry.name()] = sortedBy<CurvePoint>(entry, pointFrom, &CurvePoint::bytes, "bytes");
    });
    reader.each("tables", [&profile](JsonReader &entry) { profile.tables[entry.name()] = rowsFrom(entry); });
    reader.each("extra", [&profile](JsonReader &entry) { profile.extra[entry.name()] = entry.asNumber(); });
    if (Status status = reader.failure(text); !status)
        return status.error();
    return profile;
}

} // namespace planloom::cost
