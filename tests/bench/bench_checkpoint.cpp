// SPDX-License-Identifier: Apache-2.0
// Cost to training of a checkpoint of GPT-2's size (124 M parameters with both moments: 1.5 GB): the stall of the
// copy against writing the same bytes before going on, and against how fast memory can be copied at all; and what
// verifying and reading it back takes. bench_checkpoint [FOLDER [MILLIONS OF PARAMETERS]]
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"
#include "executor/checkpoint/writer.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

using namespace planloom;
using namespace planloom::checkpoint;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

int fail(const Error &error)
{
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return 1;
}

std::vector<Piece> piecesOver(std::vector<std::byte> &memory, std::int64_t parameters)
{
    constexpr std::int64_t kTensors = 148; // as GPT-2 has
    std::vector<Piece> pieces;
    std::byte *at = memory.data();
    for (std::int64_t t = 0; t < kTensors; ++t)
        for (const Kind &kind : {Kind::Parameter, Kind::ofOptimizer("moment1"), Kind::ofOptimizer("moment2")}) {
            const std::int64_t count = parameters / kTensors;
            pieces.push_back(
                {"h." + std::to_string(t), kind, graph::DType::F32, {count}, wholeRegion({count}), 0, count, at, true});
            at += pieces.back().bytes();
        }
    return pieces;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string folder = std::string(argc > 1 ? argv[1] : ".") + "/bench_checkpoint";
    const std::int64_t parameters = (argc > 2 ? std::atoll(argv[2]) : 124) * 1'000'000;
    std::filesystem::create_directories(folder);
    std::vector<std::byte> memory(static_cast<std::size_t>(parameters * 12), std::byte{1});
    std::vector<Piece> pieces = piecesOver(memory, parameters);
    const auto lease = Lease::acquire(folder, "bench");
    if (!lease)
        return fail(lease.error());
    auto writer = CheckpointWriter::create(pieces, {folder, 0, 1, lease->epoch(), 1});
    if (!writer)
        return fail(writer.error());
    const double gigabytes = static_cast<double>((*writer)->bytes()) * 1e-9;
    for (std::int64_t step = 1; step <= 3; ++step) {
        const auto begin = Clock::now();
        (*writer)->begin({step, 1, 0, 0, "", "", "", "", {}});
        while ((*writer)->agree((*writer)->votes()) != CheckpointWriter::Outcome::Published) {
            if (!(*writer)->failure().empty())
                return fail(failed((*writer)->failure()));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const double whole = secondsSince(begin);
        std::printf("%.2f GB: training waits %.3f s (%.1f GB/s), written and published after %.3f s: %.1f x less than "
                    "waiting for the disk\n",
                    gigabytes, (*writer)->stallSeconds(), gigabytes / (*writer)->stallSeconds(), whole,
                    whole / (*writer)->stallSeconds());
    }
    std::vector<std::byte> other(memory.size(), std::byte{2});
    auto begin = Clock::now();
    std::memcpy(other.data(), memory.data(), memory.size());
    std::printf("a bare copy of the same bytes: %.3f s\n", secondsSince(begin));
    begin = Clock::now();
    const auto manifest = newestCheckpoint(folder);
    if (!manifest)
        return fail(manifest.error());
    std::printf("found and verified in %.3f s\n", secondsSince(begin));
    begin = Clock::now();
    std::vector<Piece> targets = piecesOver(other, parameters);
    std::memset(other.data(), 0, other.size());
    if (const Status done = restore(*manifest, targets, Checksums::Trust); !done)
        return fail(done.error());
    std::printf("read back in %.3f s, %s\n", secondsSince(begin),
                std::memcmp(other.data(), memory.data(), static_cast<std::size_t>((*writer)->bytes())) == 0
                    ? "equal"
                    : "DIFFERENT");
    std::filesystem::remove_all(folder);
    return 0;
}
