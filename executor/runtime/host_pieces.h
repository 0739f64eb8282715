// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/checkpoint/piece.h"
#include "executor/runtime/compute_context.h"

#include <memory>
#include <span>
#include <vector>

namespace planloom::runtime {

/// Pieces of a rank's tensors, with their data where the host finds them: in the arena itself or in the host tier's
/// memory, or in host memory that copies go to and come from. Thread contract: one thread, between steps.
class HostPieces {
public:
    /// What pieces that lie in a file are like.
    enum class OfFiles : std::uint8_t {
        InMemory, ///< download() and upload() copy them
        Read,     ///< Piece::read fetches them; not for upload()
    };
    /// The members of @p context must outlive it. Errors: those of Device::makeEvent.
    static Result<HostPieces> create(const ComputeContext &context, OfFiles ofFiles = OfFiles::InMemory);

    /// @p piece, whose data lie at @p offset of the arena, a place of @p held. Errors: those of Device::allocate.
    Status add(checkpoint::Piece piece, const program::PersistentTensor &held, std::int64_t offset);
    [[nodiscard]] std::span<const checkpoint::Piece> pieces() const { return m_pieces; }

    /// From the device or the host tier to the pieces, or back; waits for the device. Errors: those of drain() and
    /// HostTier::copyAnywhere.
    Status download();
    Status upload();

private:
    HostPieces(const ComputeContext &context, OfFiles ofFiles) : m_context(context), m_ofFiles(ofFiles) {}

    ComputeContext m_context;
    OfFiles m_ofFiles;
    std::vector<checkpoint::Piece> m_pieces;
    Status copyHosted(bool out);

    std::vector<Staging> m_staging;       ///< per piece on the device
    std::vector<std::byte *> m_addresses; ///< per piece, on the device; null: in the host tier
    /// A piece that a file has.
    struct Hosted {
        std::size_t piece = 0;
        std::int64_t host = 0;
        std::vector<std::byte> data;
    };
    std::vector<Hosted> m_hosted;
    std::unique_ptr<device::Event> m_event;
};

} // namespace planloom::runtime
