// SPDX-License-Identifier: Apache-2.0
// Messages between the roles of a job: chunks, order, records, paced cards, and servers that answer.
#include "engine/gnn/scheduler.h"
#include "executor/comm/local_group.h"
#include "executor/runtime/role_link.h"
#include "executor/runtime/served_layout.h"
#include "executor/runtime/server_loop.h"

#include <QTest>

#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

using namespace planloom;
using namespace planloom::runtime;

namespace {

constexpr std::chrono::seconds kDeadline{20};
constexpr std::int64_t kChunk = 1000;

/// Two trainers with a sampler each, a store, a server, on three machines: ranks w0, w1, g0, s0, s1, p0.
program::Program programOf(gnn::TransferPolicy policy, double rate)
{
    using gnn::RoleKind;
    gnn::Job job;
    job.machines.assign(3, {"m", {rate, rate}, {}});
    job.roles = {{"g0", RoleKind::GraphStore, {}, -1, 0}, {"s0", RoleKind::Sampler, {}, 0, -1},
                 {"s1", RoleKind::Sampler, {}, 1, -1},    {"w0", RoleKind::Trainer, {}, -1, -1},
                 {"w1", RoleKind::Trainer, {}, -1, -1},   {"p0", RoleKind::ParameterServer, {}, -1, -1}};
    job.volumes = gnn::Volumes(1, 1, 2);
    job.volumes.features.assign(2, 1);
    job.volumes.batches.assign(2, 1);
    job.volumes.model = 1;
    program::Program program;
    program.sampled = program::SampledRoles{job, {0, 1, 2, 1, 2, 0}, policy, {"g0", "s0", "s1", "p0"}};
    return program;
}
enum Rank : int { kTrainer0, kTrainer1, kStore, kSampler0, kSampler1, kServer, kRanks };

class Records final : public trace::Sink {
public:
    void write(const trace::Record &record) noexcept override { all.push_back(record); }
    [[nodiscard]] std::int64_t dropped() const noexcept override { return 0; }
    std::vector<trace::Record> all;
};

/// Runs @p work on a thread for each rank; the errors of all.
std::string onRanks(const program::Program &program, bool paced, const std::function<Status(RoleLink &, int)> &work,
                    std::vector<Records> *records = nullptr)
{
    comm::LocalGroup group(kRanks);
    std::vector<Records> kept(kRanks);
    std::string errors;
    std::mutex mutex;
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
            threads.emplace_back([&, rank, end = std::shared_ptr(group.end(rank))] {
                RoleLink link(program, *end, kChunk, kept[static_cast<std::size_t>(rank)], 0);
                Status status = paced ? link.pace(kDeadline) : Status();
                status = status ? work(link, rank) : status;
                status = status ? end->barrier(kDeadline) : status;
                if (status)
                    return;
                end->abort(status.error().text());
                const std::lock_guard lock(mutex);
                errors += status.error().text() + "\n";
            });
        }
    }
    if (records != nullptr)
        *records = std::move(kept);
    return errors;
}

std::vector<std::uint8_t> pattern(std::int64_t bytes, int seed)
{
    std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes));
    std::mt19937 random(static_cast<unsigned>(seed));
    std::ranges::generate(data, [&] { return static_cast<std::uint8_t>(random()); });
    return data;
}

constexpr std::int64_t kSizes[] = {1, kChunk - 1, kChunk, kChunk + 1, 7 * kChunk + 3, 0};

/// The store sends every size to both samplers, which send it on to their trainers.
Status passOn(RoleLink &link, int rank)
{
    const auto finish = [&](Result<Ticket> ticket) {
        return ticket ? link.wait(*ticket, kDeadline, "a message") : Status(ticket.error());
    };
    if (rank == kStore) {
        std::vector<std::vector<std::uint8_t>> data;
        std::vector<Ticket> tickets;
        for (int i = 0; i < static_cast<int>(std::size(kSizes)); ++i)
            data.push_back(pattern(kSizes[i], i));
        for (int i = 0; i < static_cast<int>(data.size()); ++i) {
            for (const int sampler : {kSampler0, kSampler1}) {
                const auto &bytes = data[static_cast<std::size_t>(i)];
                auto ticket = link.send(bytes.data(), static_cast<std::int64_t>(bytes.size()), sampler, 3, i,
                                        link.rowOf(sampler == kSampler0 ? "g0s0" : "g0s1"));
                if (!ticket)
                    return ticket.error();
                tickets.push_back(*ticket);
            }
        }
        for (Ticket &ticket : tickets) {
            if (Status left = link.wait(ticket, kDeadline, "a message"); !left)
                return left;
        }
        return {};
    }
    const bool samples = rank == kSampler0 || rank == kSampler1;
    if (!samples && rank != kTrainer0 && rank != kTrainer1)
        return {};
    for (int i = 0; i < static_cast<int>(std::size(kSizes)); ++i) {
        std::vector<std::uint8_t> data(static_cast<std::size_t>(kSizes[i]));
        const int from = samples ? kStore : rank == kTrainer0 ? kSampler0 : kSampler1;
        if (Status came = finish(link.receive(data.data(), kSizes[i], from, 3, i, -1)); !came)
            return came;
        if (data != pattern(kSizes[i], i))
            return failed("a message came out as another one");
        const int to = rank == kSampler0 ? kTrainer0 : kTrainer1;
        if (samples) {
            if (Status gone = finish(link.send(data.data(), kSizes[i], to, 3, i, -1)); !gone)
                return gone;
        }
    }
    return {};
}

} // namespace

class TestRoleLink : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void messages_data()
    {
        QTest::addColumn<int>("policy");
        QTest::addColumn<bool>("paced");
        for (const gnn::TransferPolicy policy : gnn::kTransferPolicies) {
            for (const bool paced : {false, true})
                QTest::addRow("%s %s", gnn::name(policy), paced ? "paced" : "free")
                    << static_cast<int>(policy) << paced;
        }
    }

    void messages()
    {
        QFETCH(int, policy);
        QFETCH(bool, paced);
        const program::Program program = programOf(static_cast<gnn::TransferPolicy>(policy), 1e7);
        std::vector<Records> records;
        const std::string errors = onRanks(program, paced, passOn, &records);
        QVERIFY2(errors.empty(), errors.c_str());
        const program::RoleRows rows(program);
        std::vector<std::int32_t> steps;
        for (const trace::Record &record : records[kStore].all) {
            QVERIFY(record.rank == kStore && record.duration >= 0);
            QCOMPARE(record.lane, static_cast<std::int32_t>(program::Lane::Send));
            if (record.task == rows.find(kStore, "g0s1"))
                steps.push_back(record.step);
        }
        std::ranges::sort(steps);                                    // several may end at once
        QCOMPARE(steps, (std::vector<std::int32_t>{0, 1, 2, 3, 4})); // one without bytes is none
    }

    /// What messages may have sent by moments that are made up: 1 byte a microsecond on each card.
    void pacedCards()
    {
        const program::Program program = programOf(gnn::TransferPolicy::Degree, 1e6);
        const gnn::Network network = gnn::networkOf(program.sampled->job);
        comm::LocalGroup group(1);
        const auto end = group.end(0);
        auto paced = PacedNetwork::open(*end, program.sampled->job, network, program.sampled->machineOf,
                                        gnn::TransferPolicy::Degree, kDeadline);
        QVERIFY2(paced, paced ? "" : paced.error().text().c_str());
        constexpr std::int32_t kFirst = 0, kSecond = 1, kWithin = 2; // g0 to s0, g0 to s1, s0 to w0
        QVERIFY((*paced)->paces(kFirst) && !(*paced)->paces(kWithin));
        constexpr std::int64_t kMillisecond = 1'000'000;
        PacedNetwork &cards = **paced;
        QCOMPARE(cards.enter(kFirst, 0, 3000, kMillisecond), std::optional(0.0));
        QCOMPARE(cards.carried(kFirst, 2 * kMillisecond), 1000.0);
        QCOMPARE(cards.enter(kSecond, 0, 1000, 2 * kMillisecond), std::optional(0.0)); // half of the card each
        QCOMPARE(cards.carried(kFirst, 3 * kMillisecond), 1500.0);
        QCOMPARE(cards.carried(kSecond, 3 * kMillisecond), 500.0);
        QCOMPARE(cards.carried(kFirst, kMillisecond), 1500.0); // what is past is not undone
        // The second one ends at 4 ms, and the first one, which then has the card for itself, at 5 ms: looking late
        // does not matter.
        QCOMPARE(cards.enter(kFirst, 1, 500, 9 * kMillisecond), std::optional(3000.0));
        QCOMPARE(cards.carried(kSecond, 9 * kMillisecond), 1000.0);
        QCOMPARE(cards.carried(kFirst, 9 * kMillisecond + kMillisecond / 4), 3250.0);
    }

    /// Messages that were entered ahead follow each other without a gap; each waits for its own bytes.
    void pacedMessagesInARow()
    {
        const program::Program program = programOf(gnn::TransferPolicy::IterationFirst, 1e6);
        const gnn::Network network = gnn::networkOf(program.sampled->job);
        comm::LocalGroup group(1);
        const auto end = group.end(0);
        auto paced = PacedNetwork::open(*end, program.sampled->job, network, program.sampled->machineOf,
                                        gnn::TransferPolicy::IterationFirst, kDeadline);
        QVERIFY2(paced, paced ? "" : paced.error().text().c_str());
        constexpr std::int32_t kFirst = 0, kSecond = 1;
        constexpr std::int64_t kMillisecond = 1'000'000;
        for (std::int64_t i = 0; i < 8; ++i)
            QCOMPARE((*paced)->enter(kFirst, 2 * i, 1000, 0), std::optional(1000.0 * static_cast<double>(i)));
        QVERIFY(!(*paced)->enter(kFirst, 16, 1000, 0));
        QCOMPARE((*paced)->enter(kSecond, 3, 2000, 0), std::optional(0.0)); // behind iterations 0 and 2
        QCOMPARE((*paced)->carried(kFirst, 3 * kMillisecond), 2000.0);
        QCOMPARE((*paced)->carried(kSecond, 3 * kMillisecond), 1000.0);
        QCOMPARE((*paced)->carried(kFirst, 20 * kMillisecond), 8000.0);
        QCOMPARE((*paced)->carried(kSecond, 20 * kMillisecond), 2000.0);
        QCOMPARE((*paced)->enter(kFirst, 16, 1000, 20 * kMillisecond), std::optional(8000.0));
    }

    /// A sum in the order of an all-reduce has its bits, whichever part of the bucket a server has.
    void sumsAsAllReduce_data()
    {
        QTest::addColumn<int>("workers");
        QTest::addColumn<int>("elements");
        for (const int workers : {1, 2, 3, 5}) {
            QTest::addRow("%d direct", workers) << workers << 1001;
            QTest::addRow("%d ring", workers) << workers << 100'003;
        }
    }

    void sumsAsAllReduce()
    {
        QFETCH(int, workers);
        QFETCH(int, elements);
        std::vector<std::vector<float>> gradients(static_cast<std::size_t>(workers));
        std::mt19937 random(3);
        std::normal_distribution<float> normal;
        for (auto &gradient : gradients) {
            gradient.resize(static_cast<std::size_t>(elements));
            std::ranges::generate(gradient, [&] { return normal(random); });
        }
        auto reduced = gradients;
        {
            comm::LocalGroup group(workers);
            std::vector<std::jthread> threads;
            for (int worker = 0; worker < workers; ++worker) {
                threads.emplace_back([&, worker, end = std::shared_ptr(group.end(worker))] {
                    auto request =
                        end->allReduce(end->world(), reduced[static_cast<std::size_t>(worker)].data(), elements);
                    if (!request || !end->wait(*request, kDeadline, "a sum"))
                        end->abort("no sum");
                    else if (!end->barrier(kDeadline))
                        end->abort("no end");
                });
            }
        }
        std::vector<float> served;
        const std::int64_t cuts[] = {0, elements / 3, elements / 2 + 7, elements};
        for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) {
            std::vector<const float *> parts;
            for (const auto &gradient : gradients)
                parts.push_back(gradient.data() + cuts[i]);
            std::vector<float> sum(static_cast<std::size_t>(cuts[i + 1] - cuts[i]));
            addAsAllReduce(elements, cuts[i], cuts[i + 1] - cuts[i], parts, sum.data());
            served.insert(served.end(), sum.begin(), sum.end());
        }
        QCOMPARE(served, reduced.front());
    }

    /// Servers' parts are equal to a cache line, whatever lies there, and cover all.
    void layout()
    {
        program::Program program;
        for (const std::int64_t elements : {1000, 64, 5000}) {
            program::Bucket bucket;
            bucket.elements = elements;
            bucket.policy = plan::ExchangePolicy::ParameterServer;
            program.buckets.push_back(bucket);
        }
        program.buckets.emplace_back().elements = 77; // exchanged otherwise
        for (const std::size_t servers : {1, 2, 3, 7}) {
            const ServedLayout layout(program, servers);
            std::vector<std::int64_t> covered(program.buckets.size());
            for (std::size_t server = 0; server < servers; ++server) {
                QVERIFY(std::abs(layout.elements(server) - 6064 / static_cast<std::int64_t>(servers)) <= 16);
                std::int64_t at = 0;
                for (std::size_t b = 0; b < program.buckets.size(); ++b) {
                    const ServedLayout::Piece &piece = layout.piece(server, b);
                    QCOMPARE(piece.size() == 0 || piece.begin == covered[b], true);
                    QCOMPARE(piece.size() == 0 || piece.at == at, true);
                    covered[b] += piece.size();
                    at += piece.size();
                }
                QCOMPARE(at, layout.elements(server));
            }
            QCOMPARE(covered, (std::vector<std::int64_t>{1000, 64, 5000, 0}));
        }
    }

    /// The loop knows no rule: here a version is due whenever any worker has sent its number, and only that one is
    /// answered.
    void serverWithARuleOfItsOwn()
    {
        class Counting final : public ServerWork {
        public:
            ServerLoop *loop = nullptr;
            std::int64_t heard[2] = {};
            std::int64_t sums[2] = {};
            Result<std::span<std::byte>> room(int worker, const ServerRequest &request) override
            {
                if (request.kind != 5)
                    return failed("not asked for that");
                return std::as_writable_bytes(std::span(&heard[worker], 1));
            }
            Status arrived(int worker, const ServerRequest &request) override
            {
                if (Status free = loop->answered(worker); !free)
                    return free;
                sums[worker] += heard[worker];
                return loop->answer(worker, worker, std::as_bytes(std::span(&sums[worker], 1)), request.step);
            }
        };
        const program::Program program = programOf(gnn::TransferPolicy::Degree, 1e9);
        const auto work = [](RoleLink &link, int rank) -> Status {
            if (rank == kServer) {
                ServerLoop loop(link, {{kTrainer0, "w0", -1, -1}, {kTrainer1, "w1", -1, -1}}, kDeadline);
                Counting counting;
                counting.loop = &loop;
                return loop.run(counting);
            }
            if (rank > kTrainer1)
                return {};
            std::int64_t sum = 0;
            for (std::int64_t step = 0; step < 20 + 7 * rank; ++step) { // one ends before the other
                std::int64_t answer = 0;
                ServerCall call;
                if (Status gone = call.start(link, kServer, {5, step, rank}, std::as_bytes(std::span(&step, 1)),
                                             std::as_writable_bytes(std::span(&answer, 1)));
                    !gone)
                    return gone;
                if (Status came = call.wait(link, kDeadline, "p0"); !came)
                    return came;
                if (answer != (sum += step))
                    return failed("a wrong sum");
            }
            ServerCall last;
            if (Status gone = last.start(link, kServer, {}, {}, {}); !gone)
                return gone;
            return last.wait(link, kDeadline, "p0");
        };
        QCOMPARE(onRanks(program, false, work), std::string());
    }

    /// Both trainers send a step's numbers, then only the first one does: the other is to blame.
    void silenceIsOfTheLate()
    {
        class Pair final : public ServerWork {
        public:
            std::int64_t heard[2] = {};
            int times[2] = {};
            Result<std::span<std::byte>> room(int worker, const ServerRequest &) override
            {
                return std::as_writable_bytes(std::span(&heard[worker], 1));
            }
            Status arrived(int worker, const ServerRequest &) override
            {
                ++times[worker];
                return {};
            }
            [[nodiscard]] std::vector<int> waitedFor() const override
            {
                if (times[0] == times[1])
                    return {};
                return {times[0] < times[1] ? 0 : 1};
            }
        };
        const program::Program program = programOf(gnn::TransferPolicy::Degree, 1e9);
        const auto work = [](RoleLink &link, int rank) -> Status {
            if (rank == kServer) {
                Pair pair;
                return ServerLoop(link, {{kTrainer0, "w0", -1, -1}, {kTrainer1, "w1", -1, -1}},
                                  std::chrono::milliseconds(20))
                    .run(pair);
            }
            for (std::int64_t step = 0; rank <= kTrainer1 && step < 2 - rank; ++step) {
                ServerCall call;
                if (Status gone = call.start(link, kServer, {1, step, rank}, std::as_bytes(std::span(&step, 1)), {});
                    !gone)
                    return gone;
                if (Status left = call.wait(link, kDeadline, "p0"); !left)
                    return left;
            }
            return {};
        };
        const std::string problem = onRanks(program, false, work);
        QVERIFY2(problem.find("w1 sent this server nothing") != std::string::npos, problem.c_str());
        QVERIFY2(problem.find("w0") == std::string::npos, problem.c_str());
    }

    void whatAServerDoesNotKnow()
    {
        class Nothing final : public ServerWork {
            Result<std::span<std::byte>> room(int, const ServerRequest &) override { return failed("no such request"); }
            Status arrived(int, const ServerRequest &) override { return {}; }
        };
        const program::Program program = programOf(gnn::TransferPolicy::Degree, 1e9);
        const auto work = [](RoleLink &link, int rank) -> Status {
            if (rank == kServer) {
                Nothing nothing;
                return ServerLoop(link, {{kTrainer0, "w0", -1, -1}}, kDeadline).run(nothing);
            }
            ServerCall call;
            if (rank != kTrainer0)
                return {};
            if (Status gone = call.start(link, kServer, {9, 0, 0}, {}, {}); !gone)
                return gone;
            return call.wait(link, kDeadline, "p0");
        };
        QVERIFY(onRanks(program, false, work).find("no such request") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestRoleLink)
#include "tst_role_link.moc"
