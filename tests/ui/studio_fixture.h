// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "planners/common/exchange.h"
#include "ui/state/studio_state.h"

#include <QSettings>
#include <QTemporaryDir>
#include <QTest>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace planloom::ui::testing {

/// gpt-nano in four stages on four CPU devices, simulated.
inline bool loadSample(StudioState &state)
{
    state.loadModel(QStringLiteral("zoo:gpt-nano"));
    state.loadCluster(QStringLiteral("local:4"));
    state.whenLoaded([&state] {
        PlanRequest request;
        request.planner = "gpipe";
        request.globalBatch = 8;
        state.runPlanner(request);
    });
    return QTest::qWaitFor([&state] { return state.simulationCurrent(); }, 30'000);
}

/// A replica of the sample's model on each device, averaged every fourth step.
inline bool planWithAverages(StudioState &state, const char *exchange = "dasgd,local_steps=4,delay=2")
{
    PlanRequest request;
    request.planner = "data-parallel";
    request.globalBatch = 8;
    request.exchange = *planners::exchangeRequest(exchange);
    const auto before = state.document();
    return state.runPlanner(request)
        && QTest::qWaitFor([&] { return state.document() != before && state.simulationCurrent(); }, 30'000);
}

/// Settings in a folder of their own, for as long as it lives.
class OwnSettings {
public:
    OwnSettings()
    {
        QCoreApplication::setOrganizationName(QStringLiteral("planloom-test"));
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, m_folder.path());
    }

private:
    QTemporaryDir m_folder;
};

/// Requests and reports of the fake agent below.
struct FakeRun {
    std::int64_t steps = 5;
    std::int64_t failAt = -1;      ///< fails before this step
    bool refuse = false;           ///< fails before anything is started
    std::atomic<bool> hold{false}; ///< stays before its first step until released or stopped
    bool kernels = false;          ///< its trace has rows for kernels
    std::atomic<double> lookedCloser{0};
    std::function<void(run::Summary &)> change;         ///< of what it says at its end
    std::function<void(run::StepMetrics &)> changeStep; ///< of what it says of each step
};

/// An agent client that plays a plan's own simulation back as if it had been measured, each task half as long again.
class FakeClient final : public agent::Client {
public:
    explicit FakeClient(FakeRun &run) : m_run(run) {}

    Status train(const agent::TrainRequest &request, const agent::RunEvents &events) override
    {
        if (m_run.refuse)
            return badInput("this folder already holds a run; choose another folder");
        const auto document = plan::documentFromJson(request.planJson);
        if (!document)
            return document.error();
        const auto simulation = simulate::simulatePlan(document->plan, document->subject);
        if (!simulation)
            return simulation.error();
        events.onStarted("fake-1", request.runDir);
        trace::Tables tables = simulation->trace;
        if (m_run.kernels)
            tables.lanes.push_back({"kernels", trace::Work::Device, 16});
        events.onTraceTables(tables);
        events.onState(agent::RunState::Running, {});
        while (m_run.hold && !m_stop)
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        run::Summary summary;
        for (std::int64_t step = 0; step < request.settings.steps; ++step) {
            if (m_stop)
                return cancelled();
            if (step == m_run.failAt)
                return failed("rank 1 ended with signal 9; see its log");
            events.onRecords(stretched(*simulation, step), 0);
            run::StepMetrics metrics{step, 4.0 / static_cast<double>(step + 1), 0.5, 16};
            if (simulation->trace.rounds.overlap && step % simulation->trace.rounds.steps == 0 && step > 0)
                metrics.consensusDistance = 0.25;
            if (m_run.changeStep)
                m_run.changeStep(metrics);
            events.onStep(metrics);
            summary.steps = step + 1;
        }
        summary.iterationSecondsMedian = 1.5 * simulation->report.iterationSeconds;
        for (const auto &device : simulation->report.devices)
            summary.peakBytesMeasured.push_back(device.peakBytes);
        if (m_run.change)
            m_run.change(summary);
        events.onSummary(summary);
        return {};
    }
    void stop() override { m_stop = true; }
    Status lookCloser(double seconds) override
    {
        m_run.lookedCloser = seconds;
        return m_run.kernels ? Status() : Status(unsupported("the run's trace has no rows for kernels"));
    }

private:
    /// Steps with a gap between them; rounds that overlap follow each other as they do in the simulation.
    static std::vector<trace::Record> stretched(const simulate::Simulation &simulation, std::int64_t step)
    {
        const trace::Trace &trace = simulation.trace;
        const auto round = static_cast<std::int64_t>(simulation.report.iterationSeconds * trace.rounds.steps * 1e9);
        const std::int64_t period = trace.rounds.overlap ? round * 3 / 2 : trace.end() * 2;
        std::vector<trace::Record> records;
        for (trace::Record record : trace.records) {
            if (record.step != step % trace.rounds.steps)
                continue;
            record.start = record.start * 3 / 2 + step / trace.rounds.steps * period;
            record.duration = record.duration * 3 / 2;
            record.step = static_cast<std::int32_t>(step);
            records.push_back(record);
        }
        return records;
    }

    FakeRun &m_run;
    std::atomic<bool> m_stop{false};
};

inline ClientFactory fakeAgent(FakeRun &run)
{
    return [&run]() -> Result<std::unique_ptr<agent::Client>> {
        return std::unique_ptr<agent::Client>(std::make_unique<FakeClient>(run));
    };
}

} // namespace planloom::ui::testing
