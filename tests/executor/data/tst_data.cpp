// SPDX-License-Identifier: Apache-2.0
#include "executor/data/data_set.h"
#include "executor/data/order.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace planloom;
using namespace planloom::data;

namespace {

template <class T>
std::string bytesOf(const std::vector<T> &values)
{
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty())
        std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::string npy(const std::string &descr, const std::string &shape, const std::string &elements,
                const std::string &order = "False")
{
    std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    const auto size = static_cast<std::uint16_t>(header.size());
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(size & 0xFF) + static_cast<char>(size >> 8) + header
        + elements;
}

std::string idx(const std::vector<std::uint32_t> &shape, const std::string &elements, char type = 0x08)
{
    std::string bytes{0, 0, type, static_cast<char>(shape.size())};
    for (const std::uint32_t size : shape)
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes += static_cast<char>(size >> shift & 0xFF);
    return bytes + elements;
}

std::string gzip(const std::string &text)
{
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, text.size()) + 32, '\0');
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

Needs tokensOf(std::int64_t context, std::int64_t vocabulary)
{
    return {Needs::Kind::Tokens, "tokens", "labels", context, vocabulary};
}

Needs featuresOf(std::int64_t features, std::int64_t classes)
{
    return {Needs::Kind::Features, "x", "labels", features, classes};
}

/// A table whose rows are compared with @p each values.
Needs valuesOf(std::int64_t features, std::int64_t each, Needs::Use use = Needs::Use::Values)
{
    Needs needs;
    needs.input = "x";
    needs.perSample = features;
    needs.inputs.push_back({"x", graph::DType::F32, features});
    needs.inputs.push_back({"targets", graph::DType::F32, each, 0, use});
    return needs;
}

std::vector<std::int64_t> tokensAt(const DataSet &data, std::int64_t sample, std::size_t context)
{
    std::vector<std::int64_t> tokens(context);
    data.fillInput(sample, tokens.data());
    return tokens;
}

std::vector<std::int64_t> labelsAt(const DataSet &data, std::int64_t sample, std::size_t count)
{
    std::vector<std::int64_t> labels(count);
    data.fillLabels(sample, labels.data());
    return labels;
}

std::vector<float> featuresAt(const DataSet &data, std::int64_t sample, std::size_t count)
{
    std::vector<float> features(count);
    data.fillInput(sample, features.data());
    return features;
}

std::vector<float> targetsAt(const DataSet &data, std::int64_t sample, std::size_t count)
{
    std::vector<float> targets(count);
    data.fillInputAt(1, sample, targets.data());
    return targets;
}

using Tokens = std::vector<std::int64_t>;
using Features = std::vector<float>;

} // namespace

class TestData : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { QVERIFY(m_folder.isValid()); }
    void text();
    void tokenFiles();
    void csv();
    void npyFiles();
    void idxFiles();
    void digits();
    void malformed_data();
    void malformed();
    void values();
    void wrongValues_data();
    void wrongValues();
    void needs();
    void orderIsAPermutation_data();
    void orderIsAPermutation();
    void orderIgnoresTheLayout();
    void heldOutSamplesAreNotTrainedOn();

private:
    std::string write(const std::string &name, const std::string &contents)
    {
        QFile file(m_folder.filePath(QString::fromStdString(name)));
        if (!file.open(QIODevice::WriteOnly))
            return {};
        file.write(contents.data(), static_cast<qint64>(contents.size()));
        return file.fileName().toStdString();
    }

    QTemporaryDir m_folder;
};

void TestData::text()
{
    const auto data = openDataSet(write("a.txt", "abcdefgh"), tokensOf(3, 256));
    QVERIFY(data.ok());
    QCOMPARE((*data)->samples(), 2); // 8 bytes: two runs of 3 with a follower each
    QCOMPARE(tokensAt(**data, 1, 3), (Tokens{'d', 'e', 'f'}));
    QCOMPARE(labelsAt(**data, 1, 3), (Tokens{'e', 'f', 'g'}));
}

void TestData::tokenFiles()
{
    const std::vector<std::uint16_t> small{1, 2, 3, 65535, 5};
    for (const char *name : {"a.bin", "a.u16", "a.tokens"}) {
        const auto data = openDataSet(write(name, bytesOf(small)), tokensOf(2, 0));
        QVERIFY(data.ok());
        QCOMPARE((*data)->samples(), 2);
        QCOMPARE(tokensAt(**data, 1, 2), (Tokens{3, 65535}));
        QCOMPARE(labelsAt(**data, 1, 2), (Tokens{65535, 5}));
    }
    const std::vector<std::uint32_t> large{7, 100000, 9};
    const auto data = openDataSet(write("a.u32", bytesOf(large)), tokensOf(2, 100001));
    QVERIFY(data.ok());
    QCOMPARE(tokensAt(**data, 0, 2), (Tokens{7, 100000}));
}

void TestData::csv()
{
    const std::string text = "1,-4,0\r\n2,3,1\r\n";
    for (const std::string &path :
         {write("a.csv", text), write("marked.csv", "\xEF\xBB\xBF" + text), write("ends.csv", text + "\n \r\n\n"),
          write("h.csv", "width,height,kind\n" + text), write("a.csv.gz", gzip(text))}) {
        const auto data = openDataSet(path, featuresOf(2, 2));
        QVERIFY2(data.ok(), data.ok() ? "" : data.error().text().c_str());
        QCOMPARE((*data)->samples(), 2);
        QCOMPARE(featuresAt(**data, 0, 2), (Features{0.25F, -1.0F}));
        QCOMPARE(featuresAt(**data, 1, 2), (Features{0.5F, 0.75F}));
        QCOMPARE(labelsAt(**data, 1, 1), (Tokens{1}));
    }
}

void TestData::npyFiles()
{
    const auto lastColumn =
        openDataSet(write("f.npy", npy("<f4", "(2, 3)", bytesOf(Features{1, 2, 0, 3, 4, 1}))), featuresOf(2, 2));
    QVERIFY2(lastColumn.ok(), lastColumn.ok() ? "" : lastColumn.error().text().c_str());
    QCOMPARE(featuresAt(**lastColumn, 1, 2), (Features{3, 4}));
    QCOMPARE(labelsAt(**lastColumn, 1, 1), (Tokens{1}));

    const auto doubles =
        openDataSet(write("d.npy", npy("<f8", "(1, 2)", bytesOf(std::vector<double>{0.5, 3}))), featuresOf(1, 4));
    QVERIFY(doubles.ok());
    QCOMPARE(featuresAt(**doubles, 0, 1), (Features{0.5F}));

    write("u.labels.npy", npy("<i8", "(2,)", bytesOf(Tokens{4, 2})));
    const auto images =
        openDataSet(write("u.npy", npy("|u1", "(2, 1, 2)", std::string("\x00\xFF\x33\x00", 4))), featuresOf(2, 5));
    QVERIFY2(images.ok(), images.ok() ? "" : images.error().text().c_str());
    QCOMPARE(featuresAt(**images, 0, 2), (Features{0, 1}));
    QCOMPARE(featuresAt(**images, 1, 2), (Features{0.2F, 0}));
    QCOMPARE(labelsAt(**images, 0, 1), (Tokens{4}));
}

void TestData::idxFiles()
{
    write("train-labels-idx1-ubyte", idx({2}, std::string("\x07\x03", 2)));
    write("train-labels-idx1-ubyte.gz", gzip(idx({2}, std::string("\x07\x03", 2))));
    const std::string images = idx({2, 1, 2}, std::string("\x00\xFF\x33\x66", 4));
    for (const std::string &path :
         {write("train-images-idx3-ubyte", images), write("train-images-idx3-ubyte.gz", gzip(images))}) {
        const auto data = openDataSet(path, featuresOf(2, 10));
        QVERIFY2(data.ok(), data.ok() ? "" : data.error().text().c_str());
        QCOMPARE(featuresAt(**data, 1, 2), (Features{0.2F, 0.4F}));
        QCOMPARE(labelsAt(**data, 0, 1), (Tokens{7}));
    }
}

void TestData::digits()
{
    const auto data = openDataSet(PLANLOOM_SOURCE_DIR "/tests/golden/data/digits.csv.gz", featuresOf(64, 10));
    QVERIFY(data.ok());
    QCOMPARE((*data)->samples(), 1797);
    QCOMPARE(featuresAt(**data, 0, 64)[2], 5.0F / 16.0F);
    QCOMPARE(labelsAt(**data, 1, 1), (Tokens{1}));
}

void TestData::malformed_data()
{
    QTest::addColumn<QByteArray>("name");
    QTest::addColumn<QByteArray>("contents");
    QTest::addColumn<bool>("tokens");
    QTest::addColumn<QByteArray>("says");
    QTest::addColumn<int>("line");
    const auto row = [](const char *title, const char *name, const std::string &contents, bool tokens, const char *says,
                        int line = 0) {
        QTest::newRow(title) << QByteArray(name) << QByteArray(contents.data(), static_cast<qsizetype>(contents.size()))
                             << tokens << QByteArray(says) << line;
    };
    row("empty", "m.txt", "", true, "is empty");
    row("short text", "m.txt", "abc", true, "has 3 tokens");
    row("half a token", "m.u16", "abc", true, "no whole number of 2-byte tokens");
    row("token out of the vocabulary", "m.u32", bytesOf(std::vector<std::uint32_t>{1, 2, 3, 300, 4}), true,
        "token 3 is 300");
    row("npy for a language model", "m.npy", npy("<f4", "(1, 2)", bytesOf(Features{1, 2})), true, ".npy");
    row("text for a table", "m.txt", "hello", false, "neither .npy");
    row("csv cell", "m.csv", "1,2,0\n1,x,0\n", false, "column 2 is \"x\"", 2);
    row("csv nan", "m.csv", "1,2,0\n1,nan,0\n", false, "column 2 is \"nan\"", 2);
    row("csv ragged", "m.csv", "1,2,0\n1,0\n", false, "has 2 columns where the rows before have 3", 2);
    row("csv gap", "m.csv", "1,2,0\n\n1,2,0\n", false, "empty line", 2);
    row("csv semicolons", "m.csv", "1.5;2;0\n1;2;0\n", false, "semicolons", 1);
    row("csv header only", "m.csv", "a,b,c\n", false, "no samples");
    row("csv fractional label", "m.csv", "1,2,0.5\n", false, "no whole number", 1);
    row("csv unknown class", "m.csv", "a,b,c\n1,2,0\n1,2,9\n", false, "label 9", 3);
    row("csv negative class", "m.csv", "1,2,-1\n", false, "label -1", 1);
    row("csv too wide", "m.csv", "1,2,3,0\n", false, "has 3 features in a sample, and the model's input \"x\" wants 2");
    row("gzip damaged", "m.csv.gz", gzip("1,2,0\n").substr(0, 20), false, "");
    row("npy cut", "m.npy", npy("<f4", "(2, 3)", bytesOf(Features{1, 2})), false, "cut short");
    row("npy header cut", "m.npy", npy("<f4", "(2, 3)", "").substr(0, 30), false, "header");
    row("npy huge", "m.npy", npy("<f4", "(4611686018427387904, 8)", "xx"), false, "shape");
    row("npy Fortran", "m.npy", npy("<f4", "(1, 3)", bytesOf(Features{1, 2, 0}), "True"), false, "Fortran");
    row("npy big-endian", "m.npy", npy(">f4", "(1, 3)", bytesOf(Features{1, 2, 0})), false, "little-endian");
    row("npy complex", "m.npy", npy("<c8", "(1, 3)", "x"), false, "type c8");
    row("npy without labels", "m.npy", npy("<f4", "(1, 3, 1)", bytesOf(Features{1, 2, 0})), false, "no labels");
    row("npy whose labels are missing", "m.npy", npy("<f4", "(2, 2)", bytesOf(Features{1, 2, 0, 1})), false,
        "m.labels.npy is missing");
    row("npy one dimension", "m.npy", npy("<f4", "(3,)", bytesOf(Features{1, 2, 0})), false, "dimensions");
    row("idx cut", "m-images", idx({2, 2}, "abc"), false, "promises 4");
    row("idx header cut", "m-images", idx({2, 2}, "").substr(0, 7), false, "header");
    row("idx of shorts", "m-images", idx({1, 2}, "abcd", 0x0B), false, "unsigned bytes");
    row("idx without labels", "m-images", idx({1, 2}, "ab"), false, "m-labels");
    row("idx of labels", "m", idx({2}, "ab"), false, "images");
}

void TestData::malformed()
{
    QFETCH(QByteArray, name);
    QFETCH(QByteArray, contents);
    QFETCH(bool, tokens);
    QFETCH(QByteArray, says);
    QFETCH(int, line);
    const std::string path = write(name.toStdString(), contents.toStdString());
    const auto data = openDataSet(path, tokens ? tokensOf(3, 256) : featuresOf(2, 3));
    QVERIFY(!data.ok());
    const std::string text = data.error().text();
    QVERIFY2(text.find(says.toStdString()) != std::string::npos, text.c_str());
    QVERIFY2(text.find(m_folder.path().toStdString()) != std::string::npos, text.c_str());
    QCOMPARE(data.error().line, line);
}

/// Values stand where a label would, as they are: features alone are scaled.
void TestData::values()
{
    write("beside.targets.npy", npy("<f8", "(2, 1, 2)", bytesOf(std::vector<double>{0.5, -3, 7, 8})));
    for (const std::string &path :
         {write("v.csv", "a,b,c,d\n1,2,0.5,-3\n4,0,7,8\n"),
          write("v.npy", npy("<f4", "(2, 4)", bytesOf(Features{0.25F, 0.5F, 0.5F, -3, 1, 0, 7, 8}))),
          write("beside.npy", npy("<f4", "(2, 2)", bytesOf(Features{0.25F, 0.5F, 1, 0})))}) {
        const auto data = openDataSet(path, valuesOf(2, 2));
        QVERIFY2(data.ok(), data.ok() ? "" : data.error().text().c_str());
        QCOMPARE((*data)->samples(), 2);
        QCOMPARE(featuresAt(**data, 0, 2), (Features{0.25F, 0.5F}));
        QCOMPARE(targetsAt(**data, 0, 2), (Features{0.5F, -3}));
        QCOMPARE(targetsAt(**data, 1, 2), (Features{7, 8}));
    }
}

void TestData::wrongValues_data()
{
    QTest::addColumn<QByteArray>("name");
    QTest::addColumn<QByteArray>("contents");
    QTest::addColumn<bool>("probabilities");
    QTest::addColumn<QByteArray>("says");
    const auto row = [](const char *title, const char *name, const std::string &contents, bool probabilities,
                        const char *says) {
        QTest::newRow(title) << QByteArray(name) << QByteArray(contents.data(), static_cast<qsizetype>(contents.size()))
                             << probabilities << QByteArray(says);
    };
    row("csv too narrow", "w.csv", "1,2\n", false, "has 2 columns; a row is its features and, last, its 2 target(s)");
    row("csv no probability", "w.csv", "1,2,0,1\n1,2,0.5,1.5\n", true, "line 2 has target 1.5");
    row("npy without targets", "w.npy", npy("<f4", "(1, 2, 1)", bytesOf(Features{1, 2})), false, "has no targets");
    row("npy too wide", "w.npy", npy("<f4", "(1, 5)", bytesOf(Features{1, 2, 3, 4, 5})), false, "has 3 features");
    row("idx", "w-images", idx({1, 2}, "ab"), false, "compared with values");
}

void TestData::wrongValues()
{
    QFETCH(QByteArray, name);
    QFETCH(QByteArray, contents);
    QFETCH(bool, probabilities);
    QFETCH(QByteArray, says);
    const std::string path = write(name.toStdString(), contents.toStdString());
    const auto use = probabilities ? Needs::Use::Probabilities : Needs::Use::Values;
    const auto data = openDataSet(path, valuesOf(2, 2, use));
    QVERIFY(!data.ok());
    QVERIFY2(data.error().text().find(says.toStdString()) != std::string::npos, data.error().text().c_str());
}

void TestData::needs()
{
    graph::GraphBuilder builder("table");
    const TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({5}));
    const TensorId labels = builder.input("labels", graph::DType::I64, graph::Shape::batched({}));
    builder.loss(builder.add("SoftmaxCrossEntropyLoss", {x, labels}));
    const auto table = std::move(builder).build();
    QVERIFY2(table.ok(), table.ok() ? "" : table.error().text().c_str());
    const auto wanted = needsOf(*table);
    QVERIFY(wanted.ok());
    QVERIFY(wanted->kind == Needs::Kind::Features);
    QCOMPARE(wanted->perSample, 5);
    QCOMPARE(wanted->classes, 5);

    graph::GraphBuilder unlabelled("unlabelled");
    const TensorId only = unlabelled.input("x", graph::DType::F32, graph::Shape::batched({5}));
    unlabelled.output(unlabelled.add("Relu", {only}));
    const auto graph = std::move(unlabelled).build();
    QVERIFY(graph.ok());
    const auto none = needsOf(*graph);
    QVERIFY(!none.ok());
    QCOMPARE(none.error().code, ErrorCode::Unsupported);
    QVERIFY(none.error().message.find("--loss") != std::string::npos);
}

void TestData::orderIsAPermutation_data()
{
    QTest::addColumn<int>("n");
    for (const int n : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 5000})
        QTest::addRow("%d", n) << n;
}

void TestData::orderIsAPermutation()
{
    QFETCH(int, n);
    const SampleOrder order(n, 7, 0);
    std::vector<std::int64_t> previous;
    for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<std::int64_t> epochOrder;
        for (int i = 0; i < n; ++i)
            epochOrder.push_back(order.sampleIndex(epoch, n, i));
        std::vector<std::int64_t> sorted = epochOrder;
        std::sort(sorted.begin(), sorted.end());
        std::vector<std::int64_t> all(static_cast<std::size_t>(n));
        std::iota(all.begin(), all.end(), 0);
        QCOMPARE(sorted, all);
        if (n >= 1000) {
            QVERIFY(epochOrder != all);
            QVERIFY(epochOrder != previous);
        }
        previous = epochOrder;
    }
}

void TestData::orderIgnoresTheLayout()
{
    // Batches of 12 in one piece, or of 4 in three steps: the same walk through the samples.
    const SampleOrder order(100, 3, 0.1);
    for (std::int64_t i = 0; i < 240; ++i)
        QCOMPARE(order.sampleIndex(i / 12, 12, i % 12), order.sampleIndex(i / 4, 4, i % 4));
    // Five batches of 12, and then ones of 4 and of 24: the same walk, too.
    SampleOrder changed = order;
    changed.goOn(5, 4, 60);
    for (std::int64_t i = 60; i < 120; ++i)
        QCOMPARE(changed.sampleIndex(5 + (i - 60) / 4, 4, (i - 60) % 4), order.sampleIndex(i / 12, 12, i % 12));
    QCOMPARE(changed.consumed(20, 4), 120);
    changed.goOn(20, 24, 120);
    for (std::int64_t i = 120; i < 240; ++i)
        QCOMPARE(changed.sampleIndex(20 + (i - 120) / 24, 24, (i - 120) % 24), order.sampleIndex(i / 12, 12, i % 12));
    const SampleOrder other(100, 4, 0.1);
    int equal = 0;
    for (std::int64_t i = 0; i < 90; ++i)
        equal += order.sampleIndex(0, 90, i) == other.sampleIndex(0, 90, i) ? 1 : 0;
    QVERIFY(equal < 30);
}

void TestData::heldOutSamplesAreNotTrainedOn()
{
    const SampleOrder order(50, 11, 0.2);
    QCOMPARE(order.heldOut(), 10);
    std::vector<int> seen(50, 0);
    for (std::int64_t i = 0; i < 3 * 40; ++i)
        ++seen[static_cast<std::size_t>(order.sampleIndex(0, 120, i))];
    for (std::int64_t i = 0; i < 10; ++i)
        seen[static_cast<std::size_t>(order.heldOutIndex(i))] += 3;
    QCOMPARE(seen, std::vector<int>(50, 3));
    QCOMPARE(SampleOrder(1, 1, 0.9).trained(), 1);
}

QTEST_GUILESS_MAIN(TestData)
#include "tst_data.moc"
