// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <string>
#include <string_view>

namespace planloom::remote {

/// $XDG_DATA_HOME/planloom, or ~/.local/share/planloom.
std::string dataHome();
/// Where items lie: $XDG_CACHE_HOME/planloom/items, or ~/.cache/planloom/items.
std::string itemsFolder();
/// The runs that are kept for other machines: dataHome()/kept, a folder for each, by id.
std::string keptFolder(const std::string &id);
/// An id of a kept run: 16 hexadecimal digits.
bool isRunId(std::string_view text);

/// Files of a kept run, beside its run's folder `run`.
inline constexpr const char *kEventsFile = "events.jsonl"; ///< what its client is told, a line each
inline constexpr const char *kLockFile = "lock";           ///< locked while the run is kept; holds the process's id

/// In a mirrored run's folder: the target and the run's id there.
inline constexpr const char *kRemoteFile = "remote.json";

/// Makes a folder and its parents, mode 0700. Error: Io.
Status makeFolder(const std::string &path);
/// The process that keeps a run; 0: it ended.
int keeperOf(const std::string &folder);

} // namespace planloom::remote
