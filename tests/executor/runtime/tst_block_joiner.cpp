// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/block_joiner.h"

#include <QTest>

#include <cstring>

using namespace planloom;
using runtime::BlockJoiner;

namespace {

constexpr std::int64_t kNodes = 5;
constexpr std::int64_t kWidth = 2;

/// What a sampler sends of one tree of three places: a node, its neighbour, and the neighbour's.
struct Block {
    std::vector<std::int64_t> nodes{0, 2, 4};
    std::vector<std::int32_t> places{1, 0, 2};
    std::vector<std::byte> rows;

    BlockJoiner::Message message()
    {
        rows.assign(static_cast<std::size_t>(runtime::rowBytes(3, kWidth)), std::byte{0});
        for (std::size_t row = 0; row < nodes.size(); ++row)
            std::memcpy(rows.data() + runtime::rowBytes(static_cast<std::int64_t>(row), kWidth), &nodes[row], 8);
        BlockJoiner::Message made;
        made.rows = rows.data();
        made.places = reinterpret_cast<const std::byte *>(places.data());
        made.counts = {static_cast<std::int64_t>(nodes.size()), static_cast<std::int64_t>(places.size())};
        return made;
    }
};

} // namespace

class TestBlockJoiner : public QObject {
    Q_OBJECT

    static bool fits(Block block, std::int64_t samples = 1)
    {
        data::BlockShape shape;
        shape.fanout = {1, 1};
        shape.width = kWidth;
        std::vector<std::int64_t> begins;
        return BlockJoiner(shape, kNodes).findTrees(block.message(), samples, begins);
    }

private Q_SLOTS:
    /// A sampler of another build may number rows otherwise: nothing is read or written by such a number.
    void messagesThatDoNotFit()
    {
        QVERIFY(fits({}));
        QVERIFY(!fits({}, 2));
        for (const std::int32_t row : {-1, 3, 1 << 30}) {
            Block block;
            block.places[2] = row;
            QVERIFY(!fits(block));
        }
        for (const std::int64_t node : {std::int64_t{-1}, kNodes, std::int64_t{1} << 62}) {
            Block block;
            block.nodes[1] = node;
            QVERIFY(!fits(block));
        }
        Block few;
        few.places.pop_back();
        QVERIFY(!fits(few));
    }
};

QTEST_GUILESS_MAIN(TestBlockJoiner)
#include "tst_block_joiner.moc"
