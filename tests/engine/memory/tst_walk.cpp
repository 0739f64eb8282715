// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/block_pool.h"
#include "engine/memory/replay.h"
#include "engine/memory/walk.h"
#include "engine/simulate/clock.h"
#include "tests/engine/memory/chains.h"
#include "tests/engine/memory/optimum.h"
#include "tests/engine/simulate/hand_made.h"

#include <QTest>

#include <array>
#include <cmath>
#include <map>

using namespace planloom;
using namespace planloom::testing;
using memory::Course;
using memory::Decision;
using memory::Limits;
using memory::Stream;
using plan::MemoryDirector;
using plan::MemoryFilter;

namespace {

/// A transformer-like graph: block i has a residual sum, a product that dies in its forward pass, and two outputs.
Stream branching(int blocks)
{
    Stream stream;
    stream.storages.push_back({0, -1, false});
    std::vector<std::array<std::int32_t, 4>> made;
    std::int32_t before = 0;
    for (int b = 0; b < blocks; ++b) {
        const auto first = static_cast<std::int32_t>(stream.storages.size());
        const auto op = static_cast<std::int32_t>(stream.operators.size());
        stream.storages.push_back({256, op, true});     // normalised
        stream.storages.push_back({64, op, true});      // its statistics
        stream.storages.push_back({512, op + 1, true}); // product
        stream.storages.push_back({320, op + 2, true}); // sum
        stream.operators.push_back({2e-3, {before}, {first, first + 1}, {}, 0});
        stream.operators.push_back({9e-3, {first}, {first + 2}, {}, 0});
        stream.operators.push_back({1e-3, {first + 2, before}, {first + 3}, {first + 2}, 0});
        made.push_back({before, first, first + 1, first + 3});
        before = first + 3;
    }
    for (int b = blocks - 1; b >= 0; --b) {
        const auto &[in, norm, statistics, out] = made[static_cast<std::size_t>(b)];
        stream.operators.push_back({18e-3, {norm, out}, {}, {out}, 0});
        stream.operators.push_back({3e-3, {in, norm, statistics}, {}, {norm, statistics}, 0});
    }
    return stream;
}

/// The same with a parameter of @p bytes for each block, which the host has: the block's product and the backward
/// operator of it read it. A second micro-batch follows, as 1F1B would have it: parameters are of both.
Stream withParameters(int blocks, std::int64_t bytes)
{
    const Stream one = branching(blocks);
    Stream stream = one;
    const auto storages = static_cast<std::int32_t>(one.storages.size());
    const auto operators = static_cast<std::int32_t>(one.operators.size());
    for (std::int32_t s = 1; s < storages; ++s) {
        stream.storages.push_back(one.storages[static_cast<std::size_t>(s)]);
        stream.storages.back().producer += operators;
    }
    for (memory::Operator op : one.operators) {
        for (auto *list : {&op.inputs, &op.outputs, &op.dies})
            for (std::int32_t &storage : *list)
                storage += storage > 0 ? storages - 1 : 0;
        stream.operators.push_back(std::move(op));
    }
    for (std::int32_t b = 0; b < blocks; ++b) {
        const auto parameter = static_cast<std::int32_t>(stream.storages.size());
        stream.storages.push_back({bytes, -1, false, true});
        const std::int32_t backward = 3 * blocks + 2 * (blocks - 1 - b);
        for (const std::int32_t reader : {3 * b + 1, backward, operators + 3 * b + 1, operators + backward})
            stream.operators[static_cast<std::size_t>(reader)].inputs.push_back(parameter);
        stream.operators[static_cast<std::size_t>(operators + backward)].dies.push_back(parameter);
    }
    return stream;
}

/// Fails unless no two storages are in one place at once, every operator finds what it reads, and the budget holds.
void checkCourse(const Stream &stream, const Limits &limits, const Course &course)
{
    using Kind = memory::Event::Kind;
    std::map<std::int64_t, std::int32_t> at; // what lies at an offset: each operator reads what was written there last
    std::map<std::int64_t, std::int32_t> host;
    std::map<std::int32_t, std::int32_t> came; // the copy that brought a storage last
    std::int32_t awaited = -1; // the last copy from the host that operators have waited for: they end in their order
    for (const memory::Event &event : course.events) {
        const auto number = static_cast<std::int32_t>(&event - course.events.data());
        for (std::int32_t w = event.firstWait; w < event.lastWait && event.kind <= Kind::Again; ++w) {
            const std::int32_t other = course.waits[static_cast<std::size_t>(w)];
            if (course.events[static_cast<std::size_t>(other)].kind == Kind::In)
                awaited = std::max(awaited, other);
        }
        QVERIFY(event.after < static_cast<std::int32_t>(&event - course.events.data()));
        QVERIFY(!limits.fixedPool || event.used <= limits.budget);
        const std::int64_t *place = course.places.data() + event.firstPlace;
        const auto write = [&](std::int64_t offset, std::int32_t storage) {
            const std::int64_t bytes = stream.storages[static_cast<std::size_t>(storage)].bytes;
            std::erase_if(at, [&](const auto &entry) {
                const std::int64_t end = entry.first + stream.storages[static_cast<std::size_t>(entry.second)].bytes;
                return entry.first < offset + bytes && offset < end;
            });
            at[offset] = storage;
        };
        if (event.kind == Kind::Out) {
            QCOMPARE(at.at(*place), event.subject);
            host[event.hostPlace] = event.subject;
            continue;
        }
        if (event.kind == Kind::In) {
            if (stream.storages[static_cast<std::size_t>(event.subject)].hosted)
                QCOMPARE(event.hostPlace, -1);
            else
                QCOMPARE(host.at(event.hostPlace), event.subject);
            write(*place, event.subject);
            came[event.subject] = number;
            continue;
        }
        const memory::Operator &op = stream.operators[static_cast<std::size_t>(event.subject)];
        for (const std::int32_t input : op.inputs) {
            const memory::Storage &read = stream.storages[static_cast<std::size_t>(input)];
            if (read.producer >= 0 || read.hosted)
                QCOMPARE(at.at(*place), input);
            if (came.contains(input))
                QVERIFY2(came[input] <= awaited, "an operator does not wait for what it reads");
            ++place;
        }
        for (const std::int32_t output : op.outputs) {
            came.erase(output);
            write(*place++, output);
        }
    }
    for (const Decision &decision : course.decisions) {
        const memory::Event &out = course.events.at(static_cast<std::size_t>(decision.event));
        const memory::Storage &left = stream.storages[static_cast<std::size_t>(decision.storage)];
        const bool again = decision.action == Decision::Action::Recompute;
        QCOMPARE(left.hosted, decision.action == Decision::Action::Drop);
        QCOMPARE(out.kind, left.hosted ? Kind::In : again ? Kind::Again : Kind::Out);
        QCOMPARE(out.subject, again ? left.producer : decision.storage);
        const Kind behind = course.events.at(static_cast<std::size_t>(decision.room)).kind;
        QVERIFY(behind == Kind::Run || behind == Kind::Again);
    }
}

/// Seconds of @p course as a Program of one task for each of its events.
double costClockSeconds(const Course &course, const Stream &stream, const memory::CopyTimes &copies)
{
    using Kind = memory::Event::Kind;
    testing::HandMade hand(1);
    std::vector<TaskId> tasks;
    for (const memory::Event &event : course.events) {
        const auto subject = static_cast<std::size_t>(event.subject);
        if (event.kind == Kind::Out || event.kind == Kind::In) {
            const bool out = event.kind == Kind::Out;
            tasks.push_back(hand.add(0, out ? program::Lane::CopyOut : program::Lane::CopyIn, program::Swap{out, 0, 0},
                                     copies.seconds(out, stream.storages[subject].bytes)));
        } else {
            tasks.push_back(hand.add(0, program::Lane::Compute, trace::Kind::Forward,
                                     stream.operators[subject].seconds + event.delay));
            hand.next(tasks.back());
        }
        if (event.after >= 0)
            hand.after(tasks.back(), tasks[static_cast<std::size_t>(event.after)]);
        for (std::int32_t w = event.firstWait; w < event.lastWait; ++w)
            hand.after(tasks.back(), tasks[static_cast<std::size_t>(course.waits[static_cast<std::size_t>(w)])]);
    }
    const program::Program program = hand.made();
    const auto seconds = simulate::CostClock(program).run(nullptr);
    return seconds ? *seconds : std::numeric_limits<double>::quiet_NaN();
}

} // namespace

class TestWalk : public QObject {
    Q_OBJECT

private slots:
    void largeNumbers();
    void everyPolicyKeepsItsBudget_data();
    void everyPolicyKeepsItsBudget();
    void parametersComeFromTheHost_data();
    void parametersComeFromTheHost();
    void readersWaitForCopies();
    void parametersStayWhereThereIsRoom();
    void overlappingIsNotSlower();
    void copiesTakeTimeFromOperators();
    void eachDecisionIsCarriedOut();
    void aheadIsTheFastest();
    void replaysLanesSideBySide();
    void noPolicyBeatsTheOptimum();
    void optimumByHand();
    void withoutAPolicyEverythingStays();
    void roomInPiecesIsCounted();
    void allOfItStays();
    void theOtherTriggerFitsWhatThisFits();
    void parametersArePartOfThePrice();
    void hostBytesHold();
    void refusals();
    void pool();
};

/// A gibibyte that is unused for hours: bytes times nanoseconds would not fit 64 bits.
void TestWalk::largeNumbers()
{
    const std::int64_t gibibyte = std::int64_t{1} << 30;
    const Stream stream = chainOf({{20, gibibyte}, {7200, gibibyte / 64}, {7200, gibibyte / 64}, {1, gibibyte}});
    const auto course =
        memory::walk(stream, limitsFor(MemoryFilter::Delta, MemoryDirector::Swap, gibibyte + gibibyte / 16, 1e9));
    QVERIFY(course);
    QCOMPARE(course->decisions.at(0).storage, 1);
    QVERIFY(course->decisions.at(0).score > 0);
}

void TestWalk::everyPolicyKeepsItsBudget_data()
{
    QTest::addColumn<int>("filter");
    QTest::addColumn<int>("director");
    QTest::addColumn<bool>("overlaps");
    for (const auto &row : plan::kMemoryFilters)
        for (int director = 0; director < 4; ++director)
            for (const bool overlaps : {false, true})
                if (row.filter != MemoryFilter::None)
                    QTest::addRow("%s %d %d", row.name, director, overlaps)
                        << static_cast<int>(row.filter) << director << overlaps;
}

void TestWalk::everyPolicyKeepsItsBudget()
{
    QFETCH(int, filter);
    QFETCH(int, director);
    QFETCH(bool, overlaps);
    const Stream stream = branching(12);
    plan::Memory policy;
    policy.filter = static_cast<MemoryFilter>(filter);
    policy.director = static_cast<MemoryDirector>(director);
    policy.overlaps = overlaps;
    policy.latency = 0;
    for (const double share : {0.8, 0.6, 0.45}) {
        policy.budgetShare = share;
        const Limits limits = memory::limitsOf(policy, stream, 100'000);
        const auto course = memory::walk(stream, limits);
        // What was just made again may leave at once by size or chance, and is then made again under more locks.
        const bool mayThrash = policy.filter == MemoryFilter::Size || policy.filter == MemoryFilter::Random;
        if (!course && mayThrash && course.error().message.find("cannot hold") != std::string::npos)
            continue;
        QVERIFY2(course, course ? "" : course.error().message.c_str());
        QVERIFY(course->peakBytes <= limits.budget);
        QVERIFY(course->poolBytes <= limits.budget);
        QVERIFY(course->recomputes + course->swaps > 0);
        checkCourse(stream, limits, *course);
        const auto same = memory::walk(stream, limits);
        QVERIFY(same && same->decisions == course->decisions && same->places == course->places);
    }
}

void TestWalk::parametersComeFromTheHost_data() { everyPolicyKeepsItsBudget_data(); }

/// Parameters that the host has count in the budget while they are on the device; they leave without a copy.
void TestWalk::parametersComeFromTheHost()
{
    QFETCH(int, filter);
    QFETCH(int, director);
    QFETCH(bool, overlaps);
    constexpr int kBlocks = 6;
    const Stream stream = withParameters(kBlocks, 448);
    plan::Memory policy;
    policy.filter = static_cast<MemoryFilter>(filter);
    policy.director = static_cast<MemoryDirector>(director);
    policy.overlaps = overlaps;
    policy.latency = 0;
    QCOMPARE(stream.peakBytes() - branching(kBlocks).peakBytes(), kBlocks * 448); // they are of both micro-batches
    for (const double share : {0.8, 0.6, 0.5}) {
        policy.budgetShare = share;
        const Limits limits = memory::limitsOf(policy, stream, 100'000);
        const auto course = memory::walk(stream, limits);
        const bool mayThrash = policy.filter == MemoryFilter::Size || policy.filter == MemoryFilter::Random
            || policy.filter == MemoryFilter::Local; // the cheapest are what was just fetched
        if (!course && mayThrash && course.error().message.find("cannot hold") != std::string::npos)
            continue;
        QVERIFY2(course, course ? "" : course.error().message.c_str());
        QVERIFY(course->poolBytes <= limits.budget);
        QVERIFY(course->drops > 0);
        checkCourse(stream, limits, *course);
        std::int64_t out = 0;
        std::int64_t in = 0;
        std::int64_t drops = 0;
        for (const memory::Event &event : course->events)
            if (stream.storages[static_cast<std::size_t>(event.subject)].hosted) {
                out += event.kind == memory::Event::Kind::Out ? 1 : 0;
                in += event.kind == memory::Event::Kind::In ? 1 : 0;
            }
        for (const Decision &decision : course->decisions)
            drops += decision.action == Decision::Action::Drop ? 1 : 0;
        QCOMPARE(out, 0);
        QCOMPARE(drops, course->drops);
        QVERIFY(in >= kBlocks + drops); // and what dead ones are read for once more
        const auto same = memory::walk(stream, limits);
        QVERIFY(same && same->decisions == course->decisions && same->places == course->places);
    }
}

/// Readers wait for the copies of what they read, however little room there is on the device and on the host.
void TestWalk::readersWaitForCopies()
{
    constexpr int kBlocks = 6;
    const Stream stream = withParameters(kBlocks, 448);
    plan::Memory policy;
    policy.director = MemoryDirector::Swap;
    policy.latency = 0;
    int kept = 0;
    for (const MemoryFilter filter :
         {MemoryFilter::Delta, MemoryFilter::LeastRecentUsed, MemoryFilter::Size, MemoryFilter::Random})
        for (const std::int64_t prefetch : {2, 5, 20})
            for (const std::int64_t hostBytes : {448, 896, 1792, 3584, 7168})
                for (int percent = 95; percent >= 40; percent -= 5) {
                    policy.filter = filter;
                    policy.prefetch = prefetch;
                    policy.hostBytes = hostBytes;
                    policy.budgetShare = percent / 100.0;
                    const Limits limits = memory::limitsOf(policy, stream, 100'000);
                    const auto course = memory::walk(stream, limits);
                    if (!course)
                        continue;
                    ++kept;
                    checkCourse(stream, limits, *course);
                }
    QVERIFY(kept >= 10);
}

/// Each comes once then, before the operator that reads it first: with prefetching beside those before it.
void TestWalk::parametersStayWhereThereIsRoom()
{
    constexpr int kBlocks = 6;
    const Stream stream = withParameters(kBlocks, 448);
    double stalls[2] = {};
    for (const bool fetches : {false, true}) {
        plan::Memory policy;
        policy.filter = MemoryFilter::Delta;
        policy.budgetShare = 1;
        policy.latency = 0;
        policy.prefetch = fetches ? 5 : 0;
        Limits limits = memory::limitsOf(policy, stream, 1'000'000);
        limits.budget *= 2; // with holes
        const auto course = memory::walk(stream, limits);
        QVERIFY2(course, course ? "" : course.error().message.c_str());
        QVERIFY(course->decisions.empty());
        QCOMPARE(std::ssize(course->events), std::ssize(stream.operators) + kBlocks);
        QCOMPARE(course->hostBytes, 0); // none that is given out anew
        checkCourse(stream, limits, *course);
        stalls[fetches ? 1 : 0] = course->stallSeconds;
    }
    QCOMPARE(stalls[0], kBlocks * 448 / 1e6);
    QVERIFY(stalls[1] < stalls[0] / 2);
}

void TestWalk::overlappingIsNotSlower()
{
    const Stream stream = branching(16);
    plan::Memory policy;
    policy.filter = MemoryFilter::Delta;
    policy.director = MemoryDirector::Swap;
    policy.latency = 0;
    policy.budgetShare = 0.5;
    const auto overlapping = memory::walk(stream, memory::limitsOf(policy, stream, 100'000));
    policy.overlaps = false;
    const auto synchronous = memory::walk(stream, memory::limitsOf(policy, stream, 100'000));
    QVERIFY(overlapping && synchronous);
    QVERIFY(overlapping->seconds < synchronous->seconds);
    QVERIFY(overlapping->seconds >= stream.seconds());
}

/// On a processor what overlaps is not free: operators are longer by the copies beside them, by their own time at most.
void TestWalk::copiesTakeTimeFromOperators()
{
    for (const char *chain : {"U16", "A16", "B16"}) {
        const Stream stream = chainOf(elementsOf(chain));
        Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Swap, QString(chain) == "U16" ? 6 : 16, 2);
        limits.policy.overlaps = true;
        const auto engine = memory::walk(stream, limits);
        limits.copyLoad = 1;
        const auto shared = memory::walk(stream, limits);
        QVERIFY(engine && shared && shared->swaps > 0);
        double delays = 0;
        double copies = 0;
        for (const memory::Event &event : shared->events) {
            const auto subject = static_cast<std::size_t>(event.subject);
            QVERIFY(event.delay >= 0);
            if (event.kind == memory::Event::Kind::Run)
                QVERIFY(event.delay <= stream.operators[subject].seconds);
            else
                copies += limits.copies.seconds(true, stream.storages[subject].bytes);
            delays += event.delay;
        }
        QVERIFY(delays > 0 && delays <= copies);
        QCOMPARE(shared->seconds, stream.seconds() + shared->stallSeconds + delays);
        QVERIFY(shared->seconds > engine->seconds);
        for (const memory::Event &event : engine->events)
            QCOMPARE(event.delay, 0.0);
    }
}

/// An operator runs again for its first output while its second is there, and there is no room for the first: the
/// second is dropped, and made again at once by the same event.
void TestWalk::eachDecisionIsCarriedOut()
{
    Stream stream;
    stream.storages = {{0, -1, false}, {4, 0, true}, {4, 0, true}, {4, 1, true}};
    stream.operators = {
        {1, {0}, {1, 2}, {}, 0}, {1, {2}, {3}, {}, 0}, {1, {1}, {}, {1}, 0}, {1, {2, 3}, {}, {2, 3}, 0}};
    Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Recompute, 10, 1);
    limits.policy.trigger = plan::MemoryTrigger::Before;
    const auto course = memory::walk(stream, limits);
    QVERIFY2(course, course ? "" : course.error().message.c_str());
    QCOMPARE(logOf(*course), QString("1R 2R 3R"));
    QVERIFY(course->decisions[0].event >= 0);
    QCOMPARE(course->decisions[1].event, course->decisions[0].event);
    checkCourse(stream, limits, *course);
}

/// By the cost clock, with copies that have an engine of their own and with such that take time from operators: no
/// single policy is faster, and most are slower.
void TestWalk::aheadIsTheFastest()
{
    using enum MemoryFilter;
    const Stream stream = branching(16);
    constexpr double kRounding = 1e-9;
    std::map<MemoryFilter, int> beaten; // cases in which `ahead` is 1 % faster than the policy with its rule
    int alone = 0;                      // in which it is faster than each of them
    for (const double share : {0.8, 0.6, 0.45})
        for (const double bandwidth : {30'000.0, 100'000.0, 1e6})
            for (const double load : {0.0, 1.0}) {
                const auto secondsOf = [&](MemoryFilter filter, MemoryDirector director) {
                    plan::Memory policy;
                    policy.filter = filter;
                    policy.director = director;
                    policy.latency = 0;
                    policy.budgetShare = share;
                    Limits limits = memory::limitsOf(policy, stream, bandwidth);
                    limits.copyLoad = load;
                    const auto course = memory::walk(stream, limits);
                    if (!course)
                        return std::numeric_limits<double>::infinity();
                    checkCourse(stream, limits, *course);
                    return costClockSeconds(*course, stream, limits.copies);
                };
                const double ahead = secondsOf(Ahead, MemoryDirector::Rule);
                QVERIFY(ahead >= stream.seconds());
                double fastest = std::numeric_limits<double>::infinity();
                for (const MemoryFilter filter : {Delta, Local, Dtr, MemoryPerSecond, Knapsack})
                    for (const MemoryDirector director : {MemoryDirector::Rule, MemoryDirector::Chain}) {
                        const double other = secondsOf(filter, director);
                        QVERIFY2(ahead <= other * (1 + kRounding), plan::name(filter));
                        fastest = std::min(fastest, other);
                        beaten[filter] += director == MemoryDirector::Rule && other > 1.01 * ahead ? 1 : 0;
                    }
                alone += fastest > ahead * (1 + kRounding) ? 1 : 0;
            }
    for (const MemoryFilter filter : {Delta, Local})
        QVERIFY2(beaten[filter] >= 12, plan::name(filter));
    QVERIFY(beaten[Knapsack] >= 3);
    QVERIFY(alone >= 1);
}

/// A copy begins as soon as its storage is out of use, not when it was decided; the operator that takes its room waits
/// for its end, as does the one that reads what comes back.
void TestWalk::replaysLanesSideBySide()
{
    Stream stream;
    stream.storages = {{0, -1, false}, {4, 0, true}, {4, 1, true}, {4, 2, true}};
    stream.operators = {{1, {0}, {1}, {}, 0},
                        {1, {0}, {2}, {}, 0},
                        {1, {2}, {3}, {}, 0},
                        {1, {2, 3}, {}, {2, 3}, 0},
                        {1, {1}, {}, {1}, 0}};
    Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Swap, 8, 2);
    limits.policy.trigger = plan::MemoryTrigger::Before;
    limits.policy.overlaps = true;
    limits.policy.prefetch = 0;
    limits.fixedPool = true;
    const auto course = memory::walk(stream, limits);
    QVERIFY(course);
    QCOMPARE(logOf(*course), QString("1S"));
    // Decided at 2, copied until 4, made 5, used 6, copied back until 8, used 9.
    QCOMPARE(course->seconds, 9.0);
    // Out from 1 to 3; 3 is made then until 4, used until 5, copied back until 7, used until 8.
    QCOMPARE(memory::replaySeconds(*course, stream, limits.copies), 8.0);
}

/// Room is made before operators: the search and the policies keep to the same budget at every moment.
void TestWalk::noPolicyBeatsTheOptimum()
{
    const std::vector<Element> chains[] = {alternating(8, {1, 1}, {1, 1}), alternating(8, {5, 4}, {1, 1}),
                                           alternating(8, {1, 4}, {5, 1})};
    for (const auto &elements : chains)
        for (const auto director : {MemoryDirector::Rule, MemoryDirector::Swap, MemoryDirector::Recompute}) {
            const Stream stream = chainOf(elements);
            for (const std::int64_t budget : {stream.peakBytes() * 3 / 4, stream.peakBytes()}) {
                Limits limits = limitsFor(MemoryFilter::Delta, director, budget, 2);
                limits.policy.trigger = plan::MemoryTrigger::Before;
                const auto optimum = memory::optimalSeconds(stream, limits);
                QVERIFY(optimum);
                QVERIFY(*optimum >= stream.seconds());
                if (budget == stream.peakBytes())
                    QCOMPARE(*optimum, stream.seconds());
                for (const auto &row : plan::kMemoryFilters) {
                    limits.policy.filter = row.filter;
                    const auto course = memory::walk(stream, limits);
                    if (row.filter != MemoryFilter::None && course)
                        QVERIFY2(course->seconds >= *optimum - 1e-9, row.name);
                }
                limits.policy.filter = MemoryFilter::Ahead;
                const auto ahead = memory::walk(stream, limits);
                QVERIFY(ahead);
                QVERIFY2(ahead->seconds <= 1.1 * *optimum,
                         qPrintable(QString("%1 for %2").arg(ahead->seconds).arg(*optimum)));
            }
        }
}

/// t1, t2 and t3 do not lie beside each other: t1 has to go before t3 is made, and to come back for its backward pass.
void TestWalk::optimumByHand()
{
    const Stream stream = chainOf({{3, 2}, {1, 2}, {1, 1}});
    Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Rule, 4, 2);
    // Again it costs 3; there and back 1 + 1.
    auto optimum = memory::optimalSeconds(stream, limits);
    QVERIFY(optimum);
    QCOMPARE(*optimum, 15.0 + 2.0);
    limits.policy.director = MemoryDirector::Recompute;
    optimum = memory::optimalSeconds(stream, limits);
    QVERIFY(optimum);
    QCOMPARE(*optimum, 15.0 + 3.0);
    limits.budget = 3;
    QVERIFY(!memory::optimalSeconds(stream, limits));
    QVERIFY(!memory::optimalSeconds(branching(12), limits));
}

void TestWalk::withoutAPolicyEverythingStays()
{
    const Stream stream = branching(4);
    const auto course = memory::walk(stream, memory::limitsOf({}, stream, 1));
    QVERIFY(course);
    QCOMPARE(course->peakBytes, stream.peakBytes());
    QCOMPARE(course->events.size(), stream.operators.size());
    QCOMPARE(course->seconds, stream.seconds());
}

namespace {

/// Of ten bytes three are used in the middle: six more are there, but not in one piece.
Stream inPieces()
{
    Stream stream;
    stream.storages = {{0, -1, false}, {3, 0, true}, {3, 1, true}, {3, 2, true}, {6, 4, true}};
    stream.operators = {{1, {0}, {1}, {}, 0}, {1, {0}, {2}, {}, 0}, {1, {1}, {3}, {1}, 0},
                        {1, {3}, {}, {3}, 0}, {1, {0}, {4}, {}, 0}, {1, {4, 2}, {}, {4, 2}, 0}};
    return stream;
}

} // namespace

/// The three have to go, as something has to leave later anyway: nothing is planned for the whole stream then.
void TestWalk::roomInPiecesIsCounted()
{
    Stream stream = inPieces();
    for (const std::int32_t op : {6, 7, 8})
        stream.storages.push_back({4, op, true});
    stream.operators.insert(
        stream.operators.end(),
        {{1, {0}, {5}, {}, 0}, {1, {0}, {6}, {}, 0}, {1, {6}, {7}, {6}, 0}, {1, {5, 7}, {}, {5, 7}, 0}});
    Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Recompute, 10, 2);
    limits.policy.trigger = plan::MemoryTrigger::Before;
    limits.fixedPool = true;
    const auto course = memory::walk(stream, limits);
    QVERIFY2(course, course ? "" : course.error().message.c_str());
    QCOMPARE(course->fragmented, 1);
    QCOMPARE(logOf(*course), QString("2R 5R"));
    limits.budget = 12;
    const auto roomy = memory::walk(stream, limits);
    QVERIFY(roomy);
    QCOMPARE(roomy->fragmented, 0);
    QVERIFY(roomy->decisions.empty());
}

/// Where a budget holds all bytes nothing moves, although best fit finds no hole; of a budget of 100 % the pool has
/// room for holes that no places can do without.
void TestWalk::allOfItStays()
{
    plan::Memory policy;
    policy.filter = MemoryFilter::Delta;
    policy.smallShare = 0;
    const Stream pieces = inPieces();
    for (const MemoryFilter filter : {MemoryFilter::Delta, MemoryFilter::Ahead}) {
        policy.filter = filter;
        policy.budgetBytes = pieces.peakBytes();
        const Limits limits = memory::limitsOf(policy, pieces, 2);
        const auto course = memory::walk(pieces, limits);
        QVERIFY2(course, course ? "" : course.error().message.c_str());
        QVERIFY(course->decisions.empty());
        QCOMPARE(course->seconds, pieces.seconds());
        QCOMPARE(course->poolBytes, 9);
        checkCourse(pieces, limits, *course);
    }
    // Each of five pairs of neighbours is there together, and so are the last and the first: three do not fit side by
    // side in the room of two.
    Stream ring;
    ring.storages = {{0, -1, false}, {2, 0, true}, {1, 1, true}, {2, 2, true},
                     {1, 3, true},   {2, 4, true}, {1, 5, true}};
    ring.operators = {{1, {0}, {1}, {}, 0},     {1, {0}, {2}, {}, 0},     {1, {1, 2}, {3}, {1}, 0},
                      {1, {2, 3}, {4}, {2}, 0}, {1, {3, 4}, {5}, {3}, 0}, {1, {4, 5}, {6}, {4, 5, 6}, 0}};
    policy.budgetBytes = 0;
    policy.budgetShare = 1;
    for (const Stream &stream : {pieces, ring, branching(12), withParameters(6, 448)})
        for (const auto trigger : {plan::MemoryTrigger::Before, plan::MemoryTrigger::After}) {
            policy.trigger = trigger;
            const Limits limits = memory::limitsOf(policy, stream, 100'000);
            const auto course = memory::walk(stream, limits);
            QVERIFY2(course, course ? "" : course.error().message.c_str());
            QVERIFY(course->decisions.empty());
            QVERIFY(course->peakBytes <= limits.budget
                    || stream.storages.back().hosted); // these come ahead of their use
            QVERIFY(course->poolBytes <= 3 * limits.budget / 2);
            checkCourse(stream, limits, *course);
        }
}

/// What an operator needs counts in full with trigger=before, and not at all in the moment with trigger=after: a stream
/// that fits with that one fits with this, too. What is fetched ahead goes again where nothing else can.
void TestWalk::theOtherTriggerFitsWhatThisFits()
{
    plan::Memory policy;
    policy.latency = 0;
    int both = 0;
    for (const Stream &stream : {withParameters(6, 448), branching(8)})
        for (const MemoryFilter filter : {MemoryFilter::Delta, MemoryFilter::LeastRecentUsed, MemoryFilter::Dtr})
            for (const MemoryDirector director : {MemoryDirector::Rule, MemoryDirector::Swap})
                for (const std::int64_t prefetch : {1, 5, 20})
                    for (int percent = 95; percent >= 30; percent -= 5) {
                        policy.filter = filter;
                        policy.director = director;
                        policy.prefetch = prefetch;
                        policy.budgetShare = percent / 100.0;
                        policy.trigger = plan::MemoryTrigger::Before;
                        const auto before = memory::walk(stream, memory::limitsOf(policy, stream, 100'000));
                        policy.trigger = plan::MemoryTrigger::After;
                        const Limits limits = memory::limitsOf(policy, stream, 100'000);
                        const auto after = memory::walk(stream, limits);
                        if (!before)
                            continue;
                        QVERIFY2(after,
                                 qPrintable(QString("%1 %2 prefetch %3 at %4 %: %5")
                                                .arg(plan::name(filter))
                                                .arg(static_cast<int>(director))
                                                .arg(prefetch)
                                                .arg(percent)
                                                .arg(QString::fromStdString(after ? "" : after.error().message))));
                        checkCourse(stream, limits, *after);
                        ++both;
                    }
    QVERIFY(both > 200);
}

/// An operator that runs again waits for the parameter that it reads: by the rule a swap of 3 + 3 seconds is cheaper
/// than an operator of 4 seconds with a copy of 8, and dearer than the operator alone.
void TestWalk::parametersArePartOfThePrice()
{
    Stream stream;
    stream.storages = {{0, -1, false}, {6, 0, true}, {6, 1, true}, {16, -1, false, true}, {12, 3, true}};
    stream.operators = {{4, {0, 3}, {1}, {3}, 0}, {1, {1}, {2}, {}, 0}, {1, {2}, {}, {2}, 0},
                        {1, {0}, {4}, {}, 0},     {1, {4}, {}, {4}, 0}, {1, {1}, {}, {1}, 0}};
    Limits limits = limitsFor(MemoryFilter::Delta, MemoryDirector::Rule, 22, 2);
    limits.policy.trigger = plan::MemoryTrigger::Before;
    limits.policy.prefetch = 0;
    limits.budget = 17;
    stream.storages[3].bytes = 10;
    limits.fixedPool = true;
    const auto course = memory::walk(stream, limits);
    QVERIFY2(course, course ? "" : course.error().message.c_str());
    QCOMPARE(logOf(*course), QString("1S"));
    QCOMPARE(course->decisions[0].cost, 4 + 5.0);
    QCOMPARE(course->decisions[0].ratio, 6 / 9.0);
    stream.operators[0].dies.clear(); // it stays until it has to go: the operator is priced alone
    limits.budget = 27;
    stream.operators[5].dies = {1, 3};
    stream.operators[5].inputs = {1, 3};
    stream.storages[4].bytes = 12;
    const auto here = memory::walk(stream, limits);
    QVERIFY2(here, here ? "" : here.error().message.c_str());
    QCOMPARE(here->decisions[0].cost, here->decisions[0].action == Decision::Action::Drop ? 5.0 : 4.0);
}

/// What the host's pool needs, holes included, is no more than host_bytes allow.
void TestWalk::hostBytesHold()
{
    const Stream stream = branching(12);
    plan::Memory policy;
    policy.filter = MemoryFilter::Delta;
    policy.latency = 0;
    int full = 0;
    for (const char *tier : {"memory", "/tmp"})
        for (std::int64_t blocks = 2; blocks <= 12; ++blocks)
            for (int percent = 80; percent >= 40; percent -= 5) {
                policy.hostTier = tier;
                policy.hostBytes = policy.hostTier == "memory" ? blocks * 300 : blocks * 4096 + 64;
                policy.budgetShare = percent / 100.0;
                const Limits limits = memory::limitsOf(policy, stream, 1e6);
                const auto course = memory::walk(stream, limits);
                if (!course)
                    continue;
                QVERIFY(course->hostBytes <= policy.hostBytes);
                checkCourse(stream, limits, *course);
                full += course->swaps > 0 && course->recomputes > 0 ? 1 : 0;
            }
    QVERIFY(full > 10);
}

void TestWalk::refusals()
{
    const Stream stream = branching(4);
    plan::Memory policy;
    policy.filter = MemoryFilter::Delta;
    policy.budgetBytes = 600;
    const auto tooSmall = memory::walk(stream, memory::limitsOf(policy, stream, 1e6),
                                       [](std::int32_t storage) { return "t" + std::to_string(storage); });
    QVERIFY(!tooSmall);
    QVERIFY(tooSmall.error().message.find("cannot hold what one operator needs at once") != std::string::npos);
    QVERIFY(tooSmall.error().message.find("t1 (256 B)") != std::string::npos);
    policy.budgetBytes = 1200;
    policy.director = MemoryDirector::Recompute;
    policy.recomputeCap = 0.01;
    const auto capped = memory::walk(stream, memory::limitsOf(policy, stream, 1e6));
    QVERIFY(!capped);
    QVERIFY(capped.error().message.find("run again for more than 0.01 times") != std::string::npos);
    policy.director = MemoryDirector::Swap;
    policy.hostBytes = 600;
    const auto hostFull = memory::walk(stream, memory::limitsOf(policy, stream, 1e6));
    QVERIFY(!hostFull);
    QVERIFY2(hostFull.error().message.find("give more host_bytes") != std::string::npos,
             hostFull.error().message.c_str());
}

void TestWalk::pool()
{
    memory::BlockPool pool(100);
    QCOMPARE(pool.take(40), 0);
    QCOMPARE(pool.take(20), 40);
    QCOMPARE(pool.take(30), 60);
    QCOMPARE(pool.take(20), memory::BlockPool::kNone);
    pool.give(0, 40);
    pool.give(60, 30);          // [60, 100) with the hole at the end
    QCOMPARE(pool.take(40), 0); // of equal holes the lowest
    pool.give(0, 40);
    pool.give(40, 20);
    QCOMPARE(pool.take(100), 0);
    QCOMPARE(pool.used(), 100);
    QCOMPARE(pool.furthest(), 100);
    pool.give(0, 100);
    QVERIFY(pool.takeAt(30, 20));
    QVERIFY(!pool.takeAt(40, 5));
    QVERIFY(!pool.takeAt(90, 20));
    QVERIFY(pool.takeAt(50, 50));
    QVERIFY(pool.hasHole(30) && !pool.hasHole(31));
    pool.give(30, 20);
    QCOMPARE(pool.take(50), 0);
}

QTEST_GUILESS_MAIN(TestWalk)
#include "tst_walk.moc"
