// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/agreements.h"

#include <cmath>
#include <iterator>

namespace planloom::runtime {

using Subject = program::Agreement::Subject;

void Agreements::prepare(RankParts &parts, const std::atomic<bool> *stop, double clipNorm)
{
    m_parts = &parts;
    m_stop = stop;
    m_clipNorm = clipNorm;
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
    m_norm[0] = static_cast<float>(*own); // in two floats, whose sums keep the precision of a double
    m_norm[1] = static_cast<float>(*own - static_cast<double>(m_norm[0]));
    return sum(m_norm);
}

/// Of the first @p count steps whose loss was taken: as many on every rank.
Result<comm::Request> Agreements::startSteps(std::size_t count)
{
    const auto end = m_taken.begin() + static_cast<std::ptrdiff_t>(count);
    m_step.assign(m_taken.begin(), end);
    m_step.push_back(m_stop != nullptr && m_stop->load(std::memory_order_relaxed) ? 1.0F : 0.0F);
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
    return m_parts->comm.wait(*request, m_parts->deadline, "the other ranks' losses");
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
    if (subject != Subject::GradientNorm)
        return;
    m_gradientNorm = std::sqrt(static_cast<double>(m_norm[0]) + static_cast<double>(m_norm[1]));
    m_gradientScale = m_gradientNorm > m_clipNorm ? m_clipNorm / m_gradientNorm : 1;
}

} // namespace planloom::runtime
