// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/client.h"
#include "executor/remote/clean.h"
#include "executor/remote/load.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::remote {

/// What is over there.
struct Description {
    std::string version;
    std::string host;
    int cores = 0;
    std::int64_t memoryAvailable = 0; ///< bytes
    std::int64_t freeBytes = 0;       ///< of the disk with the cache
    std::vector<std::string> gpus;
    bool mpirun = false;
};
/// Asks a target over ssh; 30 seconds at most. Errors: no way there, a key that is not accepted, no planloom, another
/// version, each in a sentence.
Result<Description> describe(const Target &target);

/// Removes what runs that ended have left over there (clean.h). Errors: those of describe().
Result<Cleaned> cleanUp(const Target &target, double days);

/// The target of the run whose folder here this is; nothing: it trained here. Error: BadInput (damaged).
Result<std::optional<Target>> targetOfRun(const std::string &folder);

/// A run on a target, for who starts or watches it. train() sends what the run needs and is not there yet (plan, data,
/// the model's file), starts it there and mirrors its folder into the request's here, with `remote.json`, which names
/// target and run. A run that is resumed goes on over there, in the folder that it has here, with its plan; empty
/// Settings::data: also with its data. What is in its folder here, which was written over there, never says what is
/// sent. The run goes on where the connection is lost, or this process ends; train() then fails with Io and names the
/// command to attach. stop() ends it over there. @p note: lines for people, in between. @p needed: load.h.
std::unique_ptr<agent::Client> connect(const Target &target, Note note, NeedsModelFile needed);

/// What attaching is to do.
struct AttachOptions {
    std::string folder;      ///< here, with remote.json
    std::string checkpoints; ///< fetched, too: "", "newest", "all"
};
/// Follows a run that train() has started; events that were told before come again. stop() of the client ends the run.
/// Errors: those of train(); NotFound (no such folder, no run over there), BadInput (it is mirrored already).
class Attachment {
public:
    virtual ~Attachment() = default;
    virtual Status follow(const agent::RunEvents &events) = 0;
    virtual void stop() = 0;
};
Result<std::unique_ptr<Attachment>> attach(const AttachOptions &options, Note note);

} // namespace planloom::remote
