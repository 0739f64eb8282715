// SPDX-License-Identifier: GPL-3.0-or-later
// planloom-studio as a process: its options, its exit status, what it prints.
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
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
    void aTargetIsMeasured();

private:
    /// Its exit status; -1: it did not end, or not by itself.
    int run(const QStringList &arguments);
    QTemporaryDir m_folder;
    QString m_said;       ///< on stderr
    QByteArray m_printed; ///< on stdout
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
    m_printed = studio.readAllStandardOutput();
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
    QTest::newRow("target") << QStringList{QStringLiteral("--bench"), QStringLiteral("T3,T14")}
                            << QStringLiteral("T1 to T13");
    QTest::newRow("size of targets") << QStringList{QStringLiteral("--bench"), QStringLiteral("--bench-size=0")}
                                     << QStringLiteral("--bench-size 0");
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

/// Of five thousand slices instead of ten million: that figures are there, not how large they are.
void TestStudioProgram::aTargetIsMeasured()
{
    QCOMPARE(run({QStringLiteral("--bench"), QStringLiteral("T2"), QStringLiteral("--bench-size"),
                  QStringLiteral("0.0005"), QStringLiteral("--json")}),
             0);
    const QJsonArray figures = QJsonDocument::fromJson(m_printed).object().value(QStringLiteral("figures")).toArray();
    QCOMPARE(figures.size(), 1);
    const QJsonObject figure = figures.at(0).toObject();
    QCOMPARE(figure.value(QStringLiteral("target")).toString(), QStringLiteral("T2"));
    QCOMPARE(figure.value(QStringLiteral("events")).toInteger(), 5000);
    QVERIFY(figure.value(QStringLiteral("file_bytes")).toInteger() > 5000);
    QVERIFY(figure.value(QStringLiteral("peak_rss_bytes")).toInteger() > 1'000'000);
    QCOMPARE(figure.value(QStringLiteral("samples")).toInteger(), 1);
    QVERIFY2(figure.value(QStringLiteral("ratio")).isDouble(), m_printed.constData());
}

QTEST_GUILESS_MAIN(TestStudioProgram)
#include "tst_studio_program.moc"
