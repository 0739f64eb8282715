// SPDX-License-Identifier: Apache-2.0
#include "engine/base/base64.h"
#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"

#include <QTest>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

using namespace planloom;

namespace {

Result<int> half(int value)
{
    if (value % 2 != 0)
        return badInput("is odd; give an even number");
    return value / 2;
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

} // namespace

class TestBase : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void resultHoldsValueOrError()
    {
        const auto good = half(4);
        QVERIFY(good.ok() && good);
        QCOMPARE(*good, 2);
        const auto bad = half(3);
        QVERIFY(!bad.ok() && !bad);
        QCOMPARE(bad.error().code, ErrorCode::BadInput);
        QVERIFY(Status().ok());
        QVERIFY(!Status(failed("no")).ok());
    }

    void resultMovesItsValue()
    {
        Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
        const std::unique_ptr<int> taken = *std::move(made);
        QCOMPARE(*taken, 7);
    }

    void errorText_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<int>("line");
        QTest::addColumn<QString>("text");
        QTest::newRow("bare") << "" << 0 << "is odd; give an even number";
        QTest::newRow("file") << "a.yaml" << 0 << "a.yaml: is odd; give an even number";
        QTest::newRow("line") << "a.yaml" << 12 << "a.yaml:12: is odd; give an even number";
    }

    void errorText()
    {
        QFETCH(QString, file);
        QFETCH(int, line);
        QFETCH(QString, text);
        QCOMPARE(QString::fromStdString(half(1).error().in(file.toStdString(), line).text()), text);
    }

    void innermostFileWins()
    {
        const Error inner = badInput("x").in("inner", 3);
        QCOMPARE(inner.in("outer", 9).text(), std::string("inner:3: x"));
        Error lineOnly = badInput("x");
        lineOnly.line = 5;
        QCOMPARE(lineOnly.in("f").text(), std::string("f:5: x"));
    }

    void idsAreTypedPositions()
    {
        QVERIFY(!OpId().valid());
        QVERIFY(OpId(0).valid());
        QCOMPARE(OpId(3).index(), std::size_t{3});
        QVERIFY(OpId(1) < OpId(2));
        static_assert(!std::is_convertible_v<OpId, TensorId>);
        static_assert(!std::is_convertible_v<int, OpId>);
        QCOMPARE((std::unordered_set<OpId>{OpId(1), OpId(1), OpId(2)}).size(), std::size_t{2});
    }

    void unitsAddAndScale()
    {
        Bytes bytes = Bytes(3) + Bytes(4) * 2;
        bytes -= Bytes(1);
        QCOMPARE(bytes.value(), std::int64_t{10});
        QCOMPARE(Seconds(3.0) / Seconds(2.0), 1.5);
        QVERIFY(Flops(2.0) < Flops(3.0));
    }

    void unitsRead_data()
    {
        QTest::addColumn<QString>("made");
        QTest::addColumn<QString>("wanted");
        const auto text = [](const auto &quantity) { return QString::fromStdString(format(quantity)); };
        QTest::newRow("0 B") << text(Bytes(0)) << "0 B";
        QTest::newRow("bytes") << text(Bytes(1023)) << "1023 B";
        QTest::newRow("KiB") << text(Bytes(1536)) << "1.50 KiB";
        QTest::newRow("GiB") << text(Bytes(std::int64_t{16} << 30)) << "16.00 GiB";
        QTest::newRow("many") << text(Bytes(std::int64_t{1} << 62)) << "4194304.00 TiB";
        QTest::newRow("0 s") << text(Seconds(0)) << "0 s";
        QTest::newRow("ns") << text(Seconds(2.5e-8)) << "25 ns";
        QTest::newRow("ms") << text(Seconds(0.0123)) << "12.3 ms";
        QTest::newRow("microseconds") << text(Seconds(5e-6)) << "5 µs";
        QTest::newRow("almost the next unit") << text(Seconds(999.96e-6)) << "1 ms";
        QTest::newRow("three digits") << text(Seconds(-999.4e-9)) << "-999 ns";
        QTest::newRow("hours") << text(Seconds(12'345.6)) << "12346 s";
        QTest::newRow("s") << text(Seconds(12.3456)) << "12.3 s";
        QTest::newRow("negative") << text(Seconds(-0.5)) << "-500 ms";
        QTest::newRow("GFLOP") << text(Flops(4.12e9)) << "4.12 GFLOP";
    }

    void unitsRead()
    {
        QFETCH(QString, made);
        QFETCH(QString, wanted);
        QCOMPARE(made, wanted);
    }

    void base64_data()
    {
        QTest::addColumn<std::string>("plain");
        QTest::addColumn<std::string>("coded");
        const char *const examples[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"}, // RFC 4648 §10
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
        for (const auto &[plain, coded] : examples)
            QTest::newRow(plain) << std::string(plain) << std::string(coded);
    }

    void base64()
    {
        QFETCH(std::string, plain);
        QFETCH(std::string, coded);
        QCOMPARE(toBase64(bytesOf(plain)), coded);
        const auto back = fromBase64(coded);
        QVERIFY(back.ok());
        QVERIFY(std::ranges::equal(*back, bytesOf(plain)));
    }

    /// Longer than what OpenSSL is given at a time.
    void base64OfMegabytes()
    {
        std::string plain;
        for (int i = 0; i < (7 << 20) + 1; ++i)
            plain += static_cast<char>(i * 37 + (i >> 8));
        const std::string coded = toBase64(bytesOf(plain));
        QCOMPARE(coded.size(), (plain.size() + 2) / 3 * 4);
        QVERIFY(coded.find('=') >= coded.size() - 2);
        const auto back = fromBase64(coded);
        QVERIFY(back.ok());
        QVERIFY(std::ranges::equal(*back, bytesOf(plain)));
    }

    void base64Refuses_data()
    {
        QTest::addColumn<std::string>("coded");
        for (const char *bad : {"Zg=", "Z===", "====", "Zm9*", "=Zm9", "Zg==Zg==", "Zm9v\n\n\n\n", " Zm9v   ", "Zm9-",
                                "Zh==", "Zm9v----"})
            QTest::newRow(bad) << std::string(bad);
    }

    void base64Refuses()
    {
        QFETCH(std::string, coded);
        const auto back = fromBase64(coded);
        QVERIFY(!back.ok());
        QCOMPARE(back.error().code, ErrorCode::BadInput);
        QVERIFY(back.error().message.find("is not base64") == 0);
    }
};

QTEST_GUILESS_MAIN(TestBase)
#include "tst_base.moc"
