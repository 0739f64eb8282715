// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/table_rows.h"
#include "engine/compile/vocabulary.h"
#include "engine/sharding/shard.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace planloom::compile {

/// A parameter as the devices of a stage hold it.
struct LocalParameter {
    TensorId id; ///< in the graph that lists it
    std::string name;
    graph::DType type = graph::DType::F32; ///< that operators read it in
    std::vector<std::int64_t> sizes;       ///< of the whole parameter
    sharding::NdSbp sbp;                   ///< per dimension of the mesh
    std::vector<int> reduceOver;           ///< mesh dimensions whose gradients add up
    std::int64_t elements = 0;             ///< of one device's part
    bool trains = true;
    std::size_t layer = 0; ///< of the first operator that reads it
    std::int32_t ready =
        -1; ///< operator behind which a micro-batch's gradient is there; kMadeTogether: one that communicates makes it
    static constexpr std::int32_t kMadeTogether = 1 << 30;
    std::shared_ptr<const RowTable> table = {}; ///< of one that is exchanged by rows; `elements` are the window's then
};

/// A constant or an untrained state; every device has all of it, or the rows of its samples.
struct LocalTensor {
    TensorId id;
    std::string name;
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> sizes;
    std::int64_t bytes = 0;
    bool constant = false;
    bool ofSamples = false;  ///< a row for each sample of the device; `sizes` and `bytes` are of one
    bool ofTraining = false; ///< no tensor of the model
};

/// The tensors that the ranks of a stage hold.
struct StageTensors {
    std::vector<LocalParameter> parameters;
    std::vector<LocalTensor> others;
    sharding::Mesh mesh;
    int zero = 0;
    std::vector<plan::SampleRange> samples =
        {}; ///< of the devices within the global batch, where tensors are of samples
    /// Of a tensor of samples on the device at a coordinate of mesh dimension 1, in all the run: null where it is the
    /// tensor's own, empty where another device has it.
    std::function<std::string(const std::string &, int)> stateName = {};
};

} // namespace planloom::compile
