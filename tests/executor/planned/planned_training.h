// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"
#include "tests/executor/runtime/tiny_training.h"

#include <string>
#include <vector>

namespace planloom::test {

/// A problem for planners, small enough that their answers are trained as they stand and held against one rank.
class PlannedTraining {
public:
    explicit PlannedTraining(const std::vector<std::string> &words) : m_text(words) {}

    planners::Problem problem;

    /// Trains on one rank, for what check() compares with. Returns what went wrong; empty: nothing.
    std::string begin()
    {
        if (!problem.subject.graph || !problem.subject.cluster || m_text.path().empty())
            return "there is no model, cluster or text";
        Layout one;
        one.globalBatch = problem.globalBatch;
        const Outcome outcome =
            trainOn(m_text.path(), problem.subject, planOf(problem.subject, one, problem.optimizer));
        m_expected = outcome.losses;
        if (outcome.problem.empty() && (m_expected.size() != 5 || !(m_expected.back() < m_expected.front())))
            return "nothing is learned on one rank";
        return outcome.problem;
    }

    /// Trains @p plan, a thread a rank. Returns what is wrong with it; empty: losses equal one rank's, arenas are as
    /// planned.
    [[nodiscard]] std::string check(const plan::Plan &plan) const
    {
        const std::string wrong = differs(trainOn(m_text.path(), problem.subject, plan), m_expected);
        return wrong.empty() ? wrong : plan::notation(plan) + ": " + wrong;
    }

private:
    TextFile m_text;
    std::vector<double> m_expected;
};

} // namespace planloom::test
