// SPDX-License-Identifier: Apache-2.0
// The rules of local steps with delayed averaging (DaSGD) on quadratics whose steps are known: each in double precision
// to all digits of the worked figures, and as ranks compute it, in float, beside that.
#include "executor/runtime/quadratics.h"

#include <QTest>

using namespace planloom;
using namespace planloom::test;
using plan::DelayedAveraging;
using plan::Merge;

namespace {

constexpr double kTenDigits = 5.1e-11, kEightDigits = 5.1e-9; ///< half of the last one that is printed
constexpr double kFloat = 1e-6;

Merge mergeOf(bool corrected) { return corrected ? Merge::Corrected : Merge::Convex; }

QString text(double value) { return QString::number(value, 'g', 17); }

/// @p seen of the replicas in double precision and in float, of which the first is @p printed.
struct Seen {
    double exact, inFloat;
};
void compare(const Seen &seen, double printed, double digits)
{
    QVERIFY2(std::abs(seen.exact - printed) <= digits, qPrintable(text(seen.exact) + " for " + text(printed)));
    QVERIFY2(std::abs(seen.inFloat - seen.exact) <= kFloat,
             qPrintable(text(seen.inFloat) + " for " + text(seen.exact)));
}

/// Both kinds, step by step.
struct Both {
    explicit Both(const DelayedAveraging &averaging, const Curves &curves = {})
        : exact(averaging, curves),
          inFloat(averaging, curves)
    {
    }
    void step(std::int64_t k)
    {
        exact.step(k);
        inFloat.step(k);
    }
    void steps(std::int64_t last)
    {
        for (std::int64_t k = 1; k <= last; ++k)
            step(k);
    }
    Seen weight(std::size_t replica) { return {exact.weight(replica), inFloat.weight(replica)}; }
    Seen mean() { return {(exact.weight(0) + exact.weight(1)) / 2, (inFloat.weight(0) + inFloat.weight(1)) / 2}; }
    Seen deviation() { return {exact.weight(0) - exact.weight(1), inFloat.weight(0) - inFloat.weight(1)}; }

    ExactQuadratics exact;
    Quadratics inFloat;
};

/// The mean over a round, in the long run, of the squared deviations of a replica from the mean, for noise of variance
/// 1 in each step of each of @p replicas. A replica's noise reaches the others through the mean alone, from which no
/// deviation comes back, so that the deviations of two stand for those of any number.
template <class Replicas>
double spread(const DelayedAveraging &averaging, int replicas)
{
    constexpr std::int64_t kRounds = 14; // a quarter is left of noise behind each
    double sum = 0;
    for (std::int64_t at = 1; at <= averaging.localSteps; ++at) {
        Replicas pushed(averaging, {{1, 1}, {0, 0}});
        pushed.beginRound(0, 0);
        for (std::int64_t k = 1; k <= kRounds * averaging.localSteps; ++k) {
            pushed.step(k, k == at ? 1 : 0);
            const double deviation = pushed.weight(0) - pushed.weight(1);
            sum += deviation * deviation;
        }
    }
    return sum / static_cast<double>(averaging.localSteps) * (1 - 1.0 / replicas);
}

} // namespace

class TestAveragingRules : public QObject {
    Q_OBJECT

private slots:
    void quadratics_data();
    void quadratics();
    void withoutExchange();
    void synchronousSgd_data();
    void synchronousSgd();
    void delayBiasesReplicasThatSeeOtherData_data();
    void delayBiasesReplicasThatSeeOtherData();
    void roundsMultiplyMeanAndDeviation_data();
    void roundsMultiplyMeanAndDeviation();
    void noiseSpreadsReplicas_data();
    void noiseSpreadsReplicas();
    void distanceOfTheSnapshots_data();
    void distanceOfTheSnapshots();
};

void TestAveragingRules::quadratics_data()
{
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    QTest::addColumn<double>("localWeight");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<int>("step");
    QTest::addColumn<double>("first");
    QTest::addColumn<double>("second");
    const auto row = [](int localSteps, int delay, double weight, bool corrected, int step, double first,
                        double second) {
        QTest::addRow("%d local steps, delay %d, %g, %s, step %d", localSteps, delay, weight,
                      corrected ? "corrected" : "convex", step)
            << localSteps << delay << weight << corrected << step << first << second;
    };
    for (const bool corrected : {false, true}) {
        // Local SGD.
        row(4, 0, 0, corrected, 4, -0.03605, -0.03605);
        row(4, 0, 0, corrected, 8, -0.052204005, -0.052204005);
        row(4, 2, 0.25, corrected, 4, 0.6878, -0.7599);
        row(4, 2, 0.25, corrected, 5, 0.81902, -0.83193);
    }
    row(4, 2, 0.25, false, 6, 0.207242, -0.24762525);
    row(4, 2, 0.25, false, 7, 0.3865178, -0.473337675);
    row(4, 2, 0.25, false, 8, 0.54786602, -0.6313363725);
    row(4, 2, 0.25, false, 9, 0.693079418, -0.7419354607);
    row(4, 2, 0.25, false, 10, 0.1746414869, -0.2361400878);
    row(4, 2, 0.25, false, 40, 0.4960517605, -0.6362708213);
    row(4, 2, 0.25, true, 6, 0.3942305, -0.3394635);
    row(4, 2, 0.25, true, 7, 0.55480745, -0.53762445);
    row(4, 2, 0.25, true, 8, 0.699326705, -0.676337115);
    row(4, 2, 0.25, true, 9, 0.8293940345, -0.7734359805);
    row(4, 2, 0.25, true, 10, 0.4305806986, -0.3255312538);
    row(4, 2, 0.25, true, 40, 0.7529413674, -0.6586982248);
}

void TestAveragingRules::quadratics()
{
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    QFETCH(double, localWeight);
    QFETCH(bool, corrected);
    QFETCH(int, step);
    QFETCH(double, first);
    QFETCH(double, second);
    Both both({localSteps, delay, localWeight, mergeOf(corrected), 0});
    both.steps(step);
    compare(both.weight(0), first, kTenDigits);
    compare(both.weight(1), second, kTenDigits);
}

/// A local weight of 1, which plans may not have, leaves averages out, however often they are merged.
void TestAveragingRules::withoutExchange()
{
    for (const bool corrected : {false, true})
        for (const auto &[localSteps, delay] : {std::pair{4, 2}, {1, 0}, {4, 4}}) {
            Both both({localSteps, delay, 1, mergeOf(corrected), 0});
            both.steps(40);
            compare(both.weight(0), 1.9704382341, kTenDigits);
            compare(both.weight(1), -0.9999993633, kTenDigits);
        }
    QVERIFY(!plan::check({4, 2, 1, Merge::Corrected, 0}));
}

void TestAveragingRules::synchronousSgd_data()
{
    QTest::addColumn<double>("momentum");
    QTest::addColumn<double>("decay");
    QTest::addColumn<QList<double>>("weights"); // after 1, 2, 3 and 30 steps
    QTest::newRow("plain") << 0.0 << 0.0 << QList<double>{-0.05, -0.09, -0.122, -0.249690515};
    QTest::newRow("momentum") << 0.9 << 0.0 << QList<double>{-0.05, -0.135, -0.2345, -0.2389892998};
    QTest::newRow("momentum and L2") << 0.9 << 0.1 << QList<double>{-0.05, -0.1345, -0.232305, -0.245311772};
}

/// Averaging in every step is synchronous SGD: momenta stay local, and are linear, as decay is.
void TestAveragingRules::synchronousSgd()
{
    QFETCH(double, momentum);
    QFETCH(double, decay);
    QFETCH(QList<double>, weights);
    constexpr double kRounding = 2e-15;
    Curves curves;
    curves.momentum = momentum;
    curves.decay = 0.1 * decay;
    for (const bool corrected : {false, true}) {
        Both both({1, 0, 0, mergeOf(corrected), 0}, curves);
        double weight = 0, velocity = 0; // of one model, by the mean of both gradients
        QList<Seen> seen;
        for (int k = 1; k <= 30; ++k) {
            both.step(k);
            velocity = momentum * velocity + (curves.slope(0, weight) + curves.slope(1, weight)) / 2;
            weight -= velocity;
            for (const std::size_t replica : {0, 1}) {
                QVERIFY(std::abs(both.exact.weight(replica) - weight) <= kRounding);
                QVERIFY(std::abs(both.inFloat.weight(replica) - weight) <= kFloat);
            }
            if (k <= 3 || k == 30)
                seen << both.weight(0);
        }
        for (qsizetype i = 0; i < weights.size(); ++i)
            compare(seen[i], weights[i], kTenDigits);
    }
}

void TestAveragingRules::delayBiasesReplicasThatSeeOtherData_data()
{
    QTest::addColumn<int>("localSteps");
    QTest::addColumn<int>("delay");
    QTest::addColumn<double>("localWeight");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<double>("mean");
    const auto row = [](int localSteps, int delay, double weight, bool corrected, double mean) {
        QTest::addRow("%d local steps, delay %d, %g, %s", localSteps, delay, weight, corrected ? "corrected" : "convex")
            << localSteps << delay << weight << corrected << mean;
    };
    row(1, 0, 0, true, -0.25);
    row(4, 0, 0, true, -0.09188623);
    row(1, 1, 0.25, false, -0.21428571);
    row(4, 1, 0.25, false, -0.03915958);
    row(4, 4, 0.25, false, -0.01120026);
    row(1, 1, 0.25, true, -0.125);
    row(4, 1, 0.25, true, 0.02270439);
    row(4, 4, 0.25, true, 0.13717906);
    row(16, 16, 0.25, true, 0.37238256);
}

/// The mean over a round in the long run; the mean loss has its least value at -0.25.
void TestAveragingRules::delayBiasesReplicasThatSeeOtherData()
{
    QFETCH(int, localSteps);
    QFETCH(int, delay);
    QFETCH(double, localWeight);
    QFETCH(bool, corrected);
    QFETCH(double, mean);
    Both both({localSteps, delay, localWeight, mergeOf(corrected), 0});
    constexpr int kLong = 1600;
    Seen sum{};
    for (int k = 1; k <= kLong; ++k) {
        both.step(k);
        if (k <= kLong - localSteps)
            continue;
        sum.exact += both.mean().exact / localSteps;
        sum.inFloat += both.mean().inFloat / localSteps;
    }
    compare(sum, mean, kEightDigits);
}

void TestAveragingRules::roundsMultiplyMeanAndDeviation_data()
{
    QTest::addColumn<double>("kept");
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<double>("mean");
    QTest::addColumn<double>("deviation");
    QTest::newRow("convex, delay 2") << 0.9 << 2 << false << 0.771525 << 0.164025;
    QTest::newRow("corrected, delay 2") << 0.9 << 2 << true << 0.6561 << 0.0486;
    QTest::newRow("convex, delay 4") << 0.9 << 4 << false << 0.914025 << 0.164025;
    QTest::newRow("corrected, delay 4") << 0.9 << 4 << true << 0.6561 << -0.0939;
    QTest::newRow("convex, odd delay, high rate") << -0.95 << 1 << false << -0.43940469 << 0.20362656;
    QTest::newRow("corrected, odd delay, high rate") << -0.95 << 1 << true << 0.81450625 << 1.4575375; // diverges
}

/// A round of 4 steps on one curve, by what it multiplies the replicas' mean and their distance from it.
void TestAveragingRules::roundsMultiplyMeanAndDeviation()
{
    QFETCH(double, kept);
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    QFETCH(double, mean);
    QFETCH(double, deviation);
    constexpr int kRound = 4;
    Both both({kRound, delay, 0.25, mergeOf(corrected), 0}, {{kept, kept}, {0, 0}});
    both.exact.beginRound(1.5, 0.5);
    both.inFloat.beginRound(1.5, 0.5);
    both.steps(kRound);
    compare(both.mean(), mean, kEightDigits);
    compare(both.deviation(), deviation, kEightDigits);
}

void TestAveragingRules::noiseSpreadsReplicas_data()
{
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    QTest::addColumn<double>("printed");
    for (const int delay : {0, 1, 2, 4})
        QTest::addRow("convex, delay %d", delay) << delay << false << 1.5458;
    QTest::newRow("corrected, delay 1") << 1 << true << 2.4208;
    QTest::newRow("corrected, delay 2") << 2 << true << 3.2958;
    QTest::newRow("corrected, delay 4") << 4 << true << 5.0458;
}

/// Eight replicas whose gradients are noise alone, with rounds of 4: a convex merge leaves them as far apart whatever
/// the delay, a corrected one a step's noise further for each step of it.
void TestAveragingRules::noiseSpreadsReplicas()
{
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    QFETCH(double, printed);
    constexpr int kReplicas = 8;
    constexpr double kFourDigits = 5.1e-5;
    const DelayedAveraging averaging{4, delay, 0.25, mergeOf(corrected), 0};
    compare({spread<ExactQuadratics>(averaging, kReplicas), spread<Quadratics>(averaging, kReplicas)}, printed,
            kFourDigits);
    const double x = averaging.localWeight;
    const double formula = ((1 + x * x) / (1 - x * x) * 4 - 1) / 2 + (corrected ? delay : 0);
    QVERIFY(std::abs(spread<ExactQuadratics>(averaging, kReplicas) - formula * (1 - 1.0 / kReplicas)) < 1e-12);
}

void TestAveragingRules::distanceOfTheSnapshots_data()
{
    QTest::addColumn<int>("delay");
    QTest::addColumn<bool>("corrected");
    for (const int delay : {0, 1, 2, 4})
        for (const bool corrected : {false, true})
            QTest::addRow("delay %d, %s", delay, corrected ? "corrected" : "convex") << delay << corrected;
}

/// Replicas at 0.6878 and -0.7599 after four steps are 0.72385 from their mean, however late that is merged; in delay 4
/// the next snapshot is taken in the step of the merge.
void TestAveragingRules::distanceOfTheSnapshots()
{
    QFETCH(int, delay);
    QFETCH(bool, corrected);
    Quadratics quadratics({4, delay, 0.25, mergeOf(corrected), 0});
    for (int k = 1; k <= 4 + delay; ++k)
        quadratics.step(k);
    const double distance = quadratics.distance();
    QVERIFY2(std::abs(distance - 0.72385) < 1e-6, qPrintable(QString::number(distance, 'g', 10)));
    QCOMPARE(quadratics.distance(), 0.0); // it was taken
}

QTEST_GUILESS_MAIN(TestAveragingRules)
#include "tst_averaging_rules.moc"
