// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace planloom::remote {

/// `planloom host`: answers one request, a line of JSON on standard input, on standard output. Returns the process's
/// exit status. Every reply is a line `{"planloom": VERSION, ...}`; with `error` {code, message, file, line} where it
/// was refused. Requests (`do`):
///     describe                       what the machine has: cores, memory, GPUs, programs, free space
///     need {items}                   which items are in the cache, and how much of the others
///     keep {items}                   what was sent is checked and put in the cache
///     start {plan, settings, ...}    a run, by a process that goes on without the session (kept_run.h); its id
///     stop {run}                     the run ends after its step; asked twice, by force
///     join {run, plan, ...}          a host's part in a run over several (guard.h), until standard input ends; in a
///                                    measurement without a plan
///     leave {run}                    what a join has left is removed
///     operators {run, plan | model, ...} what `planloom profile` measures (measure.h), as long as standard input lasts
///     links {run, cluster}           what the links between a cluster's hosts carry, likewise
///     resume {run, settings, ...}    a run that has ended goes on where its newest checkpoint is, kept likewise
///     clean {days}                   removes what ended runs have left (clean.h)
///     follow {run, have, checkpoints} its files as they grow (follow.h), until it ends or standard input does
/// @p gpus: names of those that this machine can use. Nothing else is run, and no path is taken from a request but
/// isSafePath() ones beneath the cache.
int serveHost(const std::vector<std::string> &gpus);

} // namespace planloom::remote
