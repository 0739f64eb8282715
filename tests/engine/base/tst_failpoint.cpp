// SPDX-License-Identifier: Apache-2.0
#include "engine/base/crc32c.h"
#include "engine/base/failpoint.h"

#include <QTest>

#include <csignal>
#include <cstring>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace planloom;

namespace {

Status pass(std::string_view name)
{
    for (std::size_t i = 0; i < failpoints().size(); ++i)
        if (failpoints()[i] == name)
            return passFailpoint(i);
    return badInput("no such name");
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

} // namespace

class TstFailpoint : public QObject {
    Q_OBJECT
private slots:
    void cleanup() { QVERIFY(armFailpoints("").ok()); }

    void namesAreUnique()
    {
        const std::set<std::string_view> names(failpoints().begin(), failpoints().end());
        QCOMPARE(names.size(), failpoints().size());
        QVERIFY(names.contains("checkpoint.manifest-rename"));
    }

    void actsAtTheNamedPassOnly()
    {
        QVERIFY(armFailpoints("checkpoint.shard-fsync=error@3;lease.write=full").ok());
        QVERIFY(pass("checkpoint.shard-fsync").ok());
        QVERIFY(pass("checkpoint.shard-fsync").ok());
        const Status third = pass("checkpoint.shard-fsync");
        QVERIFY(!third.ok());
        QCOMPARE(third.error().code, ErrorCode::Io);
        QVERIFY(pass("checkpoint.shard-fsync").ok());
        QVERIFY(pass("checkpoint.prune").ok());
        for (int i = 0; i < 2; ++i) {
            const Status full = pass("lease.write");
            QVERIFY(!full.ok() && full.error().message.find("No space left") != std::string::npos);
        }
    }

    void killEndsTheProcessAtOnce()
    {
        const pid_t child = ::fork();
        if (child == 0) {
            const bool armed = armFailpoints("checkpoint.prune=kill@2").ok() && pass("checkpoint.prune").ok();
            [[maybe_unused]] const Status never = pass("checkpoint.prune");
            std::_Exit(armed ? 7 : 8);
        }
        int status = 0;
        QCOMPARE(::waitpid(child, &status, 0), child);
        QVERIFY(WIFSIGNALED(status));
        QCOMPARE(WTERMSIG(status), SIGKILL);
    }

    void refusesWhatItDoesNotKnow_data()
    {
        QTest::addColumn<QString>("text");
        for (const char *text : {"checkpoint.nowhere=kill", "lease.write", "lease.write=explode", "lease.write=kill@0", "lease.write=kill@x", "lease.write=sleep:soon"})
            QTest::newRow(text) << QString(text);
    }
    void refusesWhatItDoesNotKnow()
    {
        QFETCH(QString, text);
        const Status status = armFailpoints(text.toStdString());
        QVERIFY(!status.ok());
        QVERIFY(status.error().message.find(text.toStdString()) != std::string::npos);
    }

    void checksumsOfTheStandard()
    {
        // RFC 3720, B.4, and the check value of the Castagnoli polynomial.
        QCOMPARE(crc32c(bytesOf("123456789")), 0xe3069283U);
        QCOMPARE(crc32c(bytesOf(std::string(32, '\0'))), 0x8a9136aaU);
        QCOMPARE(crc32c(bytesOf(std::string(32, '\xff'))), 0x62a8ab43U);
        QCOMPARE(crc32c({}), 0U);
    }

    void checksumsOfPartsMakeTheWhole()
    {
        std::string text;
        for (int i = 0; i < 1000; ++i)
            text.push_back(static_cast<char>(i * 7919 >> 3));
        for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{512}, text.size()}) {
            const auto first = bytesOf(text).first(cut);
            const auto second = bytesOf(text).subspan(cut);
            QCOMPARE(crc32c(second, crc32c(first)), crc32c(bytesOf(text)));
            QCOMPARE(detail::crc32cByTable(second, detail::crc32cByTable(first, 0)), crc32c(bytesOf(text)));
        }
    }
};

QTEST_GUILESS_MAIN(TstFailpoint)
#include "tst_failpoint.moc"
