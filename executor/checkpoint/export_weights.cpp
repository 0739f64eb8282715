// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/export_weights.h"

#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"
#include "executor/checkpoint/restore.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <sstream>

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
        const bool exported = part.kind == Kind::Parameter || part.kind == Kind::State || part.kind == Kind::Replicas;
        if (!exported || !seen.insert(part.name).second)
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

/// Per replica, the part that it has in the mean; empty: the checkpoint has one set of parameters.
std::vector<double> sharesOf(const Manifest &manifest)
{
    const auto note = manifest.state.notes.find(kReplicasNote);
    std::vector<double> shares;
    if (note == manifest.state.notes.end())
        return shares;
    std::istringstream text(note->second);
    double sum = 0;
    for (std::string each; std::getline(text, each, ',');) {
        shares.push_back(std::strtod(each.c_str(), nullptr));
        sum += shares.back();
    }
    for (double &share : shares)
        share /= sum;
    return shares;
}

/// A parameter of which each replica has its own becomes their mean. Error: BadInput, if the shares are of other
/// replicas.
Status average(WholeTensor &tensor, const std::vector<double> &shares)
{
    if (tensor.piece.kind != Kind::Replicas)
        return {};
    const bool fits = tensor.piece.type == DType::F32 && !shares.empty()
        && tensor.piece.shape.front() == static_cast<std::int64_t>(shares.size());
    if (!fits)
        return badInput(fmt::format("the checkpoint has {} replicas of {} and shares of {}", tensor.piece.shape.front(),
                                    tensor.piece.name, shares.size()));
    const auto *all = reinterpret_cast<const float *>(tensor.bytes.data());
    const std::int64_t count = tensor.piece.flatCount / tensor.piece.shape.front();
    std::vector<std::byte> mean(static_cast<std::size_t>(count) * sizeof(float));
    for (std::int64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (std::size_t replica = 0; replica < shares.size(); ++replica)
            sum += shares[replica] * static_cast<double>(all[static_cast<std::int64_t>(replica) * count + i]);
        reinterpret_cast<float *>(mean.data())[i] = static_cast<float>(sum);
    }
    tensor.bytes = std::move(mean);
    tensor.piece.shape.erase(tensor.piece.shape.begin());
    tensor.piece.flatCount = count;
    return {};
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
    const std::vector<double> shares = sharesOf(manifest);
    for (WholeTensor &tensor : tensors) {
        if (const Status averaged = average(tensor, shares); !averaged)
            return averaged;
        convertTo(type, tensor);
        out.push_back({tensor.piece.name, tensor.piece.type, tensor.piece.shape, tensor.bytes});
    }
    return weights::writeSafetensors(path, out, {{"format", "pt"}});
}

} // namespace planloom::checkpoint
