// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel.h"

#include <QtTest/QTest>

#include <algorithm>
#include <cmath>

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
};

QTEST_GUILESS_MAIN(Optimizer)
#include "tst_optimizer.moc"
