// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/manifest.h"

#include <string>

namespace planloom::checkpoint {

// Rank 0's operations on a folder of shards. All may wait for the disk: it runs on the writer's thread.

/// Puts the ranks' descriptions in @p folder together. Errors: a rank's is missing, damaged or of another moment;
/// elements are missing.
Result<Manifest> gather(const std::string &folder, const Manifest &head);

/// Makes the checkpoint exist: the unfinished folder gets its name, the manifest is written beside the shards, made to
/// last, and renamed into place while the lease is held. Returns its folder. Errors: Io, Failed (a newer worker group
/// has taken over); there is no checkpoint then.
Result<std::string> publish(const std::string &runDir, const Manifest &head, const Lease &lease);

/// Removes all but the newest @p keep checkpoints (0: none is removed), manifests first. Error: Io; the rest is
/// whole.
Status prune(const std::string &runDir, int keep);

/// Removes unfinished folders of worker groups before @p lease.
void removeDebris(const std::string &runDir, const Lease &lease);

/// Removes the files of one rank from an unfinished folder, and the folder when it is empty.
void removeShare(const std::string &folder, int rank);

} // namespace planloom::checkpoint
