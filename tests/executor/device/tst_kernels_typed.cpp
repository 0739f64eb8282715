// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel.h"
#include "executor/device/cpu/narrow_floats.h"

#include <QtTest/QTest>

#include <cmath>
#include <cstring>
#include <limits>

using namespace planloom;
using graph::DType;

namespace {

using Dims = std::vector<std::int64_t>;

graph::Op makeOp(const char *type, graph::Attributes attributes = {})
{
    graph::Op op;
    op.type = type;
    op.name = "op";
    op.attributes = std::move(attributes);
    return op;
}

/// Runs an operator on vectors; the error's text as a failure.
template <class Out, class... In>
std::vector<Out> runKernel(const graph::Op &op, const std::vector<device::Argument> &inputs,
                           const device::Argument &output, const std::vector<In> &...values)
{
    auto kernel = device::makeKernel(op, inputs, {output});
    if (!kernel) {
        qWarning("%s", kernel.error().text().c_str());
        return {};
    }
    std::vector<Out> made(static_cast<std::size_t>(output.elements()));
    const void *in[] = {values.data()...};
    void *out[] = {made.data()};
    (*kernel)->run(in, out);
    return made;
}

std::vector<double> numbers(int n, double low, double high)
{
    std::vector<double> made;
    for (int i = 0; i < n; ++i)
        made.push_back(low + (high - low) * (i + 0.5) / n);
    return made;
}

} // namespace

/// Kernels on element types other than float32 and int64.
class KernelsTyped : public QObject {
    Q_OBJECT

private slots:
    void doublesAgreeWithFloats_data()
    {
        QTest::addColumn<QString>("type");
        for (const char *type :
             {"Abs",  "Neg",   "Sign", "Relu", "Clip", "Exp", "Log",     "Sqrt",     "Reciprocal", "Floor",
              "Ceil", "Round", "Sin",  "Cos",  "Tanh", "Erf", "Sigmoid", "Softplus", "LeakyRelu",  "Elu"})
            QTest::newRow(type) << type;
    }

    void doublesAgreeWithFloats()
    {
        QFETCH(QString, type);
        const graph::Op op =
            makeOp(type.toUtf8().constData(),
                   type == "Clip" ? graph::Attributes{{"min", 0.7}, {"max", 2.0}} : graph::Attributes{});
        const auto x = numbers(50, type == "Log" || type == "Sqrt" || type == "Reciprocal" ? 0.1 : -3, 3);
        const std::vector<float> single(x.begin(), x.end());
        const auto expected = runKernel<float>(op, {{DType::F32, {50}}}, {DType::F32, {50}}, single);
        const auto made = runKernel<double>(op, {{DType::F64, {50}}}, {DType::F64, {50}}, x);
        QVERIFY(expected.size() == 50 && made.size() == 50);
        for (std::size_t i = 0; i < made.size(); ++i)
            QVERIFY2(std::fabs(made[i] - static_cast<double>(expected[i])) <= 2e-6 * std::max(1.0, std::fabs(made[i])),
                     std::to_string(x[i]).c_str());
    }

    /// Beyond what a float holds.
    void doublesKeepTheirPrecision()
    {
        const std::vector<double> a{1.0 + 1e-12, 3}, b{1, 1e-15};
        QCOMPARE(runKernel<double>(makeOp("Sub"), {{DType::F64, {2}}, {DType::F64, {2}}}, {DType::F64, {2}}, a, b)[0],
                 (1.0 + 1e-12) - 1.0);
        QCOMPARE(runKernel<double>(makeOp("ReduceSum"), {{DType::F64, {2}}}, {DType::F64, {1}}, a)[0], 4.0 + 1e-12);
    }

    void integersWrapAround()
    {
        const std::vector<std::uint8_t> a{250, 3}, b{10, 5};
        const device::Argument u8{DType::U8, {2}};
        QCOMPARE(runKernel<std::uint8_t>(makeOp("Add"), {u8, u8}, u8, a, b), (std::vector<std::uint8_t>{4, 8}));
        QCOMPARE(runKernel<std::uint8_t>(makeOp("Sub"), {u8, u8}, u8, b, a), (std::vector<std::uint8_t>{16, 2}));
        QCOMPARE(runKernel<std::uint8_t>(makeOp("Div"), {u8, u8}, u8, a, b), (std::vector<std::uint8_t>{25, 0}));
        const std::vector<std::int32_t> most{std::numeric_limits<std::int32_t>::max()}, one{1};
        const device::Argument i32{DType::I32, {1}};
        QCOMPARE(runKernel<std::int32_t>(makeOp("Add"), {i32, i32}, i32, most, one)[0],
                 std::numeric_limits<std::int32_t>::min());
    }

    void divisionByZeroIsNoCrash()
    {
        const std::vector<std::int32_t> a{7, std::numeric_limits<std::int32_t>::min()}, b{0, -1};
        const device::Argument i32{DType::I32, {2}};
        QCOMPARE(runKernel<std::int32_t>(makeOp("Div"), {i32, i32}, i32, a, b)[0], 0);
        QCOMPARE(runKernel<std::int32_t>(makeOp("Mod"), {i32, i32}, i32, a, b), (std::vector<std::int32_t>{0, 0}));
        const std::vector<std::int64_t> wide{7, std::numeric_limits<std::int64_t>::min()}, by{0, -1};
        const device::Argument i64{DType::I64, {2}};
        QCOMPARE(runKernel<std::int64_t>(makeOp("Mod"), {i64, i64}, i64, wide, by), (std::vector<std::int64_t>{0, 0}));
    }

    void restsTakeASign()
    {
        const std::vector<std::int8_t> a{5, -5, 5, -5}, b{3, 3, -3, -3};
        const device::Argument i8{DType::I8, {4}};
        QCOMPARE(runKernel<std::int8_t>(makeOp("Mod"), {i8, i8}, i8, a, b), (std::vector<std::int8_t>{2, 1, -1, -2}));
        QCOMPARE(runKernel<std::int8_t>(makeOp("Mod", {{"fmod", std::int64_t{1}}}), {i8, i8}, i8, a, b),
                 (std::vector<std::int8_t>{2, -2, 2, -2}));
    }

    void halvesAreRoundedOnce()
    {
        const device::Argument half{DType::F16, {2}};
        const std::vector<std::uint16_t> a{weights::toHalf(2048), weights::toHalf(1)},
            b{weights::toHalf(1), weights::toHalf(0.5F)};
        const auto sum = runKernel<std::uint16_t>(makeOp("Add"), {half, half}, half, a, b);
        QCOMPARE(weights::fromHalf(sum[0]), 2048.0F); // 2049 is no half; the even neighbour is taken
        QCOMPARE(weights::fromHalf(sum[1]), 1.5F);
        const device::Argument brain{DType::BF16, {1}};
        const std::vector<std::uint16_t> c{weights::toBFloat16(3)};
        QCOMPARE(weights::fromBFloat16(runKernel<std::uint16_t>(makeOp("Neg"), {brain}, brain, c)[0]), -3.0F);
    }

    /// Every half comes back from single precision as it was.
    void halvesSurviveWidening()
    {
        for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
            const auto half = static_cast<std::uint16_t>(bits);
            const float wide = weights::fromHalf(half);
            if (!std::isnan(wide))
                QCOMPARE(weights::toHalf(wide), half);
            else
                QVERIFY(std::isnan(weights::fromHalf(weights::toHalf(wide))));
        }
        QCOMPARE(weights::toHalf(65519.0F), std::uint16_t{0x7bff}); // below the middle to what would be next
        QCOMPARE(weights::toHalf(65520.0F), std::uint16_t{0x7c00});
        QCOMPARE(weights::toHalf(0x1p-25F), std::uint16_t{0});
        QCOMPARE(weights::toHalf(0x1.8p-25F), std::uint16_t{1});
    }

    void powersOfMixedTypes()
    {
        const std::vector<float> base{1.5F, -2.0F, 4.0F};
        const std::vector<std::int32_t> exponent{2, 3, -1};
        QCOMPARE(runKernel<float>(makeOp("Pow"), {{DType::F32, {3}}, {DType::I32, {3}}}, {DType::F32, {3}}, base,
                                  exponent),
                 (std::vector<float>{2.25F, -8.0F, 0.25F}));
        const std::vector<std::int64_t> whole{3, -1, 7}, large{39, -3, -2};
        QCOMPARE(runKernel<std::int64_t>(makeOp("Pow"), {{DType::I64, {3}}, {DType::I64, {3}}}, {DType::I64, {3}},
                                         whole, large),
                 (std::vector<std::int64_t>{4052555153018976267, -1, 0}));
    }

    void reductionsAlongAxes()
    {
        const std::vector<std::int32_t> x{1, 2, 3, 4, 5, 6};
        const graph::Op op = makeOp("ReduceProd", {{"axes", Dims{1}}, {"keepdims", std::int64_t{0}}});
        QCOMPARE(runKernel<std::int32_t>(op, {{DType::I32, {2, 3}}}, {DType::I32, {2}}, x),
                 (std::vector<std::int32_t>{6, 120}));
        const graph::Op most = makeOp("ReduceMax", {{"axes", Dims{0}}, {"keepdims", std::int64_t{0}}});
        QCOMPARE(runKernel<std::int32_t>(most, {{DType::I32, {2, 3}}}, {DType::I32, {3}}, x),
                 (std::vector<std::int32_t>{4, 5, 6}));
        const std::vector<double> y{1, 2, 3};
        QCOMPARE(runKernel<double>(makeOp("CumSum", {{"reverse", std::int64_t{1}}}), {{DType::F64, {3}}},
                                   {DType::F64, {3}}, y),
                 (std::vector<double>{6, 5, 3}));
    }

    void saysWhichTypeItCannot()
    {
        const auto kernel = device::makeKernel(makeOp("Exp"), {{DType::I32, {2}}}, {{DType::I32, {2}}});
        QVERIFY(!kernel.ok());
        QVERIFY2(kernel.error().text().find("int32") != std::string::npos, kernel.error().text().c_str());
    }
};

QTEST_GUILESS_MAIN(KernelsTyped)
#include "tst_kernels_typed.moc"
