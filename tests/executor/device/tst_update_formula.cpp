// SPDX-License-Identifier: Apache-2.0
#include "engine/update/configured_rule.h"
#include "executor/device/cpu/fused_updates.h"
#include "executor/device/cpu/update_formula.h"

#include <QTest>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <omp.h>
#include <string>
#include <vector>

using namespace planloom;
using device::UpdateFormula;
using device::UpdateRange;
using device::UpdateStep;
using update::ConfiguredRule;

namespace {

constexpr std::size_t kSize = 40000; // several pieces, shared among threads
constexpr double kRate = 3e-3;
constexpr double kDecay = 0.05;

float wave(double phase, std::size_t i) { return static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i))); }

/// Parameter tensors that lie one behind the other, with what a rule keeps of them.
struct Parameters {
    explicit Parameters(std::vector<std::size_t> counts) : sizes(std::move(counts))
    {
        for (std::size_t i = 0; i < kSize; ++i)
            weights.push_back(0.5F * wave(1, i));
    }

    void giveGradients(std::int64_t step)
    {
        for (std::size_t i = 0; i < kSize; ++i)
            gradients[i] = 0.2F * wave(10.0 * static_cast<double>(step), i);
    }
    std::vector<UpdateRange> ranges()
    {
        std::vector<UpdateRange> all;
        std::size_t begin = 0;
        for (const std::size_t size : sizes) {
            UpdateRange range{.parameter = weights.data() + begin, .gradient = gradients.data() + begin};
            for (std::size_t s = 0; s < states.size(); ++s)
                range.states[s] = states[s].data() + begin;
            range.count = static_cast<std::int64_t>(size);
            range.decay = static_cast<float>(kDecay);
            range.tensor = static_cast<std::int32_t>(all.size());
            all.push_back(range);
            begin += size;
        }
        return all;
    }

    std::vector<std::size_t> sizes;
    std::vector<float> weights;
    std::vector<float> gradients = std::vector<float>(kSize);
    std::array<std::vector<float>, 2> states{std::vector<float>(kSize), std::vector<float>(kSize)};
};

const std::vector<std::size_t> kOneTensor{kSize};
const std::vector<std::size_t> kTensors{1, 5, 511, 20000, kSize - 20517};

/// A step of any rule on one rank; its gradients count half.
void stepBy(const UpdateFormula &formula, const update::Formula &rule, Parameters &on, std::int64_t step)
{
    const std::vector<UpdateRange> ranges = on.ranges();
    std::vector<double> sums(formula.sumsOf(ranges));
    std::vector<double> squares(ranges.size() * static_cast<std::size_t>(rule.norms));
    for (int phase = 0; phase < rule.phases(); ++phase)
        formula.run({.learningRate = kRate,
                     .step = step,
                     .gradientScale = 0.5,
                     .phase = phase,
                     .squares = squares.data(),
                     .allSquares = squares.data()},
                    ranges, sums);
}

double worst(const std::vector<float> &got, const std::vector<double> &expected)
{
    double result = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        result = std::max(result, std::fabs(static_cast<double>(got[i]) - expected[i]));
    return result;
}

using Doubles = std::vector<double>;
/// One step in double precision on one tensor: weights, gradients, states, number of the step.
using Reference = std::function<void(Doubles &, const Doubles &, std::array<Doubles, 2> &, std::int64_t)>;

void sgdReference(Doubles &w, const Doubles &g, std::array<Doubles, 2> &states, std::int64_t /*step*/)
{
    for (std::size_t i = 0; i < w.size(); ++i) {
        states[0][i] = 0.9 * states[0][i] + g[i] + kDecay * w[i];
        w[i] -= kRate * states[0][i];
    }
}

// Loshchilov and Hutter, 2019, algorithm 2.
void adamWReference(Doubles &w, const Doubles &g, std::array<Doubles, 2> &states, std::int64_t step)
{
    const auto t = static_cast<double>(step);
    for (std::size_t i = 0; i < w.size(); ++i) {
        states[0][i] = 0.9 * states[0][i] + 0.1 * g[i];
        states[1][i] = 0.999 * states[1][i] + 0.001 * g[i] * g[i];
        const double mean = states[0][i] / (1 - std::pow(0.9, t));
        const double square = states[1][i] / (1 - std::pow(0.999, t));
        w[i] -= kRate * (mean / (std::sqrt(square) + 1e-8) + kDecay * w[i]);
    }
}

// You et al., 2020, algorithm 2, phi the identity.
void lambReference(Doubles &w, const Doubles &g, std::array<Doubles, 2> &states, std::int64_t step)
{
    const auto t = static_cast<double>(step);
    Doubles direction(w.size());
    double length = 0, size = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        states[0][i] = 0.9 * states[0][i] + 0.1 * g[i];
        states[1][i] = 0.999 * states[1][i] + 0.001 * g[i] * g[i];
        const double mean = states[0][i] / (1 - std::pow(0.9, t));
        const double square = states[1][i] / (1 - std::pow(0.999, t));
        direction[i] = mean / (std::sqrt(square) + 1e-6) + kDecay * w[i];
        length += w[i] * w[i];
        size += direction[i] * direction[i];
    }
    const double trust = length > 0 && size > 0 ? std::sqrt(length) / std::sqrt(size) : 1;
    for (std::size_t i = 0; i < w.size(); ++i)
        w[i] -= kRate * trust * direction[i];
}

// Chen et al., 2023, algorithm 2.
void lionReference(Doubles &w, const Doubles &g, std::array<Doubles, 2> &states, std::int64_t /*step*/)
{
    for (std::size_t i = 0; i < w.size(); ++i) {
        const double c = 0.9 * states[0][i] + 0.1 * g[i];
        w[i] -= kRate * ((c > 0 ? 1 : c < 0 ? -1 : 0) + kDecay * w[i]);
        states[0][i] = 0.99 * states[0][i] + 0.01 * g[i];
    }
}

struct Case {
    std::string rule;
    double momentum = 0;
    Reference reference;
};

const std::map<std::string, Case> kCases{{"sgd", {"sgd", 0.9, sgdReference}},
                                         {"adamw", {"adamw", 0, adamWReference}},
                                         {"lamb", {"lamb", 0, lambReference}},
                                         {"lion", {"lion", 0, lionReference}}};

ConfiguredRule ruleOf(const std::string &name, double momentum)
{
    return momentum > 0 ? *ConfiguredRule::named(name, {{"momentum", momentum}}) : *ConfiguredRule::named(name);
}

} // namespace

/// The evaluator of update formulas against the papers' algorithms in double precision and against the fused kernels.
class TestUpdateFormula : public QObject {
    Q_OBJECT

private slots:
    void everyRuleHasAReference()
    {
        for (const update::Rule &rule : update::allRules())
            QVERIFY2(kCases.contains(std::string(rule.name)), std::string(rule.name).c_str());
    }

    void followsThePaper_data()
    {
        QTest::addColumn<QString>("name");
        for (const auto &[name, what] : kCases)
            QTest::newRow(name.c_str()) << QString::fromStdString(name);
    }

    /// Ten steps on tensors of several sizes.
    void followsThePaper()
    {
        QFETCH(QString, name);
        const Case &what = kCases.at(name.toStdString());
        const ConfiguredRule rule = ruleOf(what.rule, what.momentum);
        const auto formula = UpdateFormula::make(rule.formula());
        QVERIFY(formula.ok());
        Parameters ours(kTensors);
        Doubles expected(ours.weights.begin(), ours.weights.end());
        std::array<Doubles, 2> states{Doubles(kSize), Doubles(kSize)};
        for (std::int64_t step = 1; step <= 10; ++step) {
            ours.giveGradients(step);
            std::size_t begin = 0;
            for (const std::size_t size : kTensors) {
                const auto part = [&](Doubles &all) {
                    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
                    return Doubles(from, from + static_cast<std::ptrdiff_t>(size));
                };
                Doubles gradients;
                for (std::size_t i = begin; i < begin + size; ++i)
                    gradients.push_back(0.5 * static_cast<double>(ours.gradients[i]));
                Doubles weights = part(expected);
                std::array<Doubles, 2> kept{part(states[0]), part(states[1])};
                what.reference(weights, gradients, kept, step);
                std::copy(weights.begin(), weights.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
                for (std::size_t s = 0; s < 2; ++s)
                    std::copy(kept[s].begin(), kept[s].end(), states[s].begin() + static_cast<std::ptrdiff_t>(begin));
                begin += size;
            }
            stepBy(*formula, rule.formula(), ours, step);
            QVERIFY(std::all_of(ours.gradients.begin(), ours.gradients.end(), [](float g) { return g == 0.0F; }));
        }
        const double off = worst(ours.weights, expected);
        QVERIFY2(off < 3e-6, std::to_string(off).c_str());
        for (int s = 0; s < rule.formula().states; ++s)
            QVERIFY(worst(ours.states[static_cast<std::size_t>(s)], states[static_cast<std::size_t>(s)]) < 1e-6);
    }

    void fusedKernelsAreTheFormula_data()
    {
        QTest::addColumn<QString>("rule");
        QTest::addColumn<double>("momentum");
        QTest::newRow("sgd") << "sgd" << 0.0;
        QTest::newRow("sgd with momentum") << "sgd" << 0.9;
        QTest::newRow("adamw") << "adamw" << 0.0;
    }

    /// To the rounding of float32, after ten steps.
    void fusedKernelsAreTheFormula()
    {
        QFETCH(QString, rule);
        QFETCH(double, momentum);
        const ConfiguredRule configured = ruleOf(rule.toStdString(), momentum);
        const auto formula = UpdateFormula::make(configured.formula());
        const device::FusedUpdate fused = device::fusedUpdate(configured.name());
        QVERIFY(formula.ok() && fused != nullptr);
        Parameters generic(kTensors), ours(kTensors);
        for (std::int64_t step = 1; step <= 10; ++step) {
            generic.giveGradients(step);
            ours.giveGradients(step);
            stepBy(*formula, configured.formula(), generic, step);
            std::vector<UpdateRange> ranges = ours.ranges();
            for (UpdateRange &range : ranges)
                for (std::size_t s = static_cast<std::size_t>(configured.formula().states); s < range.states.size();
                     ++s)
                    range.states[s] = nullptr;
            fused(configured.formula(), {.learningRate = kRate, .step = step, .gradientScale = 0.5}, ranges);
        }
        const double off = worst(ours.weights, Doubles(generic.weights.begin(), generic.weights.end()));
        QVERIFY2(off < 1e-6, std::to_string(off).c_str());
        for (std::size_t s = 0; s < 2; ++s)
            QVERIFY(worst(ours.states[s], Doubles(generic.states[s].begin(), generic.states[s].end())) < 1e-6);
    }

    void threadsDoNotShow_data() { followsThePaper_data(); }

    /// Bit for bit, norms included.
    void threadsDoNotShow()
    {
        QFETCH(QString, name);
        const ConfiguredRule rule = ruleOf(name.toStdString(), kCases.at(name.toStdString()).momentum);
        const auto formula = UpdateFormula::make(rule.formula());
        std::vector<std::vector<float>> weights;
        for (const int threads : {1, 3}) {
            omp_set_num_threads(threads);
            Parameters on(kTensors);
            for (std::int64_t step = 1; step <= 3; ++step) {
                on.giveGradients(step);
                stepBy(*formula, rule.formula(), on, step);
            }
            weights.push_back(on.weights);
        }
        QCOMPARE(weights[0], weights[1]);
    }

    /// A formula whose stores overwrite what later operators read: swap weight and state.
    void storesComeLast()
    {
        update::Draft f({}, {"m"});
        f.setState("m", f.weight() + f.gradient());
        f.setWeight(f.state("m") + f.gradient());
        const update::Formula swap = f.take();
        QVERIFY(swap.check().ok());
        const auto formula = UpdateFormula::make(swap);
        QVERIFY(formula.ok());
        Parameters on(kOneTensor);
        const std::vector<float> before = on.weights;
        stepBy(*formula, swap, on, 1);
        QCOMPARE(on.states[0], before);
        QVERIFY(std::all_of(on.weights.begin(), on.weights.end(), [](float w) { return w == 0.0F; }));
    }

    void aValueIsStoredTwice()
    {
        update::Draft f({}, {"m"});
        const auto moved = f.weight() + f.gradient() + f.gradient();
        f.setState("m", moved);
        f.setWeight(moved);
        const update::Formula twice = f.take();
        QVERIFY(twice.check().ok());
        const auto formula = UpdateFormula::make(twice);
        QVERIFY(formula.ok());
        Parameters on(kOneTensor);
        std::fill(on.gradients.begin(), on.gradients.end(), 0.25F); // half of it counts
        const std::vector<float> before = on.weights;
        stepBy(*formula, twice, on, 1);
        QCOMPARE(on.states[0], on.weights);
        for (std::size_t i = 0; i < before.size(); ++i)
            QCOMPARE(on.weights[i], before[i] + 0.125F + 0.125F);
    }

    /// Only what this rank counts is in its part of a norm; what a norm is of is what it was before the step.
    void normsAreOfWhatCounts()
    {
        update::Draft f({}, {});
        f.setWeight(f.weight() + norm(f.weight()) * f.gradient());
        const update::Formula rule = f.take();
        const auto formula = UpdateFormula::make(rule);
        QVERIFY(rule.check().ok() && formula.ok());
        Parameters on(kTensors);
        std::vector<UpdateRange> ranges = on.ranges();
        ranges[3].counts = false;
        std::vector<double> sums(formula->sumsOf(ranges)), squares(ranges.size(), -1.0);
        formula->run({.phase = 0, .squares = squares.data()}, ranges, sums);
        QCOMPARE(squares[3], -1.0);
        long double expected = 0;
        for (std::size_t i = kSize - kTensors[4]; i < kSize; ++i)
            expected += static_cast<long double>(on.weights[i]) * static_cast<long double>(on.weights[i]);
        QVERIFY(std::fabs(squares[4] - static_cast<double>(expected)) < 1e-12 * squares[4]);
    }

    void tooManyIntermediateResultsAreRefused()
    {
        update::Draft f({}, {});
        std::vector<update::Value> all;
        for (int i = 0; i < 20; ++i)
            all.push_back(static_cast<double>(i) + f.gradient());
        update::Value sum = all[0];
        for (std::size_t i = 1; i < all.size(); ++i)
            sum = sum + all[i];
        f.setWeight(sum);
        const auto formula = UpdateFormula::make(f.take());
        QVERIFY(!formula);
        QVERIFY(formula.error().message.find("too many intermediate results") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestUpdateFormula)
#include "tst_update_formula.moc"
