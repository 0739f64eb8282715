// SPDX-License-Identifier: Apache-2.0
// resources/tools/export_torch.py with the system's PyTorch: what it writes is a model that can be trained.
#include "engine/import/import.h"

#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

using namespace planloom;

namespace {

constexpr int kMostMilliseconds = 120'000;
constexpr std::int64_t kParameters = 50 * 16 + 3 * (32 + 16 * 64 + 64 + 64 * 16 + 16) + 16 * 50 + 50;

struct Answer {
    int code = -1;
    QString text;
};

Answer python(const QStringList &arguments)
{
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral("/usr/bin/python3"), arguments);
    if (!process.waitForFinished(kMostMilliseconds))
        return {};
    return {process.exitCode(), QString::fromUtf8(process.readAll())};
}

/// All of it in one process: PyTorch takes seconds to start. Prints what the tool does, refusals as well.
constexpr const char *kDriver = R"(
import sys
sys.path.insert(0, sys.argv[1])
import export_torch
models, folder = sys.argv[2], sys.argv[3]
for name, arguments in (("make", []), ("traced", ["--no-weights"]), ("trained", []), ("wrong", []), ("none", []),
                        ("fixed", ["--fixed", "nothing"])):
    source = models + ":" + ("make" if name == "fixed" else name)
    sys.argv = ["export_torch.py", source, "-o", folder + "/" + name + ".onnx"] + arguments
    try:
        export_torch.main()
    except SystemExit as refused:
        print(refused)
)";

} // namespace

class TestTorchExport : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void models_data();
    void models();
    void refusals();

private:
    QTemporaryDir m_folder;
    Answer m_answer;
};

void TestTorchExport::initTestCase()
{
    if (python({QStringLiteral("-c"),
                QStringLiteral("import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)")})
            .code
        != 0)
        QSKIP("Debian's python3-torch is not installed");
    m_answer = python({QStringLiteral("-c"), QString::fromLatin1(kDriver),
                       QStringLiteral(PLANLOOM_SOURCE_DIR "/resources/tools"),
                       QStringLiteral(PLANLOOM_SOURCE_DIR "/tests/engine/import/torch_models.py"), m_folder.path()});
    QVERIFY2(m_answer.code == 0, qPrintable(m_answer.text));
}

void TestTorchExport::models_data()
{
    QTest::addColumn<QString>("model");
    QTest::addColumn<bool>("weights");
    QTest::addColumn<QString>("target");
    QTest::newRow("module") << "make" << true << "labels";
    QTest::newRow("torch.fx, without weights") << "traced" << false << "labels";
    QTest::newRow("module with its loss") << "trained" << true << "targets";
}

void TestTorchExport::models()
{
    QFETCH(QString, model);
    QFETCH(bool, weights);
    QFETCH(QString, target);
    const QString path = m_folder.filePath(model + QStringLiteral(".onnx"));
    QVERIFY2(m_answer.text.contains(QStringLiteral("%1: %2 parameters, inputs tokens").arg(path).arg(kParameters)),
             qPrintable(m_answer.text));
    const auto read = import::loadModel(path.toStdString());
    QVERIFY2(read, read ? "" : read.error().text().c_str());
    const graph::Graph &graph = *read->graph;
    QVERIFY2(read->noLoss.empty(), read->noLoss.c_str());
    QVERIFY(graph.loss().valid());
    std::int64_t parameters = 0;
    for (const TensorId id : graph.withRole(graph::TensorRole::Parameter)) {
        parameters += graph.tensor(id).shape.elements(1);
        const bool has = graph.tensor(id).init.kind != graph::Initializer::Kind::None;
        QVERIFY2(has || !weights, graph.tensor(id).name.c_str());
    }
    QCOMPARE(parameters, kParameters);
    const auto inputs = graph.withRole(graph::TensorRole::Input);
    QCOMPARE(inputs.size(), std::size_t{2});
    QCOMPARE(graph.tensor(inputs[1]).name, target.toStdString());
    QVERIFY(graph.tensor(inputs[0]).shape[0].batch);
    QCOMPARE(graph.tensor(inputs[0]).shape[1].size, std::int64_t{12});
}

void TestTorchExport::refusals()
{
    for (const char *says :
         {"an example of its inputs", "has no 'none'", "there is no input 'nothing'; there are tokens"})
        QVERIFY2(m_answer.text.contains(QString::fromLatin1(says)), qPrintable(m_answer.text));
}

QTEST_GUILESS_MAIN(TestTorchExport)
#include "tst_torch_export.moc"
