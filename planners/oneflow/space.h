// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/graph/gradients/differentiate.h"
#include "engine/sharding/signatures.h"
#include "planners/oneflow/choices.h"
#include "engine/update/configured_rule.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace planloom::planners::oneflow {

/// One dimension of a mesh over which operators are laid out, and the operators there.
struct LineSetting {
    const cost::CostModel *costs = nullptr;
    std::vector<DeviceId> line;     ///< devices along the dimension
    std::vector<DeviceId> replicas; ///< devices that hold the same parts and work on other samples
    int lines = 1;                  ///< of the mesh
    std::size_t type = 0;           ///< of the devices
    double samples = 1;             ///< of one replica in a micro-batch
    double microBatches = 1;
    update::Footprint update;
};

/// Cost of a choice in an iteration.
struct Price {
    double seconds = 0; ///< infinity: not possible
    double bytes = 0;   ///< sent in boxing by all devices together
    double memory = 0;  ///< bytes that one device holds at its peak
};

struct SpaceData;

/// Everything that can be chosen along a line, as OneFlow sees it: operators choose signatures,
/// tensors that several operators read and parameters choose the layout in which they lie, edges cost boxing. An
/// activation is pinned to its layout: converted once after its producer, and once more for the readers of a
/// pass together. Blocks that repeat (h/1, h/2 ...) choose alike, all but the first and the last of a series, so that
/// the search grows with the block and not with the model.
class LineSpace {
public:
    /// @p logical may be local to other dimensions already.
    LineSpace(const graph::TrainingGraph &logical, LineSetting setting);
    ~LineSpace();
    LineSpace(LineSpace &&) noexcept;

    /// Seconds, plus @p secondsPerByte for each byte that a device holds.
    [[nodiscard]] ChoiceGraph graph(double secondsPerByte) const;
    /// All three for @p states.
    [[nodiscard]] Price priceOf(const std::vector<int> &states) const;
    /// The layout of each parameter, and of each activation right after its producer: the pins for shard().
    [[nodiscard]] std::map<std::string, sharding::Sbp> pins(const std::vector<int> &states) const;
    /// Operators whose outputs lie otherwise in @p chosen than in @p states.
    [[nodiscard]] std::vector<std::string> differing(const std::vector<int> &states,
                                                     const std::map<std::string, sharding::Sbp> &chosen) const;
    [[nodiscard]] std::size_t operators() const;

private:
    std::unique_ptr<const SpaceData> m_data;
};

/// Cost of converting @p from into @p to once, for a tensor of @p bytes. Infinity where it is not done: making P out
/// of something else.
Price conversion(const LineSetting &setting, const sharding::Sbp &from, const sharding::Sbp &to, double bytes);

/// For every operator the one that chooses for it: itself, or its counterpart in the second block of a series of at
/// least four.
std::vector<std::size_t> representatives(const graph::Graph &graph);
/// The same for tensors.
std::vector<std::size_t> tensorRepresentatives(const graph::Graph &graph, const std::vector<std::size_t> &standsFor);

/// Signatures of every operator that chooses for itself, on a line of @p parts devices: the plain ones, and those with
/// the segments that may come in from weights that attention reads packed.
std::vector<std::vector<sharding::Signature>> candidateSignatures(const graph::Graph &graph, int parts,
                                                                  const std::vector<std::size_t> &standsFor,
                                                                  const std::vector<std::size_t> &tensorStandsFor);

} // namespace planloom::planners::oneflow
