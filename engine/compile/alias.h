// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// Which tensors share memory: views (reshapes) lie where their input lies, a packed tensor holds its parts, and an
/// all-reduce works in place.
class Aliases {
public:
    /// Finds them for slices of @p samples. Tensors that leave the stage have memory of their own.
    Aliases(const graph::TrainingGraph &training, std::int64_t samples);

    /// The tensor whose place decides where @p id lies, and how far behind its beginning.
    struct Home {
        TensorId root;
        std::int64_t offset = 0;
    };
    [[nodiscard]] Home home(TensorId id) const;
    /// All that live in the memory of @p root, itself included.
    [[nodiscard]] const std::vector<TensorId> &members(TensorId root) const { return m_members[root.index()]; }

private:
    void place(const graph::Op &op);
    void view(TensorId output, TensorId input, std::int64_t offset);
    void hold(TensorId whole, TensorId part, std::int64_t offset);
    void reduceInPlace(const graph::Op &op);
    [[nodiscard]] bool leaves(TensorId id) const { return m_leaves[id.index()]; }
    [[nodiscard]] std::int64_t bytes(TensorId id) const;

    const graph::TrainingGraph &m_training;
    std::int64_t m_samples;
    std::vector<bool> m_leaves;
    std::vector<Home> m_parent; ///< invalid root: none
    std::vector<std::vector<TensorId>> m_members;
};

} // namespace planloom::compile
