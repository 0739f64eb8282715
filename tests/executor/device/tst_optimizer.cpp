// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel.h"

#include <QtTest/QTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <omp.h>

using namespace planloom;

namespace {

constexpr std::size_t kSize = 40000; // several pieces, shared among threads

std::vector<float> wave(double phase)
{
    std::vector<float> values(kSize);
    for (std::size_t i = 0; i < kSize; ++i)
        values[i] = static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i)));
    return values;
}

double worst(const std::vector<float> &got, const std::vector<double> &expected)
{
    double result = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        result = std::max(result, std::fabs(static_cast<double>(got[i]) - expected[i]));
    return result;
}

bool allZero(const std::vector<float> &values)
{
    return std::all_of(values.begin(), values.end(), [](float v) { return v == 0.0F; });
}

} // namespace

class Optimizer : public QObject {
    Q_OBJECT

private slots:
    void accumulates()
    {
        const auto x = wave(1);
        auto y = wave(2);
        std::vector<double> expected(kSize);
        for (std::size_t i = 0; i < kSize; ++i)
            expected[i] = static_cast<double>(x[i]) + static_cast<double>(y[i]);
        device::accumulate(x.data(), y.data(), kSize);
        QVERIFY(worst(y, expected) < 1e-6);
    }

    void sgdFollowsTheFormula_data()
    {
        QTest::addColumn<double>("momentum");
        QTest::addColumn<double>("decay");
        QTest::newRow("plain") << 0.0 << 0.0;
        QTest::newRow("decay") << 0.0 << 0.1;
        QTest::newRow("momentum") << 0.9 << 0.0;
        QTest::newRow("both") << 0.9 << 0.01;
    }

    /// v = momentum v + (g + decay p); p -= rate v, over three steps.
    void sgdFollowsTheFormula()
    {
        QFETCH(double, momentum);
        QFETCH(double, decay);
        auto p = wave(1);
        std::vector<float> v(kSize, 0.0F);
        std::vector<double> expected(p.begin(), p.end());
        std::vector<double> velocity(kSize, 0.0);
        for (int step = 1; step <= 3; ++step) {
            auto g = wave(10.0 * step);
            for (std::size_t i = 0; i < kSize; ++i) {
                velocity[i] = momentum * velocity[i] + static_cast<double>(g[i]) + decay * expected[i];
                expected[i] -= 0.1 * velocity[i];
            }
            device::sgd({0.1, momentum, decay}, p.data(), g.data(), momentum > 0 ? v.data() : nullptr, kSize);
            QVERIFY(allZero(g));
        }
        QVERIFY2(worst(p, expected) < 2e-6, std::to_string(worst(p, expected)).c_str());
    }

    void adamWFollowsTheFormula_data()
    {
        QTest::addColumn<double>("rate");
        QTest::addColumn<double>("decay");
        QTest::newRow("no decay") << 1e-2 << 0.0;
        QTest::newRow("decay") << 1e-2 << 0.1;
        QTest::newRow("gpt") << 6e-4 << 0.1;
    }

    void adamWFollowsTheFormula()
    {
        QFETCH(double, rate);
        QFETCH(double, decay);
        auto p = wave(1);
        std::vector<float> m(kSize, 0.0F), v(kSize, 0.0F);
        std::vector<double> expected(p.begin(), p.end());
        std::vector<double> first(kSize, 0.0), second(kSize, 0.0);
        for (std::int64_t step = 1; step <= 5; ++step) {
            auto g = wave(10.0 * static_cast<double>(step));
            for (std::size_t i = 0; i < kSize; ++i) {
                const auto gradient = static_cast<double>(g[i]);
                first[i] = 0.9 * first[i] + 0.1 * gradient;
                second[i] = 0.95 * second[i] + 0.05 * gradient * gradient;
                const double m1 = first[i] / (1 - std::pow(0.9, step));
                const double v1 = second[i] / (1 - std::pow(0.95, step));
                expected[i] = expected[i] * (1 - rate * decay) - rate * m1 / (std::sqrt(v1) + 1e-8);
            }
            device::adamW({rate, 0.9, 0.95, 1e-8, decay, step}, p.data(), g.data(), m.data(), v.data(), kSize);
            QVERIFY(allZero(g));
        }
        QVERIFY2(worst(p, expected) < 3e-6, std::to_string(worst(p, expected)).c_str());
        QVERIFY(worst(m, first) < 1e-6);
        QVERIFY(worst(v, second) < 1e-6);
    }

    /// Ranges of unequal size and rates, in one call, do what a call each does; bit for bit, with any number of
    /// threads.
    void rangesAreIndependent_data()
    {
        QTest::addColumn<int>("threads");
        QTest::newRow("one thread") << 1;
        QTest::newRow("three threads") << 3;
    }

    void rangesAreIndependent()
    {
        QFETCH(int, threads);
        omp_set_num_threads(threads);
        const std::vector<std::int64_t> ends{5, 5, 20000, 20001, static_cast<std::int64_t>(kSize)};
        auto p = wave(1), g = wave(2), m = wave(0.1), v = std::vector<float>(kSize, 0.5F);
        auto p1 = p, g1 = g, m1 = m, v1 = v;
        std::vector<device::UpdateRange> ranges;
        std::int64_t begin = 0;
        for (const std::int64_t end : ends) {
            const auto number = static_cast<float>(ranges.size());
            ranges.push_back({.parameter = p.data() + begin,
                              .gradient = g.data() + begin,
                              .states = {m.data() + begin, v.data() + begin},
                              .copy = nullptr,
                              .count = end - begin,
                              .rateFactor = 0.25F * number,
                              .decay = 0.1F * number});
            device::adamW({.learningRate = static_cast<double>(4e-3F * ranges.back().rateFactor),
                           .weightDecay = ranges.back().decay,
                           .step = 7},
                          p1.data() + begin, g1.data() + begin, m1.data() + begin, v1.data() + begin, end - begin);
            begin = end;
        }
        device::adamW({.learningRate = static_cast<double>(4e-3F), .step = 7}, ranges);
        QCOMPARE(p, p1);
        QCOMPARE(m, m1);
        QCOMPARE(v, v1);
        QVERIFY(allZero(g));
    }

    /// A gradient that is scaled counts as a gradient of that size.
    void scalesGradients()
    {
        auto p = wave(1), g = wave(2), half = wave(2), m = std::vector<float>(kSize), v = m;
        for (float &value : half)
            value *= 0.5F;
        auto p1 = p, m1 = m, v1 = v;
        device::adamW({.learningRate = 1e-2, .step = 1, .gradientScale = 0.5}, p.data(), g.data(), m.data(), v.data(),
                      kSize);
        device::adamW({.learningRate = 1e-2, .step = 1}, p1.data(), half.data(), m1.data(), v1.data(), kSize);
        QCOMPARE(p, p1);
        auto s = wave(1), s1 = s, h = wave(2), h1 = h;
        for (float &value : h1)
            value *= 0.5F;
        device::sgd({.learningRate = 0.1, .gradientScale = 0.5}, s.data(), h.data(), nullptr, kSize);
        device::sgd({.learningRate = 0.1}, s1.data(), h1.data(), nullptr, kSize);
        QCOMPARE(s, s1);
    }

    /// The sum of squares against long double, the same bits with any number of threads.
    void squaredNorm()
    {
        auto g = wave(3);
        long double expected = 0;
        for (const float value : g)
            expected += static_cast<long double>(value) * static_cast<long double>(value);
        const std::vector<device::UpdateRange> ranges{{.gradient = g.data(), .count = 17},
                                                      {.gradient = g.data() + 17,
                                                       .count = static_cast<std::int64_t>(kSize) - 17}};
        omp_set_num_threads(1);
        const double alone = device::squaredNorm(ranges);
        QVERIFY(std::fabs(alone - static_cast<double>(expected)) < 1e-12 * static_cast<double>(expected));
        for (const int threads : {2, 3, 5}) {
            omp_set_num_threads(threads);
            QCOMPARE(device::squaredNorm(ranges), alone);
        }
        QCOMPARE(device::squaredNorm({}), 0.0);
    }

    /// A rate of 0 leaves the parameters alone, so the copy is these numbers rounded: ties to even, NaN and infinity
    /// stay.
    void refreshesTheCopy()
    {
        std::vector<float> p{1.0F,         1.00390625F,   1.01171875F,
                             -2.5F,        3.3895314e38F, std::numeric_limits<float>::infinity(),
                             std::nanf("")};
        std::vector<float> g(p.size(), 1.0F), m(p.size()), v(p.size());
        std::vector<std::uint16_t> copy(p.size());
        const device::UpdateRange range{.parameter = p.data(),
                                        .gradient = g.data(),
                                        .states = {m.data(), v.data()},
                                        .copy = copy.data(),
                                        .count = static_cast<std::int64_t>(p.size())};
        device::adamW({}, {&range, 1});
        // 1 + 2^-8 lies midway between 0x3f80 and 0x3f81, 1 + 3 * 2^-8 midway between 0x3f81 and 0x3f82.
        const std::vector<std::uint16_t> expected{0x3f80, 0x3f80, 0x3f82, 0xc020, 0x7f7f, 0x7f80};
        QVERIFY(std::equal(expected.begin(), expected.end(), copy.begin()));
        QVERIFY((copy.back() & 0x7fff) > 0x7f80);
    }
};

QTEST_GUILESS_MAIN(Optimizer)
#include "tst_optimizer.moc"
