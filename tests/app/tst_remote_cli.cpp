// SPDX-License-Identifier: Apache-2.0
// `planloom train --on` as a user runs it, where `ssh` is a program that runs the command in another home of this
// machine; files go through the real sftp. tests/lab/remote is the same with sshd on another host.
#include "app/cli_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTest>
#include <csignal>

using namespace planloom::testing;

class TestRemoteCli : public CliTest {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        if (!QFile::exists(kServer) || !QFile::exists("/usr/bin/sftp"))
            QSKIP("there is no sftp-server (Debian: openssh-sftp-server)");
        QVERIFY(QDir(m_folder.path()).mkpath("bin") && QDir(m_folder.path()).mkpath("there"));
        ssh();
        script("sftp", QString("exec /usr/bin/sftp -q -b - -D ") + kServer);
        qputenv("PATH", (at("bin") + ":").toUtf8() + qgetenv("PATH"));
        qputenv("XDG_CONFIG_HOME", at("config").toUtf8());
        QCOMPARE(run({"plan", "--model", "zoo:mlp", "--cluster", "local:2", "--batch", "16", "--planner",
                      "data-parallel", "-o", "p.json"})
                     .status,
                 0);
        const Done added = run({"targets", "add", "lab", "ssh://ada@gpu1", "--program", binary()});
        QVERIFY2(added.status == 0, added.err);
    }

    void checkSaysWhatIsThere()
    {
        const Done done = run({"targets", "check", "lab", "--json"});
        QVERIFY2(done.status == 0, done.err);
        QVERIFY(QJsonDocument::fromJson(done.out).object()["slots"].toInt() > 0);
        QVERIFY(QJsonDocument::fromJson(done.out).object()["memory_available"].toDouble() > 0);
    }

    /// The same losses as here; the run's folder is here; what was sent stays.
    void trainsOverThere()
    {
        const Done here = run(train("here", {}));
        QVERIFY2(here.status == 0, here.err);
        const Done there = run(train("there-1", {"--on", "lab"}));
        QVERIFY2(there.status == 0, there.err);
        QCOMPARE(losses("there-1"), losses("here"));
        for (const char *name : {"trace.pltrace", "summary.json", "plan.json", "log", "metrics.db"})
            QVERIFY2(QFile::exists(at(QString("there-1/") + name)), name);
        QVERIFY(there.err.contains(" 0 of "));
        const Done again = run(train("there-2", {"--on", "lab"}));
        QVERIFY2(again.status == 0 && again.err.contains("0 bytes are sent"), again.err);
        const Done attached = run({"attach", "there-2", "--json"});
        QVERIFY2(attached.status == 0, attached.err);
        QCOMPARE(attached.out.count("\"step\""), 3);
        QCOMPARE(run({"compare", "there-1", "there-2"}).status, 0);
    }

    /// What was cut off is not sent again; what arrived damaged is.
    void sentPartsStay()
    {
        const QString items = at("there/.cache/planloom/items");
        const QStringList names = entries(items);
        QCOMPARE(names.size(), 1); // the data
        const QString part = items + "/" + names[0] + ".part", file = part + "/digits.csv.gz";
        QVERIFY(QDir().rename(items + "/" + names[0], part));
        const qint64 whole = QFileInfo(file).size();
        QVERIFY(QFile::resize(file, whole / 2));
        const Done half = run(train("half", {"--on", "lab"}));
        QVERIFY2(half.status == 0 && half.err.contains(QByteArray::number(whole - whole / 2) + " bytes are sent"),
                 half.err);
        QVERIFY(QDir().rename(items + "/" + names[0], part));
        QVERIFY(write(file, QByteArray(whole / 2, 'x')));
        const Done damaged = run(train("damaged", {"--on", "lab"}));
        QVERIFY2(damaged.status == 1 && damaged.err.contains("arrived damaged"), damaged.err);
        QVERIFY(!QFile::exists(at("damaged")));
        QCOMPARE(run(train("damaged", {"--on", "lab"})).status, 0);
    }

    /// The run over there ends with Ctrl-C here, and leaves no process.
    void interruptEndsTheRun()
    {
        QProcess process;
        start(process, train("long", {"--on", "lab", "--checkpoint-every", "5"}, 1000000));
        while (!process.readAllStandardOutput().contains("\"step\":2,"))
            QVERIFY(process.waitForReadyRead(kWait));
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(!QFile::exists(at("long/checkpoints")));
        QTRY_VERIFY_WITH_TIMEOUT(keepers().isEmpty(), kWait);
        QCOMPARE(run({"attach", "long", "--checkpoints", "newest", "--quiet"}).status,
                 1); // its outcome: it was stopped
        QCOMPARE(entries(at("long/checkpoints")).filter(QRegularExpression("^step-[0-9]+$")).size(), 1);
    }

    /// A connection that is gone ends nothing.
    void lostConnectionIsAttachedAgain()
    {
        QProcess process;
        start(process, train("lost", {"--on", "lab"}, 1000000));
        while (!process.readAllStandardOutput().contains("\"step\":2,"))
            QVERIFY(process.waitForReadyRead(kWait));
        process.kill();
        QVERIFY(process.waitForFinished(kWait));
        QVERIFY(!keepers().isEmpty());
        QProcess again;
        start(again, {"attach", "lost", "--json"});
        QByteArray out;
        while (!(out += again.readAllStandardOutput()).contains("\"step\":20,"))
            QVERIFY(again.waitForReadyRead(kWait));
        ::kill(static_cast<pid_t>(again.processId()), SIGINT);
        QVERIFY(again.waitForFinished(kWait));
        QVERIFY(again.readAllStandardError().contains("stopped"));
        QTRY_VERIFY_WITH_TIMEOUT(keepers().isEmpty(), kWait);
    }

    /// A run that was stopped goes on over there, from its checkpoint, to the losses of one that was not.
    void stoppedRunsGoOn()
    {
        QCOMPARE(run(train("whole", {}, 30)).status, 0);
        QProcess process;
        start(process, train("parts", {"--on", "lab", "--checkpoint-every", "5"}, 1000000));
        while (!process.readAllStandardOutput().contains("\"step\":12,"))
            QVERIFY(process.waitForReadyRead(kWait));
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(kWait));
        const auto done = losses("parts").size();
        const QString more = QString::number(done + 5);
        const Done other =
            run({"train", "p.json", "--resume", "--run-dir", "parts", "--steps", more, "--on", "ssh://gpu9"});
        QVERIFY2(other.status == 2 && other.err.contains("the run is on ssh://ada@gpu1"), other.err);
        const Done resumed = run({"train", "parts", "--resume", "--steps", more, "--json"});
        QVERIFY2(resumed.status == 0, resumed.err);
        QCOMPARE(losses("parts").size(), done + 5);
        const auto whole = losses("whole");
        QCOMPARE(losses("parts").mid(0, whole.size()), whole.mid(0, std::min(whole.size(), done + 5)));
        QVERIFY(!resumed.out.contains("\"step\":2,")); // it is told of what is new
    }

    /// request.json in the run's folder here comes from over there, and says nothing of what is sent.
    void resumedRunsSendNothingUnasked()
    {
        const Done begun = run(train("part", {"--on", "lab", "--checkpoint-every", "2"}, 4));
        QVERIFY2(begun.status == 0, begun.err);
        const QStringList items = entries(at("there/.cache/planloom/items"));
        QVERIFY(write(at("secret.csv"), "1,2\n"));
        QVERIFY(QDir(m_folder.path()).mkpath("sub"));
        int steps = 4;
        for (const QString &named : {at("sub/../secret.csv"), QString("secret.csv"), at("none")}) {
            QJsonObject request = QJsonDocument::fromJson(readAll(at("part/request.json"))).object();
            request["data"] = named;
            QVERIFY(write(at("part/request.json"), QJsonDocument(request).toJson()));
            steps += 2;
            const Done resumed = run({"train", "part", "--resume", "--steps", QString::number(steps), "--json"});
            QVERIFY2(resumed.status == 0, resumed.err);
            QCOMPARE(losses("part").size(), steps);
            QCOMPARE(entries(at("there/.cache/planloom/items")), items);
        }
        const Done other = run({"train", "part", "--resume", "--steps", "12", "--data", "secret.csv"});
        QVERIFY2(other.status != 0, other.err); // it is sent, and is not what the model takes
        QCOMPARE(entries(at("there/.cache/planloom/items")).size(), items.size() + 1);
    }

    /// What arrives damaged again and again is not here, and that is said; no step is told twice.
    void damagedFilesAreNamed()
    {
        ssh(R"( | LC_ALL=C sed -u -e 's/"events.jsonl":"/&0/' -e 's/"run.log":"/&0/' )"); // their hashes
        const Done damaged = run(train("spoilt", {"--on", "lab"}));
        ssh();
        QCOMPARE(damaged.status, 1);
        QVERIFY2(damaged.err.contains("arrived damaged 3 times and are not here: events.jsonl, run/log"), damaged.err);
        QCOMPARE(damaged.out.count("\"step\""), 3);
        QVERIFY(!QFile::exists(at("spoilt/log")));
        const Done attached = run({"attach", "spoilt", "--json"});
        QVERIFY2(attached.status == 0, attached.err);
        QVERIFY(QFile::exists(at("spoilt/log")));
    }

    /// A model's file goes there if the plan's values are in it. What else a plan names is not sent.
    void plansSendTheirModelAlone()
    {
        const auto items = [this] { return entries(at("there/.cache/planloom/items")).size(); };
        const QByteArray model = R"({"schema": "planloom.graph/1", "name": "stored", "tensors": [
            {"name": "x", "type": "float32", "shape": ["N", 64], "role": "input"}, {"name": "labels", "type": "int64", "shape": ["N"], "role": "input"},
            {"name": "w", "type": "float32", "shape": [64, 20], "role": "parameter", "init": {"kind": "data", "data": "WEIGHTS"}},
            {"name": "y", "type": "float32", "shape": ["N", 20], "role": "activation"}, {"name": "loss", "type": "float32", "shape": [], "role": "activation"},
            {"name": "loss:1", "type": "float32", "shape": ["N", 2], "role": "activation"}], "ops": [
            {"type": "MatMul", "name": "product", "scope": "head", "inputs": ["x", "w"], "outputs": ["y"]},
            {"type": "SoftmaxCrossEntropyLoss", "name": "loss", "inputs": ["y", "labels"], "outputs": ["loss", "loss:1"], "attributes": {}}],
            "outputs": ["loss"], "loss": "loss"})";
        QVERIFY(
            write(at("stored.json"), QByteArray(model).replace("WEIGHTS", QByteArray(64 * 20 * 4, '\0').toBase64())));
        const Done planned = run({"plan", "--model", "stored.json", "--cluster", "local:2", "--planner",
                                  "data-parallel", "--batch", "16", "-o", "stored.plan.json", "--quiet"});
        QVERIFY2(planned.status == 0, planned.err);
        const auto before = items();
        QStringList words = train("stored", {"--on", "lab"});
        words[1] = "stored.plan.json";
        const Done trained = run(words);
        QVERIFY2(trained.status == 0 && trained.err.contains("needs the model's file, " + at("stored.json").toUtf8()),
                 trained.err);
        QCOMPARE(items(), before + 1);

        QVERIFY(write(at("secret.json"), R"({"token": 1})"));
        const QByteArray plan = readAll(at("stored.plan.json")), own = readAll(at("p.json"));
        QVERIFY(
            write(at("bad.json"), QByteArray(plan).replace(at("stored.json").toUtf8(), at("secret.json").toUtf8())));
        words = train("bad", {"--on", "lab"});
        words[1] = "bad.json";
        const Done refused = run(words);
        QVERIFY2(refused.status == 2 && refused.err.contains("secret.json"), refused.err);
        QVERIFY(!QFile::exists(at("bad")));
        QVERIFY(own.contains("zoo:mlp"));
        QVERIFY(write(at("named.json"), QByteArray(own).replace("zoo:mlp", at("secret.json").toUtf8())));
        words = train("named", {"--on", "lab"});
        words[1] = "named.json";
        const Done named = run(words);
        QVERIFY2(named.status == 0, named.err);
        QCOMPARE(items(), before + 1);
    }

    void cleanLeavesWhatIsNew()
    {
        const QString kept = at("there/data/planloom/kept"), items = at("there/.cache/planloom/items");
        const auto runs = entries(kept).size();
        QVERIFY(runs > 0);
        const Done none = run({"targets", "clean", "lab", "--json"});
        QVERIFY2(none.status == 0, none.err);
        const QJsonObject said = QJsonDocument::fromJson(none.out).object();
        QCOMPARE(said["runs"].toInt(), 0);
        QCOMPARE(said["kept"].toInt(), static_cast<int>(runs));
        QProcess process;
        start(process, train("going", {"--on", "lab"}, 1000000));
        while (!process.readAllStandardOutput().contains("\"step\":2,"))
            QVERIFY(process.waitForReadyRead(kWait));
        const Done all = run({"targets", "clean", "lab", "--days", "0", "--json"});
        QVERIFY2(all.status == 0, all.err);
        QCOMPARE(QJsonDocument::fromJson(all.out).object()["runs"].toInt(), static_cast<int>(runs));
        QCOMPARE(QJsonDocument::fromJson(all.out).object()["running"].toInt(), 1);
        QCOMPARE(entries(kept).size(), 1);
        QCOMPARE(entries(items).size(), 1); // what the run that goes on was given
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(run({"targets", "clean", "lab", "--days", "0"}).status, 0);
        QVERIFY(entries(kept).isEmpty() && entries(items).isEmpty());
        const Done gone = run({"attach", "going"});
        QVERIFY2(gone.status != 0 && gone.err.contains("there is no run"), gone.err);
    }

    void anotherVersionIsRefused()
    {
        script("planloom-old", "cat >/dev/null; echo '{\"planloom\":\"0.0.1\",\"folder\":\"/x\",\"items\":[]}'");
        QCOMPARE(run({"targets", "add", "old", "ssh://gpu2", "--program", at("bin/planloom-old")}).status, 0);
        for (const QStringList &words : {QStringList{"targets", "check", "old"}, train("old", {"--on", "old"})}) {
            const Done done = run(words);
            QCOMPARE(done.status, 2);
            QVERIFY2(done.err.contains("is version 0.0.1, here it is"), done.err);
        }
        QVERIFY(!QFile::exists(at("old")));
    }

    /// A terminal obeys nothing that another machine says.
    void strangeWordsAreShown()
    {
        script("planloom-odd",
               "cat >/dev/null; cat <<'END'\n{\"planloom\":\"0.0.1\",\"error\":{\"code\":6,\"message\":"
               "\"it\\u001b]0;x\\u0007 \\u009b2J\\u007f\\r is \u00e4rgerlich\"}}\nEND");
        QCOMPARE(run({"targets", "add", "odd", "ssh://gpu2", "--program", at("bin/planloom-odd")}).status, 0);
        const Done done = run({"targets", "check", "odd"});
        QVERIFY2(done.err.contains("it?]0;x? ?2J?? is \u00e4rgerlich\n"), done.err);
    }

    /// Operators and links of a machine, measured over there.
    void profilesOverThere()
    {
        QVERIFY(write(at("two.yaml"),
                      "name: two\nnodes: [{device: CPU, devices_per_node: 2, intra: {bandwidth: 5 GB/s}}]\n"));
        const Done done = run({"profile", "--on", "lab", "--model", "zoo:mlp", "--samples", "1", "--repetitions", "1",
                               "--cluster", "two.yaml", "-o", "there.profile.json", "--links", "measured.json"});
        QVERIFY2(done.status == 0, done.err);
        QVERIFY2(done.out.contains("on ssh://ada@gpu1: measured on"), done.out);
        QVERIFY2(done.out.contains("NOMINAL") && done.out.contains("point to point"), done.out);
        QCOMPARE(run({"plan", "--model", "zoo:mlp", "--cluster", "measured.json", "--batch", "16", "--profile",
                      "there.profile.json", "-o", "measured.plan.json"})
                     .status,
                 0);
        const Done compared = run({"compare", "two.yaml", "measured.json", "--json"});
        QVERIFY2(compared.status == 0, compared.err);
        const QJsonArray links = QJsonDocument::fromJson(compared.out).object()["links"].toArray();
        QCOMPARE(links.size(), 1);
        QCOMPARE(links[0].toObject()["first"].toObject()["point_to_point"].toDouble(), 5e9);
        QVERIFY(links[0].toObject()["second"].toObject()["point_to_point"].toDouble() != 5e9);
        const Done others = run({"compare", "two.yaml", "preset:dapple-a"});
        QVERIFY2(others.status == 2 && others.err.contains("do not have the same nodes"), others.err);
        const Done plan = run({"profile", "--on", "lab", "--plan", "p.json", "--repetitions", "1", "--json"});
        QVERIFY2(plan.status == 0, plan.err);
        QVERIFY(!QJsonDocument::fromJson(plan.out).object()["kernels"].toObject().isEmpty());
        QVERIFY(keepers(at("there")).isEmpty());
    }

    void profilesThatCannotBe_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("error");
        const QStringList model{"--model", "zoo:mlp"};
        QTest::newRow("no address") << QStringList{"--on", "lab", "--cluster", "preset:dapple-a"}
                                    << "no node of the cluster dapple-a has an address";
        QTest::newRow("here") << QStringList{"--on", "local"} + model << "is this machine";
        QTest::newRow("no target") << QStringList{"--on", "nowhere"} + model << "nowhere";
        QTest::newRow("another version") << QStringList{"--on", "older"} + model << "is version 0.0.1, here it is";
        QTest::newRow("no links") << QStringList{"--on", "lab", "--links", "x.json"} + model << "no links are measured";
        QTest::newRow("no profile") << QStringList{"--on", "lab", "--cluster", "local:2", "-o", "x.json"}
                                    << "links alone are no profile";
        QTest::newRow("no such model") << QStringList{"--on", "lab", "--model", "zoo:none"} << "none";
    }

    void profilesThatCannotBe()
    {
        QFETCH(QStringList, words);
        QFETCH(QString, error);
        script("planloom-older", "head -1 >/dev/null; echo '{\"planloom\":\"0.0.1\"}'");
        QCOMPARE(run({"targets", "add", "older", "ssh://gpu2", "--program", at("bin/planloom-older")}).status, 0);
        const Done done = run(QStringList{"profile"} + words);
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains(error.toUtf8()), done.err);
        QCOMPARE(done.err.count('\n'), 1);
    }

    /// Ctrl-C here ends what measures there.
    void interruptEndsAMeasurement()
    {
        QProcess process;
        start(process, {"profile", "--on", "lab", "--plan", "p.json", "--repetitions", "10000"});
        QTRY_VERIFY_WITH_TIMEOUT(!keepers(at("there")).filter("profile.json").isEmpty(), kWait);
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(kWait));
        QVERIFY(process.exitCode() != 0);
        QVERIFY(keepers(at("there")).isEmpty());
    }

    void strangeRequestsAreRefused_data()
    {
        QTest::addColumn<QByteArray>("request");
        QTest::newRow("none") << QByteArray();
        QTest::newRow("no JSON") << QByteArray("ls\n");
        QTest::newRow("no such") << QByteArray("{\"do\":\"shell\"}\n");
        QTest::newRow("a run outside") << QByteArray("{\"do\":\"follow\",\"run\":\"../../etc\"}\n");
        QTest::newRow("no run") << QByteArray("{\"do\":\"stop\",\"run\":\"0123456789abcdef\"}\n");
        QTest::newRow("a file outside") << QByteArray(
            R"({"do":"need","items":[{"folder":true,"files":[{"path":"../x","bytes":1,"sha256":"a"}]}]})"
            "\n");
        QTest::newRow("a model outside") << QByteArray(
            "{\"do\":\"operators\",\"plan\":\"\",\"model_name\":\"/etc/passwd\",\"device\":\"cpu\",\"samples\":[],"
            "\"sequence\":0,\"ranks\":0,\"threads\":0,\"repetitions\":0}\n");
        QTest::newRow("an option as a device") << QByteArray(
            "{\"do\":\"operators\",\"plan\":\"\",\"model_name\":\"zoo:mlp\",\"device\":\"--help\",\"samples\":[],"
            "\"sequence\":0,\"ranks\":0,\"threads\":0,\"repetitions\":0}\n");
        QTest::newRow("links of no run") << QByteArray("{\"do\":\"links\",\"run\":\"../../x\",\"cluster\":\"{}\"}\n");
        QTest::newRow("links of no cluster")
            << QByteArray("{\"do\":\"links\",\"run\":\"0123456789abcdef\",\"cluster\":\"{}\"}\n");
        QTest::newRow("data that are not there")
            << QByteArray("{\"do\":\"start\",\"plan\":\"{}\",\"settings\":\"{}\",\"data\":{\"folder\":false,\"files\":["
                          "{\"path\":\"x\",\"bytes\":1,\"sha256\":\""
                          + QByteArray(64, 'a') + "\"}]}}\n");
    }

    void strangeRequestsAreRefused()
    {
        QFETCH(QByteArray, request);
        QProcess process;
        prepare(process);
        process.start(binary(), {"host"});
        process.write(request);
        process.closeWriteChannel();
        QVERIFY(process.waitForFinished(kWait));
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(process.readAllStandardOutput().contains("\"error\""));
    }

private:
    static constexpr const char *kServer = "/usr/lib/openssh/sftp-server";

    /// @p behind: what the words of the other end go through.
    void ssh(const QString &behind = {})
    {
        script("ssh",
               "for last; do :; done; " + QString(behind.isEmpty() ? "exec " : "") + "env HOME=" + at("there")
                   + " XDG_DATA_HOME=" + at("there/data") + " XDG_CACHE_HOME=" + at("there/.cache") + " sh -c \"$last\""
                   + behind);
    }

    void script(const QString &name, const QString &text)
    {
        QVERIFY(write(at("bin/" + name), "#!/bin/sh\n" + text.toUtf8() + "\n"));
        QFile::setPermissions(at("bin/" + name), QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    }

    static QStringList train(const QString &folder, const QStringList &more, int steps = 3)
    {
        return QStringList{"train",     "p.json",
                           "--data",    PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz",
                           "--steps",   QString::number(steps),
                           "--run-dir", folder,
                           "--json"}
        + more;
    }

    [[nodiscard]] QList<double> losses(const QString &folder) const
    {
        QList<double> found;
        for (const QByteArray &line : readAll(at(folder + "/metrics.jsonl")).split('\n'))
            if (!line.isEmpty())
                found << QJsonDocument::fromJson(line).object()["loss"].toDouble();
        return found;
    }

    /// Processes that keep a run, and what they started.
    [[nodiscard]] QStringList keepers() const { return keepers(at("there/data")); }

    /// Processes with @p folder, of the other home, in their arguments or environment.
    [[nodiscard]] static QStringList keepers(const QString &folder)
    {
        QStringList found;
        for (const QString &id : QDir("/proc").entryList(QDir::Dirs | QDir::NoDotAndDotDot)) {
            if (id.toInt() <= 0)
                continue;
            const QByteArray line = readAll("/proc/" + id + "/cmdline");
            if ((line + readAll("/proc/" + id + "/environ")).contains(folder.toUtf8()))
                found << line;
        }
        return found;
    }
};

QTEST_GUILESS_MAIN(TestRemoteCli)
#include "tst_remote_cli.moc"
