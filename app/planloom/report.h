// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/graph/layer_profile.h"
#include "engine/plan/plan.h"
#include "engine/run/summary.h"
#include "engine/simulate/simulate.h"

namespace planloom::cli {

/// The simulator's report for people: figures, then a row a device.
void printReport(const simulate::Report &report, Output &output);
/// What the times of a layer profile are of, in words.
std::string unitText(const graph::ProfileUnit &unit);
/// Stages, schedule and micro-batches for people.
void printPlan(const plan::Plan &plan, const plan::Subject &subject, Output &output);
/// The limits of a plan, the breakdown of its stages' time and memory, and the runner-up, as text. @p iterationSeconds:
/// of the plan, to compare the runner-up with; 0: not known.
void printWhy(const plan::Why &why, double iterationSeconds, Output &output);
/// A note where ranks of the run in @p folder trained on processors, in place of the plan's GPUs.
void noteOnProcessors(const std::string &folder, const run::Summary &summary, Output &output);
/// "n0:g0..n0:g7, n1:g3": names of devices, runs of neighbours folded.
std::string deviceList(const std::vector<DeviceId> &devices, const cluster::Cluster &cluster);

} // namespace planloom::cli
