// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::ui {

/// Which stretch of time a strip of pixels shows. A value without a widget; times are nanoseconds.
class TimeAxis {
public:
    struct Tick {
        std::int64_t time = 0;
        double pixel = 0;
        std::string label; ///< empty for minor ticks
    };

    /// The whole of the data; zooming out stops a little beyond it.
    void setBounds(std::int64_t begin, std::int64_t end);
    void setPixels(int pixels);
    [[nodiscard]] int pixels() const { return m_pixels; }
    [[nodiscard]] std::int64_t boundsBegin() const { return m_boundsBegin; }
    [[nodiscard]] std::int64_t boundsEnd() const { return m_boundsEnd; }

    [[nodiscard]] double begin() const { return m_begin; }
    [[nodiscard]] double end() const { return m_end; }
    [[nodiscard]] double span() const { return m_end - m_begin; }
    [[nodiscard]] double nanosecondsPerPixel() const { return span() / m_pixels; }
    [[nodiscard]] double toPixel(double time) const { return (time - m_begin) / nanosecondsPerPixel(); }
    [[nodiscard]] double toTime(double pixel) const { return m_begin + pixel * nanosecondsPerPixel(); }

    /// @p factor > 1 zooms in; the time under @p pixel stays there unless a bound is met.
    void zoom(double factor, double pixel);
    void pan(double pixels); ///< positive: later times come into view
    /// Shows [begin, end] with @p margin (a share of it) on both sides.
    void show(double begin, double end, double margin = 0.02);
    void showAll();
    /// Moves so that @p time is the right end, keeping the span.
    void follow(double time);
    [[nodiscard]] bool showsAll() const;

    /// Round times, at least @p spacing pixels apart, with labels, and minor ticks between.
    [[nodiscard]] std::vector<Tick> ticks(double spacing = 90) const;

    friend bool operator==(const TimeAxis &, const TimeAxis &) = default;

private:
    void clamp();

    std::int64_t m_boundsBegin = 0;
    std::int64_t m_boundsEnd = 1'000'000;
    double m_begin = 0;
    double m_end = 1'000'000;
    int m_pixels = 1;
};

/// "1.25 ms" with as many digits as @p resolution (nanoseconds) asks for.
std::string timeLabel(double nanoseconds, double resolution);

} // namespace planloom::ui
