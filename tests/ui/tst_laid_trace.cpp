// SPDX-License-Identifier: GPL-3.0-or-later
// A trace of another program, laid over the open plan.
#include "tests/engine/overlay/chain_plan.h"
#include "tests/engine/overlay/kineto_training.h"
#include "ui/shell/laid_trace_dialog.h"
#include "ui/shell/main_window.h"
#include "tests/ui/studio_fixture.h"
#include "ui/timeline/timeline_facts.h"
#include "ui/timeline/timeline_view.h"
#include "tests/ui/watched_main.h"

#include <QAction>
#include <QLabel>
#include <QMenuBar>
#include <QSignalSpy>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;
using namespace planloom::ui::testing;
using tests::KinetoTraining;

class TestLaidTrace : public QObject {
    Q_OBJECT

private:
    OwnSettings m_settings;
    QTemporaryDir m_folder;

    [[nodiscard]] QString at(const char *name) const { return m_folder.filePath(name); }

    static bool laid(StudioState &state, const QString &path)
    {
        QSignalSpy reset(&state, &StudioState::measuredReset);
        return state.layTrace({path}) && QTest::qWaitFor([&] { return reset.count() > 0; }, 30'000);
    }

private Q_SLOTS:
    void initTestCase()
    {
        QVERIFY(plan::writePlan(tests::planOf(tests::chain()), at("chain.json").toStdString()));
        QVERIFY(!KinetoTraining().write(at("good.json").toStdString()).empty());
        KinetoTraining deeper;
        deeper.blocks = 6;
        QVERIFY(!deeper.write(at("deeper.json").toStdString()).empty());
    }

    void overThePlan()
    {
        StudioState state;
        MainWindow window(&state);
        window.setAsks(false);
        window.resize(1400, 900);
        window.show();
        QVERIFY(!state.layTrace({at("good.json")})); // no plan
        state.openPlan(at("chain.json"));
        QVERIFY(QTest::qWaitFor([&] { return state.simulationCurrent(); }, 30'000));
        QSignalSpy messages(&state, &StudioState::message);
        QVERIFY(laid(state, at("good.json")));
        QVERIFY(state.laidTrace());
        QCOMPARE(state.laidTrace()->certainty(), overlay::Certainty::High);
        QVERIFY(state.measuredIsOfDocument()); // beside its prediction
        QVERIFY(state.measuredOrigin().simulation);
        QVERIFY(messages.last().at(1).toString().contains(QStringLiteral("good.json: high confidence (1.00)")));
        QCOMPARE(messages.last().at(0).value<MessageLevel>(), MessageLevel::Info);
        // The timeline says what it is.
        const auto *timeline = window.view(QStringLiteral("Timeline"));
        QString shown;
        for (const auto *label : timeline->findChildren<QLabel *>())
            shown += label->text();
        QVERIFY2(shown.contains(QStringLiteral("trace of another program, good.json, laid over the plan")),
                 qPrintable(shown));
        // And the window of figures.
        window.showLaidTrace();
        auto *dialog = window.findChild<LaidTraceDialog *>();
        QVERIFY(dialog);
        QVERIFY(dialog->summary().contains(QStringLiteral("high confidence")));
        TableModel *layers = dialog->table(0)->tableModel();
        QCOMPARE(layers->rowCount(), static_cast<int>(state.laidTrace()->layers.size()));
        QCOMPARE(layers->row(0)[0].text, QStringLiteral("h/0"));
        QCOMPARE(layers->row(0)[3].text, QStringLiteral("214 µs"));
        QCOMPARE(dialog->table(2)->tableModel()->rowCount(), 0);
        if (const QString folder = qEnvironmentVariable("PLANLOOM_PICTURES"); !folder.isEmpty()) {
            QTest::qWait(500);
            QVERIFY(window.grab().save(folder + QStringLiteral("/laid_window.png")));
            QVERIFY(dialog->grab().save(folder + QStringLiteral("/laid_dialog.png")));
        }
        // Another trace takes its place.
        QSignalSpy reset(&state, &StudioState::measuredReset);
        state.openTrace({at("good.json")});
        QVERIFY(QTest::qWaitFor([&] { return reset.count() > 0; }, 30'000));
        QVERIFY(!state.laidTrace());
    }

    /// Low confidence is a warning, and stands in the timeline; an edited plan keeps no comparison.
    void unsure()
    {
        StudioState state;
        state.openPlan(at("chain.json"));
        QVERIFY(QTest::qWaitFor([&] { return state.simulationCurrent(); }, 30'000));
        QSignalSpy messages(&state, &StudioState::message);
        QVERIFY(laid(state, at("deeper.json")));
        QCOMPARE(messages.last().at(0).value<MessageLevel>(), MessageLevel::Warning);
        QVERIFY(messages.last().at(1).toString().contains(QStringLiteral("low confidence")));
        const LaidTraceDialog dialog(*state.laidTrace());
        QVERIFY(dialog.table(2)->tableModel()->rowCount() > 0);
        if (const QString folder = qEnvironmentVariable("PLANLOOM_PICTURES"); !folder.isEmpty())
            QVERIFY(const_cast<LaidTraceDialog &>(dialog).grab().save(folder + QStringLiteral("/laid_unsure.png")));
        QVERIFY(state.editPlan(QStringLiteral("edit"), [](plan::Plan &plan) { plan.microBatches = 4; }));
        QVERIFY(!state.measuredIsOfDocument());
    }
};

PLANLOOM_UI_MAIN(TestLaidTrace)
#include "tst_laid_trace.moc"
