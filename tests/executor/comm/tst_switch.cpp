// SPDX-License-Identifier: Apache-2.0
// The emulated switch on clocks that are made up: every time here is one that can be worked out by hand.
#include "executor/comm/local_group.h"
#include "executor/comm/switched_communicator.h"

#include <QTest>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace planloom;
using namespace planloom::comm;

namespace {

using Pair = std::pair<int, int>;
using Times = std::map<Pair, std::vector<std::int64_t>>; ///< per connection: when its messages come

/// Frames of 100 bytes on ports of a byte a nanosecond.
SwitchSettings settingsOf(int hosts, double burst = 0, double latencyNanoseconds = 0)
{
    return {hosts, 1e9, burst, 100, latencyNanoseconds * 1e-9};
}

struct Table {
    SharedMemory memory;
    SwitchTable table;
};

Table tableOf(const SwitchSettings &settings, int ranks)
{
    auto memory = SharedMemory::forThreads(SwitchTable::bytesFor(ranks, settings.hosts));
    if (!memory)
        qFatal("no memory");
    SwitchTable::prepare(memory->data(), settings, ranks);
    const SwitchTable table(memory->data());
    return {std::move(*memory), table};
}

struct Entry {
    std::int64_t at;
    int from, to;
    double bytes;
};

/// Looks in every @p step-th nanosecond; what comes in between is seen late.
Times timesOf(const SwitchSettings &settings, int ranks, const std::vector<Entry> &entries, std::int64_t until,
              std::int64_t step = 1)
{
    Table made = tableOf(settings, ranks);
    Times times;
    std::size_t next = 0;
    for (std::int64_t now = 0; now <= until; ++now) {
        for (; next < entries.size() && entries[next].at == now; ++next) {
            const Entry &entry = entries[next];
            if (!made.table.enter(entry.from, entry.to, 0, entry.bytes, now))
                qFatal("too many wait");
        }
        if (now % step != 0)
            continue;
        for (int from = 0; from < ranks; ++from) {
            for (int to = 0; to < ranks; ++to)
                while (made.table.take(from, to, now))
                    times[{from, to}].push_back(now);
        }
    }
    return times;
}

std::unique_ptr<SwitchedCommunicator> endOf(LocalGroup &group, int rank, const Table &table, std::int64_t &now)
{
    auto end = group.end(rank);
    auto *pipes = dynamic_cast<PipeCommunicator *>(end.release());
    auto made = std::make_unique<SwitchedCommunicator>(std::unique_ptr<PipeCommunicator>(pipes), table.table,
                                                       [&now] { return now; });
    return made;
}

/// Ranks of one thread on hosts of their own, 1 MB/ms, a clock that the test sets.
struct Ranks {
    explicit Ranks(int ranks, int hosts) : group(ranks), table(tableOf({hosts, 1e9, 0, 1514, 5e-6}, ranks))
    {
        std::vector<int> all(static_cast<std::size_t>(ranks));
        std::iota(all.begin(), all.end(), 0);
        for (int rank = 0; rank < ranks; ++rank)
            ends.push_back(endOf(group, rank, table, now));
        for (const auto &end : ends) {
            if (!end->makeGroup(all))
                qFatal("no group");
        }
    }

    bool isDone(int rank, Request &request)
    {
        const auto done = ends[static_cast<std::size_t>(rank)]->test(request);
        if (!done)
            qFatal("%s", done.error().text().c_str());
        return *done;
    }

    std::int64_t now = 1'000'000;
    LocalGroup group;
    Table table;
    std::vector<std::unique_ptr<SwitchedCommunicator>> ends;
};

constexpr double kFrame = 1514; ///< of Ranks, whose frames take as many nanoseconds

} // namespace

class TestSwitch : public QObject {
    Q_OBJECT

private slots:
    /// Bytes of a connection come one behind the other; the last port gets a frame once all of it has passed the first.
    void oneSender()
    {
        std::vector<Entry> entries(5, {0, 0, 1, 250});
        entries.push_back({5000, 0, 1, 30});
        std::vector<std::int64_t> expected;
        for (int k = 1; k <= 5; ++k)
            expected.push_back(250 * k + 100 + 7);
        expected.push_back(5000 + 30 + 30 + 7);
        const Times times = timesOf(settingsOf(2, 0, 7), 2, entries, 6000);
        QCOMPARE(times.size(), std::size_t{1});
        QCOMPARE(times.at({0, 1}), expected);
    }

    /// Two senders have a port each, and share the receiver's: it is busy from the first frame's arrival on.
    void twoSendersShareAPort()
    {
        const Times times = timesOf(settingsOf(3), 3, {{0, 0, 2, 1000}, {0, 1, 2, 1000}}, 4000);
        QCOMPARE(times.at({0, 2}), std::vector<std::int64_t>{100 + 1900});
        QCOMPARE(times.at({1, 2}), std::vector<std::int64_t>{100 + 2000});
    }

    /// Of two connections of one sender each has every second frame.
    void twoReceiversShareAPort()
    {
        const Times times = timesOf(settingsOf(3), 3, {{0, 0, 1, 1000}, {0, 0, 2, 1000}}, 4000);
        QCOMPARE(times.at({0, 1}), std::vector<std::int64_t>{1900 + 100});
        QCOMPARE(times.at({0, 2}), std::vector<std::int64_t>{2000 + 100});
    }

    /// Both directions of a port, and ports of other hosts, have nothing to do with each other.
    void otherPortsDoNotMatter()
    {
        const Times times = timesOf(settingsOf(4), 4, {{0, 0, 1, 1000}, {0, 1, 0, 1000}, {0, 2, 3, 1000}}, 4000);
        for (const Pair &pair : {Pair{0, 1}, Pair{1, 0}, Pair{2, 3}})
            QCOMPARE(times.at(pair), std::vector<std::int64_t>{1100});
    }

    /// A queue is one of frames that have arrived: a short message is behind those, not behind all of a long one.
    void shortBehindLong()
    {
        const Times times = timesOf(settingsOf(3), 3, {{0, 0, 2, 10000}, {5050, 1, 2, 100}}, 12000);
        QCOMPARE(times.at({1, 2}), std::vector<std::int64_t>{5300}); // there at 5150, behind the frame until 5200
        QCOMPARE(times.at({0, 2}), std::vector<std::int64_t>{10200});
    }

    /// Ranks of a host share its port.
    void ranksOfAHost()
    {
        const Times times = timesOf(settingsOf(2), 4, {{0, 0, 2, 1000}, {0, 1, 3, 1000}}, 4000);
        QCOMPARE(times.at({0, 2}), std::vector<std::int64_t>{2000});
        QCOMPARE(times.at({1, 3}), std::vector<std::int64_t>{2100});
    }

    /// After a pause a burst passes at once; from there on bytes come at the port's rate.
    void bursts()
    {
        const Times times = timesOf(settingsOf(2, 500, 7), 2,
                                    {{1000, 0, 1, 400}, {1000, 0, 1, 400}, {3000, 0, 1, 500}, {3200, 0, 1, 300}}, 5000);
        QCOMPARE(times.at({0, 1}), (std::vector<std::int64_t>{1007, 1307, 3007, 3307}));
    }

    /// How often one looks changes nothing but when one sees it.
    void looksDoNotMatter()
    {
        std::mt19937 random(5);
        const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
        std::vector<Entry> entries;
        for (std::int64_t at = 0; entries.size() < 300; at += draw(200)) {
            const int from = draw(5);
            entries.push_back({at, from, (from + 1 + draw(4)) % 5, 1.0 + draw(700)});
        }
        for (const double burst : {0.0, 350.0}) {
            const Times always = timesOf(settingsOf(5, burst, 3), 5, entries, 200'000);
            const Times rarely = timesOf(settingsOf(5, burst, 3), 5, entries, 200'000, 1000);
            std::size_t count = 0;
            for (const auto &[pair, times] : always) {
                std::vector<std::int64_t> seen;
                for (const std::int64_t time : times)
                    seen.push_back((time + 999) / 1000 * 1000);
                QCOMPARE(rarely.at(pair), seen);
                count += seen.size();
            }
            QCOMPARE(count, entries.size());
        }
    }

    /// A sender is told when too many wait, and goes on once some were taken.
    void fullConnections()
    {
        Table made = tableOf(settingsOf(2), 2);
        for (std::int64_t i = 0; i < SwitchTable::kWaiting; ++i)
            QVERIFY(made.table.enter(0, 1, i, 100, 0));
        QVERIFY(!made.table.enter(0, 1, 0, 100, 0));
        QCOMPARE(made.table.sent(0, 1, 250), std::int64_t{2});
        QVERIFY(!made.table.enter(0, 1, 0, 100, 250)); // sent, and not taken
        QCOMPARE(made.table.take(0, 1, 250), std::optional<std::int64_t>(0));
        QVERIFY(!made.table.take(0, 1, 250));
        QVERIFY(made.table.enter(0, 1, 0, 100, 250));
    }

    void bytesOnTheWire()
    {
        QCOMPARE(bytesOnWire(0), 66.0);
        QCOMPARE(bytesOnWire(1448), 1514.0);
        QCOMPARE(bytesOnWire(1449), 1449.0 + 132.0);
    }

    /// Messages of a communicator: a sender is done when they have left its port, a receiver when they have come.
    void messages()
    {
        Ranks ranks(2, 2);
        std::vector<float> out(10'000, 3), in(10'000);
        const double wire = bytesOnWire(40'000);
        auto sent = ranks.ends[0]->isend(out.data(), 40'000, 1, 4);
        auto received = ranks.ends[1]->irecv(in.data(), 40'000, 0, 4);
        QVERIFY(sent && received);
        const auto left = ranks.now + static_cast<std::int64_t>(wire);
        const auto comes = left + static_cast<std::int64_t>(kFrame) + 5000;
        ranks.now = left - 1;
        QVERIFY(!ranks.isDone(0, *sent));
        ranks.now = left;
        QVERIFY(ranks.isDone(0, *sent) && !sent->pending());
        ranks.now = comes - 1;
        QVERIFY(!ranks.isDone(1, *received));
        ranks.now = comes;
        QVERIFY(ranks.isDone(1, *received) && !received->pending());
        QCOMPARE(in, out);
    }

    /// Each tag counts its own messages, whichever is received first.
    void tags()
    {
        Ranks ranks(2, 2);
        int first = 1, second = 2, third = 3;
        int a = 0, b = 0, c = 0;
        std::vector<Result<Request>> sent{ranks.ends[0]->isend(&first, 4, 1, 1), ranks.ends[0]->isend(&second, 4, 1, 2),
                                          ranks.ends[0]->isend(&third, 4, 1, 1)};
        std::vector<Result<Request>> got{ranks.ends[1]->irecv(&b, 4, 0, 2), ranks.ends[1]->irecv(&a, 4, 0, 1),
                                         ranks.ends[1]->irecv(&c, 4, 0, 1)};
        const std::int64_t start = ranks.now + 70 + 5000; // 70 bytes a message
        ranks.now = start + 2 * 70 - 1;
        QVERIFY(!ranks.isDone(1, *got[0]));
        QVERIFY(ranks.isDone(1, *got[1]));
        QVERIFY(!ranks.isDone(1, *got[2]));
        ranks.now = start + 2 * 70;
        QVERIFY(ranks.isDone(1, *got[0]));
        QVERIFY(!ranks.isDone(1, *got[2]));
        ranks.now = start + 3 * 70;
        QVERIFY(ranks.isDone(1, *got[2]));
        QCOMPARE(std::vector<int>({a, b, c}), std::vector<int>({1, 2, 3}));
    }

    /// A message within a host passes no port.
    void withinAHost()
    {
        Ranks ranks(4, 2);
        int out = 9, in = 0;
        auto sent = ranks.ends[2]->isend(&out, 4, 3, 0);
        auto received = ranks.ends[3]->irecv(&in, 4, 2, 0);
        QVERIFY(ranks.isDone(2, *sent) && ranks.isDone(3, *received));
        QCOMPARE(in, 9);
    }

    /// The two senders of a gathering of three share each receiver's port, each sender its own: a rank's port sends and
    /// receives two pieces at once, and the last frame has to pass both.
    void collectives()
    {
        Ranks ranks(3, 3);
        std::vector<std::vector<float>> mine(3), all(3);
        std::vector<Request> requests;
        for (int rank = 0; rank < 3; ++rank) {
            mine[static_cast<std::size_t>(rank)].assign(2500, static_cast<float>(rank));
            all[static_cast<std::size_t>(rank)].resize(7500);
            const auto request = ranks.ends[static_cast<std::size_t>(rank)]->allGather(
                {0}, mine[static_cast<std::size_t>(rank)].data(), all[static_cast<std::size_t>(rank)].data(), 10'000);
            QVERIFY(request);
            requests.push_back(*request);
        }
        const double wire = bytesOnWire(10'000);
        const auto least = ranks.now + static_cast<std::int64_t>(2 * wire);
        std::vector<std::int64_t> done(3);
        for (std::size_t pending = 3; pending > 0; ++ranks.now) {
            QVERIFY(ranks.now < least + 100'000);
            for (std::size_t rank = 0; rank < 3; ++rank) {
                if (requests[rank].pending() && ranks.isDone(static_cast<int>(rank), requests[rank])) {
                    done[rank] = ranks.now;
                    --pending;
                }
            }
        }
        for (std::size_t rank = 0; rank < 3; ++rank) {
            QVERIFY(done[rank] >= least + 5000);
            QVERIFY(done[rank] <= least + 5000 + static_cast<std::int64_t>(2 * kFrame));
            for (std::size_t i = 0; i < 7500; ++i)
                QCOMPARE(all[rank][i], static_cast<float>(i / 2500));
        }
    }

    void settings()
    {
        const auto full =
            switchSettingsFromText("hosts=4,bytes_per_second=1.25e8,burst=31250,frame=15625,latency_us=50");
        QVERIFY(full);
        QCOMPARE(full->hosts, 4);
        QCOMPARE(full->bytesPerSecond, 1.25e8);
        QCOMPARE(full->burst, 31250.0);
        QCOMPARE(full->frame, 15625.0);
        QCOMPARE(full->latency, 50e-6);
        QVERIFY(switchSettingsFromText("hosts=2,bytes_per_second=1000"));
    }

    void wrongSettings_data()
    {
        QTest::addColumn<QString>("text");
        for (const char *text :
             {"", "hosts=4", "bytes_per_second=5", "hosts=0,bytes_per_second=5", "hosts=1.5,bytes_per_second=5",
              "hosts=2,bytes_per_second=5,frame=1", "hosts=2,bytes_per_second=-5", "hosts=2,bytes_per_second=nan",
              "hosts=2,bytes_per_second=5x", "hosts=2,rate=5", "hosts=2,bytes_per_second",
              "hosts=1e9,bytes_per_second=5"})
            QTest::newRow(text) << text;
    }

    void wrongSettings()
    {
        QFETCH(QString, text);
        const auto settings = switchSettingsFromText(text.toStdString());
        QVERIFY(!settings);
        QCOMPARE(settings.error().code, ErrorCode::BadInput);
        QVERIFY(settings.error().message.starts_with("PLANLOOM_EMULATED_NETWORK: "));
    }
};

QTEST_GUILESS_MAIN(TestSwitch)
#include "tst_switch.moc"
