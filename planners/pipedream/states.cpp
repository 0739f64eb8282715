// SPDX-License-Identifier: Apache-2.0
#include "planners/pipedream/states.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace planloom::planners::pipedream {
namespace {

using Bits = std::vector<std::uint64_t>;

bool test(const Bits &bits, std::size_t at) { return (bits[at / 64] >> (at % 64) & 1U) != 0; }
void set(Bits &bits, std::size_t at) { bits[at / 64] |= std::uint64_t{1} << (at % 64); }

std::size_t count(const Bits &bits)
{
    std::size_t total = 0;
    for (const std::uint64_t word : bits)
        total += static_cast<std::size_t>(std::popcount(word));
    return total;
}

std::vector<std::vector<std::size_t>> readersOf(const std::vector<Layer> &layers)
{
    std::vector<std::vector<std::size_t>> readers(layers.size());
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        for (const std::size_t input : layers[layer].inputs)
            readers[input].push_back(layer);
    }
    return readers;
}

State stateOf(const Bits &bits, const std::vector<Layer> &layers, const std::vector<std::vector<std::size_t>> &readers)
{
    State state{bits, 0, 0, 0};
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        if (!test(bits, layer))
            continue;
        state.seconds += layers[layer].seconds;
        state.parameterBytes += layers[layer].parameterBytes;
        const auto &after = readers[layer];
        if (after.empty()
            || std::any_of(after.begin(), after.end(), [&](std::size_t reader) { return !test(bits, reader); }))
            state.outputBytes += layers[layer].outputBytes;
    }
    return state;
}

} // namespace

bool State::includes(const State &other) const
{
    for (std::size_t word = 0; word < layers.size(); ++word) {
        if ((other.layers[word] & ~layers[word]) != 0)
            return false;
    }
    return true;
}

std::optional<std::vector<State>> allStates(const std::vector<Layer> &layers, std::size_t most)
{
    const Bits empty((layers.size() + 63) / 64, 0);
    std::set<std::pair<std::size_t, Bits>> known; // by number of layers
    std::vector<Bits> open{empty};
    while (!open.empty()) {
        const Bits from = std::move(open.back());
        open.pop_back();
        for (std::size_t layer = 0; layer < layers.size(); ++layer) {
            const auto &inputs = layers[layer].inputs;
            if (test(from, layer)
                || std::any_of(inputs.begin(), inputs.end(), [&](std::size_t input) { return !test(from, input); }))
                continue;
            Bits next = from;
            set(next, layer);
            if (known.emplace(count(next), next).second)
                open.push_back(std::move(next));
            if (known.size() > most)
                return std::nullopt;
        }
    }
    const auto readers = readersOf(layers);
    std::vector<State> states;
    for (const auto &[size, bits] : known)
        states.push_back(stateOf(bits, layers, readers));
    return states;
}

std::vector<State> prefixStates(const std::vector<Layer> &layers)
{
    const auto readers = readersOf(layers);
    Bits bits((layers.size() + 63) / 64, 0);
    std::vector<State> states;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        set(bits, layer);
        states.push_back(stateOf(bits, layers, readers));
    }
    return states;
}

} // namespace planloom::planners::pipedream
