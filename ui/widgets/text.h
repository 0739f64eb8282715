// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/base/units.h"

#include <cmath>
#include <vector>

namespace planloom::ui {

inline QString qt(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }
inline QString bytesText(std::int64_t bytes) { return qt(format(Bytes(bytes))); }
inline QString secondsText(double seconds) { return qt(format(Seconds(seconds))); }
inline QString nanosecondsText(std::int64_t nanoseconds)
{
    return secondsText(static_cast<double>(nanoseconds) * 1e-9);
}
/// A point in time: to the microsecond, in milliseconds, so that neighbours differ.
inline QString instantText(std::int64_t nanoseconds)
{
    return QStringLiteral("%1 ms").arg(static_cast<double>(nanoseconds) * 1e-6, 0, 'f', 3);
}
inline QString percentText(double fraction, int digits = 1)
{
    return QStringLiteral("%1 %").arg(fraction * 100, 0, 'f', digits);
}
/// "0, 4, 8".
inline QString numbersText(const std::vector<int> &numbers)
{
    QString text;
    for (const int number : numbers)
        text += (text.isEmpty() ? QString() : QStringLiteral(", ")) + QString::number(number);
    return text;
}
/// The beginning of a long text: to lay a text out costs time per letter, and thousands of them fit into no place.
inline QString beginningOf(const QString &text)
{
    constexpr qsizetype kLetters = 400;
    return text.size() <= kLetters ? text : text.left(kLetters) + QStringLiteral("…");
}
/// "▲ 3.1 %", "▼ 0.4 %", "no change": the change of a figure from @p before to @p after, readable without colour.
inline QString changeText(double before, double after)
{
    if (before == 0 || std::abs(after / before - 1) < 5e-5)
        return QStringLiteral("no change");
    const double change = after / before - 1;
    return (change > 0 ? QStringLiteral("▲ ") : QStringLiteral("▼ ")) + percentText(std::abs(change), 2);
}

} // namespace planloom::ui
