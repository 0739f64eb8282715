// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/doorbell.h"
#include "executor/comm/local_group.h"
#include "executor/comm/mpi_communicator.h"
#include "executor/comm/script.h"

#include <QProcess>
#include <QProcessEnvironment>
#include <QTest>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <sched.h>
#include <sys/resource.h>
#include <thread>

using namespace planloom;
using namespace planloom::comm;

namespace {

constexpr std::chrono::seconds kDeadline{60}; ///< for what comes, however slow the machine

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return std::string(#condition) + " does not hold on rank " + std::to_string(end.rank());                   \
    } while (false)

/// A ring of messages with two tags sent in the other order than received, a reduction over all and one over the odd
/// ranks. Returns what went wrong; empty: nothing.
std::string exercise(Communicator &end)
{
    const int size = end.size();
    const int next = (end.rank() + 1) % size;
    const int previous = (end.rank() + size - 1) % size;
    std::vector<int> out(5000, end.rank());
    std::vector<int> in(5000, -1);
    const auto bytes = static_cast<std::int64_t>(out.size() * sizeof(int));
    char small = static_cast<char>('a' + end.rank());
    char smallIn = 0;
    Result<Request> requests[] = {end.isend(out.data(), bytes, next, 7), end.isend(&small, 1, next, 8),
                                  end.irecv(&smallIn, 1, previous, 8), end.irecv(in.data(), bytes, previous, 7)};
    for (Result<Request> &request : requests) {
        REQUIRE(request.ok());
        REQUIRE(end.wait(*request, kDeadline, "the ring").ok());
        REQUIRE(!request->pending());
    }
    REQUIRE(in == std::vector<int>(5000, previous));
    REQUIRE(smallIn == 'a' + previous);

    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), static_cast<float>(end.rank()));
    Result<Request> all = end.allReduce(end.world(), values.data(), 1000);
    REQUIRE(all.ok() && end.wait(*all, kDeadline, "all").ok());
    const auto ranks = static_cast<float>(size);
    for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(values[i] == ranks * static_cast<float>(i) + ranks * (ranks - 1) / 2);

    std::vector<int> odd;
    for (int rank = 1; rank < size; rank += 2)
        odd.push_back(rank);
    const Result<Group> group = end.makeGroup(odd);
    REQUIRE(group.ok());
    if (end.rank() % 2 == 1) {
        for (int round = 1; round <= 3; ++round) {
            float one = static_cast<float>(round);
            Result<Request> some = end.allReduce(*group, &one, 1);
            REQUIRE(some.ok() && end.wait(*some, kDeadline, "the odd ranks").ok());
            REQUIRE(one == static_cast<float>(round) * static_cast<float>(odd.size()));
        }
    }
    REQUIRE(end.barrier(kDeadline).ok());
    return {};
}

// --- Collectives ----------------------------------------------------------------------------------------------------

std::uint32_t scrambled(std::uint32_t value)
{
    value = (value ^ (value >> 16)) * 0x7feb352dU;
    value = (value ^ (value >> 15)) * 0x846ca68bU;
    return value ^ (value >> 16);
}

/// Small whole numbers (exact sums in every element) or, to see the order of additions, numbers of very different
/// size.
float valueOf(int rank, std::int64_t index, bool wild)
{
    const std::uint32_t bits = scrambled(static_cast<std::uint32_t>(index) * 31U + static_cast<std::uint32_t>(rank));
    const auto small = static_cast<float>(bits % 15) - 7.0F;
    return wild ? std::ldexp(small + 0.3F, static_cast<int>(bits >> 8) % 40 - 20) : small;
}

template <class Value>
std::vector<std::byte> encoded(Element element, const Value &value, std::int64_t count)
{
    std::vector<std::byte> data(static_cast<std::size_t>(count * bytesOf(element)));
    for (std::int64_t i = 0; i < count; ++i) {
        const float single = value(i);
        const auto bits = std::bit_cast<std::uint32_t>(single);
        const auto half = static_cast<std::uint16_t>(bits >> 16);
        const double wide = static_cast<double>(single) * ((1LL << 40) + 1); // more digits than a float has
        if (element == Element::Float64)
            std::memcpy(data.data() + i * 8, &wide, 8);
        else if (element == Element::Float32)
            std::memcpy(data.data() + i * 4, &bits, 4);
        else
            std::memcpy(data.data() + i * 2, &half, 2);
    }
    return data;
}

/// One group of a rank, and what was sent in it.
class CollectiveCheck {
public:
    CollectiveCheck(Communicator &communicator, Group group, std::vector<int> ranks)
        : end(communicator),
          m_group(group),
          m_ranks(std::move(ranks))
    {
        m_position = static_cast<int>(std::find(m_ranks.begin(), m_ranks.end(), end.rank()) - m_ranks.begin());
    }

    /// Every collective with @p count elements per member, one after the other.
    std::string all(Element element, std::int64_t count)
    {
        for (const auto check :
             {&CollectiveCheck::allReduce, &CollectiveCheck::reduceScatter, &CollectiveCheck::allGather,
              &CollectiveCheck::allToAll, &CollectiveCheck::unequalAllToAll, &CollectiveCheck::broadcast}) {
            if (const std::string problem = (this->*check)(element, count); !problem.empty())
                return problem + " (" + std::to_string(count) + " elements of " + std::to_string(bytesOf(element))
                    + " bytes, " + std::to_string(members()) + " members)";
        }
        return {};
    }

private:
    [[nodiscard]] int members() const { return static_cast<int>(m_ranks.size()); }
    [[nodiscard]] float sum(std::int64_t index) const
    {
        float value = 0;
        for (const int rank : m_ranks)
            value += valueOf(rank, index, false);
        return value;
    }

    std::string done(Result<Request> request, Collective kind, std::int64_t bytes, Element element, int root = 0)
    {
        REQUIRE(request.ok());
        REQUIRE(end.wait(*request, kDeadline, cost::name(kind)).ok());
        m_expected[static_cast<std::size_t>(kind)] +=
            cost::collectiveBytesOf(kind, bytes, members(), m_position, bytesOf(element), root);
        REQUIRE(end.bytesSent(kind) - m_before[static_cast<std::size_t>(kind)]
                == m_expected[static_cast<std::size_t>(kind)]);
        return {};
    }

    std::string allReduce(Element element, std::int64_t count)
    {
        auto data = encoded(
            element, [this](std::int64_t i) { return valueOf(end.rank(), i, false); }, count);
        const auto expected = encoded(
            element, [this](std::int64_t i) { return sum(i); }, count);
        const std::string problem = done(end.allReduce(m_group, element, data.data(), count), Collective::AllReduce,
                                         count * bytesOf(element), element);
        return problem.empty() && data != expected ? "the sum is wrong" : problem;
    }

    std::string reduceScatter(Element element, std::int64_t count)
    {
        const auto data = encoded(
            element, [this](std::int64_t i) { return valueOf(end.rank(), i, false); }, count * members());
        std::vector<std::byte> mine(static_cast<std::size_t>(count * bytesOf(element)));
        const auto expected = encoded(
            element, [&](std::int64_t i) { return sum(m_position * count + i); }, count);
        const std::string problem = done(end.reduceScatter(m_group, element, data.data(), mine.data(), count),
                                         Collective::ReduceScatter, count * bytesOf(element), element);
        return problem.empty() && mine != expected ? "the scattered sum is wrong" : problem;
    }

    std::string allGather(Element element, std::int64_t count)
    {
        const auto mine = encoded(
            element, [this](std::int64_t i) { return valueOf(end.rank(), i, false); }, count);
        std::vector<std::byte> all(mine.size() * m_ranks.size());
        const auto expected = encoded(
            element,
            [&](std::int64_t i) { return valueOf(m_ranks[static_cast<std::size_t>(i / count)], i % count, false); },
            count * members());
        const std::string problem = done(end.allGather(m_group, mine.data(), all.data(), count * bytesOf(element)),
                                         Collective::AllGather, count * bytesOf(element), element);
        return problem.empty() && all != expected ? "what was gathered is wrong" : problem;
    }

    std::string allToAll(Element element, std::int64_t count)
    {
        const auto from = encoded(
            element, [this](std::int64_t i) { return valueOf(end.rank(), i, false); }, count * members());
        std::vector<std::byte> to(from.size());
        const auto expected = encoded(
            element,
            [&](std::int64_t i) {
                return valueOf(m_ranks[static_cast<std::size_t>(i / count)], m_position * count + i % count, false);
            },
            count * members());
        const std::string problem = done(end.allToAll(m_group, from.data(), to.data(), count * bytesOf(element)),
                                         Collective::AllToAll, count * bytesOf(element), element);
        return problem.empty() && to != expected ? "what was exchanged is wrong" : problem;
    }

    /// Elements from the member at @p from to the one at @p to: between nothing and three times @p count.
    static std::int64_t pieceOf(int from, int to, std::int64_t count) { return (from * 2 + to * 3) % 4 * count; }

    std::string unequalAllToAll(Element element, std::int64_t count)
    {
        const std::int64_t size = bytesOf(element);
        std::vector<std::int64_t> bytesTo, bytesFrom;
        std::vector<std::byte> from, expected;
        for (int peer = 0; peer < members(); ++peer) {
            const auto piece = [&](int source, int target) {
                return encoded(
                    element,
                    [&](std::int64_t i) {
                        return valueOf(m_ranks[static_cast<std::size_t>(source)], target * 1000003 + i, false);
                    },
                    pieceOf(source, target, count));
            };
            const auto out = piece(m_position, peer);
            const auto in = piece(peer, m_position);
            from.insert(from.end(), out.begin(), out.end());
            expected.insert(expected.end(), in.begin(), in.end());
            bytesTo.push_back(pieceOf(m_position, peer, count) * size);
            bytesFrom.push_back(pieceOf(peer, m_position, count) * size);
        }
        std::vector<std::byte> to(expected.size());
        Result<Request> request = end.allToAll(m_group, from.data(), bytesTo, to.data(), bytesFrom);
        REQUIRE(request.ok());
        REQUIRE(end.wait(*request, kDeadline, "unequal pieces").ok());
        constexpr auto kKind = static_cast<std::size_t>(Collective::AllToAll);
        m_expected[kKind] += cost::unequalAllToAllBytesOf(bytesTo, m_position);
        REQUIRE(end.bytesSent(Collective::AllToAll) - m_before[kKind] == m_expected[kKind]);
        REQUIRE(to == expected);
        return {};
    }

    std::string broadcast(Element element, std::int64_t count)
    {
        const int root = members() / 2;
        auto data = encoded(
            element, [this](std::int64_t i) { return valueOf(end.rank(), i, false); }, count);
        const auto expected = encoded(
            element, [&](std::int64_t i) { return valueOf(m_ranks[static_cast<std::size_t>(root)], i, false); }, count);
        const std::string problem = done(end.broadcast(m_group, root, data.data(), count * bytesOf(element)),
                                         Collective::Broadcast, count * bytesOf(element), element, root);
        return problem.empty() && data != expected ? "what was broadcast is wrong" : problem;
    }

    Communicator &end;
    Group m_group;
    std::vector<int> m_ranks;
    int m_position = 0;
    std::array<std::int64_t, cost::kCollectives> m_expected{};
    std::array<std::int64_t, cost::kCollectives> m_before = [this] {
        std::array<std::int64_t, cost::kCollectives> sent{};
        for (std::size_t kind = 0; kind < sent.size(); ++kind)
            sent[kind] = end.bytesSent(static_cast<Collective>(kind));
        return sent;
    }();
};

std::vector<std::vector<int>> subsets(int size)
{
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::vector<int>> groups{all, {0}, {size - 1}};
    if (size > 2)
        groups.push_back({0, size - 1});
    if (size > 3)
        groups.push_back({0, 1, size - 1});
    return groups;
}

std::string collectives(Communicator &end)
{
    for (const std::vector<int> &ranks : subsets(end.size())) {
        const Result<Group> group = end.makeGroup(ranks);
        REQUIRE(group.ok());
        if (std::find(ranks.begin(), ranks.end(), end.rank()) == ranks.end())
            continue;
        CollectiveCheck check(end, *group, ranks);
        for (const std::int64_t count : {0, 1, 2, 3, 7, 1000, 33333, 65536, 200001}) {
            if (count > 33333 && static_cast<int>(ranks.size()) < end.size())
                continue; // cutting into pieces depends on the size, not on who takes part
            for (const Element element : {Element::Float32, Element::BFloat16, Element::Float64}) {
                if (const std::string problem = check.all(element, count); !problem.empty())
                    return problem;
            }
        }
    }
    REQUIRE(end.barrier(kDeadline).ok());
    return {};
}

/// Sums whose last bits depend on the order of additions, several at once on two groups with messages between; each
/// round gives the same bits.
std::string severalAtOnce(Communicator &end)
{
    std::vector<int> ranks(static_cast<std::size_t>(end.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const Result<Group> second = end.makeGroup(ranks);
    REQUIRE(second.ok());
    constexpr std::int64_t kCounts[] = {5, 100003, 40000, 1, 300000};
    constexpr Element kElements[] = {Element::Float32, Element::Float64, Element::BFloat16, Element::Float64,
                                     Element::Float32};
    std::vector<std::vector<std::byte>> first;
    for (int round = 0; round < 4; ++round) {
        std::vector<std::vector<std::byte>> data;
        for (std::size_t i = 0; i < std::size(kCounts); ++i)
            data.push_back(encoded(
                kElements[i], [&](std::int64_t at) { return valueOf(end.rank(), at, true); }, kCounts[i]));
        std::vector<int> out(70000, end.rank());
        std::vector<int> in(70000);
        const auto bytes = static_cast<std::int64_t>(out.size() * sizeof(int));
        std::vector<Result<Request>> requests;
        requests.push_back(end.isend(out.data(), bytes, (end.rank() + 1) % end.size(), 3));
        for (std::size_t i = 0; i < data.size(); ++i) {
            // The groups' own orders are the same on all members, the order between them is not.
            const std::size_t which = end.rank() % 2 == 0 ? i : (i == 0 ? 1 : i == 1 ? 0 : i);
            requests.push_back(end.allReduce(which % 2 == 0 ? end.world() : *second, kElements[which],
                                             data[which].data(), kCounts[which]));
        }
        requests.push_back(end.irecv(in.data(), bytes, (end.rank() + end.size() - 1) % end.size(), 3));
        for (Result<Request> &request : requests) {
            REQUIRE(request.ok());
            REQUIRE(end.wait(*request, kDeadline, "one of several").ok());
        }
        if (round == 0)
            first = data;
        REQUIRE(first == data);
        // All members have the same bits: those of rank 0.
        for (std::size_t i = 0; i < data.size(); ++i) {
            std::vector<std::byte> zeros = data[i];
            Result<Request> request = end.broadcast(*second, 0, zeros.data(), static_cast<std::int64_t>(zeros.size()));
            REQUIRE(request.ok() && end.wait(*request, kDeadline, "rank 0's sum").ok());
            REQUIRE(zeros == data[i]);
        }
    }
    return {};
}

/// A token's rounds, and sums, while those who wait sleep. Nothing where the transport cannot wake them.
std::string asleep(Communicator &end)
{
    if (!end.wakes())
        return {};
    const auto wait = [&end](Result<Request> request) {
        bool listens = false;
        for (Result<bool> done = false; request.ok(); done = end.test(*request)) {
            if (!done || *done) {
                end.listen(false);
                return done.ok();
            }
            if (listens)
                end.sleep(std::chrono::microseconds(200));
            end.listen(true);
            listens = true;
        }
        return false;
    };
    const int next = (end.rank() + 1) % end.size();
    const int previous = (end.rank() + end.size() - 1) % end.size();
    for (int round = 0; round < 100; ++round) {
        std::int64_t token = round;
        std::int64_t came = -1;
        if (end.rank() == 0)
            REQUIRE(wait(end.isend(&token, sizeof token, next, 9)));
        REQUIRE(wait(end.irecv(&came, sizeof came, previous, 9)));
        REQUIRE(came == round);
        if (end.rank() != 0)
            REQUIRE(wait(end.isend(&came, sizeof came, next, 9)));
        std::vector<float> values(round == 50 ? 300'000 : 100, 1.0F); // more than a ring holds
        REQUIRE(wait(end.allReduce(end.world(), values.data(), static_cast<std::int64_t>(values.size()))));
        REQUIRE(values.back() == static_cast<float>(end.size()));
    }
    return {};
}

/// All ranks of these tests may use the same cores.
std::string shared(Communicator &end)
{
    std::vector<int> all(static_cast<std::size_t>(end.size()));
    std::iota(all.begin(), all.end(), 0);
    return std::ranges::equal(end.sharers(), all) ? std::string()
                                                  : "the ranks that share this one's cores are not all of them";
}

std::string everything(Communicator &end)
{
    for (const auto part : {shared, exercise, collectives, severalAtOnce, asleep}) {
        if (const std::string problem = part(end); !problem.empty())
            return problem;
    }
    return {};
}

std::vector<std::string> onThreads(int size, const std::function<std::string(Communicator &)> &work)
{
    LocalGroup group(size);
    std::vector<std::string> problems(static_cast<std::size_t>(size));
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < size; ++rank)
            threads.emplace_back([&, rank] { problems[static_cast<std::size_t>(rank)] = work(*group.end(rank)); });
    }
    return problems;
}

} // namespace

class TestCommunicator : public QObject {
    Q_OBJECT

private slots:
    void threadsExchange_data();
    void threadsExchange();
    void reductionOrderIsFixed();
    void waitingEndsAtTheDeadline();
    void abortReachesEveryRank();
    void unequalMessagesAreRefused();
    void unequalCollectivesAreRefused();
    void unequalPiecesAreRefused_data();
    void unequalPiecesAreRefused();
    void unequalPiecesSendWhatIsPredicted();
    void scriptsSendWhatIsPredicted_data();
    void scriptsSendWhatIsPredicted();
    void bytesOfAnAllReduce();
    void processesExchange_data();
    void processesExchange();
    void sleepersAreWoken();
};

void TestCommunicator::threadsExchange_data()
{
    QTest::addColumn<int>("ranks");
    for (const int ranks : {1, 2, 3, 5})
        QTest::addRow("%d ranks", ranks) << ranks;
}

void TestCommunicator::threadsExchange()
{
    QFETCH(int, ranks);
    for (const std::string &problem : onThreads(ranks, everything))
        QVERIFY2(problem.empty(), problem.c_str());
}

void TestCommunicator::reductionOrderIsFixed()
{
    // In single precision (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1: the order shows.
    for (int round = 0; round < 50; ++round) {
        const auto problems = onThreads(3, [](Communicator &end) -> std::string {
            const float mine[] = {1e8F, -1e8F, 1.0F};
            float value = mine[end.rank()];
            Result<Request> request = end.allReduce(end.world(), &value, 1);
            REQUIRE(request.ok() && end.wait(*request, kDeadline, "a sum").ok());
            REQUIRE(value == 1.0F);
            const double wide[] = {1e17, -1e17, 1.0};
            double sum = wide[end.rank()];
            request = end.allReduce(end.world(), Element::Float64, &sum, 1);
            REQUIRE(request.ok() && end.wait(*request, kDeadline, "a sum in double precision").ok());
            REQUIRE(sum == 1.0);
            return {};
        });
        for (const std::string &problem : problems)
            QCOMPARE(problem, std::string());
    }
}

void TestCommunicator::waitingEndsAtTheDeadline()
{
    LocalGroup group(2);
    const auto end = group.end(0);
    char byte = 0;
    Result<Request> request = end->irecv(&byte, 1, 1, 0);
    QVERIFY(request.ok());
    const Status status = end->wait(*request, std::chrono::milliseconds(5), "a byte that no rank sends");
    QVERIFY(!status.ok());
    QVERIFY(status.error().message.find("a byte that no rank sends") != std::string::npos);
}

void TestCommunicator::abortReachesEveryRank()
{
    LocalGroup group(2);
    const auto first = group.end(0);
    const auto second = group.end(1);
    char byte = 0;
    Result<Request> request = first->irecv(&byte, 1, 1, 0);
    QVERIFY(request.ok());
    second->abort("the data ended");
    const Status status = first->wait(*request, kDeadline, "a byte");
    QVERIFY(!status.ok());
    QCOMPARE(status.error().message, std::string("rank 1 stopped: the data ended"));
}

void TestCommunicator::unequalMessagesAreRefused()
{
    LocalGroup group(2);
    const auto first = group.end(0);
    const auto second = group.end(1);
    char bytes[4] = {};
    QVERIFY(first->isend(bytes, 4, 1, 3).ok());
    Result<Request> request = second->irecv(bytes, 3, 0, 3);
    QVERIFY(request.ok());
    QVERIFY(!second->test(*request).ok());
}

void TestCommunicator::unequalCollectivesAreRefused()
{
    const auto problems = onThreads(2, [](Communicator &end) -> std::string {
        float values[3] = {};
        Result<Request> request = end.allReduce(end.world(), values, end.rank() == 0 ? 3 : 2);
        const Status status = request ? end.wait(*request, kDeadline, "nothing") : Status(request.error());
        if (!status)
            end.abort(status.error().message);
        return status ? "" : status.error().message;
    });
    for (const std::string &problem : problems)
        QVERIFY2(problem.find("do different things with one group: all-reduce") != std::string::npos, problem.c_str());
}

void TestCommunicator::unequalPiecesAreRefused_data()
{
    QTest::addColumn<int>("expected");
    QTest::newRow("fewer than come") << 2;
    QTest::newRow("more than come") << 5;
}

void TestCommunicator::unequalPiecesAreRefused()
{
    QFETCH(int, expected);
    const auto problems = onThreads(2, [&](Communicator &end) -> std::string {
        const std::int64_t sizes[2] = {3, 3};
        const std::int64_t wrong[2] = {3, expected}; // by rank 0
        char from[6] = {};
        char to[10] = {};
        if (end.allToAll(end.world(), from, {sizes, 1}, to, {sizes, 1}).ok())
            return "takes sizes of one member of two";
        const std::int64_t own[2] = {end.rank() == 0 ? 4 : 3, end.rank() == 0 ? 3 : 4};
        if (end.allToAll(end.world(), from, sizes, to, own).ok())
            return "takes a piece of its own with two sizes";
        Result<Request> request = end.allToAll(end.world(), from, sizes, to, end.rank() == 0 ? wrong : sizes);
        const Status status = request ? end.wait(*request, kDeadline, "nothing") : Status(request.error());
        if (end.rank() == 1)
            return "";
        end.abort("the other one is told");
        return status ? "no rank noticed" : status.error().message;
    });
    QVERIFY2(problems[0].find("all-to-all of unequal pieces") != std::string::npos, problems[0].c_str());
    QCOMPARE(problems[1], std::string());
}

void TestCommunicator::unequalPiecesSendWhatIsPredicted()
{
    // Pieces of 10, 0 and 300,000 bytes: the last one leaves in three chunks.
    const std::int64_t bytes[] = {10, 0, 300000};
    std::vector<std::byte> from(300010), to(300010);
    for (const int position : {0, 1, 2}) {
        Script script;
        script.write({{Collective::AllToAll, kUnequal, 0}, Element::Float32, from.data(), to.data(), 0, bytes, bytes},
                     3, position);
        QCOMPARE(script.bytesSent(), cost::unequalAllToAllBytesOf(bytes, position));
    }
    QCOMPARE(cost::unequalAllToAllBytesOf(bytes, 0), std::int64_t{300000});
    QCOMPARE(cost::unequalAllToAllBytesOf(bytes, 2), std::int64_t{10});
}

void TestCommunicator::scriptsSendWhatIsPredicted_data()
{
    QTest::addColumn<int>("kind");
    for (std::size_t kind = 0; kind < cost::kCollectives; ++kind)
        QTest::newRow(cost::name(static_cast<Collective>(kind))) << static_cast<int>(kind);
}

void TestCommunicator::scriptsSendWhatIsPredicted()
{
    QFETCH(int, kind);
    for (const int members : {1, 2, 3, 4, 5, 8}) {
        for (const std::int64_t count : {0, 1, 7, 1000, 16384 * 8, 500001}) {
            std::vector<std::byte> from(static_cast<std::size_t>(count * 4 * members));
            std::vector<std::byte> to(from.size());
            std::int64_t sum = 0;
            for (int position = 0; position < members; ++position) {
                Script script;
                const Label label{static_cast<Collective>(kind), count * 4, 0};
                script.write({label, Element::Float32, from.data(), to.data(), members / 2}, members, position);
                QCOMPARE(script.bytesSent(),
                         cost::collectiveBytesOf(label.kind, count * 4, members, position, 4, members / 2));
                sum += script.bytesSent();
            }
            QCOMPARE(sum, cost::collectiveBytes(static_cast<Collective>(kind), count * 4, members));
        }
    }
}

void TestCommunicator::bytesOfAnAllReduce()
{
    // 2 (p - 1) / p of the bytes where p divides; otherwise segments of 3, 2 and 2 elements: the first member sends the
    // 4 elements of the others and its own 3 to two others.
    for (int position = 0; position < 4; ++position)
        QCOMPARE(cost::collectiveBytesOf(Collective::AllReduce, 1 << 20, 4, position), std::int64_t{3} << 19);
    QCOMPARE(cost::collectiveBytesOf(Collective::AllReduce, 28, 3, 0), std::int64_t{40});
    QCOMPARE(cost::collectiveBytesOf(Collective::AllReduce, 28, 3, 1), std::int64_t{36});
    QCOMPARE(cost::collectiveBytes(Collective::AllReduce, 28, 3), std::int64_t{112});
    QCOMPARE(cost::collectiveBytes(Collective::AllReduce, 28, 1), std::int64_t{0});
}

void TestCommunicator::processesExchange_data()
{
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("transport");
    for (const int ranks : {2, 3, 4}) {
        QTest::addRow("%d ranks, shared memory", ranks) << ranks << "shared-memory";
        QTest::addRow("%d ranks, messages", ranks) << ranks << "messages";
        QTest::addRow("%d ranks, emulated switch", ranks) << ranks << "switch";
    }
}

void TestCommunicator::processesExchange()
{
    QFETCH(int, ranks);
    QFETCH(QString, transport);
    QProcess launcher;
    launcher.setProcessChannelMode(QProcess::MergedChannels);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("ASAN_OPTIONS", "detect_leaks=0"); // Open MPI leaks at its end
    if (transport == "switch")                            // of four ranks two share memory each
        environment.insert("PLANLOOM_EMULATED_NETWORK",
                           QString("hosts=%1,bytes_per_second=1e10,latency_us=5").arg(ranks == 4 ? 2 : ranks));
    launcher.setProcessEnvironment(environment);
    launcher.start("mpirun",
                   {"--oversubscribe", "--bind-to", "none", "-np", QString::number(ranks),
                    QCoreApplication::applicationFilePath(), "--as-mpi-rank", transport, QString::number(ranks)});
    QVERIFY(launcher.waitForFinished(300000));
    QVERIFY2(launcher.exitCode() == 0, launcher.readAll().constData());
}

/// Two that wake each other in turn: a lost ring would let one sleep for ever.
void TestCommunicator::sleepersAreWoken()
{
    alignas(Doorbell::kBytes) std::array<std::byte, std::size_t{2} * Doorbell::kBytes> memory{};
    std::atomic<int> turn{0};
    constexpr int kTurns = 2000;
    const auto play = [&](int own) {
        Doorbell mine(memory.data() + own * Doorbell::kBytes);
        const Doorbell other(memory.data() + (1 - own) * Doorbell::kBytes);
        for (int next = own; next < kTurns; next += 2) {
            for (bool listens = false; turn != next; listens = true) {
                if (listens)
                    mine.sleep(std::chrono::hours(1));
                mine.listen(true);
            }
            mine.listen(false);
            turn = next + 1;
            other.ring();
        }
    };
    {
        const std::jthread first([&] { play(0); });
        const std::jthread second([&] { play(1); });
    }
    QCOMPARE(turn.load(), kTurns);
    Doorbell none;
    QVERIFY(!none);
    none.listen(true);
    none.sleep(std::chrono::hours(1)); // it has no memory to sleep on
    none.ring();
}

/// All ranks on one core, one of which is late: those that wait for it sleep, and do not give the core to each other in
/// turns.
static std::string waitOnOneCore(Communicator &end)
{
    cpu_set_t allowed;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
        if (CPU_ISSET(core, &allowed))
            CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    rusage before{};
    getrusage(RUSAGE_THREAD, &before);
    if (end.rank() == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    REQUIRE(end.barrier(kDeadline).ok());
    rusage after{};
    getrusage(RUSAGE_THREAD, &after);
    REQUIRE(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
    REQUIRE(after.ru_nivcsw - before.ru_nivcsw <= 2 * (after.ru_nvcsw - before.ru_nvcsw) + 100);
    return {};
}

/// This program started by mpirun: the same calls as the threads; its exit status is the result.
static int runAsMpiRank(const char *transport, int ranks)
{
    const bool isSwitch = std::strcmp(transport, "switch") == 0;
    auto end = joinMpi({isSwitch || std::strcmp(transport, "shared-memory") == 0});
    if (!end)
        return 1;
    if (isSwitch && (*end)->localSize() != (ranks == 4 ? 2 : 1)) {
        (*end)->abort("hosts are not as the emulated switch has them");
        return 1;
    }
    std::string problem = (*end)->size() == ranks ? everything(**end) : "mpirun did not start all ranks";
    const char *yields = std::getenv("OMPI_MCA_mpi_yield_when_idle");
    if (yields == nullptr || std::strcmp(yields, "0") != 0)
        problem = "Open MPI yields in its tests";
    if (problem.empty())
        problem = waitOnOneCore(**end);
    if (problem.empty())
        return 0;
    (*end)->abort(problem);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && std::strcmp(argv[1], "--as-mpi-rank") == 0)
        return runAsMpiRank(argv[2], std::atoi(argv[3]));
    const QCoreApplication application(argc, argv);
    TestCommunicator test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_communicator.moc"
