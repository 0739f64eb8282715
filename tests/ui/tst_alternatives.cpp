// SPDX-License-Identifier: GPL-3.0-or-later
// Alternatives and kept plans of the Plan view: the table, the points of time against memory, and the tab's count.
#include "tests/ui/watched_main.h"

#include "ui/planview/plan_view.h"

#include "engine/plan/fingerprint.h"
#include "ui/studio_fixture.h"

#include <QSignalSpy>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestAlternatives : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void figuresAreTheSimulators();
    void theFrontIsOfTheBest_data();
    void theFrontIsOfTheBest();
    void keptPlansStay();
    void pointsArePlans();
    void theTabCountsAfterUndo();
    void differencesAreSaid();

private:
    void plan(const char *planner);
    [[nodiscard]] AlternativesPanel *panel() const { return m_view->alternatives(); }
    [[nodiscard]] QTabWidget *tabs() const { return m_view->findChild<QTabWidget *>(); }
    [[nodiscard]] QString tabText() const { return tabs()->tabText(tabs()->indexOf(panel())); }
    void show();

    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<PlanView> m_view;
};

void TestAlternatives::init()
{
    m_view.reset();
    m_state = std::make_unique<StudioState>();
    QVERIFY(testing::loadSample(*m_state));
    m_view = std::make_unique<PlanView>(m_state.get());
    m_view->resize(1300, 460);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
}

void TestAlternatives::plan(const char *planner)
{
    PlanRequest request;
    request.planner = planner;
    request.globalBatch = 8;
    const auto before = m_state->document();
    QVERIFY(m_state->runPlanner(request));
    QVERIFY(QTest::qWaitFor([&] { return m_state->document() != before && m_state->simulationCurrent(); }, 60'000));
}

void TestAlternatives::show()
{
    tabs()->setCurrentWidget(panel());
    QTRY_VERIFY_WITH_TIMEOUT(!panel()->computes(), 60'000);
}

void TestAlternatives::figuresAreTheSimulators()
{
    plan("dapple");
    show();
    QVERIFY(!panel()->rows().empty());
    QCOMPARE(panel()->table()->tableModel()->rowCount(), static_cast<int>(panel()->rows().size()));
    for (std::size_t r = 0; r < panel()->rows().size(); ++r) {
        const plan::Plan &plan = panel()->rows()[r].candidate.plan;
        const auto simulation = simulate::simulatePlan(plan, m_state->document()->subject);
        QVERIFY(simulation.ok());
        const AlternativeFigures *figures = panel()->figuresOf(plan);
        QVERIFY(figures);
        QCOMPARE(figures->seconds, simulation->report.iterationSeconds);
        QCOMPARE(figures->bubble, simulation->report.bubbleFraction);
        std::int64_t peak = 0;
        for (const simulate::DeviceReport &device : simulation->report.devices)
            peak = std::max(peak, device.peakBytes);
        QCOMPARE(figures->peakBytes, peak);
        const bool alone = plan.stages.size() == 1 && plan.stages.front().devices.size() == 1;
        QCOMPARE(figures->sentBytes > 0, !alone);
        const auto &cells = panel()->table()->tableModel()->row(static_cast<int>(r));
        QCOMPARE(cells[static_cast<std::size_t>(AlternativeColumn::Step)].number, std::optional(figures->seconds));
        QCOMPARE(cells[static_cast<std::size_t>(AlternativeColumn::Planner)].text, QStringLiteral("dapple"));
    }
    if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE_ALTERNATIVES"); !picture.isEmpty())
        QVERIFY(m_view->grab().save(QString::fromUtf8(picture)));
}

void TestAlternatives::theFrontIsOfTheBest_data()
{
    QTest::addColumn<QList<QPointF>>("plans"); // seconds, bytes; negative: not simulated
    QTest::addColumn<QList<bool>>("front");
    QTest::newRow("one") << QList<QPointF>{{1, 1}} << QList<bool>{true};
    QTest::newRow("beaten in both") << QList<QPointF>{{1, 1}, {2, 2}} << QList<bool>{true, false};
    QTest::newRow("one each") << QList<QPointF>{{1, 2}, {2, 1}} << QList<bool>{true, true};
    QTest::newRow("as fast, smaller") << QList<QPointF>{{1, 2}, {1, 1}} << QList<bool>{false, true};
    QTest::newRow("equal") << QList<QPointF>{{1, 1}, {1, 1}} << QList<bool>{true, false};
    QTest::newRow("unknown") << QList<QPointF>{{-1, 1}, {3, 3}, {2, 4}} << QList<bool>{false, true, true};
}

void TestAlternatives::theFrontIsOfTheBest()
{
    QFETCH(QList<QPointF>, plans);
    QFETCH(QList<bool>, front);
    std::vector<std::optional<AlternativeFigures>> all;
    for (const QPointF &each : plans) {
        AlternativeFigures figures;
        figures.seconds = each.x();
        figures.peakBytes = static_cast<std::int64_t>(each.y());
        all.push_back(each.x() < 0 ? std::nullopt : std::optional(figures));
    }
    const std::vector<bool> found = paretoFront(all);
    QCOMPARE(QList<bool>(found.begin(), found.end()), front);
}

/// Over a search and undo, until the user lets them go.
void TestAlternatives::keptPlansStay()
{
    const plan::Plan first = m_state->document()->plan;
    for (QAction *command : m_view->commands())
        if (command->text().startsWith(QStringLiteral("Keep this plan")))
            command->trigger();
    QCOMPARE(m_state->keptPlans().size(), std::size_t(1));
    m_state->keepDocument(); // it is kept already
    QCOMPARE(m_state->keptPlans().size(), std::size_t(1));
    QCOMPARE(m_state->keptPlans().front().simulatedSeconds, m_state->simulation()->report.iterationSeconds);
    plan("data-parallel");
    show();
    QVERIFY(panel()->rows().front().kept);
    QCOMPARE(plan::simulationKey(panel()->rows().front().candidate.plan), plan::simulationKey(first));
    QVERIFY(tabText().contains(QString::number(panel()->rows().size())));
    // A double click brings it back, undo takes it away, and it is kept all along.
    Q_EMIT panel()->table()->activated(panel()->table()->model()->index(0, static_cast<int>(AlternativeColumn::Plan)));
    QCOMPARE(plan::simulationKey(m_state->document()->plan), plan::simulationKey(first));
    m_state->undoStack()->undo();
    QCOMPARE(m_state->keptPlans().size(), std::size_t(1));
    // The box lets it go.
    const QModelIndex box = panel()->table()->model()->index(0, static_cast<int>(AlternativeColumn::Kept));
    QVERIFY(panel()->table()->model()->setData(box, Qt::Unchecked, Qt::CheckStateRole));
    QVERIFY(m_state->keptPlans().empty());
    m_state->keepDocument();
    m_state->loadModel(QStringLiteral("zoo:mlp"));
    QTRY_VERIFY_WITH_TIMEOUT(!m_state->document(), 30'000);
    QVERIFY(m_state->keptPlans().empty());
}

void TestAlternatives::pointsArePlans()
{
    plan("dapple");
    m_state->keepDocument();
    show();
    ParetoPlot *plot = panel()->plot();
    QVERIFY(plot->isVisible() && !plot->grab().isNull());
    QVERIFY(plot->points().size() >= 2);
    int front = 0;
    for (std::size_t p = 0; p < plot->points().size(); ++p) {
        front += plot->points()[p].front ? 1 : 0;
        QVERIFY(QRectF(plot->rect()).contains(plot->placeOf(p)));
    }
    QVERIFY(front >= 1);
    QSignalSpy spy(plot, &ParetoPlot::picked);
    QTest::mouseClick(plot, Qt::LeftButton, {}, plot->placeOf(0).toPoint());
    QCOMPARE(spy.size(), 1);
    QVERIFY2(plot->textAt(plot->placeOf(0)).contains(QStringLiteral("peak")),
             qPrintable(plot->textAt(plot->placeOf(0))));
    QTest::keyClick(plot, Qt::Key_Right);
    QVERIFY(spy.size() >= 1);
}

/// Whatever tab is in front.
void TestAlternatives::theTabCountsAfterUndo()
{
    const QString before = tabText();
    for (int tab = 0; tab < tabs()->count(); ++tab) {
        if (!tabs()->isTabVisible(tab))
            continue;
        tabs()->setCurrentIndex(tab);
        plan("dapple");
        const auto count = alternativeRows(*m_state).size();
        QVERIFY(count > 0);
        QCOMPARE(tabText(), QStringLiteral("Alternatives (%1)").arg(count));
        m_state->undoStack()->undo();
        QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 30'000);
        QVERIFY2(tabText() == before, qPrintable(QString::number(tab) + tabText()));
    }
}

/// No row looks like another one: what cannot be told by the figures stands in words.
void TestAlternatives::differencesAreSaid()
{
    plan("dapple");
    show();
    QVERIFY(panel()->table()->tableModel()->rowCount() > 0);
    QSet<QString> seen;
    for (int row = 0; row < panel()->table()->tableModel()->rowCount(); ++row) {
        QString text;
        const auto &cells = panel()->table()->tableModel()->row(row);
        for (const Cell &cell : cells)
            text += cell.text + QLatin1Char('\t');
        QVERIFY2(!seen.contains(text), qPrintable(text));
        seen.insert(text);
        const Cell &differs = cells[static_cast<std::size_t>(AlternativeColumn::Differs)];
        QVERIFY(differs.text != QStringLiteral("nothing") && !differs.toolTip.isEmpty());
    }
}

PLANLOOM_UI_MAIN(TestAlternatives)
#include "tst_alternatives.moc"
