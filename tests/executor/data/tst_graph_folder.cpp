// SPDX-License-Identifier: Apache-2.0
// A graph on disk: written, read back, damaged.
#include "engine/base/files.h"
#include "executor/data/graph_folder.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;

class TestGraphFolder : public QObject {
    Q_OBJECT

    static gnn::GraphData clubs()
    {
        gnn::GraphData graph = gnn::karateClub();
        graph.part = graph.labels;
        return graph;
    }

    static QByteArray contents(const QString &path)
    {
        QFile file(path);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }

private slots:
    void roundTrip_data()
    {
        QTest::addColumn<bool>("parts");
        QTest::newRow("parts") << true;
        QTest::newRow("whole") << false;
    }

    void roundTrip()
    {
        QFETCH(bool, parts);
        QTemporaryDir dir;
        const std::string folder = dir.filePath("deep/er").toStdString();
        QVERIFY(data::writeGraphFolder(clubs(), {"hash", 1, false}, "abc", folder).ok()); // replaced by the second
        gnn::GraphData graph = clubs();
        if (!parts)
            graph.part.clear();
        QVERIFY(data::writeGraphFolder(graph, {"hash", 1, false}, {}, folder).ok());
        QVERIFY(data::isGraphFolder(folder));
        const auto read = data::readGraphFolder(folder);
        QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
        QCOMPARE(read->source, graph.source);
        QCOMPARE(read->offsets, graph.offsets);
        QCOMPARE(read->arcs, graph.arcs);
        QCOMPARE(read->features, graph.features);
        QCOMPARE(read->labels, graph.labels);
        QCOMPARE(read->part, graph.part);
        QCOMPARE(read->width, graph.width);
    }

    void damagedFolders_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<int>("what"); // 0: removed, 1: a byte changed, 2: replaced by text, 3: cut short; 4: no hashes
        QTest::addColumn<QString>("message");
        QTest::newRow("no note") << "graph.json" << 0 << "graph.json";
        QTest::newRow("no labels") << "labels.npy" << 0 << "labels.npy";
        QTest::newRow("another file") << "features.npy" << 1 << "not the file that graph.json was written with";
        QTest::newRow("text") << "graph.json" << 2 << "graph.json:1";
        QTest::newRow("no array") << "part.npy" << 5 << "is no .npy file";
        QTest::newRow("short") << "indptr.npy" << 6 << "cut short";
    }

    void damagedFolders()
    {
        QFETCH(QString, file);
        QFETCH(int, what);
        QFETCH(QString, message);
        QTemporaryDir dir;
        const std::string folder = dir.path().toStdString();
        QVERIFY(data::writeGraphFolder(clubs(), {"hash", 1, false}, {}, folder).ok());
        const QString path = dir.filePath(file);
        QByteArray bytes = contents(path);
        if (what == 1)
            bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
        if (what == 2 || what == 5)
            bytes = "hello";
        if (what == 6)
            bytes.chop(4);
        if (what == 0)
            QVERIFY(QFile::remove(path));
        else
            QVERIFY(writeFileAtomically(path.toStdString(), bytes.toStdString()).ok());
        if (what >= 5) { // accepted whatever they are
            QByteArray note = contents(dir.filePath("graph.json"));
            note.truncate(note.indexOf("\"files\""));
            note += "\"files\": {}}";
            QVERIFY(writeFileAtomically(dir.filePath("graph.json").toStdString(), note.toStdString()).ok());
        }
        const auto read = data::readGraphFolder(folder);
        QVERIFY(!read.ok());
        QVERIFY2(read.error().text().find(message.toStdString()) != std::string::npos, read.error().text().c_str());
        QVERIFY(read.error().file.starts_with(folder));
    }

    void badGraphsAreNotWritten()
    {
        QTemporaryDir dir;
        gnn::GraphData graph = clubs();
        graph.arcs[0] = 0;
        QVERIFY(!data::writeGraphFolder(graph, {}, {}, dir.filePath("g").toStdString()).ok());
        QVERIFY(!QFile::exists(dir.filePath("g")));
    }

    void asymmetricGraphsAreNotRead()
    {
        QTemporaryDir dir;
        const std::string folder = dir.path().toStdString();
        gnn::GraphData graph = clubs();
        QVERIFY(data::writeGraphFolder(graph, {}, {}, folder).ok());
        QByteArray arcs = contents(dir.filePath("indices.npy"));
        arcs[arcs.size() - 8] = 1; // the last neighbour of the last node
        QVERIFY(writeFileAtomically(dir.filePath("indices.npy").toStdString(), arcs.toStdString()).ok());
        QByteArray note = contents(dir.filePath("graph.json"));
        note.replace("\"indices.npy\"", "\"other\"");
        QVERIFY(writeFileAtomically(dir.filePath("graph.json").toStdString(), note.toStdString()).ok());
        const auto read = data::readGraphFolder(folder);
        QVERIFY(!read.ok() && read.error().code == ErrorCode::BadInput);
    }
};

QTEST_GUILESS_MAIN(TestGraphFolder)
#include "tst_graph_folder.moc"
