// SPDX-License-Identifier: Apache-2.0
// Parts of tensors between devices, and blocks of tensors: copies.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>
#include <numeric>

namespace planloom::cuda {

namespace {

/// How an axis is dealt out to @c parts: rows, each of all segments, of each of which a part has its share.
struct Deal {
    std::int64_t rows = 1;
    std::int64_t position = 1; ///< elements of one position of the axis
    std::int64_t parts = 1;
    Dims segments;

    [[nodiscard]] std::int64_t row() const
    {
        return std::accumulate(segments.begin(), segments.end(), std::int64_t{0});
    }
};

std::optional<Deal> dealOf(const Request &request, const device::Argument &whole, std::int64_t parts)
{
    const auto rank = static_cast<std::int64_t>(whole.dims.size());
    const std::int64_t asked = request.op.integer("axis");
    const std::int64_t resolved = asked < 0 ? asked + rank : asked;
    if (!whole.present || resolved < 0 || resolved >= rank || parts < 1)
        return std::nullopt;
    const auto axis = static_cast<std::size_t>(resolved);
    Deal deal;
    deal.parts = parts;
    deal.segments = request.op.integers("segments");
    deal.position = productOf(whole.dims, axis + 1, whole.dims.size());
    const std::int64_t row = deal.row();
    if (row < 1 || whole.dims[axis] % row != 0
        || std::any_of(deal.segments.begin(), deal.segments.end(), [&](std::int64_t n) { return n % parts != 0; }))
        return std::nullopt;
    deal.rows = productOf(whole.dims, 0, axis) * (whole.dims[axis] / row);
    return deal;
}

/// Moves between the whole and part @p part, which begins at @p offset, a move a segment.
std::vector<StridedMove> movesOf(const Request &request, const Deal &deal, std::int64_t part, std::int64_t offset,
                                 bool toPart)
{
    std::vector<StridedMove> moves;
    const Dims whole{deal.row() * deal.position, 1};
    const Dims own{whole[0] / deal.parts, 1};
    std::int64_t before = 0;
    for (const std::int64_t segment : deal.segments) {
        const std::int64_t share = segment / deal.parts * deal.position;
        const Dims dims{deal.rows, share};
        const std::int64_t inWhole = before * deal.position + part * share;
        const std::int64_t inPart = offset + before / deal.parts * deal.position;
        StridedMove move;
        move.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
        move.n = productOf(dims);
        move.loops = toPart ? loopsOver<2>(dims, {whole, own}) : loopsOver<2>(dims, {own, whole});
        move.fromOffset = toPart ? inWhole : inPart;
        move.toOffset = toPart ? inPart : inWhole;
        moves.push_back(move);
        before += segment;
    }
    return moves;
}

Made makeMoves(std::vector<StridedMove> moves, std::int64_t clears = 0)
{
    return makeFunction([moves = std::move(moves), clears](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        queue.fill(out[0], 0, clears);
        for (StridedMove &move : moves) {
            move.from = in[0];
            move.to = out[0];
            queue.items(move, move.n);
        }
    });
}

std::int64_t outputBytes(const Request &request) { return request.outSize(0) * elementBytes(request.outputs[0]); }

template <bool toPart>
Made makeOwnPart(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const std::int64_t place = request.op.integer("mesh_index", -1);
    const auto deal =
        sameType(request) ? dealOf(request, toPart ? request.inputs[0] : request.outputs[0], parts) : std::nullopt;
    if (!deal || place < 0 || place >= parts
        || (toPart ? request.outSize(0) * parts != request.inSize(0) : request.inSize(0) * parts != request.outSize(0)))
        return onlyOnHost(request);
    return makeMoves(movesOf(request, *deal, place, 0, toPart), toPart ? 0 : outputBytes(request));
}

template <bool toParts>
Made makeAllParts(const Request &request)
{
    if (!sameType(request) || request.in(0).empty() || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    const auto deal = toParts ? dealOf(request, request.inputs[0], request.op.integer("parts"))
                              : dealOf(request, request.outputs[0], request.in(0)[0]);
    if (!deal)
        return onlyOnHost(request);
    const std::int64_t each = request.outSize(0) / deal->parts;
    std::vector<StridedMove> moves;
    for (std::int64_t part = 0; part < deal->parts; ++part)
        for (const StridedMove &move : movesOf(request, *deal, part, part * each, toParts))
            moves.push_back(move);
    return makeMoves(std::move(moves));
}

Made makeKeepOnFirst(const Request &request)
{
    const std::int64_t place = request.op.integer("mesh_index", -1);
    if (!sameType(request) || place < 0 || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    return makeFunction(
        [first = place == 0, bytes = outputBytes(request)](CudaQueue &queue, bool, Inputs in, Outputs out) {
            if (!first)
                queue.fill(out[0], 0, bytes);
            else if (in[0] != out[0])
                queue.copy(out[0], in[0], bytes);
        });
}

Made makeShiftIndices(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const std::int64_t place = request.op.integer("mesh_index", -1);
    if (request.inputs.size() != 1 || !isInteger(request.inputs[0]) || !isInteger(request.outputs[0]) || place < 0
        || place >= parts || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    ShiftIndices kernel;
    kernel.n = request.outSize(0);
    kernel.size = request.op.integer("size");
    kernel.all = kernel.size * parts;
    kernel.first = kernel.size * place;
    kernel.keep = request.op.integer("keep", kElsewhere);
    kernel.fromEnd = request.op.integer("from_end") != 0 ? 1 : 0;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x = static_cast<const std::int64_t *>(in[0]);
        kernel.y = static_cast<std::int64_t *>(out[0]);
        queue.items(kernel, kernel.n);
    });
}

/// A tensor within a block, in bytes.
struct Piece {
    std::int64_t offset = 0, bytes = 0;
};

std::optional<std::vector<Piece>> piecesOf(const Request &request, std::span<const device::Argument> tensors)
{
    const Dims offsets = request.op.integers("offsets");
    if (offsets.size() < tensors.size())
        return std::nullopt;
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < tensors.size(); ++i)
        pieces.push_back({offsets[i] * elementBytes(tensors[i]),
                          tensors[i].present ? productOf(tensors[i].dims) * elementBytes(tensors[i]) : 0});
    return pieces;
}

/// Copied unless memory's layout made it in place.
void copyPiece(CudaQueue &queue, void *to, const void *from, std::int64_t bytes)
{
    if (to != from && to != nullptr && from != nullptr)
        queue.copy(to, from, bytes);
}

Made makePack(const Request &request)
{
    const auto pieces = piecesOf(request, request.inputs);
    if (!pieces)
        return onlyOnHost(request);
    std::vector<Piece> gaps; // cleared, so that sums over the block stay finite
    std::int64_t end = 0;
    for (const Piece &piece : *pieces) {
        if (piece.offset < end)
            return onlyOnHost(request);
        gaps.push_back({end, piece.offset - end});
        end = piece.offset + piece.bytes;
    }
    gaps.push_back({end, outputBytes(request) - end});
    return makeFunction([pieces = *pieces, gaps](CudaQueue &queue, bool, Inputs in, Outputs out) {
        auto *block = static_cast<std::byte *>(out[0]);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            copyPiece(queue, block + pieces[i].offset, in[i], pieces[i].bytes);
        for (const Piece &gap : gaps)
            queue.fill(block + gap.offset, 0, gap.bytes);
    });
}

Made makeUnpack(const Request &request)
{
    const auto pieces = request.hasInput(0) ? piecesOf(request, request.outputs) : std::nullopt;
    if (!pieces)
        return onlyOnHost(request);
    return makeFunction([pieces = *pieces](CudaQueue &queue, bool, Inputs in, Outputs out) {
        const auto *block = static_cast<const std::byte *>(in[0]);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            copyPiece(queue, out[i], block + pieces[i].offset, pieces[i].bytes);
    });
}

constexpr OperatorEntry kShards[] = {
    {"Assemble", makeAllParts<false>},  {"KeepOnFirst", makeKeepOnFirst}, {"Pack", makePack},
    {"Partition", makeAllParts<true>},  {"ShardPad", makeOwnPart<false>}, {"ShardSlice", makeOwnPart<true>},
    {"ShiftIndices", makeShiftIndices}, {"Unpack", makeUnpack},
};

} // namespace

std::span<const OperatorEntry> shardOperators() { return kShards; }

} // namespace planloom::cuda
