// SPDX-License-Identifier: GPL-3.0-or-later
// What is out of sight does nothing on an edit, and is right when it comes into sight.
#include "tests/ui/watched_main.h"

#include "ui/cluster/cluster_view.h"
#include "ui/memory/memory_view.h"
#include "ui/placement/placement_view.h"
#include "ui/planview/plan_view.h"
#include "ui/studio_fixture.h"
#include "ui/widgets/when_seen.h"

#include <QDockWidget>
#include <QLabel>
#include <QMainWindow>
#include <QTabWidget>
#include <QTest>

#include <numeric>

using namespace planloom;
using namespace planloom::ui;

namespace {

int runsIn(const QWidget &widget)
{
    const auto all = widget.findChildren<WhenSeen *>();
    return std::accumulate(all.begin(), all.end(), 0, [](int sum, const WhenSeen *each) { return sum + each->runs(); });
}

/// All tables of a view, cell by cell, and its lines of text.
QStringList contentsOf(const QWidget &view)
{
    QStringList all;
    for (const DataTable *table : view.findChildren<DataTable *>())
        for (int row = 0; row < table->model()->rowCount(); ++row)
            for (int column = 0; column < table->model()->columnCount(); ++column)
                all << table->model()->index(row, column).data().toString();
    for (const QLabel *label : view.findChildren<QLabel *>())
        all << label->text();
    for (const QComboBox *box : view.findChildren<QComboBox *>())
        all << box->currentText();
    for (const QSpinBox *box : view.findChildren<QSpinBox *>())
        all << box->text();
    for (const QTabWidget *tabs : view.findChildren<QTabWidget *>())
        for (int tab = 0; tab < tabs->count(); ++tab)
            all << tabs->tabText(tab);
    return all;
}

void showEachTab(QWidget &view)
{
    for (QTabWidget *tabs : view.findChildren<QTabWidget *>())
        for (int tab = tabs->count() - 1; tab >= 0; --tab)
            tabs->setCurrentIndex(tab);
}

/// Views in docks behind each other, the first one in front.
struct Docks {
    StudioState state;
    QMainWindow window;
    QList<View *> views;
    QList<QDockWidget *> docks;
    QString message;
    bool ready = false;

    Docks()
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        ready = testing::loadSample(state);
        views = {new MemoryView(&state), new PlanView(&state), new ClusterView(&state), new PlacementView(&state)};
        for (View *view : views) {
            auto *dock = new QDockWidget(view->title(), &window);
            dock->setWidget(view);
            window.addDockWidget(Qt::TopDockWidgetArea, dock);
            if (!docks.isEmpty())
                window.tabifyDockWidget(docks.front(), dock);
            docks << dock;
        }
        window.resize(1100, 600);
        docks.front()->raise();
        window.show();
        ready = ready && QTest::qWaitForWindowExposed(&window);
        QCoreApplication::processEvents();
    }
    bool limitMemory()
    {
        const auto limit = [](plan::Plan &plan) {
            for (plan::Stage &stage : plan.stages)
                stage.memory.filter = plan::MemoryFilter::Delta;
        };
        return state.editPlan(QStringLiteral("limit the memory"), limit)
            && QTest::qWaitFor([this] { return state.simulationCurrent(); }, 30'000);
    }
};

} // namespace

class TestWhenSeen : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void onTabs()
    {
        QTabWidget tabs;
        auto *front = new QWidget;
        auto *back = new QWidget;
        tabs.addTab(front, QStringLiteral("front"));
        tabs.addTab(back, QStringLiteral("back"));
        QString done;
        auto *first = new WhenSeen(back, [&] { done += QLatin1Char('a'); });
        auto *second = new WhenSeen(back, [&] { done += QLatin1Char('b'); });
        auto *seen = new WhenSeen(front, [&] { done += QLatin1Char('f'); });
        seen->ask(); // before the window is shown
        QVERIFY(done.isEmpty() && seen->stale());
        tabs.resize(300, 200);
        tabs.show();
        QCOMPARE(done, QStringLiteral("f"));
        for (int k = 0; k < 3; ++k)
            for (WhenSeen *each : {second, first, seen})
                each->ask();
        QCOMPARE(done, QStringLiteral("ffff"));
        QVERIFY(first->stale() && second->stale() && !seen->stale());
        tabs.setCurrentWidget(back);
        QCOMPARE(done, QStringLiteral("ffffab")); // once, in the order in which they were made
        tabs.setCurrentWidget(front);
        tabs.setCurrentWidget(back); // nothing has changed
        QCOMPARE(done, QStringLiteral("ffffab"));
        QCOMPARE(first->runs(), 1);
    }

    void withoutRoom()
    {
        QWidget window;
        QWidget inner(&window);
        auto *seen = new WhenSeen(&inner, [] {});
        inner.resize(0, 0);
        window.show();
        seen->ask();
        QVERIFY(seen->stale());
        inner.resize(20, 20);
        QVERIFY(!seen->stale());
        // What opaque children cover is in sight all the same.
        QWidget child(&inner);
        child.setAutoFillBackground(true);
        child.resize(20, 20);
        child.show();
        seen->ask();
        QVERIFY(!seen->stale());
    }

    void forPictures()
    {
        QTabWidget hidden;
        auto *front = new QWidget;
        auto *back = new QWidget;
        hidden.addTab(front, QStringLiteral("front"));
        hidden.addTab(back, QStringLiteral("back"));
        auto *ofFront = new WhenSeen(front, [] {});
        auto *ofBack = new WhenSeen(back, [] {});
        ofFront->ask();
        ofBack->ask();
        WhenSeen::catchUp(&hidden);
        QVERIFY(!ofFront->stale());
        QVERIFY(ofBack->stale()); // not on the picture
    }

    void hiddenViewsDoNothingOnAnEdit()
    {
        Docks docks;
        QVERIFY(docks.ready);
        QList<int> before;
        for (const View *view : docks.views)
            before << runsIn(*view);
        QVERIFY2(docks.limitMemory(), qPrintable(docks.message));
        QVERIFY(runsIn(*docks.views[0]) > before[0]);
        for (qsizetype k = 1; k < docks.views.size(); ++k)
            QVERIFY2(runsIn(*docks.views[k]) == before[k], qPrintable(docks.views[k]->title()));
        // Of the view in sight, what lies on other tabs.
        for (const QWidget *tab : {static_cast<QWidget *>(static_cast<MemoryView *>(docks.views[0])->decisions()),
                                   static_cast<QWidget *>(static_cast<MemoryView *>(docks.views[0])->bands())})
            QCOMPARE(runsIn(*tab), 0);
    }

    void viewsAreRightWhenTheyAreShown()
    {
        Docks docks;
        QVERIFY(docks.ready);
        for (View *view : docks.views)
            showEachTab(*view);
        QVERIFY2(docks.limitMemory(), qPrintable(docks.message));
        for (qsizetype k = 0; k < docks.views.size(); ++k) {
            docks.docks[k]->show();
            docks.docks[k]->raise();
            QCoreApplication::processEvents();
            showEachTab(*docks.views[k]);
        }
        const std::unique_ptr<View> fresh[] = {std::make_unique<MemoryView>(&docks.state),
                                               std::make_unique<PlanView>(&docks.state),
                                               std::make_unique<ClusterView>(&docks.state),
                                               std::make_unique<PlacementView>(&docks.state)};
        for (qsizetype k = 0; k < docks.views.size(); ++k) {
            fresh[k]->resize(docks.views[k]->size());
            fresh[k]->show();
            showEachTab(*fresh[k]);
            // What is simulated in the background ends in both, soon.
            QTRY_COMPARE_WITH_TIMEOUT(contentsOf(*docks.views[k]), contentsOf(*fresh[k]), 60'000);
            QVERIFY(!contentsOf(*fresh[k]).isEmpty());
        }
    }
};

PLANLOOM_UI_MAIN(TestWhenSeen)
#include "tst_when_seen.moc"
