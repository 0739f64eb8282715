// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "executor/conformance/forward_machine.h"

#include <QtTest/QTest>

#include <cmath>
#include <cstring>

using namespace planloom;
using namespace planloom::conformance;

namespace {

std::vector<float> floatsOf(const TensorFile &file)
{
    std::vector<float> values(file.data.size() / sizeof(float));
    std::memcpy(values.data(), file.data.data(), values.size() * sizeof(float));
    return values;
}

TensorFile wave(const std::string &name, std::vector<std::int64_t> dims, std::size_t count)
{
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = 2 * std::sin(0.7F * static_cast<float>(i));
    TensorFile file{name, graph::DType::F32, std::move(dims), std::vector<std::byte>(count * sizeof(float))};
    std::memcpy(file.data.data(), values.data(), file.data.size());
    return file;
}

TensorFile tokens(const std::string &name, std::size_t count)
{
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<std::int64_t>(i * 7 % 65);
    TensorFile file{name,
                    graph::DType::I64,
                    {1, static_cast<std::int64_t>(count)},
                    std::vector<std::byte>(count * sizeof(std::int64_t))};
    std::memcpy(file.data.data(), values.data(), file.data.size());
    return file;
}

} // namespace

/// A file read with its patterns fused computes what it computes when it is read as it is.
class PatternsNumeric : public QObject {
    Q_OBJECT

private slots:
    void fusedComputesTheSame_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<bool>("words");
        QTest::addColumn<int>("fewer");
        QTest::addColumn<int>("outputs");
        QTest::newRow("norms and activations") << "gated.onnx" << false << 30 << 48;
        QTest::newRow("causal attention, packed") << "gpt-weights.onnx" << true << 20 << 16 * 65;
    }
    void fusedComputesTheSame()
    {
        QFETCH(QString, file);
        QFETCH(bool, words);
        QFETCH(int, fewer);
        QFETCH(int, outputs);
        const auto bytes = readFile((QString(PLANLOOM_SOURCE_DIR "/tests/golden/onnx/") + file).toStdString());
        QVERIFY(bytes.ok());
        const TensorFile input = words ? tokens("input", 16) : wave("input", {1, 6, 8}, 48);
        const auto plain = import::readOnnxExactly(*bytes, "gated.onnx", ".", {{input, false}});
        QVERIFY2(plain.ok(), plain ? "" : plain.error().text().c_str());
        const auto fused = import::readOnnx(*bytes, "gated.onnx", ".");
        QVERIFY2(fused.ok(), fused ? "" : fused.error().text().c_str());
        QVERIFY(fused->graph->ops().size() + static_cast<std::size_t>(fewer) < plain->graph->ops().size());
        const auto want = outputOf(*plain->graph, input);
        const auto got = outputOf(*fused->graph, input);
        QCOMPARE(want.size(), static_cast<std::size_t>(outputs));
        QCOMPARE(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i)
            QVERIFY2(std::abs(got[i] - want[i]) <= 1e-5F * (1 + std::abs(want[i])),
                     qPrintable(QString("%1: %2, not %3").arg(i).arg(got[i]).arg(want[i])));
    }

private:
    static std::vector<float> outputOf(const graph::Graph &graph, const TensorFile &input)
    {
        std::vector<TensorFile> inputs{input};
        for (const TensorId id : graph.withRole(graph::TensorRole::Input)) // labels, if a loss was added
            if (const graph::Tensor &tensor = graph.tensor(id); tensor.name != input.name)
                inputs.push_back({tensor.name, tensor.type, tensor.shape.at(1),
                                  std::vector<std::byte>(static_cast<std::size_t>(tensor.bytes().value()))});
        ForwardMachine machine(graph);
        if (const std::string problem = machine.run(inputs); !problem.empty()) {
            qWarning("%s", problem.c_str());
            return {};
        }
        return floatsOf(machine.get(graph.find("output")));
    }
};

QTEST_GUILESS_MAIN(PatternsNumeric)
#include "tst_patterns_numeric.moc"
