// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/alignment.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace planloom::overlay {

/// Operators of a model that programs call as one: a product with the addition of its bias, else a single one.
struct Unit {
    std::vector<OpId> ops;
    OpKind kind = OpKind::Other;
    std::size_t layer = 0;
    std::size_t stage = 0;
    bool trained = true; ///< it has gradients
    double forward = 0;  ///< predicted seconds of a step, on a rank of its stage
    double backward = 0;
    std::vector<std::int32_t> scopes; ///< see ModelScopes
};

/// A pass over a micro-batch as a process may run it: units in order.
struct PassOf {
    bool backward = false;
    std::int32_t microBatch = -1;
    std::vector<std::size_t> units;
};

/// What a process may run: the stages of a rank, or all of them.
struct Candidate {
    bool whole = false;              ///< the model, which the plan cuts, in one process
    std::vector<std::int32_t> ranks; ///< one; of the whole model the first rank of each stage
    std::vector<std::size_t> stages; ///< that it runs, in the pipeline's order
};

/// A plan's operators in the order of execution, with their predicted times: the tasks of its Program, each shared out
/// to its operators by the cost model. The views of the arguments must outlive it.
class Expected {
public:
    Expected(const plan::Document &document, const program::Program &program);

    [[nodiscard]] const std::vector<Unit> &units() const { return m_units; }
    [[nodiscard]] std::vector<Unit> &units() { return m_units; }
    [[nodiscard]] const std::vector<Candidate> &candidates() const { return m_candidates; }
    /// Passes of a step of @p candidate, forward and backward, in the plan's order; @p microBatches: as many as the
    /// plan has, or others, which are taken one after the other.
    [[nodiscard]] std::vector<PassOf> passes(const Candidate &candidate, std::int64_t microBatches) const;
    /// The task of a pass on a rank, if it is in one piece; else none.
    [[nodiscard]] TaskId task(std::int32_t rank, bool backward, std::size_t stage, std::int32_t microBatch) const;
    /// The rank that runs @p stage for @p candidate.
    [[nodiscard]] std::int32_t rankOf(const Candidate &candidate, std::size_t stage) const;
    /// The scope or operator of the model that a range of a trace is called like, normalised; empty: none.
    [[nodiscard]] std::string scopeOf(std::string_view range) const;
    /// Gives units the numbers of @p scopes that they lie in.
    void numberScopes(const std::vector<std::string> &scopes);

private:
    void makeUnits();
    void makeCandidates();
    void predict();

    const plan::Document &m_document;
    const program::Program &m_program;
    std::vector<Unit> m_units;
    std::vector<std::vector<std::size_t>> m_ofStage; ///< units, in order
    std::vector<std::int32_t> m_rankOfStage;         ///< the first
    std::vector<Candidate> m_candidates;
    std::map<std::tuple<std::int32_t, bool, std::size_t, std::int32_t>, std::vector<TaskId>> m_tasks;
    std::map<std::string, std::vector<std::size_t>> m_scopes; ///< normalised; units
};

} // namespace planloom::overlay
