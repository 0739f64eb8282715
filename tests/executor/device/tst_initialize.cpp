// SPDX-License-Identifier: Apache-2.0
#include "engine/weights/safetensors.h"
#include "executor/device/kernel.h"

#include <QtCore/QFile>
#include <QtCore/QTemporaryDir>
#include <QtTest/QTest>

#include <cmath>
#include <cstring>
#include <omp.h>
#include <span>

using namespace planloom;
using graph::Initializer;

namespace {

graph::Tensor tensor(const char *name, Initializer::Kind kind, double a = 0, double b = 0,
                     graph::DType type = graph::DType::F32)
{
    graph::Tensor result;
    result.name = name;
    result.type = type;
    result.init.kind = kind;
    result.init.a = a;
    result.init.b = b;
    return result;
}

std::vector<float> drawn(const graph::Tensor &which, std::size_t elements, std::int64_t seed)
{
    std::vector<float> values(elements);
    if (!device::initialize(which, static_cast<std::int64_t>(elements), seed, {}, values.data()))
        values.clear();
    return values;
}

struct Moments {
    double mean = 0, deviation = 0;
};

Moments moments(const std::vector<float> &values)
{
    Moments result;
    for (const float v : values)
        result.mean += static_cast<double>(v) / static_cast<double>(values.size());
    for (const float v : values)
        result.deviation += std::pow(static_cast<double>(v) - result.mean, 2) / static_cast<double>(values.size());
    result.deviation = std::sqrt(result.deviation);
    return result;
}

} // namespace

class Initialize : public QObject {
    Q_OBJECT

private slots:
    void dependsOnSeedAndNameOnly()
    {
        const auto weight = tensor("h/0/weight", Initializer::Kind::Normal, 0, 1);
        const auto values = drawn(weight, 100001, 7);
        QCOMPARE(drawn(weight, 100001, 7), values);
        QVERIFY(drawn(weight, 100001, 8) != values);
        QVERIFY(drawn(tensor("h/1/weight", Initializer::Kind::Normal, 0, 1), 100001, 7) != values);
        omp_set_num_threads(1);
        QCOMPARE(drawn(weight, 100001, 7), values);
        omp_set_num_threads(omp_get_num_procs());
        // An element depends on its index alone: a shorter tensor is a prefix.
        const auto shorter = drawn(weight, 999, 7);
        QVERIFY(std::equal(shorter.begin(), shorter.end(), values.begin()));
    }

    void readsSafetensorsInAnyFloatFormat()
    {
        const QTemporaryDir folder;
        const std::vector<std::uint16_t> brain{0x3f80, 0xc000};
        const std::vector<std::uint16_t> half{0x3c00, 0xc000};
        const std::vector<float> single{1, -2};
        const std::vector<std::int64_t> whole{1, -2};
        const auto bytes = [](const auto &values) { return std::as_bytes(std::span(values)); };
        const std::vector<weights::TensorToWrite> tensors{{"half", graph::DType::F16, {2}, bytes(half)},
                                                          {"none", graph::DType::F32, {0}, {}},
                                                          {"single", graph::DType::F32, {1, 2}, bytes(single)},
                                                          {"brain", graph::DType::BF16, {2, 1}, bytes(brain)},
                                                          {"whole", graph::DType::I64, {2}, bytes(whole)}};
        const std::string path = folder.path().toStdString();
        QVERIFY(weights::writeSafetensors(path + "/w.safetensors", tensors, {}).ok());
        const auto file = weights::SafetensorsFile::open(path + "/w.safetensors");
        auto which = tensor("any name", Initializer::Kind::File);
        which.init.file = "w.safetensors";
        for (const char *name : {"half", "single", "brain"}) {
            which.init.offset = file->header().find(name)->begin;
            float values[2] = {};
            const Status done = device::initialize(which, 2, 1, path, values);
            QVERIFY2(done.ok(), done ? "" : done.error().text().c_str());
            QCOMPARE(values[0], 1.0F);
            QCOMPARE(values[1], -2.0F);
        }
        float values[4] = {};
        QVERIFY(!device::initialize(which, 4, 1, path, values).ok()); // of another size
        which.init.offset = file->header().find("whole")->begin;
        QVERIFY(!device::initialize(which, 2, 1, path, values).ok()); // no floats
        which.init.offset = file->header().find("single")->begin + 4;
        QVERIFY(!device::initialize(which, 1, 1, path, values).ok()); // in the middle of a tensor
        which.init.file = "../w.safetensors";
        QVERIFY(!device::initialize(which, 2, 1, path + "/below", values).ok());
    }

    void drawsTheDistributions()
    {
        const Moments normal = moments(drawn(tensor("n", Initializer::Kind::Normal, 3, 0.5), 200000, 1));
        QVERIFY(std::fabs(normal.mean - 3) < 0.01);
        QVERIFY(std::fabs(normal.deviation - 0.5) < 0.01);
        const auto uniform = drawn(tensor("u", Initializer::Kind::Uniform, -1, 3), 200000, 1);
        QVERIFY(std::all_of(uniform.begin(), uniform.end(), [](float v) { return v >= -1.0F && v <= 3.0F; }));
        QVERIFY(std::fabs(moments(uniform).mean - 1) < 0.02);
        QVERIFY(std::fabs(moments(uniform).deviation - 4 / std::sqrt(12.0)) < 0.02);
    }

    void neighboursAreNotCorrelated()
    {
        const auto values = drawn(tensor("n", Initializer::Kind::Normal, 0, 1), 200000, 1);
        double product = 0;
        for (std::size_t i = 0; i + 1 < values.size(); ++i)
            product += static_cast<double>(values[i]) * static_cast<double>(values[i + 1])
                / static_cast<double>(values.size());
        QVERIFY(std::fabs(product) < 0.01);
    }

    void fillsConstants()
    {
        QCOMPARE(drawn(tensor("z", Initializer::Kind::Zeros), 3, 1), (std::vector<float>{0, 0, 0}));
        QCOMPARE(drawn(tensor("o", Initializer::Kind::Ones), 3, 1), (std::vector<float>{1, 1, 1}));
        std::vector<std::int64_t> whole(2);
        QVERIFY(
            device::initialize(tensor("i", Initializer::Kind::Ones, 0, 0, graph::DType::I64), 2, 1, {}, whole.data())
                .ok());
        QCOMPARE(whole, (std::vector<std::int64_t>{1, 1}));
    }

    void copiesStoredData()
    {
        const std::vector<float> stored{1.5F, -2.0F};
        auto bytes = std::make_shared<std::vector<std::byte>>(8);
        std::memcpy(bytes->data(), stored.data(), 8);
        auto which = tensor("d", Initializer::Kind::Data);
        which.init.data = bytes;
        QCOMPARE(drawn(which, 2, 1), stored);
        std::vector<float> values(3);
        const Status status = device::initialize(which, 3, 1, {}, values.data());
        QVERIFY(!status.ok());
        QCOMPARE(status.error().code, ErrorCode::BadInput);
        QVERIFY(status.error().text().find("needs 12 bytes but 8 are stored") != std::string::npos);
    }

    void readsFilesBeneathTheModel()
    {
        QTemporaryDir folder;
        QFile file(folder.filePath("weights.bin"));
        QVERIFY(file.open(QIODevice::WriteOnly));
        const std::vector<float> stored{1, 2, 3, 4};
        file.write(reinterpret_cast<const char *>(stored.data()), 16);
        file.close();
        auto which = tensor("f", Initializer::Kind::File);
        which.init.file = "weights.bin";
        which.init.offset = 4;
        std::vector<float> values(2);
        QVERIFY(device::initialize(which, 2, 1, folder.path().toStdString(), values.data()).ok());
        QCOMPARE(values, (std::vector<float>{2, 3}));
        QVERIFY(!device::initialize(which, 4, 1, folder.path().toStdString(), std::vector<float>(4).data()).ok());
        which.init.file = "../weights.bin";
        QVERIFY(!device::initialize(which, 2, 1, folder.path().toStdString(), values.data()).ok());
    }

    void refusesWhatHasNoValue()
    {
        std::vector<std::int64_t> values(1);
        QVERIFY(!device::initialize(tensor("none", Initializer::Kind::None), 1, 1, {}, values.data()).ok());
        const Status status = device::initialize(tensor("int", Initializer::Kind::Normal, 0, 1, graph::DType::I64), 1,
                                                 1, {}, values.data());
        QVERIFY(!status.ok());
        QCOMPARE(status.error().code, ErrorCode::Unsupported);
    }
};

QTEST_GUILESS_MAIN(Initialize)
#include "tst_initialize.moc"
