// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/writer.h"

#include "engine/base/failpoint.h"
#include "engine/base/log.h"
#include "executor/checkpoint/publish.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>

namespace planloom::checkpoint {
namespace {

double secondsSince(std::chrono::steady_clock::time_point begin)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::create(std::vector<Piece> pieces, WriterOptions options)
{
    std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(std::move(options)));
    auto shard = Shard::create(std::move(pieces), writer->m_options.rank);
    if (!shard)
        return shard.error();
    writer->m_shard = *std::move(shard);
    const std::string place = checkpointsFolder(writer->m_options.runDir);
    std::error_code error;
    std::filesystem::create_directories(place, error);
    if (error)
        return ioError("cannot be made: " + error.message() + "; choose another run folder").in(place);
    if (writer->m_options.rank == 0)
        removeDebris(writer->m_options.runDir, writer->m_lease);
    writer->m_head.world = writer->m_options.world;
    writer->m_head.lease = writer->m_options.lease;
    writer->m_thread = std::jthread([raw = writer.get()](const std::stop_token &stop) { raw->work(stop); });
    return writer;
}

CheckpointWriter::~CheckpointWriter()
{
    {
        const std::lock_guard lock(m_mutex);
        m_giveUp.request_stop();
    }
    m_thread.request_stop();
    if (m_thread.joinable())
        m_thread.join();
    if (m_phase != Phase::Idle && m_shard)
        removeShare(folder(), m_options.rank);
}

std::string CheckpointWriter::folder() const
{
    return checkpointsFolder(m_options.runDir) + "/" + unfinishedName(m_head.state.step, m_options.lease);
}

void CheckpointWriter::begin(const TrainingState &state)
{
    const auto begin = std::chrono::steady_clock::now();
    m_head.state = state;
    m_shard->copy();
    const Status streamed = m_shard->stream(folder());
    m_phase = Phase::Writing;
    {
        const std::lock_guard lock(m_mutex);
        m_error.reset();
        if (!streamed)
            m_error = streamed.error();
        m_giveUp = std::stop_source();
    }
    if (streamed)
        start(Job::Write);
    m_stallSeconds = secondsSince(begin);
}

Votes CheckpointWriter::votes() const
{
    if (m_phase == Phase::Idle)
        return {};
    const std::lock_guard lock(m_mutex);
    // Ranks that only wait for rank 0 to publish have no vote.
    const bool ready = m_jobs.empty() && (m_phase != Phase::Publishing || m_options.rank == 0);
    if (m_phase == Phase::Discarding)
        return {ready ? 1.0F : 0.0F, 0};
    return {ready && !m_error ? 1.0F : 0.0F, m_error ? 1.0F : 0.0F};
}

CheckpointWriter::Outcome CheckpointWriter::agree(Votes sums)
{
    const auto world = static_cast<float>(m_options.world);
    if (m_phase == Phase::Idle)
        return Outcome::Nothing;
    if (m_phase == Phase::Discarding) {
        if (sums.ready < world)
            return Outcome::Nothing;
        m_phase = Phase::Idle;
        return Outcome::Failed;
    }
    if (sums.failures > 0) {
        m_phase = Phase::Discarding;
        start(Job::Discard);
        return Outcome::Nothing;
    }
    if (m_phase == Phase::Writing && sums.ready == world) {
        m_phase = Phase::Publishing;
        if (m_options.rank == 0)
            start(Job::Publish);
        return Outcome::Nothing;
    }
    if (m_phase == Phase::Publishing && sums.ready > 0) {
        m_phase = Phase::Idle;
        return Outcome::Published;
    }
    return Outcome::Nothing;
}

std::string CheckpointWriter::failure() const
{
    const std::lock_guard lock(m_mutex);
    return m_error ? m_error->text() : std::string();
}

double CheckpointWriter::writeSeconds() const
{
    const std::lock_guard lock(m_mutex);
    return m_writeSeconds;
}

// --- The thread
// ---------------------------------------------------------------------------------------------------------------------

void CheckpointWriter::start(Job job)
{
    const std::lock_guard lock(m_mutex);
    if (job == Job::Discard)
        m_giveUp.request_stop();
    m_jobs.push_back(job);
    m_wake.notify_one();
}

void CheckpointWriter::work(const std::stop_token &stop)
{
    // Of this thread only, on Linux: the ranks' computing threads come first.
    constexpr int kNicer = 10;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNicer);
    std::unique_lock lock(m_mutex);
    while (m_wake.wait(lock, stop, [this] { return !m_jobs.empty(); })) {
        const Job job = m_jobs.front();
        const std::stop_token giveUp = m_giveUp.get_token();
        lock.unlock();
        const auto begin = std::chrono::steady_clock::now();
        const Status done = perform(job, giveUp);
        lock.lock();
        if (job == Job::Write)
            m_writeSeconds = secondsSince(begin);
        if (!done && !m_error
            && done.error().code != ErrorCode::Cancelled) // given up because of another rank's failure
            m_error = done.error();
        m_jobs.erase(m_jobs.begin());
    }
}

Status CheckpointWriter::perform(Job job, const std::stop_token &stop)
{
    if (job == Job::Discard) {
        removeShare(folder(), m_options.rank);
        return {};
    }
    if (job == Job::Write) {
        PLANLOOM_FAILPOINT("checkpoint.snapshot");
        return m_shard->write(folder(), m_head, stop);
    }
    if (m_options.beforePublish) {
        if (Status ready = m_options.beforePublish(m_head.state.step, stop); !ready)
            return ready;
    }
    const auto published = publish(m_options.runDir, m_head, m_lease);
    if (!published)
        return published.error();
    // The checkpoint exists: that older ones stay is no reason to call it failed.
    if (const Status pruned = prune(m_options.runDir, m_options.keep); !pruned)
        log(LogLevel::Warning, "an old checkpoint stays: " + pruned.error().text());
    return {};
}

} // namespace planloom::checkpoint
