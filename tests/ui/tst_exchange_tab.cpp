// SPDX-License-Identifier: GPL-3.0-or-later
// The knobs of the exchange between replicas: what they show and hide, that each turn is one undoable edit which is
// simulated, what is refused.
#include "ui/planview/exchange_tab.h"

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
        Q_EMIT network->activated(1); // a tenth
        QVERIFY2(bench.seconds() > 2 * before, qPrintable(bench.message));
        bench.state.undoStack()->undo();
        QCOMPARE(bench.seconds(), before);
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

QTEST_MAIN(TestExchangeTab)
#include "tst_exchange_tab.moc"
