// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::overlay {

/// How sure a matching is, by Overlay::confidence.
enum class Certainty : std::uint8_t {
    High,   ///< 0.9 or more
    Medium, ///< 0.6 or more
    Low
};
const char *name(Certainty certainty); ///< "high"

/// A layer, or a kind of work, in one pass: predicted against measured. Seconds of a step, of a rank of its stage.
struct Row {
    std::string name;
    std::string pass;           ///< "forward", "backward", "update", "exchange"
    double predicted = 0;       ///< of the operators that were found
    double measured = 0;        ///< likewise; the median over steps
    double notFound = 0;        ///< predicted seconds of the others
    std::int64_t operators = 0; ///< all of them
    std::int64_t missing = 0;   ///< that were not found in half of their passes
    [[nodiscard]] double ratio() const { return measured > 0 ? predicted / measured : 0; } ///< 0: nothing was measured
};

/// What has no counterpart.
struct Unmatched {
    std::string name;
    std::string pass;       ///< as Row's; "recompute", "unknown"
    std::int64_t count = 0; ///< of a step, the mean rounded up
    double seconds = 0;     ///< of a step: measured or, of the plan's, predicted
};

/// A process of the trace and where it was laid.
struct Laid {
    std::string process;
    std::vector<std::string> devices; ///< of the plan; several: the process runs the model that the plan cuts
    double found = 0;                 ///< share of the operators, by their weight in the alignment
    double timeMatched = 0;           ///< share of the time of operators or kernels
    std::int64_t microBatches = 0;    ///< of a step, as far as the trace tells
    bool hasKernels = false;          ///< times are those of a GPU's kernels; else of operators on a processor
    bool hasOperators = false;        ///< false: by the names of kernels alone
    bool hasTasks = false;            ///< its micro-batches are the plan's
};

/// Another program's trace, laid over a plan.
struct Overlay {
    std::string file;
    /// The plan's own tables, clock "wall": records of its tasks, where the trace tells micro-batches as many as the
    /// plan has, else of rows "s0.F", "s0.B" behind its tasks; beneath them, on lanes of Work::Device, each operator
    /// ("s0.F.m0/h/0/attn") and each call that is not matched.
    trace::Trace trace;
    std::int64_t steps = 0;   ///< that were measured
    double predictedStep = 0; ///< seconds
    double measuredStep = 0;  ///< median
    double found = 0;         ///< means over processes
    double timeMatched = 0;
    std::int64_t sizesAgree = 0; ///< operators whose parameters the trace has the sizes of, and they are the model's
    std::int64_t sizesDiffer = 0;
    double confidence = 0;    ///< the smallest of `found`, `timeMatched` and, where sizes are known, the share that
                              ///< agrees; at most 0.85 for kernels without operators
    std::int64_t byScope = 0; ///< pairs of a step whose range is called like the model's scope
    std::vector<Laid> processes;
    std::vector<Row> layers;
    std::vector<Row> kinds;
    std::vector<Unmatched> onlyInTrace; ///< longest first
    std::vector<Unmatched> onlyInPlan;  ///< likewise: operators of the model, by name
    std::vector<std::string> notes;
    [[nodiscard]] Certainty certainty() const;
};

/// Matches the operators and kernels of @p trace with those of the plan's model, by kind and order (alignment.h), and
/// by the names of ranges where these are the model's. @p file: what to call the trace. Errors: BadInput (no operators
/// and no kernels, or none that fit the model), Unsupported (the model is a layer profile, the plan trains by ADMM),
/// Cancelled, those of compilePlan and simulate. Cost: O(n log n) of records, and per pass that looks unlike those
/// before O(operators * calls).
Result<Overlay> layOver(const trace::Trace &trace, const plan::Document &document, const std::string &file,
                        Progress &progress);

/// The confidence, a table of processes, of layers, of kinds, and what is unmatched: for people.
std::string toText(const Overlay &overlay);
/// Everything but the trace, one JSON object.
std::string toJson(const Overlay &overlay);
/// "high confidence (0.97): 98 % of the operators found, 97 % of the time matched"
std::string confidenceText(const Overlay &overlay);

} // namespace planloom::overlay
