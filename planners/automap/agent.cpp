// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/agent.h"

#include "planners/automap/network.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <random>

namespace planloom::planners::automap {
namespace {

/// Uniform below @p count, the same with every standard library.
std::size_t below(std::mt19937_64 &random, std::size_t count) { return static_cast<std::size_t>(random() % count); }
double unit(std::mt19937_64 &random)
{
    return static_cast<double>(random() >> 11U) / static_cast<double>(std::uint64_t{1} << 53U);
}

std::size_t randomLegal(const std::vector<char> &legal, std::mt19937_64 &random)
{
    std::vector<std::size_t> choices;
    for (std::size_t a = 0; a < legal.size(); ++a)
        if (legal[a] != 0)
            choices.push_back(a);
    return choices[below(random, choices.size())];
}

std::size_t bestLegal(const std::vector<char> &legal, const std::vector<float> &values)
{
    std::size_t best = legal.size();
    for (std::size_t a = 0; a < legal.size(); ++a)
        if (legal[a] != 0 && (best == legal.size() || values[a] > values[best]))
            best = a;
    return best;
}

/// n steps of a game: the reward on the way, and the final state.
struct Transition {
    std::vector<float> state;
    std::size_t action = 0;
    double reward = 0;
    std::vector<float> next;
    std::vector<char> legal; ///< there; empty: the game was over
    double discount = 0;     ///< of later rewards
};

/// Transitions drawn in proportion to their priorities: a binary tree of sums.
class Replay {
public:
    explicit Replay(std::size_t capacity)
    {
        for (m_leaves = 1; m_leaves < capacity;)
            m_leaves *= 2;
        m_sums.assign(2 * m_leaves, 0);
    }

    void add(Transition transition)
    {
        if (m_transitions.size() < m_leaves)
            m_transitions.push_back(std::move(transition));
        else
            m_transitions[m_next] = std::move(transition);
        setPriority(m_next, m_most);
        m_next = (m_next + 1) % m_leaves;
    }

    void setPriority(std::size_t index, double priority)
    {
        m_most = std::max(m_most, priority);
        std::size_t at = m_leaves + index;
        m_sums[at] = priority;
        for (at /= 2; at > 0; at /= 2)
            m_sums[at] = m_sums[2 * at] + m_sums[2 * at + 1];
    }

    [[nodiscard]] std::size_t draw(double share) const
    {
        double left = share * m_sums[1];
        std::size_t at = 1;
        while (at < m_leaves) {
            at *= 2;
            if (left >= m_sums[at] && m_sums[at + 1] > 0) {
                left -= m_sums[at];
                ++at;
            }
        }
        return at - m_leaves;
    }

    [[nodiscard]] double probability(std::size_t index) const { return m_sums[m_leaves + index] / m_sums[1]; }
    [[nodiscard]] const Transition &operator[](std::size_t index) const { return m_transitions[index]; }
    [[nodiscard]] std::size_t size() const { return m_transitions.size(); }

private:
    std::size_t m_leaves = 1;
    std::size_t m_next = 0;
    double m_most = 1;
    std::vector<double> m_sums;
    std::vector<Transition> m_transitions;
};

/// The ways that were played, so that none is played twice: games are deterministic. A node is closed once all that
/// follows it was played.
class Played {
public:
    Played() : m_nodes(1) {}

    void begin() { m_way = {0}; }

    /// The legal actions that lead to something new.
    std::vector<char> open(const std::vector<char> &legal)
    {
        Node &here = m_nodes[m_way.back()];
        here.left = here.left == kUnknown
            ? static_cast<std::size_t>(std::count_if(legal.begin(), legal.end(), [](char c) { return c != 0; }))
            : here.left;
        std::vector<char> result = legal;
        for (const auto &[action, child] : here.children)
            if (m_nodes[child].left == 0)
                result[action] = 0;
        return result;
    }

    void take(std::size_t action)
    {
        const auto known = m_nodes[m_way.back()].children.find(action);
        const std::size_t child = known != m_nodes[m_way.back()].children.end() ? known->second : m_nodes.size();
        if (child == m_nodes.size()) {
            m_nodes[m_way.back()].children.emplace(action, child);
            m_nodes.emplace_back();
        }
        m_way.push_back(child);
    }

    /// The way ended here.
    void end()
    {
        if (m_nodes[m_way.back()].left == 0)
            return; // again, as it was asked for
        m_nodes[m_way.back()].left = 0;
        for (std::size_t at = m_way.size() - 1; at > 0 && m_nodes[m_way[at]].left == 0; --at)
            --m_nodes[m_way[at - 1]].left;
    }

    [[nodiscard]] bool all() const { return m_nodes.front().left == 0; }

private:
    static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();
    struct Node {
        std::map<std::size_t, std::size_t> children; ///< by action
        std::size_t left = kUnknown;                 ///< legal actions that are not closed
    };
    std::vector<Node> m_nodes;
    std::vector<std::size_t> m_way;
};

class Agent {
public:
    Agent(Environment &game, const AgentSettings &settings)
        : m_game(game),
          m_settings(settings),
          m_random(settings.seed),
          m_network(game.stateSize(), settings.hidden, game.actionCount(), m_random),
          m_target(m_network),
          m_replay(settings.replay)
    {
    }

    Outcome run(const Progress &progress, const std::vector<std::size_t> &begin, const Watch &watch)
    {
        Outcome outcome;
        for (; outcome.episodes < m_settings.episodes; ++outcome.episodes) {
            if (progress.stopped()) {
                outcome.stopped = true;
                break;
            }
            m_done = static_cast<double>(outcome.episodes) / static_cast<double>(m_settings.episodes);
            const Episode episode = play(outcome.episodes == 0 ? begin : std::vector<std::size_t>{});
            if (outcome.best.actions.empty() || episode.score > outcome.best.score)
                outcome.best = episode;
            if (watch)
                watch(outcome.episodes + 1, outcome.best);
            if (m_played.all()) { // nothing new is left
                outcome.episodes = m_settings.episodes;
                break;
            }
        }
        return outcome;
    }

private:
    struct Step {
        std::vector<float> state;
        std::size_t action = 0;
        double reward = 0;
    };

    /// @p given: the first actions, as far as they are legal.
    Episode play(const std::vector<std::size_t> &given)
    {
        Episode episode;
        std::deque<Step> recent;
        m_game.reset();
        m_played.begin();
        while (!m_game.over()) {
            Step step{m_game.state(), 0, 0};
            const std::size_t at = episode.actions.size();
            const std::vector<char> open = m_played.open(m_game.legal());
            step.action = at < given.size() && given[at] < open.size() && open[given[at]] != 0
                ? given[at]
                : choose(step.state, open);
            episode.actions.push_back(step.action);
            m_played.take(step.action);
            step.reward = m_game.act(step.action);
            recent.push_back(std::move(step));
            remember(recent);
            if (++m_actions % m_settings.trainEvery == 0 && m_replay.size() >= m_settings.batch)
                train();
        }
        m_played.end();
        episode.score = m_game.score();
        return episode;
    }

    std::size_t choose(const std::vector<float> &state, const std::vector<char> &open)
    {
        const double falling = std::min(1.0, m_done / 0.7);
        const double explore = m_settings.explore + (m_settings.exploreEnd - m_settings.explore) * falling;
        if (unit(m_random) < explore)
            return randomLegal(open, m_random);
        return bestLegal(open, m_network.values(state));
    }

    /// The oldest step of n goes into the replay; at the end all of them do, with the rest of the way.
    void remember(std::deque<Step> &recent)
    {
        while (!recent.empty() && (recent.size() >= m_settings.steps || m_game.over())) {
            Transition transition{recent.front().state, recent.front().action, 0, {}, {}, 1};
            for (const Step &step : recent) {
                transition.reward += transition.discount * step.reward;
                transition.discount *= m_settings.discount;
            }
            if (!m_game.over()) {
                transition.next = m_game.state();
                transition.legal = m_game.legal();
            }
            m_replay.add(std::move(transition));
            recent.pop_front();
        }
    }

    /// Targets of Q for every transition drawn. Double Q-learning: the network chooses the next action, the older
    /// copy judges it. Both only among legal actions.
    [[nodiscard]] std::vector<double> targetsOf(const std::vector<std::size_t> &drawn) const
    {
        std::vector<const std::vector<float> *> next;
        for (const std::size_t index : drawn)
            if (!m_replay[index].legal.empty())
                next.push_back(&m_replay[index].next);
        const auto chosen = m_network.values(next);
        const auto judged = m_target.values(next);
        std::vector<double> targets;
        std::size_t at = 0;
        for (const std::size_t index : drawn) {
            const Transition &transition = m_replay[index];
            targets.push_back(transition.reward);
            if (transition.legal.empty())
                continue;
            if (const std::size_t action = bestLegal(transition.legal, chosen[at]); action < transition.legal.size())
                targets.back() += transition.discount * static_cast<double>(judged[at][action]);
            ++at;
        }
        return targets;
    }

    void train()
    {
        constexpr double kLeastError = 1e-3;
        const double importance = m_settings.importance + (1 - m_settings.importance) * m_done;
        std::vector<std::size_t> drawn;
        std::vector<Network::Sample> batch;
        float most = 0;
        for (std::size_t i = 0; i < m_settings.batch; ++i) // one from each of equal shares of the sum
            drawn.push_back(
                m_replay.draw((static_cast<double>(i) + unit(m_random)) / static_cast<double>(m_settings.batch)));
        const std::vector<double> targets = targetsOf(drawn);
        for (std::size_t i = 0; i < drawn.size(); ++i) {
            const Transition &transition = m_replay[drawn[i]];
            const double weight =
                std::pow(static_cast<double>(m_replay.size()) * m_replay.probability(drawn[i]), -importance);
            batch.push_back(
                {&transition.state, transition.action, static_cast<float>(targets[i]), static_cast<float>(weight)});
            most = std::max(most, batch.back().weight);
        }
        for (Network::Sample &sample : batch)
            sample.weight /= most;
        const std::vector<float> errors = m_network.train(batch, static_cast<float>(m_settings.learningRate));
        for (std::size_t i = 0; i < drawn.size(); ++i)
            m_replay.setPriority(
                drawn[i], std::pow(std::fabs(static_cast<double>(errors[i])) + kLeastError, m_settings.priority));
        if (++m_trained % m_settings.targetPeriod == 0)
            m_target = m_network;
    }

    Environment &m_game;
    const AgentSettings &m_settings;
    std::mt19937_64 m_random;
    Network m_network;
    Network m_target;
    Replay m_replay;
    Played m_played;
    double m_done = 0; ///< share of the episodes
    std::size_t m_actions = 0;
    std::size_t m_trained = 0;
};

} // namespace

Outcome learn(Environment &game, const AgentSettings &settings, const Progress &progress,
              const std::vector<std::size_t> &begin, const Watch &watch)
{
    return Agent(game, settings).run(progress, begin, watch);
}

Outcome rollOut(Environment &game, std::size_t episodes, std::uint64_t seed)
{
    std::mt19937_64 random(seed);
    Outcome outcome;
    for (; outcome.episodes < episodes; ++outcome.episodes) {
        Episode episode;
        for (game.reset(); !game.over();) {
            episode.actions.push_back(randomLegal(game.legal(), random));
            game.act(episode.actions.back());
        }
        episode.score = game.score();
        if (outcome.best.actions.empty() || episode.score > outcome.best.score)
            outcome.best = std::move(episode);
    }
    return outcome;
}

} // namespace planloom::planners::automap
