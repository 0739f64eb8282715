// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/manifest.h"

#include <span>
#include <string>
#include <vector>

namespace planloom::checkpoint {

/// Every checkpoint of a run whose manifest can be read and whose files are there in their full length, newest first.
/// Reads no tensors.
/// @p skipped gets a line on each that is not usable.
std::vector<Manifest> checkpoints(const std::string &runDir, std::vector<std::string> *skipped = nullptr);

/// Compares files with their checksums; those whose number is @p share modulo @p shares, so that ranks can divide the
/// work. Error: BadInput, naming the file; Io.
Status verify(const Manifest &manifest, int share = 0, int shares = 1);

/// The newest checkpoint of which every byte is as it was written. Error: NotFound, if there is none.
Result<Manifest> newestCheckpoint(const std::string &runDir, std::vector<std::string> *skipped = nullptr);

/// Whether restore() compares checksums of the files that it reads; no if verify() just did.
enum class Checksums : bool { Compare, Trust };

/// Fills @p pieces, cut in whichever way, from the checkpoint. Each element must be stored exactly once. Errors:
/// BadInput (a tensor that is not there, of another type or other sizes, missing elements, damage), NotFound, Io;
/// pieces may then be half filled.
Status restore(const Manifest &manifest, std::span<const Piece> pieces, Checksums checksums = Checksums::Compare);

} // namespace planloom::checkpoint
