// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/release_plan.h"

#include "engine/memory/evicted.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>

namespace planloom::memory {
namespace {

using Action = Decision::Action;

/// A storage's largest gap between two uses.
struct Gap {
    std::int32_t storage = 0;
    std::int32_t behind = 0; ///< the operator that it begins with
    double seconds = 0;
    double trip = 0; ///< seconds of the copies to the host and back; of a hosted storage back alone
};

std::size_t indexOf(std::int32_t index) { return static_cast<std::size_t>(index); }

/// The operator during which most bytes are alive.
std::int32_t fullestOf(const Stream &stream)
{
    const std::vector<std::int64_t> alive = stream.aliveBytes();
    return static_cast<std::int32_t>(std::max_element(alive.begin(), alive.end()) - alive.begin());
}

std::vector<Gap> gapsOf(const Stream &stream, const Limits &limits)
{
    const std::int32_t fullest = fullestOf(stream);
    std::vector<Gap> gaps(stream.storages.size());
    std::vector<std::int32_t> last(stream.storages.size(), -1);
    std::vector<double> lastEnd(stream.storages.size(), 0);
    std::vector<bool> counts(stream.storages.size(), false);
    double now = 0;
    for (std::size_t o = 0; o < stream.operators.size(); ++o) {
        const Operator &op = stream.operators[o];
        for (const auto *used : {&op.inputs, &op.outputs})
            for (const std::int32_t storage : *used) {
                Gap &gap = gaps[indexOf(storage)];
                if (last[indexOf(storage)] >= 0 && now - lastEnd[indexOf(storage)] > gap.seconds) {
                    gap = {storage, last[indexOf(storage)], now - lastEnd[indexOf(storage)], 0};
                    counts[indexOf(storage)] = gap.behind <= fullest && static_cast<std::int32_t>(o) > fullest;
                }
                last[indexOf(storage)] = static_cast<std::int32_t>(o);
                lastEnd[indexOf(storage)] = now + op.seconds;
            }
        now += op.seconds;
    }
    std::vector<Gap> kept;
    for (Gap &gap : gaps) {
        const Storage &storage = stream.storages[indexOf(gap.storage)];
        if (!counts[indexOf(gap.storage)] || (storage.producer < 0 && !storage.hosted) || storage.bytes == 0
            || gap.seconds <= 0)
            continue;
        gap.trip =
            storage.hosted ? limits.copies.seconds(false, storage.bytes) : limits.copies.roundTrip(storage.bytes);
        kept.push_back(gap);
    }
    return kept;
}

/// Of the stream behind its forward pass: what is dead by then has to be made again for those that read it. Hosted
/// storages are there until they are chosen to leave.
Evicted deadBy(const Stream &stream, const Limits &limits, std::int32_t fullest)
{
    Evicted gone(stream, limits.copies);
    for (std::size_t s = 0; s < stream.storages.size(); ++s)
        if (stream.storages[s].hosted)
            gone.restore(static_cast<std::int32_t>(s));
    for (std::int32_t o = 0; o <= fullest; ++o)
        for (const std::int32_t dead : stream.operators[indexOf(o)].dies)
            gone.drop(dead, false);
    return gone;
}

bool maySwap(const Limits &limits, const Storage &storage)
{
    return storage.hosted || limits.policy.director != plan::MemoryDirector::Recompute;
}

bool mayRecompute(const Limits &limits, const Storage &storage)
{
    return limits.policy.director != plan::MemoryDirector::Swap && storage.recomputable && !storage.hosted;
}

/// What is done with a storage that is copied back.
Action copyOf(const Storage &storage) { return storage.hosted ? Action::Drop : Action::Swap; }

std::vector<Release> sorted(std::vector<Release> releases)
{
    std::stable_sort(releases.begin(), releases.end(),
                     [](const Release &a, const Release &b) { return a.behind < b.behind; });
    return releases;
}

struct Offer {
    double price = 0; ///< seconds for each byte
    std::size_t gap = 0;
    Action action = Action::Swap;
    bool operator<(const Offer &other) const { return price != other.price ? price > other.price : gap > other.gap; }
};

/// Takes the cheapest offer until @p need is covered. What one costs only rises as others are taken: it is priced
/// again when its turn comes.
template <class Price>
void cover(const std::vector<Gap> &gaps, const Stream &stream, std::int64_t need, Evicted &gone,
           std::vector<bool> &taken, std::vector<Release> &releases, const Price &price)
{
    std::priority_queue<Offer> offers;
    for (std::size_t g = 0; g < gaps.size(); ++g)
        if (!taken[g])
            if (const auto offer = price(g))
                offers.push(*offer);
    while (need > 0 && !offers.empty()) {
        const Offer best = offers.top();
        offers.pop();
        const auto now = price(best.gap);
        if (!now)
            continue;
        if (now->price > best.price) {
            offers.push(*now);
            continue;
        }
        const Gap &gap = gaps[best.gap];
        taken[best.gap] = true;
        releases.push_back({gap.behind, gap.storage, now->action});
        if (now->action != Action::Swap) // what is swapped comes back by itself
            gone.drop(gap.storage, now->action == Action::Recompute);
        need -= stream.storages[indexOf(gap.storage)].bytes;
    }
}

} // namespace

std::vector<Release> capuchinReleases(const Stream &stream, const Limits &limits, std::int64_t need)
{
    std::vector<Gap> gaps = gapsOf(stream, limits);
    std::stable_sort(gaps.begin(), gaps.end(),
                     [](const Gap &a, const Gap &b) { return a.seconds - a.trip > b.seconds - b.trip; });
    std::vector<bool> taken(gaps.size(), false);
    std::vector<Release> releases;
    double lane = 0; // seconds of copies in one direction so far
    for (std::size_t g = 0; g < gaps.size() && need > 0; ++g) {
        const Gap &gap = gaps[g];
        const Storage &storage = stream.storages[indexOf(gap.storage)];
        if (gap.seconds < gap.trip + lane || !maySwap(limits, storage))
            continue;
        taken[g] = true;
        lane += storage.hosted ? gap.trip : gap.trip / 2;
        releases.push_back({gap.behind, gap.storage, copyOf(storage)});
        need -= storage.bytes;
    }
    Evicted gone = deadBy(stream, limits, fullestOf(stream));
    cover(gaps, stream, need, gone, taken, releases, [&](std::size_t g) -> std::optional<Offer> {
        const Storage &storage = stream.storages[indexOf(gaps[g].storage)];
        const bool again = mayRecompute(limits, storage);
        if (!again && !maySwap(limits, storage))
            return std::nullopt;
        const double seconds =
            again ? gone.secondsAgain(gaps[g].storage) + gone.ancestorSeconds(gaps[g].storage) : gaps[g].trip;
        return Offer{seconds / static_cast<double>(storage.bytes), g, again ? Action::Recompute : copyOf(storage)};
    });
    return sorted(std::move(releases));
}

std::vector<Release> knapsackReleases(const Stream &stream, const Limits &limits, std::int64_t need, double traffic)
{
    const std::vector<Gap> gaps = gapsOf(stream, limits);
    std::vector<bool> taken(gaps.size(), false);
    std::vector<Release> releases;
    Evicted gone = deadBy(stream, limits, fullestOf(stream));
    cover(gaps, stream, need, gone, taken, releases, [&](std::size_t g) -> std::optional<Offer> {
        const Gap &gap = gaps[g];
        const Storage &storage = stream.storages[indexOf(gap.storage)];
        std::optional<Offer> best;
        const auto offer = [&](double seconds, Action action) {
            const double price = seconds / static_cast<double>(storage.bytes);
            if (!best || price < best->price)
                best = Offer{price, g, action};
        };
        if (maySwap(limits, storage))
            offer(traffic * gap.trip + std::max(0.0, gap.trip - gap.seconds), copyOf(storage));
        if (mayRecompute(limits, storage))
            offer(gone.secondsAgain(gap.storage) + gone.ancestorSeconds(gap.storage), Action::Recompute);
        return best;
    });
    return sorted(std::move(releases));
}

} // namespace planloom::memory
