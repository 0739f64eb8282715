// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/random_kernel.h"

#include <QtTest/QTest>

#include <cmath>
#include <numeric>
#include <vector>

using namespace planloom;
using device::Draw;

namespace {

constexpr double kRatio = 0.25;
constexpr std::int64_t kWidth = 1000;

/// Ones after dropout.
std::vector<float> drop(const device::Argument &argument, Draw draw, const char *type, const char *name = "drop")
{
    graph::Op op;
    op.type = type;
    op.name = std::string("any/") + name;
    op.attributes = {{"ratio", kRatio}, {"key", std::string(name)}};
    auto kernel = device::makeKernel(op, {argument}, {argument});
    if (!kernel)
        return {};
    auto *random = dynamic_cast<device::RandomKernel *>(kernel->get());
    if (!random)
        return {};
    random->begin(draw);
    const std::vector<float> x(static_cast<std::size_t>(argument.elements()), 1.0F);
    std::vector<float> y(x.size());
    const void *in[] = {x.data()};
    void *out[] = {y.data()};
    random->run(in, out);
    return y;
}
std::vector<float> drop(Draw draw, const char *type = "Dropout", const char *name = "drop")
{
    return drop({graph::DType::F32, {draw.samples, kWidth}, true}, draw, type, name);
}

Draw training(std::int64_t first, std::int64_t samples, std::int64_t step = 3, std::int64_t seed = 1)
{
    return {seed, step, first, samples, true};
}

} // namespace

class TestDropout : public QObject {
    Q_OBJECT

private slots:
    void keepsTheExpectation()
    {
        const std::vector<float> y = drop(training(0, 64));
        QCOMPARE(y.size(), std::size_t{64 * kWidth});
        const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
        QVERIFY2(std::fabs(mean - 1) < 0.01, std::to_string(mean).c_str()); // 4 deviations
        for (const float value : y)
            QVERIFY(value == 0 || value == static_cast<float>(1 / (1 - kRatio)));
    }

    void inferenceDropsNothing()
    {
        Draw draw = training(0, 4);
        draw.training = false;
        QCOMPARE(drop(draw), std::vector<float>(4 * kWidth, 1.0F));
    }

    /// However a batch is cut, a sample's mask is the same.
    void slicesAgreeWithTheWhole()
    {
        const std::vector<float> whole = drop(training(0, 8));
        std::vector<float> joined;
        for (const auto &[first, samples] : {std::pair{0, 3}, std::pair{3, 1}, std::pair{4, 4}}) {
            const std::vector<float> part = drop(training(first, samples));
            joined.insert(joined.end(), part.begin(), part.end());
        }
        QCOMPARE(joined, whole);
    }

    void gradientDrawsTheSameMask() { QCOMPARE(drop(training(2, 4), "DropoutGrad"), drop(training(2, 4))); }

    /// A gradient may lie channel by channel where what was dropped lay in blocks of channels.
    void imagesInBlocksHaveTheMasksOfRows()
    {
        constexpr std::int64_t kPixels = 15;
        const std::int64_t width = device::blockWidth(graph::Layout::Blocked);
        const std::int64_t channels = 3 * width;
        const device::Argument rows{graph::DType::F32, {2, channels, 3, 5}, true};
        device::Argument blocks = rows;
        blocks.layout = graph::Layout::Blocked;
        const std::vector<float> forward = drop(blocks, training(2, 2), "Dropout");
        const std::vector<float> backward = drop(rows, training(2, 2), "DropoutGrad");
        QCOMPARE(forward.size(), backward.size());
        for (std::int64_t plane = 0; plane < 2 * channels; ++plane)
            for (std::int64_t pixel = 0; pixel < kPixels; ++pixel)
                QCOMPARE(forward[static_cast<std::size_t>((plane / width * kPixels + pixel) * width + plane % width)],
                         backward[static_cast<std::size_t>(plane * kPixels + pixel)]);
    }

    void masksDiffer()
    {
        const std::vector<float> one = drop(training(0, 4));
        QVERIFY(one != drop(training(4, 4)));
        QVERIFY(one != drop(training(0, 4, 4)));
        QVERIFY(one != drop(training(0, 4, 3, 2)));
        QVERIFY(one != drop(training(0, 4), "Dropout", "other"));
    }

    void refusesImpossibleRatios()
    {
        graph::Op op;
        op.type = "Dropout";
        op.attributes = {{"ratio", 1.0}};
        const device::Argument argument{graph::DType::F32, {2}, true};
        QVERIFY(!device::makeKernel(op, {argument}, {argument}).ok());
    }
};

QTEST_GUILESS_MAIN(TestDropout)
#include "tst_dropout.moc"
