// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/bucket_owners.h"
#include "engine/compile/stage_parts.h"
#include "engine/compile/vocabulary.h"
#include "engine/memory/measured_times.h"
#include "engine/memory/walk.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planloom::compile {

/// Program::pooledCalls and Program::pooledPlaces.
struct PooledCalls {
    std::vector<program::PooledCall> calls;
    std::vector<std::int64_t> places;
};

/// The course of a stage instance's memory policy over its rank's passes (engine/memory), and how it becomes tasks:
/// runs of operators between copies.
struct StageMemory {
    /// Where an argument of an operator lies: in a storage of the operator's list, or in what it needs beside them.
    struct Argument {
        std::int32_t storage = -1; ///< place in the list of its inputs and outputs; -1: where the tensor lies anyway
        std::int32_t root = -1;    ///< of StageMemory::roots
        std::int64_t offset = 0;   ///< behind the storage's beginning
        std::int64_t scratch = -1; ///< where it lies in the operator's scratch when that runs again; -1: not there
    };

    memory::Course course;
    std::vector<std::int32_t> firstEvent;                 ///< per operator of the stream, and one more: its first event
    std::vector<std::int32_t> forward, backward, weights; ///< per micro-batch: the stream's operator that its pass
                                                          ///< begins with; weights: where that is a pass of its own
    std::vector<double> seconds;                          ///< per operator of the stream
    bool measured = false;                                ///< in a run; else predicted by the cost model
    std::vector<bool> cutBefore, cutAfter;                ///< per event: a run begins with it, or ends with it
    std::vector<std::int32_t> operators;                  ///< per operator of the stream: that of the body
    /// What storages are of: `activations` roots, then parameters on the host. Storage 0 is what stays, then come the
    /// activations of each micro-batch, then parameters, which are of all micro-batches.
    std::vector<TensorId> roots;
    std::int32_t activations = 0;
    std::vector<std::string> parameters;       ///< names, from root `activations` on
    std::vector<std::int64_t> bytes;           ///< per root
    std::vector<std::int32_t> madeBy, lastUse; ///< per root: operators of the body; parameters have none
    std::vector<std::int32_t> lastReader;      ///< per parameter: the last operator of the stream that reads it
    std::vector<Argument> arguments;           ///< of the body's operators, inputs and then outputs
    std::vector<std::int32_t> firstArgument;   ///< per operator of the body, and one more
    std::vector<std::int64_t> inference;       ///< per activation: its place where nothing is kept for a backward pass
    /// Parameters there: each has its place for one operator, ascending.
    struct InferenceParameter {
        std::int32_t op = 0;
        std::int32_t root = 0;
        std::int64_t place = 0;
    };
    std::vector<InferenceParameter> inferenceParameters;
    std::int32_t forwardOps = 0;   ///< of the body
    std::int32_t weightsBegin = 0; ///< its first operator of the pass for gradients of weights
    std::int64_t poolBytes = 0;
    memory::CopyTimes copies;
    double copyLoad = 0; ///< memory::Limits::copyLoad

    /// The storage of the first parameter on the host; there may be none.
    [[nodiscard]] std::int32_t firstParameter() const
    {
        return 1 + activations * static_cast<std::int32_t>(forward.size());
    }
    [[nodiscard]] bool isParameter(std::int32_t storage) const { return storage >= firstParameter(); }
    [[nodiscard]] std::int32_t rootOf(std::int32_t storage) const
    {
        return isParameter(storage) ? activations + storage - firstParameter() : (storage - 1) % activations;
    }
    /// -1: of all.
    [[nodiscard]] std::int32_t microBatchOf(std::int32_t storage) const
    {
        return isParameter(storage) ? -1 : (storage - 1) / activations;
    }
    [[nodiscard]] std::int32_t storageOf(std::int32_t root, std::int32_t microBatch) const
    {
        return root >= activations ? firstParameter() + root - activations : 1 + microBatch * activations + root;
    }
    /// What to add to an operator of the body, of @p pass, for the stream's operator for micro-batch @p m.
    [[nodiscard]] std::int32_t offsetOf(Pass pass, std::int32_t m) const
    {
        const auto at = static_cast<std::size_t>(m);
        return pass == Pass::Forward ? forward[at]
            : pass == Pass::Backward ? backward[at] - forwardOps
                                     : weights[at] - weightsBegin;
    }
    /// The event in which operator @p op of the body first runs for micro-batch @p m.
    [[nodiscard]] std::int32_t runOf(std::int32_t op, std::int32_t m) const;
    /// The same of operator @p index of the stream.
    [[nodiscard]] std::int32_t runAt(std::int32_t index) const;
    /// The first copy of parameter storage @p storage to the device.
    [[nodiscard]] std::int32_t firstCopyOf(std::int32_t storage) const;
    [[nodiscard]] Seconds copySeconds(bool out, std::int64_t size) const { return Seconds(copies.seconds(out, size)); }
    /// Appends the operator of @p event, with the places that it has then.
    void appendCall(const memory::Event &event, PooledCalls &pooled) const;
    /// Appends the forward operators without training; returns the first.
    std::int32_t appendInference(PooledCalls &pooled) const;
};

/// What the memory policies of stages make of their instances.
struct MemoryPlans {
    std::vector<std::optional<StageMemory>> ofInstance; ///< empty: no stage has a policy

    /// Null where the stage has none.
    [[nodiscard]] const StageMemory *of(std::size_t instance) const
    {
        return instance < ofInstance.size() && ofInstance[instance] ? &*ofInstance[instance] : nullptr;
    }
};

/// What the memory plans are made of.
struct MemoryInput {
    const Source &source;
    const Samples &samples;
    const std::vector<StageModel> &stages;
    const Ranks &ranks;
    const Instances &instances;
    const FoldedTeams &teams;
    const Buckets &buckets;
    const BucketOwners &owners;
    const std::vector<StageParts> &parts;
    const memory::RunTimes *times = nullptr; ///< Options::times
};
/// Walks the passes of every instance of a stage with a policy, in the order of its rank. Errors: those of
/// memory::walk, naming the stage; Unsupported, if a stage cannot be differentiated.
Result<MemoryPlans> planMemory(const MemoryInput &in);

} // namespace planloom::compile
