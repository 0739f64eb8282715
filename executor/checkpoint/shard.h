// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/manifest.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace planloom::checkpoint {

/// The folder in which checkpoints of a run lie.
std::string checkpointsFolder(const std::string &runDir);
/// "step-00000120"; where it is not finished, ".step-00000120.epoch-7".
std::string finishedName(std::int64_t step);
std::string unfinishedName(std::int64_t step, std::int64_t lease);
/// Names of rank @p rank's files in the unfinished folder: its tensors, and their description.
std::string shardName(int rank);
std::string partName(int rank);

/// The saved data of one rank: a second copy of its pieces in memory, made once, and the file written from it. Pieces
/// that no memory has (Piece::read) have no copy: they are written first, a few megabytes at a time.
/// Thread contract: copy(), stream() and write() may be on different threads, one after the other.
class Shard {
public:
    /// Allocates the copy of those of @p pieces that this rank writes. Errors: those of check(), Failed (memory).
    static Result<std::unique_ptr<Shard>> create(std::vector<Piece> pieces, int rank);
    Shard(const Shard &) = delete;
    Shard &operator=(const Shard &) = delete;
    ~Shard();

    /// Bytes that are copied and written, without the header.
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }
    /// Copies the pieces, with all OpenMP threads of the caller: all that training has to wait for.
    void copy();
    /// Begins the file in @p folder with the pieces that no memory has; nothing without any. Training waits for this,
    /// too. Errors: Io, those of Piece::read.
    Status stream(const std::string &folder);
    /// Writes the copy into @p folder and makes it last, then its description, which rank 0 reads. Errors: Io;
    /// Cancelled on @p stop.
    Status write(const std::string &folder, Manifest head, const std::stop_token &stop);

private:
    /// A memcpy of at most a megabyte.
    struct Copy {
        const std::byte *from;
        std::byte *to;
        std::size_t bytes;
    };

    Shard() = default;
    void planCopy();
    Status writeData(int fd, const std::stop_token &stop, StoredFile &stored) const;
    Status writeShard(const std::string &folder, const std::stop_token &stop, StoredFile &stored);
    Status beginFile(const std::string &folder);
    Status streamPieces();

    class NewFile;
    /// The file that is being written, and the checksum of what it has.
    struct Begun {
        std::unique_ptr<NewFile> file;
        std::uint32_t checksum = 0;
    };

    int m_rank = 0;
    std::vector<StoredPiece> m_pieces; ///< with data
    std::string m_header;
    std::vector<Copy> m_copies;
    std::byte *m_copy = nullptr;
    std::int64_t m_bytes = 0;
    std::int64_t m_streamed = 0; ///< of these, without a copy: they come first
    Begun m_begun;
};

} // namespace planloom::checkpoint
