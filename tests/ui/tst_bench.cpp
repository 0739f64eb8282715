// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/bench/bench.h"
#include "ui/bench/bench_files.h"
#include "ui/bench/figures.h"

#include <QEventLoop>
#include <QFileInfo>
#include <QTest>
#include <QTimer>

using namespace planloom;
using namespace planloom::ui;

/// Takes so much processor time for each event of the user's type.
class Burner : public QObject {
public:
    explicit Burner(double milliseconds) : m_milliseconds(milliseconds) {}
    static void burn(double milliseconds)
    {
        const double begin = threadMilliseconds();
        while (threadMilliseconds() - begin < milliseconds) {
        }
    }

protected:
    bool event(QEvent *event) override
    {
        if (event->type() == QEvent::User)
            burn(m_milliseconds);
        return QObject::event(event);
    }

private:
    double m_milliseconds;
};

class TestBench : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void slowEventsAreNamed();
    void aDialogsEventsCountForThemselves();
    void eventsWithinAnEventAreItsOwn();
    void anAllowedEventIsNoFailure();
    void aSlowEventFailsItsTest();
    void newMemoryIsCounted();
    void slowMemoryIsNoSlowEvent();
    void targetsAreNamed();
    void ratiosAreAboveOneWhereTargetsAreMissed();
    void filesHoldWhatIsAskedFor();
};

namespace {

/// Measures by a watch of its own, as the application's fails the test.
std::vector<HandledEvent> slowOnes(EventWatch &watch, double limit, const std::function<void()> &work)
{
    std::vector<HandledEvent> slow;
    watch.onSlow(limit, [&](const HandledEvent &event) { slow.push_back(event); });
    work();
    watch.onSlow(limit, {});
    return slow;
}

} // namespace

void TestBench::slowEventsAreNamed()
{
    EventWatch watch;
    Burner burner(6);
    burner.setObjectName(QStringLiteral("stove"));
    const QEvent event(QEvent::User);
    const auto send = [&](double milliseconds) {
        return slowOnes(watch, 5, [&] {
            watch.measure(&burner, &event, [&] {
                Burner::burn(milliseconds);
                return true;
            });
        });
    };
    const auto slow = send(6);
    QCOMPARE(slow.size(), std::size_t(1));
    QCOMPARE(slow[0].receiver, QStringLiteral("QObject stove")); // Burner has no meta-object of its own
    QCOMPARE(slow[0].type, QStringLiteral("User"));
    QVERIFY(slow[0].milliseconds > 5);
    QVERIFY(slowOnes(watch, 1000, [&] { watch.measure(&burner, &event, [] { return true; }); }).empty());
    QCOMPARE(watch.events(), std::size_t(2));
    QCOMPARE(watch.slowEvents(), std::size_t(1));
}

void TestBench::aDialogsEventsCountForThemselves()
{
    EventWatch watch;
    Burner burner(0);
    const QEvent event(QEvent::User);
    const auto slow = slowOnes(watch, 5, [&] {
        watch.measure(&burner, &event, [&] {
            QEventLoop loop;
            QTimer::singleShot(0, &loop, [&] {
                watch.measure(&loop, &event, [] {
                    Burner::burn(6);
                    return true;
                });
                loop.quit();
            });
            loop.exec();
            return true;
        });
    });
    QCOMPARE(slow.size(), std::size_t(1));
    QCOMPARE(slow[0].receiver, QStringLiteral("QEventLoop"));
}

void TestBench::eventsWithinAnEventAreItsOwn()
{
    EventWatch watch;
    Burner burner(0);
    const QEvent event(QEvent::User);
    const auto slow = slowOnes(watch, 5, [&] {
        watch.measure(&burner, &event, [&] {
            for (int k = 0; k < 3; ++k) // each below the limit
                watch.measure(this, &event, [] {
                    Burner::burn(2);
                    return true;
                });
            return true;
        });
    });
    QCOMPARE(slow.size(), std::size_t(1));
    QCOMPARE(slow[0].receiver, QStringLiteral("QObject"));
    QCOMPARE(watch.events(), std::size_t(1));
}

void TestBench::anAllowedEventIsNoFailure()
{
    const HandledEvent slow{QStringLiteral("QObject stove"), QStringLiteral("User"), 60};
    const HandledEvent other{QStringLiteral("QObject stove"), QStringLiteral("Paint"), 60};
    QVERIFY(testing::allowanceOf("TestBench", "anAllowedEventIsNoFailure", slow));
    QVERIFY(!testing::allowanceOf("TestBench", "anAllowedEventIsNoFailure", other));
    QVERIFY(!testing::allowanceOf("TestBench", "targetsAreNamed", slow));
    for (const testing::SlowEvent &each : testing::kSlowEvents)
        QVERIFY(std::string_view(each.reason).size() > 10);
    Burner burner(EventWatch::kLimit * testing::kMostSlowness + 5);
    burner.setObjectName(QStringLiteral("stove"));
    QEvent event(QEvent::User);
    QCoreApplication::sendEvent(&burner, &event); // a row of the table has it
}

/// By the application's own watch, which every test of the studio has.
void TestBench::aSlowEventFailsItsTest()
{
    if (!testing::kEventsAreJudged)
        QSKIP("processor time is not judged in this build");
    Burner burner(EventWatch::kLimit * testing::kMostSlowness + 5);
    QEvent event(QEvent::User);
    QEXPECT_FAIL("", "that a slow event fails the test that it is in", Abort);
    QCoreApplication::sendEvent(&burner, &event);
}

void TestBench::newMemoryIsCounted()
{
    constexpr std::int64_t kPages = 2048;
    std::vector<HandledEvent> seen;
    EventWatch watch;
    watch.onSlow(0, [&](const HandledEvent &event) { seen.push_back(event); });
    const QEvent event(QEvent::User);
    const auto touch = [] {
        testing::pageMilliseconds(); // 8 MiB
        return true;
    };
    watch.measure(this, &event, [&] {
        touch();
        QEventLoop loop; // its events' pages are their own
        QTimer::singleShot(0, &loop, [&] {
            watch.measure(&loop, &event, touch);
            loop.quit();
        });
        loop.exec();
        return true;
    });
    QCOMPARE(seen.size(), std::size_t(2));
    for (const HandledEvent &each : seen)
        QVERIFY2(each.pages >= kPages && each.pages < kPages * 3 / 2, qPrintable(QString::number(each.pages)));
}

/// Only what pages take more than elsewhere is added: work is judged as before.
void TestBench::slowMemoryIsNoSlowEvent()
{
    HandledEvent event{QStringLiteral("QTimer"), QStringLiteral("Timer"), 0, 10'000};
    QCOMPARE(testing::mostMilliseconds(event, 1, 0.0005), EventWatch::kLimit);
    QCOMPARE(testing::mostMilliseconds(event, 1, 0), EventWatch::kLimit);
    QCOMPARE(testing::mostMilliseconds(event, 1, 0.0155), EventWatch::kLimit + 150);
    QCOMPARE(testing::mostMilliseconds(event, 2, 0.0155), 2 * EventWatch::kLimit + 150);
    event.pages = 0;
    QCOMPARE(testing::mostMilliseconds(event, 1, 0.0155), EventWatch::kLimit);
}

void TestBench::targetsAreNamed()
{
    QCOMPARE(benchTargets(QString())->size(), std::size_t(13));
    QCOMPARE(*benchTargets(QStringLiteral("T9,t3,T3")), (std::vector<int>{3, 9}));
    for (const char *wrong : {"T0", "T14", "3", "Tx", "T3;T4"}) {
        const auto targets = benchTargets(QString::fromLatin1(wrong));
        QVERIFY2(!targets, wrong);
        QVERIFY(QString::fromStdString(targets.error().text()).contains(QStringLiteral("T1 to T13")));
    }
}

void TestBench::ratiosAreAboveOneWhereTargetsAreMissed()
{
    BenchFigure figure = benchFigure(QStringLiteral("T3"), QStringLiteral("frames"));
    QVERIFY(std::isnan(figure.ratio()));
    for (int k = 1; k <= 100; ++k)
        figure.values.push_back(k);
    figure.limit = 50;
    QCOMPARE(figure.ratio(), 2.0);
    figure.compared = BenchFigure::Compared::P95;
    QCOMPARE(figure.value(), 96.0);
    figure.atLeast = true;
    figure.compared = BenchFigure::Compared::Max;
    QCOMPARE(figure.ratio(), 50.0);
    figure.atLeast = false;
    figure.limit = 0;
    figure.values = {0};
    QCOMPARE(figure.ratio(), 0.0);
    figure.values = {1};
    QVERIFY(figure.ratio() > 1);
    const QByteArray json = benchJson(thisMachine(), {figure});
    QVERIFY2(json.contains("\"target\": \"T3\"") && json.contains("\"met\": false"), json.constData());
    const QString table = benchTable(thisMachine(), {figure});
    QVERIFY2(table.contains(QStringLiteral("frames")) && table.contains(QStringLiteral("  no  ")), qPrintable(table));
}

void TestBench::filesHoldWhatIsAskedFor()
{
    const QTemporaryDir folder;
    const QString native = folder.filePath(QStringLiteral("t.pltrace"));
    QVERIFY(writeBenchTrace(native, 12'345));
    const auto trace = trace::readTrace(native.toStdString());
    QVERIFY(trace);
    QCOMPARE(trace->records.size(), std::size_t(12'345));
    const QString events = folder.filePath(QStringLiteral("t.json"));
    QVERIFY(writeBenchEvents(events, 1000));
    StudioState state;
    QVERIFY(state.open(events));
    QVERIFY(QTest::qWaitFor([&] { return !state.loadJob()->running(); }, 30'000));
    QCOMPARE(state.measuredIndex()->lod().size(), std::size_t(1000));
    const auto operators = writeBenchModel(folder.filePath(QStringLiteral("m.json")), 500);
    QVERIFY(operators);
    QVERIFY(*operators >= 500 && *operators < 600);
}

PLANLOOM_UI_MAIN(TestBench)
#include "tst_bench.moc"
