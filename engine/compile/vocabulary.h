// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "engine/schedule/schedule.h"

namespace planloom::compile {

// Names of the Program that compile uses without their namespace.
using program::Area;
using program::Body;
using program::Bucket;
using program::PersistentTensor;
using program::kAreas;
using program::kLanes;
using program::Lane;
using program::Message;
using program::Placement;
using program::Pool;
using program::Program;
using program::Rank;
using program::Slots;
using program::Task;
using program::Team;
using schedule::Pass;
using schedule::PassStep;

using schedule::closingPass;
using schedule::earlyBackwardOrder;
using schedule::interleavedOrder;
using schedule::maxInFlight;
using schedule::mostBetween;
using schedule::stepsOf;
using schedule::zeroBubbleOrder;

} // namespace planloom::compile
