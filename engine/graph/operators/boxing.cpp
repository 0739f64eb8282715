// SPDX-License-Identifier: Apache-2.0
// Operators that sharding puts in: they change how a tensor lies on a device mesh, or stand for a part of an operator
// that is split over it. Those that communicate have no kernel: the runtime carries them out.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

Result<std::int64_t> partsOf(const Op &op)
{
    constexpr std::int64_t kMost = 1 << 20;
    const std::int64_t parts = op.integer("parts");
    if (parts < 1 || parts > kMost)
        return badInput("attribute 'parts' is " + std::to_string(parts)
                        + "; the number of devices in a line of the mesh is expected");
    return parts;
}

Result<Infos> inferAllGather(const OpView &view)
{
    const Result<std::int64_t> parts = partsOf(view.op);
    if (!parts)
        return parts.error();
    std::vector<Dim> dims{{*parts, false}};
    dims.insert(dims.end(), view.inputs[0]->shape.dims().begin(), view.inputs[0]->shape.dims().end());
    return typedLikeFirst(view, std::move(dims));
}

/// The first dimension holds a block for each device.
Status checkBlocks(const OpView &view)
{
    const Result<std::int64_t> parts = partsOf(view.op);
    if (!parts)
        return parts.error();
    const Shape &x = view.inputs[0]->shape;
    if (x.rank() == 0 || x[0] != Dim{*parts, false})
        return badInput("a first dimension of " + std::to_string(*parts) + " blocks is expected, not " + x.text());
    return {};
}

Result<Infos> inferReduceScatter(const OpView &view)
{
    if (const Status blocks = checkBlocks(view); !blocks)
        return blocks.error();
    const auto &dims = view.inputs[0]->shape.dims();
    return typedLikeFirst(view, {dims.begin() + 1, dims.end()});
}

Result<Infos> inferAllToAll(const OpView &view)
{
    if (const Status blocks = checkBlocks(view); !blocks)
        return blocks.error();
    return likeFirst(view);
}

/// `axis` of a tensor of @p rank, whose size is @p size per sample, holds whole segments that divide by @p parts.
Status checkSegments(const Op &op, std::int64_t size, std::int64_t parts)
{
    const std::vector<std::int64_t> segments = op.integers("segments");
    std::int64_t sum = 0;
    for (const std::int64_t segment : segments) {
        if (segment < 1 || segment % parts != 0)
            return badInput("a segment of " + std::to_string(segment) + " does not divide into " + std::to_string(parts)
                            + " parts");
        if (__builtin_add_overflow(sum, segment, &sum))
            return badInput("attribute 'segments' is out of range");
    }
    if (sum != size)
        return badInput("attribute 'segments' adds up to " + std::to_string(sum) + ", not to the "
                        + std::to_string(size) + " of the axis");
    return {};
}

/// The input's dimensions with one of them divided by `parts`. Error: it does not divide.
Result<std::vector<Dim>> divided(const OpView &view)
{
    const Result<std::int64_t> parts = partsOf(view.op);
    const auto axis = axisOf(view.op.integer("axis"), view.inputs[0]->shape.rank());
    if (!parts || !axis)
        return parts ? axis.error() : parts.error();
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    if (const Status fit = checkSegments(view.op, dims[*axis].size, *parts); !fit)
        return fit.error();
    dims[*axis].size /= *parts;
    return dims;
}

Result<Infos> inferShardSlice(const OpView &view)
{
    Result<std::vector<Dim>> dims = divided(view);
    if (!dims)
        return dims.error();
    return typedLikeFirst(view, std::move(*dims));
}

Result<Infos> inferShardPad(const OpView &view)
{
    const Result<std::int64_t> parts = partsOf(view.op);
    const auto axis = axisOf(view.op.integer("axis"), view.inputs[0]->shape.rank());
    if (!parts || !axis)
        return parts ? axis.error() : parts.error();
    std::vector<Dim> dims = view.inputs[0]->shape.dims();
    dims[*axis].size *= *parts;
    if (const Status fit = checkSegments(view.op, dims[*axis].size, *parts); !fit)
        return fit.error();
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferPartition(const OpView &view)
{
    Result<std::vector<Dim>> dims = divided(view);
    if (!dims)
        return dims.error();
    dims->insert(dims->begin(), Dim{view.op.integer("parts"), false});
    return typedLikeFirst(view, std::move(*dims));
}

Result<Infos> inferAssemble(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    if (x.rank() < 2 || x[0].batch || x[0].size < 1)
        return badInput("parts stacked along the first dimension are expected, not " + x.text());
    const auto axis = axisOf(view.op.integer("axis"), x.rank() - 1);
    if (!axis)
        return axis.error();
    std::vector<Dim> dims(x.dims().begin() + 1, x.dims().end());
    dims[*axis].size *= x[0].size;
    if (const Status fit = checkSegments(view.op, dims[*axis].size, x[0].size); !fit)
        return fit.error();
    return typedLikeFirst(view, std::move(dims));
}

Result<Infos> inferShiftIndices(const OpView &view)
{
    if (view.inputs[0]->type != DType::I64)
        return badInput(std::string("indices must be int64, not ") + name(view.inputs[0]->type));
    if (view.op.integer("size") < 1)
        return badInput("attribute 'size' must be positive");
    return likeFirst(view);
}

constexpr Dim kStatistics{3, false};

Result<Infos> inferLossStatistics(const OpView &view)
{
    const Shape &logits = view.inputs[0]->shape;
    if (logits.rank() != 2 || view.inputs[1]->shape != Shape({logits[0]}))
        return badInput("logits [rows, classes] and a label for each row are expected");
    return Infos{{DType::F32, Shape({logits[0], kStatistics})}};
}

Result<Infos> inferCombine(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    if (x.rank() != 3 || x[2] != kStatistics)
        return badInput("statistics [parts, rows, 3] are expected, not " + x.text());
    return typedLikeFirst(view, {x[1], x[2]});
}

Result<Infos> inferLossFromStatistics(const OpView &view)
{
    const Shape &x = view.inputs[0]->shape;
    if (x.rank() != 2 || x[1] != kStatistics || view.inputs[1]->shape != Shape({x[0]}))
        return badInput("statistics [rows, 3] and a label for each row are expected");
    return Infos{{DType::F32, Shape()}, {DType::F32, Shape({x[0], {2, false}})}};
}

Operator collective(const char *type, Collective what, Result<Infos> (*infer)(const OpView &))
{
    return {.type = type,
            .infer = infer,
            .traits = {.cost = CostClass::Communication,
                       .origin = Origin::Rewrite,
                       .storage = what == Collective::AllReduce ? Storage::InPlace : Storage::Own,
                       .collective = what,
                       .precision = kAsInput}};
}

/// Moves a tensor's elements, or those of its part.
Operator moving(const char *type, Result<Infos> (*infer)(const OpView &))
{
    OpTraits traits = kRewritten;
    traits.precision = kAsInput;
    return {.type = type, .infer = infer, .traits = traits};
}

/// A part of an operator that is split over the mesh.
Operator partOf(const char *type, int inputs, Result<Infos> (*infer)(const OpView &), FlopsRule flops = noFlops)
{
    return {.type = type, .inputs = {inputs, inputs}, .infer = infer, .flops = std::move(flops), .traits = kRewritten};
}

} // namespace

std::vector<Operator> boxingOperators()
{
    constexpr OpTraits kTable{.cost = CostClass::MemoryBound, .origin = Origin::Rewrite, .precision = {"h-", "h"}};
    constexpr OpTraits kLayouts{.cost = CostClass::MemoryBound, .origin = Origin::Rewrite, .blocked = Blocked::Follows};
    return {
        collective("AllReduce", Collective::AllReduce, likeFirst),
        collective("AllGather", Collective::AllGather, inferAllGather),
        collective("ReduceScatter", Collective::ReduceScatter, inferReduceScatter),
        collective("AllToAll", Collective::AllToAll, inferAllToAll),
        collective("ServerRound", Collective::AllReduce, likeFirst),
        collective("NeighbourShift", Collective::AllToAll, likeFirst),
        moving("ShardSlice", inferShardSlice),
        moving("ShardPad", inferShardPad),
        moving("KeepOnFirst", likeFirst),
        moving("Partition", inferPartition),
        moving("Assemble", inferAssemble),
        partOf("ShiftIndices", 1, inferShiftIndices),
        {.type = "ShardGather", .inputs = {2, 2}, .infer = inferGather, .traits = kTable},
        partOf("LossStatistics", 2, inferLossStatistics, perInput(10)),
        partOf("CombineLossStatistics", 1, inferCombine, perInput(4)),
        partOf("LossFromStatistics", 2, inferLossFromStatistics, perInput(2)),
        partOf("LossRowShare", 3, likeFirst),
        {.type = "Reorder", .infer = likeFirst, .traits = kLayouts},
    };
}

} // namespace planloom::graph
