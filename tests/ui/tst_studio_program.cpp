// SPDX-License-Identifier: GPL-3.0-or-later
// planloom-studio as a process: its options, its exit status, what it prints.
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QMimeDatabase>
#include <QProcess>
#include <QProcessEnvironment>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <utility>

class TestStudioProgram : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void badOptionsEndWithTwo_data();
    void badOptionsEndWithTwo();
    void aFileThatCannotBeOpenedIsAnError();
    void aPictureIsTakenQuietly();
    void aTargetIsMeasured();
    void aScriptIsPlayed();
    void wrongScriptsAreRefused();
    void aLinkIsOpened();
    void theManualHasEveryOption();
    void theShellCompletesEveryOption();
    void desktopsKnowItsFiles();

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

namespace {

bool writeText(const QString &path, const QByteArray &text)
{
    QFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
}

} // namespace

void TestStudioProgram::aScriptIsPlayed()
{
    QVERIFY(writeText(m_folder.filePath(QStringLiteral("a.planloom")),
                      "planloom-script 1\nopen zoo:mlp local:2\nfind-plan gpipe batch=8\npicture timeline t.png\n"));
    QVERIFY2(run({QStringLiteral("--play"), QStringLiteral("a.planloom")}) == 0, qPrintable(m_said));
    QVERIFY(QFileInfo(m_folder.filePath(QStringLiteral("t.png"))).size() > 500);
    QVERIFY2(m_printed.contains("2/3  a.planloom:3: find-plan gpipe batch=8"), m_printed.constData());
}

void TestStudioProgram::wrongScriptsAreRefused()
{
    const QString path = m_folder.filePath(QStringLiteral("b.planloom"));
    QVERIFY(writeText(path, "planloom-script 1\nopen zoo:mlp\nshow size=2\n"));
    QCOMPARE(run({QStringLiteral("--play"), QStringLiteral("b.planloom")}), 2); // nothing is played
    QVERIFY2(m_said.contains(
                 QStringLiteral("planloom-studio: error: b.planloom:3: there is no key 'size'; use one of")),
             qPrintable(m_said));
    QVERIFY(writeText(path, "planloom-script 1\nopen missing.json\n"));
    QCOMPARE(run({QStringLiteral("--play"), QStringLiteral("b.planloom")}), 1); // as far as it goes
    QVERIFY2(m_said.contains(QStringLiteral("b.planloom:2: missing.json")), qPrintable(m_said));
    QCOMPARE(m_said.count(QStringLiteral("planloom-studio: error: ")), 1);
    QVERIFY(writeText(path, "planloom-script 1\nfind-plan dapple batch=8\n")); // of nothing: it finds no plan
    QCOMPARE(run({QStringLiteral("--play"), QStringLiteral("b.planloom")}), 1);
    QCOMPARE(m_said.count(QStringLiteral("planloom-studio: error: b.planloom:2: ")), 1);
    QCOMPARE(run({QStringLiteral("--play"), QStringLiteral("none.planloom")}), 2);
    QVERIFY2(m_said.contains(QStringLiteral("none.planloom")), qPrintable(m_said));
}

void TestStudioProgram::aLinkIsOpened()
{
    const QString sample = QStringLiteral(PLANLOOM_SOURCE_DIR "/resources/samples/gpt-nano.plan.json");
    QCOMPARE(run({QStringLiteral("--screenshot"), QStringLiteral("l.png"),
                  sample + QStringLiteral("#stage=1&view=plan")}),
             0);
    QCOMPARE(run({QStringLiteral("--screenshot"), QStringLiteral("l.png"), sample + QStringLiteral("#stage=one")}), 2);
    QVERIFY2(m_said.contains(QStringLiteral("stage=one: give a number of a stage")), qPrintable(m_said));
}

/// Of the help the options, of the manual page the same.
void TestStudioProgram::theManualHasEveryOption()
{
    QCOMPARE(run({QStringLiteral("--help")}), 0);
    static const QRegularExpression option(QStringLiteral("^  (?:-\\w, )?--([a-z-]+)"),
                                           QRegularExpression::MultilineOption);
    QStringList names;
    auto hits = option.globalMatch(QString::fromUtf8(m_printed));
    while (hits.hasNext())
        names << hits.next().captured(1);
    names.removeAll(QStringLiteral("help-all")); // Qt's own
    QVERIFY2(names.size() > 10, qPrintable(names.join(QLatin1Char(' '))));
    QCOMPARE(run({QStringLiteral("--manual")}), 0);
    const QString page = QString::fromUtf8(m_printed).remove(QLatin1Char('\\'));
    QVERIFY(page.startsWith(QStringLiteral(".TH \"PLANLOOM-STUDIO\" 1")));
    for (const QString &name : names)
        QVERIFY2(page.contains(QRegularExpression(QStringLiteral("--%1[\",\\s]").arg(name))), qPrintable(name));
}

void TestStudioProgram::theShellCompletesEveryOption()
{
    QCOMPARE(run({QStringLiteral("--completion")}), 0);
    QVERIFY(writeText(m_folder.filePath(QStringLiteral("studio.bash")), m_printed));
    const auto completed = [&](const QStringList &words) {
        QProcess bash;
        bash.setWorkingDirectory(m_folder.path());
        bash.start(QStringLiteral("bash"),
                   QStringList{QStringLiteral("--norc"), QStringLiteral("-c"),
                               QStringLiteral("source studio.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
                                              "_planloom_studio; printf '%s\\n' \"${COMPREPLY[@]}\""),
                               QStringLiteral("bash")}
                       + words);
        bash.waitForFinished();
        QStringList found =
            QString::fromUtf8(bash.readAllStandardOutput()).split(QLatin1Char('\n'), Qt::SkipEmptyParts);
        found.sort();
        return found;
    };
    const QString program = QStringLiteral("planloom-studio");
    QCOMPARE(completed({program, QStringLiteral("--pl")}), QStringList(QStringLiteral("--play")));
    QCOMPARE(completed({program, QStringLiteral("--theme"), QStringLiteral("")}),
             (QStringList{QStringLiteral("dark"), QStringLiteral("high-contrast"), QStringLiteral("light")}));
    QVERIFY(completed({program, QStringLiteral("--")}).size() > 10);
    QVERIFY(completed({program, QStringLiteral("pl")}).isEmpty()); // files, which bash adds
}

/// As a desktop reads what the package installs.
void TestStudioProgram::desktopsKnowItsFiles()
{
    const QString source = QStringLiteral(PLANLOOM_SOURCE_DIR);
    QVERIFY(QDir().mkpath(m_folder.filePath(QStringLiteral("mime/packages"))));
    QVERIFY(QFile::copy(source + QStringLiteral("/packaging/planloom-mime.xml"),
                        m_folder.filePath(QStringLiteral("mime/packages/planloom.xml"))));
    qputenv("XDG_DATA_HOME", m_folder.path().toUtf8());
    const QMimeDatabase types;
    const QString plan = source + QStringLiteral("/resources/samples/gpt-nano.plan.json");
    QCOMPARE(types.mimeTypeForFile(plan).name(), QStringLiteral("application/vnd.planloom.plan+json"));
    QFile sample(plan);
    QVERIFY(sample.open(QIODevice::ReadOnly));
    const std::pair<QByteArray, const char *> heads[] = {
        {sample.read(4096), "application/vnd.planloom.plan+json"},
        {"PLTRACE4 and more", "application/vnd.planloom.trace"},
        {"{\"schema\": \"planloom.graph/1\"}", "application/vnd.planloom.graph+json"},
        {"{\"schema\": \"planloom.cluster/1\"}", "application/vnd.planloom.cluster+json"},
        {"planloom-script 1\n", "text/vnd.planloom.script"},
    };
    QFile entry(source + QStringLiteral("/packaging/planloom-studio.desktop"));
    QVERIFY(entry.open(QIODevice::ReadOnly));
    const QByteArray text = entry.readAll();
    QVERIFY(text.contains("x-scheme-handler/planloom;") && text.contains("\nExec=planloom-studio %U\n"));
    for (const auto &[head, type] : heads) {
        QCOMPARE(types.mimeTypeForData(head).name(), QLatin1String(type));
        QVERIFY2(text.contains(QByteArray(type) + ';') == !QByteArray(type).startsWith("text/"), type);
    }
}

QTEST_GUILESS_MAIN(TestStudioProgram)
#include "tst_studio_program.moc"
