// SPDX-License-Identifier: Apache-2.0
// Tensors put into one block and taken out of it. Where the memory layout made them in place there is nothing to copy.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"

#include <cstring>

namespace planloom::device {

namespace {

void copyBytes(const std::byte *from, std::byte *to, std::int64_t bytes)
{
    if (from == to)
        return;
    parallelFor(bytes, 8 * kGrain, [=](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
}

/// A piece of the block.
struct Piece {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
};

std::vector<Piece> piecesOf(const Request &request, const std::vector<Argument> &tensors)
{
    const Dims offsets = request.op.integers("offsets");
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < tensors.size() && i < offsets.size(); ++i) {
        const std::int64_t size = graph::sizeOf(tensors[i].type);
        pieces.push_back({offsets[i] * size, tensors[i].present ? tensors[i].elements() * size : 0});
    }
    return pieces;
}

/// Gaps between the pieces are cleared, so that sums over it stay finite and the same everywhere.
Made makePack(const Request &request)
{
    const std::vector<Piece> pieces = piecesOf(request, request.inputs);
    std::vector<Piece> gaps;
    std::int64_t end = 0;
    for (const Piece &piece : pieces) {
        if (piece.offset < end)
            return wrong(request, "offsets must ascend");
        gaps.push_back({end, piece.offset - end});
        end = piece.offset + piece.bytes;
    }
    gaps.push_back({end, request.outputs[0].elements() * static_cast<std::int64_t>(sizeof(float)) - end});
    return makeFunction([pieces, gaps](Inputs in, Outputs out) {
        auto *block = static_cast<std::byte *>(out[0]);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (in[i] != nullptr)
                copyBytes(static_cast<const std::byte *>(in[i]), block + pieces[i].offset, pieces[i].bytes);
        for (const Piece &gap : gaps)
            std::memset(block + gap.offset, 0, static_cast<std::size_t>(gap.bytes));
    });
}

Made makeUnpack(const Request &request)
{
    const std::vector<Piece> pieces = piecesOf(request, request.outputs);
    return makeFunction([pieces](Inputs in, Outputs out) {
        const auto *block = static_cast<const std::byte *>(in[0]);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            copyBytes(block + pieces[i].offset, static_cast<std::byte *>(out[i]), pieces[i].bytes);
    });
}

constexpr KernelEntry kEntries[] = {
    {"Pack", "f?+", "f", makePack},
    {"Unpack", "*", "*+", makeUnpack},
};

} // namespace

std::span<const KernelEntry> flatKernels() { return kEntries; }

} // namespace planloom::device
