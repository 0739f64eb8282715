// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/common/kept_stages.h"
#include "planners/dapple/placement.h"
#include "planners/interface/planner.h"

#include <cstdint>
#include <vector>

namespace planloom::planners::dapple {

enum class Evaluator : std::uint8_t { Simulation, Formula, Shipped };
enum class Family : std::uint8_t { DataParallel, TwoStage, Straight, Replicated, Free };
enum class Order : std::uint8_t { Dapple, OneF1B, GPipe };
enum class WarmupChoice : std::uint8_t { Auto, A, B };
/// What becomes of a batch that micro-batches do not divide.
enum class Remainder : std::uint8_t {
    Spread, ///< micro-batches share the whole batch evenly
    Drop,   ///< micro-batches of exactly the per-device size; the rest of the batch is not timed, as in the published
            ///< figures
};
enum class Rescore : std::uint8_t { Auto, Chain, Program, None };
enum class Duplex : std::uint8_t { Auto, Half, Full };

/// The options of the planner, read.
struct Settings {
    Evaluator evaluator = Evaluator::Simulation;
    std::vector<Family> families{Family::DataParallel, Family::TwoStage, Family::Straight};
    std::vector<Placement> placements{Placement::FreshFirst, Placement::AppendFirst, Placement::ScatterFirst};
    ScatterOver scatter = ScatterOver::UsedMachines;
    Order order = Order::Dapple;
    WarmupChoice warmup = WarmupChoice::Auto;
    Remainder remainder = Remainder::Spread;
    Rescore rescore = Rescore::Auto;
    Duplex duplex = Duplex::Auto;
    bool recompute = false;      ///< allowed where a stage does not fit otherwise
    std::size_t maxStages = 0;   ///< 0: any number
    int maxInFlight = 0;         ///< D, besides the limit by memory; 0: no cap
    std::size_t beam = 1;        ///< prefixes kept per state of the free search
    std::size_t candidates = 32; ///< kept for re-scoring
    double memoryReserve = 0.05;
    KeptStages keep; ///< of the pipeline; searches leave out all else
};

std::vector<OptionInfo> optionList();
/// Of a model of @p layers layers. Errors: BadInput.
Result<Settings> readSettings(const Options &options, std::size_t layers);

} // namespace planloom::planners::dapple
