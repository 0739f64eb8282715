// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/agreements.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace planloom::runtime {

using Subject = program::Agreement::Subject;

namespace {

/// Floats whose sums keep the precision of a double.
std::array<float, 2> inTwo(double value)
{
    const auto high = static_cast<float>(value);
    return {high, static_cast<float>(value - static_cast<double>(high))};
}

std::size_t agreementPeriod(const RankParts &parts)
{
    for (const TaskId id : parts.own().tasks) {
        const program::Task &task = parts.program.task(id);
        const auto *agreement = task.as<program::Agreement>();
        if (agreement != nullptr && agreement->subject == Subject::Step && task.cadence > 0)
            return static_cast<std::size_t>(parts.program.cadences[static_cast<std::size_t>(task.cadence - 1)].period);
    }
    return 1;
}

} // namespace

void Agreements::prepare(RankParts &parts, Averaging &averaging, const ExecutorOptions &options)
{
    m_parts = &parts;
    m_averaging = &averaging;
    m_options = &options;
    m_period = agreementPeriod(parts);
}

Result<double> Agreements::takeLoss()
{
    double sum = 0;
    for (StageReplica &stage : m_parts->stages) {
        const Result<double> own = stage.runner->takeLoss();
        if (!own)
            return own;
        sum += *own;
    }
    return sum;
}

Result<double> Agreements::squaredGradientNorm()
{
    double sum = 0;
    for (StageReplica &stage : m_parts->stages) {
        const Result<double> own = stage.updater.squaredGradientNorm();
        if (!own)
            return own;
        sum += *own;
    }
    return sum;
}

Status Agreements::leave(std::int64_t step)
{
    if (step < m_nextStep)
        return {};
    m_nextStep = step + 1;
    const Result<double> loss = takeLoss();
    if (!loss)
        return loss.error();
    m_taken.push_back(static_cast<float>(*loss));
    if (m_options->onOwnLoss)
        m_options->onOwnLoss(step, *loss);
    if (m_averaging->any())
        m_distances.push_back(m_averaging->takeSquaredDistance(step));
    return {};
}

Result<comm::Request> Agreements::start(Subject subject, std::int64_t step)
{
    if (subject == Subject::UpdateNorms)
        return startNorms();
    if (subject == Subject::Step) {
        if (const Status left = leave(step); !left)
            return left.error();
        const auto later = static_cast<std::size_t>(m_nextStep - (step + 1));
        return startSteps(m_taken.size() - later);
    }
    const Result<double> own = squaredGradientNorm();
    if (!own)
        return own.error();
    m_norm = inTwo(*own);
    return sum(m_norm);
}

/// Of the first @p count steps whose loss was taken: as many on every rank.
Result<comm::Request> Agreements::startSteps(std::size_t count)
{
    const auto end = m_taken.begin() + static_cast<std::ptrdiff_t>(count);
    const std::int64_t first = m_nextStep - static_cast<std::int64_t>(m_taken.size());
    m_at = static_cast<std::size_t>(first) % m_period;
    m_count = count;
    m_step.assign(m_period, 0);
    std::copy(m_taken.begin(), end, m_step.begin() + static_cast<std::ptrdiff_t>(m_at));
    if (m_averaging->any()) { // no two of these steps merge an average: a round has at least as many
        const auto last = m_distances.begin() + static_cast<std::ptrdiff_t>(count);
        const auto parts = inTwo(std::accumulate(m_distances.begin(), last, 0.0));
        m_step.insert(m_step.end(), parts.begin(), parts.end());
        m_distances.erase(m_distances.begin(), last);
    }
    const std::atomic<bool> *stop = m_options->stop;
    m_step.push_back(stop != nullptr && stop->load(std::memory_order_relaxed) ? 1.0F : 0.0F);
    m_taken.erase(m_taken.begin(), end);
    return sum(m_step);
}

Result<comm::Request> Agreements::sum(std::span<float> numbers)
{
    comm::Communicator &comm = m_parts->comm;
    m_bytesSent += cost::collectiveBytesOf(cost::Collective::AllReduce, static_cast<std::int64_t>(numbers.size_bytes()),
                                           comm.size(), comm.rank(), sizeof(float));
    return comm.allReduce(comm.world(), numbers.data(), static_cast<std::int64_t>(numbers.size()));
}

Status Agreements::agreeNow()
{
    if (m_taken.empty())
        return {};
    Result<comm::Request> request = startSteps(m_taken.size());
    if (!request)
        return request.error();
    if (const Status done = m_parts->comm.wait(*request, m_parts->deadline, "the other ranks' losses"); !done)
        return done;
    ended(Subject::Step);
    return {};
}

Result<comm::Request> Agreements::startNorms()
{
    comm::Communicator &comm = m_parts->comm;
    const UpdateNorms &norms = m_parts->norms;
    norms.beginAll();
    m_bytesSent +=
        cost::collectiveBytesOf(cost::Collective::AllReduce, norms.count() * static_cast<std::int64_t>(sizeof(double)),
                                comm.size(), comm.rank(), sizeof(double));
    return comm.allReduce(comm.world(), comm::Element::Float64, norms.all(), norms.count());
}

void Agreements::ended(Subject subject)
{
    const auto root = [](float high, float low) {
        return std::sqrt(std::max(0.0, static_cast<double>(high) + static_cast<double>(low)));
    };
    if (subject == Subject::Step && m_averaging->any())
        m_consensusDistance = root(m_step[m_period], m_step[m_period + 1]);
    if (subject != Subject::GradientNorm)
        return;
    m_gradientNorm = root(m_norm[0], m_norm[1]);
    const double clipNorm = m_options->optimizer.clipNorm;
    m_gradientScale = m_gradientNorm > clipNorm ? clipNorm / m_gradientNorm : 1;
}

} // namespace planloom::runtime
