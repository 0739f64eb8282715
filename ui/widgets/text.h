// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/base/units.h"

#include <cmath>
#include <vector>

namespace planloom::ui {

inline QString qt(const std::string &text)
{
    return QString::fromStdString(text);
}
inline QString bytesText(std::int64_t bytes)
{
    return qt(format(Bytes(bytes)));
}
inline QString secondsText(double seconds)
{
    return qt(format(Seconds(seconds)));
}
inline QString nanosecondsText(std::int64_t nanoseconds)
{
    return secondsText(static_cast<double>(nanoseconds) * 1e-9);
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
/// "▲ 3.1 %", "▼ 0.4 %", "no change": what a figure did from @p before to @p after, readable without colour.
inline QString changeText(double before, double after)
{
    if (before == 0 || std::abs(after / before - 1) < 5e-5)
        return QStringLiteral("no change");
    const double change = after / before - 1;
    return (change > 0 ? QStringLiteral("▲ ") : QStringLiteral("▼ ")) + percentText(std::abs(change), 2);
}

} // namespace planloom::ui
