// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/run_session.h"

#include <QMetaObject>

#include <algorithm>
#include <chrono>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kPullMilliseconds = 33; // gui.md: pull at no more than 30 Hz
/// 32 bytes each, 96 MiB, and three to four times as much for indexes while the older half goes: it is counted as
/// dropped. The whole trace is in the run's folder.
constexpr std::size_t kRecordLimit = std::size_t{3} << 20;

RunData::Phase phaseOf(agent::RunState state)
{
    switch (state) {
    case agent::RunState::Starting:
    case agent::RunState::Restarting: return RunData::Phase::Starting;
    case agent::RunState::Running: return RunData::Phase::Running;
    case agent::RunState::Finished: return RunData::Phase::Finished;
    case agent::RunState::Stopped: return RunData::Phase::Stopped;
    case agent::RunState::Failed: return RunData::Phase::Failed;
    }
    return RunData::Phase::Failed;
}

QString lineOf(const run::StepMetrics &step)
{
    return QStringLiteral("step %1  loss %2  %3 s")
        .arg(step.step)
        .arg(step.loss, 0, 'f', 4)
        .arg(step.seconds, 0, 'f', 3);
}

} // namespace

struct RunSession::Inbox {
    std::optional<std::pair<QString, QString>> started; ///< id, folder
    std::optional<trace::Tables> tables;
    std::vector<trace::Record> records;
    std::int64_t dropped = 0;   ///< on the way, all in all
    std::int64_t forgotten = 0; ///< records that made room for newer ones, all in all
    std::vector<run::StepMetrics> steps;
    std::vector<std::pair<agent::RunState, QString>> states;
    std::optional<run::Summary> summary;
};

RunSession::RunSession(QObject *parent) : QObject(parent), m_inbox(std::make_unique<Inbox>())
{
    m_timer.setInterval(kPullMilliseconds);
    connect(&m_timer, &QTimer::timeout, this, &RunSession::pull);
}

RunSession::~RunSession() { stop(); }

bool RunSession::start(const ClientFactory &factory, agent::TrainRequest request, PlanOrigin origin)
{
    if (m_data.active() || !factory)
        return false;
    if (m_thread.joinable())
        m_thread.join();
    m_before = std::exchange(m_data, {});
    m_data.phase = RunData::Phase::Starting;
    m_data.settings = request.settings;
    m_data.origin = std::move(origin);
    m_data.log << tr("starting");
    if (request.resume && m_before->folder.toStdString() == request.runDir)
        m_data.steps = m_before->steps;
    *m_inbox = {};
    m_stopAsked = false;

    m_thread = std::jthread([this, factory, request = std::move(request)] { run(factory, request); });
    m_timer.start();
    Q_EMIT changed();
    return true;
}

bool RunSession::show(RunData ended)
{
    if (m_data.active())
        return false;
    m_data = std::move(ended);
    m_before.reset();
    m_trace = {};
    Q_EMIT tablesChanged();
    Q_EMIT changed();
    return true;
}

void RunSession::setPrediction(const PlanOrigin &origin)
{
    for (RunData *run : {&m_data, m_before ? &*m_before : nullptr}) {
        if (run && run->origin.sameAs(origin.fingerprint) && !run->origin.simulation) {
            run->origin = origin;
            Q_EMIT changed();
        }
    }
}

void RunSession::setChange(const std::optional<compare::CourseChange> &change)
{
    if (!change && !m_data.change)
        return;
    m_data.change = change;
    if (change)
        m_data.log << tr("from step %1 on by measured times, predicted %2 s a step")
                          .arg(change->fromStep)
                          .arg(change->predicted, 0, 'f', 3);
    Q_EMIT changed();
}

/// The new run has something to show.
void RunSession::takeOver()
{
    if (!m_before)
        return;
    m_before.reset();
    m_trace = {};
    m_trace.clock = "wall";
    m_trace.plan = m_data.origin.fingerprint;
    Q_EMIT tablesChanged();
}

/// The new run ended before it had anything to show: the earlier one stands.
void RunSession::giveWay(const QString &why)
{
    m_data = *std::exchange(m_before, std::nullopt);
    m_data.log << tr("another run could not start: %1").arg(why);
}

void RunSession::stop()
{
    const std::lock_guard lock(m_mutex);
    m_stopAsked = true;
    if (m_client)
        m_client->stop();
}

void RunSession::lookCloser(double seconds)
{
    std::shared_ptr<agent::Client> client;
    {
        const std::lock_guard lock(m_mutex);
        client = m_client;
    }
    if (!client || m_asks.exchange(true))
        return;
    m_asking = std::jthread([this, client, seconds] {
        const Status asked = client->lookCloser(seconds);
        m_asks = false;
        QMetaObject::invokeMethod(
            this,
            [this, asked, seconds] {
                m_data.log << (asked ? tr("every kernel is recorded for %1 s").arg(seconds)
                                     : QString::fromStdString(asked.error().text()));
                Q_EMIT changed();
            },
            Qt::QueuedConnection);
    });
}

void RunSession::run(const ClientFactory &factory, const agent::TrainRequest &request)
{
    const auto post = [this](const Status &status) {
        QMetaObject::invokeMethod(
            this, [this, status] { finish(status); }, Qt::QueuedConnection);
    };
    auto client = factory();
    if (!client)
        return post(client.error());
    const std::shared_ptr<agent::Client> shared = std::move(*client);
    {
        const std::lock_guard lock(m_mutex);
        if (m_stopAsked)
            return post(cancelled());
        m_client = shared;
    }
    const auto collect = [this](auto change) {
        const std::lock_guard lock(m_mutex);
        change(*m_inbox);
    };
    agent::RunEvents events;
    events.onStarted = [&](const std::string &id, const std::string &folder) {
        collect([&](Inbox &in) { in.started = {QString::fromStdString(id), QString::fromStdString(folder)}; });
    };
    events.onTraceTables = [&](const trace::Tables &tables) { collect([&](Inbox &in) { in.tables = tables; }); };
    events.onRecords = [&](const std::vector<trace::Record> &records, std::int64_t dropped) {
        collect([&](Inbox &in) {
            in.records.insert(in.records.end(), records.begin(), records.end());
            in.dropped = std::max(in.dropped, dropped);
        });
    };
    events.onStep = [&](const run::StepMetrics &step) { collect([&](Inbox &in) { in.steps.push_back(step); }); };
    events.onState = [&](agent::RunState state, const std::string &message) {
        collect([&](Inbox &in) { in.states.emplace_back(state, QString::fromStdString(message)); });
    };
    events.onSummary = [&](const run::Summary &summary) { collect([&](Inbox &in) { in.summary = summary; }); };
    const Status status = shared->train(request, events);
    {
        const std::lock_guard lock(m_mutex);
        m_client.reset();
    }
    post(status);
}

void RunSession::pull()
{
    Inbox news;
    {
        const std::lock_guard lock(m_mutex);
        std::swap(news, *m_inbox);
        m_inbox->dropped = news.dropped;
        m_inbox->forgotten = news.forgotten;
    }
    const auto runs = [](const auto &state) { return state.first == agent::RunState::Running; };
    if (news.tables || !news.records.empty() || !news.steps.empty()
        || std::any_of(news.states.begin(), news.states.end(), runs))
        takeOver();
    takeTables(news);
    takeRecords(news);
    if (takeNews(news))
        Q_EMIT changed();
}

void RunSession::takeTables(Inbox &news)
{
    if (!news.tables)
        return;
    static_cast<trace::Tables &>(m_trace) = *std::move(news.tables);
    m_trace.records.clear();
    m_data.hasKernelRows = std::ranges::any_of(m_trace.lanes, [](const trace::LaneInfo &lane) {
        return lane.work == trace::Work::Device;
    });
    Q_EMIT tablesChanged();
}

void RunSession::takeRecords(Inbox &news)
{
    if (news.records.empty())
        return;
    auto &records = m_trace.records;
    records.reserve(kRecordLimit); // address space: nothing is copied as it grows
    if (records.size() + news.records.size() > kRecordLimit) {
        const auto half = static_cast<std::ptrdiff_t>(records.size() / 2);
        records.erase(records.begin(), records.begin() + half);
        news.forgotten += half;
        m_trace.dropped = news.dropped + news.forgotten;
        {
            const std::lock_guard lock(m_mutex);
            m_inbox->forgotten = news.forgotten;
        }
        Q_EMIT tablesChanged();
    }
    const std::size_t first = records.size();
    records.insert(records.end(), news.records.begin(), news.records.end());
    m_trace.dropped = news.dropped + news.forgotten;
    Q_EMIT recordsAppended(first);
}

bool RunSession::takeNews(Inbox &news)
{
    const bool any = news.started || !news.steps.empty() || !news.states.empty() || news.summary;
    if (news.started) {
        m_data.id = news.started->first;
        m_data.folder = news.started->second;
        m_data.log << tr("run %1 in %2").arg(m_data.id, m_data.folder);
    }
    for (const auto &[state, message] : news.states) {
        m_data.phase = phaseOf(state);
        if (m_data.phase == RunData::Phase::Failed)
            m_data.error = message;
        if (!message.isEmpty())
            m_data.log << message;
    }
    for (const auto &step : news.steps) {
        m_data.log << lineOf(step);
        while (!m_data.steps.empty() && m_data.steps.back().step >= step.step) // done again after a restart
            m_data.steps.pop_back();
        m_data.steps.push_back(step);
    }
    if (news.summary)
        m_data.summary = std::move(news.summary);
    return any;
}

void RunSession::finish(const Status &status)
{
    m_timer.stop();
    pull();
    if (status)
        m_data.phase = RunData::Phase::Finished;
    else if (status.error().code == ErrorCode::Cancelled)
        m_data.phase = RunData::Phase::Stopped;
    else {
        m_data.phase = RunData::Phase::Failed;
        m_data.error = QString::fromStdString(status.error().text());
        m_data.log << m_data.error;
    }
    const QString error = m_data.phase == RunData::Phase::Failed ? m_data.error : QString();
    if (m_before && m_before->phase != RunData::Phase::None)
        giveWay(error.isEmpty() ? tr("stopped") : error);
    else
        takeOver();
    Q_EMIT changed();
    if (!error.isEmpty())
        Q_EMIT failed(error);
}

} // namespace planloom::ui
