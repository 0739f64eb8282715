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

const QString kTool = QStringLiteral(PLANLOOM_SOURCE_DIR "/resources/tools/export_torch.py");
const QString kModels = QStringLiteral(PLANLOOM_SOURCE_DIR "/tests/engine/import/torch_models.py");

} // namespace

class TestTorchExport : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void models_data();
    void models();
    void refusals();
};

void TestTorchExport::initTestCase()
{
    if (python({QStringLiteral("-c"),
                QStringLiteral("import importlib.util, sys; "
                               "sys.exit(importlib.util.find_spec('torch') is None)")})
            .code
        != 0)
        QSKIP("Debian's python3-torch is not installed");
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
    const QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("model.onnx"));
    QStringList arguments{kTool, kModels + QLatin1Char(':') + model, QStringLiteral("-o"), path};
    if (!weights)
        arguments << QStringLiteral("--no-weights");
    const Answer answer = python(arguments);
    QVERIFY2(answer.code == 0, qPrintable(answer.text));
    QVERIFY2(answer.text.contains(QStringLiteral("%1 parameters, inputs tokens").arg(kParameters)),
             qPrintable(answer.text));
    const auto read = import::loadModel(path.toStdString());
    QVERIFY2(read, read ? "" : read.error().text().c_str());
    const graph::Graph &graph = *read->graph;
    QVERIFY2(read->noLoss.empty(), read->noLoss.c_str());
    QVERIFY(graph.loss().valid());
    std::int64_t parameters = 0;
    for (const TensorId id : graph.withRole(graph::TensorRole::Parameter)) {
        std::int64_t elements = 1;
        for (std::size_t axis = 0; axis < graph.tensor(id).shape.rank(); ++axis)
            elements *= graph.tensor(id).shape[axis].size;
        parameters += elements;
        const bool has = graph.tensor(id).init.kind != graph::Initializer::Kind::None;
        QVERIFY2(has == weights || !weights, graph.tensor(id).name.c_str());
    }
    QCOMPARE(parameters, kParameters);
    const auto inputs = graph.withRole(graph::TensorRole::Input);
    QCOMPARE(inputs.size(), std::size_t{2});
    QCOMPARE(graph.tensor(inputs[1]).name, target.toStdString());
    const graph::Tensor &tokens = graph.tensor(graph.withRole(graph::TensorRole::Input)[0]);
    QVERIFY(tokens.shape[0].batch);
    QCOMPARE(tokens.shape[1].size, std::int64_t{12});
}

void TestTorchExport::refusals()
{
    const Answer form = python({kTool, QStringLiteral("nothing")});
    QVERIFY(form.code != 0);
    QVERIFY2(form.text.contains(QStringLiteral("write FILE.py:NAME")), qPrintable(form.text));
    const Answer alone = python({kTool, kModels + QStringLiteral(":wrong")});
    QVERIFY(alone.code != 0);
    QVERIFY2(alone.text.contains(QStringLiteral("an example of its inputs")), qPrintable(alone.text));
}

QTEST_GUILESS_MAIN(TestTorchExport)
#include "tst_torch_export.moc"
