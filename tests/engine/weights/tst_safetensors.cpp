// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"

#include <QTemporaryDir>
#include <QTest>

#include <bit>
#include <cmath>
#include <cstring>

using namespace planloom;
using graph::DType;

namespace {

/// A file's bytes, put together by hand: the length of @p json, @p json, @p data.
std::string fileOf(std::string json, const std::string &data, std::int64_t length = -1)
{
    const std::uint64_t bytes = length < 0 ? json.size() : static_cast<std::uint64_t>(length);
    return std::string(reinterpret_cast<const char *>(&bytes), 8) + json + data;
}

Result<weights::Header> readWhole(const std::string &bytes)
{
    return weights::readHeader(bytes, static_cast<std::int64_t>(bytes.size()));
}

template <class T>
std::span<const std::byte> bytesOf(const std::vector<T> &values)
{
    return std::as_bytes(std::span(values));
}

} // namespace

class TstSafetensors : public QObject {
    Q_OBJECT
private slots:
    void readsAFileMadeByHand()
    {
        // As Hugging Face's writer lays it out: metadata first, larger types before smaller, blanks up to a multiple of
        // eight.
        const std::string json =
            R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}     )";
        const std::string bytes = fileOf(json, std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x80\x3f", 10));
        const auto header = readWhole(bytes);
        QVERIFY2(header.ok(), header ? "" : header.error().text().c_str());
        QCOMPARE(header->metadata.at("format"), std::string("pt"));
        QCOMPARE(header->tensors.size(), std::size_t{2});
        const auto *w = header->find("w");
        QVERIFY(w != nullptr && w->type == DType::F32);
        QCOMPARE(w->sizes, (std::vector<std::int64_t>{2, 1}));
        QCOMPARE(w->begin, static_cast<std::int64_t>(8 + json.size()));
        QCOMPARE(w->bytes(), 8);
        float values[2];
        std::memcpy(values, bytes.data() + w->begin, sizeof values);
        QCOMPARE(values[0], 1.0F);
        QCOMPARE(values[1], -2.0F);
        const auto *b = header->find("b");
        QVERIFY(b != nullptr && b->type == DType::BF16 && b->sizes.empty());
        QCOMPARE(b->end, static_cast<std::int64_t>(bytes.size()));
        QVERIFY(header->find("c") == nullptr);
    }

    void writesTheBytesThatTheFormatSays()
    {
        const QTemporaryDir folder;
        const std::string path = folder.filePath("one.safetensors").toStdString();
        const std::vector<float> values{1.0F};
        const weights::TensorToWrite tensor{"x", DType::F32, {1}, bytesOf(values)};
        QVERIFY(weights::writeSafetensors(path, std::span(&tensor, 1), {}).ok());
        const std::string json = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
        QCOMPARE(readFile(path).ok(), true);
        QCOMPARE(*readFile(path),
                 fileOf(json + std::string((8 - json.size() % 8) % 8, ' '), std::string("\x00\x00\x80\x3f", 4)));
    }

    void whatIsWrittenIsRead()
    {
        const QTemporaryDir folder;
        const std::string path = folder.filePath("all.safetensors").toStdString();
        const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
        const std::vector<std::int64_t> ids{-1, 7};
        const std::vector<std::uint16_t> half{0x3c00};
        const std::vector<weights::TensorToWrite> tensors{{"matrix", DType::F32, {2, 3}, bytesOf(matrix)},
                                                          {"none", DType::F32, {0, 5}, {}},
                                                          {"ids \"q\"\n", DType::I64, {2}, bytesOf(ids)},
                                                          {"scalar", DType::F16, {}, bytesOf(half)}};
        QVERIFY(weights::writeSafetensors(path, tensors, {{"format", "pt"}}).ok());
        const auto file = weights::SafetensorsFile::open(path);
        QVERIFY2(file.ok(), file ? "" : file.error().text().c_str());
        QCOMPARE(file->header().tensors.size(), tensors.size());
        for (const auto &tensor : tensors) {
            const auto *stored = file->header().find(tensor.name);
            QVERIFY(stored != nullptr);
            QVERIFY(stored->type == tensor.type);
            QCOMPARE(stored->sizes, tensor.sizes);
            const auto data = file->data(*stored);
            QVERIFY(std::equal(data.begin(), data.end(), tensor.data.begin(), tensor.data.end()));
        }
        QCOMPARE(file->header().tensors.front().begin % 8, 0);
    }

    void refusesToWriteNonsense()
    {
        const QTemporaryDir folder;
        const std::string path = folder.filePath("bad.safetensors").toStdString();
        const std::vector<float> values{1, 2};
        const std::vector<weights::TensorToWrite> twice{{"x", DType::F32, {2}, bytesOf(values)},
                                                        {"x", DType::F32, {2}, bytesOf(values)}};
        QVERIFY(!weights::writeSafetensors(path, twice, {}).ok());
        const std::vector<weights::TensorToWrite> wrong{{"x", DType::F32, {3}, bytesOf(values)}};
        QVERIFY(!weights::writeSafetensors(path, wrong, {}).ok());
        QVERIFY(!QFile::exists(QString::fromStdString(path)));
    }

    void refusesDamage_data()
    {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *name, const std::string &bytes, const char *says) {
            QTest::newRow(name) << QByteArray::fromStdString(bytes) << QString(says);
        };
        const auto one = [](const std::string &entry, const std::string &data) {
            return fileOf("{\"x\":" + entry + "}", data);
        };
        const std::string good = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
        row("empty", "", "too short");
        row("length only", std::string(8, '\0'), "too short");
        row("longer than the file", fileOf("{}", "", 3), "a header of 3 bytes");
        row("huge length", fileOf("{}", "", 1LL << 62), "which is impossible");
        row("not an object", fileOf("[]", ""), "begin with '{'");
        row("leading blank", fileOf(" {}", ""), "begin with '{'");
        row("broken json", fileOf("{\"x\":", ""), "not a JSON object");
        row("nested", fileOf("{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}", ""), "too deeply");
        row("same name twice", fileOf("{\"x\":" + good + ",\"x\":" + good + "}", "1234"), "twice");
        row("same field twice", one(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})", "1234"),
            "twice");
        row("unknown field", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1})", "1234"),
            "exactly dtype");
        row("no shape", one(R"({"dtype":"F32","data_offsets":[0,4]})", "1234"), "exactly dtype");
        row("unknown type", one(R"({"dtype":"F99","shape":[1],"data_offsets":[0,4]})", "1234"), "F99");
        row("type is a number", one(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})", "1234"), "data type");
        row("negative size", one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", "1234"), "whole number");
        row("fraction", one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", "1234"), "whole number");
        row("product overflows to the size",
            one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", ""), "do not make");
        row("product wraps", one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", ""),
            "do not make");
        row("size beyond int64", one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]})", "1"),
            "whole number");
        row("offsets backwards", one(R"({"dtype":"F32","shape":[0],"data_offsets":[4,0]})", "1234"), "data_offsets");
        row("three offsets", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", "1234"), "data_offsets");
        row("wrong size", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", "1234"), "do not make");
        row("cut short", one(good, "123"), "cut short");
        row("bytes left over", one(good, "12345"), "cut short");
        row("hole", one(R"({"dtype":"F32","shape":[1],"data_offsets":[1,5]})", "12345"), "hole");
        row("overlap",
            fileOf(
                R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                "123456"),
            "overlap");
        row("same bytes",
            fileOf(
                R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                "1234"),
            "overlap");
        row("metadata no text", fileOf(R"({"__metadata__":{"a":1}})", ""), "not a text");
        row("metadata no object", fileOf(R"({"__metadata__":[]})", ""), "not an object");
    }
    void refusesDamage()
    {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, says);
        const auto header = readWhole(bytes.toStdString());
        QVERIFY(!header.ok());
        QVERIFY2(QString::fromStdString(header.error().message).contains(says), header.error().message.c_str());
    }

    void refusesEveryCutOfAGoodFile()
    {
        const std::string good = fileOf(
            R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
            "12345678abc");
        QVERIFY(readWhole(good).ok());
        for (std::size_t length = 0; length < good.size(); ++length)
            QVERIFY2(!readWhole(good.substr(0, length)).ok(), std::to_string(length).c_str());
    }

    void aMissingFileIsNamed()
    {
        const auto file = weights::SafetensorsFile::open("/nowhere/model.safetensors");
        QVERIFY(!file.ok());
        QCOMPARE(file.error().code, ErrorCode::NotFound);
        QVERIFY(file.error().text().starts_with("/nowhere/model.safetensors: "));
    }

    void halvesAreExact()
    {
        QCOMPARE(weights::fromHalf(0x3c00), 1.0F);
        QCOMPARE(weights::fromHalf(0xc000), -2.0F);
        QCOMPARE(weights::fromHalf(0x3555), 0.333251953125F);
        QCOMPARE(weights::fromHalf(0x7bff), 65504.0F);
        QCOMPARE(weights::fromHalf(0x0001), 0x1p-24F);
        QCOMPARE(weights::fromHalf(0x03ff), 1023 * 0x1p-24F);
        QCOMPARE(weights::fromHalf(0x0400), 0x1p-14F);
        QCOMPARE(std::bit_cast<std::uint32_t>(weights::fromHalf(0x8000)), 0x80000000U);
        QVERIFY(std::isinf(weights::fromHalf(0xfc00)) && weights::fromHalf(0xfc00) < 0);
        QVERIFY(std::isnan(weights::fromHalf(0x7e01)));
    }

    void bfloat16RoundsToTheNearestEven()
    {
        QCOMPARE(weights::toBFloat16(1.0F), std::uint16_t{0x3f80});
        QCOMPARE(weights::toBFloat16(std::bit_cast<float>(0x3f808000U)),
                 std::uint16_t{0x3f80}); // half way: down to even
        QCOMPARE(weights::toBFloat16(std::bit_cast<float>(0x3f818000U)), std::uint16_t{0x3f82}); // half way: up to even
        QCOMPARE(weights::toBFloat16(std::bit_cast<float>(0x3f808001U)), std::uint16_t{0x3f81});
        QVERIFY(std::isnan(weights::fromBFloat16(weights::toBFloat16(std::bit_cast<float>(0x7fffffffU)))));
        QVERIFY(std::isinf(weights::fromBFloat16(weights::toBFloat16(std::numeric_limits<float>::max()))));
        for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
            const float value = weights::fromBFloat16(static_cast<std::uint16_t>(bits));
            QVERIFY(std::isnan(value) || weights::toBFloat16(value) == bits);
        }
    }

    void convertsWholeTensors()
    {
        const std::vector<std::uint16_t> half{0x3c00, 0xc000};
        const std::vector<std::uint16_t> brain{0x3f80, 0xc000};
        const std::vector<double> wide{1, -2};
        const auto check = [](std::span<const std::byte> bytes, DType type) {
            QVERIFY(weights::convertible(type, DType::F32));
            float out[2] = {};
            weights::convert(bytes, type, DType::F32, reinterpret_cast<std::byte *>(out));
            QCOMPARE(out[0], 1.0F);
            QCOMPARE(out[1], -2.0F);
        };
        check(bytesOf(half), DType::F16);
        check(bytesOf(brain), DType::BF16);
        check(bytesOf(wide), DType::F64);
        QVERIFY(!weights::convertible(DType::I64, DType::F32));
        QVERIFY(weights::convertible(DType::I64, DType::I64));
    }
};

QTEST_GUILESS_MAIN(TstSafetensors)
#include "tst_safetensors.moc"
