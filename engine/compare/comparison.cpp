// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/comparison.h"

#include "engine/base/units.h"
#include "engine/plan/difference.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace planloom::compare {
namespace {

constexpr std::size_t kMostDevices = 64; ///< with rows of their own
constexpr const char *kNone = "–";

double measuredSeconds(const Side &side) { return side.measured ? side.measured->iterationSecondsMedian : 0; }

/// The time of a step by the basis.
double stepSeconds(const Side &side, bool measured, bool firstCourse)
{
    if (!measured)
        return side.predicted.iterationSeconds;
    return firstCourse ? side.courses.front().measured : measuredSeconds(side);
}

std::optional<double> known(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

/// Writes the rows of both sides.
class Rows {
public:
    Rows(const Comparison &comparison, std::vector<Figure> &rows)
        : m_a(comparison.a),
          m_b(comparison.b),
          m_basis(comparison.basis),
          m_partsOfA(comparison.partsOf(false)),
          m_partsOfB(comparison.partsOf(true)),
          m_rows(rows)
    {
    }

    void addAll()
    {
        step();
        courses();
        traffic();
        memory();
        kinds();
        stages();
    }

private:
    Figure &add(std::string group, std::string key, std::string name, Unit unit, std::optional<double> a,
                std::optional<double> b)
    {
        return m_rows.emplace_back(Figure{std::move(group), std::move(key), std::move(name), unit, a, b});
    }
    /// Of each side by the basis.
    template <class Of>
    Figure &addByBasis(const char *key, const char *name, Unit unit, Of of)
    {
        return add("Step", key, name, unit, known(of(m_a, m_basis.measuredA)), known(of(m_b, m_basis.measuredB)));
    }

    void step()
    {
        const auto stepTime = [this](const Side &side, bool measured) {
            return stepSeconds(side, measured, m_basis.firstCourse);
        };
        const auto samplesPerSecond = [&](const Side &side, bool measured) {
            const double seconds = stepTime(side, measured);
            return seconds > 0 ? side.predicted.samplesPerIteration() / seconds : 0;
        };
        addByBasis("step_seconds", "step time", Unit::Seconds, stepTime);
        addByBasis("samples_per_second", "samples/s", Unit::Rate, samplesPerSecond);
        const auto efficiency = [&](const Side &side, bool measured) {
            return plan::efficiencyOf(side.work, samplesPerSecond(side, measured));
        };
        addByBasis("tokens_per_second", "tokens/s", Unit::Rate,
                   [&](const Side &side, bool measured) { return efficiency(side, measured).tokensPerSecond; });
        const auto mfu = [&](const Side &side, bool measured) {
            const bool elsewhere = measured && side.measured && side.measured->ranksOnProcessors > 0;
            return elsewhere ? 0.0 : efficiency(side, measured).mfu;
        };
        const bool onePrecision = m_a.work.precision == m_b.work.precision;
        addByBasis("mfu", "model FLOPs utilisation", Unit::Share, mfu).alike = onePrecision;
        if (onePrecision)
            m_rows.back().name += " (" + m_a.work.precision + ")";
        const auto bubble = [](const Side &side, const StepParts &parts, bool measured) -> std::optional<double> {
            if (!measured)
                return side.predicted.bubbleFraction;
            return parts.length > 0 ? std::optional(1 - parts.computing) : std::nullopt;
        };
        add("Step", "bubble", "bubble", Unit::Share, bubble(m_a, m_partsOfA, m_basis.measuredA),
            bubble(m_b, m_partsOfB, m_basis.measuredB));
        add("Step", "predicted_seconds", "predicted step time", Unit::Seconds, m_a.predicted.iterationSeconds,
            m_b.predicted.iterationSeconds);
        if (!m_a.measured && !m_b.measured)
            return;
        Figure &measured = add("Step", "measured_seconds", "measured step time", Unit::Seconds,
                               known(measuredSeconds(m_a)), known(measuredSeconds(m_b)));
        measured.alike = m_basis.measuredA && m_basis.measuredB;
        const auto loss = [](const Side &side) {
            return side.measured && std::isfinite(side.measured->lossLast) ? std::optional(side.measured->lossLast)
                                                                           : std::nullopt;
        };
        add("Step", "loss_last", "last loss", Unit::Value, loss(m_a), loss(m_b));
    }

    void courses()
    {
        for (const bool byMeasured : {false, true}) {
            const auto of = [&](const Side &side) -> const Course * {
                return side.courses.empty() ? nullptr : &side.courses[byMeasured ? 1 : 0];
            };
            const Course *a = of(m_a);
            const Course *b = of(m_b);
            if (a == nullptr && b == nullptr)
                continue;
            const Course &named = a != nullptr ? *a : *b;
            const std::string by = byMeasured ? fmt::format("course by measured times, from step {} on", named.fromStep)
                                              : std::string("course by the logical clock, first steps");
            const std::string key = byMeasured ? "course_measured" : "course_logical";
            const auto value = [](const Course *course, double Course::*seconds) {
                return course == nullptr ? std::nullopt : known(course->*seconds);
            };
            add("Courses", key + "_seconds", by + ": measured", Unit::Seconds, value(a, &Course::measured),
                value(b, &Course::measured));
            add("Courses", key + "_predicted_seconds", by + ": predicted", Unit::Seconds, value(a, &Course::predicted),
                value(b, &Course::predicted));
        }
    }

    void traffic()
    {
        const auto collectives = [](const Side &side) {
            return side.collectiveBytes < 0 ? std::nullopt : std::optional(static_cast<double>(side.collectiveBytes));
        };
        add("Bytes sent a step", "collective_bytes", "in collectives, planned", Unit::Bytes, collectives(m_a),
            collectives(m_b));
        add("Bytes sent a step", "transfer_bytes", "between stages, planned", Unit::Bytes,
            static_cast<double>(m_a.transferBytes), static_cast<double>(m_b.transferBytes));
    }

    static std::map<std::string, double> peaksOf(const Side &side, bool measured)
    {
        std::map<std::string, double> peaks;
        for (std::size_t k = 0; k < side.predicted.devices.size(); ++k) {
            const bool has = measured && side.measured && k < side.measured->peakBytesMeasured.size();
            const std::int64_t bytes = has ? side.measured->peakBytesMeasured[k] : side.predicted.devices[k].peakBytes;
            peaks[side.predicted.devices[k].id] = static_cast<double>(bytes);
        }
        return peaks;
    }

    void memory()
    {
        const auto a = peaksOf(m_a, m_basis.measuredA);
        const auto b = peaksOf(m_b, m_basis.measuredB);
        const auto most = [](const std::map<std::string, double> &peaks) {
            double largest = 0;
            for (const auto &each : peaks)
                largest = std::max(largest, each.second);
            return known(largest);
        };
        add("Peak memory", "peak_bytes", "fullest device", Unit::Bytes, most(a), most(b));
        if (std::max(a.size(), b.size()) > kMostDevices)
            return;
        const auto of = [](const std::map<std::string, double> &peaks, const std::string &device) {
            const auto found = peaks.find(device);
            return found == peaks.end() ? std::nullopt : std::optional(found->second);
        };
        const auto row = [&](const std::string &device) {
            add("Peak memory", "peak_bytes/" + device, device, Unit::Bytes, of(a, device), of(b, device));
        };
        for (const auto &device : m_a.predicted.devices)
            row(device.id);
        for (const auto &device : m_b.predicted.devices)
            if (!a.contains(device.id))
                row(device.id);
    }

    [[nodiscard]] bool hasParts() const { return m_partsOfA.length > 0 && m_partsOfB.length > 0; }

    void kinds()
    {
        if (!hasParts())
            return;
        const auto busyIn = [](const StepParts &parts, const std::string &name) -> std::optional<double> {
            const auto found =
                std::ranges::find_if(parts.parts, [&](const auto &part) { return part.kind.name == name; });
            return found == parts.parts.end() ? std::nullopt : std::optional(static_cast<double>(found->busy) * 1e-9);
        };
        std::vector<std::string> names;
        for (const StepParts *parts : {&m_partsOfA, &m_partsOfB})
            for (const StepParts::Part &part : parts->parts)
                if (std::ranges::find(names, part.kind.name) == names.end())
                    names.push_back(part.kind.name);
        const char *group = "Time by kind";
        for (const std::string &name : names)
            add(group, "kind/" + name, name, Unit::Seconds, busyIn(m_partsOfA, name), busyIn(m_partsOfB, name));
        const auto seconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
        add(group, "kind/waiting", "waiting for other devices", Unit::Seconds, seconds(m_partsOfA.waiting),
            seconds(m_partsOfB.waiting));
        add(group, "kind/idle", "idle", Unit::Seconds, seconds(m_partsOfA.idle), seconds(m_partsOfB.idle));
    }

    void stages()
    {
        if (!hasParts())
            return;
        std::map<int, std::pair<std::optional<double>, std::optional<double>>> stages;
        for (const auto &[stage, seconds] : m_partsOfA.stages)
            stages[stage].first = seconds;
        for (const auto &[stage, seconds] : m_partsOfB.stages)
            stages[stage].second = seconds;
        for (const auto &[stage, values] : stages)
            add("Compute by stage", fmt::format("stage/{}", stage), fmt::format("stage {}", stage), Unit::Seconds,
                values.first, values.second);
    }

    const Side &m_a;
    const Side &m_b;
    const Basis &m_basis;
    const StepParts &m_partsOfA;
    const StepParts &m_partsOfB;
    std::vector<Figure> &m_rows;
};

/// Why the time by kind of a side is not known; empty: it is.
std::string missingParts(const Side &side, const char *name, bool measured, const StepParts &parts)
{
    if (parts.length > 0)
        return {};
    return measured
        ? fmt::format("the steps of {} were not recorded (train --trace), so its time by kind is not known", name)
        : fmt::format("{} has too many tasks to be traced ({} devices), so its time by kind is not known", name,
                      side.predicted.devices.size());
}

std::string shortHash(const Side &side) { return side.planHash.substr(0, 10); }

} // namespace

std::optional<double> Figure::delta() const { return a && b && alike ? std::optional(*b - *a) : std::nullopt; }

std::optional<double> Figure::change() const
{
    return delta() && unit != Unit::Share && *a != 0 ? std::optional(*b / *a - 1) : std::nullopt;
}

std::string valueText(Unit unit, const std::optional<double> &value)
{
    if (!value)
        return kNone;
    switch (unit) {
    case Unit::Seconds: return format(Seconds(*value));
    case Unit::Bytes: return format(Bytes(std::llround(*value)));
    case Unit::Rate: return std::abs(*value) < 1000 ? fmt::format("{:.4g}", *value) : fmt::format("{:.0f}", *value);
    case Unit::Share: return fmt::format("{:.3g} %", *value * 100);
    case Unit::Value: break;
    }
    return fmt::format("{:.6g}", *value);
}

std::string deltaText(const Figure &figure)
{
    const auto delta = figure.delta();
    if (!delta)
        return kNone;
    if (*delta == 0)
        return "0";
    const char *sign = *delta > 0 ? "+" : "-";
    if (figure.unit == Unit::Share)
        return fmt::format("{}{:.3g} points", sign, std::abs(*delta) * 100);
    return sign + valueText(figure.unit, std::abs(*delta));
}

std::string changeText(const Figure &figure)
{
    const auto change = figure.change();
    return change ? fmt::format("{:+.1f} %", *change * 100) : kNone;
}

Basis basisOf(const Side &a, const Side &b)
{
    const auto has = [](const Side &side) { return measuredSeconds(side) > 0; };
    const auto elsewhere = [](const Side &side) { return side.measured && side.measured->ranksOnProcessors > 0; };
    if (!has(a) && !has(b))
        return {};
    if (has(a) && has(b)) {
        if (elsewhere(a) == elsewhere(b))
            return {true, true, false, {}};
        return {false, false, false,
                fmt::format("predictions are compared: {} trained on processors in the place of the plan's GPUs, and "
                            "{} did not",
                            elsewhere(a) ? "A" : "B", elsewhere(a) ? "B" : "A")};
    }
    const char *run = has(a) ? "A" : "B";
    const char *plan = has(a) ? "B" : "A";
    if (a.planHash != b.planHash)
        return {false, false, false,
                fmt::format("predictions are compared: {} was measured, {} was not, and their plans differ (hashes {} "
                            "and {})",
                            run, plan, shortHash(a), shortHash(b))};
    if (elsewhere(has(a) ? a : b))
        return {false, false, false,
                fmt::format("predictions are compared: {} trained on processors in the place of the plan's GPUs", run)};
    Basis basis{has(a), has(b), false,
                fmt::format("{} is the prediction of {}: their plans have the same hash", plan, run)};
    const Side &trained = has(a) ? a : b;
    basis.firstCourse =
        !trained.courses.empty() && trained.courses.front().measured > 0 && trained.firstStep.length > 0;
    if (basis.firstCourse)
        basis.note += fmt::format("; of {}'s two courses the one by the logical clock is compared", run);
    return basis;
}

const StepParts &Comparison::partsOf(bool isB) const
{
    const Side &side = isB ? b : a;
    if (!(isB ? basis.measuredB : basis.measuredA))
        return side.predictedStep;
    return basis.firstCourse ? side.firstStep : side.measuredStep;
}

const std::shared_ptr<const trace::Trace> &Comparison::traceOf(bool isB) const
{
    const Side &side = isB ? b : a;
    if (!(isB ? basis.measuredB : basis.measuredA))
        return side.predictedTrace;
    return basis.firstCourse ? side.firstTrace : side.measuredTrace;
}

Comparison compare(Side a, Side b)
{
    Comparison made;
    made.a = std::move(a);
    made.b = std::move(b);
    made.basis = basisOf(made.a, made.b);
    if (!made.a.planText || made.a.planText != made.b.planText) { // else one was taken from the other
        made.differences = plan::difference(made.a.document.plan, made.b.document.plan);
        for (std::string &line : plan::difference(made.a.document.subject, made.b.document.subject))
            made.differences.push_back(std::move(line));
    }
    if (!made.basis.note.empty())
        made.notes.push_back(made.basis.note);
    for (const auto &[side, name] : {std::pair(&made.a, "A"), std::pair(&made.b, "B")})
        if (side->isRun && !side->measured)
            made.notes.push_back(fmt::format("{} is a run without a result: its prediction counts", name));
    Rows(made, made.figures).addAll();
    for (std::string why : {missingParts(made.a, "A", made.basis.measuredA, made.partsOf(false)),
                            missingParts(made.b, "B", made.basis.measuredB, made.partsOf(true))}) {
        if (why.empty())
            continue;
        made.waterfall.missing += (made.waterfall.missing.empty() ? "" : "; ") + why;
        made.notes.push_back(std::move(why));
    }
    if (made.waterfall.missing.empty())
        made.waterfall = waterfallOf(stepSeconds(made.a, made.basis.measuredA, made.basis.firstCourse),
                                     stepSeconds(made.b, made.basis.measuredB, made.basis.firstCourse),
                                     made.partsOf(false), made.partsOf(true));
    made.histogram = histogramOf(made.a.steps, made.b.steps);
    return made;
}

} // namespace planloom::compare
