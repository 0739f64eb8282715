// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QTemporaryDir>
#include <QTest>
#include <csignal>
#include <sys/resource.h>
#include <unistd.h>

using namespace planloom;

class TestFiles : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;
    [[nodiscard]] std::string at(const char *name) const { return m_folder.filePath(name).toStdString(); }
    [[nodiscard]] QStringList entries() const
    {
        return QDir(m_folder.path()).entryList(QDir::AllEntries | QDir::NoDotAndDotDot);
    }

private Q_SLOTS:
    void init()
    {
        QDir(m_folder.path()).removeRecursively();
        QDir().mkpath(m_folder.path());
    }

    void readsWhatWasWritten()
    {
        const std::string bytes("a\0b\n", 4);
        QVERIFY(writeFileAtomically(at("f"), bytes).ok());
        QCOMPARE(*readFile(at("f")), bytes);
        QVERIFY(writeFileAtomically(at("f"), "").ok());
        QCOMPARE(*readFile(at("f")), std::string());
        QCOMPARE(entries(), QStringList("f"));
    }

    void readErrors_data()
    {
        QTest::addColumn<QString>("path");
        QTest::addColumn<int>("code");
        QTest::newRow("missing") << m_folder.filePath("none") << static_cast<int>(ErrorCode::NotFound);
        QTest::newRow("folder") << m_folder.path() << static_cast<int>(ErrorCode::BadInput);
        QTest::newRow("device") << "/dev/null" << static_cast<int>(ErrorCode::BadInput);
        QTest::newRow("file as folder") << "/dev/null/x" << static_cast<int>(ErrorCode::NotFound);
    }

    void readErrors()
    {
        QFETCH(QString, path);
        QFETCH(int, code);
        const auto read = readFile(path.toStdString());
        QVERIFY(!read.ok());
        QCOMPARE(static_cast<int>(read.error().code), code);
        QCOMPARE(QString::fromStdString(read.error().file), path);
    }

    void readLimit()
    {
        QVERIFY(writeFileAtomically(at("f"), "12345").ok());
        QVERIFY(readFile(at("f"), 5).ok());
        QCOMPARE(readFile(at("f"), 4).error().code, ErrorCode::BadInput);
    }

    void aFullDiskKeepsTheOldFile()
    {
        QVERIFY(writeFileAtomically(at("f"), "old").ok());
        rlimit before{};
        getrlimit(RLIMIT_FSIZE, &before);
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit low{1000, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &low);
        const Status refused = writeFileAtomically(at("f"), std::string(5000, 'x'));
        setrlimit(RLIMIT_FSIZE, &before);
        QVERIFY(!refused.ok());
        QCOMPARE(refused.error().code, ErrorCode::Io);
        QCOMPARE(refused.error().file, at("f"));
        QCOMPARE(*readFile(at("f")), std::string("old"));
        QCOMPARE(entries(), QStringList("f"));
    }

    void placesThatCannotBeWritten()
    {
        QCOMPARE(writeFileAtomically(at("none/f"), "x").error().code, ErrorCode::Io);
        QDir().mkpath(m_folder.filePath("d"));
        QCOMPARE(writeFileAtomically(at("d"), "x").error().code, ErrorCode::BadInput);
        QCOMPARE(entries(), QStringList("d"));
    }

    void withoutCommitNothingIsLeft()
    {
        {
            auto file = AtomicFile::create(at("f"));
            QVERIFY(file->write("half").ok());
            QCOMPARE(entries().size(), 1);
        }
        QVERIFY(entries().isEmpty());
        auto file = AtomicFile::create(at("f"));
        QVERIFY(file->write("one ").ok());
        AtomicFile moved = std::move(*file);
        QVERIFY(moved.write("two").ok());
        QVERIFY(!QFileInfo::exists(m_folder.filePath("f")));
        QVERIFY(moved.commit().ok());
        QCOMPARE(*readFile(at("f")), std::string("one two"));
    }

    void readsBeneathItsFolderOnly_data()
    {
        QTest::addColumn<QString>("relative");
        QTest::addColumn<qint64>("offset");
        QTest::addColumn<qint64>("length");
        QTest::addColumn<QString>("bytes"); // empty: refused
        QTest::newRow("whole") << "in/data" << qint64(0) << qint64(-1) << "0123456789";
        QTest::newRow("part") << "in/data" << qint64(3) << qint64(4) << "3456";
        QTest::newRow("to the end") << "in/data" << qint64(8) << qint64(-1) << "89";
        QTest::newRow("beyond the end") << "in/data" << qint64(8) << qint64(3) << "";
        QTest::newRow("offset beyond the end") << "in/data" << qint64(11) << qint64(-1) << "";
        QTest::newRow("negative offset") << "in/data" << qint64(-1) << qint64(2) << "";
        QTest::newRow("sum overflows") << "in/data" << qint64(1) << std::numeric_limits<qint64>::max() << "";
        QTest::newRow("upwards") << "../secret" << qint64(0) << qint64(-1) << "";
        QTest::newRow("up and down") << "in/../../secret" << qint64(0) << qint64(-1) << "";
        QTest::newRow("absolute") << "/etc/hostname" << qint64(0) << qint64(-1) << "";
        QTest::newRow("symbolic link") << "in/link" << qint64(0) << qint64(-1) << "";
        QTest::newRow("hard link") << "in/hard" << qint64(0) << qint64(-1) << "";
        QTest::newRow("folder") << "in" << qint64(0) << qint64(-1) << "";
        QTest::newRow("missing") << "in/none" << qint64(0) << qint64(-1) << "";
    }

    void readsBeneathItsFolderOnly()
    {
        QFETCH(QString, relative);
        QFETCH(qint64, offset);
        QFETCH(qint64, length);
        QFETCH(QString, bytes);
        QVERIFY(QDir().mkpath(m_folder.filePath("model/in")));
        QVERIFY(writeFileAtomically(at("secret"), "secret").ok());
        QVERIFY(writeFileAtomically(at("model/in/data"), "0123456789").ok());
        QVERIFY(QFile::link(m_folder.filePath("secret"), m_folder.filePath("model/in/link")));
        QCOMPARE(::link(at("secret").c_str(), at("model/in/hard").c_str()), 0);
        const auto read = readBeneath(at("model"), relative.toStdString(), offset, length);
        QCOMPARE(read.ok(), !bytes.isEmpty());
        if (read)
            QCOMPARE(QString::fromStdString(*read), bytes);
    }

    void gunzipReadsAndRefuses()
    {
        // printf hello | gzip -n, and what happens to it on the way
        const QByteArray packed = QByteArray::fromHex("1f8b0800000000000003cb48cdc9c9070086a6103605000000");
        const std::string whole = packed.toStdString();
        QCOMPARE(*gunzip(whole), std::string("hello"));
        QCOMPARE(gunzip(whole, 4).error().code, ErrorCode::BadInput);
        QCOMPARE(gunzip(whole.substr(0, whole.size() - 6)).error().code, ErrorCode::BadInput);
        QCOMPARE(gunzip("not gzip").error().code, ErrorCode::BadInput);
        QCOMPARE(gunzip("").error().code, ErrorCode::BadInput);
    }

    void sha256OfKnownTexts()
    {
        const std::string path = m_folder.path().toStdString() + "/hashed";
        const std::string text(1'000'000, 'x'); // several pieces
        QVERIFY(writeFileAtomically(path, text));
        const auto hash = sha256OfFile(path);
        QVERIFY(hash);
        QCOMPARE(*hash, sha256(text));
        QCOMPARE(sha256OfFile(path + "-missing").error().code, ErrorCode::NotFound);
        QCOMPARE(sha256OfFile(m_folder.path().toStdString()).error().code, ErrorCode::BadInput);
        // FIPS 180-2, appendix B.1
        QCOMPARE(sha256("abc"), std::string("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        QCOMPARE(sha256(""), std::string("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    }
};

QTEST_GUILESS_MAIN(TestFiles)
#include "tst_files.moc"
