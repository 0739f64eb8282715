// SPDX-License-Identifier: Apache-2.0
#include "engine/base/crc32c.h"
#include "engine/base/failpoint.h"

#include <QTest>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace planloom;

namespace {

// Those of this program, in any build; the code that is tested has its own where they are compiled in.
Failpoint g_first("test.first");
Failpoint g_second("test.second");
Failpoint g_third("test.third");

Status passesOne()
{
    PLANLOOM_FAILPOINT("test.inCode");
    return {};
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

} // namespace

class TstFailpoint : public QObject {
    Q_OBJECT
private slots:
    void cleanup() { QVERIFY(armFailpoints("").ok()); }

    void namesAreUniqueAndInOrder()
    {
        const auto names = failpoints();
        QVERIFY(std::ranges::is_sorted(names));
        QVERIFY(std::ranges::adjacent_find(names) == names.end());
        for (const char *name : {"test.first", "test.second", "test.third"})
            QVERIFY(std::ranges::find(names, name) != names.end());
    }

    void actsAtTheNamedPassOnly()
    {
        QVERIFY(armFailpoints("test.first=error@3;test.second=full").ok());
        QVERIFY(g_first.pass().ok());
        QVERIFY(g_first.pass().ok());
        const Status third = g_first.pass();
        QVERIFY(!third.ok());
        QCOMPARE(third.error().code, ErrorCode::Io);
        QVERIFY(g_first.pass().ok());
        QVERIFY(g_third.pass().ok());
        for (int i = 0; i < 2; ++i) {
            const Status full = g_second.pass();
            QVERIFY(!full.ok() && full.error().message.find("No space left") != std::string::npos);
        }
    }

    void killEndsTheProcessAtOnce()
    {
        const pid_t child = ::fork();
        if (child == 0) {
            const bool armed = armFailpoints("test.third=kill@2").ok() && g_third.pass().ok();
            [[maybe_unused]] const Status never = g_third.pass();
            std::_Exit(armed ? 7 : 8);
        }
        int status = 0;
        QCOMPARE(::waitpid(child, &status, 0), child);
        QVERIFY(WIFSIGNALED(status));
        QCOMPARE(WTERMSIG(status), SIGKILL);
    }

    /// Code that is linked makes its failpoint known before it is ever run.
    void codeNamesItsFailpoint()
    {
        if (!failpointsWork())
            QSKIP("failpoints are not compiled in");
        const auto names = failpoints();
        QVERIFY(std::ranges::find(names, "test.inCode") != names.end());
        QVERIFY(armFailpoints("test.inCode=error").ok());
        QVERIFY(!passesOne().ok());
        QVERIFY(armFailpoints("").ok());
        QVERIFY(passesOne().ok());
    }

    void refusesWhatItDoesNotKnow_data()
    {
        QTest::addColumn<QString>("text");
        for (const char *text : {"test.nowhere=kill", "test.first", "test.first=explode", "test.first=kill@0",
                                 "test.first=kill@x", "test.first=sleep:soon"})
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
