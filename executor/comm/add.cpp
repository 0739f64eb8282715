// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/add.h"

#include <bit>

// Compiles a function for several instruction sets; the loader picks one. Not with clang (14 has no such attribute) and
// not under sanitizers, whose run time is not up yet when the loader asks.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)                  \
    && !defined(__SANITIZE_THREAD__)
#define PLANLOOM_ADD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define PLANLOOM_ADD
#endif
#ifdef __clang__ // has no such pragma, and makes vectors without it
#define PLANLOOM_INDEPENDENT
#else
#define PLANLOOM_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace planloom::comm {
namespace {

PLANLOOM_ADD void addFloat32(const float *a, const float *b, float *sum, std::size_t count)
{
    PLANLOOM_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i)
        sum[i] = a[i] + b[i];
}

PLANLOOM_ADD void addFloat64(const double *a, const double *b, double *sum, std::size_t count)
{
    PLANLOOM_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i)
        sum[i] = a[i] + b[i];
}

float widen(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }

/// To the nearest, ties to even; NaN stays NaN.
std::uint16_t narrow(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;
    return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

PLANLOOM_ADD void addBFloat16(const std::uint16_t *a, const std::uint16_t *b, std::uint16_t *sum, std::size_t count)
{
    PLANLOOM_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i)
        sum[i] = narrow(widen(a[i]) + widen(b[i]));
}

} // namespace

void add(Element element, const std::byte *a, const std::byte *b, std::byte *sum, std::size_t bytes)
{
    switch (element) {
    case Element::Float32:
        addFloat32(reinterpret_cast<const float *>(a), reinterpret_cast<const float *>(b),
                   reinterpret_cast<float *>(sum), bytes / sizeof(float));
        break;
    case Element::Float64:
        addFloat64(reinterpret_cast<const double *>(a), reinterpret_cast<const double *>(b),
                   reinterpret_cast<double *>(sum), bytes / sizeof(double));
        break;
    case Element::BFloat16:
        addBFloat16(reinterpret_cast<const std::uint16_t *>(a), reinterpret_cast<const std::uint16_t *>(b),
                    reinterpret_cast<std::uint16_t *>(sum), bytes / sizeof(std::uint16_t));
        break;
    }
}

} // namespace planloom::comm
