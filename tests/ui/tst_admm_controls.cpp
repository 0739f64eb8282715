// SPDX-License-Identifier: GPL-3.0-or-later
// The knobs of a plan that trains by ADMM, as a user turns them.
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"
#include "tests/stopped_after.h"
#include "ui/planview/plan_view.h"
#include "ui/planview/stage_figures.h"
#include "ui/planview/stage_table.h"
#include "ui/widgets/text.h"

#include <QLineSeries>
#include <QScrollBar>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestAdmmControls : public QObject {
    Q_OBJECT

    StudioState m_state;
    std::unique_ptr<PlanView> m_view;
    QString m_message;

    template <class Widget>
    [[nodiscard]] Widget *field(const QString &name) const
    {
        for (Widget *each : controls()->findChildren<Widget *>())
            if (each->accessibleName() == name)
                return each;
        qFatal("no field %s", qPrintable(name));
    }
    [[nodiscard]] AdmmControls *controls() const { return m_view->findChild<AdmmControls *>(); }
    [[nodiscard]] QTabWidget *tabs() const { return m_view->findChild<QTabWidget *>(); }
    [[nodiscard]] const admm::Settings &settings() const { return *m_state.document()->plan.admm; }
    [[nodiscard]] bool planned(const char *planner, const planners::Options &options = {})
    {
        PlanRequest request;
        request.planner = planner;
        request.options = options;
        request.globalBatch = 1198;
        const auto before = m_state.document();
        return m_state.runPlanner(request)
            && QTest::qWaitFor([&] { return m_state.document() != before && m_state.simulationCurrent(); }, 30'000);
    }

private Q_SLOTS:
    void initTestCase()
    {
        connect(&m_state, &StudioState::message, this, [this](MessageLevel, const QString &text) { m_message = text; });
        m_view = std::make_unique<PlanView>(&m_state);
        m_view->resize(1100, 480);
        m_view->show();
        m_state.loadModel(QStringLiteral("zoo:rnn"));
        m_state.loadCluster(QStringLiteral("local:4"));
        bool loaded = false;
        m_state.whenLoaded([&loaded] { loaded = true; });
        QVERIFY(QTest::qWaitFor([&] { return loaded && m_state.subject(); }, 30'000));
    }

    void onlyOfItsPlans()
    {
        QVERIFY(planned("data-parallel"));
        QVERIFY(!controls()->applies());
        QVERIFY(!tabs()->isTabVisible(tabs()->indexOf(controls())));
        QVERIFY(planned("admm"));
        QVERIFY(controls()->applies());
        QVERIFY(tabs()->isTabVisible(tabs()->indexOf(controls())));
        tabs()->setCurrentWidget(controls());
        QCOMPARE(field<QLineEdit>(QStringLiteral("Ridge"))->text(), QStringLiteral("1"));
    }

    /// A stage takes what an iteration of ADMM takes of its device, which is more than its passes by gradients would;
    /// layers have the forward pass.
    void timeOfTheStage()
    {
        const plan::Document &document = *m_state.document();
        const simulate::Report &report = m_state.simulation()->report;
        const auto seconds = secondsOfStages(document, &report);
        QCOMPARE(seconds.size(), std::size_t{1});
        QCOMPARE(*seconds.front(), report.devices.front().busyFraction * report.iterationSeconds);
        QVERIFY(!secondsOfStages(document, nullptr).front());
        const double forward = stageSeconds(document, 0, 0, document.subject.layers().size());
        QCOMPARE(forward,
                 document.subject.costs
                     ->forward(0, document.subject.layers().size(),
                               1198.0 / static_cast<double>(document.plan.stages.front().replicas()), 0)
                     .value());
        QVERIFY(*seconds.front() > 5 * forward);
        QCOMPARE(stageTable(document, &report).rows.front()[6].text, secondsText(*seconds.front()));
        QCOMPARE(stageTable(document, nullptr).rows.front()[6].text, QStringLiteral("…"));
    }

    /// Who waits for whom: edited, simulated at once, and undone.
    void waitsForAServer()
    {
        auto *workers = field<QSpinBox>(QStringLiteral("Workers"));
        workers->setFocus();
        workers->selectAll();
        QTest::keyClicks(workers, QStringLiteral("4"));
        QTest::keyClick(workers, Qt::Key_Return);
        QCOMPARE(m_state.document()->plan.stages.front().replicas(), std::size_t{4});
        QTRY_VERIFY_WITH_TIMEOUT(m_state.simulationCurrent(), 30'000);
        const double together = m_state.simulation()->report.iterationSeconds;

        auto *mode = field<QComboBox>(QStringLiteral("Workers wait"));
        QVERIFY(!field<QSpinBox>(QStringLiteral("Delay D"))->isEnabled());
        mode->setFocus();
        QTest::keyClick(mode, Qt::Key_Down);
        QCOMPARE(settings().parallel, admm::Parallel::Asynchronous);
        QVERIFY(field<QSpinBox>(QStringLiteral("Delay D"))->isEnabled());
        QTRY_VERIFY_WITH_TIMEOUT(m_state.simulationCurrent(), 30'000);
        QVERIFY(m_state.simulation()->report.iterationSeconds != together);

        auto *delay = field<QSpinBox>(QStringLiteral("Delay D"));
        delay->stepUp();
        QCOMPARE(settings().delay, 5);
        m_state.undoStack()->undo();
        QCOMPARE(settings().delay, 4);
        QCOMPARE(delay->value(), 4);
    }

    void refusalsShowTheOldFigure()
    {
        auto *barrier = field<QSpinBox>(QStringLiteral("Barrier S"));
        barrier->setValue(9);
        QVERIFY2(m_message.contains(QStringLiteral("barrier is 9, and there are 4 workers")), qPrintable(m_message));
        QCOMPARE(barrier->value(), 1);
        auto *ridge = field<QLineEdit>(QStringLiteral("Ridge"));
        ridge->setText(QStringLiteral("much"));
        ridge->setModified(true);
        Q_EMIT ridge->editingFinished();
        QVERIFY(m_message.contains(QStringLiteral("is not a number")));
        QCOMPARE(ridge->text(), QStringLiteral("1"));
        auto *workers = field<QSpinBox>(QStringLiteral("Workers"));
        workers->setValue(5);
        QVERIFY2(m_message.contains(QStringLiteral("do not fit the 4 devices")), qPrintable(m_message));
        QCOMPARE(workers->value(), 4);
    }

    void penaltiesAndSubProblems()
    {
        auto *mode = field<QComboBox>(QStringLiteral("Workers wait"));
        mode->setCurrentIndex(0);
        auto *mu = field<QLineEdit>(QStringLiteral("Penalty μ"));
        mu->setFocus();
        mu->selectAll();
        QTest::keyClicks(mu, QStringLiteral("20"));
        QTest::keyClick(mu, Qt::Key_Return);
        QCOMPARE(settings().mu, 20.0);
        field<QComboBox>(QStringLiteral("Sub-problems"))->setCurrentIndex(1);
        QCOMPARE(settings().subproblems, admm::Subproblems::Linearised);
        field<QComboBox>(QStringLiteral("Duals"))->setCurrentIndex(1);
        QCOMPARE(settings().duals, admm::Duals::Last);
        QTRY_VERIFY_WITH_TIMEOUT(m_state.simulationCurrent(), 30'000);
        if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE"); !picture.isEmpty())
            QVERIFY(m_view->grab().save(QString::fromUtf8(picture)));
    }

    /// The bar above has the optimizer of the steps behind the iterations.
    void optimizerBehindTheIterations()
    {
        const auto named = [this]<class Widget>(Widget *, const QString &name) {
            const auto all = m_view->findChildren<Widget *>();
            return *std::ranges::find_if(all, [&](const Widget *each) { return each->accessibleName() == name; });
        };
        auto *rule = named(static_cast<QComboBox *>(nullptr), QStringLiteral("Optimizer"));
        auto *rate = named(static_cast<QLineEdit *>(nullptr), QStringLiteral("Learning rate"));
        QVERIFY(!rule->isEnabled() && !rate->isEnabled()); // by ADMM alone
        QVERIFY(planned("admm", {{"workers", "2"}, {"switch_after", "3"}}));
        QVERIFY(rule->isEnabled() && rate->isEnabled());
        QCOMPARE(rule->currentText(), QStringLiteral("AdamW"));
        rule->setCurrentText(QStringLiteral("SGD"));
        rate->setFocus();
        rate->selectAll();
        QTest::keyClicks(rate, QStringLiteral("0.05"));
        QTest::keyClick(rate, Qt::Key_Return);
        const plan::Plan &plan = m_state.document()->plan;
        QCOMPARE(plan.then->optimizer.rule.name(), std::string_view("sgd"));
        QCOMPARE(plan.then->optimizer.learningRate, 0.05);
        QVERIFY(plan.admm && &plan.optimizer.rule.rule() == &plan::admmOptimizer().rule.rule());
        m_state.undoStack()->undo();
        QCOMPARE(m_state.document()->plan.then->optimizer.learningRate, 3e-4);
        QVERIFY(planned("admm", {{"workers", "4"}}));
    }

    /// The slider's answers are computed beside the UI thread, of several the last, and the plan stays as it is.
    void slowWorker()
    {
        StragglerPanel *straggler = controls()->straggler();
        tabs()->setCurrentWidget(straggler);
        const auto answered = [straggler] {
            return QTest::qWaitFor([straggler] { return !straggler->computes(); }, 30'000);
        };
        const auto before = m_state.document();
        QCOMPARE(straggler->workers()->count(), static_cast<int>(before->plan.stages.front().replicas()));
        straggler->slider()->setValue(50);
        QVERIFY(!straggler->textLabel()->isEnabled()); // pale
        // In words it is there before the curves, and a slider that moves on does not wait for these.
        QTRY_VERIFY_WITH_TIMEOUT(straggler->textLabel()->isEnabled(), 30'000);
        QVERIFY(straggler->textLabel()->text().startsWith(QStringLiteral("5.0 times as slow. SP: ")));
        straggler->slider()->setValue(30);
        QVERIFY(answered() && straggler->textLabel()->isEnabled());
        const QString threefold = straggler->textLabel()->text();
        QVERIFY2(threefold.startsWith(QStringLiteral("3.0 times as slow. SP: ")), qPrintable(threefold));
        straggler->slider()->setFocus();
        QTest::keyClick(straggler->slider(), Qt::Key_End);
        QVERIFY(answered());
        QVERIFY(straggler->textLabel()->text().startsWith(QStringLiteral("8.0 times as slow. SP: ")));
        const auto together = straggler->synchronous()->points();
        QCOMPARE(together.size(), 15);
        QVERIFY(together.back().y() < together.front().y() / 4);
        QCOMPARE(m_state.document(), before);
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE"); !file.isEmpty())
            QVERIFY(m_view->grab().save(QString::fromUtf8(file)));
    }

    /// Where and when updates are made: a staircase in the interleaved order, blocks in the split one.
    void sweepsOfAnIteration()
    {
        QVERIFY(planned("admm", {{"workers", "4"}}));
        SweepChart *chart = controls()->sweeps();
        tabs()->setCurrentWidget(chart);
        const auto computed = [chart] {
            return QTest::qWaitFor([chart] { return !chart->computes(); }, 30'000) && chart->sweeps().has_value();
        };
        QVERIFY(computed());
        using Update = simulate::Sweeps::Update;
        using Block = simulate::Sweeps::Block;
        const auto steps = [&](Block block, bool backward) {
            QList<int> all;
            for (const Update &update : chart->sweeps()->updates)
                if (update.block == block && update.backward == backward)
                    all << update.step;
            return all;
        };
        const QList<int> down{8, 7, 6, 5, 4, 3, 2, 1};
        const QList<int> up{1, 2, 3, 4, 5, 6, 7, 8};
        QCOMPARE(steps(Block::Hidden, true), down);
        QCOMPARE(steps(Block::Input, true), down);
        QCOMPARE(steps(Block::Hidden, false), up);
        QCOMPARE(steps(Block::Input, false), up);
        QCOMPARE(chart->sweeps()->exchanges.size(), std::size_t{4}); // sums out, in, out, and figures
        double before = 0;
        for (const Update &update : chart->sweeps()->updates) {
            QVERIFY(update.begin >= before && update.end >= update.begin);
            before = update.end;
        }
        QVERIFY(before <= chart->sweeps()->seconds);
        const Update third = *std::ranges::find_if(chart->sweeps()->updates, [](const Update &update) {
            return update.block == Block::Hidden && update.step == 3;
        });
        QVERIFY(chart->describe(chart->rectOf(third).center()).startsWith(QStringLiteral("h3, backward sweep: ")));
        for (const int asked : {0, 1}) { // before it is compiled, and behind
            const auto stopped =
                simulate::sweepsOf(m_state.document()->plan, m_state.document()->subject, StoppedAfter(asked));
            QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
        }
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE_SWEEPS"); !file.isEmpty())
            QVERIFY(m_view->grab().save(QString::fromUtf8(file)));
        field<QComboBox>(QStringLiteral("Order"))->setCurrentIndex(1);
        QVERIFY(computed());
        QCOMPARE(steps(Block::Hidden, true), down);
        const auto &updates = chart->sweeps()->updates;
        const auto firstInput = std::ranges::find(updates, Block::Input, &Update::block);
        QCOMPARE(std::ranges::count(updates.begin(), firstInput, Block::Hidden, &Update::block), 8);
        field<QComboBox>(QStringLiteral("Order"))->setCurrentIndex(0);
    }

    /// In the room that the window's first layout gives them nothing is cut: settings take more columns.
    void nothingIsCut()
    {
        QVERIFY(planned("admm", {{"workers", "4"}}));
        for (const QSize &size : {QSize(1180, 310), QSize(1100, 480), QSize(700, 900)}) {
            m_view->resize(size);
            tabs()->setCurrentWidget(controls());
            QTest::qWait(1);
            QCOMPARE(controls()->verticalScrollBar()->maximum(), 0);
            QCOMPARE(controls()->horizontalScrollBar()->maximum(), 0);
            if (const QByteArray folder = qgetenv("PLANLOOM_PICTURES"); !folder.isEmpty())
                QVERIFY(m_view->grab().save(
                    QStringLiteral("%1/admm-%2.png").arg(QString::fromUtf8(folder)).arg(size.width())));
            for (QWidget *chart :
                 {static_cast<QWidget *>(controls()->sweeps()), static_cast<QWidget *>(controls()->straggler())}) {
                tabs()->setCurrentWidget(chart);
                QTest::qWait(1);
                QVERIFY(chart->height() >= chart->minimumSizeHint().height());
                if (const QByteArray folder = qgetenv("PLANLOOM_PICTURES"); !folder.isEmpty())
                    QVERIFY(m_view->grab().save(QStringLiteral("%1/admm-%2-%3.png")
                                                    .arg(QString::fromUtf8(folder))
                                                    .arg(size.width())
                                                    .arg(tabs()->currentIndex())));
            }
        }
        m_view->resize(1100, 480);
    }

    /// Each worker keeps a device for each range of steps.
    void workersOfRanges()
    {
        QVERIFY(planned("admm", {{"time_ranges", "2"}, {"workers", "1"}}));
        tabs()->setCurrentWidget(controls());
        auto *workers = field<QSpinBox>(QStringLiteral("Workers"));
        QCOMPARE(workers->value(), 1);
        workers->setValue(2);
        const plan::Stage &stage = m_state.document()->plan.stages.front();
        QCOMPARE(stage.devices.size(), std::size_t{4});
        QCOMPARE(stage.mesh, (std::vector<int>{2, 2}));
        QCOMPARE(stage.replicas(), std::size_t{2});
        workers->setValue(3);
        QVERIFY2(m_message.contains(QStringLiteral("3 workers with 2 ranges of steps do not fit the 4 devices")),
                 qPrintable(m_message));
        QCOMPARE(workers->value(), 2);
    }
};

PLANLOOM_UI_MAIN(TestAdmmControls)
#include "tst_admm_controls.moc"
