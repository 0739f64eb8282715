// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/alias.h"
#include "engine/compile/layout.h"
#include "engine/compile/stage_memory.h"
#include "engine/compile/stage_tensors.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace planloom::compile {

/// What one micro-batch's operators read and make of the pool of a memory policy, the same for all micro-batches.
class StageTemplate {
public:
    /// @p training and @p layout are borrowed. @p samples: of a micro-batch; @p hosted: parameters that lie on the
    /// host.
    StageTemplate(const graph::TrainingGraph &training, const StageLayout &layout, std::int64_t samples,
                  const std::vector<const LocalParameter *> &hosted);

    struct Uses {
        std::vector<std::int32_t> inputs, outputs; ///< roots
        std::int64_t scratch = 0;
    };
    std::vector<TensorId> roots; ///< activations, then hosted parameters
    std::size_t activations = 0;
    std::vector<std::int64_t> bytes;
    std::vector<std::int32_t> lastUse, lastForwardUse; ///< per root: operators
    std::vector<bool> recomputable;
    std::vector<Uses> uses; ///< per operator
    std::vector<StageMemory::Argument> arguments;
    std::vector<std::int32_t> firstArgument;

    /// True if @p id lies in a hosted parameter.
    [[nodiscard]] bool isHosted(TensorId id) const
    {
        return id.valid() && rootOf(id) >= static_cast<std::int32_t>(activations);
    }

private:
    [[nodiscard]] std::int32_t rootOf(TensorId id) const { return m_rootIndex[m_aliases.home(id).root.index()]; }
    void addRoot(const graph::Tensor &tensor);
    void add(const graph::Op &op);
    void note(std::vector<std::int32_t> &list, std::int32_t root, OpId op);
    void argument(Uses &of, TensorId id, bool besides);
    [[nodiscard]] bool isTransient(TensorId id) const;
    void findRecomputable();

    const graph::TrainingGraph &m_training;
    const StageLayout &m_layout;
    std::int64_t m_samples;
    Aliases m_aliases;
    std::vector<std::int32_t> m_rootIndex; ///< per tensor; -1: none
};

} // namespace planloom::compile
