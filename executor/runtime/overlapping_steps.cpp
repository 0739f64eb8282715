// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/overlapping_steps.h"

#include <algorithm>
#include <utility>

namespace planloom::runtime {
OverlappingSteps::OverlappingSteps(RankParts &parts, RankCommunication &communication, TaskLoop &loop,
                                   const ExecutorOptions &options, AfterStep afterStep)
    : m_parts(parts),
      m_communication(communication),
      m_loop(loop),
      m_options(options),
      m_afterStep(std::move(afterStep)),
      m_agreeEvery(communication.agreements().period())
{
}

Status OverlappingSteps::run()
{
    if (m_options.firstStep >= m_options.steps)
        return {};
    m_first = m_left = m_agreed = m_options.firstStep;
    m_pause = pauseAfter(m_first);
    m_lastLeft = m_parts.now();
    m_loop.watch(*this);
    m_loop.enter(m_first);
    enterSteps(m_first);
    for (bool stop = false; !stop;) {
        if (const Status status = m_loop.runUntilDone(); !status)
            return status;
        if (const Status status = agreeOnTheRest(); !status)
            return status;
        if (const Status settled = m_communication.rows().settle(m_communication.collectives()); !settled)
            return settled;
        m_loop.compute().settleSums();
        if (m_left > m_options.firstStep && pausesAfter(m_left - 1)) {
            if (const Status status = m_afterStep(m_reported, stop); !status)
                return status;
            m_lastLeft = m_parts.now();
            m_loop.enter(m_first);
        }
        stop = stop || m_stop || m_left >= m_options.steps;
        if (!stop) {
            m_pause = pauseAfter(m_left);
            enterSteps(m_left);
        }
    }
    return {};
}

bool OverlappingSteps::pausesAfter(std::int64_t step) const
{
    return m_options.afterStep && m_options.pausesAfter && m_options.pausesAfter(step);
}

/// The end of the steps that may be entered before the next pause, or the run's last step.
std::int64_t OverlappingSteps::pauseAfter(std::int64_t step) const
{
    if (!m_options.pausesAfter)
        return m_options.steps;
    while (step < m_options.steps && !pausesAfter(step))
        ++step;
    return std::min(step + 1, m_options.steps);
}

/// Of those that may be entered before the next agreement.
std::int64_t OverlappingSteps::endOfSteps() const
{
    const std::int64_t next = (m_agreed / m_agreeEvery + 1) * m_agreeEvery; // the one after its last step
    return std::min(m_pause, next + m_parts.program.openSteps);
}

void OverlappingSteps::enterSteps(std::int64_t firstStep)
{
    m_loop.dispatcher().begin(static_cast<double>(m_parts.now()), firstStep, endOfSteps());
    if (endOfSteps() == m_pause)
        m_loop.dispatcher().close();
}

void OverlappingSteps::admit()
{
    if (!m_stop)
        m_loop.dispatcher().admit(endOfSteps(), static_cast<double>(m_parts.now()));
    if (m_stop || endOfSteps() == m_pause)
        m_loop.dispatcher().close();
}

/// At a pause, inside of the steps that are agreed on together.
Status OverlappingSteps::agreeOnTheRest()
{
    if (m_agreed == m_left)
        return {};
    if (const Status agreed = m_communication.agreements().agreeNow(); !agreed)
        return agreed;
    stepsAgreed();
    return {};
}

/// Leaves the steps that are over but for what stays open.
Status OverlappingSteps::beforeTask()
{
    for (; m_left < m_loop.dispatcher().stepsPassed(); ++m_left) {
        if (const Status left = m_communication.agreements().leave(m_left); !left)
            return left;
        m_unreported.resize(std::max(m_unreported.size(), static_cast<std::size_t>(m_left - m_first + 1)));
        m_unreported[static_cast<std::size_t>(m_left - m_first)].left = m_parts.now();
        report();
    }
    return {};
}

void OverlappingSteps::stepsAgreed()
{
    for (const float loss : m_communication.agreements().losses()) {
        const auto at = static_cast<std::size_t>(m_agreed - m_first);
        m_unreported.resize(std::max(m_unreported.size(), at + 1));
        run::StepMetrics &metrics = m_unreported[at].metrics;
        metrics.step = m_agreed;
        metrics.loss = static_cast<double>(loss);
        metrics.learningRate = m_options.learningRate(m_agreed);
        if (m_communication.averaging().mergesIn(m_agreed - 1))
            metrics.consensusDistance = m_communication.agreements().consensusDistance();
        m_unreported[at].agreed = true;
        ++m_agreed;
    }
    m_stop = m_stop || m_communication.agreements().stop();
    admit();
    report();
}

void OverlappingSteps::report()
{
    while (!m_unreported.empty() && m_unreported.front().left && m_unreported.front().agreed) {
        run::StepMetrics &metrics = m_unreported.front().metrics;
        metrics.seconds = static_cast<double>(*m_unreported.front().left - m_lastLeft) * 1e-9;
        m_lastLeft = *m_unreported.front().left;
        ++m_stepsDone;
        if (m_options.onStep)
            m_options.onStep(metrics);
        m_reported = metrics;
        m_unreported.pop_front();
        m_loop.reached(++m_first);
    }
}

} // namespace planloom::runtime
