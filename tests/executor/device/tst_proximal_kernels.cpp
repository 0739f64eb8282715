// SPDX-License-Identifier: Apache-2.0
// The sub-problems of ADMM on the processor, against the same in double precision.
#include "executor/device/cpu/outer_sums.h"
#include "executor/device/kernel.h"

#include "engine/admm/gradients.h"
#include "engine/admm/sums.h"

#include <Eigen/Cholesky>
#include <QTest>

#include <cmath>
#include <numeric>
#include <vector>

using namespace planloom;
using device::Argument;
using graph::DType;

namespace {

using Floats = std::vector<float>;

/// Row by row.
Floats floatsOf(const admm::Matrix &matrix)
{
    Floats result;
    for (Eigen::Index i = 0; i < matrix.rows(); ++i)
        for (Eigen::Index j = 0; j < matrix.cols(); ++j)
            result.push_back(static_cast<float>(matrix(i, j)));
    return result;
}

/// Numbers that a float holds, so that both sides begin with the same.
admm::Matrix drawn(Eigen::Index rows, Eigen::Index columns, double step, double size = 2)
{
    admm::Matrix result(rows, columns);
    for (Eigen::Index i = 0; i < result.size(); ++i)
        result.data()[i] =
            static_cast<double>(static_cast<float>(size * std::sin(step * static_cast<double>(i * i + i + 1))));
    return result;
}

Argument argument(const admm::Matrix &matrix) { return {DType::F32, {matrix.rows(), matrix.cols()}}; }

graph::Op opOf(const char *type, graph::Attributes attributes)
{
    graph::Op op;
    op.type = op.name = type;
    op.attributes = std::move(attributes);
    return op;
}

Floats packed(const admm::Matrix &symmetric)
{
    Floats result;
    for (Eigen::Index i = 0; i < symmetric.rows(); ++i)
        for (Eigen::Index j = 0; j <= i; ++j)
            result.push_back(static_cast<float>(symmetric(i, j)));
    return result;
}

/// The largest difference of two runs of numbers, against the largest expected one.
double apart(const Floats &got, const Floats &expected)
{
    double difference = got.size() == expected.size() ? 0 : INFINITY;
    double largest = 1e-30;
    for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        const double each = std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
        difference = std::isnan(each) ? INFINITY : std::max(difference, each);
        largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
    }
    return difference / largest;
}

} // namespace

class TestProximalKernels : public QObject {
    Q_OBJECT

private slots:
    void tanh_data();
    void tanh();
    void crossEntropy_data();
    void crossEntropy();
    void labelOutsideIsSeen();
    void sumsOfSteps();
    void outerProductsOnEachPath();
    void solves_data();
    void solves();
    void solvesManyRows();
    void keepsStates();
    void singularSumsAreSeen();
};

void TestProximalKernels::tanh_data()
{
    QTest::addColumn<double>("p");
    QTest::addColumn<double>("q");
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("iterations");
    QTest::newRow("one step") << 1.0 << 1.0 << 3 << 1;
    QTest::newRow("strong p") << 10.0 << 0.1 << 7 << 3;
    QTest::newRow("strong q") << 0.1 << 10.0 << 7 << 4;
    QTest::newRow("many") << 1.5 << 2.5 << 700 << 3;
}

void TestProximalKernels::tanh()
{
    QFETCH(double, p);
    QFETCH(double, q);
    QFETCH(int, rows);
    QFETCH(int, iterations);
    const admm::Matrix a = drawn(rows, 33, 0.37);
    const admm::Matrix alpha = drawn(rows, 33, 0.61);
    const admm::Matrix beta = drawn(rows, 33, 0.83, 1.5);
    const graph::Op op =
        opOf("ProximalTanh", {{"p", p}, {"q", q}, {"iterations", static_cast<std::int64_t>(iterations)}});
    auto kernel = device::makeKernel(op, {argument(a), argument(alpha), argument(beta)}, {argument(a)});
    QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
    Floats start = floatsOf(a);
    const Floats second = floatsOf(alpha);
    const Floats third = floatsOf(beta);
    Floats result(start.size());
    const void *inputs[] = {start.data(), second.data(), third.data()};
    void *to = result.data();
    (*kernel)->run(inputs, {&to, 1});
    admm::Matrix expected = a;
    admm::proximalTanh(expected, alpha, beta, p, q, iterations);
    const double difference = apart(result, floatsOf(expected));
    QVERIFY2(difference < 1e-6, qPrintable(QString::number(difference)));
    const admm::Matrix ofA = drawn(rows, 33, 0.47);
    const admm::Matrix ofState = drawn(rows, 33, 0.29, 0.5);
    auto with = device::makeKernel(op, std::vector<Argument>(5, argument(a)), {argument(a)});
    QVERIFY2(with.ok(), with ? "" : with.error().text().c_str());
    const Floats fourth = floatsOf(ofA);
    const Floats fifth = floatsOf(ofState);
    const void *five[] = {start.data(), second.data(), third.data(), fourth.data(), fifth.data()};
    Floats withDuals(start.size());
    to = withDuals.data();
    (*with)->run(five, {&to, 1});
    expected = a;
    admm::proximalTanh(expected, alpha + ofA / p, beta - ofState / q, p, q, iterations);
    const double apartWith = apart(withDuals, floatsOf(expected));
    QVERIFY2(apartWith < 2e-6, qPrintable(QString::number(apartWith)));
    to = start.data(); // in place
    (*kernel)->run(inputs, {&to, 1});
    QCOMPARE(start, result);
}

void TestProximalKernels::crossEntropy_data()
{
    QTest::addColumn<double>("penalty");
    QTest::addColumn<int>("classes");
    QTest::addColumn<int>("iterations");
    QTest::newRow("one step") << 1.0 << 10 << 1;
    QTest::newRow("converged") << 1.0 << 10 << 6;
    QTest::newRow("weak") << 0.1 << 3 << 6;
    QTest::newRow("many classes") << 2.0 << 1000 << 6;
    QTest::newRow("one class") << 1.0 << 1 << 2;
}

void TestProximalKernels::crossEntropy()
{
    QFETCH(double, penalty);
    QFETCH(int, classes);
    QFETCH(int, iterations);
    constexpr int kRows = 41;
    const admm::Matrix o = drawn(kRows, classes, 0.37);
    const admm::Matrix centre = drawn(kRows, classes, 0.61);
    std::vector<int> classOf;
    std::vector<std::int64_t> labels;
    for (int row = 0; row < kRows; ++row) {
        classOf.push_back(row * 7 % classes);
        labels.push_back(classOf.back());
    }
    const graph::Op op = opOf(
        "ProximalCrossEntropy",
        {{"penalty", penalty}, {"iterations", static_cast<std::int64_t>(iterations)}, {"losses", std::int64_t{1}}});
    auto kernel = device::makeKernel(op, {argument(o), argument(centre), {DType::I64, {kRows}}},
                                     {argument(o), {DType::F32, {kRows}}});
    QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
    const Floats start = floatsOf(o);
    const Floats second = floatsOf(centre);
    Floats result(start.size());
    Floats losses(kRows);
    const void *inputs[] = {start.data(), second.data(), labels.data()};
    void *to[] = {result.data(), losses.data()};
    (*kernel)->run(inputs, to);
    admm::Matrix expected = o.transpose(); // a column is a sample there
    admm::proximalCrossEntropy(expected, centre.transpose(), classOf, penalty, iterations);
    const double difference = apart(result, floatsOf(expected.transpose()));
    QVERIFY2(difference < 5e-6, qPrintable(QString::number(difference)));
    const double loss = admm::crossEntropy(expected, classOf);
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    QVERIFY2(std::fabs(sum - loss) < 1e-5 * std::fabs(loss) + 1e-6, qPrintable(QString::number(sum - loss)));
}

void TestProximalKernels::labelOutsideIsSeen()
{
    const graph::Op op = opOf("ProximalCrossEntropy", {{"penalty", 1.0}});
    auto kernel =
        device::makeKernel(op, {{DType::F32, {2, 2}}, {DType::F32, {2, 2}}, {DType::I64, {2}}}, {{DType::F32, {2, 2}}});
    QVERIFY(kernel.ok());
    const Floats zeros(4, 0.0F);
    const std::vector<std::int64_t> labels{2, 1};
    Floats result(4);
    const void *inputs[] = {zeros.data(), zeros.data(), labels.data()};
    void *to = result.data();
    (*kernel)->run(inputs, {&to, 1});
    QVERIFY(std::isnan(result[0]) && std::isnan(result[1]) && !std::isnan(result[2]));
}

void TestProximalKernels::sumsOfSteps()
{
    constexpr int kSteps = 3;
    constexpr int kRows = 57;
    const std::vector<double> weights{0.5, 1.25, 3};
    const admm::Matrix z = drawn(kSteps * kRows, 21, 0.37);
    const admm::Matrix y = drawn(kSteps * kRows, 6, 0.61);
    const graph::Op op = opOf("OuterSums", {{"weights", weights}});
    auto kernel = device::makeKernel(op, {{DType::F32, {kSteps, kRows, 21}}, {DType::F32, {kSteps, kRows, 6}}},
                                     {{DType::F32, {231}}, {DType::F32, {6, 21}}});
    QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
    const Floats left = floatsOf(z);
    const Floats right = floatsOf(y);
    Floats sums(231);
    Floats product(126);
    const void *inputs[] = {left.data(), right.data()};
    void *outputs[] = {sums.data(), product.data()};
    (*kernel)->run(inputs, outputs);
    admm::Matrix gram = admm::Matrix::Zero(21, 21);
    for (int t = 0; t < kSteps; ++t) {
        const auto rows = z.middleRows(t * kRows, kRows);
        gram += weights[static_cast<std::size_t>(t)] * (rows.transpose() * rows);
    }
    // Added in double, so that only the last rounding differs.
    QVERIFY(apart(sums, packed(gram)) < 6e-8);
    QVERIFY(apart(product, floatsOf(y.transpose() * z)) < 6e-8);
    auto alone = device::makeKernel(op, {{DType::F32, {kSteps, kRows, 21}}}, {{DType::F32, {231}}});
    QVERIFY2(alone.ok(), alone ? "" : alone.error().text().c_str());
    Floats again(231);
    outputs[0] = again.data();
    (*alone)->run(std::span(inputs).first(1), std::span(outputs).first(1));
    QCOMPARE(again, sums);
}

/// Each instruction set that this processor has, for whole and broken vectors, against double.
void TestProximalKernels::outerProductsOnEachPath()
{
    const std::vector<device::OuterPath> paths = device::outerPaths();
    QCOMPARE(paths.back().name, "plain");
    for (const device::OuterPath &path : paths)
        for (const std::int64_t rows : {0, 1, 7, 32})
            for (const std::int64_t columns : {1, 4, 8, 9, 21, 41}) {
                const std::int64_t stride = device::outerStride(columns);
                constexpr std::int64_t kLeft = 2 * device::kOuterLines;
                const auto numbers = [](std::int64_t count, double by) {
                    std::vector<double> made(static_cast<std::size_t>(count));
                    for (std::size_t i = 0; i < made.size(); ++i)
                        made[i] = std::sin(1 + by * static_cast<double>(i));
                    return made;
                };
                const std::vector<double> left = numbers(rows * kLeft + 1, 0.37);
                const std::vector<double> right = numbers(rows * stride + 1, 0.61);
                const std::vector<double> before = numbers(device::kOuterLines * stride + 1, 0.11);
                std::vector<double> sums = before;
                path.add(rows, {left.data() + 1, kLeft}, {right.data(), stride}, columns, sums.data());
                for (std::int64_t l = 0; l < device::kOuterLines; ++l)
                    for (std::int64_t j = 0; j < columns; ++j) {
                        const auto at = static_cast<std::size_t>(l * stride + j);
                        long double wanted = before[at];
                        for (std::int64_t r = 0; r < rows; ++r)
                            wanted += static_cast<long double>(left[static_cast<std::size_t>(1 + r * kLeft + l)])
                                * static_cast<long double>(right[static_cast<std::size_t>(r * stride + j)]);
                        QVERIFY2(std::abs(static_cast<double>(sums[at] - wanted))
                                     <= 1e-15 * (1 + static_cast<double>(rows)),
                                 path.name);
                    }
                QCOMPARE(sums.back(), before.back()); // behind the last line
            }
}

void TestProximalKernels::solves_data()
{
    QTest::addColumn<double>("ridge");
    QTest::addColumn<double>("proximal");
    QTest::newRow("plain") << 0.0 << 0.0;
    QTest::newRow("ridge") << 0.5 << 0.0;
    QTest::newRow("proximal") << 0.5 << 2.0;
}

void TestProximalKernels::solves()
{
    QFETCH(double, ridge);
    QFETCH(double, proximal);
    const admm::Matrix z = drawn(60, 9, 0.37);
    const admm::Matrix old = drawn(37, 9, 0.71);
    admm::Sums sums{z.transpose() * z, drawn(37, 9, 0.61, 50)};
    sums.gram = sums.gram.cast<float>().cast<double>();
    graph::Attributes attributes{{"ridge", ridge}, {"shift", proximal}};
    const graph::Op op = opOf("CholeskySolve", attributes);
    std::vector<Argument> arguments{{DType::F32, {45}}, argument(old)};
    if (proximal > 0)
        arguments.push_back(argument(old));
    auto kernel = device::makeKernel(op, arguments, {argument(old)});
    QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
    const Floats gram = packed(sums.gram);
    const Floats right = floatsOf(sums.product);
    const Floats before = floatsOf(old);
    Floats solution(37 * 9);
    const void *inputs[] = {gram.data(), right.data(), before.data()};
    void *to = solution.data();
    (*kernel)->run(std::span(inputs).first(arguments.size()), {&to, 1});
    admm::Settings settings;
    settings.ridge = ridge;
    settings.proximal = proximal;
    const auto expected = admm::solve(sums, settings, old);
    QVERIFY(expected.ok());
    QVERIFY(apart(solution, floatsOf(*expected)) < 1e-7);
}

/// Many rows with one system, by its inverse; the last ones do not fill a block. A weak shift goes by substitution.
void TestProximalKernels::solvesManyRows()
{
    for (const double shift : {5.0, 1e-3}) {
        const admm::Matrix z = drawn(12, 21, 0.37);
        const admm::Matrix right = drawn(203, 21, 0.61, 50);
        admm::Matrix gram = z.transpose() * z;
        gram = gram.cast<float>().cast<double>();
        auto kernel = device::makeKernel(opOf("CholeskySolve", {{"shift", shift}}),
                                         {{DType::F32, {231}}, argument(right)}, {argument(right)});
        QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
        const Floats sums = packed(gram);
        const Floats sides = floatsOf(right);
        Floats solution(sides.size());
        const void *inputs[] = {sums.data(), sides.data()};
        void *to = solution.data();
        (*kernel)->run(inputs, {&to, 1});
        gram.diagonal().array() += shift;
        const admm::Matrix expected = gram.llt().solve(right.cast<float>().cast<double>().transpose()).transpose();
        QVERIFY(apart(solution, floatsOf(expected)) < 1e-6);
        const admm::Matrix old = drawn(203, 21, 0.71);
        const admm::Matrix addend = drawn(203, 21, 0.53, 20);
        auto full = device::makeKernel(opOf("CholeskySolve", {{"shift", shift}}),
                                       {{DType::F32, {231}}, argument(right), argument(old), argument(addend)},
                                       {argument(right)});
        QVERIFY2(full.ok(), full ? "" : full.error().text().c_str());
        const Floats before = floatsOf(old);
        const Floats beside = floatsOf(addend);
        const void *all[] = {sums.data(), sides.data(), before.data(), beside.data()};
        (*full)->run(all, {&to, 1});
        const admm::Matrix whole = right + shift * old + addend;
        QVERIFY(apart(solution, floatsOf(gram.llt().solve(whole.transpose()).transpose())) < 1e-6);
    }
}

void TestProximalKernels::keepsStates()
{
    const admm::Matrix before = drawn(700, 33, 0.37); // some pieces, the last one shorter
    const admm::Matrix after = drawn(700, 33, 0.71);
    auto kernel = device::makeKernel(opOf("KeepState", {{"scale", 0.25}}), {argument(before), argument(after)},
                                     {{DType::F32, {1}}, {DType::F32, {1}}});
    QVERIFY2(kernel.ok(), kernel ? "" : kernel.error().text().c_str());
    Floats state = floatsOf(before);
    const Floats next = floatsOf(after);
    float squares = 0;
    float growth = 0;
    const void *inputs[] = {state.data(), next.data()};
    void *to[] = {&squares, &growth};
    (*kernel)->run(inputs, to);
    QCOMPARE(state, next);
    const double expected = 0.25 * (after - before).squaredNorm();
    QVERIFY(std::fabs(static_cast<double>(squares) - expected) < 1e-5 * expected);
    const double grown = 0.25 * (after.squaredNorm() - before.squaredNorm()); // half the root of 0.25
    QVERIFY(std::fabs(static_cast<double>(growth) - grown) < 1e-5 * before.squaredNorm());
}

/// Fewer samples than unknowns: rounding must not pass for a solution.
void TestProximalKernels::singularSumsAreSeen()
{
    const admm::Matrix z = drawn(4, 9, 0.37);
    auto kernel = device::makeKernel(opOf("CholeskySolve", {}), {{DType::F32, {45}}, {DType::F32, {1, 9}}},
                                     {{DType::F32, {1, 9}}});
    QVERIFY(kernel.ok());
    const Floats gram = packed(z.transpose() * z);
    const Floats right(9, 1.0F);
    Floats solution(9, 0.0F);
    const void *inputs[] = {gram.data(), right.data()};
    void *to = solution.data();
    (*kernel)->run(inputs, {&to, 1});
    QVERIFY(std::isnan(solution[0]));
}

QTEST_GUILESS_MAIN(TestProximalKernels)
#include "tst_proximal_kernels.moc"
