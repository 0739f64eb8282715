// SPDX-License-Identifier: GPL-3.0-or-later
// The knobs of the exchange between replicas: what they show and hide, that each turn is one undoable edit which is
// simulated, what is refused. And the figures beside them: tables, delays and methods.
#include "tests/ui/watched_main.h"

#include "ui/planview/exchange_tab.h"

#include "planners/common/averaging_delay.h"

#include <QLineSeries>
#include <QScatterSeries>
#include <QTest>

#include <cmath>

using namespace planloom;
using namespace planloom::ui;

namespace {

/// A language model on four devices, by default each on a machine of its own, and its knobs.
struct Bench {
    StudioState state;
    std::unique_ptr<ExchangeTab> tab;
    QString message;
    bool ready = false;

    explicit Bench(const QString &cluster = QStringLiteral("preset:dapple-c"))
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        tab = std::make_unique<ExchangeTab>(&state);
        tab->resize(420, 460);
        tab->show();
        state.loadModel(QStringLiteral("zoo:lstm-lm"));
        state.loadCluster(cluster);
        bool loaded = false;
        state.whenLoaded([&loaded] { loaded = true; });
        ready = QTest::qWaitFor([&] { return loaded && state.subject(); }, 30'000)
            && state.replacePlan(QStringLiteral("sample"), sample()) && simulated();
        state.undoStack()->clear();
    }
    [[nodiscard]] plan::Plan sample() const
    {
        plan::Plan plan;
        plan.modelName = state.subject()->graph->name();
        plan.modelSource = state.subject()->modelSource;
        plan.clusterName = state.subject()->cluster->name();
        plan.planner.name = "manual";
        plan.globalBatch = 32;
        plan.stages.resize(1);
        plan.stages[0].name = "all";
        plan.stages[0].lastLayer = state.subject()->layers().size();
        for (int d = 0; d < 4; ++d)
            plan.stages[0].devices.push_back(DeviceId(d));
        return plan;
    }
    bool simulated()
    {
        return QTest::qWaitFor([this] { return state.simulationCurrent(); }, 30'000);
    }
    /// Of a step, once the newest plan is simulated.
    double seconds() { return simulated() ? state.simulation()->report.iterationSeconds : -1; }
    [[nodiscard]] const plan::Exchange &exchange() const { return state.document()->plan.exchange; }
    template <class Knob>
    [[nodiscard]] Knob *knob(const char *name) const
    {
        return tab->findChild<Knob *>(QLatin1String(name));
    }
    void choose(const char *name, const QString &text) const
    {
        auto *box = knob<QComboBox>(name);
        box->setCurrentIndex(box->findText(text));
    }
};

} // namespace

class TestExchangeTab : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void knobsAreThoseOfTheKind()
    {
        Bench bench;
        QVERIFY(bench.ready);
        const auto shown = [&](const char *name) { return bench.knob<QWidget>(name)->isVisible(); };
        QVERIFY(shown("exchange-across-steps") && !shown("exchange-delay") && !shown("exchange-scheduling"));
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        QVERIFY(!shown("exchange-across-steps") && shown("exchange-delay") && !shown("exchange-scheduling"));
        bench.choose("exchange-kind", QStringLiteral("embrace"));
        QVERIFY(shown("exchange-scheduling") && !shown("exchange-delay"));
        QCOMPARE(bench.exchange().sparse.tables.size(), std::size_t{1});
        bench.choose("exchange-dense", QStringLiteral("dasgd"));
        QVERIFY(shown("exchange-scheduling") && shown("exchange-delay"));
        QCOMPARE(bench.state.undoStack()->count(), 3);
        while (bench.state.undoStack()->canUndo())
            bench.state.undoStack()->undo();
        QCOMPARE(bench.exchange().policy, plan::ExchangePolicy::AllReduce);
        QVERIFY(shown("exchange-across-steps") && !shown("exchange-scheduling"));
    }

    void roundsAndDelaysAreSimulated()
    {
        Bench bench;
        QVERIFY(bench.ready);
        const double synchronous = bench.seconds();
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        bench.knob<QSpinBox>("exchange-delay")->setValue(0);
        const double local = bench.seconds();
        bench.knob<QSpinBox>("exchange-delay")->setValue(3);
        const double delayed = bench.seconds();
        QVERIFY(delayed < local && local < synchronous);
        bench.knob<QSpinBox>("exchange-local-steps")->setValue(2); // a delay is no longer than its round
        QCOMPARE(bench.exchange().averaging.localSteps, 2);
        QCOMPARE(bench.exchange().averaging.delay, 2);
        QCOMPARE(bench.knob<QSpinBox>("exchange-delay")->value(), 2);
        bench.choose("exchange-merge", QStringLiteral("convex"));
        bench.knob<QDoubleSpinBox>("exchange-local-weight")->setValue(0.5);
        QCOMPARE(bench.exchange().averaging.merge, plan::Merge::Convex);
        QCOMPARE(bench.exchange().averaging.localWeight, 0.5);
    }

    /// Not the typing, once it is taken over.
    void undoKeysUndoTheEdit()
    {
        Bench bench;
        QVERIFY(bench.ready);
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        for (const char *name : {"exchange-local-steps", "exchange-delay", "exchange-local-weight"}) {
            auto *field = bench.knob<QAbstractSpinBox>(name);
            field->setFocus();
            QKeyEvent asked(QEvent::ShortcutOverride, Qt::Key_Z, Qt::ControlModifier);
            asked.ignore();
            QCoreApplication::sendEvent(field, &asked);
            QVERIFY2(!asked.isAccepted(), name);
        }
    }

    /// Gradients are summed up inside the machines then, which takes time in every step.
    void machinesAreReplicas()
    {
        Bench bench(QStringLiteral("preset:pipedream-4x4"));
        QVERIFY(bench.ready);
        QVERIFY(bench.state.editPlan(QStringLiteral("two machines"), [](plan::Plan &plan) {
            plan.globalBatch = 64;
            for (int d = 4; d < 8; ++d)
                plan.stages[0].devices.push_back(DeviceId(d));
        }));
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        const double alone = bench.seconds();
        bench.choose("exchange-inside", QStringLiteral("machine"));
        QCOMPARE(bench.exchange().averaging.inside, plan::Inside::Machine);
        QVERIFY(bench.seconds() > alone);
        bench.state.undoStack()->undo();
        QCOMPARE(bench.knob<QComboBox>("exchange-inside")->currentText(), QStringLiteral("replica"));
        QCOMPARE(bench.seconds(), alone);
    }

    void tablesAndTheNetwork()
    {
        Bench bench;
        QVERIFY(bench.ready);
        const double dense = bench.seconds();
        bench.choose("exchange-kind", QStringLiteral("embrace"));
        const double byRows = bench.seconds();
        QVERIFY(byRows < dense);
        const std::string table = bench.exchange().sparse.tables.front().parameter;
        const std::string name = "exchange-table-" + table;
        bench.choose(name.c_str(), QStringLiteral("all-reduce"));
        QVERIFY(QTest::qWaitFor(
            [&] { return bench.exchange().sparse.tables.front().strategy == plan::TableStrategy::AllReduce; }, 5000));
        QVERIFY(bench.seconds() > byRows);
        bench.choose("exchange-scheduling", QStringLiteral("horizontal"));
        QCOMPARE(bench.exchange().sparse.scheduling, plan::ExchangeScheduling::Horizontal);
        const double before = bench.seconds();
        auto *network = bench.knob<QComboBox>("exchange-network");
        const QString rate = network->currentText();
        QVERIFY2(rate.endsWith("GB/s"), qPrintable(rate));
        Q_EMIT network->activated(1); // a tenth
        QVERIFY2(bench.seconds() > 2 * before, qPrintable(bench.message));
        QVERIFY(
            std::abs(network->currentText().section(' ', 0, 0).toDouble() * 10 / rate.section(' ', 0, 0).toDouble() - 1)
            < 0.01);
        bench.state.undoStack()->undo();
        QCOMPARE(bench.seconds(), before);
        QCOMPARE(network->currentText(), rate);
    }

    /// A row for the table with what a step takes by each strategy; a double click takes it.
    void theTableOfTables()
    {
        Bench bench;
        QVERIFY(bench.ready);
        TablePanel &panel = *bench.tab->tables();
        QVERIFY(!panel.isVisible() && !panel.computes());
        bench.choose("exchange-kind", QStringLiteral("embrace"));
        QVERIFY(panel.isVisible());
        const auto computed = [&] { return QTest::qWaitFor([&] { return !panel.computes(); }, 30'000); };
        QVERIFY(computed());
        const TableModel &model = *panel.table()->tableModel();
        QCOMPARE(model.rowCount(), 1);
        const auto column = [&](const QString &name) {
            const QStringList headers = model.headers();
            const auto of = std::ranges::find_if(headers, [&](const QString &header) { return header.contains(name); });
            return static_cast<std::size_t>(of - headers.begin());
        };
        const auto cell = [&](const QString &name) { return model.row(0)[column(name)]; };
        QCOMPARE(cell(QStringLiteral("Table")).text.toStdString(), bench.exchange().sparse.tables[0].parameter);
        const planners::TableFigures &figures = panel.figures().front();
        QCOMPARE(*cell(QStringLiteral("Size")).number, static_cast<double>(figures.rows * figures.columns * 4));
        QVERIFY(*cell(QStringLiteral("α")).number > 0 && *cell(QStringLiteral("α")).number < 1);
        QVERIFY(*cell(QStringLiteral("Prior")).number > 0);
        QCOMPARE(*cell(QStringLiteral("all-to-all")).number, bench.seconds()); // as planned
        QVERIFY(cell(QStringLiteral("all-to-all")).text.startsWith(QStringLiteral("✓")));
        QVERIFY(!cell(QStringLiteral("all-reduce")).text.contains(QStringLiteral("✓")));
        QVERIFY(*cell(QStringLiteral("all-reduce")).number > *cell(QStringLiteral("all-to-all")).number);
        // Where all-gather sends as much as all-reduce, by replicas and by the batch.
        const double crossing = panel.crossing()->points().front().x();
        QCOMPARE(crossing, 2 / figures.density());
        QVERIFY(panel.crossing()->isVisible() && panel.chart()->x()->max() > crossing);
        const auto heightAt = [](const QLineSeries *line, double x) {
            const QList<QPointF> points = line->points();
            qsizetype i = 1;
            while (i + 1 < points.size() && points[i].x() < x)
                ++i;
            const QPointF a = points[i - 1], b = points[i];
            return a.y() + (b.y() - a.y()) * (x - a.x()) / (b.x() - a.x());
        };
        QVERIFY(std::abs(heightAt(panel.lines()[1], crossing) / heightAt(panel.lines()[0], crossing) - 1) < 0.02);
        QVERIFY(panel.batchChart()->isVisible());
        const double batch = panel.batchCrossing()->points().front().x();
        QCOMPARE(batch, figures.batchWith(0.5).value()); // 2 / N of four replicas
        QCOMPARE(panel.batchCrossing()->isVisible(), batch <= 100 * 32);
        QCOMPARE(panel.batchLines()[0]->points().front().y(), panel.batchLines()[0]->points().back().y());
        if (panel.batchCrossing()->isVisible())
            QVERIFY(std::abs(heightAt(panel.batchLines()[1], batch) / heightAt(panel.batchLines()[0], batch) - 1)
                    < 0.02);
        QVERIFY2(panel.caption()->text().contains(QStringLiteral("%1 replicas (2/α)").arg(crossing, 0, 'f', 0)),
                 qPrintable(panel.caption()->text()));
        // The other orders of communication, and what is sent.
        QCOMPARE(panel.schedulings()->bars().size(), std::size_t{3});
        QVERIFY(panel.schedulings()->bars()[2].marked && panel.schedulings()->bars()[0].value > 0);
        QVERIFY(panel.chart()->isVisible());
        const QPointF end = panel.lines()[2]->points().back();
        QVERIFY(end.x() >= 16 && panel.lines()[0]->points().back().y() > end.y());

        const QModelIndex summed =
            panel.table()->model()->index(0, static_cast<int>(column(QStringLiteral("all-reduce"))));
        Q_EMIT panel.table()->activated(summed);
        QCOMPARE(bench.exchange().sparse.tables[0].strategy, plan::TableStrategy::AllReduce);
        // Figures of the plan before are pale and take nothing; what the plan has already is no edit.
        QVERIFY(!panel.current());
        const int edits = bench.state.undoStack()->count();
        Q_EMIT panel.table()->activated(
            panel.table()->model()->index(0, static_cast<int>(column(QStringLiteral("all-gather")))));
        Q_EMIT panel.wayPicked(bench.exchange().sparse.tables[0]);
        QCOMPARE(bench.state.undoStack()->count(), edits);
        QVERIFY(computed() && panel.current());
        QVERIFY(cell(QStringLiteral("all-reduce")).text.startsWith(QStringLiteral("✓")));
        QCOMPARE(*cell(QStringLiteral("all-reduce")).number, bench.seconds());
        bench.state.undoStack()->undo();
        QVERIFY(computed());
        QVERIFY(cell(QStringLiteral("all-to-all")).text.startsWith(QStringLiteral("✓")));
        bench.choose("exchange-kind", QStringLiteral("all-reduce"));
        QVERIFY(!panel.isVisible());
    }

    /// The curve is that of plans with each delay; the least that hides all is taken with one click.
    void stepsByDelay()
    {
        Bench bench;
        QVERIFY(bench.ready);
        AveragingPanel &panel = *bench.tab->averages();
        QVERIFY(!panel.isVisible());
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        bench.knob<QSpinBox>("exchange-local-steps")->setValue(3);
        bench.knob<QSpinBox>("exchange-delay")->setValue(0);
        const auto computed = [&] { return QTest::qWaitFor([&] { return !panel.computes(); }, 30'000); };
        QVERIFY(panel.isVisible() && computed());
        const auto scaled = [&](double seconds, double shown) { return shown / seconds; };
        const double unit = scaled(bench.seconds(), panel.now()->points().front().y());
        QCOMPARE(panel.now()->points().front().x(), 0.0);
        const QList<QPointF> points = panel.curve()->points();
        QCOMPARE(points.size(), 7); // 0 to twice the rounds
        QCOMPARE(points.front().y(), panel.now()->points().front().y());
        QCOMPARE(panel.hidden()->bars().front().value, 0.0);
        QVERIFY(panel.methods()->bars().size() == 4
                && !panel.methods()->bars()[1].marked); // replicas keep a part of their own
        auto *weight = bench.knob<QDoubleSpinBox>("exchange-local-weight");
        const double kept = weight->value();
        weight->setValue(0);
        QVERIFY(computed() && panel.methods()->bars()[1].marked); // local SGD
        weight->setValue(kept);
        QVERIFY(computed());
        QVERIFY(panel.methods()->bars()[0].value > panel.methods()->bars()[1].value);
        for (const int delay : {1, 3}) {
            bench.knob<QSpinBox>("exchange-delay")->setValue(delay);
            QVERIFY(std::abs(bench.seconds() * unit / points[delay].y() - 1) < 1e-9);
        }
        bench.knob<QSpinBox>("exchange-delay")->setValue(0);
        QVERIFY(computed() && panel.takeButton()->isVisible());
        const double knee = panel.knee()->points().front().x();
        QVERIFY(knee >= 1);
        QTest::mouseClick(panel.takeButton(), Qt::LeftButton);
        QCOMPARE(static_cast<double>(bench.exchange().averaging.delay), knee);
        const int edits = bench.state.undoStack()->count();
        QVERIFY(!panel.current() && !panel.takeButton()->isEnabled());
        QTest::mouseClick(panel.takeButton(), Qt::LeftButton);
        Q_EMIT panel.delayPicked(bench.exchange().averaging.delay);
        QCOMPARE(bench.state.undoStack()->count(), edits);
        QVERIFY(bench.exchange().averaging.localSteps >= bench.exchange().averaging.delay);
        QVERIFY(computed());
        // Steps of longer rounds are shorter, as these have fewer snapshots and merges: it may be a step more then.
        if (panel.takeButton()->isVisible()) {
            QTest::mouseClick(panel.takeButton(), Qt::LeftButton);
            QVERIFY(computed());
            QCOMPARE(static_cast<double>(bench.exchange().averaging.delay), knee + 1);
        }
        QVERIFY2(!panel.takeButton()->isVisible(), qPrintable(panel.textLabel()->text()));
        QVERIFY(panel.hidden()->bars().front().value > 0.9);
    }

    /// Of convex merges not the delay that hides most, which here would keep nothing, but that of delay=auto.
    void delaysOfConvexMerges()
    {
        Bench bench;
        QVERIFY(bench.ready);
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        bench.choose("exchange-merge", QStringLiteral("convex"));
        bench.knob<QDoubleSpinBox>("exchange-local-weight")->setValue(0);
        bench.knob<QSpinBox>("exchange-local-steps")->setValue(4);
        bench.knob<QSpinBox>("exchange-delay")->setValue(4);
        AveragingPanel &panel = *bench.tab->averages();
        const auto computed = [&] { return QTest::qWaitFor([&] { return !panel.computes(); }, 30'000); };
        QVERIFY(computed() && panel.current());
        QVERIFY2(panel.textLabel()->text().contains(QStringLiteral("keep nothing")),
                 qPrintable(panel.textLabel()->text()));
        const auto isShown = [&] { // the plan's own bar is as long as a step of progress
            const auto own = std::ranges::find_if(panel.methods()->bars(), &Bar::marked);
            const double kept = bench.exchange().averaging.effectiveShare();
            const double wanted = kept > 0 ? bench.seconds() / kept : 0;
            return own != panel.methods()->bars().end() && std::abs(own->value - wanted) <= 1e-9 * wanted;
        };
        QVERIFY(isShown());
        const plan::Document &document = *bench.state.document();
        const auto times = planners::averagingTimes(document.plan, document.subject);
        QVERIFY(times.ok());
        const auto best = planners::withBestDelay(bench.exchange().averaging, times->step, times->exchange);
        QVERIFY(best.delay < 4 && panel.takeButton()->isVisible());
        QCOMPARE(panel.takeButton()->text(), QStringLiteral("Take d = %1").arg(best.delay));
        QTest::mouseClick(panel.takeButton(), Qt::LeftButton);
        QVERIFY(bench.exchange().averaging == best);
        QVERIFY(computed() && !panel.takeButton()->isVisible());
        QVERIFY(isShown());
    }

    /// A cell for each pair of rounds and delay; keys walk over them, Enter takes one.
    void roundsAgainstDelays()
    {
        Bench bench;
        QVERIFY(bench.ready);
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        bench.choose("exchange-merge", QStringLiteral("convex"));
        AveragingPanel &panel = *bench.tab->averages();
        RoundMap &map = *panel.rounds();
        const auto computed = [&] { return QTest::qWaitFor([&] { return !panel.computes(); }, 60'000); };
        QVERIFY(computed());
        const planners::AveragingCell *own = map.chosen();
        QVERIFY(own && own->localSteps == 4 && own->delay == 2);
        QCOMPARE(own->seconds, bench.seconds());
        QVERIFY(map.textOf(*own).startsWith(QStringLiteral("✓ ")));
        QVERIFY(map.textOf(*map.map().best()).contains(QStringLiteral("★")));
        QVERIFY2(map.describe(*own).contains(QStringLiteral("keep 63 % of the progress")), // 62.5
                 qPrintable(map.describe(*own)));
        QCOMPARE(map.accessibleDescription(), map.describe(*own));
        // What keeps little is darker than the best, in the picture too.
        const planners::AveragingCell *worst = map.map().at(2, 2);
        QVERIFY(worst && worst->effectiveSeconds() > map.map().best()->effectiveSeconds());
        QVERIFY(map.colorOf(*worst).lightness() < map.colorOf(*map.map().best()).lightness());
        const QImage picture = map.grab().toImage();
        const QPoint corner = map.cellRect(*worst).topLeft().toPoint() + QPoint(5, 4);
        QCOMPARE(picture.pixelColor(corner).rgb(), map.colorOf(*worst).rgb());

        map.setFocus();
        QTest::keyClick(&map, Qt::Key_Down);
        QVERIFY(map.chosen() == map.map().at(8, 2));
        QTest::keyClick(&map, Qt::Key_Left);
        QTest::keyClick(&map, Qt::Key_Up);
        QTest::keyClick(&map, Qt::Key_Up);
        QTest::keyClick(&map, Qt::Key_Up);
        QVERIFY(map.chosen() == map.map().at(1, 1));
        QTest::keyClick(&map, Qt::Key_Right); // no delay is longer than its round
        QVERIFY(map.chosen() == map.map().at(1, 1));
        QTest::mouseClick(&map, Qt::LeftButton, {}, map.cellRect(*map.map().at(8, 2)).center().toPoint());
        const double seconds = map.chosen()->seconds;
        const int edits = bench.state.undoStack()->count();
        QTest::keyClick(&map, Qt::Key_Return);
        QCOMPARE(bench.state.undoStack()->count(), edits + 1);
        QVERIFY(bench.exchange().averaging.localSteps == 8 && bench.exchange().averaging.delay == 2);
        QCOMPARE(bench.seconds(), seconds);
        QTest::keyClick(&map, Qt::Key_Down); // what is pale takes nothing
        QTest::keyClick(&map, Qt::Key_Return);
        QCOMPARE(bench.state.undoStack()->count(), edits + 1);
        QVERIFY(computed());
        QVERIFY(map.chosen() == map.map().at(8, 2));
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE_ROUNDS"); !file.isEmpty()) {
            bench.tab->resize(1100, 900);
            QTest::qWait(200);
            QVERIFY(bench.tab->grab().save(QString::fromUtf8(file)));
        }
    }

    /// They follow each turn of a knob.
    void warningsStandBesideTheKnobs()
    {
        Bench bench;
        QVERIFY(bench.ready);
        QLabel &warnings = *bench.tab->warnings();
        QVERIFY(!warnings.isVisible());
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        QVERIFY2(warnings.isVisible() && warnings.text().contains(QStringLiteral("⚠ with adamw")),
                 qPrintable(warnings.text()));
        QVERIFY(!warnings.text().contains(QStringLiteral("odd delay")));
        bench.knob<QSpinBox>("exchange-delay")->setValue(3);
        QVERIFY(warnings.text().contains(QStringLiteral("odd delay")));
        bench.choose("exchange-merge", QStringLiteral("convex"));
        QVERIFY(!warnings.text().contains(QStringLiteral("odd delay")));
        QVERIFY(warnings.text().contains(QStringLiteral("keeps 44 % of the steps' progress")));
        bench.choose("exchange-kind", QStringLiteral("all-reduce"));
        QVERIFY(!warnings.isVisible());
    }

    /// A network that is slower makes averages longer: the figures follow.
    void figuresFollowTheNetwork()
    {
        Bench bench;
        QVERIFY(bench.ready);
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        AveragingPanel &panel = *bench.tab->averages();
        const auto computed = [&] { return QTest::qWaitFor([&] { return !panel.computes(); }, 30'000); };
        QVERIFY(computed());
        const double knee = panel.knee()->points().front().x();
        Q_EMIT bench.knob<QComboBox>("exchange-network")->activated(1); // a tenth
        QVERIFY(bench.simulated() && computed());
        QVERIFY(panel.knee()->points().front().x() > knee);
    }

    /// Whatever the width, every part is seen by scrolling down alone.
    void partsHaveRoom()
    {
        Bench bench;
        QVERIFY(bench.ready);
        bench.choose("exchange-kind", QStringLiteral("embrace"));
        bench.choose("exchange-dense", QStringLiteral("dasgd"));
        for (const int width : {420, 760, 1100}) {
            bench.tab->resize(width, 460);
            QCoreApplication::processEvents();
            QVERIFY2(bench.tab->widget()->width() <= bench.tab->viewport()->width(),
                     qPrintable(QString::number(width)));
            const QRect tables = bench.tab->tables()->geometry();
            QVERIFY(!tables.intersects(bench.tab->averages()->geometry()));
            const QWidget &knobs = *bench.knob<QComboBox>("exchange-kind")->parentWidget();
            QVERIFY(!tables.intersects(knobs.geometry()));
            QCOMPARE(tables.top() > knobs.geometry().bottom(), width < 640);
        }
    }

    void whatIsRefusedShowsTheOldFigure()
    {
        Bench bench;
        QVERIFY(bench.ready);
        QVERIFY(bench.state.editPlan(QStringLiteral("ZeRO"), [](plan::Plan &plan) { plan.stages[0].zero = 1; }));
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        QVERIFY2(bench.message.contains("ZeRO"), qPrintable(bench.message));
        QCOMPARE(bench.knob<QComboBox>("exchange-kind")->currentText(), QStringLiteral("all-reduce"));
        bench.state.undoStack()->undo();
        bench.choose("exchange-kind", QStringLiteral("dasgd"));
        bench.choose("exchange-inside", QStringLiteral("machine"));
        QVERIFY2(bench.message.contains("same machines"), qPrintable(bench.message));
        QCOMPARE(bench.knob<QComboBox>("exchange-inside")->currentText(), QStringLiteral("replica"));
        bench.choose("exchange-kind", QStringLiteral("all-reduce"));
        QVERIFY(bench.state.editPlan(QStringLiteral("ZeRO"), [](plan::Plan &plan) { plan.stages[0].zero = 1; }));
        bench.knob<QCheckBox>("exchange-across-steps")->setChecked(true);
        QVERIFY(!bench.exchange().acrossSteps && !bench.knob<QCheckBox>("exchange-across-steps")->isChecked());
    }
};

PLANLOOM_UI_MAIN(TestExchangeTab)
#include "tst_exchange_tab.moc"
