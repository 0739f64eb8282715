// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/engine/analysis/kineto_ranks.h"
#include "tests/ui/run_folder.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"
#include "ui/compare/compare_view.h"
#include "ui/widgets/text.h"

#include <QImage>
#include <QSet>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using namespace planloom;
using namespace planloom::ui;

namespace {

using SourceKind = CompareSource::Kind;

/// Colours in the picture of a widget.
qsizetype colorsOf(QWidget &widget)
{
    const QImage picture = widget.grab().toImage();
    QSet<QRgb> found;
    for (int y = 0; y < picture.height(); y += 2)
        for (int x = 0; x < picture.width(); ++x)
            found << picture.pixel(x, y);
    return found.size();
}

} // namespace

/// The Compare view on the open plan, plan files and run folders.
class TestCompareView : public QObject {
    Q_OBJECT

private:
    std::unique_ptr<testing::OwnSettings> m_settings;
    std::unique_ptr<QTemporaryDir> m_folder;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<CompareView> m_view;

    QString at(const QString &name) { return m_folder->filePath(name); }
    bool compared()
    {
        return QTest::qWaitFor([this] { return m_view->comparison() && !m_view->isEmpty(); }, 30'000);
    }
    /// Waits for a comparison that is not @p before.
    bool comparedAfter(const std::shared_ptr<const compare::Comparison> &before)
    {
        return QTest::qWaitFor([&] { return m_view->comparison() && m_view->comparison() != before; }, 30'000);
    }
    const compare::Figure *figure(const char *key)
    {
        for (const compare::Figure &each : m_view->comparison()->figures)
            if (each.key == key)
                return &each;
        return nullptr;
    }
    QStringList rowOf(const QString &name)
    {
        const TableModel &table = *m_view->figures()->tableModel();
        for (int row = 0; row < table.rowCount(); ++row) {
            QStringList texts;
            for (const Cell &cell : table.row(row))
                texts << cell.text;
            if (texts.value(1) == name)
                return texts;
        }
        return {};
    }
    static std::int64_t endOf(const compare::Waterfall &waterfall)
    {
        std::int64_t at = waterfall.from;
        for (const auto &delta : waterfall.deltas)
            at += delta.change;
        return at;
    }
    /// The open plan with all layers of stage 0 computed again.
    plan::Document recomputing()
    {
        plan::Document document = *m_state->document();
        document.plan.stages[0].recompute = plan::Recompute::Full;
        document.plan.estimate.clear();
        document.plan.predictedJson.clear();
        document.plan.why.reset();
        return document;
    }

private Q_SLOTS:
    void init()
    {
        m_settings = std::make_unique<testing::OwnSettings>();
        m_folder = std::make_unique<QTemporaryDir>();
        m_state = std::make_unique<StudioState>();
        m_view = std::make_unique<CompareView>(m_state.get());
        m_view->resize(900, 500);
        m_view->show();
    }
    void cleanup()
    {
        m_view.reset();
        m_state.reset();
    }

    void theEmptyViewSaysWhatToDo()
    {
        QVERIFY(m_view->isEmpty());
        QVERIFY(m_view->findChild<QPushButton *>(QStringLiteral("chooseRun"))->isVisible());
        QVERIFY(testing::loadSample(*m_state));
        QCOMPARE(m_view->box(0)->source().kind, SourceKind::OpenPlan); // the open plan offers itself
        QVERIFY(m_view->isEmpty());
    }

    void thePlanAndAnEditedOne()
    {
        QVERIFY(testing::loadSample(*m_state));
        const QString file = at(QStringLiteral("recompute.json"));
        QVERIFY(plan::writePlan(recomputing(), file.toStdString()).ok());
        m_view->setSource(1, {SourceKind::PlanFile, file, -1});
        QVERIFY(compared());
        const compare::Comparison &both = *m_view->comparison();
        QCOMPARE(*figure("step_seconds")->a, m_state->simulation()->report.iterationSeconds);
        QVERIFY(*figure("step_seconds")->delta() > 0); // running a stage again takes time
        QVERIFY(!figure("kind/recompute")->a && figure("kind/recompute")->b);
        QCOMPARE(rowOf(QStringLiteral("recompute")).mid(2, 1), QStringList{QStringLiteral("–")});
        QVERIFY(figure("stage/0") && figure("stage/3"));
        QVERIFY(figure("peak_bytes/n0:g0"));
        QVERIFY(*figure("peak_bytes/n0:g0")->delta() < 0);
        QCOMPARE(figure("transfer_bytes")->delta(), std::optional(0.0));
        QCOMPARE(both.differences.size(), std::size_t{1});
        QCOMPARE(m_view->differences()->tableModel()->row(0)[0].text, QString::fromStdString(both.differences[0]));
        QVERIFY(both.histogram.empty());

        const compare::Waterfall &waterfall = m_view->comparison()->waterfall;
        QCOMPARE(waterfall.from, std::llround(*figure("step_seconds")->a * 1e9));
        QCOMPARE(endOf(waterfall), waterfall.to);
        QVERIFY(!waterfall.deltas.empty());
        const QStringList rows = m_view->waterfall()->rowTexts();
        QCOMPARE(rows.size(), static_cast<qsizetype>(waterfall.deltas.size()) + 2);
        QVERIFY(rows.last().contains(nanosecondsText(waterfall.to)));

        // The open plan is edited: A follows. B is not read again.
        const auto before = m_view->comparison();
        QVERIFY(m_state->editPlan(QStringLiteral("recompute"),
                                  [](plan::Plan &changed) { changed.stages[0].recompute = plan::Recompute::Full; }));
        QVERIFY(comparedAfter(before));
        QCOMPARE(figure("step_seconds")->delta(), std::optional(0.0));
        QCOMPARE(m_view->differences()->tableModel()->row(0)[0].text, QStringLiteral("the plans are the same"));
    }

    void sidesAreSwapped()
    {
        QVERIFY(testing::loadSample(*m_state));
        const QString file = at(QStringLiteral("recompute.json"));
        QVERIFY(plan::writePlan(recomputing(), file.toStdString()).ok());
        m_view->setSource(1, {SourceKind::PlanFile, file, -1});
        QVERIFY(compared());
        const double delta = *figure("step_seconds")->delta();
        const auto before = m_view->comparison();
        m_view->swapSides();
        QVERIFY(comparedAfter(before));
        QCOMPARE(*figure("step_seconds")->delta(), -delta);
        QCOMPARE(m_view->box(1)->source().kind, SourceKind::OpenPlan);
    }

    void anAlternative()
    {
        QVERIFY(testing::loadSample(*m_state));
        PlanRequest request;
        request.planner = "dapple";
        request.globalBatch = 8;
        const auto before = m_state->document();
        QVERIFY(m_state->runPlanner(request));
        QTRY_VERIFY_WITH_TIMEOUT(m_state->document() != before && m_state->simulationCurrent(), 120'000);
        QVERIFY(!m_state->alternatives().empty());
        QVERIFY(m_view->box(1)->findText(QStringLiteral("Alternative 1:"), Qt::MatchStartsWith) >= 0);
        m_view->setSource(1, {SourceKind::Alternative, {}, 0});
        QVERIFY(compared());
        QCOMPARE(*figure("step_seconds")->b, m_state->alternatives()[0].simulatedSeconds);
    }

    /// A run is compared with the prediction of its own plan, and with no other.
    void aRunAndPredictions()
    {
        QVERIFY(testing::loadSample(*m_state));
        const QString folder = at(QStringLiteral("run"));
        QVERIFY(testing::writeRun(folder, *m_state->document()));
        m_view->setSource(1, {SourceKind::RunFolder, folder, -1});
        QVERIFY(compared());
        QVERIFY(!m_view->comparison()->basis.measuredA && m_view->comparison()->basis.measuredB);
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("A is the prediction of B")));
        const double predicted = m_state->simulation()->report.iterationSeconds;
        QCOMPARE(*figure("step_seconds")->a, predicted);
        QVERIFY(std::abs(*figure("step_seconds")->change() - (2 * 1.025 - 1)) < 1e-9); // the median of steps 1 to 4
        QVERIFY(!figure("measured_seconds")->delta());
        QCOMPARE(endOf(m_view->comparison()->waterfall), m_view->comparison()->waterfall.to);

        const auto before = m_view->comparison();
        QVERIFY(m_state->editPlan(QStringLiteral("recompute"),
                                  [](plan::Plan &changed) { changed.stages[0].recompute = plan::Recompute::Full; }));
        QVERIFY(comparedAfter(before));
        QVERIFY(!m_view->comparison()->basis.measuredB);
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("predictions are compared: B was measured")));
        QCOMPARE(*figure("step_seconds")->b, predicted);
        QCOMPARE(rowOf(QStringLiteral("measured step time")).mid(4),
                 (QStringList{QStringLiteral("–"), QStringLiteral("–")}));
    }

    void twoRuns()
    {
        QVERIFY(testing::loadSample(*m_state));
        testing::MadeRun slow;
        slow.stretch = 3;
        slow.steps = 9;
        slow.lossLast = 1;
        QVERIFY(testing::writeRun(at(QStringLiteral("a")), *m_state->document()));
        QVERIFY(testing::writeRun(at(QStringLiteral("b")), recomputing(), slow));
        m_view->compareRuns(at(QStringLiteral("a")), at(QStringLiteral("b")));
        QVERIFY(compared());
        QVERIFY(m_view->comparison()->basis.measuredA && m_view->comparison()->basis.measuredB);
        QVERIFY(*figure("measured_seconds")->delta() > 0);
        QCOMPARE(*figure("loss_last")->delta(), -1.0);
        QVERIFY(*figure("kind/forward")->delta() > 0);

        const compare::Histogram &histogram = m_view->comparison()->histogram;
        std::int64_t counted[2] = {0, 0};
        for (std::size_t bin = 0; bin < histogram.a.size(); ++bin) {
            counted[0] += histogram.a[bin];
            counted[1] += histogram.b[bin];
        }
        QCOMPARE(counted[0], std::int64_t{4}); // without the first
        QCOMPARE(counted[1], std::int64_t{8});
        m_view->tabs()->setCurrentWidget(m_view->histogram());
        QCoreApplication::processEvents();
        QVERIFY(m_view->histogram()->legendText().contains(QStringLiteral("A: 4 steps")));
        QVERIFY(m_view->histogram()->barOf(false, 0).height() > 0); // the quick run has the shortest steps
        QVERIFY(m_view->histogram()->barOf(true, 0).isEmpty());
        QVERIFY(colorsOf(*m_view->histogram()) >= 4);
    }

    /// Both steps on one axis, as long as the longer one.
    void timelinesShareAnAxis()
    {
        QVERIFY(testing::loadSample(*m_state));
        testing::MadeRun slow;
        slow.stretch = 4;
        QVERIFY(testing::writeRun(at(QStringLiteral("b")), *m_state->document(), slow));
        m_view->setSource(1, {SourceKind::RunFolder, at(QStringLiteral("b")), -1});
        QVERIFY(compared());
        LanePair *lanes = m_view->lanes();
        m_view->tabs()->setCurrentWidget(lanes->parentWidget());
        QCoreApplication::processEvents();
        const QStringList rows = lanes->rowTexts();
        QVERIFY2(rows.contains(QStringLiteral("n0:g0 A compute")) && rows.contains(QStringLiteral("n0:g3 B compute")),
                 qPrintable(rows.join(QLatin1Char('\n'))));
        QVERIFY(rows.indexOf(QStringLiteral("n0:g0 A compute")) < rows.indexOf(QStringLiteral("n0:g0 B compute")));
        const double step = m_state->simulation()->report.iterationSeconds * 1e9;
        QVERIFY(static_cast<double>(lanes->axis().boundsEnd()) > 3.9 * step);
        QVERIFY(colorsOf(*lanes->viewport()) >= 5);
        const QPoint first(lanes->axis().toPixel(0) + 131, 34);
        QVERIFY2(lanes->textAt(first).startsWith(QStringLiteral("A: s0.F.m0, forward")),
                 qPrintable(lanes->textAt(first)));
        const double span = lanes->axis().span();
        QTest::keyClick(lanes, Qt::Key_W);
        QVERIFY(lanes->axis().span() < span);
        QTest::keyClick(lanes, Qt::Key_0);
        QVERIFY(lanes->axis().showsAll());
    }

    void whatIsMissingIsSaid()
    {
        QVERIFY(testing::loadSample(*m_state));
        testing::MadeRun untraced;
        untraced.traced = false;
        QVERIFY(testing::writeRun(at(QStringLiteral("a")), *m_state->document()));
        QVERIFY(testing::writeRun(at(QStringLiteral("b")), *m_state->document(), untraced));
        m_view->compareRuns(at(QStringLiteral("a")), at(QStringLiteral("b")));
        QVERIFY(compared());
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("the steps of B were not recorded")));
        QVERIFY(!figure("kind/forward"));
        QVERIFY(m_view->waterfall()->rowTexts().isEmpty());
        testing::MadeRun elsewhere;
        elsewhere.ranksOnProcessors = 4;
        QVERIFY(testing::writeRun(at(QStringLiteral("c")), *m_state->document(), elsewhere));
        const auto before = m_view->comparison();
        m_view->setSource(1, {SourceKind::RunFolder, at(QStringLiteral("c")), -1});
        QVERIFY(comparedAfter(before));
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("B trained on processors")));
        QVERIFY(!m_view->comparison()->basis.measuredA);

        m_view->setSource(1, {SourceKind::RunFolder, at(QStringLiteral("none")), -1});
        QTRY_VERIFY_WITH_TIMEOUT(m_view->isEmpty(), 30'000);
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("! B: ")));
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("is not the folder of a run")));
    }

    /// A kernel that is 2 % slower in B stands first; plans come back afterwards.
    void slowerKernelOfTwoTraces()
    {
        tests::KinetoRanks ranks;
        ranks.ranks = 1;
        ranks.steps = 40;
        ranks.lateStep = -1;
        for (const char *name : {"a.json", "b.json"}) {
            std::ofstream(at(QString::fromLatin1(name)).toStdString()) << ranks.textOf(0);
            ranks.slower = 1.02;
            ranks.seed = 7;
        }
        m_view->setSource(0, {SourceKind::TraceFile, at(QStringLiteral("a.json")), -1});
        m_view->setSource(1, {SourceKind::TraceFile, at(QStringLiteral("b.json")), -1});
        QTRY_VERIFY(!m_view->isEmpty() && m_view->kernels()->model()->rowCount() == 3);
        QCOMPARE(m_view->tabs()->currentWidget(), m_view->kernels());
        const auto text = [this](int column) { return m_view->kernels()->model()->index(0, column).data().toString(); };
        QCOMPARE(text(0), QStringLiteral("gemm_a"));
        const double change = text(2).section(QLatin1Char(' '), 0, 0).toDouble(); // percent
        QVERIFY2(change > 1.7 && change < 2.3, qPrintable(text(2)));
        QCOMPARE(text(4), QStringLiteral("! yes"));
        QVERIFY2(m_view->noteLabel()->text().contains(QStringLiteral("gemm_a +")),
                 qPrintable(m_view->noteLabel()->text()));
        QVERIFY(m_view->lanes()->rowTexts().size() >= 2);
        m_view->setSource(0, {SourceKind::TraceFile, at(QStringLiteral("none.json")), -1});
        QTRY_VERIFY(m_view->isEmpty());
        QVERIFY(m_view->noteLabel()->text().contains(QStringLiteral("none.json")));
    }
};

PLANLOOM_UI_MAIN(TestCompareView)
#include "tst_compare_view.moc"
