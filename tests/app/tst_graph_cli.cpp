// SPDX-License-Identifier: Apache-2.0
// Graphs, placements and training on trees by the command, as a user runs it.
#include "app/sampled_cli.h"
#include "engine/base/files.h"
#include "engine/gnn/graph_data.h"
#include "engine/gnn/partition.h"
#include "executor/data/graph_folder.h"

#include <cmath>

using namespace planloom;
using namespace planloom::testing;

class TestGraphCli : public SampledCliTest {
    Q_OBJECT

    /// What roles do and send is predicted and measured under the same ids.
    void sameTasks(const QString &plan, const QString &folder) const
    {
        const Done compared = run({"compare", plan, folder, "--json"});
        QVERIFY2(compared.status == 0, compared.err.constData());
        const QJsonObject comparison = objectOf(compared.out)["tasks"].toObject();
        QVERIFY2(comparison.contains("only_predicted"), compared.out.constData());
        QCOMPARE(comparison["only_predicted"].toArray(), QJsonArray());
        QCOMPARE(comparison["only_measured"].toArray(), QJsonArray());
        QStringList ids;
        for (const QJsonValue &task : comparison["tasks"].toArray())
            ids += task.toObject()["id"].toString();
        for (const char *expected : {"s0.LD", "s0w0", "s0g0", "g0s0", "s0.F.m0"})
            QVERIFY2(ids.contains(expected), expected);
    }

private Q_SLOTS:
    void initTestCase() { makeInputs(); }

    void karate()
    {
        const Done done = run({"graph", "karate", "-o", "karate.graph"});
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(done.out.contains("34 nodes, 78 edges"));
        QCOMPARE(entries(at("karate.graph")),
                 QStringList({"features.npy", "graph.json", "indices.npy", "indptr.npy", "labels.npy"}));
    }

    void widthOfBlocks()
    {
        const Done done = run({"graph", "sbm", "--block-nodes", "20", "--width", "64", "-o", "wide.graph", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(objectOf(done.out)["features"].toInt(), 64);
    }

    void debianList()
    {
        QVERIFY(write(at("Packages"),
                      "Package: a\nDepends: b\nSection: x\nDescription: one two\n\nPackage: b\nSection: y\n"));
        const Done done =
            run({"graph", "debian", "--packages", "Packages", "--width", "4", "-o", "small.graph", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        QCOMPARE(objectOf(done.out)["edges"].toInt(), 1);
        QVERIFY(objectOf(readAll(at("small.graph/graph.json")))["source_sha256"].toString().size() == 64);
    }

    void placement()
    {
        const Done done =
            run({"place", "job.json", "--proposals", "50", "--trace", "t.json", "-o", "p.json", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        QCOMPARE(result["roles"].toArray().size(), 17);
        QCOMPARE(result["policies"].toObject().size(), 4);
        const double seconds = result["seconds"].toDouble();
        QVERIFY(seconds <= result["search"].toObject()["initial_seconds"].toDouble());
        QVERIFY(seconds >= result["bounds"].toObject()["critical_path_seconds"].toDouble());
        QCOMPARE(result["policies"].toObject()["degree"].toDouble(), seconds);
        QCOMPARE(objectOf(readAll(at("p.json"))), result);
        QVERIFY(!objectOf(readAll(at("t.json")))["traceEvents"].toArray().isEmpty());
        QCOMPARE(run({"place", "job.json", "--proposals", "50", "--json"}).out, done.out); // of a seed, the same
    }

    /// What `graph` and `place` wrote and read, by inspect.
    void inspected()
    {
        const auto json = [&](const char *what) { return objectOf(run({"inspect", what, "--json"}).out); };
        const QJsonObject graph = json("blocks.graph");
        QCOMPARE(graph["kind"].toString(), QString("graph"));
        QCOMPARE(graph["nodes"].toInt(), objectOf(readAll(at("blocks.graph/graph.json")))["nodes"].toInt());
        const QJsonObject job = json("job.json");
        QCOMPARE(job["kind"].toString(), QString("gnn-job"));
        QCOMPARE(job["roles"].toObject()["sampler"].toInt(), 8);
        QVERIFY(job["feature_bytes"].toDouble() > 0 && job["exchange_bytes"].toDouble() > 0);
        QVERIFY(run({"inspect", "job.json"}).out.contains("mini-batch is sampled in"));
        QCOMPARE(run({"place", "job.json", "--search", "initial", "-o", "seen.json"}).status, 0);
        const QJsonObject placement = json("seen.json");
        QCOMPARE(placement["kind"].toString(), QString("placement"));
        QCOMPARE(placement["roles"].toInt(), 17);
        QCOMPARE(placement["seconds"].toDouble(), objectOf(readAll(at("seen.json")))["seconds"].toDouble());
        QVERIFY(run({"inspect", "seen.json"}).out.contains("under degree"));
        QVERIFY(write(at("half.json"), readAll(at("seen.json")).replace("\"policy\"", "\"politics\"")));
        const Done half = run({"inspect", "half.json"});
        QCOMPARE(half.status, 2);
        QVERIFY2(half.err.contains("half.json") && half.err.contains("policy"), half.err.constData());
    }

    void placementForPeople()
    {
        const Done done = run({"place", "job.json", "--search", "initial"});
        QVERIFY2(done.status == 0, done.err.constData());
        for (const char *expected : {"machine0", "iteration-first", "critical path", "first feasible placement"})
            QVERIFY2(done.out.contains(expected), done.out.constData());
    }

    /// Partition, exchange, cache and prefetch with the placement: never worse than what the job says.
    void jointPlacement()
    {
        QByteArray job = sampleJob();
        QVERIFY(write(at("joint.json"), job.replace("\"iterations\": 6", "\"iterations\": 2")));
        const Done done = run({"place", "joint.json", "--joint", "--proposals", "20", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject result = objectOf(done.out);
        const QJsonObject choices = result["choices"].toObject();
        QVERIFY(result["seconds"].toDouble() <= choices["given_seconds"].toDouble());
        QStringList tried;
        for (const QJsonValue &entry : choices["tried"].toArray())
            tried << entry.toObject()["choice"].toString();
        QVERIFY(tried.count("partition") >= 2); // with METIS 4
        QCOMPARE(tried.count("exchange"), 2);
        QCOMPARE(tried.count("cache"), 3);
        QCOMPARE(tried.count("prefetch"), 3);
        const bool servers = choices["exchange"].toString() == QStringLiteral("parameter-server");
        QCOMPARE(result["roles"].toArray().size(), servers ? 17 : 16);
        QVERIFY(run({"place", "joint.json", "--joint", "--proposals", "20"}).out.contains("over the chosen"));
    }

    /// Bytes by tables, without a graph.
    void tablesOfBytes()
    {
        QByteArray job = sampleJob();
        const auto sampled = job.indexOf("\"sampled\"");
        QByteArray features;
        for (int s = 0; s < 8; ++s)
            features += QByteArray(s > 0 ? ", " : "") + (s / 2 == 0 ? "[8e6, 1e5, 1e5, 1e5]" : "[1e5, 2e6, 2e6, 2e6]");
        job = job.left(sampled) + "\"exchange\": \"parameter-server\", \"volumes\": {\"features\": [" + features
            + "], \"batches\": [8e6, 8e6, 8e6, 8e6, 8e6, 8e6, 8e6, 8e6]}\n}\n";
        QVERIFY(write(at("tables.json"), job));
        const Done done = run({"place", "tables.json", "--joint", "--proposals", "20", "--json"});
        QVERIFY2(done.status == 0, done.err.constData());
        for (const QJsonValue &entry : objectOf(done.out)["choices"].toObject()["tried"].toArray())
            QVERIFY(entry.toObject()["choice"] != "partition" && entry.toObject()["choice"] != "cache");
        QVERIFY(write(at("tables.json"), job.replace("\"parameter-server\", \"volumes", "\"gossip\", \"volumes")));
        const Done refused = run({"place", "tables.json"});
        QCOMPARE(refused.status, 2);
        QVERIFY2(refused.err.contains("gossip") && refused.err.contains("all-reduce"), refused.err.constData());
    }

    void badInput_data()
    {
        QTest::addColumn<QByteArray>("from");
        QTest::addColumn<QByteArray>("to");
        QTest::addColumn<QByteArray>("message");
        QTest::newRow("fan-out") << QByteArray("\"fanout\": [10, 5]") << QByteArray("\"fanout\": [0, 5]")
                                 << QByteArray("job.json:");
        QTest::newRow("no room") << QByteArray("\"trainer-slots\": 2") << QByteArray("\"trainer-slots\": 1")
                                 << QByteArray("trainer w2 is one too many: the roles up to it need 3 trainer-slots");
        QTest::newRow("no graph") << QByteArray("blocks.graph") << QByteArray("nothing.graph")
                                  << QByteArray("nothing.graph/graph.json");
        QTest::newRow("parts") << QByteArray("blocks.graph") << QByteArray("karate2.graph")
                               << QByteArray("is the home of a sampler, and the graph has 2");
        QTest::newRow("no field") << QByteArray("\"iterations\": 6,") << QByteArray() << QByteArray("iterations");
    }

    void badInput()
    {
        QFETCH(QByteArray, from);
        QFETCH(QByteArray, to);
        QFETCH(QByteArray, message);
        if (!QFile::exists(at("karate2.graph")))
            QCOMPARE(run({"graph", "karate", "--parts", "2", "--partition", "hash", "-o", "karate2.graph"}).status, 0);
        QByteArray job = sampleJob();
        QVERIFY(job.contains(from));
        QVERIFY(write(at("bad.json"), job.replace(from, to)));
        const Done done = run({"place", "bad.json", "-o", "bad.out"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: ") && done.err.count('\n') == 1, done.err.constData());
        QVERIFY2(done.err.contains(message) || (message == "job.json:" && done.err.contains("bad.json:")),
                 done.err.constData());
        QVERIFY(!entries().contains("bad.out"));
    }

    void badOptions_data()
    {
        QTest::addColumn<QStringList>("arguments");
        QTest::newRow("kind") << QStringList{"graph", "roads", "-o", "x"};
        QTest::newRow("parts") << QStringList{"graph", "karate", "--parts", "35", "--partition", "hash", "-o", "x"};
        QTest::newRow("degree") << QStringList{"graph", "sbm", "--inside", "400", "-o", "x"};
        QTest::newRow("of another kind") << QStringList{"graph", "karate", "--width", "64", "-o", "x"};
        QTest::newRow("of another method")
            << QStringList{"graph", "sbm", "--parts", "2", "--partition", "hash", "--balance-training", "-o", "x"};
        QTest::newRow("no list") << QStringList{"graph", "debian", "--packages", "nothing", "-o", "x"};
        QTest::newRow("policy") << QStringList{"place", "job.json", "--policy", "fair"};
    }

    void badOptions()
    {
        QFETCH(QStringList, arguments);
        const Done done = run(arguments);
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: "), done.err.constData());
        QVERIFY(!entries().contains("x"));
    }

    /// Two replicas learn the blocks from trees.
    void training()
    {
        const Done planned =
            run({"plan", "--model", "zoo:graphsage-blocks", "--cluster", "local:2", "--planner", "data-parallel",
                 "--batch", "64", "--learning-rate", "0.003", "-o", "sage.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done trained = run({"train", "sage.plan.json", "--data", "blocks.graph", "--steps", "150", "--holdout",
                                  "0.4", "--validate-every", "150", "--run-dir", "sage.run", "--json"});
        QVERIFY2(trained.status == 0, trained.err.constData());
        const QJsonObject summary = objectOf(trained.out.trimmed().split('\n').last())["summary"].toObject();
        QVERIFY(summary["loss_last"].toDouble() < 0.6 * summary["loss_first"].toDouble());
    }

    /// Block form trains as trees do: the same losses to rounding, the memory that was predicted. A graph convolution
    /// learns, too.
    void blockForm()
    {
        QList<double> losses[2];
        const QStringList models{"graphsage-blocks", "graphsage-blocks-rows", "gcn-blocks"};
        for (qsizetype i = 0; i < models.size(); ++i) {
            const Done planned =
                run({"plan", "--model", "zoo:" + models[i], "--cluster", "local:2", "--planner", "data-parallel",
                     "--batch", "64", "--learning-rate", "0.003", "-o", "rows.plan.json"});
            QVERIFY2(planned.status == 0, planned.err.constData());
            QDir(at("rows.run")).removeRecursively();
            const Done trained =
                train("rows.plan.json", "blocks.graph", i < 2 ? "12" : "150", "rows.run", {"--holdout", "0.4"});
            QVERIFY2(trained.status == 0, trained.err.constData());
            const QJsonObject summary = objectOf(trained.out.trimmed().split('\n').last())["summary"].toObject();
            QCOMPARE(summary["peak_bytes_measured"].toArray(), summary["peak_bytes_predicted"].toArray());
            for (const QByteArray &loss : lossesOf(trained.out).trimmed().split('\n'))
                losses[std::min<qsizetype>(i, 1)].append(loss.toDouble());
            if (i == 2)
                QVERIFY(summary["loss_last"].toDouble() < 0.7 * summary["loss_first"].toDouble());
        }
        QCOMPARE(losses[0].size(), 12);
        for (qsizetype step = 0; step < 12; ++step)
            QVERIFY2(std::abs(losses[0][step] - losses[1][step]) < 1e-5 * losses[0][step],
                     qPrintable(QString::number(losses[0][step] - losses[1][step])));
    }

    /// A plan with stores, samplers and trainers.
    void sampledPlan()
    {
        const Done done = run(planOf("roles.plan.json", "machines.yaml"));
        QVERIFY2(done.status == 0, done.err.constData());
        const QJsonObject plan = objectOf(readAll(at("roles.plan.json")));
        QCOMPARE(plan["job"].toObject()["kind"].toString(), QStringLiteral("gnn-sampled"));
        QCOMPARE(plan["job"].toObject()["fanout"].toArray(), QJsonArray({10, 5}));
        QCOMPARE(plan["roles"].toArray().size(), 6);
        const Done simulated = run({"simulate", "roles.plan.json", "--json"});
        QVERIFY2(simulated.status == 0, simulated.err.constData());
        const double seconds = objectOf(simulated.out)["iteration_seconds"].toDouble();
        const QJsonArray batches = plan["job"].toObject()["volumes"].toObject()["batches"].toArray();
        QCOMPARE(batches.first().toDouble(), 16.0 * (8 + 4 * 16 * 61)); // labels, and 61 rows of 16 features
        const double draws = plan["job"].toObject()["draw_seconds"].toDouble();
        QVERIFY(draws > 0 && seconds > draws * (1 - 1e-12)); // a sampler's own time bounds the iteration
    }

    /// Every placement, partition and number of samplers draws the same: so are the losses, to the last bit.
    void sampledTraining()
    {
        QCOMPARE(run({"graph", "sbm", "--parts", "2", "--partition", "hash", "-o", "two.graph"}).status, 0);
        QCOMPARE(run({"graph", "sbm", "-o", "one.graph"}).status, 0);
        const QString metis = gnn::hasMetis() ? "metis.graph" : "blocks.graph";
        if (gnn::hasMetis())
            QCOMPARE(run({"graph", "sbm", "--parts", "4", "--partition", "metis", "-o", "metis.graph"}).status, 0);
        QByteArray first;
        const QStringList variants[] = {{"blocks.graph"},
                                        {metis},
                                        {"one.graph", "--set", "servers=1"}, // a store
                                        {"blocks.graph", "--set", "search=initial", "--set", "servers=1"},
                                        {"two.graph", "--set", "samplers=2", "--set", "prefetch=1"},
                                        {"two.graph", "--set", "servers=3", "--set", "transfers=iteration-first",
                                         "--set", "chunk_bytes=1000", "--set", "samplers=4"}};
        for (const QStringList &variant : variants) {
            const Done planned = run(planOf("v.plan.json", "machines.yaml", variant));
            QVERIFY2(planned.status == 0, planned.err.constData());
            QDir(at("v.run")).removeRecursively();
            const bool allReduce = variant.contains("samplers=2");
            const bool paced = allReduce || variant.contains("servers=3");
            const Done trained =
                train("v.plan.json", variant.first(), "12", "v.run",
                      QStringList{"--holdout", "0.2"} + (paced ? QStringList{"--paced"} : QStringList()));
            QVERIFY2(trained.status == 0, trained.err.constData());
            const QByteArray losses = lossesOf(trained.out);
            QCOMPARE(losses.count('\n'), 12);
            const auto lines = trained.out.trimmed().split('\n');
            const QJsonObject summary = objectOf(lines.last())["summary"].toObject();
            QCOMPARE(summary["peak_bytes_measured"].toArray().size(), 2); // trainers: other processes have no arena
            QCOMPARE(summary["peak_bytes_measured"], summary["peak_bytes_predicted"]);
            if (first.isEmpty())
                first = losses;
            QCOMPARE(losses, first);
            const QJsonObject transfers = transfersOf(trained.out);
            QVERIFY(transfers["bytes"].toDouble() > 0);
            QCOMPARE(transfers["bytes"].toDouble(), transfers["predicted_bytes"].toDouble());
            QCOMPARE(transfers["differing_iterations"].toInt(-1), 0);
            QCOMPARE(transfers["paced"].toBool(), paced);
            QCOMPARE(transfers.contains("all_reduce_paced"), allReduce); // which is no message between roles
            sameTasks("v.plan.json", "v.run");
        }
        // One trainer adds up the same samples in another order.
        QVERIFY(run(planOf("v.plan.json", "machines.yaml", {metis, "--set", "trainers=1"})).status == 0);
        QDir(at("v.run")).removeRecursively();
        const Done alone = train("v.plan.json", metis, "12", "v.run", {"--holdout", "0.2"});
        QVERIFY2(alone.status == 0, alone.err.constData());
        const auto one = lossesOf(alone.out).trimmed().split('\n');
        const auto two = first.trimmed().split('\n');
        QCOMPARE(one.size(), two.size());
        for (qsizetype step = 0; step < two.size(); ++step)
            QVERIFY2(std::abs(one[step].toDouble() / two[step].toDouble() - 1) < 1e-5, one[step].constData());
    }

    /// In block form fewer bytes travel; the losses have the same bits with any number of samplers, and are those of
    /// trees to rounding.
    void sampledBlocks()
    {
        QByteArray losses[3];
        double bytes[3] = {};
        for (const int i : {0, 1, 2}) {
            QStringList arguments =
                planOf("b.plan.json", "machines.yaml",
                       {"blocks.graph", "--set", i == 1 ? "samplers=4" : "samplers=1", "--set", "chunk_bytes=1000"});
            arguments[2] = i == 2 ? "zoo:graphsage-blocks" : "zoo:graphsage-blocks-rows";
            const Done planned = run(arguments);
            QVERIFY2(planned.status == 0, planned.err.constData());
            QDir(at("b.run")).removeRecursively();
            const Done trained = train("b.plan.json", "blocks.graph", "8", "b.run", {"--holdout", "0.2"});
            QVERIFY2(trained.status == 0, trained.err.constData());
            losses[i] = lossesOf(trained.out);
            QCOMPARE(losses[i].count('\n'), 8);
            const QJsonObject transfers = transfersOf(trained.out);
            QCOMPARE(transfers["differing_iterations"].toInt(-1), 0);
            bytes[i] = transfers["bytes"].toDouble();
        }
        QCOMPARE(losses[1], losses[0]);
        QVERIFY2(bytes[0] < bytes[2], qPrintable(QString("%1 of %2").arg(bytes[0]).arg(bytes[2])));
        const auto blocks = losses[0].trimmed().split('\n');
        const auto trees = losses[2].trimmed().split('\n');
        for (qsizetype step = 0; step < trees.size(); ++step)
            QVERIFY2(std::abs(blocks[step].toDouble() / trees[step].toDouble() - 1) < 1e-5, blocks[step].constData());
    }

    void sampledFactors_data()
    {
        QTest::addColumn<QString>("model");
        QTest::newRow("convolution") << "zoo:gcn-blocks";
        QTest::newRow("whole neighbourhoods") << "zoo:graphsage-blocks-whole";
    }

    /// Lists with factors: a mini-batch has the degrees of its rows. Losses have the same bits with any placement and
    /// number of samplers; that of step 0 is that of trainers which read the whole graph, whose trees are those of step
    /// 0.
    void sampledFactors()
    {
        QFETCH(QString, model);
        QByteArray first;
        for (const QStringList &variant :
             {QStringList{"blocks.graph", "--set", "search=initial"},
              QStringList{"blocks.graph", "--set", "samplers=4", "--set", "servers=1", "--set", "chunk_bytes=1000"}}) {
            QStringList arguments = planOf("f.plan.json", "machines.yaml", variant);
            arguments[2] = model;
            const Done planned = run(arguments);
            QVERIFY2(planned.status == 0, planned.err.constData());
            QDir(at("f.run")).removeRecursively();
            const Done trained =
                train("f.plan.json", "blocks.graph", "6", "f.run", {"--holdout", "0.2", "--validate-every", "3"});
            QVERIFY2(trained.status == 0, trained.err.constData());
            const QByteArray losses = lossesOf(trained.out);
            QCOMPARE(losses.count('\n'), 6);
            first = first.isEmpty() ? losses : first;
            QCOMPARE(losses, first);
            const QJsonObject transfers = transfersOf(trained.out);
            QCOMPARE(transfers["bytes"].toDouble(), transfers["predicted_bytes"].toDouble());
            QCOMPARE(transfers["differing_iterations"].toInt(-1), 0);
        }
        const Done planned = run({"plan", "--model", model, "--cluster", "machines.yaml", "--planner", "data-parallel",
                                  "--batch", "32", "--learning-rate", "0.003", "-o", "f.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        QDir(at("f.run")).removeRecursively();
        const Done trained = train("f.plan.json", "blocks.graph", "1", "f.run", {"--holdout", "0.2"});
        QVERIFY2(trained.status == 0, trained.err.constData());
        QCOMPARE(lossesOf(trained.out).trimmed(), first.split('\n').front());
    }

    void sampledResumption_data()
    {
        QTest::addColumn<QString>("servers");
        QTest::newRow("all-reduce") << "servers=0";
        QTest::newRow("servers") << "servers=2"; // whose states of the update rule are in the checkpoint
    }

    /// A run that goes on from a checkpoint has the losses of one that was not interrupted.
    void sampledResumption()
    {
        QFETCH(QString, servers);
        for (const char *folder : {"whole.run", "cut.run"})
            QDir(at(folder)).removeRecursively();
        QVERIFY(run(planOf("r.plan.json", "machines.yaml", {"blocks.graph", "--set", servers})).status == 0);
        const Done whole = train("r.plan.json", "blocks.graph", "8", "whole.run");
        QVERIFY2(whole.status == 0, whole.err.constData());
        QCOMPARE(train("r.plan.json", "blocks.graph", "4", "cut.run", {"--checkpoint-every", "4"}).status, 0);
        const Done rest = run({"train", "cut.run", "--resume", "--steps", "8", "--json"});
        QVERIFY2(rest.status == 0, rest.err.constData());
        const QByteArray expected = lossesOf(whole.out).split('\n').mid(4).join('\n');
        QCOMPARE(lossesOf(rest.out), expected);
        const QJsonObject transfers = transfersOf(rest.out);
        QCOMPARE(transfers["differing_iterations"].toInt(-1), 0);
    }

    /// Parts of unequal size, one without labelled nodes: the same samples in the same order, across the ends of
    /// epochs.
    void partWithoutLabelledNodes()
    {
        auto graph = gnn::blockModelGraph({});
        QVERIFY(graph);
        for (std::size_t node = 0; node < graph->labels.size(); ++node)
            graph->labels[node] = node % 10 == 0 ? graph->labels[node] : gnn::GraphData::kNoLabel;
        QByteArray first;
        for (const bool unequal : {true, false}) {
            graph->part.clear();
            for (std::size_t node = 0; node < graph->labels.size(); ++node) // 100, 850 and 50 of 1,000, or alike
                graph->part.push_back(!unequal             ? static_cast<std::int32_t>(node % 3)
                                          : node % 10 == 0 ? 0
                                          : node % 20 == 1 ? 2
                                                           : 1);
            QVERIFY(data::writeGraphFolder(*graph, {"hash", 1, false}, {}, at("few.graph").toStdString()));
            QVERIFY(run(planOf("f.plan.json", "machines.yaml", {"few.graph"})).status == 0);
            QDir(at("f.run")).removeRecursively();
            const Done trained = train("f.plan.json", "few.graph", "7", "f.run"); // 3 1/8 batches an epoch
            QVERIFY2(trained.status == 0, trained.err.constData());
            first = first.isEmpty() ? lossesOf(trained.out) : first;
            QCOMPARE(lossesOf(trained.out), first);
        }
    }

    void graphsThatAreNoGraphs_data()
    {
        QTest::addColumn<bool>("loop");
        QTest::addColumn<QByteArray>("message");
        QTest::newRow("loop") << true << QByteArray("its own neighbour");
        QTest::newRow("asymmetric") << false << QByteArray("give each edge in both directions");
    }

    void graphsThatAreNoGraphs()
    {
        QFETCH(bool, loop);
        QFETCH(QByteArray, message);
        const auto graph = gnn::karateClub();
        QVERIFY(data::writeGraphFolder(graph, {}, {}, at("odd.graph").toStdString()));
        QByteArray arcs = readAll(at("odd.graph/indices.npy"));
        const auto hash = [](const QByteArray &bytes) {
            return QByteArray::fromStdString(sha256(bytes.toStdString()));
        };
        const QByteArray before = hash(arcs);
        const qsizetype first = arcs.size() - 8 * static_cast<qsizetype>(graph.arcs.size());
        const qsizetype last = arcs.size() - 8 * static_cast<qsizetype>(graph.neighbours(33).size());
        arcs[loop ? first : last] =
            0; // the first neighbour of node 0, or of node 33, whose edge with 8 then has one direction
        QVERIFY(write(at("odd.graph/indices.npy"), arcs));
        QByteArray note = readAll(at("odd.graph/graph.json"));
        QVERIFY(note.contains(before));
        QVERIFY(write(at("odd.graph/graph.json"), note.replace(before, hash(arcs))));
        const Done done = run(planOf("odd.plan.json", "machines.yaml", {"odd.graph"}));
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: ") && done.err.contains(message), done.err.constData());
    }

    void badSampledPlans_data()
    {
        QTest::addColumn<QByteArray>("from");
        QTest::addColumn<QByteArray>("to");
        QTest::addColumn<QByteArray>("message");
        const auto row = [](const char *name, const char *from, const char *to, const char *message) {
            QTest::newRow(name) << QByteArray(from) << QByteArray(to) << QByteArray(message);
        };
        row("kind", "gnn-sampled", "gnn-whole", "job.kind");
        row("fan-out", "\"fanout\":[10,5]", "\"fanout\":[0,5]", "job.fanout");
        row("fan-out of another model", "\"fanout\":[10,5]", "\"fanout\":[10,4]", "input \"x2\"");
        row("machine", "\"machine\":\"n0\"", "\"machine\":\"n9\"", "machine \"n9\"");
        row("store of no part", "\"part\":3", "\"part\":7", "part 7");
        row("two stores", "\"part\":3", "\"part\":2", "two graph stores");
        row("sampler of no trainer", "\"trainer\":1", "\"trainer\":5", "trainer 5");
        row("trainer without sampler", "\"trainer\":1", "\"trainer\":0", "trainer 1 has no sampler");
        row("name", "\"name\":\"g0\"", "\"name\":\"../g0\"", "use letters, digits");
        row("role", "graph-store\"", "trainer\"", "list graph stores, samplers and parameter servers only");
        row("order", "graph-store\"", "parameter-server\"", "list graph stores, then samplers, then parameter servers");
        row("policy", "\"policy\":\"degree\"", "\"policy\":\"fair\"", "there are static, degree, max-min");
        row("chunks", "\"chunk_bytes\":262144", "\"chunk_bytes\":0", "job.transfers.chunk_bytes");
        row("seconds", "\"row_seconds\":", "\"row_seconds\":-", "row_seconds");
        row("prefetch", "\"prefetch\":2", "\"prefetch\":0", "prefetch");
        row("another batch", "\"batch\":32", "\"batch\":64",
            "volumes are those of a batch of 64, and the plan's batch is 32");
        row("sums over a step's end", "\"job\"", "\"exchange\":{\"kind\":\"all-reduce\",\"across_steps\":true},\"job\"",
            "asks for each mini-batch");
        row("another graph", "\"sha256\":\"", "\"sha256\":\"0", "");
    }

    void badSampledPlans()
    {
        QFETCH(QByteArray, from);
        QFETCH(QByteArray, to);
        QFETCH(QByteArray, message);
        if (!QFile::exists(at("good.plan.json"))) // one for all rows
            QVERIFY(run(planOf("good.plan.json", "machines.yaml")).status == 0);
        QByteArray text = readAll(at("good.plan.json"));
        const auto at0 = text.indexOf(from, text.indexOf("\"job\""));
        QVERIFY(at0 > 0);
        QVERIFY(write(at("bad.plan.json"), text.replace(at0, from.size(), to)));
        const Done done = train("bad.plan.json", "blocks.graph", "1", "bad.run");
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.startsWith("planloom: error: ") && done.err.count("error") == 1, done.err.constData());
        QVERIFY2(done.err.contains(message), done.err.constData());
    }

    void rolesWithoutRoom()
    {
        const Done done = run(planOf("none.plan.json", "machines.yaml", {"blocks.graph", "--set", "slots=1"}));
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("role-slots"), done.err.constData());
    }

    /// The error has a batch that works.
    void batchesThatDoNotDivide()
    {
        const auto planned = [this](const char *batch) {
            return run({"plan", "--model", "zoo:graphsage-blocks", "--cluster", "local:3", "--planner", "gnn",
                        "--graph", "blocks.graph", "--set", "trainers=3", "--batch", batch, "-o", "three.plan.json"});
        };
        const Done refused = planned("64");
        QCOMPARE(refused.status, 2);
        QVERIFY2(refused.err.contains("use a multiple of 3, such as --batch 66"), refused.err.constData());
        const Done done = planned("66");
        QVERIFY2(done.status == 0, done.err.constData());
        QVERIFY(!done.out.contains("--paced")); // on one machine
        const Done apart = run(planOf("apart.plan.json", "machines.yaml"));
        QVERIFY2(apart.status == 0 && apart.out.contains("with train --paced only"), apart.out.constData());
    }

    void arrivalsAreNotOfThisJob()
    {
        QCOMPARE(run(planOf("served.plan.json", "machines.yaml", {"blocks.graph", "--set", "servers=1"})).status, 0);
        const Done done = run({"train", "served.plan.json", "--data", "blocks.graph", "--steps", "1", "--run-dir",
                               "served.run", "--arrivals", "served.plan.json"});
        QCOMPARE(done.status, 2);
        QVERIFY2(done.err.contains("leave out --arrivals"), done.err.constData());
    }

    void graphsThatAModelCannotTake()
    {
        QCOMPARE(run({"graph", "karate", "-o", "k.graph"}).status, 0);
        const Done planned = run({"plan", "--model", "zoo:graphsage-blocks", "--cluster", "local:1", "--planner",
                                  "data-parallel", "--batch", "8", "-o", "one.plan.json"});
        QVERIFY2(planned.status == 0, planned.err.constData());
        const Done trained =
            run({"train", "one.plan.json", "--data", "k.graph", "--steps", "1", "--run-dir", "one.run"});
        QCOMPARE(trained.status, 2);
        QVERIFY2(trained.err.contains("has 34 features a node"), trained.err.constData());
    }
};

QTEST_GUILESS_MAIN(TestGraphCli)
#include "tst_graph_cli.moc"
