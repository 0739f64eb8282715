// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/admm/admm_example.h"

#include <QTest>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace planloom;
using namespace planloom::admm;

namespace {

using Row = std::vector<double>; ///< a matrix, row after row

/// The figures are printed with nine decimals.
constexpr double kPrinted = 5.1e-10;
/// What the order of additions moves in sums of about 1.
constexpr double kRounding = 2e-15;
/// What a primal update may raise the Lagrangian by, of rounding alone.
constexpr double kClimb = 5e-16;

/// A difference that is no number is infinite.
double larger(double largest, double difference)
{
    return std::isnan(difference) ? INFINITY : std::max(largest, std::fabs(difference));
}

double distance(const Matrix &matrix, const Row &row)
{
    if (static_cast<Eigen::Index>(row.size()) != matrix.size())
        return INFINITY;
    double largest = 0;
    for (Eigen::Index i = 0; i < matrix.size(); ++i)
        largest = larger(largest, matrix(i / matrix.cols(), i % matrix.cols()) - row[static_cast<std::size_t>(i)]);
    return largest;
}

double distance(const Matrix &a, const Matrix &b)
{
    double largest = a.rows() == b.rows() && a.cols() == b.cols() ? 0 : INFINITY;
    for (Eigen::Index i = 0; std::isfinite(largest) && i < a.size(); ++i)
        largest = larger(largest, a(i % a.rows(), i / a.rows()) - b(i % a.rows(), i / a.rows()));
    return largest;
}

double distance(const Parameters &a, const Parameters &b)
{
    return std::max(
        {distance(a.u, b.u), distance(a.w, b.w), distance(a.b, b.b), distance(a.v, b.v), distance(a.c, b.c)});
}

#define VERIFY_NEAR(value, wanted, within)                                                                             \
    do {                                                                                                               \
        const double found_ = (value);                                                                                 \
        QVERIFY2(std::fabs(found_ - (wanted)) <= (within), qPrintable(QString::number(found_, 'g', 17)));              \
    } while (false)
#define VERIFY_ROW(matrix, ...) VERIFY_NEAR(distance(matrix, Row __VA_ARGS__), 0, kPrinted)

Training started(const Settings &settings, int workers = 1)
{
    return *Training::of(settings, exampleParameters(), exampleSamples(), workers);
}

} // namespace

/// P-ADMMiRNN against figures that two separate programs have computed.
class TestAdmm : public QObject {
    Q_OBJECT

private slots:
    void start();
    void oneIteration();
    void lagrangianOfEachUpdate();
    void primalUpdatesDescend();
    void smallOutputPenaltyClimbs();
    void workersGiveTheSame_data();
    void workersGiveTheSame();
    void fixedPoint();
    void gradientDescentEndsThere();
    void fixedPointOfTheLastDual_data();
    void fixedPointOfTheLastDual();
    void splitOrderHasTheSameFixedPoint();
    void arrivals();
    void arrivalsOfPairs();
    void staleParametersEndAtTheSamePoint();
    void latenessIsBounded();
    void bytesOfAnIteration();
    void settingsAreChecked();
    void singularSumsAreRefused();
};

void TestAdmm::start()
{
    const Training training = started(publishedSettings());
    const Blocks &blocks = training.workers[0].blocks;
    VERIFY_ROW(blocks.o, ({0.060276958, -0.048207196, -0.008919923, 0.074779775}));
    VERIFY_ROW(blocks.h[1], ({-0.170051199, -0.008469629, 0.027013217, 0.197206635}));
    VERIFY_ROW(blocks.a[1], ({-0.171719387, -0.008469832, 0.027019791, 0.199824483}));
    VERIFY_ROW(blocks.h[0], ({0.215927418, 0.035562096, -0.050218919, -0.203045853}));
    VERIFY_ROW(blocks.a[0], ({0.219380388, 0.035577098, -0.050261199, -0.205907342}));
    VERIFY_ROW(training.parameters.u, ({0.162090692, -0.296997749, -0.124844051, -0.196093086}));
    VERIFY_ROW(training.parameters.w, ({0.272789228, -0.287677282, 0.042336002, -0.083824649}));
    VERIFY_ROW(training.parameters.b, ({0, 0}));
    VERIFY_ROW(training.parameters.c, ({0, 0}));
    VERIFY_ROW(training.parameters.v, ({-0.395996999, -0.261457448, 0.113464874, 0.384068115}));
}

void TestAdmm::oneIteration()
{
    Training training = started(publishedSettings());
    const Blocks &blocks = training.workers[0].blocks;
    const Parameters &parameters = training.parameters;
    int told = 0;
    const Status done = iterate(training, [&](const std::string &) {
        if (++told != 10)
            return; // after the backward sweep
        VERIFY_ROW(blocks.o, ({0.301630797, -0.282853173, -0.250273762, 0.309425752}));
        VERIFY_ROW(parameters.c, ({0.003353931, -0.003353931}));
        VERIFY_ROW(parameters.v, ({-0.956509788, -0.851844008, 0.673977664, 0.974454675}));
        VERIFY_ROW(blocks.h[1], ({-0.243025772, 0.049640122, -0.054725140, 0.262294999}));
        VERIFY_ROW(blocks.a[1], ({-0.195683278, 0.012221397, -0.002025264, 0.220873520}));
        VERIFY_ROW(blocks.h[0], ({0.209266353, 0.041167178, -0.042218379, -0.209664106}));
        VERIFY_ROW(blocks.a[0], ({0.217213823, 0.037575170, -0.047413620, -0.208071943}));
        VERIFY_ROW(parameters.b, ({-0.000688861, -0.001788116}));
        VERIFY_ROW(parameters.w, ({0.236945701, -0.320058848, -0.008054676, -0.122316298}));
        VERIFY_ROW(parameters.u, ({0.161728889, -0.298978712, -0.124675286, -0.199607436}));
    });
    QVERIFY(done.ok());
    QCOMPARE(told, 21);
    VERIFY_ROW(blocks.o, ({0.482395223, -0.458962341, -0.428097496, 0.482594229}));
    VERIFY_ROW(parameters.c, ({0.004080991, -0.005163379}));
    VERIFY_ROW(parameters.v, ({-0.972096234, -0.866680121, 0.713081299, 1.011738336}));
    VERIFY_ROW(blocks.h[1], ({-0.248640374, 0.054502652, -0.062191962, 0.267694431}));
    VERIFY_ROW(blocks.a[1], ({-0.208909961, 0.022875106, -0.016865884, 0.232366785}));
    VERIFY_ROW(blocks.h[0], ({0.211467893, 0.039069029, -0.041575027, -0.210497348}));
    VERIFY_ROW(blocks.a[0], ({0.216663081, 0.037427763, -0.046067011, -0.209864830}));
    VERIFY_ROW(parameters.b, ({-0.000148565, -0.000644396}));
    VERIFY_ROW(parameters.w, ({0.215057389, -0.340464608, -0.034600131, -0.148959524}));
    VERIFY_ROW(parameters.u, ({0.161762505, -0.300677835, -0.124506473, -0.202655481}));
    VERIFY_ROW(blocks.l1[1], ({0.022056793, -0.018149465, 0.025806406, -0.020156951}));
    VERIFY_ROW(blocks.l2[1], ({0.042717456, -0.031631536, 0.045327677, -0.039421415}));
    VERIFY_ROW(blocks.l3, ({-0.365422650, 0.356112134, 0.365422650, -0.356112134}));
    VERIFY_ROW(blocks.l1[0], ({0, 0, 0, 0}));
}

void TestAdmm::lagrangianOfEachUpdate()
{
    const std::vector<std::pair<std::string, double>> wanted{
        {"o", 1.121647602},    {"c", 1.121602607},  {"V", 0.977268208}, {"h2", 0.906890226}, {"a2", 0.902563812},
        {"h1", 0.902456680},   {"a1", 0.902416326}, {"b", 0.902408982}, {"W", 0.901919990},  {"U", 0.901862490},
        {"U", 0.901819554},    {"W", 0.901641341},  {"b", 0.901638141}, {"a1", 0.901627890}, {"h1", 0.901620870},
        {"a2", 0.900403405},   {"h2", 0.899898916}, {"V", 0.899287686}, {"c", 0.899280080},  {"o", 0.801823298},
        {"duals", 1.070495022}};
    Training training = started(publishedSettings());
    VERIFY_NEAR(lagrangian(training), 1.292690376, kPrinted);
    std::size_t at = 0;
    const Status done = iterate(training, [&](const std::string &block) {
        QVERIFY(at < wanted.size());
        QCOMPARE(block, wanted[at].first);
        VERIFY_NEAR(lagrangian(training), wanted[at].second, kPrinted);
        ++at;
    });
    QVERIFY(done.ok());
    QCOMPARE(at, wanted.size());
}

void TestAdmm::primalUpdatesDescend()
{
    const std::map<int, double> wanted{{2, 0.728003702}, {10, 0.196148017}, {100, 0.020186777}, {1000, 0.002004383}};
    Training training = started(publishedSettings());
    long double before = exactLagrangian(training);
    long double climb = 0;
    for (int iteration = 1; iteration <= 1000; ++iteration) {
        const Status done = iterate(training, [&](const std::string &block) {
            const long double now = exactLagrangian(training);
            if (block != "duals")
                climb = std::max(climb, now - before);
            before = now;
        });
        QVERIFY(done.ok());
        if (const auto found = wanted.find(iteration); found != wanted.end())
            VERIFY_NEAR(static_cast<double>(before), found->second, kPrinted);
    }
    VERIFY_NEAR(static_cast<double>(climb), 0, kClimb);
}

/// The linearised output step descends from a penalty of a half, as all primal updates do, which is also what settings
/// are checked for.
void TestAdmm::smallOutputPenaltyClimbs()
{
    for (const auto &[rho, wanted] : {std::pair{0.5, 0.0}, {0.3, 0.292772453}, {0.1, 3.239860105}}) {
        Settings settings = publishedSettings();
        settings.rho = rho;
        QCOMPARE(settings.check().ok(), rho >= 0.5);
        Training training = started(publishedSettings());
        training.method.settings.rho = rho;
        QStringList climbers; // of the primal updates
        long double before = exactLagrangian(training);
        long double climb = 0;
        const Status done = iterate(training, [&](const std::string &block) {
            const long double now = exactLagrangian(training);
            if (block != "duals")
                climb = std::max(climb, now - before);
            if (now - before > kClimb && block != "duals")
                climbers << QString::fromStdString(block);
            before = now;
        });
        QVERIFY(done.ok());
        VERIFY_NEAR(static_cast<double>(climb), wanted, wanted > 0 ? kPrinted : kClimb);
        climbers.removeDuplicates();
        QCOMPARE(climbers, wanted > 0 ? QStringList("o") : QStringList());
    }
}

void TestAdmm::workersGiveTheSame_data()
{
    QTest::addColumn<bool>("exact");
    QTest::addColumn<double>("within");
    QTest::newRow("linearised") << false << 2e-16;
    QTest::newRow("exact") << true << 1e-14;
}

void TestAdmm::workersGiveTheSame()
{
    QFETCH(bool, exact);
    QFETCH(double, within);
    const Settings settings = exact ? exactSettings() : publishedSettings();
    Training one = started(settings);
    Training two = started(settings, 2);
    QVERIFY(iterate(one).ok() && iterate(two).ok());
    VERIFY_NEAR(distance(one.parameters, two.parameters), 0, within);
}

void TestAdmm::fixedPoint()
{
    Training training = started(exactSettings());
    for (int iteration = 0; iteration < 4000; ++iteration)
        QVERIFY(iterate(training).ok());
    const Parameters &parameters = training.parameters;
    const Gradients gradients = gradientsOf(parameters, exampleSamples(), 0.05);
    VERIFY_NEAR(gradients.objective, 0.312534692, kPrinted);
    VERIFY_NEAR(gradients.largest(), 0, kRounding);
    const Blocks &blocks = training.workers[0].blocks;
    VERIFY_NEAR(distance(blocks.l3, gradients.o), 0, kRounding);
    for (std::size_t t = 0; t < 2; ++t) {
        VERIFY_NEAR(distance(blocks.l2[t], gradients.h[t]), 0, kRounding);
        VERIFY_NEAR(distance(blocks.l1[t], gradients.a[t]), 0, kRounding);
    }
    VERIFY_ROW(parameters.u, ({-0.033833280, -1.179916949, -0.033833280, -1.179916949}));
    VERIFY_ROW(parameters.w, ({-0.639025819, -0.639025819, -0.639025819, -0.639025819}));
    VERIFY_ROW(parameters.b, ({0.123577377, 0.123577377}));
    VERIFY_ROW(parameters.v, ({-1.112178892, -1.112178892, 1.112178892, 1.112178892}));
    VERIFY_ROW(parameters.c, ({0.092951948, -0.053987141}));
    VERIFY_ROW(blocks.l1[0], ({-0.047907018, 0.039735891, -0.047907018, 0.039735891}));
    VERIFY_ROW(blocks.l1[1], ({0.044665277, -0.036494149, 0.044665277, -0.036494149}));
}

void TestAdmm::gradientDescentEndsThere()
{
    Parameters parameters = exampleParameters();
    constexpr double kRate = 0.2;
    for (int step = 0; step < 20000; ++step) {
        const Parameters slope = gradientsOf(parameters, exampleSamples(), 0.05).parameters;
        parameters.u -= kRate * slope.u;
        parameters.w -= kRate * slope.w;
        parameters.b -= kRate * slope.b;
        parameters.v -= kRate * slope.v;
        parameters.c -= kRate * slope.c;
    }
    const Gradients gradients = gradientsOf(parameters, exampleSamples(), 0.05);
    VERIFY_NEAR(gradients.objective, 0.312534692, kPrinted);
    VERIFY_NEAR(gradients.largest(), 0, 1e-9);
    Training training = started(exactSettings());
    for (int iteration = 0; iteration < 4000; ++iteration)
        QVERIFY(iterate(training).ok());
    VERIFY_NEAR(gradientsOf(training.parameters, exampleSamples(), 0.05).objective, gradients.objective, 1e-12);
}

void TestAdmm::fixedPointOfTheLastDual_data()
{
    QTest::addColumn<double>("mu");
    QTest::addColumn<double>("objective");
    QTest::addColumn<double>("gradient");
    QTest::newRow("1") << 1.0 << 0.315333179 << 2.58e-2;
    QTest::newRow("10") << 10.0 << 0.312565375 << 2.48e-3;
}

/// The residuals of the last step vanish, and the gradient does not.
void TestAdmm::fixedPointOfTheLastDual()
{
    QFETCH(double, mu);
    QFETCH(double, objective);
    QFETCH(double, gradient);
    Settings settings = exactSettings();
    settings.duals = Duals::Last;
    settings.mu = mu;
    Training training = started(settings);
    for (int iteration = 0; iteration < 4000; ++iteration)
        QVERIFY(iterate(training).ok());
    const Gradients gradients = gradientsOf(training.parameters, exampleSamples(), 0.05);
    VERIFY_NEAR(gradients.objective, objective, kPrinted);
    VERIFY_NEAR(gradients.largest(), gradient, gradient * 2e-3);
    const Residuals residuals = residualsOf(training);
    VERIFY_NEAR(residuals.input[1] + residuals.hidden[1] + residuals.output, 0, 1e-8);
    QVERIFY(residuals.input[0] > 1e-4 && residuals.hidden[0] > 1e-4);
}

void TestAdmm::splitOrderHasTheSameFixedPoint()
{
    Settings settings = exactSettings();
    settings.order = Order::Split;
    Training training = started(settings);
    for (int iteration = 0; iteration < 4000; ++iteration)
        QVERIFY(iterate(training).ok());
    VERIFY_NEAR(gradientsOf(training.parameters, exampleSamples(), 0.05).objective, 0.312534692, kPrinted);
}

namespace {

Settings asynchronousSettings(int barrier)
{
    Settings settings = exactSettings();
    settings.restart = true;
    settings.tanhSteps = 4;
    settings.parallel = Parallel::Asynchronous;
    settings.barrier = barrier;
    settings.delay = 2;
    return settings;
}

double objectiveOf(const Asynchronous &training)
{
    return gradientsOf(training.parameters(), exampleSamples(), 0.05).objective;
}

} // namespace

void TestAdmm::arrivals()
{
    auto training = Asynchronous::of(asynchronousSettings(1), exampleParameters(), exampleSamples(), 2);
    QVERIFY(training.ok());
    const std::vector<double> wanted{1.168407247, 1.055190378, 0.954404040, 0.765973206, 0.685105991};
    std::size_t versions = 0;
    for (const int worker : {0, 1, 0, 0, 1, 0, 1}) {
        const auto made = training->arrive(worker);
        QVERIFY(made.ok());
        if (!*made)
            continue;
        if (versions < wanted.size())
            VERIFY_NEAR(objectiveOf(*training), wanted[versions], kPrinted);
        ++versions;
        if (versions == 1) {
            VERIFY_ROW(training->parameters().u, ({0.120135651, -0.300937771, -0.128999391, -0.264216195}));
            VERIFY_ROW(training->parameters().v, ({-0.541068955, -0.655247455, 0.491476512, 0.595189819}));
        }
        if (versions == 3) {
            QCOMPARE(training->barrier().ages(), (std::vector{0, 2}));
            QCOMPARE(training->barrier().waitedFor(), std::vector{1});
        }
    }
    QCOMPARE(versions, std::size_t{6});
}

void TestAdmm::arrivalsOfPairs()
{
    auto training = Asynchronous::of(asynchronousSettings(2), exampleParameters(), exampleSamples(), 2);
    QVERIFY(training.ok());
    for (const double wanted : {1.168407247, 0.904115627, 0.615667665}) {
        QVERIFY(!*training->arrive(0));
        QVERIFY(*training->arrive(1));
        VERIFY_NEAR(objectiveOf(*training), wanted, kPrinted);
    }
}

void TestAdmm::staleParametersEndAtTheSamePoint()
{
    auto training = Asynchronous::of(asynchronousSettings(1), exampleParameters(), exampleSamples(), 2);
    QVERIFY(training.ok());
    QVERIFY(training->arrive(0).ok() && training->arrive(1).ok());
    const std::vector<int> again{0, 0, 1};
    for (std::size_t arrival = 0; training->version() < 6000; ++arrival) {
        const auto made = training->arrive(again[arrival % again.size()]);
        QVERIFY(made.ok());
        if (*made && training->version() == 1000)
            VERIFY_NEAR(objectiveOf(*training), 0.312534719, kPrinted);
    }
    const Gradients gradients = gradientsOf(training->parameters(), exampleSamples(), 0.05);
    VERIFY_NEAR(gradients.objective, 0.312534692, kPrinted);
    VERIFY_NEAR(gradients.largest(), 0, kRounding);
}

void TestAdmm::latenessIsBounded()
{
    PartialBarrier barrier(3, 1, 2);
    QVERIFY(barrier.arrive(0).ok());
    QVERIFY(!barrier.mayAdvance()); // 1 and 2 were never heard
    QVERIFY(barrier.arrive(1).ok() && barrier.arrive(2).ok());
    QCOMPARE(barrier.advance(), (std::vector{0, 1, 2}));
    for (int version = 0; version < 2; ++version) {
        QVERIFY(barrier.arrive(0).ok());
        QVERIFY(barrier.mayAdvance());
        QCOMPARE(barrier.advance(), std::vector{0});
    }
    QVERIFY(barrier.arrive(0).ok());
    QVERIFY(!barrier.mayAdvance());
    QCOMPARE(barrier.waitedFor(), (std::vector{1, 2}));
    QVERIFY(!barrier.arrive(0).ok()); // it waits for its answer
    QVERIFY(!barrier.arrive(3).ok());
}

/// Sums of 8 inputs, 32 hidden units and 10 classes, in over 4 ranks once and out twice, in float32.
void TestAdmm::bytesOfAnIteration()
{
    const Samples samples{{Matrix::Ones(8, 2), Matrix::Ones(8, 2)}, {0, 1}};
    const Parameters parameters{Matrix::Zero(32, 8), Matrix::Zero(32, 32), Vector::Zero(32), Matrix::Zero(10, 32),
                                Vector::Zero(10)};
    const Worker worker(samples, parameters);
    const Method method = *Method::of(Settings(), 2);
    const std::int64_t in = sumsIn(worker, method).elements();
    const std::int64_t out = sumsOut(worker, method).elements();
    QCOMPARE(in, 2173);
    QCOMPARE(out, 891);
    QCOMPARE(2 * (4 - 1) * (in + 2 * out) * 4, 94920);
}

void TestAdmm::settingsAreChecked()
{
    const auto refusal = [](auto &&change) {
        Settings settings;
        change(settings);
        const Status good = settings.check();
        return good ? QString() : QString::fromStdString(good.error().text());
    };
    QVERIFY(Settings().check().ok());
    QVERIFY(refusal([](Settings &s) { s.mu = 0; }).contains("mu is 0"));
    QVERIFY(refusal([](Settings &s) { s.gamma = 1.5; }).contains("gamma is 1.5"));
    QVERIFY(refusal([](Settings &s) { s.rho = std::nan(""); }).contains("rho is nan"));
    QVERIFY(refusal([](Settings &s) { s.ridge = -1; }).contains("ridge is -1"));
    QVERIFY(refusal([](Settings &s) { s.newtonSteps = 0; }).contains("newton_steps is 0"));
    QVERIFY(refusal([](Settings &s) { s.delay = 0; }).contains("delay is 0"));
    Settings settings;
    settings.gamma = 0.01;
    QVERIFY(penalties(settings, 20).ok());
    const auto vanished = penalties(settings, 200);
    QVERIFY(!vanished.ok());
    const QString advice = QString::fromStdString(vanished.error().text());
    QVERIFY2(advice.contains("the penalty of step 180 of 200, mu * gamma^20, vanishes"), qPrintable(advice));
    settings.gamma = advice.section("at least ", 1).toDouble();
    QVERIFY(settings.gamma > 0.6 && penalties(settings, 200).ok());
    settings.mu = 1e39;
    QVERIFY(QString::fromStdString(penalties(settings, 2).error().text()).contains("mu is 1e+39"));
    settings = asynchronousSettings(3);
    QVERIFY(!Asynchronous::of(settings, exampleParameters(), exampleSamples(), 2).ok());
    QVERIFY(!Training::of(settings, exampleParameters(), exampleSamples(), 3).ok());
}

/// Two samples of two steps give four columns, and without a ridge the five unknowns of a row are not determined.
void TestAdmm::singularSumsAreRefused()
{
    Settings settings = exactSettings();
    settings.ridge = 0;
    Training training = started(settings);
    const Status done = iterate(training);
    QVERIFY(!done.ok());
    QVERIFY2(QString::fromStdString(done.error().text()).contains("raise ridge"), done.error().text().c_str());
}

QTEST_GUILESS_MAIN(TestAdmm)
#include "tst_admm.moc"
