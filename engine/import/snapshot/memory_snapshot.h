// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/trace/allocations.h"

#include <string>
#include <string_view>

namespace planloom::import {

/// Reads what torch.cuda.memory._dump_snapshot() writes, or a pickle of torch.cuda.memory._snapshot() or
/// memory_snapshot(): the first has a history of events, the last one segments alone. Fields that are not known are
/// left out; a size that was asked for and is not there is the block's. Nothing in the file is run. Errors (BadInput),
/// with
/// @p name: those of readPickle(); a field that is missing or of another kind, by its place ("segments[3].blocks[0]
/// .size"). Cost: O(bytes).
Result<trace::Allocations> readMemorySnapshot(std::string_view bytes, const std::string &name);
/// The same of a file. Errors: Io, too.
Result<trace::Allocations> readMemorySnapshot(const std::string &path);

/// True if a file called @p name that begins with @p head is a pickle.
bool isPickle(const std::string &name, std::string_view head);

} // namespace planloom::import
