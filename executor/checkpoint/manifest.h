// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/piece.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::checkpoint {

/// The state of training beside the tensors, at the time of their copy.
struct TrainingState {
    std::int64_t step = 0; ///< optimizer steps done
    std::int64_t seed = 1; ///< of the order of samples, first values and dropout; all three follow from it and the step
    std::int64_t samples = 0; ///< samples consumed since the run began
    std::int64_t epoch = 0;   ///< passes over the data that are done
    std::string plan;         ///< hash of the plan
    std::string model;
    std::string optimizer;                    ///< "adamw"
    std::string layout;                       ///< the plan in short, for people
    std::map<std::string, std::string> notes; ///< further values for the runtime
    friend bool operator==(const TrainingState &, const TrainingState &) = default;
};

/// A file of a checkpoint.
struct StoredFile {
    std::string name; ///< plain, beside the manifest
    std::int64_t bytes = 0;
    std::uint32_t checksum = 0; ///< CRC-32C of the whole file
};

/// Where a piece of a tensor lies.
struct StoredPiece {
    Piece what;           ///< without data
    std::size_t file = 0; ///< index in Manifest::files
    std::string key;      ///< the tensor's name in that file
};

/// A checkpoint: its origin and the places of its bytes (resources/docs/formats/checkpoint.md). A rank's description of
/// its own shard has the same form.
struct Manifest {
    std::string folder; ///< where it was read from; not in the file
    TrainingState state;
    std::int64_t lease = 0; ///< epoch of the worker group that wrote it
    int world = 1;
    std::vector<StoredFile> files;
    std::vector<StoredPiece> pieces;
};

/// Notes of a run whose replicas average parameters: how they share out the samples ("1,1"), and the exchange's
/// settings. Of those parameters a checkpoint has Kind::Replicas.
inline constexpr const char *kReplicasNote = "replica_shares";
inline constexpr const char *kAveragingNote = "averaging";

inline constexpr const char *kManifestName = "manifest.json";

/// The file's text: its first line has the checksum of everything after it.
std::string toJson(const Manifest &manifest);
/// Errors (BadInput): damage anywhere, names that lead out of the folder, pieces that check() refuses, pieces of one
/// tensor that disagree on its type or sizes. Safe against hostile text.
Result<Manifest> manifestFromJson(std::string_view text);

/// That the pieces hold each element of each tensor, by number (restore() sees to it that none is there twice). Error:
/// BadInput.
Status checkComplete(const Manifest &manifest);

} // namespace planloom::checkpoint
