// SPDX-License-Identifier: GPL-3.0-or-later
// What a run's processes note of each step, from its files to the charts: losses of replicas, rows of tables.
#include "tests/ui/watched_main.h"

#include "engine/base/files.h"
#include "engine/run/metrics.h"
#include "engine/run/series.h"
#include "ui/run/replica_panel.h"
#include "ui/run/rows_panel.h"

#include <QDir>
#include <QLegend>
#include <QLegendMarker>
#include <QLineSeries>
#include <QScatterSeries>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>

using namespace planloom;
using namespace planloom::ui;

class TestRunSeries : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

    [[nodiscard]] QString newRun(const char *name) const
    {
        const QString folder = m_folder.filePath(QString::fromLatin1(name));
        QDir().mkpath(folder + QStringLiteral("/losses"));
        QDir().mkpath(folder + QStringLiteral("/rows"));
        return folder;
    }
    static void write(const QString &folder, const std::string &file, const std::string &text)
    {
        if (!writeFileAtomically(folder.toStdString() + "/" + file, text))
            qFatal("a file of a run cannot be written");
    }
    static std::string losses(double first, int steps)
    {
        std::string text = run::lossesHead();
        char line[64];
        for (int step = 0; step < steps; ++step)
            text.append(line, run::lossesLine(step, first / (step + 1), line, sizeof line));
        return text;
    }
    static std::string rows(const std::string &table, bool splits)
    {
        run::RowSeries series{table, 1000, 4, splits, splits, {1024, 640, 250, 390}, {}, {}};
        std::string text = run::rowsHead(series);
        char line[64];
        for (int step = 0; step < 10; ++step)
            text.append(line,
                        run::rowsLine(step, {1024, 700.0 + 10 * step, 300, 400.0 + 10 * step}, splits, line,
                                      sizeof line));
        return text;
    }
    static std::vector<run::StepMetrics> steps()
    {
        std::vector<run::StepMetrics> all;
        for (int step = 0; step < 12; ++step) {
            run::StepMetrics metrics;
            metrics.step = step;
            metrics.loss = 3.0 / (step + 1);
            if (step > 0 && step % 4 == 0)
                metrics.consensusDistance = 0.5 / step;
            all.push_back(metrics);
        }
        return all;
    }

private Q_SLOTS:
    void lossesOfReplicas()
    {
        const QString folder = newRun("averaged");
        write(folder, run::lossesFile(0), losses(2, 12));
        write(folder, run::lossesFile(10), losses(6, 12));
        write(folder, run::lossesFile(2), losses(4, 12) + "12,0."); // is being written
        write(folder, "metrics.jsonl", run::toJson(run::Validation{5, 1.25, 0.5, 40}) + "\n");
        ReplicaPanel panel;
        panel.resize(900, 320);
        panel.show();
        panel.showSteps(steps());
        QCOMPARE(panel.mean()->points().size(), 12);
        QCOMPARE(panel.distance()->points(), (QList<QPointF>{{4, 0.125}, {8, 0.0625}}));
        QVERIFY(panel.distance()->pointsVisible()); // a point for each average
        panel.showRun(folder, true);
        QTRY_VERIFY(!panel.reads());
        QCOMPARE(panel.replicas().size(), std::size_t{3});
        const char *names[] = {"replica 0", "replica 2", "replica 10"};
        for (std::size_t i = 0; i < 3; ++i) {
            QCOMPARE(panel.replicas()[i]->name(), QString::fromLatin1(names[i]));
            QCOMPARE(panel.replicas()[i]->points().size(), 12);
            QCOMPARE(panel.replicas()[i]->points()[1], QPointF(1, 1.0 + static_cast<double>(i)));
            QVERIFY(panel.replicas()[i]->pen().widthF() < panel.mean()->pen().widthF());
        }
        QCOMPARE(panel.meanModel()->points(), (QList<QPointF>{{5, 1.25}}));
        QVERIFY(panel.lossChart()->y()->max() > 6); // all are in sight
        QVERIFY(!panel.noteLabel()->isVisible());
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE"); !file.isEmpty())
            QVERIFY(panel.grab().save(QString::fromUtf8(file)));
    }

    /// Many replicas are one name; fewer in another run leave no line behind.
    void manyReplicas()
    {
        const QString folder = newRun("many");
        for (int replica = 0; replica < 9; ++replica)
            write(folder, run::lossesFile(replica), losses(2 + replica, 5));
        ReplicaPanel panel;
        panel.show();
        panel.showRun(folder, false);
        QTRY_COMPARE(panel.replicas().size(), std::size_t{9});
        const auto named = [&] {
            return std::ranges::count_if(panel.replicas(), [&](QLineSeries *line) {
                return panel.lossChart()->chart()->legend()->markers(line).front()->isVisible();
            });
        };
        QTRY_COMPARE(named(), 1); // once the chart is laid out
        QCOMPARE(panel.replicas()[0]->name(), QStringLiteral("each of 9 replicas"));
        QVERIFY2(panel.noteLabel()->isVisible()
                     && panel.noteLabel()->text().contains(QStringLiteral("--validate-every")),
                 qPrintable(panel.noteLabel()->text()));
        const QString other = newRun("few");
        write(other, run::lossesFile(0), losses(2, 5));
        panel.showRun(other, true);
        QTRY_COMPARE(panel.replicas().size(), std::size_t{1});
        QCOMPARE(panel.lossChart()->chart()->series().size(), 3);
    }

    void whatIsMissingOrWrong()
    {
        ReplicaPanel panel;
        panel.show();
        panel.showRun(m_folder.filePath(QStringLiteral("none")), true);
        QTRY_VERIFY(!panel.reads());
        const QString folder = newRun("wrong");
        write(folder, "metrics.jsonl", "");
        panel.showRun(folder, true);
        QTRY_VERIFY(panel.noteLabel()->text().contains(QStringLiteral("a new run records them")));
        write(folder, run::lossesFile(0), "step,loss\n1,x\n");
        panel.showRun(folder, false);
        QTRY_VERIFY(panel.noteLabel()->text().contains(QStringLiteral("line 2")));
        RowsPanel rowsPanel;
        rowsPanel.showRun(folder, true);
        QTRY_VERIFY(!rowsPanel.reads());
        QVERIFY(rowsPanel.textLabel()->text().contains(QStringLiteral("No rows")));
        write(folder, run::rowsFile(0), "nonsense\n");
        rowsPanel.showRun(folder, false);
        QTRY_VERIFY(rowsPanel.textLabel()->text().contains(QStringLiteral("line 1")));
    }

    void rowsOfTables()
    {
        const QString folder = newRun("rows");
        write(folder, run::rowsFile(0), rows("encoder.weight", true));
        write(folder, run::rowsFile(1), rows("decoder.weight", false));
        RowsPanel panel;
        panel.resize(900, 320);
        panel.show();
        panel.showRun(folder, true);
        QTRY_VERIFY(!panel.reads());
        QVERIFY(panel.tables()->isVisible());
        QCOMPARE(panel.tables()->count(), 2);
        QCOMPARE(panel.line(RowsPanel::Ids)->points().front(), QPointF(0, 1024));
        QCOMPARE(panel.line(RowsPanel::Unique)->points().back(), QPointF(9, 790));
        QCOMPARE(panel.line(RowsPanel::Prior)->points().back(), QPointF(9, 300));
        QCOMPARE(panel.line(RowsPanel::Delayed)->points().back(), QPointF(9, 490));
        QCOMPARE(panel.expected(RowsPanel::Unique)->points(), (QList<QPointF>{{0, 640}, {9, 640}}));
        QCOMPARE(panel.expected(RowsPanel::Delayed)->points().front().y(), 390.0);
        QCOMPARE(panel.expected(RowsPanel::Prior)->pen().style(), Qt::DashLine);
        QVERIFY(panel.chart()->y()->max() > 1024);
        const QString said = panel.textLabel()->text();
        QVERIFY2(said.contains(QStringLiteral("encoder.weight")) && said.contains(QStringLiteral("745"))
                     && said.contains(QStringLiteral("by counts of the profile: 640 rows, 39 % of them")),
                 qPrintable(said));
        if (const QByteArray file = qgetenv("PLANLOOM_PICTURE_ROWS"); !file.isEmpty())
            QVERIFY(panel.grab().save(QString::fromUtf8(file)));
        // Of a table whose rows travel together there are two lines, and the plan has guessed.
        panel.tables()->setFocus();
        QTest::keyClick(panel.tables(), Qt::Key_Down);
        QCOMPARE(panel.tables()->currentText(), QStringLiteral("decoder.weight"));
        QVERIFY(panel.line(RowsPanel::Unique)->isVisible() && panel.expected(RowsPanel::Unique)->isVisible());
        QVERIFY(!panel.line(RowsPanel::Prior)->isVisible() && !panel.expected(RowsPanel::Delayed)->isVisible());
        QVERIFY(panel.textLabel()->text().contains(QStringLiteral("by Zipf's law")));
        panel.showRun(folder, false); // the chosen table stays
        QTRY_VERIFY(!panel.reads());
        QCOMPARE(panel.tables()->currentText(), QStringLiteral("decoder.weight"));
    }
};

PLANLOOM_UI_MAIN(TestRunSeries)
#include "tst_run_series.moc"
