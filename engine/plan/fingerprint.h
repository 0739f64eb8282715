// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>

namespace planloom::plan {

/// Everything of a plan that decides its simulation, as text: equal texts simulate alike on the same subject. Names,
/// the planner, learning rates and decay are left out; schedules that give the same order of passes are the same.
std::string simulationKey(const Plan &plan);

/// SHA-256 of simulationKey() and of the graph, cluster and profile, in hexadecimal. Runs and traces carry it; a
/// prediction and a measurement are comparable if theirs are equal. Cost: that of writing the graph as JSON.
std::string fingerprint(const Document &document);

/// The same for many plans of one subject, whose graph is written once. Thread contract: one thread at a time.
class Fingerprints {
public:
    const std::string &of(const Document &document);

private:
    Subject m_subject;
    std::string m_subjectHash;
    std::string m_key;
    std::string m_last; ///< of m_key on m_subject
};

} // namespace planloom::plan
