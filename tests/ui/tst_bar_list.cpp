// SPDX-License-Identifier: GPL-3.0-or-later
// Bars to compare, and the row that says how far work in the background is.
#include "tests/ui/watched_main.h"

#include "ui/theme/theme.h"
#include "ui/widgets/bar_list.h"
#include "ui/widgets/job_strip.h"

#include <QSignalSpy>
#include <QTest>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

using namespace planloom;
using namespace planloom::ui;

class TestBarList : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void barsAreAsLongAsTheirFigures()
    {
        BarList list(QStringLiteral("Seconds"));
        list.resize(400, 120);
        list.set({{QStringLiteral("a"), 2, 0, QStringLiteral("two"), false},
                  {QStringLiteral("b"), 4, 1, QStringLiteral("four"), true},
                  {QStringLiteral("c"), 0, 0, QStringLiteral("refused"), false}});
        const QRectF two = list.barRect(0);
        const QRectF four = list.barRect(1);
        QCOMPARE(two.left(), four.left());
        QVERIFY(four.width() > 100 && std::abs(four.width() - 2 * two.width()) < 1e-9);
        QCOMPARE(list.barRect(2).width(), 0.0);
        QVERIFY(four.top() > two.bottom() && list.barRect(2).bottom() <= list.minimumSizeHint().height());
        list.set({{QStringLiteral("share"), 0.25, 0, QStringLiteral("25 %"), false}}, 1);
        const double quarter = list.barRect(0).width();
        list.set({{QStringLiteral("share"), 1, 0, QStringLiteral("25 %"), false}}, 1);
        QVERIFY(std::abs(list.barRect(0).width() - 4 * quarter) < 1e-9);
    }

    /// The hatched part begins where the rest ends; both are told of in words, too.
    void partsAndMarksAreSeen()
    {
        BarList list(QStringLiteral("Seconds"));
        list.resize(400, 80);
        list.set({{QStringLiteral("a"), 4, 0, QStringLiteral("4 s"), false},
                  {QStringLiteral("b"), 4, 2, QStringLiteral("5 s"), true}});
        QCOMPARE(list.accessibleDescription(), QStringLiteral("a: 4 s; ✓ b: 5 s"));
        const QImage picture = list.grab().toImage();
        const auto solid = [&](const QRectF &area) {
            int count = 0;
            for (int x = qRound(area.left()) + 2; x < qRound(area.right()) - 2; ++x)
                count += picture.pixelColor(x, qRound(area.center().y())) == theme().ofSeries(0) ? 1 : 0;
            return count;
        };
        const int whole = solid(list.barRect(0));
        const int half = solid(list.barRect(1));
        QVERIFY2(whole > 100 && half > whole / 2 - 6 && half < whole / 2 + 6,
                 qPrintable(QStringLiteral("%1 %2").arg(whole).arg(half)));
    }

    void workIsStoppedAndBegunAgain()
    {
        std::atomic<bool> release{false};
        std::atomic<int> stops{0};
        QWidget window;
        LatestJob job(QStringLiteral("Counting"));
        auto *strip = new JobStrip(job, &window);
        window.show();
        QSignalSpy again(strip, &JobStrip::again);
        int done = 0;
        const auto begin = [&] {
            job.ask([&](Progress &progress) -> Job::Completion {
                while (!release && !progress.stopped()) {
                    progress.report(0.5, "half");
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                }
                stops += progress.stopped() ? 1 : 0;
                return [&done] { ++done; };
            });
            strip->begin();
        };
        strip->setIdleText(QStringLiteral("Nothing to count"));
        QVERIFY(!strip->button()->isVisibleTo(&window));
        begin();
        QTRY_VERIFY(strip->button()->isVisibleTo(&window) && strip->text()->text().contains(QStringLiteral("half")));
        QTest::mouseClick(strip->button(), Qt::LeftButton);
        QVERIFY(strip->stopped());
        QTRY_VERIFY(!job.running());
        QCOMPARE(stops.load(), 1);
        QCOMPARE(done, 0);
        QCOMPARE(strip->text()->text(), QStringLiteral("Stopped"));
        QTest::mouseClick(strip->button(), Qt::LeftButton);
        QCOMPARE(again.size(), 1);
        release = true;
        begin();
        QTRY_COMPARE(done, 1);
        QTRY_VERIFY(!strip->button()->isVisibleTo(&window)
                    && strip->text()->text() == QStringLiteral("Nothing to count"));
        QVERIFY(!strip->stopped());
    }
};

PLANLOOM_UI_MAIN(TestBarList)
#include "tst_bar_list.moc"
