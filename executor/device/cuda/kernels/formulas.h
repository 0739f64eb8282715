// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/updates.h"

// Any update rule, as its formula's nodes (engine/update/formula.h), which numbers of operators and targets are.
namespace planloom::cuda {

/// As update::Operator, in numbers that device code reads.
enum class FormulaOperator : std::uint8_t {
    Weight,
    Gradient,
    State,
    GradientScale,
    LearningRate,
    WeightDecay,
    Step,
    Constant,
    Add,
    Subtract,
    Multiply,
    Divide,
    SquareRoot,
    Sign,
    Power,
    WherePositive,
    Norm,
};

/// A node that a phase computes, or reads: arguments are slots, numbered like the nodes of a list.
struct FormulaStep {
    FormulaOperator type;
    std::uint8_t each;  ///< a number per element, else per range
    std::int16_t index; ///< of State: its number
    std::int16_t arguments[3];
    double value;
};

PLANLOOM_KERNEL_CODE float rootOf(float x) { return sqrtf(x); }
PLANLOOM_KERNEL_CODE double rootOf(double x) { return sqrt(x); }

template <class T>
PLANLOOM_KERNEL_CODE T computed(FormulaOperator type, T a, T b)
{
    switch (type) {
    case FormulaOperator::Add: return a + b;
    case FormulaOperator::Subtract: return a - b;
    case FormulaOperator::Multiply: return a * b;
    case FormulaOperator::Divide: return a / b;
    case FormulaOperator::SquareRoot: return rootOf(a);
    case FormulaOperator::Sign: return static_cast<T>(a > 0) - static_cast<T>(a < 0);
    default: return a;
    }
}

/// Scalars of each range, in double precision, in a slot per node.
struct FormulaScalars {
    ParameterRanges ranges;
    const FormulaStep *nodes = nullptr;
    std::int64_t count = 0;
    double *scalars = nullptr;       ///< (ranges, count)
    const double *squares = nullptr; ///< (tensors, norms), of the second phase
    std::int64_t norms = 0;
    int phase = 0;
    double learningRate = 0, step = 1, gradientScale = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(ranges.count, [&](std::int64_t r) {
            double *own = scalars + r * count;
            for (std::int64_t i = 0; i < count; ++i)
                if (nodes[i].each == 0)
                    own[i] = scalar(ranges.at[r], nodes[i], own);
        });
    }

private:
    PLANLOOM_KERNEL_CODE double scalar(const ParameterRange &range, const FormulaStep &node, const double *own) const
    {
        const double a = node.arguments[0] >= 0 ? own[node.arguments[0]] : 0;
        const double b = node.arguments[1] >= 0 ? own[node.arguments[1]] : 0;
        switch (node.type) {
        case FormulaOperator::GradientScale: return gradientScale;
        case FormulaOperator::LearningRate: return learningRate * static_cast<double>(range.rateFactor);
        case FormulaOperator::WeightDecay: return static_cast<double>(range.decay);
        case FormulaOperator::Step: return step;
        case FormulaOperator::Constant: return node.value;
        case FormulaOperator::Norm: return phase == 0 ? 0 : sqrt(squares[range.tensor * norms + node.index]);
        case FormulaOperator::Power: return pow(a, b);
        case FormulaOperator::WherePositive: return a > 0 ? b : own[node.arguments[2]];
        default: return computed(node.type, a, b);
        }
    }
};

/// A run of elements of one range, which a block computes.
struct FormulaPiece {
    std::int32_t range;
    std::int32_t count;
    std::int64_t begin;
};

/// One phase: its nodes element by element, then what it stores; and the squares of what its norms are of. The last
/// phase clears the gradients and refreshes the copies. Block::extra: two floats for each thread and norm.
struct FormulaPhase {
    static constexpr int kMostSlots = 48;
    static constexpr int kMostNorms = 4;
    struct Target {
        std::int16_t slot, target; ///< target: -1 the weight, or a state
    };
    ParameterRanges ranges;
    const FormulaPiece *pieces = nullptr;
    std::int64_t pieceCount = 0;
    const FormulaStep *steps = nullptr; ///< per slot
    std::int64_t stepCount = 0;
    const double *scalars = nullptr; ///< (ranges, nodes): FormulaStep::index of a scalar's slot is its node
    std::int64_t nodeCount = 0;
    const Target *stores = nullptr;
    std::int64_t storeCount = 0;
    std::int16_t normSlots[kMostNorms] = {};
    int norms = 0;
    double *squares = nullptr; ///< (pieces, norms)
    int last = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        auto *parts = reinterpret_cast<double *>(block.extra);
        for (std::int64_t p = block.index; p < pieceCount; p += block.count) {
            const FormulaPiece piece = pieces[p];
            const ParameterRange &range = ranges.at[piece.range];
            block.each([&](int t) {
                for (int norm = 0; norm < norms; ++norm)
                    parts[norm * block.threads + t] = 0;
                for (std::int64_t i = t; i < piece.count; i += block.threads)
                    element(range, scalars + piece.range * nodeCount, piece.begin + i, parts + t, block.threads);
            });
            for (int norm = 0; norm < norms; ++norm) {
                const double sum = block.reduce<double>([&](int t) { return parts[norm * block.threads + t]; });
                block.items(1, [&](std::int64_t) { squares[p * norms + norm] = sum; });
            }
        }
    }

private:
    PLANLOOM_KERNEL_CODE void element(const ParameterRange &range, const double *own, std::int64_t i, double *parts,
                                      int threads) const
    {
        float values[kMostSlots];
        for (std::int64_t s = 0; s < stepCount; ++s) {
            const FormulaStep &step = steps[s];
            if (step.each == 0)
                values[s] = static_cast<float>(own[step.index]);
            else if (step.type == FormulaOperator::Weight)
                values[s] = range.parameter[i];
            else if (step.type == FormulaOperator::Gradient)
                values[s] = range.gradient[i];
            else if (step.type == FormulaOperator::State)
                values[s] = range.states[step.index][i];
            else
                values[s] = computed(step.type, values[step.arguments[0]],
                                     step.arguments[1] >= 0 ? values[step.arguments[1]] : 0.0F);
        }
        for (int norm = 0; norm < norms; ++norm) {
            const auto value = static_cast<double>(values[normSlots[norm]]);
            parts[norm * threads] += value * value;
        }
        for (std::int64_t s = 0; s < storeCount; ++s)
            (stores[s].target < 0 ? range.parameter : range.states[stores[s].target])[i] = values[stores[s].slot];
        if (last == 0)
            return;
        range.gradient[i] = 0.0F;
        if (range.copy != nullptr)
            range.copy[i] = narrow(range.parameter[i]);
    }
};

/// The squares of each range, of its pieces in their order.
struct FormulaSquares {
    const std::int64_t *firstPieces = nullptr; ///< per range, and behind the last one
    std::int64_t ranges = 0, norms = 0;
    const double *squares = nullptr; ///< (pieces, norms)
    double *sums = nullptr;          ///< (ranges, norms)
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(ranges * norms, [&](std::int64_t i) {
            double sum = 0;
            for (std::int64_t p = firstPieces[i / norms]; p < firstPieces[i / norms + 1]; ++p)
                sum += squares[p * norms + i % norms];
            sums[i] = sum;
        });
    }
};

} // namespace planloom::cuda
