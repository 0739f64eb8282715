// SPDX-License-Identifier: GPL-3.0-or-later
// planloom-studio as a process: its options, its exit status, what it prints.
#include <QFileInfo>
#include <QProcess>
#include <QProcessEnvironment>
#include <QTemporaryDir>
#include <QTest>

class TestStudioProgram : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void badOptionsEndWithTwo_data();
    void badOptionsEndWithTwo();
    void aFileThatCannotBeOpenedIsAnError();
    void aPictureIsTakenQuietly();

private:
    /// Its exit status; -1: it did not end, or not by itself.
    int run(const QStringList &arguments);
    QTemporaryDir m_folder;
    QString m_said; ///< on stderr
};

int TestStudioProgram::run(const QStringList &arguments)
{
    QProcess studio;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
    environment.insert(QStringLiteral("XDG_CONFIG_HOME"), m_folder.path());
    environment.insert(QStringLiteral("XDG_DATA_HOME"), m_folder.path());
    studio.setProcessEnvironment(environment);
    studio.setWorkingDirectory(m_folder.path());
    studio.start(QStringLiteral(PLANLOOM_BINARY_DIR "/planloom-studio"), arguments);
    const bool ended = studio.waitForFinished(60'000);
    m_said = QString::fromUtf8(studio.readAllStandardError());
    return ended && studio.exitStatus() == QProcess::NormalExit ? studio.exitCode() : -1;
}

void TestStudioProgram::badOptionsEndWithTwo_data()
{
    QTest::addColumn<QStringList>("arguments");
    QTest::addColumn<QString>("said");
    QTest::newRow("unknown") << QStringList{QStringLiteral("--bogus")} << QStringLiteral("bogus");
    QTest::newRow("steps") << QStringList{QStringLiteral("--demo"), QStringLiteral("--demo-steps"), QStringLiteral("x")}
                           << QStringLiteral("--demo-steps x");
    QTest::newRow("one step") << QStringList{QStringLiteral("--demo"), QStringLiteral("--demo-steps=1")}
                              << QStringLiteral("use 2 or more");
    QTest::newRow("theme") << QStringList{QStringLiteral("--theme"), QStringLiteral("pink")}
                           << QStringLiteral("--theme pink");
}

void TestStudioProgram::badOptionsEndWithTwo()
{
    QFETCH(QStringList, arguments);
    QFETCH(QString, said);
    QCOMPARE(run(arguments), 2);
    QVERIFY2(m_said.contains(said), qPrintable(m_said));
    QCOMPARE(run({QStringLiteral("--version")}), 0);
}

void TestStudioProgram::aFileThatCannotBeOpenedIsAnError()
{
    QCOMPARE(run({QStringLiteral("--screenshot"), QStringLiteral("x.png"), QStringLiteral("missing.json")}), 2);
    QVERIFY2(m_said.contains(QStringLiteral("missing.json")), qPrintable(m_said));
}

void TestStudioProgram::aPictureIsTakenQuietly()
{
    QCOMPARE(run({QStringLiteral("--screenshot"), QStringLiteral("x.png"), QStringLiteral("zoo:mlp")}), 0);
    QVERIFY(QFileInfo(m_folder.filePath(QStringLiteral("x.png"))).size() > 1000);
    QVERIFY2(!m_said.contains(QStringLiteral("propagateSizeHints")), qPrintable(m_said));
}

QTEST_GUILESS_MAIN(TestStudioProgram)
#include "tst_studio_program.moc"
