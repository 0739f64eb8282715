// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/comparison.h"

#include <nlohmann/json.hpp>

namespace planloom::compare {

using nlohmann::ordered_json;
namespace {

ordered_json orNull(const std::optional<double> &value) { return value ? ordered_json(*value) : ordered_json(); }

ordered_json figuresJson(const std::vector<Figure> &figures)
{
    ordered_json rows = ordered_json::array();
    for (const Figure &figure : figures)
        rows.push_back({{"group", figure.group},
                        {"key", figure.key},
                        {"name", figure.name},
                        {"a", orNull(figure.a)},
                        {"b", orNull(figure.b)},
                        {"delta", orNull(figure.delta())},
                        {"change", orNull(figure.change())}});
    return rows;
}

ordered_json waterfallJson(const Waterfall &waterfall)
{
    if (!waterfall.missing.empty())
        return {};
    ordered_json deltas = ordered_json::array();
    for (const Waterfall::Delta &delta : waterfall.deltas)
        deltas.push_back({{"kind", delta.kind.name}, {"nanoseconds", delta.change}});
    return {{"from_nanoseconds", waterfall.from}, {"to_nanoseconds", waterfall.to}, {"deltas", std::move(deltas)}};
}

ordered_json histogramJson(const Histogram &histogram)
{
    if (histogram.empty())
        return {};
    return {{"begin_seconds", histogram.begin},
            {"bin_seconds", histogram.width},
            {"last_is_open", histogram.lastIsOpen},
            {"a", histogram.a},
            {"b", histogram.b}};
}

ordered_json coursesJson(const std::vector<Course> &courses)
{
    ordered_json rows = ordered_json::array();
    for (const Course &course : courses)
        rows.push_back({{"clock", course.byMeasured ? "measured" : "logical"},
                        {"from_step", course.fromStep},
                        {"steps", course.steps},
                        {"iteration_seconds_median", course.measured},
                        {"predicted_iteration_seconds", course.predicted}});
    return rows;
}

const char *basisName(bool measured) { return measured ? "measured" : "predicted"; }

} // namespace

std::string toJson(const Comparison &comparison)
{
    const ordered_json json{
        {"basis",
         {{"a", basisName(comparison.basis.measuredA)},
          {"b", basisName(comparison.basis.measuredB)},
          {"note", comparison.basis.note}}},
        {"plan_hash", {{"a", comparison.a.planHash}, {"b", comparison.b.planHash}}},
        {"figures", figuresJson(comparison.figures)},
        {"waterfall", waterfallJson(comparison.waterfall)},
        {"histogram", histogramJson(comparison.histogram)},
        {"courses", {{"a", coursesJson(comparison.a.courses)}, {"b", coursesJson(comparison.b.courses)}}},
        {"notes", comparison.notes},
    };
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace planloom::compare
