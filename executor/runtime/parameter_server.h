// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/runtime/rank_parts.h"
#include "executor/runtime/sampled_processes.h"
#include "executor/runtime/served_layout.h"
#include "executor/runtime/server_loop.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Runs a parameter server until its trainers end: it gets the first values, sums up the gradients of each step in the
/// order of an all-reduce, updates its part of the parameters, and hands it out. Errors: Failed (communication, a
/// deadline), Io, those of the device.
Status runParameterServer(const SampledContext &context, const program::Program &program);

/// A trainer's side of the parameter servers. Thread contract: one thread.
class ServedParameters {
public:
    /// @p program is borrowed.
    static std::unique_ptr<ServedParameters> create(const SampledContext &context, const program::Program &program);

    /// Before the first step, on every trainer; the first one's parameters and states become those of the servers.
    /// Waits for them. Errors: Unsupported (a device whose memory the host cannot address), Failed.
    Status begin(RankParts &parts);
    /// Sends the gradients of a bucket; what comes back are its parameters behind the step. Error: Failed.
    Status push(BucketId bucket, std::int64_t step);
    /// True once all of them are there; gradients begin the next step empty. Error: Failed.
    Result<bool> pulled(BucketId bucket);
    /// While there is nothing to compute.
    void rest() { m_context.link.rest(); }
    /// "no answer of parameter server p1": the servers that a step waits for; empty: none.
    [[nodiscard]] std::string underWay() const;
    /// The states of the update rule as the servers have them, on the first trainer, whose checkpoints have them.
    /// Waits.
    Status fetchStates();
    /// Once, behind the last step.
    Status close();

private:
    ServedParameters(const SampledContext &context, const program::Program &program);
    struct Server {
        int rank = 0;
        std::string name;
        std::int32_t pushRow = -1; ///< rows of the trace
        std::int32_t pullRow = -1;
        std::vector<ServerCall> calls; ///< by bucket
        std::int64_t noted = -1;       ///< step whose bytes were noted
    };
    [[nodiscard]] std::span<std::byte> bytesAt(std::int64_t offset, const ServedLayout::Piece &piece) const;
    [[nodiscard]] std::size_t position(const program::Bucket &bucket) const;
    template <class Call>
    Status eachArray(std::size_t first, const Call &call);

    SampledContext m_context;
    const program::Program &m_program;
    std::vector<Server> m_servers;
    ServedLayout m_layout;
    RankParts *m_parts = nullptr;
};

/// What trainers and servers of @p plan send each other in a step.
std::vector<SampledTransfer> servedTransfers(const plan::Plan &plan, const ServedLayout &layout, std::int64_t step);

} // namespace planloom::runtime
