// SPDX-License-Identifier: GPL-3.0-or-later
// The plan in other programs' formats: what is shown, what is refused and why, what is written, and what is read back.
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/shell/export_dialog.h"
#include "ui/shell/main_window.h"
#include "ui/shell/planner_dialog.h"

#include <QComboBox>
#include <QFile>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestExportDialog : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void everyFormatIsShownOrRefused_data();
    void everyFormatIsShownOrRefused();
    void aRefusalSaysWhatToChange();
    void megatronTakesWhatTheDialogOffers();
    void theMouseChooses();
    void quickChoicesShowTheLast();
    void configurationsComeBack();
    void ordersComeBack();
    void importsSayWhatIsMissing();
    void theMenuOpensIt();

private:
    std::unique_ptr<testing::OwnSettings> m_settings;
    std::unique_ptr<StudioState> m_state;
    QStringList m_heard;
};

void TestExportDialog::init()
{
    m_settings = std::make_unique<testing::OwnSettings>();
    m_state = std::make_unique<StudioState>();
    m_heard.clear();
    connect(m_state.get(), &StudioState::message, this, [this](MessageLevel, const QString &text) { m_heard << text; });
    QVERIFY(testing::loadSample(*m_state));
}

void TestExportDialog::everyFormatIsShownOrRefused_data()
{
    QTest::addColumn<QString>("format");
    QTest::addColumn<QString>("holds");   // empty: refused
    QTest::addColumn<QString>("verdict"); // a part of it
    QTest::newRow("megatron") << "megatron"
                              << ""
                              << "schedule"; // all forwards first is not what it runs
    QTest::newRow("deepspeed") << "deepspeed"
                               << ""
                               << "stages";
    QTest::newRow("torchtitan") << "torchtitan"
                                << ""
                                << "model";
    QTest::newRow("pytorch-csv") << "pytorch-csv"
                                 << "0F0"
                                 << "";
    QTest::newRow("pytorch-csv-comms") << "pytorch-csv-comms"
                                       << "0SEND_F0"
                                       << "";
    QTest::newRow("chrome-trace") << "chrome-trace"
                                  << "s0.F.m0"
                                  << "";
    QTest::newRow("task-csv") << "task-csv"
                              << "task,kind,stage,micro_batch"
                              << "";
    QTest::newRow("plan") << "plan"
                          << "planloom.plan/1"
                          << "";
    QTest::newRow("model") << "model"
                           << "planloom.graph/1"
                           << "";
    QTest::newRow("cluster") << "cluster"
                             << "planloom.cluster/1"
                             << "";
    QTest::newRow("dot") << "dot"
                         << "digraph"
                         << "";
}

void TestExportDialog::everyFormatIsShownOrRefused()
{
    QFETCH(QString, format);
    QFETCH(QString, holds);
    QFETCH(QString, verdict);
    ExportDialog dialog(*m_state);
    dialog.choose(format);
    QCOMPARE(dialog.format(), format);
    QTRY_VERIFY(!dialog.busy());
    QVERIFY2(dialog.verdict().contains(verdict), qPrintable(dialog.verdict()));
    QCOMPARE(dialog.canWrite(), !holds.isEmpty());
    QVERIFY2(dialog.preview().contains(holds), qPrintable(dialog.preview().left(500)));
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("plan.out"));
    QCOMPARE(dialog.write(path), !holds.isEmpty());
    QFile file(path);
    QCOMPARE(file.open(QIODevice::ReadOnly), !holds.isEmpty());
    if (!holds.isEmpty())
        QVERIFY(file.readAll().contains(holds.toUtf8()));
}

void TestExportDialog::aRefusalSaysWhatToChange()
{
    ExportDialog dialog(*m_state);
    dialog.choose(QStringLiteral("deepspeed"));
    QTRY_VERIFY(!dialog.busy());
    QVERIFY2(dialog.verdict().startsWith(QString::fromUtf8("✗")) && dialog.verdict().contains(QLatin1Char(';')),
             qPrintable(dialog.verdict()));
    QVERIFY(dialog.preview().isEmpty());
    QVERIFY(!dialog.write(QStringLiteral("/nowhere/at/all")));
    dialog.choose(QStringLiteral("plan"));
    QTRY_VERIFY(dialog.canWrite());
    QVERIFY(!dialog.write(QStringLiteral("/nowhere/at/all.json")));
    QVERIFY2(dialog.verdict().contains(QStringLiteral("/nowhere")), qPrintable(dialog.verdict()));
}

/// AdamW with its decay is refused in the studio's words, and taken with biases and norms exempt.
void TestExportDialog::megatronTakesWhatTheDialogOffers()
{
    QVERIFY(m_state->editPlan(QStringLiteral("1f1b"), [](plan::Plan &plan) { plan.schedule = {}; }));
    ExportDialog refused(*m_state);
    refused.choose(QStringLiteral("megatron"));
    QTRY_VERIFY(!refused.busy());
    QVERIFY2(refused.verdict().contains(QStringLiteral("\"Exempt from decay\"")), qPrintable(refused.verdict()));
    QVERIFY2(!refused.verdict().contains(QStringLiteral("--")), qPrintable(refused.verdict()));

    PlannerDialog dialog(*m_state);
    dialog.setRequest(m_state->requestLikeDocument({}));
    dialog.findChild<QComboBox *>(QStringLiteral("noDecay"))->setCurrentText(QStringLiteral("biases and norms"));
    PlanRequest request = dialog.request();
    request.planner = "data-parallel";
    const auto before = m_state->document();
    QVERIFY(m_state->runPlanner(request));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document() != before, 20'000);
    ExportDialog taken(*m_state);
    taken.choose(QStringLiteral("megatron"));
    QTRY_VERIFY(!taken.busy());
    QVERIFY2(taken.canWrite(), qPrintable(taken.verdict()));
}

void TestExportDialog::theMouseChooses()
{
    ExportDialog dialog(*m_state);
    dialog.show();
    QVERIFY(QTest::qWaitForWindowExposed(&dialog));
    auto *list = dialog.findChild<QListWidget *>();
    QVERIFY(list && list->count() >= 10);
    for (int row = list->count() - 1; row >= 0; --row) {
        QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualItemRect(list->item(row)).center());
        QCOMPARE(dialog.format(), list->item(row)->data(Qt::UserRole).toString());
        QTRY_VERIFY(!dialog.busy());
        QCOMPARE(dialog.canWrite(), dialog.verdict().startsWith(QString::fromUtf8("✓")));
    }
}

void TestExportDialog::quickChoicesShowTheLast()
{
    ExportDialog dialog(*m_state);
    for (const char *format : {"chrome-trace", "dot", "plan", "cluster"})
        dialog.choose(QString::fromLatin1(format));
    QTRY_VERIFY(!dialog.busy() && dialog.canWrite());
    QVERIFY2(dialog.preview().contains(QStringLiteral("planloom.cluster/1")), qPrintable(dialog.preview().left(200)));
}

void TestExportDialog::configurationsComeBack()
{
    QVERIFY(m_state->editPlan(QStringLiteral("1f1b"), [](plan::Plan &plan) {
        plan.schedule = {};
        plan.optimizer.weightDecay = 0;
    }));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->simulationCurrent(), 20'000);
    ExportDialog dialog(*m_state);
    dialog.choose(QStringLiteral("megatron"));
    QTRY_VERIFY(!dialog.busy());
    QVERIFY2(dialog.canWrite(), qPrintable(dialog.verdict()));
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("gpt.args"));
    QVERIFY(dialog.write(path));
    const auto before = m_state->document();
    QVERIFY(m_state->editPlan(QStringLiteral("another"),
                              [](plan::Plan &plan) { plan.stages[0].recompute = plan::Recompute::Full; }));
    QVERIFY(m_state->open(path));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->document()->plan.planner.name == "manual", 20'000);
    QCOMPARE(plan::notation(m_state->document()->plan), plan::notation(before->plan));
    QCOMPARE(m_state->document()->plan.microBatches, before->plan.microBatches);
    QCOMPARE(m_state->document()->plan.globalBatch, before->plan.globalBatch);
}

void TestExportDialog::ordersComeBack()
{
    ExportDialog dialog(*m_state);
    dialog.choose(QStringLiteral("pytorch-csv"));
    QTRY_VERIFY(dialog.canWrite());
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("order.csv"));
    QVERIFY(dialog.write(path));
    QVERIFY(m_state->open(path));
    QCOMPARE(m_state->document()->plan.schedule.kind, plan::ScheduleKind::Custom);
    QVERIFY(m_state->undoStack()->undoText().contains(QStringLiteral("order")));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("9F0,\n") > 0);
    file.close();
    m_heard.clear();
    QVERIFY(!m_state->open(path));
    QVERIFY2(m_heard.value(0).contains(QStringLiteral("order.csv")), qPrintable(m_heard.value(0)));
}

void TestExportDialog::importsSayWhatIsMissing()
{
    StudioState empty;
    QStringList heard;
    connect(&empty, &StudioState::message, &empty, [&heard](MessageLevel, const QString &text) { heard << text; });
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("ds.json"));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(R"({"train_batch_size": 8})") > 0);
    file.close();
    empty.open(path);
    QTRY_COMPARE(heard.size(), 1);
    QVERIFY2(heard[0].contains(QStringLiteral("without a model and a cluster; open these first")),
             qPrintable(heard[0]));
    QVERIFY(!empty.importOrder(path));
    QVERIFY2(heard[1].contains(QStringLiteral("open its plan first")), qPrintable(heard[1]));
}

void TestExportDialog::theMenuOpensIt()
{
    MainWindow window(m_state.get());
    window.setAsks(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::keyClick(&window, Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
    QTRY_VERIFY(window.findChild<ExportDialog *>() != nullptr);
    QVERIFY(window.findChild<ExportDialog *>()->isVisible());
}

PLANLOOM_UI_MAIN(TestExportDialog)
#include "tst_export_dialog.moc"
