// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/cli_fixture.h"

#include <QTest>

namespace planloom::testing {

/// Shared by tests of the command with plans for GPUs: a model whose steps take milliseconds on the emulated GPU, a
/// text to train on, and plan1.json and plan2.json, with as many stages on a GPU each.
class GpuCliTest : public CliTest {
protected:
    /// What plans are made of, for 1 or 2 @p devices.
    static QStringList planning(int devices)
    {
        return {"plan",      "--model", "config.json", "--cluster", QString("gpus%1.yaml").arg(devices),
                "--planner", "gpipe",   "--batch",     "4",         "--micro-batch",
                "2"};
    }
    void makePlan(int devices, const QString &name, const QStringList &options = {})
    {
        const Done done = run(planning(devices) + QStringList{"-o", name, "--quiet"} + options);
        QVERIFY2(done.status == 0, done.err.constData());
    }
    void makePlans()
    {
        qputenv("PLANLOOM_LOG", "info");
        QByteArray text;
        for (int i = 0; i < 400; ++i)
            text += "line " + QByteArray::number(i) + " of a text that a small model can learn from\n";
        QVERIFY(write(at("text"), text));
        QVERIFY(write(at("config.json"), R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
                                             "n_positions": 16, "vocab_size": 256})"));
        for (int devices = 1; devices <= 2; ++devices) {
            QVERIFY(write(at(QString("gpus%1.yaml").arg(devices)),
                          "name: gpus\nnodes:\n  devices_per_node: " + QByteArray::number(devices)
                              + "\n  device: V100-16GB\n  intra: {bandwidth: 25 GB/s, latency: 5 us}\n"));
            makePlan(devices, QString("plan%1.json").arg(devices));
        }
    }
    static void useEmulatedGpu() { qputenv("PLANLOOM_CUDA_PLUGIN", PLANLOOM_TEST_LIBRARIES "/emulated_library.so"); }
};

} // namespace planloom::testing
