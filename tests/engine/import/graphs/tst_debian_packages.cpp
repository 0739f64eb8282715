// SPDX-License-Identifier: Apache-2.0
// The dependency graph of a small archive.
#include "engine/import/graphs/debian_packages.h"

#include <QTest>

#include <cmath>

using namespace planloom;

namespace {

constexpr std::string_view kList = R"(Package: editor
Version: 1
Depends: libc (>= 2), mail-agent, viewer | browser, not-in-main
Pre-Depends: installer:any (>= 1.15)
Section: editors
Description: small text editor
 a longer text: that is not read
Tag: a::b,
 c::d

Package: libc
Section: libs
Depends: libc
Description: C library

Package: exim
Section: mail
Provides: mail-agent, smtp (= 4)
Depends: libc
Description: --

Package: postfix
Section: mail
Provides: mail-agent

Package: viewer
Section: editors
Package-Type: deb

Package: installer
Section: admin

Package: libc
Section: oldlibs
Depends: editor
)";

} // namespace

class TestDebianPackages : public QObject {
    Q_OBJECT

private slots:
    void smallArchive()
    {
        const auto graph = import::debianDependencyGraph(kList, "Packages", 8);
        QVERIFY2(graph.ok(), "parsed");
        QVERIFY(gnn::checkGraph(*graph).ok());
        QCOMPARE(graph->nodes(), 6); // the second libc is another version of the first
        const auto neighbours = graph->neighbours(0);
        QCOMPARE(std::vector<std::int64_t>(neighbours.begin(), neighbours.end()),
                 std::vector<std::int64_t>({1, 2, 4, 5})); // libc, exim for mail-agent, viewer, installer
        QCOMPARE(graph->edges(), 5);
        // Sections by size, then name: editors 2, mail 2, admin 1, libs 1.
        QCOMPARE(graph->labels, std::vector<std::int32_t>({0, 3, 1, 1, 0, 2}));
        double length = 0;
        for (std::size_t i = 0; i < 8; ++i)
            length += static_cast<double>(graph->features[i]) * static_cast<double>(graph->features[i]);
        QVERIFY(std::abs(length - 1) < 1e-6);
        for (std::size_t i = 16; i < 24; ++i)
            QCOMPARE(graph->features[i], 0.0F); // exim: no words
    }

    void badLists_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("message");
        QTest::newRow("empty") << QByteArray("\n\n") << 0 << "lists no package";
        QTest::newRow("no name") << QByteArray("Package: a\n\nVersion: 1\nSection: x\n") << 3 << "without a Package";
        QTest::newRow("no field") << QByteArray("Package: a\nhello\n") << 2 << "there is no colon";
    }

    void badLists()
    {
        QFETCH(QByteArray, text);
        QFETCH(int, line);
        QFETCH(QString, message);
        const auto graph = import::debianDependencyGraph(text.toStdString(), "Packages", 8);
        QVERIFY(!graph.ok());
        QCOMPARE(graph.error().line, line);
        QCOMPARE(graph.error().file, std::string("Packages"));
        QVERIFY2(graph.error().message.find(message.toStdString()) != std::string::npos, graph.error().message.c_str());
    }

    void badWidth() { QVERIFY(!import::debianDependencyGraph(kList, "Packages", 0).ok()); }
};

QTEST_GUILESS_MAIN(TestDebianPackages)
#include "tst_debian_packages.moc"
