// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"
#include "executor/checkpoint/writer.h"

#include <QDir>
#include <QFileInfo>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

/// Ranks without a network: every rank's pieces and writer, driven by one thread as the sum over all ranks would.
namespace planloom::checkpoint::testing {

struct Whole {
    std::string name;
    Kind kind = Kind::Parameter;
    graph::DType type;
    std::vector<std::int64_t> shape;
};

/// Element @p index of a tensor after @p step: any two tensors, elements or steps differ.
inline std::uint64_t valueOf(const Whole &tensor, std::int64_t index, std::int64_t step)
{
    std::uint64_t hash = std::hash<std::string>()(tensor.name) + std::hash<std::string>()(tensor.kind.text()) * 977;
    hash = (hash ^ static_cast<std::uint64_t>(index)) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ static_cast<std::uint64_t>(step)) * 0xC2B2AE3D27D4EB4FULL;
    return hash ^ hash >> 29;
}

/// A small transformer's worth of kinds: parameters with both moments, a running mean, a counter.
inline std::vector<Whole> sampleTensors()
{
    std::vector<Whole> tensors;
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters{
        {"wte.weight", {24, 8}}, {"attn.weight", {8, 24}},      {"mlp.weight", {16, 8}},
        {"ln.bias", {8}},        {"conv.weight", {4, 4, 2, 2}}, {"scale", {}}};
    for (const auto &[name, shape] : parameters)
        for (const Kind &kind :
             {Kind::Parameter, Kind::ofOptimizer("moment1"), Kind::ofOptimizer("optimizer:exp_avg_sq")})
            tensors.push_back({name, kind, graph::DType::F32, shape});
    tensors.push_back({"bn.running_mean", Kind::State, graph::DType::F32, {16}});
    tensors.push_back({"bn.steps", Kind::State, graph::DType::I64, {}});
    return tensors;
}

/// One rank's piece with its own memory.
struct Held {
    Piece piece;
    Whole whole;
    std::vector<std::byte> memory;
};

using RankPieces = std::vector<std::unique_ptr<Held>>;

inline std::int64_t localElements(const sharding::Region &region)
{
    std::int64_t count = 1;
    for (const auto &axis : region) {
        std::int64_t extent = 0;
        for (const auto &interval : axis)
            extent += interval.end - interval.begin;
        count *= extent;
    }
    return count;
}

/// Row-major number in the whole tensor of each element that a piece holds.
inline std::vector<std::int64_t> numbers(const Piece &piece)
{
    std::vector<std::int64_t> result{0};
    for (std::size_t axis = 0; axis < piece.shape.size(); ++axis) {
        std::vector<std::int64_t> next;
        for (const std::int64_t base : result)
            for (const auto &interval : piece.region[axis])
                for (std::int64_t at = interval.begin; at < interval.end; ++at)
                    next.push_back(base * piece.shape[axis] + at);
        result = std::move(next);
    }
    return {result.begin() + piece.flatBegin, result.begin() + piece.flatBegin + piece.flatCount};
}

/// A layout drawn by chance: @p replicas x @p shards ranks a stage, tensors cut along an axis (in segments, perhaps)
/// over the shards, what each then has cut over the replicas as ZeRO does.
inline std::vector<RankPieces> randomLayout(std::mt19937 &random, int most = 3)
{
    const auto upTo = [&](int last) { return std::uniform_int_distribution<int>(0, last)(random); };
    const int stages = 1 + upTo(1);
    const int replicas = 1 + upTo(most - 1);
    const int shards = 1 << upTo(1);
    std::vector<RankPieces> ranks(static_cast<std::size_t>(stages * replicas * shards));
    for (const Whole &tensor : sampleTensors()) {
        const int stage = upTo(stages - 1);
        const int axis = tensor.shape.empty() ? -1 : upTo(static_cast<int>(tensor.shape.size())) - 1;
        const bool segments = upTo(1) == 1;
        const bool zero = upTo(1) == 1;
        for (int replica = 0; replica < replicas; ++replica)
            for (int shard = 0; shard < shards; ++shard) {
                auto held = std::make_unique<Held>();
                held->whole = tensor;
                Piece &piece = held->piece;
                piece = {tensor.name, tensor.kind, tensor.type, tensor.shape, wholeRegion(tensor.shape),
                         0,           0,           nullptr,     true};
                if (axis >= 0) {
                    const std::int64_t size = tensor.shape[static_cast<std::size_t>(axis)];
                    const std::int64_t parts = segments && size % (2 * shards) == 0 ? 2 : 1;
                    auto &intervals = piece.region[static_cast<std::size_t>(axis)];
                    intervals.clear();
                    for (std::int64_t part = 0; part < parts; ++part) {
                        const std::int64_t width = size / parts / shards;
                        intervals.push_back(
                            {size / parts * part + width * shard, size / parts * part + width * (shard + 1)});
                    }
                }
                const std::int64_t local = localElements(piece.region);
                piece.flatBegin = zero ? local * replica / replicas : 0;
                piece.flatCount = zero ? local * (replica + 1) / replicas - piece.flatBegin : local;
                piece.writes = (axis >= 0 || shard == 0) && (zero || replica == 0);
                held->memory.resize(static_cast<std::size_t>(piece.bytes()));
                piece.data = held->memory.data();
                ranks[static_cast<std::size_t>((stage * replicas + replica) * shards + shard)].push_back(
                    std::move(held));
            }
    }
    return ranks;
}

inline void fill(RankPieces &pieces, std::int64_t step)
{
    for (auto &held : pieces) {
        const auto size = static_cast<std::size_t>(graph::sizeOf(held->piece.type));
        std::byte *out = held->memory.data();
        for (const std::int64_t index : numbers(held->piece)) {
            const std::uint64_t value = valueOf(held->whole, index, step);
            std::memcpy(out, &value, size);
            out += size;
        }
    }
}

/// True if every element is as fill() makes it.
inline bool isAt(const RankPieces &pieces, std::int64_t step)
{
    for (const auto &held : pieces) {
        const auto size = static_cast<std::size_t>(graph::sizeOf(held->piece.type));
        const std::byte *in = held->memory.data();
        for (const std::int64_t index : numbers(held->piece)) {
            const std::uint64_t value = valueOf(held->whole, index, step);
            if (std::memcmp(in, &value, size) != 0)
                return false;
            in += size;
        }
    }
    return true;
}

/// Where temporary folders go: in memory where there is such a place, because every checkpoint waits for its disk
/// several times.
inline QString temporaryPlace()
{
    const QString memory = "/dev/shm";
    return QFileInfo(memory).isWritable() ? memory + "/planloom-XXXXXX" : QDir::tempPath() + "/planloom-XXXXXX";
}

inline std::vector<Piece> piecesOf(const RankPieces &held)
{
    std::vector<Piece> pieces;
    for (const auto &one : held)
        pieces.push_back(one->piece);
    return pieces;
}

inline TrainingState stateAt(std::int64_t step)
{
    return {step, 7, step * 16, step / 10, "plan-hash", "sample \"model\"", "adamw", "2 x 2", {{"best", "1.5"}}};
}

/// All ranks of a worker group and their writers.
class WorkerGroup {
public:
    static Result<std::unique_ptr<WorkerGroup>> create(const std::string &runDir, std::vector<RankPieces> ranks,
                                                       std::int64_t lease, int keep = 2)
    {
        auto group = std::make_unique<WorkerGroup>();
        group->ranks = std::move(ranks);
        const int world = static_cast<int>(group->ranks.size());
        for (int rank = 0; rank < world; ++rank) {
            auto writer = CheckpointWriter::create(piecesOf(group->ranks[static_cast<std::size_t>(rank)]),
                                                   {runDir, rank, world, lease, keep});
            if (!writer)
                return writer.error();
            group->writers.push_back(*std::move(writer));
        }
        return group;
    }

    void fillAll(std::int64_t step)
    {
        for (auto &pieces : ranks)
            fill(pieces, step);
    }

    void begin(std::int64_t step)
    {
        for (auto &writer : writers)
            writer->begin(stateAt(step));
    }

    /// One step boundary.
    CheckpointWriter::Outcome boundary()
    {
        Votes sums;
        for (const auto &writer : writers) {
            const Votes votes = writer->votes();
            sums.ready += votes.ready;
            sums.failures += votes.failures;
        }
        auto outcome = CheckpointWriter::Outcome::Nothing;
        for (auto &writer : writers)
            outcome = writer->agree(sums);
        return outcome;
    }

    /// Boundaries until the checkpoint is there or has failed.
    CheckpointWriter::Outcome settle()
    {
        for (;;) {
            const auto outcome = boundary();
            if (outcome != CheckpointWriter::Outcome::Nothing)
                return outcome;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }

    CheckpointWriter::Outcome save(std::int64_t step)
    {
        fillAll(step);
        begin(step);
        return settle();
    }

    [[nodiscard]] std::string failures() const
    {
        std::string all;
        for (const auto &writer : writers)
            all += writer->failure();
        return all;
    }

    std::vector<RankPieces> ranks;
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
};

/// A new worker group with the lease of @p runDir.
inline std::unique_ptr<WorkerGroup> groupIn(const std::string &runDir, std::vector<RankPieces> ranks, int keep = 2)
{
    auto lease = Lease::acquire(runDir, "test");
    if (!lease)
        qFatal("%s", lease.error().text().c_str());
    auto group = WorkerGroup::create(runDir, std::move(ranks), lease->epoch(), keep);
    if (!group)
        qFatal("%s", group.error().text().c_str());
    return *std::move(group);
}

/// Ranks as @p seed draws them.
inline std::vector<RankPieces> layout(unsigned seed)
{
    std::mt19937 random(seed);
    return randomLayout(random);
}

/// Reads the newest checkpoint into @p ranks; the step that is in all of them, or -1.
inline std::int64_t resume(const std::string &runDir, std::vector<RankPieces> &ranks)
{
    const auto manifest = newestCheckpoint(runDir);
    if (!manifest)
        return -1;
    for (auto &pieces : ranks) {
        if (!restore(*manifest, piecesOf(pieces)) || !isAt(pieces, manifest->state.step))
            return -1;
    }
    return manifest->state.step;
}

/// All paths beneath @p folder, sorted.
inline std::vector<std::string> filesIn(const std::string &folder)
{
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
        names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace planloom::checkpoint::testing
