// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/run_session.h"

#include "ui/state/freed_elsewhere.h"

#include <QMetaObject>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kPullMilliseconds = 33; // gui.md: pull at no more than 30 Hz
/// 32 bytes each, 96 MiB, and three to four times as much for indexes while the older half goes: it is counted as
/// dropped. The whole trace is in the run's folder.
constexpr std::size_t kRecordLimit = std::size_t{3} << 20;
/// Records of one pull; with their indexes, in memory that is new, about 5 ms. What is left comes with the next event.
constexpr std::size_t kRecordsAtOnce = std::size_t{1} << 15;

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

bool ends(const std::pair<agent::RunState, QString> &state)
{
    const RunData::Phase phase = phaseOf(state.first);
    return phase != RunData::Phase::Starting && phase != RunData::Phase::Running;
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
    std::deque<std::vector<trace::Record>> records; ///< as they came
    std::size_t taken = 0;                          ///< of the first of them
    std::int64_t dropped = 0;                       ///< on the way, all in all
    std::int64_t forgotten = 0;                     ///< records that made room for newer ones, all in all
    std::vector<run::StepMetrics> steps;
    std::vector<std::pair<agent::RunState, QString>> states;
    std::optional<run::Summary> summary;

    /// Moves the oldest records, kRecordsAtOnce at most, behind @p into.
    void moveTo(std::vector<trace::Record> &into)
    {
        for (std::size_t left = kRecordsAtOnce; left > 0 && !records.empty();) {
            const std::vector<trace::Record> &piece = records.front();
            const std::size_t count = std::min(left, piece.size() - taken);
            const auto first = piece.begin() + static_cast<std::ptrdiff_t>(taken);
            into.insert(into.end(), first, first + static_cast<std::ptrdiff_t>(count));
            left -= count;
            taken += count;
            if (taken < piece.size())
                return;
            records.pop_front();
            taken = 0;
        }
    }
};

RunSession::RunSession(QObject *parent) : QObject(parent), m_inbox(std::make_unique<Inbox>())
{
    startTrace({});
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
    m_ended.reset();
    ++m_number;

    m_thread = std::jthread(
        [this, factory, request = std::move(request), number = m_number] { run(factory, request, number); });
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
    startTrace({});
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
    startTrace({}, "wall", m_data.origin.fingerprint);
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

void RunSession::run(const ClientFactory &factory, const agent::TrainRequest &request, int number)
{
    const auto post = [this, number](const Status &status) {
        const auto finished = [this, number, status] {
            if (number == m_number) // or the next run has begun: this one had reported its end before
                finish(status);
        };
        QMetaObject::invokeMethod(this, finished, Qt::QueuedConnection);
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
    events.onTraceTables = [&](const trace::Tables &tables) {
        collect([&](Inbox &in) {
            in.tables = tables;
            in.records.clear(); // they were of other tables
            in.taken = 0;
        });
    };
    events.onRecords = [&](const std::vector<trace::Record> &records, std::int64_t dropped) {
        collect([&](Inbox &in) {
            in.records.push_back(records);
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
    std::vector<trace::Record> records;
    bool more = false;
    {
        const std::lock_guard lock(m_mutex);
        std::swap(news, *m_inbox);
        m_inbox->dropped = news.dropped;
        m_inbox->forgotten = news.forgotten;
        news.moveTo(records);
        more = !news.records.empty();
        if (more) { // a run ends behind its records
            std::swap(news.records, m_inbox->records);
            std::swap(news.taken, m_inbox->taken);
            const auto end = std::ranges::find_if(news.states, ends);
            m_inbox->states.assign(end, news.states.end());
            news.states.erase(end, news.states.end());
            std::swap(news.summary, m_inbox->summary);
        }
    }
    const auto runs = [](const auto &state) { return state.first == agent::RunState::Running; };
    if (news.tables || !records.empty() || !news.steps.empty()
        || std::any_of(news.states.begin(), news.states.end(), runs))
        takeOver();
    takeTables(news);
    takeRecords(news, records);
    if (takeNews(news))
        Q_EMIT changed();
    if (more)
        m_timer.start(0);
    else if (m_ended)
        conclude(*std::exchange(m_ended, std::nullopt));
    else if (m_timer.interval() != kPullMilliseconds)
        m_timer.start(kPullMilliseconds);
}

void RunSession::startTrace(trace::Tables tables, const std::string &clock, const std::string &plan)
{
    trace::Trace next;
    static_cast<trace::Tables &>(next) = std::move(tables);
    next.clock = clock;
    next.plan = plan;
    m_trace = freedElsewhere(std::move(next));
    m_newest = {};
}

void RunSession::takeTables(Inbox &news)
{
    if (!news.tables)
        return;
    startTrace(*std::move(news.tables), m_trace->clock, m_trace->plan);
    m_data.hasKernelRows = std::ranges::any_of(m_trace->lanes, [](const trace::LaneInfo &lane) {
        return lane.work == trace::Work::Device;
    });
    Q_EMIT tablesChanged();
}

void RunSession::takeRecords(Inbox &news, const std::vector<trace::Record> &more)
{
    if (more.empty())
        return;
    if (m_trace->records.size() + more.size() > kRecordLimit)
        letGoOfOldest(news);
    constexpr std::size_t kHalf = kRecordLimit / 2;
    std::vector<trace::Record> &records = m_trace->records;
    records.reserve(kRecordLimit); // address space: nothing is copied as it grows
    const std::size_t first = records.size();
    records.insert(records.end(), more.begin(), more.end());
    if (records.size() > kHalf) {
        m_newest.reserve(kRecordLimit);
        m_newest.insert(m_newest.end(), records.begin() + static_cast<std::ptrdiff_t>(std::max(first, kHalf)),
                        records.end());
    }
    m_trace->dropped = news.dropped + news.forgotten;
    Q_EMIT recordsAppended(first);
}

/// In the place of the trace comes one of the same tables with its newest records, which have been gathered while they
/// came: they are half of a hundred megabytes, too many to copy within an event.
void RunSession::letGoOfOldest(Inbox &news)
{
    news.forgotten += static_cast<std::int64_t>(m_trace->records.size() - m_newest.size());
    {
        const std::lock_guard lock(m_mutex);
        m_inbox->forgotten = news.forgotten;
    }
    std::vector<trace::Record> newest = std::move(m_newest);
    startTrace(*m_trace, m_trace->clock, m_trace->plan);
    m_trace->records = std::move(newest);
    m_trace->dropped = news.dropped + news.forgotten;
    Q_EMIT tablesChanged();
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
    m_ended = status;
    pull();
}

/// All that it has reported is taken.
void RunSession::conclude(const Status &status)
{
    m_timer.stop();
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
