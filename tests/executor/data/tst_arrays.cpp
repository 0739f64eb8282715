// SPDX-License-Identifier: Apache-2.0
#include "executor/data/data_set.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <cstring>

using namespace planloom;
using data::Needs;
using graph::DType;

namespace {

template <class T>
QByteArray npy(const char *type, const QByteArray &shape, const std::vector<T> &values)
{
    QByteArray header = "{'descr': '" + QByteArray(type) + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header = header.leftJustified((10 + header.size() + 1 + 63) / 64 * 64 - 11) + '\n';
    QByteArray bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() & 0xFF);
    bytes += static_cast<char>(header.size() >> 8);
    return bytes + header
        + QByteArray(reinterpret_cast<const char *>(values.data()), static_cast<qsizetype>(values.size() * sizeof(T)));
}

/// Words, of a table of 5, that an input of truth values and one of numbers go with; three classes.
Result<graph::Graph> model()
{
    graph::GraphBuilder b("several inputs");
    const TensorId words = b.input("words", DType::I64, graph::Shape::batched({2}));
    const TensorId seen = b.input("seen", DType::Bool, graph::Shape::batched({2}));
    const TensorId x = b.input("x", DType::F32, graph::Shape::batched({2, 3}));
    const TensorId labels = b.input("labels", DType::I64, graph::Shape::batched({}));
    const TensorId table = b.parameter("table", graph::Shape::of({5, 3}), {});
    const TensorId sum = b.add("Add", {b.add("Gather", {table, words}), x});
    const TensorId shown = b.add("Unsqueeze", {b.add("Cast", {seen}, {{"to", std::string("float32")}})},
                                 {{"axes", std::vector<std::int64_t>{2}}});
    const TensorId logits = b.add("ReduceMean", {b.add("Mul", {sum, shown})},
                                  {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}});
    b.loss(b.add("SoftmaxCrossEntropyLoss", {logits, labels}, {{"ignore_index", std::int64_t{-100}}}));
    return std::move(b).build();
}

} // namespace

/// A folder of .npy files, one for each input of the model.
class TestArrays : public QObject {
    Q_OBJECT

private slots:
    void init()
    {
        m_folder = std::make_unique<QTemporaryDir>();
        const auto graph = model();
        QVERIFY2(graph.ok(), graph ? "" : graph.error().text().c_str());
        const auto needs = data::needsOf(*graph);
        QVERIFY2(needs.ok(), needs ? "" : needs.error().text().c_str());
        m_needs = *needs;
        write("words", npy<std::int32_t>("<i4", "(2, 2)", {1, 4, 0, 3}));
        write("seen", npy<std::uint8_t>("|b1", "(2, 2)", {1, 0, 1, 1}));
        write("x", npy<std::uint8_t>("|u1", "(2, 2, 3)", {0, 51, 255, 0, 0, 0, 1, 2, 3, 4, 5, 51}));
        write("labels", npy<std::int64_t>("<i8", "(2,)", {2, -100}));
    }

    void whatTheModelWants()
    {
        QCOMPARE(m_needs.kind, Needs::Kind::Arrays);
        QCOMPARE(m_needs.inputs.size(), std::size_t(3));
        QCOMPARE(m_needs.inputs[0].limit, std::int64_t(5));
        QCOMPARE(m_needs.inputs[1].limit, std::int64_t(0));
        QCOMPARE(m_needs.inputs[2].perSample, std::int64_t(6));
        QCOMPARE(m_needs.labelsPerSample, std::int64_t(1));
        QCOMPARE(m_needs.classes, std::int64_t(3));
    }

    void everyInputIsFilled()
    {
        const auto data = open();
        QVERIFY2(data.ok(), data ? "" : data.error().text().c_str());
        QCOMPARE((*data)->samples(), std::int64_t(2));
        std::vector<std::int64_t> words(2);
        (*data)->fillInputAt(0, 1, words.data());
        QCOMPARE(words, (std::vector<std::int64_t>{0, 3}));
        std::vector<std::uint8_t> seen(2);
        (*data)->fillInputAt(1, 0, seen.data());
        QCOMPARE(seen, (std::vector<std::uint8_t>{1, 0}));
        std::vector<float> x(6);
        (*data)->fillInputAt(2, 0, x.data());
        QCOMPARE(x, (std::vector<float>{0, 0.2F, 1, 0, 0, 0}));
        std::int64_t label = 0;
        (*data)->fillLabels(1, &label);
        QCOMPARE(label, std::int64_t(-100));
    }

    void malformed_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QByteArray>("contents");
        QTest::addColumn<QString>("says");
        QTest::newRow("missing") << "x" << QByteArray()
                                 << "is missing; the folder must hold words.npy, seen.npy, x.npy, labels.npy";
        QTest::newRow("a word beyond the table") << "words" << npy<std::int32_t>("<i4", "(2, 2)", {1, 4, 5, 3})
                                                 << "sample 1 holds 5, and the model takes 0 to 4";
        QTest::newRow("a word below") << "words" << npy<std::int32_t>("<i4", "(2, 2)", {1, -100, 2, 3})
                                      << "sample 0 holds -100";
        QTest::newRow("a class beyond") << "labels" << npy<std::int64_t>("<i8", "(2,)", {2, 3}) << "sample 1 holds 3";
        QTest::newRow("a negative class")
            << "labels" << npy<std::int64_t>("<i8", "(2,)", {-1, 2}) << "sample 0 holds -1";
        QTest::newRow("words that are real")
            << "words" << npy<float>("<f4", "(2, 2)", {1, 2, 3, 4}) << "save it as int64";
        QTest::newRow("not finite") << "x"
                                    << npy<float>("<f4", "(2, 2, 3)",
                                                  std::vector<float>(12, std::numeric_limits<float>::infinity()))
                                    << "sample 0 is not finite";
        QTest::newRow("another size") << "seen" << npy<std::uint8_t>("|b1", "(2, 3)", {1, 0, 1, 1, 1, 1})
                                      << "has 3 elements in a sample";
        QTest::newRow("too few samples") << "seen" << npy<std::uint8_t>("|b1", "(1, 2)", {1, 0})
                                         << "has 1 samples and labels.npy has 2";
        QTest::newRow("another format") << "seen" << QByteArray("1,0\n") << "is no .npy file";
        QTest::newRow("cut short") << "seen" << npy<std::uint8_t>("|b1", "(2, 2)", {1}) << "cut short";
    }
    void malformed()
    {
        QFETCH(QString, name);
        QFETCH(QByteArray, contents);
        QFETCH(QString, says);
        write(name, contents);
        if (contents.isEmpty())
            QFile::remove(m_folder->filePath(name + ".npy"));
        const auto data = open();
        QVERIFY(!data.ok());
        const QString text = QString::fromStdString(data.error().text());
        QVERIFY2(text.contains(says) && text.contains(name + ".npy"), qPrintable(text));
    }

    /// Targets are compared with results: a mask, values, shares of yes.
    void targets_data()
    {
        QTest::addColumn<int>("use");
        QTest::addColumn<QByteArray>("contents");
        QTest::addColumn<QString>("says");
        const auto row = [](const char *name, Needs::Use use, const QByteArray &contents, const char *says = "") {
            QTest::newRow(name) << static_cast<int>(use) << contents << says;
        };
        row("values", Needs::Use::Values, npy<float>("<f4", "(2, 2)", {-1, 0.5, 300, 1}));
        row("bytes as values", Needs::Use::Values, npy<std::uint8_t>("|u1", "(2, 2)", {0, 1, 2, 3}),
            "holds bytes, and the model's results are compared with it");
        row("shares", Needs::Use::Probabilities, npy<float>("<f4", "(2, 2)", {0, 0.5, 0.25, 1}));
        row("yes and no in bytes", Needs::Use::Probabilities, npy<std::uint8_t>("|u1", "(2, 2)", {0, 1, 1, 1}));
        row("shares beyond one", Needs::Use::Probabilities, npy<float>("<f4", "(2, 2)", {0, 0.5, 255, 1}),
            "sample 1 holds 255.000000, and binary cross-entropy takes 0 to 1");
    }
    void targets()
    {
        QFETCH(int, use);
        QFETCH(QByteArray, contents);
        QFETCH(QString, says);
        Needs needs;
        needs.kind = Needs::Kind::Arrays;
        needs.inputs.push_back({"x", DType::F32, 6});
        needs.inputs.push_back({"y.targets", DType::F32, 2, 0, static_cast<Needs::Use>(use)});
        write("y.targets", contents);
        const auto data = data::openDataSet(m_folder->path().toStdString(), needs);
        QCOMPARE(data.ok(), says.isEmpty());
        if (!data) {
            QVERIFY2(QString::fromStdString(data.error().text()).contains(says), data.error().text().c_str());
            return;
        }
        std::vector<float> row(2);
        (*data)->fillInputAt(1, 1, row.data());
        QCOMPARE(row[1], 1.0F); // as stored, no 255th of it
        QCOMPARE((*data)->samples(), 2);
    }

    void oneFileIsNotEnough()
    {
        const auto data = data::openDataSet(m_folder->filePath("words.npy").toStdString(), m_needs);
        QVERIFY(!data.ok());
        QVERIFY(data.error().text().find("one .npy file for each") != std::string::npos);
    }

private:
    void write(const QString &name, const QByteArray &contents)
    {
        QFile file(m_folder->filePath(name + ".npy"));
        QVERIFY(file.open(QIODevice::WriteOnly));
        QCOMPARE(file.write(contents), contents.size());
    }
    [[nodiscard]] Result<std::unique_ptr<data::DataSet>> open() const
    {
        return data::openDataSet(m_folder->path().toStdString(), m_needs);
    }

    std::unique_ptr<QTemporaryDir> m_folder;
    Needs m_needs;
};

QTEST_GUILESS_MAIN(TestArrays)
#include "tst_arrays.moc"
