// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/collectives.h"
#include "engine/graph/graph.h"

#include <vector>

namespace planloom::cost {

/// A figure that grows by `perSample`: every operator's FLOPs, bytes and sizes are of this form.
struct Affine {
    double fixed = 0;
    double perSample = 0;

    static Affine through(double one, double two) { return {one - (two - one), two - one}; }
    [[nodiscard]] double at(double samples) const
    {
        const double value = fixed + perSample * samples;
        return value > 0 ? value : 0;
    }
};

/// The work of one GPU kernel.
struct KernelWork {
    enum class Kind {
        Product,   ///< `batch` products of (rows, inner) by (inner, columns)
        Attention, ///< a fused one: `flops`, on matrix units all the time
        Streaming, ///< passes `bytes` through; computing is hidden behind that
        Computing, ///< neither of these: `flops` and `bytes`, whichever takes longer
    };
    Kind kind = Kind::Streaming;
    graph::DType type = graph::DType::F32; ///< that products multiply
    Affine rows, columns, inner, batch;
    Affine flops;
    Affine bytes; ///< read and written
};

/// The kernels that @p op of @p graph launches: none for a view, one for most, several for attention in pieces. @p
/// half: the graph is float32, but is costed as if activations and products were 16 bits wide (Precision::BFloat16;
/// masters are not touched by forward or backward).
std::vector<KernelWork> forwardWork(const graph::Graph &graph, const graph::Op &op, bool half = false);
/// The work of its gradients, where @p graph is not differentiated. Operators without gradient: none.
std::vector<KernelWork> backwardWork(const graph::Graph &graph, const graph::Op &op, bool half = false);

/// The collective that @p op, which communicates, stands for.
Collective collectiveOf(const graph::Op &op);

} // namespace planloom::cost
