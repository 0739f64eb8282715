// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/automap/environment.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planloom::planners::automap {

/// A way through a game that was seen.
struct Episode {
    std::vector<std::size_t> actions;
    double score = kLost;
};

/// What a search by games found.
struct Outcome {
    Episode best;
    std::size_t episodes = 0;
    bool stopped = false;
};

/// Sizes follow Rainbow (Hessel et al., 2018), scaled down to games of a few dozen steps; the paper's own are not
/// known.
struct AgentSettings {
    std::size_t episodes = 200;
    std::uint64_t seed = 1;
    std::size_t hidden = 64;
    std::size_t batch = 32;
    std::size_t replay = 8192;
    std::size_t steps = 3;          ///< n of n-step returns
    std::size_t targetPeriod = 100; ///< training steps between copies of the network
    std::size_t trainEvery = 1;     ///< actions
    double discount = 0.99;
    double learningRate = 1e-3;
    double explore = 1,
           exploreEnd = 0.05; ///< share of random actions, falling linearly over seven tenths of the episodes
    double priority = 0.5;    ///< exponent of errors in the replay
    double importance = 0.4;  ///< exponent of its correction, rising to 1
};

/// Called after every episode.
using Watch = std::function<void(std::size_t episode, const Episode &best)>;

/// Double, duelling deep Q-learning with prioritised replay, n-step returns and masked actions. Plays @p begin first,
/// if it has actions, so that an earlier search goes on from its best; games are deterministic, so no way is played
/// twice, and it ends early where all were. Returns the best end that was seen, not the last policy's. Equal settings,
/// equal answer.
Outcome learn(Environment &game, const AgentSettings &settings, const Progress &progress,
              const std::vector<std::size_t> &begin = {}, const Watch &watch = {});

/// As many games with random legal actions.
Outcome rollOut(Environment &game, std::size_t episodes, std::uint64_t seed);

} // namespace planloom::planners::automap
