// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/matcher.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace planloom::overlay {

/// Transfers or collectives of one kind in a step, and the plan's tasks of that kind on the rank.
struct ExchangesOfKind {
    trace::Kind kind = trace::Kind::Other;
    std::vector<const Exchange *> found;
    std::vector<TaskId> tasks; ///< none where a process runs the whole model
    [[nodiscard]] bool agree() const { return !tasks.empty() && tasks.size() == found.size(); }
};
/// The tasks of a process's rank that exchange anything, by kind; none where it runs the whole model.
using ExchangeTasks = std::map<trace::Kind, std::vector<TaskId>>;
ExchangeTasks exchangeTasks(const program::Program &program, const Candidate &candidate);
std::vector<ExchangesOfKind> exchangesOf(const ExchangeTasks &tasks, const Process &process, std::int32_t step);

/// The calls that @p step has matched.
std::set<std::size_t> matchedCalls(const FoundStep &step);

/// Writes matched passes as records of a plan's tasks, their operators and what is not matched beneath them.
class LaidRecords {
public:
    /// Gives @p trace the tables of @p program, and lanes of its own. All arguments must outlive it.
    LaidRecords(const plan::Document &document, const program::Program &program, const Expected &expected,
                trace::Trace &trace);

    /// @p number: of the step in the new trace; @p hasTasks: micro-batches are the plan's.
    void addStep(const Process &process, const Candidate &candidate, const FoundStep &step,
                 const std::set<std::size_t> &matched, std::int32_t number, bool hasTasks);
    /// Exchanges whose number is the plan's, in order.
    void addExchanges(const std::vector<ExchangesOfKind> &exchanges, std::int32_t rank, std::int32_t number);
    /// Passes that the plan cuts into several tasks have been laid.
    [[nodiscard]] bool inPieces() const { return m_inPieces; }

private:
    std::int32_t rowOf(const std::string &id, trace::Kind kind, std::int32_t rank, std::int32_t stage,
                       std::int32_t microBatch);
    void addRecord(std::int64_t begin, std::int64_t end, std::int32_t task, std::int32_t step, std::int32_t rank,
                   std::int32_t lane);
    void addPass(const Process &process, const Candidate &candidate, const FoundPass &pass, std::int32_t number,
                 bool hasTasks);
    void addUpdate(const Candidate &candidate, std::int32_t rank, std::pair<std::int64_t, std::int64_t> span,
                   std::int32_t number);

    const plan::Document &m_document;
    const program::Program &m_program;
    const Expected &m_expected;
    trace::Trace &m_trace;
    std::int32_t m_operators; ///< lane; behind it that of what is not matched
    std::map<std::pair<std::int32_t, std::string>, std::int32_t> m_rows; ///< by rank and id
    std::map<std::int32_t, std::vector<TaskId>> m_updates;               ///< by rank
    bool m_inPieces = false;
};

} // namespace planloom::overlay
