// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <array>
#include <cstddef>

class QPainter;
class QRect;

namespace planloom::ui {

/// How long the newest frames took to paint, as text in a corner of the picture.
class FrameTimes {
public:
    void add(double seconds);
    void clear() { m_count = 0; }
    [[nodiscard]] std::size_t count() const { return m_count; } ///< of frames since clear()
    /// "frame 8.1 ms · median 7.9 · 95 % within 9.4 · longest 12.0 ms of 120"; of the newest kKept. Empty without any.
    [[nodiscard]] QString text() const;
    /// Over what is painted, at the right end of @p area's top.
    void paint(QPainter &painter, const QRect &area) const;
    static constexpr std::size_t kKept = 240;

private:
    std::array<double, kKept> m_seconds{};
    std::size_t m_count = 0;
};

} // namespace planloom::ui
