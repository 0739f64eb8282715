// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <deque>
#include <string>

namespace planloom::plan {

/// Everything of a plan that decides its simulation, as text: equal texts simulate alike on the same subject. Names,
/// the planner, learning rates and decay are left out; schedules that give the same order of passes are the same.
std::string simulationKey(const Plan &plan);

/// SHA-256 of a graph, cluster and profile, in hexadecimal. Cost: that of writing them as JSON.
std::string subjectHash(const Subject &subject);

/// SHA-256 of simulationKey() and of the graph, cluster and profile, in hexadecimal. Runs and traces carry it; a
/// prediction and a measurement are comparable if theirs are equal. Cost: that of subjectHash().
std::string fingerprint(const Document &document);

/// The same for plans of the last few subjects whose hashes were added. Thread contract: one thread at a time.
class Fingerprints {
public:
    void add(const Subject &subject, std::string hash); ///< @p hash: its subjectHash()
    [[nodiscard]] bool knows(const Subject &subject) const;
    /// Empty if the hash of its subject is not known. Cost: that of simulationKey().
    [[nodiscard]] std::string of(const Document &document) const;

private:
    struct Entry {
        Subject subject;
        std::string hash;
    };
    [[nodiscard]] const Entry *find(const Subject &subject) const;

    std::deque<Entry> m_entries; ///< newest first
};

} // namespace planloom::plan
