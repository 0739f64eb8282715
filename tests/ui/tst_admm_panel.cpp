// SPDX-License-Identifier: GPL-3.0-or-later
// What a run that trains by ADMM has recorded, from its files to the pixels.
#include "tests/ui/watched_main.h"

#include "engine/base/files.h"
#include "engine/import/import.h"
#include "engine/plan/plan_json.h"
#include "engine/run/metrics.h"
#include "planners/registry.h"
#include "ui/run/admm_panel.h"

#include <QDir>
#include <QLineSeries>
#include <QScatterSeries>
#include <QScrollArea>
#include <QScrollBar>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestAdmmPanel : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    [[nodiscard]] QString runFolder(const QString &name, double seconds, double accuracy) const
    {
        const QString folder = m_folder.filePath(name);
        QDir().mkpath(folder);
        std::string lines;
        for (int step = 0; step < 4; ++step) {
            run::StepMetrics metrics;
            metrics.step = step;
            metrics.loss = 1;
            metrics.seconds = seconds;
            metrics.objective = 100 - 10 * step;
            metrics.lagrangian = step < 2 ? 80 - 10 * step : 0; // older runs have none
            lines += run::toJson(metrics) + "\n";
            if (step % 2 == 1) {
                run::Validation seen;
                seen.step = step;
                seen.loss = 1;
                seen.accuracy = accuracy * step / 3;
                seen.samples = 10;
                lines += run::toJson(seen) + "\n";
            }
        }
        if (!writeFileAtomically(folder.toStdString() + "/metrics.jsonl", lines))
            qFatal("the metrics cannot be written");
        return folder;
    }

private Q_SLOTS:
    void showsWhatWasRecorded()
    {
        const QString folder = runFolder("admm", 0.5, 0.9);
        const std::string path = folder.toStdString();
        std::string residuals = run::residualsHeader({"a1", "a2", "h1", "h2", "o"});
        residuals += run::residualsLine(0, {1, 1, 1, 1, 100});
        residuals += run::residualsLine(1, {0.1, 0.1, 0.1, 0.1, 1});
        residuals += "2,0.1"; // a line that is being written
        QVERIFY(writeFileAtomically(path + "/residuals.csv", residuals).ok());
        QVERIFY(writeFileAtomically(path + "/duals.csv", run::toCsv({{'a', 1, 0.5, 0.25}, {'o', 2, -1, -2}})).ok());
        AdmmPanel panel;
        panel.resize(900, 300);
        panel.show();
        panel.showRun(folder, true);
        ResidualMap *map = panel.map();
        QCOMPARE(map->residuals().steps.size(), std::size_t(2));
        const QRectF area = map->mapRect();
        QCOMPARE(map->describe(area.topLeft() + QPointF(2, 2)), QStringLiteral("iteration 0, a1: residual 1"));
        QCOMPARE(map->describe(area.bottomRight() - QPointF(2, 2)), QStringLiteral("iteration 1, o: residual 1"));
        QVERIFY(map->describe({0, 0}).isEmpty());
        const QImage picture = map->grab().toImage();
        const auto lightness = [&](double x, double y) {
            return picture.pixelColor((area.topLeft() + QPointF(area.width() * x, area.height() * y)).toPoint())
                .lightness();
        };
        QVERIFY(lightness(0.25, 0.9) < lightness(0.25, 0.1)); // the largest is the darkest
        QVERIFY(lightness(0.25, 0.1) < lightness(0.75, 0.1));
        QCOMPARE(panel.objective()->points(), (QList<QPointF>{{0, 100}, {1, 90}, {2, 80}, {3, 70}}));
        QCOMPARE(panel.lagrangian()->points(), (QList<QPointF>{{1, 80}, {2, 70}})); // what iterations leave
        QCOMPARE(panel.duals()->points(), (QList<QPointF>{{0.25, 0.5}, {-2, -1}}));
        QCOMPARE(panel.accuracies().size(), std::size_t(1));
        QCOMPARE(panel.accuracies()[0]->points(), (QList<QPointF>{{1, 0.3}, {2, 0.9}}));

        QVERIFY(panel.accuracyHint()->isHidden());

        panel.compareWith(runFolder("adam", 0.25, 0.6));
        QCOMPARE(panel.accuracies().size(), std::size_t(2));
        QCOMPARE(panel.accuracies()[1]->name(), QStringLiteral("adam"));
        QCOMPARE(panel.accuracies()[1]->points().back(), QPointF(1, 0.6));
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE"); !file.isEmpty())
            QVERIFY(panel.grab().save(QString::fromUtf8(file)));
        panel.compareWith(m_folder.filePath("none"));
        QVERIFY(!panel.noteLabel()->text().isEmpty());
        QCOMPARE(panel.accuracies().size(), std::size_t(2));
    }

    /// How late workers come, by hand: the fourth of six versions could not be made without worker 1, and behind the
    /// fifth all begin together.
    void agesOfWorkers()
    {
        const dispatch::Arrivals arrivals{{0, 1}, {0}, {0}, {0, 1}, {0}, {0}};
        const auto ages = agesOf(arrivals, {4}, 2);
        QCOMPARE(ages.size(), std::size_t(2));
        QCOMPARE(ages[0], (std::vector<int>{0, 0, 0, 0, 0, 0}));
        QCOMPARE(ages[1], (std::vector<int>{0, 1, 2, 0, 0, 1}));
        AgeChart chart;
        chart.set(arrivals, {4}, 2, 2);
        QCOMPARE(chart.lines().size(), 2);
        QCOMPARE(chart.lines()[1]->points().mid(2, 4), (QList<QPointF>{{1, 1}, {2, 1}, {2, 2}, {3, 2}}));
        QVERIFY2(chart.toolTip().contains(
                     QStringLiteral("worker 1: in 3 of 6 versions, at most 2 behind; versions waited for it: 1")),
                 qPrintable(chart.toolTip()));
        chart.set({{0}}, {}, 1, 2);
        QCOMPARE(chart.lines().size(), 1);
    }

    /// The panel has them where the run's folder has arrivals.
    void agesOfARun()
    {
        const QString folder = runFolder(QStringLiteral("served"), 0.5, 0.9);
        const std::string path = folder.toStdString();
        AdmmPanel panel;
        panel.resize(1100, 300);
        panel.show();
        panel.showRun(folder, false);
        QVERIFY(panel.ages()->isHidden());
        const auto model = import::loadModel("zoo:rnn");
        const auto cluster = import::loadCluster("local:2");
        QVERIFY(model.ok() && cluster.ok());
        planners::Problem problem;
        problem.subject = plan::makeSubject(model->graph, *cluster, model->profile, model->source);
        problem.globalBatch = 1198;
        NoProgress progress;
        const auto report =
            (*planners::findPlanner("admm"))
                ->plan(problem, {{"workers", "2"}, {"parallel", "asynchronous"}, {"barrier", "1"}, {"delay", "4"}},
                       progress);
        QVERIFY2(report, report ? "" : report.error().text().c_str());
        QVERIFY(plan::writePlan({report->plan, problem.subject}, path + "/plan.json"));
        const dispatch::Arrivals arrivals{{0, 1}, {0}, {0}, {0}, {0, 1}, {0}, {0, 1}};
        QVERIFY(writeFileAtomically(path + "/arrivals.csv", dispatch::toCsv(arrivals, 0)));
        panel.showRun(folder, true);
        QVERIFY(!panel.ages()->isHidden());
        QCOMPARE(panel.ages()->lines().size(), 2);
        QCOMPARE(panel.ages()->lines()[1]->points().size(), 14);
        // In a narrow window none is cut: they are scrolled to.
        panel.resize(500, 300);
        QCoreApplication::processEvents();
        QVERIFY(panel.ages()->width() >= panel.ages()->minimumWidth());
        QVERIFY(panel.findChild<QScrollArea *>()->horizontalScrollBar()->maximum() > 0);
        if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE_AGES"); !picture.isEmpty()) {
            QTest::qWait(100); // legends are laid out
            QVERIFY(panel.grab().save(QString::fromUtf8(picture)));
        }
    }

    void namesWrongFiles()
    {
        const QString folder = runFolder("wrong", 1, 0.5);
        QVERIFY(
            writeFileAtomically(folder.toStdString() + "/duals.csv", "variable,step,dual,gradient\na,1,x,2\n").ok());
        AdmmPanel panel;
        panel.showRun(folder, true);
        QVERIFY(panel.noteLabel()->text().contains(QStringLiteral("line 2")));
        QVERIFY(panel.map()->residuals().steps.empty());
        QVERIFY(panel.accuracyHint()->isHidden());
        QFile::remove(folder + QStringLiteral("/metrics.jsonl"));
        panel.showRun(folder, false);
        QVERIFY(!panel.accuracyHint()->isHidden());
        QVERIFY(panel.accuracyHint()->text().contains(QStringLiteral("--validate-every")));
    }
};

PLANLOOM_UI_MAIN(TestAdmmPanel)
#include "tst_admm_panel.moc"
