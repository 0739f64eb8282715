// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/automap/agent.h"
#include "planners/automap/rules.h"

#include <vector>

/// Results of automap's search and rules, by brute force. For small games and graphs.
namespace planloom::planners::automap {

/// The best of all games.
inline Outcome exhaust(Environment &game)
{
    Outcome outcome;
    std::vector<std::size_t> actions;
    const auto from = [&](const auto &self) -> void {
        game.reset();
        for (const std::size_t action : actions)
            game.act(action);
        if (game.over()) {
            ++outcome.episodes;
            if (outcome.best.actions.empty() || game.score() > outcome.best.score)
                outcome.best = {actions, game.score()};
            return;
        }
        const std::vector<char> legal = game.legal();
        for (std::size_t a = 0; a < legal.size(); ++a) {
            if (legal[a] == 0)
                continue;
            actions.push_back(a);
            self(self);
            actions.pop_back();
        }
    };
    from(from);
    return outcome;
}

/// All assignments of @p graph that every instruction has a row for, in lexical order.
inline std::vector<std::vector<int>> consistentAssignments(const RuleGraph &graph)
{
    std::vector<std::vector<int>> found;
    const auto search = [&](const auto &self, const Allowed &allowed, std::size_t tensor) -> void {
        if (tensor == allowed.size()) {
            found.emplace_back();
            for (const std::uint32_t set : allowed)
                found.back().push_back(splitOf(set));
            return;
        }
        for (int split = kReplicated; split < graph.tensors[tensor].rank; ++split) {
            Allowed next = allowed;
            if (decide(graph, next, static_cast<int>(tensor), split, Consistency::Arc))
                self(self, next, tensor + 1);
        }
    };
    search(search, everything(graph), 0);
    return found;
}

} // namespace planloom::planners::automap
