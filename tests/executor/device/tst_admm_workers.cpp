// SPDX-License-Identifier: Apache-2.0
// SP-ADMMiRNN over ranks that exchange sums by the engine's all-reduce.
#include "executor/device/admm_worker.h"

#include "executor/comm/local_group.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <thread>

using namespace planloom;
using namespace planloom::admm;

namespace {

constexpr Sizes kSizes{8, 32, 10, 3};
constexpr std::int64_t kSamples = 96;
constexpr int kIterations = 4;

/// Sines that look random.
Buffer drawn(std::int64_t elements, double step, double size)
{
    Buffer buffer = zeros(elements);
    for (std::int64_t i = 0; i < elements; ++i)
        floatsOf(buffer)[i] = static_cast<float>(size * std::sin(step * static_cast<double>(i * i % 100003 + i + 1)));
    return buffer;
}

/// Rows [first, first + count) of the data, with the same parameters for all.
Variables given(std::int64_t first, std::int64_t count, std::int64_t steps = kSizes.steps)
{
    Variables all{{"u", drawn(kSizes.hidden * kSizes.inputs, 0.37, 0.5)},
                  {"w", drawn(kSizes.hidden * kSizes.hidden, 0.53, 0.25)},
                  {"b", zeros(kSizes.hidden)},
                  {"v", drawn(kSizes.classes * kSizes.hidden, 0.71, 0.25)},
                  {"c", zeros(kSizes.classes)}};
    for (std::int64_t t = 1; t <= steps; ++t) {
        const Buffer whole = drawn(kSamples * kSizes.inputs, 0.41 + 0.1 * static_cast<double>(t), 1);
        const std::int64_t row = kSizes.inputs * 4;
        all["x" + std::to_string(t)] = {whole.begin() + first * row, whole.begin() + (first + count) * row};
    }
    Buffer labels = zeros(count, 8);
    for (std::int64_t m = 0; m < count; ++m)
        reinterpret_cast<std::int64_t *>(labels.data())[m] = (first + m) * 7 % kSizes.classes;
    all["labels"] = labels;
    return all;
}

struct Outcome {
    std::vector<Variables> ranks; ///< parameters at the end
    std::int64_t bytes = 0;       ///< that all ranks have sent
    std::string problem;
};

Outcome train(int ranks)
{
    comm::LocalGroup group(ranks);
    std::vector<Outcome> own(static_cast<std::size_t>(ranks));
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                Outcome &outcome = own[static_cast<std::size_t>(rank)];
                const auto end = group.end(rank);
                const std::int64_t first = kSamples * rank / ranks;
                const std::int64_t count = kSamples * (rank + 1) / ranks - first;
                try {
                    const Method method = orThrow(Method::of({}, static_cast<int>(kSizes.steps)));
                    BlockWorker worker(kSizes, method, count, given(first, count));
                    for (int iteration = 0; iteration < kIterations; ++iteration)
                        worker.iterate([&](float *sums, std::int64_t elements) {
                            comm::Request request = orThrow(end->allReduce(end->world(), sums, elements));
                            if (const Status done = end->wait(request, std::chrono::seconds(60), "sums"); !done)
                                throw std::runtime_error(done.error().text());
                        });
                    Variables parameters;
                    for (const char *name : {"u", "w", "b", "v", "c"})
                        parameters[name] = worker.variables().at(name);
                    outcome.ranks.push_back(std::move(parameters));
                } catch (const std::exception &error) {
                    outcome.problem = error.what();
                    end->abort(error.what());
                }
                outcome.bytes = end->bytesSent();
            });
    }
    Outcome all;
    for (Outcome &outcome : own) {
        all.problem += outcome.problem;
        all.bytes += outcome.bytes;
        for (Variables &variables : outcome.ranks)
            all.ranks.push_back(std::move(variables));
    }
    return all;
}

double largestDifference(Variables &a, Variables &b)
{
    double largest = 0;
    for (auto &[name, buffer] : a)
        for (std::size_t i = 0; i < buffer.size() / sizeof(float); ++i) {
            const double difference =
                std::fabs(static_cast<double>(floatsOf(buffer)[i]) - static_cast<double>(floatsOf(b.at(name))[i]));
            largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
        }
    return largest;
}

constexpr Sizes kFourSteps{8, 32, 10, 4};

/// All variables of four steps with the duals of an iteration, behind the forward pass of the next one.
Variables restarted(const Method &method)
{
    BlockWorker worker(kFourSteps, method, kSamples, given(0, kSamples, kFourSteps.steps));
    worker.iterate();
    Variables all = worker.variables();
    BlockRunner(orThrow(blockGraph(Part::Begin, kFourSteps, method)), kSamples, all).run(); // and updates the outputs
    graph::GraphBuilder outputs("outputs");
    const auto input = [&outputs](const char *name, graph::Shape shape) {
        return outputs.input(name, graph::DType::F32, std::move(shape));
    };
    const TensorId made =
        outputs.add("Gemm",
                    {input("h4", graph::Shape({{1, true}, {kFourSteps.hidden, false}})),
                     input("v", *sharedShape(kFourSteps, "v")), input("c", *sharedShape(kFourSteps, "c"))},
                    {{"transB", std::int64_t{1}}});
    outputs.rename(made, "o'");
    outputs.output(made);
    BlockRunner(orThrow(std::move(outputs).build()), kSamples, all).run();
    return all;
}

constexpr std::int64_t kOwnSteps = 2;

/// Of them those of a range of two steps, numbered from 1.
Variables ofRange(const Variables &all, std::int64_t range)
{
    Variables own;
    for (const auto &[name, value] : all) {
        const bool timed = std::string_view("ahpqx").find(name[0]) != std::string_view::npos && name.size() == 2;
        if (!timed)
            own[name] = value;
    }
    for (std::int64_t step = 1; step <= kOwnSteps; ++step)
        for (const char *letter : {"a", "h", "p", "q", "x"})
            own[letter + std::to_string(step)] = all.at(letter + std::to_string(range * kOwnSteps + step));
    own["pull"] = own["ahead"] = own["before"] = zeros(kSamples * kFourSteps.hidden);
    return own;
}

} // namespace

class TestAdmmWorkers : public QObject {
    Q_OBJECT

private slots:
    void equalsOneWorker_data()
    {
        QTest::addColumn<int>("ranks");
        QTest::addColumn<qint64>("bytes");
        QTest::newRow("1") << 1 << qint64{0};
        QTest::newRow("2") << 2 << qint64{2 * 15820};
        QTest::newRow("4") << 4 << qint64{94920};
    }

    /// Sums of 8 inputs, 32 hidden units and 10 classes: 2,173 numbers in, twice 891 out.
    void equalsOneWorker()
    {
        QFETCH(int, ranks);
        QFETCH(qint64, bytes);
        Outcome one = train(1);
        Outcome several = train(ranks);
        QCOMPARE(one.problem + several.problem, std::string());
        QCOMPARE(static_cast<qint64>(several.bytes), kIterations * bytes);
        QCOMPARE(several.ranks.size(), static_cast<std::size_t>(ranks));
        for (Variables &rank : several.ranks)
            QVERIFY(rank == several.ranks.front());
        const double difference = largestDifference(one.ranks.front(), several.ranks.front());
        QVERIFY2(difference <= (ranks == 1 ? 0 : 2e-5), qPrintable(QString::number(difference)));
        Variables first = given(0, kSamples);
        QVERIFY(largestDifference(one.ranks.front(), first) > 0.01);
    }

    void rangesHaveTheBits_data()
    {
        QTest::addColumn<double>("gamma");
        QTest::newRow("equal penalties") << 1.0;
        QTest::newRow("halves") << 0.5; // ranges scale their penalties by its powers, which rounds nothing
    }

    /// Two ranges of two steps and one rank with all four, from the same variables: until sums over steps are added up
    /// range by range, all updates of samples and of the parameters that count on the last range have the same bits.
    void rangesHaveTheBits()
    {
        QFETCH(double, gamma);
        Settings settings;
        settings.order = Order::Split;
        settings.gamma = gamma;
        const Method whole = orThrow(Method::of(settings, static_cast<int>(kFourSteps.steps)));
        settings.timeRanges = 2;
        const Method halves = orThrow(Method::of(settings, static_cast<int>(kFourSteps.steps)));
        Variables all = restarted(whole);
        Variables ranges[] = {ofRange(all, 0), ofRange(all, 1)};
        for (const Part part : {Part::Begin, Part::SolveOut, Part::Backward})
            BlockRunner(orThrow(blockGraph(part, kFourSteps, whole, true)), kSamples, all).run();
        const auto onBoth = [&](Part part) {
            for (const int range : {0, 1})
                BlockRunner(orThrow(blockGraph(part, kFourSteps, halves, true)), kSamples, ranges[range], range).run();
        };
        const auto added = [&](const std::string &name) {
            Buffer sum = ranges[0].at(name);
            for (std::size_t i = 0; i < sum.size() / sizeof(float); ++i)
                floatsOf(sum)[i] += floatsOf(ranges[1].at(name))[i];
            return sum;
        };
        onBoth(Part::Begin);
        for (const char *sums : {"gram_out", "product_out"})
            ranges[0][sums] = ranges[1][sums] = added(sums);
        ranges[0]["ahead"] = ranges[1]["ahead"] =
            ranges[1]["pull"]; // the last one has nothing ahead, and keeps its own
        onBoth(Part::SolveOut);
        onBoth(Part::LastHidden);
        ranges[0]["before"] = ranges[1]["before"] = ranges[0]["h2"];
        onBoth(Part::RestBackward);
        Variables start = restarted(whole);
        for (std::int64_t step = 0; step < kFourSteps.steps; ++step) {
            const Variables &own = ranges[step / kOwnSteps];
            for (const std::string letter : {"a", "h"}) {
                const std::string name = letter + std::to_string(step + 1);
                QVERIFY2(own.at(letter + std::to_string(step % kOwnSteps + 1)) == all.at(name), name.c_str());
                QVERIFY2(start.at(name) != all.at(name), name.c_str());
            }
        }
        for (const char *name : {"v", "c"})
            QVERIFY2(ranges[0].at(name) == all.at(name) && ranges[1].at(name) == all.at(name), name);
        QVERIFY(ranges[1].at("o") == all.at("o"));
        for (const char *sums : {"gram_in", "product_in"}) {
            Buffer both = added(sums);
            double largest = 0;
            for (std::size_t i = 0; i < both.size() / sizeof(float); ++i)
                largest = std::max(largest, std::fabs(static_cast<double>(floatsOf(all.at(sums))[i])));
            Variables a{{"sums", both}};
            Variables b{{"sums", all.at(sums)}};
            QVERIFY2(largestDifference(a, b) < 1e-6 * largest, sums);
        }
    }
};

QTEST_GUILESS_MAIN(TestAdmmWorkers)
#include "tst_admm_workers.moc"
