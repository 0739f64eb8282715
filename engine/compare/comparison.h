// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compare/histogram.h"
#include "engine/compare/side.h"
#include "engine/compare/waterfall.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::compare {

/// What a figure is counted in.
enum class Unit : std::uint8_t {
    Seconds,
    Bytes,
    Rate,  ///< per second
    Share, ///< 0.1 is 10 %; differences are in points
    Value,
};

/// A row: a quantity of A and of B.
struct Figure {
    std::string group; ///< "Step", "Time by kind" ...
    std::string key;   ///< of JSON, unique: "step_seconds", "kind/forward"
    std::string name;  ///< for people
    Unit unit = Unit::Value;
    std::optional<double> a, b; ///< nothing: not known, or not there
    bool alike = true;          ///< false: the two are not the same quantity, and have no difference

    [[nodiscard]] std::optional<double> delta() const;  ///< b - a
    [[nodiscard]] std::optional<double> change() const; ///< b / a - 1; nothing of shares, and where a is 0
};

/// For people: "12.3 ms", "–" where it is not known.
std::string valueText(Unit unit, const std::optional<double> &value);
std::string deltaText(const Figure &figure);  ///< "+1.2 ms", "-3.1 points", "–"
std::string changeText(const Figure &figure); ///< "+12.3 %", "–"

/// Which times of the two are compared. A measurement is compared with another measurement, or with the prediction of
/// the same plan (equal hashes); otherwise predictions are compared.
struct Basis {
    bool measuredA = false;
    bool measuredB = false;
    /// Of a run with two courses that is compared with its prediction: the steps of the first one, which that is of.
    bool firstCourse = false;
    std::string note; ///< a sentence, where something is not compared that one would expect; empty: all is
};
Basis basisOf(const Side &a, const Side &b);

/// Two sides, ready to be shown.
struct Comparison {
    Side a, b;
    Basis basis;
    std::vector<Figure> figures;
    std::vector<std::string> differences; ///< of plans and their subjects; none: they are the same
    Waterfall waterfall;
    Histogram histogram;            ///< of the steps of runs; empty: neither has any
    std::vector<std::string> notes; ///< what is missing, and why; the basis' first

    [[nodiscard]] const StepParts &partsOf(bool isB) const;
    /// The step that the parts are of; null: it is not known.
    [[nodiscard]] const std::shared_ptr<const trace::Trace> &traceOf(bool isB) const;
};

/// Cost: that of comparing both plans as JSON.
Comparison compare(Side a, Side b);

/// {"basis", "figures", "waterfall", "histogram", "courses", "notes"}: an object's text.
std::string toJson(const Comparison &comparison);

} // namespace planloom::compare
