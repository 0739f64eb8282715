// SPDX-License-Identifier: Apache-2.0
// Traces of a training on several ranks, one file each, as PyTorch's profiler writes them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace planloom::tests {

/// In each of `steps` steps of 2 ms a rank runs gemm_a, gemm_b and an all-reduce that ends on all ranks within some
/// nanoseconds.
struct KinetoRanks {
    int ranks = 4;
    int steps = 12;
    int lateRank = 2, lateStep = 7;                            ///< where gemm_b takes `late` longer
    std::int64_t late = 300'000;                               ///< nanoseconds
    std::vector<std::int64_t> ahead{0, 5'000'000, 0, -40'000}; ///< of clocks, nanoseconds
    double slower = 1;                                         ///< gemm_a's durations
    bool withGroups = true;                                    ///< arguments that name the communicator
    int leftOut = 0;                                           ///< steps at the begin of rank 3
    int seed = 1;

    /// Small, and another for each number.
    [[nodiscard]] std::int64_t noise(int of, int step, int rank) const
    {
        std::uint64_t mixed = 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(of + 100 * step + 10'000 * rank)
            + 0x1000003ULL * static_cast<std::uint64_t>(seed);
        mixed ^= mixed >> 29;
        mixed *= 0xbf58476d1ce4e5b9ULL;
        return static_cast<std::int64_t>((mixed >> 40) % 2001) - 1000; // nanoseconds
    }

    [[nodiscard]] std::string textOf(int rank) const
    {
        std::string events = fmt::format(
            "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, \"args\": {{\"name\": \"python\"}}}},\n"
            "{{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": {0}, \"args\": {{\"labels\": \"GPU {0}\"}}}}",
            rank);
        const auto event = [&](int step, const char *category, const char *name, int thread, std::int64_t start,
                               std::int64_t duration, const std::string &arguments) {
            const std::int64_t at = 1'000'000'000 + start + ahead.at(static_cast<std::size_t>(rank));
            if (rank == 3 && step < leftOut)
                return;
            events += fmt::format(",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, "
                                  "\"ts\": {}.{:03}, \"dur\": {}.{:03}, \"args\": {{{}}}}}",
                                  category, name, thread == 1 ? 100 + rank : rank, thread, at / 1000, at % 1000,
                                  duration / 1000, duration % 1000, arguments);
        };
        for (int step = 0; step < steps; ++step) {
            const std::int64_t begin = 2'000'000 * std::int64_t{step};
            const auto durationA = static_cast<std::int64_t>(400'000 * slower) + 2 * noise(1, step, rank);
            const bool isLate = rank == lateRank && step == lateStep;
            const std::int64_t durationB = 200'000 + noise(2, step, rank) + (isLate ? late : 0);
            const std::int64_t arrival = begin + durationA + 1000 + durationB + 1000;
            const std::int64_t last =
                begin + static_cast<std::int64_t>(400'000 * slower) + 220'000 + (step == lateStep ? late : 0);
            const std::int64_t end = last + 300'000 + noise(3, step, rank) / 10;
            event(step, "user_annotation", fmt::format("ProfilerStep#{}", step).c_str(), 1, begin, 1'900'000, "");
            event(step, "kernel", "gemm_a", 7, begin, durationA, "");
            event(step, "kernel", "gemm_b", 7, begin + durationA + 1000, durationB, "");
            event(step, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, arrival, end - arrival,
                  withGroups ? "\"Process Group Ranks\": [0, 1, 2, 3], \"In msg nelems\": 1024" : "");
        }
        return fmt::format("{{\"distributedInfo\": {{\"rank\": {}}}, \"traceEvents\": [\n{}\n]}}", rank, events);
    }

    /// Writes them as FOLDER/rankN.json.
    [[nodiscard]] std::vector<std::string> write(const std::string &folder) const
    {
        std::vector<std::string> paths;
        for (int rank = 0; rank < ranks; ++rank) {
            paths.push_back(fmt::format("{}/rank{}.json", folder, rank));
            std::ofstream(paths.back()) << textOf(rank);
        }
        return paths;
    }
};

} // namespace planloom::tests
