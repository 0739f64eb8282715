// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/state/studio_state.h"

#include <QSettings>
#include <QTemporaryDir>
#include <QTest>

#include <atomic>
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
        events.onTraceTables(simulation->trace);
        events.onState(agent::RunState::Running, {});
        while (m_run.hold && !m_stop)
            std::this_thread::yield();
        run::Summary summary;
        for (std::int64_t step = 0; step < request.settings.steps; ++step) {
            if (m_stop)
                return cancelled();
            if (step == m_run.failAt)
                return failed("rank 1 ended with signal 9; see its log");
            events.onRecords(stretched(simulation->trace, step), 0);
            events.onStep({step, 4.0 / static_cast<double>(step + 1), 0.5, 16});
            summary.steps = step + 1;
        }
        summary.iterationSecondsMedian = 1.5 * simulation->report.iterationSeconds;
        for (const auto &device : simulation->report.devices)
            summary.peakBytesMeasured.push_back(device.peakBytes);
        events.onSummary(summary);
        return {};
    }
    void stop() override { m_stop = true; }

private:
    static std::vector<trace::Record> stretched(const trace::Trace &trace, std::int64_t step)
    {
        std::vector<trace::Record> records = trace.records;
        for (trace::Record &record : records) {
            record.start = record.start * 3 / 2 + step * trace.end() * 2;
            record.duration = record.duration * 3 / 2;
            record.step = static_cast<std::int32_t>(step);
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
