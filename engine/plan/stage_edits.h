// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <map>
#include <string>

namespace planloom::plan {

// The user's edits of a plan, as functions from a plan to a plan: plan::validate may still refuse the result. Errors
// (BadInput): edits that cannot be tried. Stages are cut and joined with everything that is kept per stage: warm-up
// caps, replica shares, meshes.

/// Boundary @p boundary, between stages boundary and boundary + 1, before layer @p layer.
void moveBoundary(Plan &plan, std::size_t boundary, std::size_t layer);

/// Cuts a stage before layer @p layer and divides its devices, the first half (rounded up) stays. A stage of one device
/// takes an idle one of the cluster. Error: the cut is not inside of the stage, or there is no second device. Both
/// parts of a stage that shares its devices with others stay on them.
Result<Plan> splitStage(const Document &document, std::size_t stage, std::size_t layer);

/// Joins a stage with the one after it; its devices become replicas of the joint stage; where one of the two shares
/// devices with others, the joint stage lies where the first one did. Error: it is the last one.
Result<Plan> mergeWithNext(const Plan &plan, std::size_t stage);

/// Layers [first, last) for a stage; its neighbours end and begin there.
void setLayers(Plan &plan, std::size_t stage, std::size_t first, std::size_t last);

/// Replaces the devices of a stage, and of stages on the same devices, with equal shares.
void setDevices(Plan &plan, std::size_t stage, std::vector<DeviceId> devices);

/// @p count replicas: devices are taken from the end, or idle ones are added, those of the stage's own nodes first.
/// Error: too few idle.
Result<std::vector<DeviceId>> withReplicas(const Document &document, std::size_t stage, std::size_t count);

/// The stage's devices as replicas of @p parts devices each, which share the tensors of a transformer's blocks as
/// Megatron-LM cuts them (sharding::megatronPins); 1: whole tensors. Shares of replicas are forgotten. Error: the
/// devices cannot be divided so.
Result<Plan> withTensorParts(const Document &document, std::size_t stage, std::size_t parts);

/// "TENSOR = SBP, SBP; ..." as Stage::shardings. Error: a part without "=", or a tensor twice.
Result<std::map<std::string, std::string>> shardingsFromText(const std::string &text);

/// Cuts the batch into @p count micro-batches.
void setMicroBatches(Plan &plan, std::int64_t count);

/// Another order of passes; a listed order (Custom) is forgotten.
void setSchedule(Plan &plan, ScheduleKind kind);

/// A cap of the warm-up of one stage; 0: none, the schedule decides.
void setWarmupCap(Plan &plan, std::size_t stage, int cap);
/// The cap in force, 0 if there is none.
int warmupCap(const Plan &plan, std::size_t stage);

} // namespace planloom::plan
