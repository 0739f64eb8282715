// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/run_folder.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"
#include "ui/run/run_list_view.h"

#include <QHeaderView>
#include <QLabel>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using namespace planloom;
using namespace planloom::ui;

/// The Runs view on real run folders and a workspace of its own.
class TestRunList : public QObject {
    Q_OBJECT

private:
    std::unique_ptr<testing::OwnSettings> m_settings;
    std::unique_ptr<QTemporaryDir> m_folder;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<RunListView> m_view;

    QString at(const QString &name) { return m_folder->filePath(name); }
    std::unique_ptr<RunListView> newView()
    {
        QSettings().setValue(QStringLiteral("runs/workspace"), at(QStringLiteral("home/runs.planloom")));
        auto view = std::make_unique<RunListView>(m_state.get());
        view->resize(1200, 400);
        view->show();
        return view;
    }
    bool settled(RunListView &view)
    {
        return QTest::qWaitFor([&view] { return !view.busy(); }, 30'000);
    }
    /// Two runs, the slower one with the lower loss, listed.
    bool listTwo()
    {
        if (!testing::loadSample(*m_state))
            return false;
        testing::MadeRun quick;
        quick.stretch = 1.5;
        testing::MadeRun slow;
        slow.stretch = 3;
        slow.lossLast = 1;
        const plan::Document &document = *m_state->document();
        if (!testing::writeRun(at(QStringLiteral("lab/quick")), document, quick)
            || !testing::writeRun(at(QStringLiteral("lab/deep/slow")), document, slow))
            return false;
        m_view->addFolder(at(QStringLiteral("lab")));
        return settled(*m_view) && m_view->model()->rowCount() == 2;
    }
    QString shown(int row, const char *key)
    {
        return m_view->model()->index(row, RunListModel::columnOf(key)).data(Qt::DisplayRole).toString();
    }

private Q_SLOTS:
    void init()
    {
        m_settings = std::make_unique<testing::OwnSettings>();
        m_folder = std::make_unique<QTemporaryDir>();
        m_state = std::make_unique<StudioState>();
        m_view = newView();
        QVERIFY(settled(*m_view));
    }
    void cleanup()
    {
        m_view.reset();
        m_state.reset();
    }

    void theEmptyListHasAButton()
    {
        QVERIFY(m_view->isEmpty());
        auto *button = m_view->findChild<QPushButton *>(QStringLiteral("addFolder"));
        QVERIFY(button && button->isVisible());
        QCOMPARE(m_view->focusTarget(), button);
        QVERIFY(!QFile::exists(m_view->workspace())); // nothing is made before there is something to keep
    }

    void runsOfAFolderAreListed()
    {
        QVERIFY(listTwo());
        QVERIFY(!m_view->isEmpty());
        m_view->table()->sortByColumn(RunListModel::columnOf("iteration"), Qt::AscendingOrder);
        QCOMPARE(shown(0, "name"), QStringLiteral("quick"));
        QCOMPARE(shown(1, "name"), QStringLiteral("slow"));
        QCOMPARE(shown(0, "model"), QStringLiteral("gpt-nano"));
        QCOMPARE(shown(0, "steps"), QStringLiteral("5"));
        QCOMPARE(shown(1, "loss"), QStringLiteral("1"));
        QVERIFY(shown(0, "mfu").endsWith(QStringLiteral("% fp32")));
        QVERIFY(shown(0, "tokens") != QStringLiteral("–"));
        QVERIFY(shown(0, "hash").size() == 10);
        // Steps 1 to 4 of stretch 1.5: the median is 1.5 * 1.025 times the prediction.
        QCOMPARE(shown(0, "error"), QString::asprintf("%+.1f %%", (1 / (1.5 * 1.025) - 1) * 100));
        QVERIFY(m_view->statusLabel()->text().startsWith(QStringLiteral("2 runs")));
        m_view->table()->sortByColumn(RunListModel::columnOf("loss"), Qt::DescendingOrder);
        QCOMPARE(shown(0, "name"), QStringLiteral("quick"));

        // Another start of the studio has them at once, and finds what is new in the folder.
        QVERIFY(testing::writeRun(at(QStringLiteral("lab/third")), *m_state->document()));
        auto again = newView();
        QVERIFY(settled(*again));
        QCOMPARE(again->model()->rowCount(), 3);
    }

    void aDoubleClickOpensTheRun()
    {
        QVERIFY(listTwo());
        QSignalSpy opened(m_view.get(), &RunListView::openAsked);
        m_view->table()->sortByColumn(RunListModel::columnOf("name"), Qt::DescendingOrder);
        const QPoint place = m_view->table()->visualRect(m_view->model()->index(0, 0)).center();
        QTest::mouseClick(m_view->table()->viewport(), Qt::LeftButton, {}, place);
        QTest::mouseDClick(m_view->table()->viewport(), Qt::LeftButton, {}, place);
        QCOMPARE(opened.size(), 1);
        QCOMPARE(opened.front().front().toString(), at(QStringLiteral("lab/deep/slow")));
    }

    void theFilterNarrows()
    {
        QVERIFY(listTwo());
        QTest::keyClicks(m_view->filterField(), QStringLiteral("loss<1.5"));
        QCOMPARE(m_view->model()->rowCount(), 1);
        QCOMPARE(shown(0, "name"), QStringLiteral("slow"));
        QVERIFY(m_view->statusLabel()->text().startsWith(QStringLiteral("1 of 2 runs")));
        m_view->filterField()->setText(QStringLiteral("speed>1"));
        QVERIFY(m_view->statusLabel()->text().contains(QStringLiteral("there is no field 'speed'")));
        m_view->filterField()->clear();
        QCOMPARE(m_view->model()->rowCount(), 2);
    }

    void tagsAndNotesAreKept()
    {
        QVERIFY(listTwo());
        m_view->table()->sortByColumn(RunListModel::columnOf("name"), Qt::AscendingOrder);
        QVERIFY(!m_view->tagsField()->isEnabled());
        m_view->table()->selectRow(0);
        QVERIFY(m_view->tagsField()->isEnabled());
        QTest::keyClicks(m_view->tagsField(), QStringLiteral("best  keep"));
        QTest::keyClicks(m_view->notesField(), QStringLiteral("why"));
        QTest::keyClick(m_view->notesField(), Qt::Key_Return);
        QVERIFY(settled(*m_view));
        QCOMPARE(shown(0, "tags"), QStringLiteral("best keep"));
        QCOMPARE(shown(0, "notes"), QStringLiteral("why"));
        QCOMPARE(m_view->table()->selectionModel()->selectedRows().size(), 1); // stays selected
        // Both get the tag, each keeps its notes.
        m_view->table()->selectAll();
        QVERIFY(!m_view->notesField()->isEnabled());
        m_view->tagsField()->clear();
        QTest::keyClicks(m_view->tagsField(), QStringLiteral("two"));
        QTest::keyClick(m_view->tagsField(), Qt::Key_Return);
        QVERIFY(settled(*m_view));
        QCOMPARE(shown(1, "tags"), QStringLiteral("two"));
        QCOMPARE(shown(0, "notes"), QStringLiteral("why"));
        auto again = newView();
        QVERIFY(settled(*again));
        again->filterField()->setText(QStringLiteral("tags:two"));
        QCOMPARE(again->model()->rowCount(), 2);
    }

    void twoRunsAreCompared()
    {
        QVERIFY(listTwo());
        QSignalSpy compared(m_view.get(), &RunListView::compareAsked);
        m_view->table()->selectRow(0);
        QVERIFY(!m_view->compareButton()->isEnabled());
        m_view->table()->selectAll();
        QTest::mouseClick(m_view->compareButton(), Qt::LeftButton);
        QCOMPARE(compared.size(), 1);
        QVERIFY(compared.front()[0] != compared.front()[1]);
    }

    /// A run that is trained here enters the list, and its end is noted.
    void aRunOfTheStudioIsListed()
    {
        QVERIFY(testing::loadSample(*m_state));
        const QString folder = at(QStringLiteral("own"));
        QVERIFY(testing::writeRun(folder, *m_state->document()));
        QVERIFY(QFile::remove(folder + QStringLiteral("/summary.json")));
        testing::FakeRun fake;
        m_state->setClientFactory(testing::fakeAgent(fake));
        agent::TrainRequest request;
        request.runDir = folder.toStdString();
        request.settings.steps = 5;
        QVERIFY(m_state->startRun(request));
        QTRY_VERIFY_WITH_TIMEOUT(!m_state->run().active() && m_state->run().steps.size() == 5, 30'000);
        QTRY_COMPARE_WITH_TIMEOUT(m_view->model()->rowCount(), 1, 30'000);
        QVERIFY(settled(*m_view));
        QCOMPARE(shown(0, "name"), QStringLiteral("own"));
        m_state->openRun(folder); // one that is only opened is no new run
        QVERIFY(settled(*m_view));
        QCOMPARE(m_view->model()->rowCount(), 1);
    }

    void aBrokenWorkspaceIsSaid()
    {
        QSignalSpy messages(m_state.get(), &StudioState::message);
        const QString path = at(QStringLiteral("text.planloom"));
        QVERIFY(writeFileAtomically(path.toStdString(), std::string(4096, 'x')).ok());
        m_view->setWorkspace(path);
        QVERIFY(settled(*m_view));
        QVERIFY(m_view->isEmpty());
        QCOMPARE(messages.size(), 1);
        QVERIFY(messages.front()[1].toString().contains(QStringLiteral("is not a Planloom workspace")));
    }

    /// Order and filter of a long list, with figures that some runs lack.
    void tenThousandRuns()
    {
        std::vector<store::Run> runs(10'000);
        for (std::size_t i = 0; i < runs.size(); ++i) {
            runs[i].folder = "/runs/r" + std::to_string(i);
            runs[i].model = i % 2 == 0 ? "gpt2" : "mlp";
            runs[i].iterationSecondsMedian = i % 10 == 3 ? 0 : static_cast<double>((i * 7919) % 10'000 + 1) * 1e-3;
        }
        RunListModel model;
        model.setRuns(runs);
        QCOMPARE(model.rowCount(), 10'000);
        const int column = RunListModel::columnOf("iteration");
        for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
            model.sort(column, order);
            for (int row = 1; row < 9000; ++row) {
                const double before = model.run(row - 1).iterationSecondsMedian;
                const double here = model.run(row).iterationSecondsMedian;
                QVERIFY(order == Qt::AscendingOrder ? before <= here : before >= here);
            }
            for (int row = 9000; row < 10'000; ++row) // not known: last in both orders
                QCOMPARE(model.index(row, column).data(Qt::DisplayRole).toString(), QStringLiteral("–"));
        }
        model.setFilter(*store::RunFilter::parse("model:gpt2 iteration<=1s"));
        QVERIFY(model.rowCount() > 0 && model.rowCount() < 1000);
        for (int row = 0; row < model.rowCount(); ++row)
            QVERIFY(model.run(row).model == "gpt2" && model.run(row).iterationSecondsMedian <= 1);
        QCOMPARE(model.total(), std::size_t(10'000));
    }
};

PLANLOOM_UI_MAIN(TestRunList)
#include "tst_run_list.moc"
