// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/measured_times.h"

#include "engine/base/json_reader.h"

#include <cmath>

namespace planloom::memory {
namespace {

double secondsIn(JsonReader &reader, const char *key)
{
    const double seconds = reader.number(key);
    if (!(std::isfinite(seconds) && seconds >= 0))
        reader.fail(key, "is no time; give seconds of 0 or more");
    return seconds;
}

MeasuredTimes timesFrom(JsonReader &reader)
{
    MeasuredTimes times;
    times.copyBytes = reader.integer("copy_bytes", 0);
    times.secondsOut = secondsIn(reader, "seconds_out");
    times.secondsIn = secondsIn(reader, "seconds_in");
    reader.list("operators", [&](JsonReader &entry) {
        const double seconds = entry.asNumber();
        if (!(std::isfinite(seconds) && seconds >= 0))
            entry.fail({}, "is no time; give seconds of 0 or more");
        times.operators.push_back(seconds);
    });
    return times;
}

} // namespace

std::string toJson(const RunTimes &times)
{
    auto ranks = nlohmann::ordered_json::array();
    for (const MeasuredTimes &rank : times.ranks)
        ranks.push_back({{"copy_bytes", rank.copyBytes},
                         {"seconds_out", rank.secondsOut},
                         {"seconds_in", rank.secondsIn},
                         {"operators", rank.operators}});
    return nlohmann::ordered_json{{"from_step", times.fromStep}, {"ranks", std::move(ranks)}}.dump() + "\n";
}

Result<RunTimes> runTimesFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    RunTimes times;
    times.fromStep = reader.integer("from_step", 0);
    reader.list("ranks", [&](JsonReader &entry) { times.ranks.push_back(timesFrom(entry)); });
    if (const Status good = reader.failure(text); !good)
        return good.error();
    return times;
}

} // namespace planloom::memory
