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

Result<double> Agreements::lossOf(std::int64_t step)
{
    m_nextStep = step + 1;
    if (m_taken.empty())
        return takeLoss();
    const double loss = m_taken.front();
    m_taken.pop_front();
    return loss;
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
    const Result<double> loss = takeLoss();
    if (!loss)
        return loss.error();
    m_taken.push_back(*loss);
    return {};
}

Result<comm::Request> Agreements::start(Subject subject, std::int64_t step)
{
    comm::Communicator &comm = m_parts->comm;
    if (subject == Subject::UpdateNorms)
        return startNorms();
    float *sums = subject == Subject::Step ? m_step : m_norm;
    const Result<double> own = subject == Subject::Step ? lossOf(step) : squaredGradientNorm();
    if (!own)
        return own.error();
    const double value = *own;
    sums[0] = static_cast<float>(value);
    if (subject == Subject::Step)
        sums[1] = m_stop != nullptr && m_stop->load(std::memory_order_relaxed) ? 1.0F : 0.0F;
    else // in two floats, whose sums keep the precision of a double
        sums[1] = static_cast<float>(value - static_cast<double>(sums[0]));
    m_bytesSent +=
        cost::collectiveBytesOf(cost::Collective::AllReduce, sizeof m_step, comm.size(), comm.rank(), sizeof(float));
    return comm.allReduce(comm.world(), sums, std::size(m_step));
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
