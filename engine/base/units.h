// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <compare> // after <cstdint>: Qt's moc cannot read it first
#include <string>

namespace planloom {

/// A number with a unit. Adds and compares with its own kind only, scales by bare numbers; value() leaves the unit.
template <class Tag, class Rep>
class Quantity {
public:
    constexpr Quantity() = default;
    constexpr explicit Quantity(Rep v) : m_value(v) {}
    [[nodiscard]] constexpr Rep value() const { return m_value; }

    friend constexpr auto operator<=>(Quantity, Quantity) = default;
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.m_value + b.m_value); }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.m_value - b.m_value); }
    friend constexpr Quantity operator*(Quantity a, Rep s) { return Quantity(a.m_value * s); }
    friend constexpr Quantity operator*(Rep s, Quantity a) { return Quantity(a.m_value * s); }
    friend constexpr Quantity operator/(Quantity a, Rep s) { return Quantity(a.m_value / s); }
    friend constexpr double operator/(Quantity a, Quantity b)
    {
        return static_cast<double>(a.m_value) / static_cast<double>(b.m_value);
    }
    constexpr Quantity &operator+=(Quantity b)
    {
        m_value += b.m_value;
        return *this;
    }
    constexpr Quantity &operator-=(Quantity b)
    {
        m_value -= b.m_value;
        return *this;
    }

private:
    Rep m_value = 0;
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using Flops =
    Quantity<struct FlopsTag, double>; ///< a count of floating-point operations (a multiply-add is 2), not a rate

std::string format(Bytes bytes);     ///< "1.50 GiB"
std::string format(Seconds seconds); ///< "12.3 ms"
std::string format(Flops flops);     ///< "4.12 GFLOP"

} // namespace planloom
