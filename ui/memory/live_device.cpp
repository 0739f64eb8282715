// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/live_device.h"

#include "engine/compile/compile.h"

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr std::size_t kMostNamedDevices = 64; // bodies, which have the names of tensors, are one for each

/// "grad/h/0/x#1" is of "h/0/x".
std::string originalName(std::string name)
{
    constexpr std::string_view kGradient = "grad/";
    while (name.starts_with(kGradient))
        name.erase(0, kGradient.size());
    return name.substr(0, name.find('#'));
}

} // namespace

BlockOutlines::BlockOutlines(const std::vector<simulate::LiveBlock> &blocks)
{
    m_outlines.reserve(blocks.size());
    m_kinds.reserve(blocks.size());
    for (const simulate::LiveBlock &block : blocks) {
        m_outlines.push_back({block.begin, block.end, block.offset, block.bytes});
        m_kinds.push_back(block.kind);
    }
}

const std::string &LiveDevice::taskOf(TaskId task) const
{
    static const std::string none;
    const auto found = tasks.find(task);
    return found == tasks.end() ? none : found->second;
}

Result<LiveDevice> liveDevice(const plan::Document &document, std::size_t rank)
{
    LiveDevice live;
    live.rank = rank;
    live.named = plan::devicesOf(document.plan).size() <= kMostNamedDevices;
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = live.named});
    if (!program)
        return program.error();
    if (rank >= program->ranks.size())
        return badInput("the plan has no device number " + std::to_string(rank));
    auto memory = simulate::liveMemory(*program, RankId(static_cast<std::int64_t>(rank)));
    if (!memory)
        return memory.error();
    live.memory = *std::move(memory);
    live.outlines = BlockOutlines(live.memory.blocks);
    live.device = document.subject.cluster->device(program->ranks[rank].device).name;
    for (const simulate::LiveBlock &block : live.memory.blocks)
        for (const TaskId task : {block.made, block.last})
            if (task.valid() && !live.tasks.contains(task))
                live.tasks.emplace(task, program::idOf(program->task(task)));
    return live;
}

LayerRange layersOfTensor(const plan::Subject &subject, const std::string &name)
{
    const graph::Graph &graph = *subject.graph;
    const std::string original = originalName(name);
    const auto tensors = graph.tensors();
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const graph::Tensor &tensor) { return tensor.name == original; });
    if (found == tensors.end())
        return {};
    const auto readers = graph.consumers(found->id);
    const OpId op = found->producer.valid() ? found->producer : readers.empty() ? OpId() : readers.front();
    if (!op.valid())
        return {};
    const std::size_t layer = subject.layers().layerOf(op);
    return {layer, layer + 1};
}

} // namespace planloom::ui
