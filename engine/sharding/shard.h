// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "engine/sharding/mesh.h"

#include <map>
#include <string>
#include <vector>

namespace planloom::sharding {

/// Layout of a part of a model on a mesh.
struct Request {
    Mesh mesh;
    std::map<std::string, NdSbp> pins; ///< by tensor name or pattern with `*`; the longest pattern that matches counts.
                                       ///< Gradients follow their tensors
    std::vector<NdSbp> inputs;  ///< how each entry of TrainingGraph::inputs arrives (and its gradient leaves); never P
    std::vector<NdSbp> outputs; ///< layout of each entry of TrainingGraph::outputs (and its gradient arrives);
                                ///< never P; empty entry: as it falls
};

/// One rank's part of a parameter.
struct ParameterShare {
    NdSbp sbp;                   ///< B or S per dimension
    graph::Shape logical;        ///< the whole parameter
    std::vector<int> reduceOver; ///< mesh dimensions along which the local gradients are partial sums of the whole one
};

/// The graph of each device of the mesh. Local shapes are the same on all of them; kernels are told the place in the
/// mesh: an operator with the attribute "mesh_dim" gets "mesh_index", this device's coordinate there, when its kernel
/// is made. Boxing appears as operators (OneFlow §3.2 of Yuan et al., 2021), those that communicate over the devices of
/// one line of "mesh_dim":
///   AllReduce{mesh_dim, parts}(X) -> sum over the line
///   AllGather{mesh_dim, parts}(X [d...]) -> [parts, d...]          ReduceScatter{mesh_dim, parts}(X [parts, d...]) ->
///   [d...] AllToAll{mesh_dim, parts}(X [parts, d...]) -> [parts, d...]: block i goes to member i
/// and those that rearrange locally:
///   ShardSlice{mesh_dim, parts, axis, segments}(X) -> own part     KeepOnFirst{mesh_dim}(X) -> X on coordinate 0,
///   zeros elsewhere Partition{parts, axis, segments}(X) -> [parts, local...]       Assemble{axis, segments}(X [parts,
///   local...]) -> X
/// `segments` are the sizes of the axis's segments (see Sbp); a plain split has one, the whole axis.
struct Sharded {
    graph::TrainingGraph local;
    std::vector<ParameterShare> parameters; ///< per entry of local.parameters
    std::vector<NdSbp> outputs;             ///< how each entry of TrainingGraph::outputs leaves
    std::map<std::string, NdSbp> chosen;    ///< by logical tensor name, as its producer makes it
};

/// Chooses a signature per operator (greedily in topological order: pins first, then the least boxing bytes; OneFlow's
/// inference rule) and rewrites @p logical into the graph of one device. Dimension 0 of the mesh needs no boxing:
/// whatever carries the batch is S(batch axis) there and keeps its shape, as the number of samples counts the device's
/// own. Errors: BadInput naming tensor and axis (a size that does not divide, a pin that no signature of the operator
/// allows, an axis outside the tensor), Unsupported. Cost: O(operators * signatures).
Result<Sharded> shard(const graph::TrainingGraph &logical, const Request &request);

} // namespace planloom::sharding
