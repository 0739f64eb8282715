// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace planloom::graph {

/// Who puts operators of a type into a graph.
enum class Origin : std::uint8_t {
    Model,    ///< importers and builders: a part of a network
    Gradient, ///< differentiate(); not differentiated again
    Rewrite,  ///< sharding, fusion, precision and layout rewrites; not differentiated
};

/// Where an operator's outputs lie in memory.
enum class Storage : std::uint8_t {
    Own,     ///< in memory of their own
    View,    ///< output 0 is input 0 in another shape: nothing is moved
    Parts,   ///< the outputs are pieces of input 0, at attribute `offsets` (in elements)
    Whole,   ///< the inputs are pieces of output 0, at attribute `offsets`
    InPlace, ///< output 0 may take the place of input 0 if nothing else reads that
};

/// Collective operation of the devices of a line. Operators with a collective have no kernel: the runtime carries them
/// out.
enum class Collective : std::uint8_t { None, AllReduce, AllGather, ReduceScatter, AllToAll };

/// Which time model an operator's kernels have.
enum class CostClass : std::uint8_t {
    Unset,                    ///< never in the registry
    View,                     ///< launches no kernel
    MemoryBound,              ///< moves its inputs and outputs; arithmetic is hidden behind that
    Computing,                ///< FLOPs and bytes, whichever takes longer
    Product,                  ///< matrix products of inputs 0 and 1
    WeightGradient,           ///< a matrix product over all rows, added to an accumulator
    Convolution,              ///< an implicit product with a row for each pixel of output 0
    ConvolutionInputGradient, ///< the same, pixels of input 0
    ConvolutionWeightGradient,
    Attention, ///< fused
    AttentionGradient,
    AttentionInPieces, ///< products, softmax and dropout, each with a pass over the scores
    AttentionInPiecesGradient,
    Communication,
    Measured, ///< the operator's attributes hold its times
};

/// Whether element i of the output depends on elements i of the inputs only (numpy's broadcasting aside).
enum class ElementWise : std::uint8_t {
    No,
    Moves,    ///< picks, converts or drops elements without arithmetic on them
    Computes, ///< a function of the elements
};

/// In which inputs an element-wise operator is linear: partial sums go through it before they are added up.
enum class Linear : std::uint8_t {
    No,
    InFirst, ///< in input 0, the others given
    InAll,   ///< in all inputs together
};

/// Data types under mixed precision, a letter an argument, the last one repeated: h bfloat16,
/// f float32, - whatever comes, = as input 0 comes, + bfloat16 if one of the inputs is and the result stays inside the
/// graph.
struct Precision {
    const char *inputs = "f";
    const char *outputs = "f";
};
inline constexpr Precision kHalf{"h", "h"};
inline constexpr Precision kAsInput{"=", "="};

/// Whether the operator computes in blocks of channels (Layout::Blocked).
enum class Blocked : std::uint8_t {
    No,
    Follows, ///< where its inputs are blocked already
    Begins,  ///< makes blocks from rows, too
};

/// Properties of an operator type that passes above the graph read instead of its name. Constant; the fields of an
/// unknown type have the defaults below.
struct OpTraits {
    CostClass cost = CostClass::Unset;
    Origin origin = Origin::Model;
    Storage storage = Storage::Own;
    Collective collective = Collective::None;
    ElementWise elementWise = ElementWise::No;
    Linear linear = Linear::No;
    Precision precision = {};
    Blocked blocked = Blocked::No;
    bool accumulates = false; ///< its kernel can add output 0, float32, to a buffer
    bool random = false;      ///< draws a mask, again where attribute `key` (else its name) is the first one's
    bool picksRows = false;   ///< reads those rows of input 0 that input 1 names, not all of it
    bool ownLayer = false;    ///< computes enough to be a layer of the chain that planners cut
    bool loss = false;        ///< compares input 0 with targets, input 1, where the mask, input 2, is true or left out
    bool planOnly = false;    ///< planned and simulated; no device has a kernel
    std::uint32_t states = 0; ///< bit i: input i is a State tensor that training updates

    [[nodiscard]] bool isState(std::size_t input) const { return input < 32 && (states >> input & 1U) != 0; }
    [[nodiscard]] bool communicates() const { return collective != Collective::None; }
    [[nodiscard]] bool isConvolution() const
    {
        return cost == CostClass::Convolution || cost == CostClass::ConvolutionInputGradient
            || cost == CostClass::ConvolutionWeightGradient;
    }
    [[nodiscard]] bool isAttention() const
    {
        return cost == CostClass::Attention || cost == CostClass::AttentionInPieces;
    }
};

} // namespace planloom::graph
