// SPDX-License-Identifier: Apache-2.0
// Completion scripts, run by the shells that they are for.
#include "app/cli_fixture.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QStandardPaths>
#include <QTest>

using namespace planloom::testing;

class TestCliCompletion : public CliTest {
    Q_OBJECT

private:
    /// What bash completes the last of @p words to, sorted.
    QStringList completed(const QStringList &words) const
    {
        QProcess bash;
        prepare(bash);
        const QString script = QStringLiteral("source planloom.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
                                              "_planloom; printf '%s\\n' \"${COMPREPLY[@]}\"");
        bash.start("bash", QStringList{"--norc", "-c", script, "bash"} + words);
        if (!bash.waitForFinished(kWait) || bash.exitCode() != 0)
            return {QString(bash.readAllStandardError())};
        QStringList found = QString(bash.readAllStandardOutput()).split('\n', Qt::SkipEmptyParts);
        found.sort();
        return found;
    }

private Q_SLOTS:
    void initTestCase()
    {
        const Done done = run({"completion", "bash"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(write(at("planloom.bash"), done.out));
    }

    void verbs()
    {
        const QStringList all = completed({"planloom", ""});
        for (const char *verb : {"simulate", "plan", "completion", "--help", "--version"})
            QVERIFY2(all.contains(verb), qPrintable(all.join(' ')));
        QVERIFY(!all.contains("worker") && !all.contains("transport")); // not for people
        QCOMPARE(completed({"planloom", "si"}), QStringList("simulate"));
        QCOMPARE(completed({"planloom", "pla"}), (QStringList{"place", "plan", "planners"}));
    }

    /// All options that a verb's help lists, of all verbs.
    void optionsAreThoseOfTheHelp()
    {
        static const QRegularExpression option("^  (-\\w,)?(--[a-z0-9-]+)", QRegularExpression::MultilineOption);
        const QStringList verbs = completed({"planloom", ""}).filter(QRegularExpression("^[a-z]"));
        QVERIFY(verbs.size() > 12);
        for (const QString &verb : verbs) {
            QStringList known{};
            auto hits = option.globalMatch(QString(run({verb, "--help"}).out));
            while (hits.hasNext())
                known << hits.next().captured(2);
            known.sort();
            QCOMPARE(completed({"planloom", verb, "--"}), known);
        }
    }

    void values()
    {
        QCOMPARE(completed({"planloom", "plan", "--precision", ""}), (QStringList{"bf16", "fp32"}));
        QCOMPARE(completed({"planloom", "plan", "--precision", "b"}), QStringList("bf16"));
        QCOMPARE(completed({"planloom", "completion", "z"}), QStringList("zsh"));
        QCOMPARE(completed({"planloom", "graph", "s"}), QStringList("sbm"));
        QCOMPARE(completed({"planloom", "graph", "--quiet", "s"}), QStringList("sbm")); // behind what takes no value
        QVERIFY(completed({"planloom", "plan", "--model", ""}).isEmpty());              // files, which bash adds
        QVERIFY(completed({"planloom", "simulate", ""}).isEmpty());
    }

    void zshReadsItsScript()
    {
        const Done done = run({"completion", "zsh"});
        QCOMPARE(done.status, 0);
        QVERIFY(done.out.startsWith("#compdef planloom\n"));
        QVERIFY(done.out.contains("'*--fail-if[") && done.out.contains("]:value:(fp32 bf16)'"));
        if (QStandardPaths::findExecutable("zsh").isEmpty())
            QSKIP("there is no zsh to read the script");
        QVERIFY(write(at("_planloom"), done.out));
        QProcess zsh;
        prepare(zsh);
        zsh.start("zsh", {"-n", "_planloom"});
        QVERIFY(zsh.waitForFinished(kWait));
        QVERIFY2(zsh.exitCode() == 0, zsh.readAllStandardError().constData());
    }

    void wrongUse()
    {
        QCOMPARE(run({"completion"}).status, 2);
        const Done done = run({"completion", "fish"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("fish"), done.err.constData());
        const QJsonObject json = QJsonDocument::fromJson(run({"completion", "bash", "--json"}).out).object();
        QCOMPARE(json["script"].toString().toUtf8(), readAll(at("planloom.bash")));
    }
};

QTEST_GUILESS_MAIN(TestCliCompletion)
#include "tst_cli_completion.moc"
