// SPDX-License-Identifier: Apache-2.0
// Mini-batches in block form against the trees of the same samples.
#include "engine/graph/zoo/zoo.h"
#include "executor/data/data_set.h"
#include "executor/data/graph_folder.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace planloom;

namespace {

constexpr std::int64_t kWidth = 34; // of the karate club
constexpr std::int64_t kFirst = 3;
constexpr std::int64_t kSecond = 2;

graph::GraphSageConfig config()
{
    graph::GraphSageConfig sizes;
    sizes.features = kWidth;
    sizes.hidden = 4;
    sizes.classes = 2;
    sizes.firstFanout = kFirst;
    sizes.secondFanout = kSecond;
    return sizes;
}

/// All inputs of a mini-batch by name, 4 bytes or 8 an element.
struct Batch {
    std::map<std::string, std::vector<float>> floats;
    std::map<std::string, std::vector<std::int64_t>> ints;
};

Batch batchOf(const data::DataSet &set, const data::Needs &needs, const std::vector<std::int64_t> &samples)
{
    Batch batch;
    std::vector<void *> memory;
    for (const data::Needs::Input &input : needs.inputs) {
        const auto count = static_cast<std::size_t>(input.perSample) * samples.size();
        if (input.type == graph::DType::F32)
            memory.push_back((batch.floats[input.name] = std::vector<float>(count, -77)).data());
        else
            memory.push_back((batch.ints[input.name] = std::vector<std::int64_t>(count, -77)).data());
    }
    set.fillBatch(samples, memory);
    return batch;
}

} // namespace

class TestGraphBlocks : public QObject {
    Q_OBJECT

    QTemporaryDir m_dir;
    gnn::GraphData m_graph = gnn::karateClub();

    std::unique_ptr<data::DataSet> open(const Result<graph::Graph> &model, data::Needs &needs)
    {
        needs = *data::needsOf(*model);
        auto set = data::openDataSet(m_dir.path().toStdString(), needs);
        if (!set)
            qCritical("%s", set.error().text().c_str());
        return set ? *std::move(set) : nullptr;
    }

private slots:
    void initTestCase()
    {
        QVERIFY(m_dir.isValid());
        QVERIFY(data::writeGraphFolder(m_graph, {}, {}, m_dir.path().toStdString()).ok());
    }

    /// Each row once, and lists that name the rows of the trees in their order.
    void rowsOfTrees()
    {
        data::Needs treeNeeds, needs;
        const auto trees = open(graph::graphSage(config()), treeNeeds);
        const auto blocks = open(graph::graphSageBlocks(config()), needs);
        QVERIFY(trees && blocks);
        QVERIFY(blocks->joinsBatches() && !trees->joinsBatches());
        const std::vector<std::int64_t> samples{0, 33, 5, 0};
        const Batch batch = batchOf(*blocks, needs, samples);
        const std::vector<float> &x = batch.floats.at("x");
        QCOMPARE(static_cast<std::int64_t>(x.size()), 4 * (1 + kFirst + kFirst * kSecond) * kWidth);
        std::set<std::int64_t> met; // features are one-hot numbers of the members
        std::vector<std::int64_t> memberOf;
        for (std::size_t row = 0; row < x.size() / kWidth; ++row) {
            const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kWidth);
            const auto hot = std::find(begin, begin + kWidth, 1.0F);
            if (hot == begin + kWidth) { // zeros behind
                QCOMPARE(std::count(begin, x.end(), 0.0F), x.end() - begin);
                break;
            }
            memberOf.push_back(hot - begin);
            QVERIFY(met.insert(hot - begin).second);
        }
        QVERIFY(memberOf.size() < samples.size() * 10);
        const auto memberAt = [&](const std::vector<float> &features, std::size_t place) {
            const auto begin = features.begin() + static_cast<std::ptrdiff_t>(place * kWidth);
            return std::find(begin, begin + kWidth, 1.0F) - begin;
        };
        const auto &offsets = batch.ints.at("offsets0");
        const auto &indices = batch.ints.at("indices0");
        for (std::size_t s = 0; s < samples.size(); ++s) {
            std::vector<float> own(kWidth), first(kFirst * kWidth), second(kFirst * kSecond * kWidth);
            trees->fillInputAt(0, samples[s], own.data());
            trees->fillInputAt(1, samples[s], first.data());
            trees->fillInputAt(2, samples[s], second.data());
            for (std::size_t t = 0; t <= kFirst; ++t) {
                const std::size_t target = s * (kFirst + 1) + t;
                const auto member = t == 0 ? memberAt(own, 0) : memberAt(first, t - 1);
                QCOMPARE(memberOf[static_cast<std::size_t>(batch.ints.at("own0")[target])], member);
                const auto begin = static_cast<std::size_t>(target == 0 ? 0 : offsets[target - 1]);
                const std::size_t count = t == 0 ? kFirst : kSecond;
                QCOMPARE(static_cast<std::size_t>(offsets[target]), begin + count);
                for (std::size_t e = 0; e < count; ++e)
                    QCOMPARE(memberOf[static_cast<std::size_t>(indices[begin + e])],
                             t == 0 ? memberAt(first, e) : memberAt(second, (t - 1) * kSecond + e));
            }
            const auto base = static_cast<std::int64_t>(s) * (kFirst + 1);
            QCOMPARE(batch.ints.at("own1")[s], base);
            QCOMPARE(batch.ints.at("offsets1")[s], static_cast<std::int64_t>(s + 1) * kFirst);
            for (std::int64_t e = 0; e < kFirst; ++e)
                QCOMPARE(batch.ints.at("indices1")[s * kFirst + static_cast<std::size_t>(e)], base + 1 + e);
        }
    }

    /// Factors of a convolution: what neighbours and the node itself are multiplied by.
    void factors()
    {
        data::Needs needs;
        const auto set = open(graph::gcn(config()), needs);
        QVERIFY(set);
        const Batch batch = batchOf(*set, needs, {5, 12});
        const std::vector<float> &x = batch.floats.at("x");
        const auto member = [&](std::int64_t row) {
            const auto begin = x.begin() + row * kWidth;
            return std::find(begin, begin + kWidth, 1.0F) - begin;
        };
        const auto degree = [&](std::int64_t node) { return static_cast<double>(m_graph.neighbours(node).size()); };
        const auto &offsets = batch.ints.at("offsets0");
        std::int64_t begin = 0;
        for (std::size_t target = 0; target < offsets.size(); ++target) {
            if (offsets[target] == begin) { // member 12 has two neighbours, and there is room for three
                QCOMPARE(target, offsets.size() - 1);
                continue;
            }
            const std::int64_t node = member(batch.ints.at("indices0")[static_cast<std::size_t>(begin)]);
            const std::int64_t draws = offsets[target] - begin - 1;
            const std::int64_t fanout = target % (kFirst + 1) == 0 ? kFirst : kSecond;
            QCOMPARE(draws, std::min<std::int64_t>(fanout, static_cast<std::int64_t>(degree(node))));
            for (std::int64_t e = begin; e < offsets[target]; ++e) {
                const std::int64_t other = member(batch.ints.at("indices0")[static_cast<std::size_t>(e)]);
                const double share = e == begin ? 1 : degree(node) / static_cast<double>(draws);
                const double expected = share / std::sqrt((degree(node) + 1) * (degree(other) + 1));
                QVERIFY(
                    std::abs(static_cast<double>(batch.floats.at("weights0")[static_cast<std::size_t>(e)]) - expected)
                    < 1e-6);
            }
            begin = offsets[target];
        }
        QCOMPARE(batch.ints.at("offsets1"), (std::vector<std::int64_t>{kFirst + 1, 2 * kFirst + 1}));
        QCOMPARE(batch.floats.at("weights1")[0], batch.floats.at("weights0")[0]);
        QCOMPARE(batch.floats.at("weights1")[1], batch.floats.at("weights0")[1]);
    }

    /// A node with at most as many neighbours as the fan-out has each of them once; factors make the mean.
    void wholeNeighbourhoods()
    {
        graph::GraphSageConfig sizes = config();
        sizes.firstFanout = sizes.secondFanout = 17; // the most that a member has
        data::Needs needs;
        const auto set = open(graph::graphSageWhole(sizes), needs);
        QVERIFY(set);
        const std::vector<std::int64_t> samples{33, 11, 5};
        const Batch batch = batchOf(*set, needs, samples);
        const auto memberAt = [&](std::int64_t row) {
            const auto begin = batch.floats.at("x").begin() + row * kWidth;
            return std::find(begin, begin + kWidth, 1.0F) - begin;
        };
        const auto &offsets = batch.ints.at("offsets0");
        std::int64_t begin = 0;
        for (std::size_t target = 0; target < offsets.size(); ++target) {
            const std::int64_t node = memberAt(batch.ints.at("own0")[target]);
            const auto neighbours = m_graph.neighbours(node);
            std::vector<std::int64_t> listed;
            for (std::int64_t e = begin; e < offsets[target]; ++e) {
                listed.push_back(memberAt(batch.ints.at("indices0")[static_cast<std::size_t>(e)]));
                QCOMPARE(batch.floats.at("weights0")[static_cast<std::size_t>(e)],
                         1 / static_cast<float>(neighbours.size()));
            }
            const auto place = static_cast<std::int64_t>(target % 18);
            const auto seeds = static_cast<std::int64_t>(m_graph.neighbours(samples[target / 18]).size());
            if (place <= seeds)
                QCOMPARE(listed, std::vector<std::int64_t>(neighbours.begin(), neighbours.end()));
            else
                QVERIFY(listed.empty());
            begin = offsets[target];
        }
        QCOMPARE(batch.ints.at("offsets1"), (std::vector<std::int64_t>{17, 18, 22}));
    }

    /// A perceptron's input is a node's own features.
    void nodesAlone()
    {
        data::Needs needs;
        const auto set = open(graph::mlp("alone", {kWidth, 4, 2}), needs);
        QVERIFY(set);
        QCOMPARE(set->samples(), std::int64_t{34});
        std::vector<float> x(kWidth);
        set->fillInput(12, x.data());
        QCOMPARE(std::find(x.begin(), x.end(), 1.0F) - x.begin(), std::ptrdiff_t{12});
    }

    void oneSample()
    {
        data::Needs needs;
        const auto set = open(graph::graphSageBlocks(config()), needs);
        QVERIFY(set);
        const Batch batch = batchOf(*set, needs, {7});
        for (std::size_t i = 0; i < needs.inputs.size(); ++i) {
            const data::Needs::Input &input = needs.inputs[i];
            std::vector<std::int64_t> ints(static_cast<std::size_t>(input.perSample));
            std::vector<float> floats(static_cast<std::size_t>(input.perSample));
            if (input.type == graph::DType::F32) {
                set->fillInputAt(i, 7, floats.data());
                QCOMPARE(floats, batch.floats.at(input.name));
            } else {
                set->fillInputAt(i, 7, ints.data());
                QCOMPARE(ints, batch.ints.at(input.name));
            }
        }
    }

    void graphsThatDoNotFit()
    {
        graph::GraphSageConfig wide = config();
        wide.features = 16;
        const auto needs = data::needsOf(*graph::gcn(wide));
        const auto set = data::openDataSet(m_dir.path().toStdString(), *needs);
        QVERIFY(!set.ok());
        QVERIFY2(set.error().message.find("has 34 features a node") != std::string::npos, set.error().text().c_str());
        data::Needs other = *data::needsOf(*graph::graphSageBlocks(config()));
        other.inputs.pop_back();
        other.inputs.front().perSample += 1;
        QVERIFY(!data::openDataSet(m_dir.path().toStdString(), other).ok());
    }
};

QTEST_GUILESS_MAIN(TestGraphBlocks)
#include "tst_graph_blocks.moc"
