// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace planloom::overlay {

/// What an operator computes, as far as names of other programs tell it apart.
enum class OpKind : std::uint8_t {
    Product,
    Convolution,
    Attention,
    LayerNorm, ///< and RMS
    BatchNorm,
    Softmax,
    Loss,
    Embedding,
    Pool,
    Recurrent,
    Dropout,
    Relu,
    Gelu,
    Silu,
    Sigmoid,
    Tanh,
    Activation, ///< any other
    Add,
    Multiply,
    Elementwise, ///< any other
    Reduction,
    Move, ///< copies, transposes, concatenations
    Other
};
inline constexpr std::size_t kOpKinds = static_cast<std::size_t>(OpKind::Other) + 1;
const char *name(OpKind kind); ///< "product"

/// Bit i: OpKind i.
using KindSet = std::uint32_t;
constexpr KindSet only(OpKind kind) { return KindSet{1} << static_cast<unsigned>(kind); }

/// How much a match of the kind counts in an alignment: kinds that are rare and take long most.
double weight(OpKind kind);
/// The same of a set: its largest.
double weight(KindSet kinds);
/// The kind of a set that weighs most; Other of none.
OpKind heaviest(KindSet kinds);

/// Kinds of events that belong to an operator that others before or behind them are matched with: a program may compute
/// attention as products and a softmax.
KindSet partsOf(OpKind op);
/// Kinds of events with which an operator may begin, though they are of another kind.
KindSet beginsOf(OpKind op);

OpKind kindOf(const graph::Op &op);

/// What a name of a trace means.
struct Named {
    enum class Role : std::uint8_t {
        None,       ///< an annotation, a runtime call: whatever is no operator
        Operator,   ///< with its kinds; none: not known
        View,       ///< an operator that computes nothing
        Backward,   ///< a node of autograd, likewise
        Recomputes, ///< a node of autograd that runs operators of the forward pass again, and then their gradients
        Optimizer,  ///< a step of it
        Step        ///< the range of a training step
    };
    Role role = Role::None;
    KindSet kinds = 0;
};
/// Of an operator or annotation: "aten::addmm", "aten::linear, seq = 12", "autograd::engine::evaluate_function:
/// AddmmBackward0", "Optimizer.step#AdamW.step", "ProfilerStep#3".
Named named(std::string_view event);

/// What the name of a GPU's kernel says.
struct NamedKernel {
    KindSet kinds = 0;
    bool forward = false; ///< its name says so
    bool backward = false;
    bool optimizer = false;
};
/// "ampere_sgemm_128x64_tn", "void cunn_SoftMaxForward<...>", "triton_poi_fused_add_gelu_3".
NamedKernel namedKernel(std::string_view kernel);

} // namespace planloom::overlay
