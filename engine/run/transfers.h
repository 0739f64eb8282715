// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace planloom::run {

/// Bytes that one process of a sampled job sent, by iteration and receiver.
using SentSums = std::map<std::pair<std::int64_t, std::string>, std::int64_t>;

/// The file of a run's folder with what process @p name sent: a line "iteration,to,bytes" for each receiver.
std::string transfersFile(const std::string &runFolder, const std::string &name);

/// What such a file says; of an iteration that was repeated the last line counts. A last line without an end is left
/// out: its process was killed while it wrote. Errors: those of readFile(); BadInput (a line that is no transfer), with
/// its number.
Result<SentSums> readSent(const std::string &path);

/// Rewrites the file to what it has of iterations before @p first, as the ones from there on will be repeated; without
/// a file, or where it is no table of transfers, to nothing. Error: Io.
Status keepSentBefore(const std::string &path, std::int64_t first);

} // namespace planloom::run
