// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planloom::ui {

/// Repeated measurements of one thing: processor time of the calling thread and time by the clock, milliseconds each.
struct Samples {
    std::vector<double> processor;
    std::vector<double> clock;

    /// Does @p work once and adds what it took.
    void take(const std::function<void()> &work);
};

/// By position in the sorted @p values; NaN without any. Cost: O(n log n).
double quantile(std::vector<double> values, double share);

/// A measured target, or a part of one: a line of the table.
struct BenchFigure {
    enum class Compared { P50, P95, Max }; ///< what is compared with the target
    QString target;                        ///< "T3"
    QString what;                          ///< "zoom and pan, 10,000,000 slices"
    QString unit = QStringLiteral("ms");   ///< of the values and the limit
    QString clock;                         ///< "processor" (of the UI thread), "clock", or empty for what is no time
    std::vector<double> values;            ///< none: it could not be measured, and note says why
    std::vector<double> byClock;           ///< the same by the clock, where `clock` is the processor's; may be empty
    double limit = 0;                      ///< the target
    Compared compared = Compared::Max;
    bool atLeast = false; ///< the target is a least value, not a largest one
    std::int64_t events = 0;
    std::int64_t fileBytes = 0;
    std::int64_t peakBytes = 0; ///< most resident memory of the process while the target was measured
    QString note;

    [[nodiscard]] double value() const; ///< what is compared; NaN if it could not be measured
    /// Of the value to the target, so that 1 or less meets it; NaN if it could not be measured.
    [[nodiscard]] double ratio() const;
};

/// A figure without values yet.
BenchFigure benchFigure(const QString &target, const QString &what);

/// The machine that figures are of.
struct BenchMachine {
    QString processor;    ///< model and number of its threads
    QString platform;     ///< of Qt: "offscreen", "xcb"
    double load = 0;      ///< of other work before the first target, processes
    double size = 1;      ///< share of the targets' sizes
    QString window;       ///< "1920 x 1080"
    std::int64_t ram = 0; ///< bytes
};
BenchMachine thisMachine();

/// One line for each figure, with a heading and the machine above.
QString benchTable(const BenchMachine &machine, const std::vector<BenchFigure> &figures);
/// The same as one object, an array `figures` in it.
QByteArray benchJson(const BenchMachine &machine, const std::vector<BenchFigure> &figures);

// Memory of this process, bytes; 0 where the system does not say.
std::int64_t residentBytes(); ///< now, after freed memory has been given back
std::int64_t peakBytes();     ///< the most since the last forgetPeak()
void forgetPeak();
std::int64_t availableBytes(); ///< of the machine

} // namespace planloom::ui
