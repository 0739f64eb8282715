// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/export_weights.h"

#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"
#include "executor/checkpoint/restore.h"

#include <set>

namespace planloom::checkpoint {
namespace {

using graph::DType;

/// One tensor, put together from its pieces.
struct WholeTensor {
    Piece piece;
    std::vector<std::byte> bytes;
};

std::vector<WholeTensor> tensorsOf(const Manifest &manifest)
{
    std::vector<WholeTensor> tensors;
    std::set<std::string> seen;
    for (const StoredPiece &stored : manifest.pieces) {
        const Piece &part = stored.what;
        if ((part.kind != Kind::Parameter && part.kind != Kind::State) || !seen.insert(part.name).second)
            continue;
        WholeTensor tensor{{part.name, part.kind, part.type, part.shape, wholeRegion(part.shape), 0,
                            wholeElements(part.shape), nullptr, false},
                           {}};
        tensor.bytes.resize(static_cast<std::size_t>(tensor.piece.bytes()));
        tensor.piece.data = tensor.bytes.data();
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

void convertTo(DType type, WholeTensor &tensor)
{
    if (tensor.piece.type != DType::F32 || type == DType::F32)
        return;
    std::vector<std::byte> converted(static_cast<std::size_t>(tensor.piece.flatCount * graph::sizeOf(type)));
    weights::convert(tensor.bytes, DType::F32, type, converted.data());
    tensor.bytes = std::move(converted);
    tensor.piece.type = type;
}

} // namespace

Status exportWeights(const Manifest &manifest, const std::string &path, DType type)
{
    std::vector<WholeTensor> tensors = tensorsOf(manifest);
    std::vector<Piece> pieces;
    for (const WholeTensor &tensor : tensors)
        pieces.push_back(tensor.piece);
    if (const Status read = restore(manifest, pieces); !read)
        return read;
    std::vector<weights::TensorToWrite> out;
    for (WholeTensor &tensor : tensors) {
        convertTo(type, tensor);
        out.push_back({tensor.piece.name, tensor.piece.type, tensor.piece.shape, tensor.bytes});
    }
    return weights::writeSafetensors(path, out, {{"format", "pt"}});
}

} // namespace planloom::checkpoint
