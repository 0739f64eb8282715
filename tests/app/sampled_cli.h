// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/cli_fixture.h"

#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

namespace planloom::testing {

inline QJsonObject objectOf(const QByteArray &text) { return QJsonDocument::fromJson(text).object(); }

/// What `train --json` prints of them, in front of its summary.
inline QJsonObject transfersOf(const QByteArray &out)
{
    const QList<QByteArray> lines = out.trimmed().split('\n');
    return lines.size() < 2 ? QJsonObject() : objectOf(lines[lines.size() - 2])["transfers"].toObject();
}

/// Jobs of sampled training by the command: graph and machines, plans, runs and their processes.
class SampledCliTest : public CliTest {
protected:
    /// blocks.graph in four parts, two machines in machines.yaml, and the sample job in job.json.
    void makeInputs()
    {
        QVERIFY2(QFileInfo(binary()).isExecutable(), qPrintable(binary() + " is not built"));
        const Done done = run({"graph", "sbm", "--parts", "4", "--partition", "hash", "-o", "blocks.graph", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        QCOMPARE(result["nodes"].toInt(), 1000);
        QCOMPARE(result["partition"].toObject()["parts"].toInt(), 4);
        QVERIFY(write(at("job.json"), sampleJob()));
        QVERIFY(write(at("machines.yaml"), R"(name: machines
types:
  - {name: CPU-small, memory: 4 GiB, peak_flops: {float32: 50 GFLOP/s}, memory_bandwidth: 10 GB/s}
nodes:
  count: 2
  devices_per_node: 1
  device: CPU-small
  intra: {bandwidth: 10 GB/s}
  inter: {point_to_point: 100 MB/s, collective: 100 MB/s}
)"));
    }

    [[nodiscard]] QByteArray sampleJob() const
    {
        return readAll(PLANLOOM_SOURCE_DIR "/resources/samples/gnn-job.json").replace("debian.graph", "blocks.graph");
    }

    [[nodiscard]] QStringList planOf(const QString &out, const QString &cluster,
                                     const QStringList &graph = {"blocks.graph"}) const
    {
        return QStringList{"plan",    "--model", "zoo:graphsage-blocks", "--cluster", cluster, "--planner",    "gnn",
                           "--batch", "32",      "--learning-rate",      "0.003",     "--set", "proposals=50", "-o",
                           out,       "--graph"}
        + graph;
    }

    [[nodiscard]] Done train(const QString &plan, const QString &graph, const QString &steps, const QString &folder,
                             const QStringList &more = {}) const
    {
        return run(QStringList{"train", plan, "--data", graph, "--steps", steps, "--run-dir", folder, "--json"} + more);
    }

    /// A line a step, as it was printed.
    static QByteArray lossesOf(const QByteArray &out)
    {
        QByteArray losses;
        for (const QByteArray &line : out.split('\n')) {
            const QJsonObject step = objectOf(line);
            if (step.contains("step") && step.contains("seconds"))
                losses += QByteArray::number(step["loss"].toDouble(), 'g', 17) + '\n';
        }
        return losses;
    }

    /// A process that has a file open beneath the test's folder; 0: none.
    [[nodiscard]] qint64 processWith(const QString &file) const
    {
        const QDir processes("/proc");
        for (const QString &process : processes.entryList(QDir::Dirs)) {
            const QDir files(QStringLiteral("/proc/%1/fd").arg(process));
            for (const QFileInfo &open : files.entryInfoList(QDir::System | QDir::Files)) {
                if (open.symLinkTarget().startsWith(m_folder.path()) && open.symLinkTarget().endsWith(file))
                    return process.toLongLong();
            }
        }
        return 0;
    }
};

} // namespace planloom::testing
