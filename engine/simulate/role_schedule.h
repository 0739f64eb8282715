// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/scheduler.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

namespace planloom::simulate {

/// The roles of a Program beside its ranks, on the network of their machines. Ranks compute for as long as they would
/// alone, or the longer, the more share their cores, and wait for the rest. The Program must have roles and outlive it.
/// Cost: one schedule of the job's iterations.
class RoleSchedule {
public:
    /// @p iteration: seconds of the ranks alone.
    RoleSchedule(const program::Program &program, double iteration);

    /// In the long run (gnn::steadyIteration). Cost: a schedule of three times the iterations.
    [[nodiscard]] double iterationSeconds() const;
    /// @p trace has one iteration of the ranks; it gets the job's iterations, each with the ranks' tasks from when
    /// their trainer starts, and the tasks and messages of roles.
    void into(trace::Trace &trace) const;

private:
    void repeatRanks(trace::Trace &trace) const;
    void addRoles(trace::Trace &trace) const;

    const program::Program &m_program;
    double m_iteration; ///< seconds of the ranks alone
    gnn::Job m_job;
    gnn::StepLabels m_labels;
    gnn::Network m_network;
    gnn::StepTimes m_times;
};

} // namespace planloom::simulate
