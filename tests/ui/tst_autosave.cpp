// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/studio_fixture.h"

#include "engine/base/files.h"
#include "ui/state/autosave.h"

#include <QDir>
#include <QFileInfo>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

constexpr int kSoon = 5; // milliseconds

/// The file that a crashed studio leaves, and its recovery.
class TestAutosave : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { m_folder = std::make_unique<QTemporaryDir>(); }
    void whatIsUnsavedIsKept();
    void anOrderlyEndLeavesNothing();
    void whatWasLeftBehindIsOpenedOnce();
    void aLivingStudioKeepsItsOwn();
    void whatCannotBeReadIsPutAside();
    void aFolderThatCannotBeWrittenIsSaidOnce();

private:
    [[nodiscard]] QString folder() const { return m_folder->filePath(QStringLiteral("state/unsaved")); }
    /// A plan as a killed studio leaves it, opened from @p origin.
    void leaveBehind(const QString &origin);
    [[nodiscard]] QStringList plans() const
    {
        return QDir(folder()).entryList({QStringLiteral("*.unsaved.json")}, QDir::Files);
    }
    std::unique_ptr<QTemporaryDir> m_folder;
};

void TestAutosave::whatIsUnsavedIsKept()
{
    StudioState state;
    Autosave autosave(&state, folder(), kSoon);
    QVERIFY(testing::loadSample(state));
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(autosave.file()), 20'000);
    const auto kept = plan::readPlan(autosave.file().toStdString());
    QVERIFY2(kept, kept ? "" : kept.error().text().c_str());
    QCOMPARE(kept->plan.stages.size(), state.document()->plan.stages.size());

    QVERIFY(state.savePlan(m_folder->filePath(QStringLiteral("saved.json"))));
    QTRY_VERIFY_WITH_TIMEOUT(!QFileInfo::exists(autosave.file()), 20'000);
    QVERIFY(state.editPlan(QStringLiteral("batch"), [](plan::Plan &plan) { plan.globalBatch = 16; }));
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(autosave.file()), 20'000);
    state.undoStack()->undo(); // as saved again
    QTRY_VERIFY_WITH_TIMEOUT(!QFileInfo::exists(autosave.file()), 20'000);
}

void TestAutosave::anOrderlyEndLeavesNothing()
{
    StudioState state;
    {
        Autosave autosave(&state, folder(), kSoon);
        QVERIFY(testing::loadSample(state));
        QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(autosave.file()), 20'000);
    }
    QVERIFY2(QDir(folder()).isEmpty(), qPrintable(QDir(folder()).entryList().join(QLatin1Char(' '))));
}

void TestAutosave::leaveBehind(const QString &origin)
{
    StudioState state;
    Autosave autosave(&state, folder(), kSoon);
    QVERIFY(testing::loadSample(state));
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(autosave.file()), 20'000);
    QVERIFY(QFile::copy(autosave.file(), folder() + QStringLiteral("/1-gone.unsaved.json")));
    QVERIFY(writeFileAtomically((folder() + QStringLiteral("/1-gone.unsaved.json.path")).toStdString(),
                                origin.toStdString()));
}

void TestAutosave::whatWasLeftBehindIsOpenedOnce()
{
    leaveBehind(QStringLiteral("/somewhere/mine.json"));
    QCOMPARE(plans().size(), 1);
    StudioState state;
    Autosave autosave(&state, folder(), kSoon);
    QVERIFY(autosave.hasLeftover());
    QVERIFY(autosave.recover());
    QTRY_VERIFY_WITH_TIMEOUT(state.simulationCurrent(), 20'000);
    QVERIFY(!state.undoStack()->isClean());
    QCOMPARE(state.planPath(), QStringLiteral("/somewhere/mine.json"));
    QCOMPARE(state.document()->plan.stages.size(), std::size_t(4));
    // It is never without a file: first this studio's own, then the other goes.
    QTRY_COMPARE_WITH_TIMEOUT(plans(), QStringList{QFileInfo(autosave.file()).fileName()}, 20'000);
    QVERIFY(!autosave.hasLeftover());
}

void TestAutosave::aLivingStudioKeepsItsOwn()
{
    StudioState one;
    Autosave first(&one, folder(), kSoon);
    QVERIFY(testing::loadSample(one));
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(first.file()), 20'000);
    StudioState two;
    Autosave second(&two, folder(), kSoon);
    QVERIFY(!second.hasLeftover());
    QVERIFY(!second.recover());
    QVERIFY(QFileInfo::exists(first.file()));
}

void TestAutosave::whatCannotBeReadIsPutAside()
{
    QVERIFY(QDir().mkpath(folder()));
    const QString path = folder() + QStringLiteral("/1-gone.unsaved.json");
    QVERIFY(writeFileAtomically(path.toStdString(), "{\"schema\": \"planloom.plan/1\", \"stages\": ["));
    StudioState state;
    QStringList heard;
    connect(&state, &StudioState::message, &state, [&heard](MessageLevel, const QString &text) { heard << text; });
    Autosave autosave(&state, folder(), kSoon);
    QVERIFY(autosave.recover());
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(path + QStringLiteral(".unreadable")), 20'000);
    QVERIFY(!heard.isEmpty());
    QVERIFY2(heard.front().contains(QStringLiteral("1-gone")), qPrintable(heard.front()));
    QVERIFY(!autosave.hasLeftover());
}

void TestAutosave::aFolderThatCannotBeWrittenIsSaidOnce()
{
    QFile inTheWay(m_folder->filePath(QStringLiteral("state")));
    QVERIFY(inTheWay.open(QIODevice::WriteOnly));
    StudioState state;
    QStringList heard;
    connect(&state, &StudioState::message, &state, [&heard](MessageLevel, const QString &text) { heard << text; });
    Autosave autosave(&state, folder(), kSoon);
    QVERIFY(testing::loadSample(state));
    QTRY_COMPARE_WITH_TIMEOUT(heard.size(), 1, 20'000);
    QVERIFY2(heard.front().contains(QStringLiteral("crash")), qPrintable(heard.front()));
}

QTEST_GUILESS_MAIN(TestAutosave)
#include "tst_autosave.moc"
