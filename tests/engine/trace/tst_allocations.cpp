// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/allocations.h"

#include <QTest>

using namespace planloom::trace;

namespace {

using Action = Allocations::Action;
using State = Allocations::State;

/// A device with one segment of 100 bytes and another one of 50. At the end the blocks at 0 and 10 are in use, 40 is
/// free; the second segment is free. The history begins when 0 (10 bytes) and 200 (7 bytes) are in use.
Allocations sample()
{
    Allocations made;
    made.texts = {"/usr/lib/python3/dist-packages/torch/nn/linear.py", "forward", "/job/model.py", "loss", "??"};
    made.frames = {{1, 0, 3}, {3, 2, 12}, {1, 2, 40}, {1, 4, 0}};
    made.stackFrames = {0, 1, 2, 3};
    made.stackBegin = {0, 2, 3, 4}; // linear.py < model.py:12; model.py:40; ??
    made.segments = {{0, 100, 0, 0, -1, 0, 3, false, false}, {200, 50, 0, 0, -1, 3, 1, true, false}};
    made.blocks = {{0, 10, 9, 1, State::InUse},
                   {10, 30, 24, 0, State::PendingFree},
                   {40, 60, 0, -1, State::Free},
                   {200, 50, 0, -1, State::Free}};
    made.events.push_back({{100, 40, 20, 2, Action::Allocate},
                           {200, 200, 50, -1, Action::SegmentTaken},
                           {300, 40, 20, -1, Action::FreeRequested},
                           {400, 10, 24, 0, Action::Allocate}, // 9 + 7 + 20 + 24 are the peak
                           {500, 40, 20, -1, Action::FreeCompleted},
                           {600, 200, 7, -1, Action::FreeCompleted},
                           {700, 12345, 99, -1, Action::OutOfMemory}});
    return made;
}

} // namespace

class TestAllocations : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void presentAndPeak()
    {
        const DeviceMemory memory = deviceMemory(sample(), 0);
        QCOMPARE(memory.reserved, 150);
        QCOMPARE(memory.inUse, 40);
        QCOMPARE(memory.requested, 33);
        QCOMPARE(memory.fragmented, 60);
        QCOMPARE(memory.largestFree, 60);
        QCOMPARE(memory.atBegin, 16);
        QCOMPARE(memory.peak, 60);
        QCOMPARE(memory.peakEvent, 3);
        QCOMPARE(memory.peakTime, 400);
        QCOMPARE(memory.peakReserved, 150);
        QCOMPARE(memory.segments, 2);
        QCOMPARE(memory.blocks, 2);
        QCOMPARE(memory.outOfMemory, 1);
    }

    void levels()
    {
        const std::vector<AllocationLevel> levels = levelsOf(sample(), 0);
        std::vector<std::int64_t> inUse, reserved;
        for (const AllocationLevel &level : levels) {
            inUse.push_back(level.inUse);
            reserved.push_back(level.reserved);
        }
        QCOMPARE(inUse, (std::vector<std::int64_t>{16, 36, 36, 60, 40, 33}));
        QCOMPARE(reserved, (std::vector<std::int64_t>{100, 100, 150, 150, 150, 150}));
        QCOMPARE(levels.back().time, 600);
    }

    void aliveAtThePeakByFrame()
    {
        const Allocations made = sample();
        const auto alive = aliveAfter(made, 0, deviceMemory(made, 0).peakEvent);
        QCOMPARE(alive.size(), std::size_t{4});
        QCOMPARE(alive[0].address, std::uint64_t{0}); // from before the history, with the stack of its block
        QCOMPARE(alive[0].stack, 1);
        QCOMPARE(alive[1].address, std::uint64_t{200});
        QCOMPARE(alive[3].event, 3);
        const auto uses = byFrame(made, alive);
        QCOMPARE(uses.size(), std::size_t{4});
        QCOMPARE(made.frameText(uses[0].frame), std::string("loss, /job/model.py:12")); // not PyTorch's linear.py
        QCOMPARE(uses[0].bytes, 24);
        QCOMPARE(made.frameText(uses[1].frame), std::string("forward, ??:0")); // there is no other one
        QCOMPARE(uses[1].bytes, 20);
        QCOMPARE(made.frameText(uses[3].frame), std::string("not recorded"));
        QCOMPARE(uses[3].blocks, 1);
    }

    void withoutAHistory()
    {
        Allocations made = sample();
        made.events.clear();
        QCOMPARE(made.devices(), 1);
        const DeviceMemory memory = deviceMemory(made, 0);
        QCOMPARE(memory.peak, 33);
        QCOMPARE(memory.peakEvent, -1);
        QCOMPARE(memory.peakReserved, 150);
        QCOMPARE(levelsOf(made, 0).size(), std::size_t{1});
        QCOMPARE(aliveAfter(made, 0, -1).size(), std::size_t{2});
        QCOMPARE(deviceMemory(made, 7).reserved, 0);
        QCOMPARE(deviceMemory(Allocations(), 0).peak, 0);
    }

    /// An address that is used again: each time it is another block.
    void reusedAddress()
    {
        Allocations made;
        made.events.push_back({{1, 8, 5, -1, Action::Allocate},
                               {2, 8, 5, -1, Action::FreeCompleted},
                               {3, 8, 6, -1, Action::Allocate},
                               {4, 8, 6, -1, Action::FreeCompleted},
                               {5, 8, 6, -1, Action::FreeCompleted}}); // of nothing: ignored
        const DeviceMemory memory = deviceMemory(made, 0);
        QCOMPARE(memory.atBegin, 0);
        QCOMPARE(memory.peak, 6);
        QCOMPARE(memory.peakEvent, 2);
        QCOMPARE(levelsOf(made, 0).back().inUse, 0);
    }
};

QTEST_GUILESS_MAIN(TestAllocations)
#include "tst_allocations.moc"
