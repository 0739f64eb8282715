// SPDX-License-Identifier: Apache-2.0
// Kernels that add to what is there: the same as writing and adding afterwards, to rounding, and the same again every
// time.
#include "executor/device/adding_kernel.h"

#include <QTest>

#include <cmath>
#include <vector>

using namespace planloom;
using device::Argument;

class TestAddingKernels : public QObject {
    Q_OBJECT

private slots:
    void addsWhatItWouldWrite_data()
    {
        QTest::addColumn<QString>("type");
        QTest::addColumn<std::vector<std::int64_t>>("left");
        QTest::addColumn<std::vector<std::int64_t>>("right");
        QTest::addColumn<std::vector<std::int64_t>>("out");
        using Dims = std::vector<std::int64_t>;
        QTest::newRow("weight") << "MatMulWeightGrad" << Dims{5, 7} << Dims{5, 3} << Dims{7, 3};
        QTest::newRow("weight of a batch") << "MatMulWeightGrad" << Dims{2, 33, 70} << Dims{2, 33, 49} << Dims{70, 49};
        QTest::newRow("large weight") << "MatMulWeightGrad" << Dims{1, 256, 520} << Dims{1, 256, 770} << Dims{520, 770};
        QTest::newRow("table") << "GatherGrad" << Dims{6, 5} << Dims{6} << Dims{4, 5};
        QTest::newRow("large table") << "GatherGrad" << Dims{2, 64, 300} << Dims{2, 64} << Dims{1000, 300};
    }

    void addsWhatItWouldWrite()
    {
        QFETCH(QString, type);
        QFETCH(std::vector<std::int64_t>, left);
        QFETCH(std::vector<std::int64_t>, right);
        QFETCH(std::vector<std::int64_t>, out);
        graph::Op op;
        op.type = op.name = type.toStdString();
        const bool indices = type == "GatherGrad";
        const Argument a{graph::DType::F32, left};
        const Argument b{indices ? graph::DType::I64 : graph::DType::F32, right};
        const Argument y{graph::DType::F32, out};
        auto kernel = device::makeKernel(op, {a, b}, {y});
        QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
        auto *adding = dynamic_cast<device::AddingKernel *>(kernel->get());
        QVERIFY(adding != nullptr);

        const std::vector<float> x = values(a.elements(), 0.37);
        const std::vector<float> dy = values(b.elements(), 0.53);
        std::vector<std::int64_t> rows(static_cast<std::size_t>(b.elements()));
        for (std::size_t i = 0; i < rows.size(); ++i)
            rows[i] = static_cast<std::int64_t>(i * 7 % static_cast<std::size_t>(out[0]));
        const void *inputs[] = {x.data(), indices ? static_cast<const void *>(rows.data()) : dy.data()};
        const std::vector<float> before = values(y.elements(), 0.11);
        std::vector<float> written = before;
        std::vector<float> added = before;
        std::vector<float> again = before;
        void *to = written.data();
        adding->run(inputs, {&to, 1});
        to = added.data();
        adding->add(inputs, {&to, 1});
        to = again.data();
        adding->add(inputs, {&to, 1});
        QCOMPARE(added, again);
        for (std::size_t i = 0; i < added.size(); ++i) {
            const float expected = before[i] + written[i];
            QVERIFY2(std::fabs(added[i] - expected) <= 2e-5F,
                     qPrintable(QString("%1: %2, not %3").arg(i).arg(added[i]).arg(expected)));
        }
    }

    /// bfloat16 factors, a float32 sum: by the processor's own products or converted around ours.
    void addsProductsOfHalves()
    {
        graph::Op op;
        op.type = op.name = "MatMulWeightGrad";
        const Argument x{graph::DType::BF16, {4, 2}};
        const Argument dy{graph::DType::BF16, {4, 3}};
        const Argument y{graph::DType::F32, {2, 3}};
        auto kernel = device::makeKernel(op, {x, dy}, {y});
        QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
        auto *adding = dynamic_cast<device::AddingKernel *>(kernel->get());
        QVERIFY(adding != nullptr);
        const std::vector<std::uint16_t> twos(8, 0x4000);
        const std::vector<std::uint16_t> ones(12, 0x3f80);
        std::vector<float> sums(6, 0.5F);
        const void *inputs[] = {twos.data(), ones.data()};
        void *to = sums.data();
        adding->add(inputs, {&to, 1});
        QCOMPARE(sums, std::vector<float>(6, 8.5F));
        adding->run(inputs, {&to, 1});
        QCOMPARE(sums, std::vector<float>(6, 8.0F));
    }

private:
    static std::vector<float> values(std::int64_t n, double step)
    {
        std::vector<float> made(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < made.size(); ++i)
            made[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
        return made;
    }
};

QTEST_GUILESS_MAIN(TestAddingKernels)
#include "tst_adding_kernels.moc"
