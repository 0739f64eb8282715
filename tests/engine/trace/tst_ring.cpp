// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/ring.h"

#include <QTest>
#include <thread>

using namespace planloom::trace;

namespace {

Record numbered(int i)
{
    Record record;
    record.start = i;
    record.duration = 2 * i;
    record.task = i;
    return record;
}

} // namespace

class TestRing : public QObject {
    Q_OBJECT

private slots:
    void keepsOrderAndCapacity();
    void fullRingDropsTheNewestAndCounts();
    void twoThreadsLoseNothingUncounted();
};

void TestRing::keepsOrderAndCapacity()
{
    Ring ring(5); // rounded up to 8
    std::vector<Record> out;
    QCOMPARE(ring.drain(out, 10), std::size_t{0});
    for (int round = 0; round < 100; ++round) {
        for (int i = 0; i < 8; ++i)
            ring.write(numbered(i));
        out.clear();
        QCOMPARE(ring.drain(out, 3), std::size_t{3});
        QCOMPARE(ring.drain(out, 100), std::size_t{5});
        for (int i = 0; i < 8; ++i)
            QCOMPARE(out[static_cast<std::size_t>(i)].task, i);
    }
    QCOMPARE(ring.dropped(), std::int64_t{0});
}

void TestRing::fullRingDropsTheNewestAndCounts()
{
    Ring ring(4);
    for (int i = 0; i < 10; ++i)
        ring.write(numbered(i));
    QCOMPARE(ring.dropped(), std::int64_t{6});
    std::vector<Record> out;
    ring.drain(out, 100);
    QCOMPARE(out.size(), std::size_t{4});
    QCOMPARE(out.back().task, 3);
}

void TestRing::twoThreadsLoseNothingUncounted()
{
    constexpr int kRecords = 300'000;
    Ring ring(256);
    std::atomic<bool> done{false};
    std::jthread producer([&] {
        for (int i = 0; i < kRecords; ++i)
            ring.write(numbered(i));
        done = true;
    });
    std::vector<Record> out;
    bool last = false;
    while (!last) {
        last = done; // what was written before it was set is drained below
        ring.drain(out, 100);
        if (last)
            ring.drain(out, kRecords);
    }
    QCOMPARE(static_cast<std::int64_t>(out.size()) + ring.dropped(), std::int64_t{kRecords});
    for (std::size_t i = 0; i < out.size(); ++i) {
        QCOMPARE(out[i].duration, 2 * out[i].start); // never half of one record and half of another
        QVERIFY(i == 0 || out[i - 1].start < out[i].start);
    }
}

QTEST_GUILESS_MAIN(TestRing)
#include "tst_ring.moc"
