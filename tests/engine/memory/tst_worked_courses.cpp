// SPDX-License-Identifier: Apache-2.0
// DELTA's worked tables: chains under every filter and director, to the second, the byte and the line of the log.
#include "tests/engine/memory/chains.h"

#include <QTest>

#include <cmath>
#include <limits>

using namespace planloom;
using namespace planloom::testing;
using memory::Course;
using memory::Decision;
using memory::Limits;
using memory::Stream;
using plan::MemoryDirector;
using plan::MemoryFilter;

namespace {

/// The filters of the worked tables.
constexpr MemoryFilter kTableFilters[] = {MemoryFilter::Delta, MemoryFilter::Local, MemoryFilter::Dtr,
                                          MemoryFilter::LeastRecentUsed, MemoryFilter::Size};

/// "152/6/2": seconds, recomputes, swaps.
QString cell(const Course &course)
{
    return QString("%1/%2/%3").arg(course.seconds).arg(course.recomputes).arg(course.swaps);
}

} // namespace

class TestWorkedCourses : public QObject {
    Q_OBJECT

private slots:
    void tables_data();
    void tables();
    void logs();
    void breakEven();
    void peaks();
    void theRuleIsTheBetterOfBoth();
};

void TestWorkedCourses::tables_data()
{
    QTest::addColumn<QString>("chain");
    QTest::addColumn<int>("filter");
    QTest::addColumn<double>("bandwidth");
    QTest::addColumn<QStringList>("cells"); // recompute only, swap only, rule; empty: not given
    const auto row = [](const char *chain, MemoryFilter filter, double bandwidth, const QStringList &cells) {
        QTest::addRow("%s %s at %g", chain, plan::name(filter), bandwidth)
            << chain << static_cast<int>(filter) << bandwidth << cells;
    };
    using enum MemoryFilter;
    for (const MemoryFilter filter : {Delta, Local, LeastRecentUsed, Size})
        row("U16", filter, 2, {"63/15/0", "58/0/10", "58/0/10"});
    row("U16", Dtr, 2, {"60/12/0", "58/0/10", "58/0/10"});
    row("A16", Delta, 2, {"174/6/0", "168/0/6", "168/0/6"});
    row("A16", Local, 2, {"184/12/0", "168/0/9", "168/0/9"});
    row("A16", Dtr, 2, {"174/6/0", "168/0/9", "168/0/9"});
    row("A16", LeastRecentUsed, 2, {"184/12/0", "168/0/9", "168/0/9"});
    row("A16", Size, 2, {"174/6/0", "168/0/6", "168/0/6"});
    row("B16", Delta, 2, {"160/8/0", "170/0/8", "152/6/2"});
    row("B16", Local, 2, {"150/6/0", "168/0/6", "150/6/0"});
    row("B16", Dtr, 2, {"150/6/0", "168/0/6", "150/6/0"});
    row("B16", LeastRecentUsed, 2, {"176/12/0", "168/0/9", "153/5/4"});
    row("B16", Size, 2, {"150/6/0", "168/0/6", "150/6/0"});
    row("B16", Delta, 8, {"160/8/0", "150.5/0/8", "150.5/0/8"});
    for (const MemoryFilter filter : {Local, Dtr, LeastRecentUsed, Size})
        row("B16", filter, 8, {"", "", "150"});
    row("B16", Delta, 0.5, {"160/8/0", "248/0/8", "154/6/1"});
    row("B16", LeastRecentUsed, 0.5, {"176", "240", "165"});
    row("B32", Delta, 2, {"334/22/0", "346/0/19", "306/13/5"});
    for (const MemoryFilter filter : {Local, Dtr, Size})
        row("B32", filter, 2, {"302/14/0", "344/0/14", "302/14/0"});
    row("B32", LeastRecentUsed, 2, {"417/45/0", "347/0/23", "311/12/11"});
}

void TestWorkedCourses::tables()
{
    QFETCH(QString, chain);
    QFETCH(int, filter);
    QFETCH(double, bandwidth);
    QFETCH(QStringList, cells);
    const Stream stream = chainOf(elementsOf(chain));
    const MemoryDirector directors[] = {MemoryDirector::Recompute, MemoryDirector::Swap, MemoryDirector::Rule};
    for (int d = 0; d < 3; ++d) {
        if (cells[d].isEmpty())
            continue;
        const auto course =
            memory::walk(stream,
                         limitsFor(static_cast<MemoryFilter>(filter), directors[d], budgetOf(chain), bandwidth));
        QVERIFY(course);
        const QString found = cell(*course);
        QCOMPARE(cells[d].contains('/') ? found : found.section('/', 0, 0), cells[d]);
    }
}

void TestWorkedCourses::logs()
{
    const auto log = [](const char *chain) {
        const auto course =
            memory::walk(chainOf(elementsOf(chain)), limitsFor(MemoryFilter::Delta, MemoryDirector::Rule, 16, 2));
        return course ? logOf(*course) : QString();
    };
    QCOMPARE(log("B16"), QString("1R 3R 5R 7R 2S 9R 4S 11R"));
    QCOMPARE(log("A16"), QString("1S 3S 5S 7S 9S 11S"));
}

/// 35 % of a link of 32 GiB/s; units are seconds and bytes throughout.
void TestWorkedCourses::breakEven()
{
    const double bandwidth = 0.35 * 32 * std::pow(2, 30);
    const struct {
        std::int64_t mebibytes;
        double oneWay, roundTrip; // microseconds
    } rows[] = {{1, 87.19, 174.39}, {10, 871.93, 1743.86}, {100, 8719.31, 17438.62}};
    for (const auto &row : rows) {
        const std::int64_t bytes = row.mebibytes << 20;
        const auto actionFor = [&](double seconds) {
            const Stream stream = chainOf({{seconds, bytes}, {seconds, bytes}, {seconds, bytes}});
            const auto course =
                memory::walk(stream, limitsFor(MemoryFilter::Delta, MemoryDirector::Rule, 2 * bytes, bandwidth));
            return course ? course->decisions.at(0).action : Decision::Action::Recompute;
        };
        QCOMPARE(actionFor((row.roundTrip - 0.02) * 1e-6), Decision::Action::Recompute);
        QCOMPARE(actionFor((row.roundTrip + 0.02) * 1e-6), Decision::Action::Swap);
        const Stream stream = chainOf({{1, bytes}, {1, bytes}, {1, bytes}});
        const auto course =
            memory::walk(stream, limitsFor(MemoryFilter::Delta, MemoryDirector::Swap, 2 * bytes, bandwidth));
        QVERIFY(course);
        QVERIFY(std::abs((course->seconds - 9) * 1e6 / 2 - row.oneWay) < 0.01);
    }
}

/// The budget and one output, but where least recently used ones leave, of which some are small.
void TestWorkedCourses::peaks()
{
    const auto peak = [](const char *chain, MemoryFilter filter, MemoryDirector director) {
        const Limits limits = limitsFor(filter, director, budgetOf(chain), 2);
        const auto course = memory::walk(chainOf(elementsOf(chain)), limits);
        return course ? course->peakBytes : -1;
    };
    using enum MemoryDirector;
    for (const MemoryFilter filter : kTableFilters)
        for (const MemoryDirector director : {Recompute, Swap, Rule}) {
            QCOMPARE(peak("U16", filter, director), 7);
            QCOMPARE(peak("A16", filter, director), 20);
            QCOMPARE(peak("B16", filter, director), 20);
            if (filter != MemoryFilter::LeastRecentUsed)
                QCOMPARE(peak("B32", filter, director), 28);
        }
    QCOMPARE(peak("B32", MemoryFilter::LeastRecentUsed, Recompute), 26);
    QCOMPARE(peak("B32", MemoryFilter::LeastRecentUsed, Swap), 25);
    QCOMPARE(peak("B32", MemoryFilter::LeastRecentUsed, Rule), 25);
    for (const auto &[name, seconds, bytes] :
         {std::tuple{"U16", 48.0, 16}, {"A16", 144.0, 40}, {"B16", 144.0, 40}, {"B32", 288.0, 80}}) {
        const Stream stream = chainOf(elementsOf(name));
        QCOMPARE(stream.peakBytes(), bytes);
        QCOMPARE(stream.seconds(), seconds);
        const auto course = memory::walk(stream, limitsFor(MemoryFilter::Delta, Rule, bytes, 2)); // as much as needed
        QVERIFY(course);
        QCOMPARE(cell(*course), QString("%1/0/0").arg(seconds));
    }
}

/// In the worked tables the rule is never slower than the better of swapping and recomputing alone, filter by filter.
void TestWorkedCourses::theRuleIsTheBetterOfBoth()
{
    const struct {
        const char *chain;
        double bandwidth;
    } cases[] = {{"U16", 2}, {"A16", 2}, {"B16", 2}, {"B16", 8}, {"B16", 0.5}, {"B32", 2}};
    int faster = 0;
    for (const auto &each : cases)
        for (const MemoryFilter filter : kTableFilters) {
            const Stream stream = chainOf(elementsOf(each.chain));
            const auto seconds = [&](MemoryDirector director) {
                const Limits limits = limitsFor(filter, director, budgetOf(each.chain), each.bandwidth);
                const auto course = memory::walk(stream, limits);
                return course ? course->seconds : std::numeric_limits<double>::quiet_NaN();
            };
            const double alone = std::min(seconds(MemoryDirector::Recompute), seconds(MemoryDirector::Swap));
            const double rule = seconds(MemoryDirector::Rule);
            QVERIFY2(rule <= alone, qPrintable(QString("%1 %2").arg(each.chain, plan::name(filter))));
            faster += rule < alone ? 1 : 0;
        }
    QVERIFY(faster > 0);
}

QTEST_GUILESS_MAIN(TestWorkedCourses)
#include "tst_worked_courses.moc"
