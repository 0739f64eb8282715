// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <map>
#include <string>

namespace planloom::remote {

/// What a follower has, and wants.
struct FollowRequest {
    std::string folder;                       ///< of a kept run (places.h)
    std::map<std::string, std::int64_t> have; ///< bytes of files that arrived before
    std::string checkpoints;                  ///< "": none; "newest" or "all", too
};

/// Sends the files of a kept run on standard output as they grow: a line `{"file", "at", "size"}` and that many bytes,
/// which stand at `at`: what the follower has behind them is to be cut off. When the run has ended: the rest, a line
/// `{"hashes": {file: sha256}}` with all of them, and `{"end": true}`. In pauses, once a second, `{"alive": true}`.
/// Returns when all is sent, or standard input or output is gone. Files are read ten times a second. Named are
/// `events.jsonl` and `run/...`; data bases are sent at the end, hidden files and those of other names never.
void follow(const FollowRequest &request);

} // namespace planloom::remote
