// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compare/step_parts.h"
#include "engine/plan/efficiency.h"
#include "engine/plan/plan.h"
#include "engine/run/summary.h"
#include "engine/simulate/simulate.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::compare {

/// A part of a run whose memory policies have one course (plan::MemoryClock::Measured).
struct Course {
    bool byMeasured = false; ///< decided by what the run has measured; else by the logical clock
    std::int64_t fromStep = 0;
    std::int64_t steps = 0; ///< so many were made
    double measured = 0;    ///< seconds, median without the first of them; 0: none was made
    double predicted = 0;   ///< seconds, by the clock that decided
};

/// Where a run whose memory policies decide by what it measures goes on by that.
struct CourseChange {
    std::int64_t begin = 0;    ///< the first step by the logical clock's course: of a run that was resumed its own
    std::int64_t fromStep = 0; ///< the first step by the measured course
    double predicted = 0;      ///< seconds of one from there on, by the measured times
};

/// That of the run of @p document in @p folder; nothing: it has none, or not yet. Errors: BadInput, Io (files of the
/// run), those of compilePlan and simulate. Cost: a simulation.
Result<std::optional<CourseChange>> courseChange(const plan::Document &document, const std::string &folder);

/// Both courses of a run that changed its course, which has made @p steps; @p logical: seconds of a step as the logical
/// clock's course is predicted. Cost: O(steps log steps).
std::vector<Course> coursesOf(const CourseChange &change, const std::vector<run::StepMetrics> &steps, double logical);

/// One of the two that are compared: a plan with its prediction, and of a run also what was measured.
struct Side {
    std::string name; ///< a path, or what the caller calls it
    plan::Document document;
    std::shared_ptr<const std::string> planText; ///< the plan's file, of a run that was read from its folder; else null
    std::string planHash;                        ///< plan::fingerprint()
    plan::ModelWork work;
    simulate::Report predicted;
    std::int64_t collectiveBytes = -1; ///< that all ranks send in collectives of a step, by the plan; -1: not known
    std::int64_t transferBytes = 0;    ///< activations and gradients between stages, likewise
    StepParts predictedStep;           ///< length 0: not known
    std::shared_ptr<const trace::Trace> predictedTrace; ///< of a step; null: too many tasks
    bool isRun = false;
    std::optional<run::Summary> measured;
    std::vector<run::StepMetrics> steps;
    std::vector<Course> courses;                    ///< both, of a run that changed its course; else empty
    StepParts firstStep;                            ///< of the first of them, whose tasks are those of the prediction
    std::shared_ptr<const trace::Trace> firstTrace; ///< likewise
    StepParts measuredStep;                         ///< of the newest course; length 0: nothing was traced
    std::shared_ptr<const trace::Trace> measuredTrace; ///< of the median step, from 0 on; null likewise

    [[nodiscard]] std::int64_t peakPredicted() const;
};

/// With this many tasks at most a plan's step is traced: a record takes 32 bytes.
inline constexpr std::int64_t kMostTasks = 2'000'000;

/// A plan with its prediction. Errors: those of compilePlan and simulate.
Result<Side> sideOf(plan::Document document, std::string name);
/// The run in @p folder, whose plan is @p document and whose result, if there is one, @p summary. Errors: those of
/// sideOf; BadInput, Io (files of the run).
Result<Side> sideOfRun(plan::Document document, std::optional<run::Summary> summary, const std::string &folder);
/// The same, with plan and summary from the folder. What is predicted is taken from the first of @p others, sides or
/// null, whose plan file is the same byte by byte: then it costs reading files. Errors: also NotFound.
Result<Side> sideOfRun(const std::string &folder, const std::vector<std::shared_ptr<const Side>> &others = {});

} // namespace planloom::compare
