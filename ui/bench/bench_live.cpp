// SPDX-License-Identifier: GPL-3.0-or-later
// T6: a run that reports a million events a second.
#include "ui/bench/bench_files.h"
#include "ui/bench/bench_window.h"
#include "ui/timeline/timeline_view.h"

#include <QCoreApplication>
#include <QElapsedTimer>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace planloom::ui {

namespace {

using LiveClock = std::chrono::steady_clock;

constexpr double kEventsPerSecond = 1'000'000;
constexpr auto kBatch = std::chrono::milliseconds(5); // between two reports
constexpr double kLiveBudget = 512;                   // MiB
constexpr int kLiveDevices = 8;

/// What the run has reported, for both threads.
class LiveCount {
public:
    void sent(std::int64_t all)
    {
        const std::lock_guard lock(m_mutex);
        m_sent = all;
        m_marks.emplace_back(all, LiveClock::now());
    }
    [[nodiscard]] std::int64_t all() const
    {
        const std::lock_guard lock(m_mutex);
        return m_sent;
    }
    /// When the newest of the first @p events was reported.
    std::optional<LiveClock::time_point> when(std::int64_t events)
    {
        const std::lock_guard lock(m_mutex);
        std::optional<LiveClock::time_point> last;
        while (!m_marks.empty() && m_marks.front().first <= events) {
            last = m_marks.front().second;
            m_marks.pop_front();
        }
        return last;
    }

private:
    mutable std::mutex m_mutex;
    std::int64_t m_sent = 0;
    std::deque<std::pair<std::int64_t, LiveClock::time_point>> m_marks;
};

/// Reports the plan's own simulation, step after step, so fast that there are kEventsPerSecond.
class LiveClient final : public agent::Client {
public:
    LiveClient(std::shared_ptr<const simulate::Simulation> simulation, double seconds, LiveCount &count)
        : m_simulation(std::move(simulation)),
          m_seconds(seconds),
          m_count(count)
    {
    }

    Status train(const agent::TrainRequest &request, const agent::RunEvents &events) override
    {
        const trace::Trace &trace = m_simulation->trace;
        std::vector<trace::Record> step = trace.records;
        std::ranges::sort(step, {}, [](const trace::Record &record) { return record.start + record.duration; });
        const auto length = static_cast<std::int64_t>(1e9 * static_cast<double>(step.size()) / kEventsPerSecond);
        const double stretch =
            static_cast<double>(length) / static_cast<double>(std::max<std::int64_t>(trace.end(), 1));
        events.onStarted("bench", request.runDir);
        events.onTraceTables(trace);
        events.onState(agent::RunState::Running, {});
        std::int64_t sent = 0;
        const auto begin = LiveClock::now();
        std::vector<trace::Record> batch;
        while (!m_stop) {
            const double elapsed = std::chrono::duration<double>(LiveClock::now() - begin).count();
            if (elapsed > m_seconds)
                break;
            batch.clear();
            for (const auto due = static_cast<std::int64_t>(elapsed * kEventsPerSecond); sent < due; ++sent) {
                const auto number = sent / static_cast<std::int64_t>(step.size());
                trace::Record record = step[static_cast<std::size_t>(sent) % step.size()];
                record.start = number * length + static_cast<std::int64_t>(static_cast<double>(record.start) * stretch);
                record.duration = static_cast<std::int64_t>(static_cast<double>(record.duration) * stretch);
                record.step = static_cast<std::int32_t>(number);
                batch.push_back(record);
            }
            events.onRecords(batch, 0);
            m_count.sent(sent);
            std::this_thread::sleep_for(kBatch);
        }
        return {};
    }
    void stop() override { m_stop = true; }
    Status lookCloser(double) override { return unsupported("the run's trace has no rows for kernels"); }

private:
    std::shared_ptr<const simulate::Simulation> m_simulation;
    double m_seconds;
    LiveCount &m_count;
    std::atomic<bool> m_stop{false};
};

/// Notes when the timeline was painted, and how old the newest event in the picture was then.
class LiveEye final : public QObject {
public:
    LiveEye(StudioState &state, QWidget &canvas, LiveCount &count) : m_state(state), m_canvas(canvas), m_count(count)
    {
        m_canvas.installEventFilter(this);
        connect(&state, &StudioState::measuredAppended, this, [this] {
            m_known = static_cast<std::int64_t>(m_state.measured().records.size()) + m_state.measured().dropped;
        });
        m_since.start();
    }
    [[nodiscard]] const std::vector<double> &gaps() const { return m_gaps; }           ///< milliseconds
    [[nodiscard]] const std::vector<double> &latencies() const { return m_latencies; } ///< milliseconds

protected:
    bool eventFilter(QObject *, QEvent *event) override
    {
        if (event->type() == QEvent::Paint && m_known > m_painted) {
            m_painted = m_known;
            QMetaObject::invokeMethod(
                this, [this] { painted(); }, Qt::QueuedConnection); // behind the painting
        }
        return false;
    }

private:
    void painted()
    {
        m_gaps.push_back(static_cast<double>(m_since.nsecsElapsed()) * 1e-6);
        m_since.start();
        if (const auto when = m_count.when(m_painted))
            m_latencies.push_back(std::chrono::duration<double, std::milli>(LiveClock::now() - *when).count());
    }

    StudioState &m_state;
    QWidget &m_canvas;
    LiveCount &m_count;
    QElapsedTimer m_since;
    std::int64_t m_known = 0;
    std::int64_t m_painted = 0;
    std::vector<double> m_gaps;
    std::vector<double> m_latencies;
};

void addLive(BenchContext &context, const QString &what, const QString &unit, std::vector<double> values, double limit,
             BenchFigure::Compared compared, std::int64_t events)
{
    BenchFigure figure = benchFigure(QStringLiteral("T6"), what);
    figure.unit = unit;
    figure.clock = unit == QLatin1String("ms") ? QStringLiteral("clock") : QString();
    figure.values = std::move(values);
    figure.limit = limit;
    figure.compared = compared;
    figure.events = events;
    context.add(std::move(figure));
}

} // namespace

void benchLive(BenchContext &context)
{
    const QString target = QStringLiteral("T6");
    const QString model = context.file(target, QStringLiteral("model-8.json"),
                                       [](const QString &path) { return writeBenchBlocks(path, 8); });
    const QString cluster = context.file(target, QStringLiteral("cluster-8.yaml"),
                                         [](const QString &path) { return writeBenchCluster(path, kLiveDevices); });
    if (model.isEmpty() || cluster.isEmpty())
        return;
    LiveCount count; // outlives the run's thread
    BenchWindow bench;
    auto &view = bench.alone<TimelineView>(QStringLiteral("Timeline"));
    if (!bench.plan(model, cluster, 512, {{"pipeline", "8"}, {"schedule", "1f1b"}}))
        return context.fail(target, QStringLiteral("live"), bench.error());
    const double seconds = context.options().liveSeconds;
    bench.state().setClientFactory(
        [&count, seconds, simulation = bench.state().simulation()]() -> Result<std::unique_ptr<agent::Client>> {
            return std::unique_ptr<agent::Client>(std::make_unique<LiveClient>(simulation, seconds, count));
        });
    context.begin(QStringLiteral("T6, live for %1 s").arg(seconds));
    const std::int64_t before = residentBytes();
    LiveEye eye(bench.state(), *view.canvas(), count);
    agent::TrainRequest request;
    request.runDir = context.path(QStringLiteral("live")).toStdString();
    QElapsedTimer timer;
    timer.start();
    if (!bench.state().startRun(request))
        return context.fail(target, QStringLiteral("live"), bench.error());
    while (bench.state().run().active() && timer.elapsed() < static_cast<qint64>((seconds + 60) * 1000))
        QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
    settle();
    const std::int64_t sent = count.all();
    const QString of =
        QStringLiteral("%1 s of %2 events/s").arg(seconds).arg(static_cast<double>(sent) / seconds, 0, 'f', 0);
    const trace::Trace &measured = bench.state().measured();
    BenchFigure frames = benchFigure(target, QStringLiteral("pictures a second, %1").arg(of));
    frames.unit = QStringLiteral("1/s");
    frames.values = {static_cast<double>(eye.gaps().size()) / seconds};
    frames.limit = 30;
    frames.atLeast = true;
    frames.events = sent;
    context.add(std::move(frames));
    addLive(context, QStringLiteral("between two pictures, %1").arg(of), QStringLiteral("ms"), eye.gaps(), 1000.0 / 30,
            BenchFigure::Compared::P50, sent);
    addLive(context, QStringLiteral("from report to picture, %1").arg(of), QStringLiteral("ms"), eye.latencies(), 200,
            BenchFigure::Compared::P95, sent);
    addLive(context, QStringLiteral("memory of the run, %1").arg(of), QStringLiteral("MiB"),
            {static_cast<double>(peakBytes() - before) / 1048576.0}, kLiveBudget, BenchFigure::Compared::Max, sent);
    addLive(context, QStringLiteral("events neither held nor counted as lost, %1").arg(of), QStringLiteral("events"),
            {static_cast<double>(
                std::abs(sent - static_cast<std::int64_t>(measured.records.size()) - measured.dropped))},
            0, BenchFigure::Compared::Max, sent);
}

} // namespace planloom::ui
