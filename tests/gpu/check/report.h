// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the check of a GPU finds: planloom.gpu-check/1, resources/docs/gpu.md.
namespace planloom::check {

/// Comparisons of an operator type with the processor's.
struct OperatorRow {
    std::string type;
    std::int64_t onGpu = 0;
    std::int64_t onHost = 0;
    double worst = 0;  ///< largest |difference| / (1 + |expected|)
    std::string wrong; ///< empty: all within the tolerance
};

/// A training on the GPU, twice, and on the processors.
struct ModelRow {
    std::string model;
    std::string precision;
    std::vector<double> losses;
    std::vector<double> expected;
    double worst = 0;              ///< relative difference of losses
    std::int64_t arenaPlanned = 0; ///< bytes
    std::int64_t arenaUsed = 0;
    bool sameBits = false; ///< of the second training
    std::vector<std::string> onHost;
    std::string wrong;
};

/// Steps against the clock.
struct StepRow {
    std::string model;
    std::string precision;
    std::int64_t batch = 0;
    std::int64_t microBatch = 0;
    double seconds = 0;       ///< median of steps; nothing is recorded of the GPU
    double graphSeconds = 0;  ///< while graphs are recorded; 0: they cannot be
    double kernelSeconds = 0; ///< while every kernel is
    double predicted = 0; ///< after a profile on this GPU
    double tokens = 0;    ///< of a sample; 0: it has none
    double peer = 0;      ///< PyTorch's median; 0: not measured
    std::string peerNote; ///< why not
    std::string wrong;

    /// By how much recording makes steps longer.
    [[nodiscard]] double graphCost() const { return seconds > 0 && graphSeconds > 0 ? graphSeconds / seconds - 1 : 0; }
    [[nodiscard]] double kernelCost() const
    {
        return seconds > 0 && kernelSeconds > 0 ? kernelSeconds / seconds - 1 : 0;
    }
    [[nodiscard]] double predictionError() const { return seconds > 0 ? predicted / seconds - 1 : 0; }
    [[nodiscard]] double samplesPerSecond() const { return seconds > 0 ? static_cast<double>(batch) / seconds : 0; }
};

struct Report {
    std::string device;
    std::string peer; ///< version of PyTorch, or why there is none
    std::vector<OperatorRow> operators;
    std::vector<ModelRow> models;
    std::vector<StepRow> steps;

    [[nodiscard]] bool passed() const;
};

/// One object, indented.
std::string toJson(const Report &report);
/// Tables for people.
std::string toText(const Report &report);

} // namespace planloom::check
