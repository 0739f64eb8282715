// SPDX-License-Identifier: Apache-2.0
// Targets, items and mirrored folders: what comes from a user or another machine, and may be wrong.
#include "engine/base/files.h"
#include "executor/agent/hosts.h"
#include "executor/remote/clean.h"
#include "executor/remote/guard.h"
#include "executor/remote/items.h"
#include "executor/remote/load.h"
#include "executor/remote/measure.h"
#include "executor/remote/mirror.h"
#include "executor/remote/places.h"
#include "executor/remote/ssh.h"
#include "executor/remote/target.h"
#include "executor/remote/this_machine.h"

#include <QDir>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <sys/file.h>
#include <unistd.h>

using namespace planloom;
using namespace planloom::remote;

class TestRemote : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QVERIFY(m_folder.isValid()); }

    void urls_data()
    {
        QTest::addColumn<QString>("url");
        QTest::addColumn<QString>("parts"); // empty: refused
        QTest::newRow("local") << "local"
                               << " 0 ";
        QTest::newRow("all") << "ssh://ada@gpu1.example.org:2222"
                             << "ada 2222 gpu1.example.org";
        QTest::newRow("host alone") << "ssh://gpu1"
                                    << " 0 gpu1";
        QTest::newRow("IPv6") << "ssh://ada@[fe80::1]:22"
                              << "ada 22 fe80::1";
        for (const char *bad :
             {"", "gpu1", "http://gpu1", "ssh://", "ssh://@gpu1", "ssh://a@b@c", "ssh://gpu1:", "ssh://gpu1:0",
              "ssh://gpu1:70000", "ssh://gpu1:22x", "ssh://-oProxyCommand=x", "ssh://-l@gpu1", "ssh://gpu1/path",
              "ssh://$(x)", "ssh://a;b", "ssh://[fe80::1", "ssh://a b"})
            QTest::newRow(bad) << bad << "";
    }

    void urls()
    {
        QFETCH(QString, url);
        QFETCH(QString, parts);
        const auto target = targetFromUrl(url.toStdString());
        QCOMPARE(target.ok(), !parts.isEmpty());
        if (!target)
            return;
        QCOMPARE(QString::fromStdString(target->user + " " + std::to_string(target->port) + " " + target->address),
                 parts);
        QCOMPARE(target->url(), url.toStdString());
    }

    void targetsComeBack()
    {
        const std::string path = file("config/planloom/targets.json");
        QVERIFY(readTargets(path)->empty());
        Target target = *targetFromUrl("ssh://ada@gpu1:2222");
        target.name = "lab";
        target.program = "/opt/planloom/bin/planloom";
        target.sshConfig = "/etc/lab config";
        QVERIFY(writeTargets({target}, path));
        QCOMPARE(QFile::permissions(QString::fromStdString(path)) & (QFile::ReadGroup | QFile::ReadOther),
                 QFile::Permissions());
        const auto read = readTargets(path);
        QVERIFY2(read, read ? "" : read.error().text().c_str());
        QVERIFY(read->size() == 1 && read->front() == target);
        QVERIFY(*findTarget("lab", path) == target);
        QVERIFY(findTarget("local", path)->isLocal());
        const auto missing = findTarget("other", path);
        QVERIFY(!missing && missing.error().message.find("local, lab") != std::string::npos);
        for (const char *program : {"planloom; rm -rf x", "-x", "../planloom", "a'b", ""}) {
            target.program = program;
            QVERIFY2(!check(target), program);
            QVERIFY(writeTargets({target}, path)); // by hand
            QVERIFY2(!readTargets(path), program);
        }
    }

    void safePaths_data()
    {
        QTest::addColumn<QString>("path");
        QTest::addColumn<bool>("safe");
        for (const char *good : {"a", "my data.txt", "a/b/c.npy", "x_1-2+3@4=5,~"})
            QTest::newRow(good) << good << true;
        for (const char *bad : {"", "/a", "a/", "a//b", "..", "../a", "a/../b", ".ssh/x", "-x", "a\nb", "a\"b", "a'b",
                                "a\\b", "a*", "$(x)", "a;b"})
            QTest::newRow(bad) << bad << false;
        QTest::newRow("long") << QString(201, 'a') << false;
    }

    void safePaths()
    {
        QFETCH(QString, path);
        QFETCH(bool, safe);
        QCOMPARE(isSafePath(path.toStdString()), safe);
        // moc reads no raw string that ends with a quotation mark.
        const std::string item = "{\"folder\":true,\"files\":[{\"path\":\"" + path.toStdString()
            + "\",\"bytes\":1,\"sha256\":\"" + std::string(64, 'a') + "\"}]}";
        QCOMPARE(itemFromJson(item).ok(), safe);
    }

    void itemsAreNamedByContents()
    {
        QVERIFY(QDir(m_folder.path()).mkpath("x/sub") && QDir(m_folder.path()).mkpath("y/sub"));
        for (const char *folder : {"x", "y"}) {
            QVERIFY(writeFileAtomically(file(folder + std::string("/b.npy")), "bb"));
            QVERIFY(writeFileAtomically(file(folder + std::string("/sub/a.npy")), "a"));
        }
        const auto x = itemOf(file("x"));
        const auto y = itemOf(file("y"));
        QVERIFY(x && y);
        QCOMPARE(x->id(), y->id());
        QCOMPARE(x->bytes(), 3);
        QCOMPARE(itemFromJson(toJson(*x))->id(), x->id());
        QVERIFY(writeFileAtomically(file("y/b.npy"), "bc"));
        QVERIFY(itemOf(file("y"))->id() != x->id());
        const auto one = itemOf(file("x/b.npy"));
        QVERIFY(one);
        QCOMPARE(one->entry(), std::string("b.npy"));
        QVERIFY(one->id() != x->id());
        QVERIFY(!itemOf(file("none")));
        QVERIFY(writeFileAtomically(file("y/odd\"name"), "x"));
        QCOMPARE(itemOf(file("y")).error().code, ErrorCode::BadInput);
    }

    /// A model's weights travel with it, what else lies there does not.
    void modelsTakeTheirWeights()
    {
        QVERIFY(writeFileAtomically(file("net.onnx"), "...net.onnx.data..."));
        QVERIFY(writeFileAtomically(file("net.onnx.data"), "weights"));
        QVERIFY(writeFileAtomically(file("private.txt"), "no"));
        const auto item = modelItem(file("net.onnx"));
        QVERIFY2(item, item ? "" : item.error().text().c_str());
        QCOMPARE(item->files.size(), std::size_t{2});
        QCOMPARE(item->entry(), std::string("net.onnx"));
        QCOMPARE(item->files[1].path, std::string("net.onnx.data"));
    }

    /// A plan from anyone may name any file as its model's.
    void plansNameFiles()
    {
        qputenv("XDG_CACHE_HOME", (m_folder.path() + "/cache").toUtf8());
        const QString item = QString::fromStdString(itemsFolder()) + "/" + QString(64, 'e');
        QVERIFY(QDir().mkpath(item));
        const std::string sent = item.toStdString() + "/net.json", secret = file("secret.json");
        for (const std::string &path : {sent, secret, file("text")})
            QVERIFY(writeFileAtomically(path, "{}"));
        const std::string plan = *readFile(PLANLOOM_SOURCE_DIR "/resources/samples/gpt-nano.plan.json");
        const std::string own = "\"source\":\"zoo:gpt-nano\"";
        const auto loadWith = [&](const std::string &source, const NeedsModelFile &needed) {
            agent::TrainRequest request{plan, {}, false, {}};
            request.settings.data = file("text");
            const auto at = request.planJson.find(own);
            request.planJson.replace(at, own.size(), "\"source\":\"" + source + "\"");
            return loadOf(request, needed);
        };
        QVERIFY(plan.find(own) != std::string::npos);
        // On a target: what was sent to it.
        const std::string around = item.toStdString() + "/../../../../secret.json";
        QVERIFY(QFile::exists(QString::fromStdString(around)));
        for (const std::string &source : {secret, around, std::string("zoo:gpt-nano"), std::string()})
            QVERIFY2(!loadWith(source, {})->model, source.c_str());
        QVERIFY(loadWith(sent, {})->model.has_value());
        // Here: what is said by who reads models.
        std::string asked;
        const auto says = [&](Result<bool> answer) {
            return [&asked, answer](const graph::Graph &graph, const std::string &source) {
                asked = source + " " + graph.name();
                return answer;
            };
        };
        QVERIFY(!loadWith(secret, says(false))->model);
        QCOMPARE(asked, secret + " gpt-nano");
        QCOMPARE(loadWith(secret, says(badInput("is no model"))).error().message, std::string("is no model"));
        QCOMPARE(loadWith(secret, says(true))->model->entry(), std::string("secret.json"));
    }

    /// A host that is silent has no guard that could be asked to leave; one whose guard was killed may have.
    void silence_data()
    {
        QTest::addColumn<int>("status");
        QTest::addColumn<QString>("said");
        QTest::addColumn<bool>("silent");
        QTest::newRow("no answers") << 255 << "Timeout, server 10.78.0.13 not responding.\r\n" << true;
        QTest::newRow("no way") << 255 << "client_loop: send disconnect: No route to host" << true;
        QTest::newRow("slow start") << 255 << "ssh: connect to host x port 22: Connection timed out" << true;
        QTest::newRow("closed") << 255 << "Connection to 10.78.0.13 closed by remote host." << false;
        QTest::newRow("guard was killed") << 255 << "" << false;
        QTest::newRow("guard ended") << 0 << "not responding" << false;
    }

    void silence()
    {
        QFETCH(int, status);
        QFETCH(QString, said);
        QFETCH(bool, silent);
        QCOMPARE(isSilence({status, 0}, said.toStdString()), silent);
    }

    /// What a guard hears: that the other end is there, the end, nothing more; silence counts in looks alone.
    void sessionsAreListenedTo()
    {
        int pipe[2];
        QCOMPARE(::pipe(pipe), 0);
        const int before = ::dup(0);
        ::dup2(pipe[0], 0);
        const auto say = [&](const std::string &text) {
            return ::write(pipe[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
        };
        using Said = SessionInput::Said;
        SessionInput input;
        QVERIFY(say(std::string(kAlive) + "\n"));
        QCOMPARE(input.listen(100), Said::Nothing);
        for (int i = 0; i < 3; ++i)
            QCOMPARE(input.listen(1), Said::Nothing);
        const std::string end = kEnd;
        QVERIFY(say(end.substr(0, 5)));
        QCOMPARE(input.listen(100), Said::Nothing);
        QVERIFY(say(end.substr(5) + "\n"));
        QCOMPARE(input.listen(100), Said::End);
        SessionInput other;
        ::close(pipe[1]);
        QCOMPARE(other.listen(100), Said::Gone);
        ::dup2(before, 0);
        ::close(before);
        ::close(pipe[0]);
    }

    /// Clusters whose links cannot be measured, each with the sentence that says why.
    void linksThatCannotBeMeasured_data()
    {
        QTest::addColumn<QStringList>("addresses"); // of nodes of a device each
        QTest::addColumn<int>("devices");
        QTest::addColumn<QString>("error"); // empty: they can
        QTest::newRow("two hosts") << QStringList{"a", "b"} << 1 << "";
        QTest::newRow("one machine") << QStringList{""} << 2 << "";
        QTest::newRow("one device") << QStringList{"a"} << 1 << "one device";
        QTest::newRow("no addresses") << QStringList{"", ""} << 1 << "no node of the cluster c has an address";
        QTest::newRow("one without") << QStringList{"a", ""} << 1 << "n1 of the plan's cluster has no address";
        QTest::newRow("IPv6") << QStringList{"fe80::1", "b"} << 1 << "take no IPv6 addresses";
    }

    void linksThatCannotBeMeasured()
    {
        QFETCH(QStringList, addresses);
        QFETCH(int, devices);
        QFETCH(QString, error);
        cluster::ClusterBuilder builder("c");
        const std::size_t type = builder.type(*cluster::knownDeviceType("CPU"));
        const std::size_t network = builder.vertex({cluster::Vertex::Kind::Network, "network", {}, {}});
        for (int n = 0; n < addresses.size(); ++n) {
            const NodeId node = builder.node("n" + std::to_string(n), 0, {addresses[n].toStdString(), {}, 0, 0});
            for (int d = 0; d < devices; ++d)
                builder.link({cluster::Link::Kind::Network, builder.vertexOf(builder.device(node, type)), network, 1e9,
                              1e9, Seconds(1e-5), true});
        }
        const auto made = std::move(builder).build();
        QVERIFY2(made, made ? "" : made.error().text().c_str());
        const Status good = checkLinks(*made);
        QCOMPARE(good.ok(), error.isEmpty());
        if (!good)
            QVERIFY2(QString::fromStdString(good.error().text()).contains(error), good.error().text().c_str());
    }

    void mirroredFilesGrow()
    {
        std::vector<std::string> events;
        Mirror mirror(m_folder.path().toStdString(), [&](std::string_view line) { events.emplace_back(line); });
        const std::string messages = "a login's words\n{\"file\":\"run/metrics.jsonl\",\"at\":0,\"size\":4}\nabcd"
                                     "{\"alive\":true}\n{\"file\":\"events.jsonl\",\"at\":0,\"size\":9}\n{\"a\":1}\n{"
                                     "{\"file\":\"run/metrics.jsonl\",\"at\":2,\"size\":1}\nX"
                                     "{\"file\":\"events.jsonl\",\"at\":9,\"size\":7}\n\"b\":2}\n"
                                     "{\"file\":\"run/sub/empty\",\"at\":0,\"size\":0}\n";
        for (const char c : messages) // in the smallest pieces
            QVERIFY(mirror.take(std::string_view(&c, 1)));
        QCOMPARE(*readFile(file("metrics.jsonl")), std::string("abX"));
        QCOMPARE(events, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"}));
        QVERIFY(readFile(file("sub/empty")));
        QCOMPARE(mirror.have().at("run/metrics.jsonl"), 3);
        QCOMPARE(mirror.have().at("events.jsonl"), 16);
        QVERIFY(mirror.take("{\"hashes\":{\"run/metrics.jsonl\":\"" + sha256("abY") + "\",\"run/sub/empty\":\""
                            + sha256("") + "\"}}\n"));
        QVERIFY(!mirror.ended());
        QVERIFY(mirror.take("{\"end\":true}\n"));
        QVERIFY(mirror.ended());
        QCOMPARE(mirror.removeDamaged(), (std::vector<std::string>{"run/metrics.jsonl"}));
        QVERIFY(!readFile(file("metrics.jsonl")));
    }

    /// A connection that is lost in the middle of a file or a line, and the next one that goes on from what is here.
    void sessionsFollowEachOther()
    {
        QTemporaryDir folder;
        std::vector<std::string> events;
        Mirror mirror(folder.path().toStdString(), [&](std::string_view line) { events.emplace_back(line); });
        QVERIFY(mirror.take("{\"file\":\"events.jsonl\",\"at\":0,\"size\":12}\n{\"a\":1}\n{\"b\"{\"file\":\"run/log\","
                            "\"at\":0,\"size\":9}\nabc"));
        QCOMPARE(events, (std::vector<std::string>{"{\"a\":1}"}));
        mirror.newSession();
        QCOMPARE(mirror.have().at("run/log"), 3);
        QVERIFY(mirror.take("{\"file\":\"run/log\",\"at\":3,\"size\":2}\nde{\"file\":\"events.jsonl\",\"at\":12,"
                            "\"size\":4}\n:2}\n{\"alive\":tr"));
        mirror.newSession();
        QVERIFY(mirror.take("{\"end\":true}\n"));
        QVERIFY(mirror.ended());
        QCOMPARE(events, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"}));
        QCOMPARE(*readFile(folder.path().toStdString() + "/log"), std::string("abcde"));
    }

    /// A file that arrived damaged is sent again; of its lines those are told that are others.
    void damagedEventsAreToldOnce()
    {
        QTemporaryDir folder;
        std::vector<std::string> events;
        Mirror mirror(folder.path().toStdString(), [&](std::string_view line) { events.emplace_back(line); });
        const std::string good = "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n",
                          head = R"({"file":"events.jsonl","at":0,"size":24})";
        const std::string end = "{\"hashes\":{\"events.jsonl\":\"" + sha256(good) + "\"}}\n{\"end\":true}\n";
        QVERIFY(mirror.take(head + "\n{\"a\":1}\n{\"b\"?2}\n{\"c\":3}\n" + end));
        QCOMPARE(mirror.removeDamaged(), (std::vector<std::string>{"events.jsonl"}));
        QVERIFY(mirror.take(head + "\n" + good + end));
        QVERIFY(mirror.removeDamaged().empty());
        QCOMPARE(events, (std::vector<std::string>{"{\"a\":1}", "{\"b\"?2}", "{\"c\":3}", "{\"b\":2}"}));
    }

    void strangeMessages_data()
    {
        QTest::addColumn<QByteArray>("message");
        QTest::newRow("outside") << QByteArray(R"({"file":"run/../../x","at":0,"size":1})");
        QTest::newRow("absolute") << QByteArray(R"({"file":"/etc/x","at":0,"size":1})");
        QTest::newRow("hidden") << QByteArray(R"({"file":"run/.x","at":0,"size":1})");
        QTest::newRow("a gap") << QByteArray(R"({"file":"run/x","at":5,"size":1})");
        QTest::newRow("negative") << QByteArray(R"({"file":"run/x","at":0,"size":-1})");
        QTest::newRow("no JSON") << QByteArray("{]");
        QTest::newRow("through a link") << QByteArray(R"({"file":"run/link","at":0,"size":1})");
        QTest::newRow("behind a link") << QByteArray(R"({"file":"run/folder/target","at":0,"size":1})");
        QTest::newRow("the way there") << QByteArray(R"({"file":"run/remote.json","at":0,"size":1})");
        QTest::newRow("events by another name") << QByteArray(R"({"file":"run/remote.events.jsonl","at":0,"size":1})");
    }

    void strangeMessages()
    {
        QFETCH(QByteArray, message);
        QTemporaryDir folder;
        QVERIFY(QFile::link(m_folder.path() + "/target", folder.path() + "/link"));
        QVERIFY(QFile::link(m_folder.path(), folder.path() + "/folder"));
        Mirror mirror(folder.path().toStdString(), [](std::string_view) {});
        QVERIFY(!mirror.take(message.toStdString() + "\nx"));
        QVERIFY(!QFile::exists(m_folder.path() + "/target"));
    }

    /// A reply begins a line; a login may print it in the middle of one.
    void repliesAreFound()
    {
        QCOMPARE(findReply("{\"planloom\":1}\n"), std::size_t{0});
        QCOMPARE(findReply("Welcome\n{\"planloom\":1}\n"), std::size_t{8});
        QCOMPARE(findReply("say {\"planloom\":1}\n"), std::string::npos);
        QCOMPARE(findReply(""), std::string::npos);
        QVERIFY(!errorIn("{\"planloom\":\"1\",\"error\":{\"code\":99,\"message\":\"no\"}}", *targetFromUrl("ssh://a")));
        QVERIFY(!errorIn("{\"planloom\":", *targetFromUrl("ssh://a")));
        QVERIFY(errorIn("{\"planloom\":\"1\"}", *targetFromUrl("ssh://a")));
    }

    void failuresAreExplained_data()
    {
        QTest::addColumn<int>("status");
        QTest::addColumn<QString>("said");
        QTest::addColumn<QString>("error");
        QTest::newRow("no program") << 127 << "sh: 1: planloom: not found"
                                    << "no planloom over there";
        QTest::newRow("key") << 255 << "ada@gpu1: Permission denied (publickey)."
                             << "key is not accepted";
        QTest::newRow("name") << 255 << "ssh: Could not resolve hostname gpu1: Name or service not known"
                              << "no host of that name";
        QTest::newRow("route") << 255 << "ssh: connect to host gpu1 port 22: No route to host"
                               << "no way leads there";
        QTest::newRow("refused") << 255 << "ssh: connect to host gpu1 port 22: Connection refused"
                                 << "no way leads there";
        QTest::newRow("host key") << 255 << "Host key verification failed."
                                  << "host's key is not known";
        QTest::newRow("else") << 255 << ""
                              << "ssh ended";
        QTest::newRow("killed there") << 137 << ""
                                      << "exit status 137";
    }

    void failuresAreExplained()
    {
        QFETCH(int, status);
        QFETCH(QString, said);
        QFETCH(QString, error);
        const auto text =
            QString::fromStdString(explain(*targetFromUrl("ssh://ada@gpu1"), {status, 0}, said.toStdString()).text());
        QVERIFY2(text.contains(error) && text.contains("ssh://ada@gpu1"), qPrintable(text));
        const std::string killed = explain(*targetFromUrl("ssh://ada@gpu1"), {0, 9}, {}).text();
        QVERIFY2(killed.find("ssh here was killed by signal 9") != std::string::npos, killed.c_str());
    }

    /// What a run that has joined this machine was given stays, as what a kept run was given.
    void cleanLeavesWhatRunsHave()
    {
        qputenv("XDG_CACHE_HOME", (m_folder.path() + "/cleaned").toUtf8());
        qputenv("XDG_DATA_HOME", (m_folder.path() + "/share").toUtf8());
        const QString items = QString::fromStdString(itemsFolder());
        const QString joined = items + "/" + QString(64, 'a'), kept = items + "/" + QString(64, 'b');
        const QString model = items + "/" + QString(64, 'c'), unused = items + "/" + QString(64, 'd');
        for (const QString &item : {joined, kept, model, unused})
            QVERIFY(QDir().mkpath(item));
        const std::string run = keptFolder("0123456789abcdef");
        QVERIFY(QDir().mkpath(QString::fromStdString(run)));
        QVERIFY(writeFileAtomically(run + "/request.json", kept.toStdString() + "/text"));
        const int lock = ::open((run + "/" + kLockFile).c_str(), O_RDWR | O_CREAT, 0600);
        QVERIFY(::flock(lock, LOCK_EX) == 0 && ::write(lock, "1", 1) == 1); // it goes on
        const std::string meeting =
            agent::meetingFolder("11111111" + QByteArray::number(::getpid()).rightJustified(8, '0').toStdString());
        const auto removed = qScopeGuard([&] { agent::removeMeeting(meeting); });
        QVERIFY(QDir().mkpath(QString::fromStdString(meeting + "/run")));
        QVERIFY(writeFileAtomically(meeting + "/run/request.json", joined.toStdString() + "/text"));
        QVERIFY(writeFileAtomically(meeting + "/run/plan.json", model.toStdString() + "/net.onnx"));
        QCOMPARE(clean(0).items, 1);
        QVERIFY(QFile::exists(joined) && QFile::exists(model) && QFile::exists(kept) && !QFile::exists(unused));
        agent::removeMeeting(meeting);
        QCOMPARE(clean(0).items, 2);
        QVERIFY(!QFile::exists(joined) && QFile::exists(kept));
        ::close(lock);
    }

    void addressesOfThisMachine()
    {
        for (const char *own : {"127.0.0.1", "127.0.1.1", "localhost"})
            QVERIFY2(isThisMachine(own), own);
        for (const char *other : {"0.0.0.0", "203.0.113.7", "255.255.255.255", ""})
            QVERIFY2(!isThisMachine(other), other);
        ifaddrs *all = nullptr;
        QCOMPARE(::getifaddrs(&all), 0);
        for (const ifaddrs *entry = all; entry != nullptr; entry = entry->ifa_next) {
            char text[INET_ADDRSTRLEN] = {};
            if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET)
                continue;
            ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(entry->ifa_addr)->sin_addr, text, sizeof text);
            QVERIFY2(isThisMachine(text), text);
        }
        ::freeifaddrs(all);
    }

    /// A session with a socket has a connection of its own; others use the master of the user's, where one is there.
    void forwardingSessionsShareNoConnection()
    {
        const QByteArray path = qgetenv("PATH");
        QVERIFY(QDir(m_folder.path()).mkpath("bin"));
        QVERIFY(writeFileAtomically(file("bin/ssh"), "#!/bin/sh\nread -r line\necho \"$@\"\n"));
        QFile::setPermissions(m_folder.path() + "/bin/ssh", QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
        qputenv("PATH", (m_folder.path() + "/bin:").toUtf8() + path);
        const auto restored = qScopeGuard([&] { qputenv("PATH", path); });
        const auto wordsOf = [](const std::string &socket) {
            const Target target = *targetFromUrl("ssh://a");
            auto session =
                socket.empty() ? Session::open(target, "{}") : Session::openToHost(target, "{}", socket, "/tmp/here");
            std::string words;
            while (session && !session->outputEnded())
                words += session->read(50);
            return words;
        };
        const std::string with = wordsOf("/tmp/there"), without = wordsOf({});
        QVERIFY2(with.find("ControlPath=none") != std::string::npos, with.c_str());
        QVERIFY2(without.find("-T --") != std::string::npos && without.find("ControlPath") == std::string::npos,
                 without.c_str());
    }

private:
    [[nodiscard]] std::string file(const std::string &name) const { return m_folder.path().toStdString() + "/" + name; }
    QTemporaryDir m_folder;
};

QTEST_GUILESS_MAIN(TestRemote)
#include "tst_remote.moc"
