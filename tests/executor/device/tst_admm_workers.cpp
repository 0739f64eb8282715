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
Variables given(std::int64_t first, std::int64_t count)
{
    Variables all{{"u", drawn(kSizes.hidden * kSizes.inputs, 0.37, 0.5)},
                  {"w", drawn(kSizes.hidden * kSizes.hidden, 0.53, 0.25)},
                  {"b", zeros(kSizes.hidden)},
                  {"v", drawn(kSizes.classes * kSizes.hidden, 0.71, 0.25)},
                  {"c", zeros(kSizes.classes)}};
    for (std::int64_t t = 1; t <= kSizes.steps; ++t) {
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
};

QTEST_GUILESS_MAIN(TestAdmmWorkers)
#include "tst_admm_workers.moc"
