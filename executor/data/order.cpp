// SPDX-License-Identifier: Apache-2.0
#include "executor/data/order.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace planloom::data {

namespace {

constexpr int kRounds = 6;

/// SplitMix64's finalizer.
std::uint64_t mix(std::uint64_t x)
{
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

std::uint64_t feistel(std::uint64_t value, int halfBits, std::uint64_t key)
{
    const std::uint64_t mask = (std::uint64_t{1} << halfBits) - 1;
    std::uint64_t left = value >> halfBits;
    std::uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t next = left ^ (mix(key ^ mix(right + (static_cast<std::uint64_t>(round) << 56))) & mask);
        left = right;
        right = next;
    }
    return left << halfBits | right;
}

} // namespace

std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t key)
{
    if (n <= 1)
        return 0;
    const auto limit = static_cast<std::uint64_t>(n);
    const int halfBits = (std::bit_width(limit - 1) + 1) / 2;
    auto value = static_cast<std::uint64_t>(i);
    do {
        value = feistel(value, halfBits, key);
    } while (value >= limit);
    return static_cast<std::int64_t>(value);
}

SampleOrder::SampleOrder(std::int64_t samples, std::int64_t seed, double holdout)
    : m_samples(samples),
      m_seed(mix(static_cast<std::uint64_t>(seed)))
{
    const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(samples) * holdout));
    m_trained = samples - std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(samples - 1, 0));
}

std::int64_t SampleOrder::sampleIndex(std::int64_t step, std::int64_t globalBatch, std::int64_t position) const
{
    const std::int64_t place = ordinal(step, globalBatch, position);
    // The split into trained and held out is itself a permutation, the same for all epochs.
    const std::int64_t within =
        permuted(place % m_trained, m_trained, mix(m_seed ^ static_cast<std::uint64_t>(place / m_trained + 1)));
    return permuted(within, m_samples, m_seed);
}

std::int64_t SampleOrder::heldOutIndex(std::int64_t i) const { return permuted(m_trained + i, m_samples, m_seed); }

} // namespace planloom::data
