// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/stage_edits.h"

#include "engine/plan/validate.h"
#include "engine/sharding/megatron.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

namespace planloom::plan {
namespace {

/// Devices that no stage uses; those of the nodes where @p stage is come first.
std::vector<DeviceId> idleDevices(const Document &document, std::size_t stage)
{
    std::set<DeviceId> busy;
    for (const Stage &each : document.plan.stages)
        busy.insert(each.devices.begin(), each.devices.end());
    std::set<NodeId> home;
    for (const DeviceId device : document.plan.stages[stage].devices)
        home.insert(document.subject.cluster->device(device).node);
    std::vector<DeviceId> idle;
    for (const cluster::Device &device : document.subject.cluster->devices()) {
        if (!busy.contains(device.id))
            idle.push_back(device.id);
    }
    std::stable_partition(idle.begin(), idle.end(), [&](DeviceId device) {
        return home.contains(document.subject.cluster->device(device).node);
    });
    return idle;
}

/// True if another stage lies on the devices of @p stage.
bool sharesDevices(const Plan &plan, std::size_t stage)
{
    const auto same = [&](const Stage &other) { return other.devices == plan.stages[stage].devices; };
    return std::count_if(plan.stages.begin(), plan.stages.end(), same) > 1;
}

/// An unused stage name: stages are called stage0, stage1, ... by default.
std::string freshName(const Plan &plan)
{
    for (std::size_t number = plan.stages.size();; ++number) {
        std::string name = "stage" + std::to_string(number);
        const auto same = [&name](const Stage &stage) { return stage.name == name; };
        if (std::none_of(plan.stages.begin(), plan.stages.end(), same))
            return name;
    }
}

/// "stage0", "stage1", ... in a row, as planners call them.
bool hasPlainNames(const Plan &plan)
{
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        if (plan.stages[s].name != "stage" + std::to_string(s))
            return false;
    }
    return true;
}

/// A cap of all micro-batches binds nothing: it stands for "none" beside stages that have one.
int unboundCap(const Plan &plan)
{
    return static_cast<int>(std::clamp<std::int64_t>(plan.microBatches, 1, std::numeric_limits<int>::max()));
}

void giveDevices(Stage &stage, std::vector<DeviceId> devices)
{
    stage.devices = std::move(devices);
    // Shares, mesh and shardings were said of the devices that it had.
    stage.replicaShares.clear();
    stage.mesh.clear();
    stage.shardings.clear();
}

void setPlainNames(Plan &plan)
{
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        plan.stages[s].name = "stage" + std::to_string(s);
}

} // namespace

void moveBoundary(Plan &plan, std::size_t boundary, std::size_t layer)
{
    plan.stages[boundary].lastLayer = layer;
    plan.stages[boundary + 1].firstLayer = layer;
}

Result<Plan> splitStage(const Document &document, std::size_t stage, std::size_t layer)
{
    Plan plan = document.plan;
    const Stage whole = plan.stages[stage];
    if (whole.lastLayer - whole.firstLayer < 2)
        return badInput(stageLabel(plan, stage) + " has a single layer and cannot be split");
    if (layer <= whole.firstLayer || layer >= whole.lastLayer)
        return badInput(stageLabel(plan, stage) + " can be split before layers " + std::to_string(whole.firstLayer + 1)
                        + " to " + std::to_string(whole.lastLayer - 1) + ", not before " + std::to_string(layer));
    const bool shared = sharesDevices(plan, stage); // then both parts stay with the others
    std::vector<DeviceId> devices = whole.devices;
    if (devices.size() < 2 && !shared) {
        const std::vector<DeviceId> idle = idleDevices(document, stage);
        if (idle.empty())
            return badInput(stageLabel(plan, stage)
                            + " has one device and the cluster has no idle one; free a device of another stage before "
                              "splitting it");
        devices.push_back(idle.front());
    }
    const bool plain = hasPlainNames(plan);
    const auto half = devices.begin() + static_cast<std::ptrdiff_t>((devices.size() + 1) / 2);
    Stage second = whole;
    second.name = freshName(plan);
    second.firstLayer = layer;
    plan.stages[stage].lastLayer = layer;
    plan.stages.insert(plan.stages.begin() + static_cast<std::ptrdiff_t>(stage) + 1, std::move(second));
    if (!shared) {
        giveDevices(plan.stages[stage], {devices.begin(), half});
        giveDevices(plan.stages[stage + 1], {half, devices.end()});
    }
    if (std::vector<int> &caps = plan.schedule.warmup; stage < caps.size())
        caps.insert(caps.begin() + static_cast<std::ptrdiff_t>(stage), caps[stage]);
    if (plain)
        setPlainNames(plan);
    return plan;
}

Result<Plan> mergeWithNext(const Plan &before, std::size_t stage)
{
    if (stage + 1 >= before.stages.size())
        return badInput(stageLabel(before, stage) + " is the last stage; there is no next one to merge with");
    Plan plan = before;
    const bool plain = hasPlainNames(plan);
    const Stage next = plan.stages[stage + 1];
    std::vector<DeviceId> devices = plan.stages[stage].devices;
    const bool shared =
        sharesDevices(plan, stage) || sharesDevices(plan, stage + 1); // then the merged one stays where the first was
    if (!shared)
        devices.insert(devices.end(), next.devices.begin(), next.devices.end());
    plan.stages[stage].lastLayer = next.lastLayer;
    plan.stages[stage].recompute = std::max(plan.stages[stage].recompute, next.recompute);
    plan.stages.erase(plan.stages.begin() + static_cast<std::ptrdiff_t>(stage) + 1);
    if (!shared)
        giveDevices(plan.stages[stage], std::move(devices));
    if (std::vector<int> &caps = plan.schedule.warmup; stage + 1 < caps.size())
        caps.erase(caps.begin() + static_cast<std::ptrdiff_t>(stage) + 1);
    if (plain)
        setPlainNames(plan);
    return plan;
}

void setLayers(Plan &plan, std::size_t stage, std::size_t first, std::size_t last)
{
    plan.stages[stage].firstLayer = first;
    plan.stages[stage].lastLayer = last;
    if (stage > 0)
        plan.stages[stage - 1].lastLayer = first;
    if (stage + 1 < plan.stages.size())
        plan.stages[stage + 1].firstLayer = last;
}

void setDevices(Plan &plan, std::size_t stage, std::vector<DeviceId> devices)
{
    const std::vector<DeviceId> before = plan.stages[stage].devices;
    for (Stage &each : plan.stages)
        if (each.devices == before)
            giveDevices(each, devices);
}

Result<std::vector<DeviceId>> withReplicas(const Document &document, std::size_t stage, std::size_t count)
{
    std::vector<DeviceId> devices = document.plan.stages[stage].devices;
    if (count < 1)
        return badInput(stageLabel(document.plan, stage) + " needs at least one replica");
    if (count <= devices.size()) {
        devices.resize(count);
        return devices;
    }
    const std::vector<DeviceId> idle = idleDevices(document, stage);
    const std::size_t missing = count - devices.size();
    if (idle.size() < missing)
        return badInput(stageLabel(document.plan, stage) + ": " + std::to_string(count) + " replicas need "
                        + std::to_string(missing) + " more devices, but the cluster has " + std::to_string(idle.size())
                        + " idle; take some from another stage first");
    devices.insert(devices.end(), idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(missing));
    return devices;
}

Result<Plan> withTensorParts(const Document &document, std::size_t stage, std::size_t parts)
{
    Plan plan = document.plan;
    Stage &which = plan.stages[stage];
    if (parts < 1 || which.devices.size() % parts != 0)
        return badInput(stageLabel(plan, stage) + " has " + std::to_string(which.devices.size())
                        + " devices, which cannot be replicas of " + std::to_string(parts)
                        + " each; enter a divisor of that number, or change the stage's devices");
    giveDevices(which, std::vector<DeviceId>(which.devices));
    if (parts == 1)
        return plan;
    sharding::Mesh mesh;
    mesh.sizes = {static_cast<int>(which.devices.size() / parts), static_cast<int>(parts)};
    which.mesh = mesh.sizes;
    for (const auto &[tensor, sbp] : sharding::megatronPins(*document.subject.graph, mesh, {}))
        which.shardings[tensor] = sharding::toText(sbp);
    if (which.shardings.empty())
        return badInput("model " + document.subject.graph->name()
                        + " has no blocks of a transformer that tensor parts are known for; leave 1, or write the "
                          "sharding of its tensors in the plan file");
    return plan;
}

Result<std::map<std::string, std::string>> shardingsFromText(const std::string &text)
{
    const auto trimmed = [](std::string_view part) {
        const auto begin = part.find_first_not_of(" \t\n");
        const auto end = part.find_last_not_of(" \t\n");
        return begin == std::string_view::npos ? std::string() : std::string(part.substr(begin, end - begin + 1));
    };
    std::map<std::string, std::string> shardings;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(';', at), text.size());
        const std::string part = trimmed(std::string_view(text).substr(at, end - at));
        at = end + 1;
        if (part.empty())
            continue;
        const std::size_t equals = part.find('=');
        const std::string tensor = trimmed(part.substr(0, equals));
        if (equals == std::string::npos || tensor.empty())
            return badInput("\"" + part + "\" is no sharding; write TENSOR = SBP, such as h/*/mlp/up.weight = B,S(1)");
        if (!shardings.emplace(tensor, trimmed(part.substr(equals + 1))).second)
            return badInput("the sharding names tensor " + tensor + " twice; remove one of them");
    }
    return shardings;
}

void setMicroBatches(Plan &plan, std::int64_t count)
{
    const int before = unboundCap(plan);
    plan.microBatches = count;
    for (int &cap : plan.schedule.warmup) {
        if (cap >= before)
            cap = unboundCap(plan);
    }
}

void setSchedule(Plan &plan, ScheduleKind kind)
{
    plan.schedule.kind = kind;
    if (kind != ScheduleKind::Custom)
        plan.schedule.order.clear();
    if (kind == ScheduleKind::Interleaved1F1B) // has its own warm-up
        plan.schedule.warmup.clear();
}

void setWarmupCap(Plan &plan, std::size_t stage, int cap)
{
    std::vector<int> &caps = plan.schedule.warmup;
    const int none = unboundCap(plan);
    caps.resize(plan.stages.size(), none);
    caps[stage] = cap == 0 ? none : cap;
    if (std::all_of(caps.begin(), caps.end(), [none](int each) { return each >= none; }))
        caps.clear();
}

int warmupCap(const Plan &plan, std::size_t stage)
{
    if (stage >= plan.schedule.warmup.size() || plan.schedule.warmup[stage] >= plan.microBatches)
        return 0;
    return plan.schedule.warmup[stage];
}

} // namespace planloom::plan
