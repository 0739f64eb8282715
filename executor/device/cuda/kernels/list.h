// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/attention.h"
#include "executor/device/cuda/kernels/channels.h"
#include "executor/device/cuda/kernels/convolution_tiles.h"
#include "executor/device/cuda/kernels/elementwise.h"
#include "executor/device/cuda/kernels/flash.h"
#include "executor/device/cuda/kernels/formulas.h"
#include "executor/device/cuda/kernels/images.h"
#include "executor/device/cuda/kernels/losses.h"
#include "executor/device/cuda/kernels/picks.h"
#include "executor/device/cuda/kernels/pieces.h"
#include "executor/device/cuda/kernels/recurrent.h"
#include "executor/device/cuda/kernels/rows.h"
#include "executor/device/cuda/kernels/sparse.h"
#include "executor/device/cuda/kernels/tensors.h"
#include "executor/device/cuda/kernels/updates.h"

// All kernels, by number.
// clang-format off
#define PLANLOOM_UNARY_FUNCTIONS(X) \
    X(Identity) X(Neg) X(Abs) X(Sqrt) X(Reciprocal) X(Exp) X(Log) X(Erf) X(Tanh) X(Sigmoid) X(Relu) X(LeakyRelu)       \
    X(Elu) X(Softplus) X(HardSigmoid) X(HardSwish) X(Silu) X(Mish) X(Clip) X(Sin) X(Cos) X(Floor) X(Ceil) X(Round)     \
    X(Sign) X(Not) X(GeluErf) X(GeluTanh) X(Sinh) X(Cosh) X(Asin) X(Acos) X(Atan) X(Asinh) X(Acosh) X(Atanh)
#define PLANLOOM_GRADIENT_FUNCTIONS(X) \
    X(ReluGrad) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(SiluGrad) X(ErfGrad) X(AbsGrad) X(LeakyReluGrad) X(EluGrad)   \
    X(SoftplusGrad) X(ClipGrad) X(SinGrad) X(CosGrad) X(HardSigmoidGrad) X(HardSwishGrad) X(MishGrad) X(GeluErfGrad)   \
    X(GeluTanhGrad)
#define PLANLOOM_BINARY_FUNCTIONS(X) \
    X(Add) X(Sub) X(Mul) X(Div) X(Pow) X(Min) X(Max) X(Equal) X(Less) X(Greater) X(LessOrEqual) X(GreaterOrEqual)      \
    X(And) X(Or) X(Xor) X(Mod) X(Fmod)
#define PLANLOOM_KERNELS(X)                                                                                            \
    X(Where) X(MinMaxGradient) X(Drop) X(Sum) X(Fill) X(BiasAct) X(StridedMove) X(MappedMove) X(MappedSum)             \
    X(Triangle) X(Reduce) X(ColumnSums) X(ReduceGradient) X(SpreadMean) X(CumulativeSum) X(FirstOfLine) X(PickedMove)  \
    X(PickedUpdate) X(PickedRowSums) X(OneHot) X(ShiftIndices) X(RowNorm) X(RowNormGradient) X(KeptNormGradient)       \
    X(ColumnNormGradient) X(SoftmaxRows) X(SoftmaxRowsGradient) X(CrossEntropyRows) X(CrossEntropyMean)                \
    X(CrossEntropyGradient) X(ElementLossSums) X(ElementLossMean) X(ElementLossGradient) X(LossStatistics)             \
    X(CombineLossStatistics) X(LossesOfStatistics) X(LossRowShare) X(ScoreRows) X(SumOfScores) X(AdamW) X(Sgd)         \
    X(SquaredNorm) X(SumOfSums) X(FormulaScalars) X(FormulaPhase) X(FormulaSquares) X(Rotate) X(AttentionForward)      \
    X(AttentionMeans) X(AttentionQueryGradient) X(AttentionKeyGradient) X(Reorder) X(PoolForward) X(PoolGradient)      \
    X(BatchNormSums) X(BatchNormStatistics) X(BatchNorm) X(BatchNormGradientSums) X(BatchNormPlanes)                   \
    X(BatchNormGradient) X(ConvolutionForward) X(ConvolutionInputGradient) X(ConvolutionWeightGradient) X(MoveState)   \
    X(ReadStates) X(CellForward) X(CellBackward) X(PeepholeGradient) X(SparseProduct) X(SparseProductGradient)         \
    X(SparseWeightGradient) X(EndColumns) X(TurnRows) X(TurnPiece) X(PadChannels) X(WeightGradientTiles)               \
    X(WeightGradientSums) X(ChannelNormSums) X(ChannelNorm) X(ChannelNormGradientSums) X(ChannelNormGradient)          \
    X(ChannelMaxPool) X(ChannelMaxPoolGradient)
#define PLANLOOM_FLASH_KERNELS(X) \
    X(FlashForward, 64) X(FlashMeans, 64) X(FlashQueryGradient, 64) X(FlashKeyGradient, 64) X(FlashForward, 128)       \
    X(FlashMeans, 128) X(FlashQueryGradient, 128) X(FlashKeyGradient, 128)
// clang-format on

namespace planloom::cuda {

/// Every kernel, by the number under which the plug-in finds it.
enum class KernelNumber : std::int32_t {
#define X(Name) Unary##Name,
    PLANLOOM_UNARY_FUNCTIONS(X)
#undef X
#define X(Name) Gradient##Name,
        PLANLOOM_GRADIENT_FUNCTIONS(X)
#undef X
#define X(Name) Binary##Name,
            PLANLOOM_BINARY_FUNCTIONS(X)
#undef X
#define X(Name) Name,
                PLANLOOM_KERNELS(X)
#undef X
#define X(Name, D) Name##D,
                    PLANLOOM_FLASH_KERNELS(X)
#undef X
                        Count
};

template <class K>
inline constexpr KernelNumber kNumberOf = KernelNumber::Count;
#define X(Name) \
    template <> \
    inline constexpr KernelNumber kNumberOf<Unary<function::Name>> = KernelNumber::Unary##Name;
PLANLOOM_UNARY_FUNCTIONS(X)
#undef X
#define X(Name) \
    template <> \
    inline constexpr KernelNumber kNumberOf<UnaryGradient<function::Name>> = KernelNumber::Gradient##Name;
PLANLOOM_GRADIENT_FUNCTIONS(X)
#undef X
#define X(Name) \
    template <> \
    inline constexpr KernelNumber kNumberOf<Binary<function::Name>> = KernelNumber::Binary##Name;
PLANLOOM_BINARY_FUNCTIONS(X)
#undef X
#define X(Name) \
    template <> \
    inline constexpr KernelNumber kNumberOf<Name> = KernelNumber::Name;
PLANLOOM_KERNELS(X)
#undef X
#define X(Name, D) \
    template <> \
    inline constexpr KernelNumber kNumberOf<Name<D>> = KernelNumber::Name##D;
PLANLOOM_FLASH_KERNELS(X)
#undef X

/// Entries of a table of kernels, @p Of<K>::kEntry in the order of KernelNumber.
template <template <class> class Of, class Entry>
const Entry *kernelTable()
{
    static const Entry kEntries[] = {
#define X(Name) Of<Unary<function::Name>>::entry(),
        PLANLOOM_UNARY_FUNCTIONS(X)
#undef X
#define X(Name) Of<UnaryGradient<function::Name>>::entry(),
            PLANLOOM_GRADIENT_FUNCTIONS(X)
#undef X
#define X(Name) Of<Binary<function::Name>>::entry(),
                PLANLOOM_BINARY_FUNCTIONS(X)
#undef X
#define X(Name) Of<Name>::entry(),
                    PLANLOOM_KERNELS(X)
#undef X
#define X(Name, D) Of<Name<D>>::entry(),
                        PLANLOOM_FLASH_KERNELS(X)
#undef X
    };
    return kEntries;
}

} // namespace planloom::cuda
