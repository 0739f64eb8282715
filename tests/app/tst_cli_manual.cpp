// SPDX-License-Identifier: Apache-2.0
// The man page of the command: it says what the help of every verb says.
#include "app/cli_fixture.h"

#include <QRegularExpression>
#include <QStandardPaths>
#include <QTest>

using namespace planloom::testing;

class TestCliManual : public CliTest {
    Q_OBJECT

private:
    QString m_page; ///< without troff's backslashes

    /// The page's part on a verb.
    QString partOf(const QString &verb) const
    {
        const QRegularExpression title("^\\.SS \"planloom " + verb + " ", QRegularExpression::MultilineOption);
        const qsizetype begin = m_page.indexOf(title);
        const qsizetype end =
            m_page.indexOf(QRegularExpression("^\\.S[SH] ", QRegularExpression::MultilineOption), begin + 1);
        return begin < 0 ? QString() : m_page.mid(begin, end - begin);
    }

private Q_SLOTS:
    void initTestCase()
    {
        const Done done = run({"manual"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(write(at("planloom.1"), done.out));
        m_page = QString(done.out).remove('\\');
    }

    void everyOptionOfEveryVerb()
    {
        static const QRegularExpression verb("^  ([a-z]+) ", QRegularExpression::MultilineOption);
        static const QRegularExpression option("^  (?:-\\w,)?(--[a-z0-9-]+)", QRegularExpression::MultilineOption);
        QString help(run({"--help"}).out);
        help = help.mid(help.indexOf("Subcommands:"));
        int verbs = 0;
        int options = 0;
        auto hits = verb.globalMatch(help);
        while (hits.hasNext()) {
            const QString name = hits.next().captured(1);
            const QString part = partOf(name);
            QVERIFY2(!part.isEmpty(), qPrintable(name));
            ++verbs;
            auto found = option.globalMatch(QString(run({name, "--help"}).out));
            while (found.hasNext()) {
                const QString each = found.next().captured(1);
                QVERIFY2(part.contains(QRegularExpression(each + "[\",\\s]")), qPrintable(name + ' ' + each));
                ++options;
            }
        }
        QVERIFY2(verbs > 12 && options > 100, qPrintable(QString("%1 %2").arg(verbs).arg(options)));
        QVERIFY(!partOf("targets add").isEmpty()); // verbs of verbs
        QVERIFY(partOf("worker").isEmpty());       // not for people
    }

    void examplesAndStatus()
    {
        QVERIFY2(partOf("simulate").contains("Example:") && partOf("simulate").contains("    planloom simulate"),
                 qPrintable(partOf("simulate")));
        for (const char *text : {"EXIT STATUS", "the input or the options are wrong", "planloom-studio(1)"})
            QVERIFY2(m_page.contains(text), text);
    }

    void valuesAreNamed()
    {
        const QString part = partOf("plan");
        QVERIFY2(part.contains(".B --json\n") && part.contains(".B --quiet\n"), qPrintable(part)); // flags have none
        QVERIFY2(part.contains(QRegularExpression("\\.BI \"--output, -o\" \" [A-Z]+\"")), qPrintable(part));
        QVERIFY2(part.contains("one of fp32, bf16"), qPrintable(part));
    }

    void troffReadsIt()
    {
        if (QStandardPaths::findExecutable("groff").isEmpty())
            QSKIP("there is no groff to read the page");
        QProcess groff;
        prepare(groff);
        groff.start("groff", {"-man", "-ww", "-Tutf8", "-z", "planloom.1"});
        QVERIFY(groff.waitForFinished(kWait));
        const QByteArray said = groff.readAllStandardError();
        QVERIFY2(groff.exitCode() == 0 && said.isEmpty(), said.left(2000).constData());
    }
};

QTEST_GUILESS_MAIN(TestCliManual)
#include "tst_cli_manual.moc"
