// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/checkpoint/piece.h"
#include "executor/runtime/compute_context.h"

#include <memory>
#include <span>
#include <vector>

namespace planloom::runtime {

/// Pieces of a rank's tensors, with their data where the host finds them: in the arena itself, or in host memory that
/// copies go to and come from. Thread contract: one thread, between steps.
class HostPieces {
public:
    /// The members of @p context must outlive it. Errors: those of Device::makeEvent.
    static Result<HostPieces> create(const ComputeContext &context);

    /// @p piece, whose data lie at @p offset of the arena. Errors: those of Device::allocate.
    Status add(checkpoint::Piece piece, std::int64_t offset);
    [[nodiscard]] std::span<const checkpoint::Piece> pieces() const { return m_pieces; }

    /// From the device to the pieces, or back; waits for the device. Errors: those of drain().
    Status download();
    Status upload();

private:
    explicit HostPieces(const ComputeContext &context) : m_context(context) {}

    ComputeContext m_context;
    std::vector<checkpoint::Piece> m_pieces;
    std::vector<Staging> m_staging;       ///< per piece
    std::vector<std::byte *> m_addresses; ///< per piece, on the device
    std::unique_ptr<device::Event> m_event;
};

} // namespace planloom::runtime
