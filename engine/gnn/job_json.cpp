// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/job_json.h"

#include "engine/base/json_reader.h"
#include "engine/base/known_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace planloom::gnn {
namespace {

constexpr const char *kJobSchema = "planloom.gnn-job/1";
constexpr std::int64_t kMostIterations = 1 << 20;
constexpr std::size_t kMostRoles = 65536;

template <class Named>
std::int32_t indexOf(const std::vector<Named> &list, const std::string &wanted)
{
    const auto found = std::find_if(list.begin(), list.end(), [&](const Named &entry) { return entry.name == wanted; });
    return found == list.end() ? -1 : static_cast<std::int32_t>(found - list.begin());
}

/// Amounts by resource; resources that are not named: 0.
std::vector<double> amountsFrom(JsonReader &reader, const char *key, const std::vector<std::string> &resources)
{
    std::vector<double> amounts(resources.size());
    reader.each(key, [&](JsonReader &entry) {
        const auto found = std::find(resources.begin(), resources.end(), entry.name());
        if (found == resources.end())
            entry.fail({},
                       fmt::format("\"{}\" is no resource of the job; there are {}", entry.name(),
                                   fmt::join(resources, ", ")));
        else
            amounts[static_cast<std::size_t>(found - resources.begin())] = entry.asNumber();
    });
    return amounts;
}

Machine machineFrom(JsonReader &reader, const Job &job)
{
    Machine machine;
    refuseOthers(reader,
                 {"name", "out_bytes_per_second", "in_bytes_per_second", "within_bytes_per_second", "resources"});
    machine.name = reader.text("name");
    if (indexOf(job.machines, machine.name) >= 0)
        reader.fail("name", fmt::format("machine {} is listed twice", machine.name));
    machine.port.out = reader.number("out_bytes_per_second");
    machine.port.in = reader.number("in_bytes_per_second", machine.port.out);
    machine.port.within = reader.number("within_bytes_per_second", 0.0);
    machine.capacity = amountsFrom(reader, "resources", job.resources);
    return machine;
}

/// A role with what it names as text: trainers may be listed behind their samplers.
struct RoleEntry {
    Role role;
    std::string trainer;
    std::int32_t home = -1;
};

RoleEntry roleFrom(JsonReader &reader, const Job &job)
{
    RoleEntry entry;
    refuseOthers(reader, {"name", "kind", "demand", "machine", "trainer", "home_part"});
    entry.role.name = reader.text("name");
    if (const auto kind = roleKindFromName(reader.text("kind")))
        entry.role.kind = *kind;
    else
        reader.fail("kind", kind.error().message);
    entry.role.demand = amountsFrom(reader, "demand", job.resources);
    if (entry.role.kind == RoleKind::GraphStore) {
        const std::string machine = reader.text("machine");
        entry.role.machine = indexOf(job.machines, machine);
        if (entry.role.machine < 0)
            reader.fail("machine", fmt::format("\"{}\" is no machine of the job", machine));
    }
    if (entry.role.kind == RoleKind::Sampler) {
        entry.trainer = reader.text("trainer");
        entry.home = static_cast<std::int32_t>(reader.integerOr("home_part", -1, 0, kMostRoles));
    }
    return entry;
}

void rolesFrom(JsonReader &top, JobFile &file)
{
    std::vector<RoleEntry> entries;
    std::set<std::string> names;
    top.list("roles", [&](JsonReader &reader) {
        entries.push_back(roleFrom(reader, file.job));
        if (entries.size() > kMostRoles)
            reader.fail({}, fmt::format("there are more than {} roles", kMostRoles));
        if (!names.insert(entries.back().role.name).second)
            reader.fail("name", fmt::format("role {} is listed twice", entries.back().role.name));
    });
    std::stable_sort(entries.begin(), entries.end(),
                     [](const RoleEntry &a, const RoleEntry &b) { return a.role.kind < b.role.kind; });
    for (const RoleEntry &entry : entries)
        file.job.roles.push_back(entry.role);
    const std::int32_t firstTrainer = file.job.first(RoleKind::Trainer);
    const std::int32_t stores = std::max(1, file.job.count(RoleKind::GraphStore));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].role.kind != RoleKind::Sampler)
            continue;
        const std::int32_t trainer = indexOf(file.job.roles, entries[i].trainer);
        if (trainer < 0 || file.job.roles[static_cast<std::size_t>(trainer)].kind != RoleKind::Trainer)
            top.fail("roles",
                     fmt::format("sampler {} works for \"{}\", which is no trainer of the job", entries[i].role.name,
                                 entries[i].trainer));
        file.job.roles[i].trainer = trainer - firstTrainer;
        file.homes.push_back(entries[i].home >= 0 ? entries[i].home : std::max(0, file.job.roles[i].trainer) % stores);
    }
}

/// [iteration][sampler][store] and [iteration][sampler]; one list for all iterations is enough.
void tablesFrom(JsonReader reader, JobFile &file)
{
    if (Status status =
            checkVolumeSize(file.iterations, file.job.count(RoleKind::GraphStore), file.job.count(RoleKind::Sampler));
        !status) {
        reader.fail("features", status.error().message);
        return;
    }
    refuseOthers(reader, {"features", "batches"});
    Volumes volumes(file.iterations, file.job.count(RoleKind::GraphStore), file.job.count(RoleKind::Sampler));
    const auto fill = [&](const char *key, std::vector<double> &to) {
        std::vector<double> numbers;
        const std::function<void(JsonReader &)> take = [&](JsonReader &entry) {
            if (entry.value().is_array())
                entry.each(take);
            else
                numbers.push_back(entry.asNumber());
        };
        reader.list(key, take);
        const std::size_t once = to.size() / static_cast<std::size_t>(volumes.iterations);
        if (numbers.size() != to.size() && numbers.size() != once) {
            reader.fail(key,
                        fmt::format("has {} numbers; give {} for each of {} iterations, or once for all",
                                    numbers.size(), once, volumes.iterations));
            return;
        }
        for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = numbers[i % numbers.size()];
    };
    fill("features", volumes.features);
    fill("batches", volumes.batches);
    file.job.volumes = std::move(volumes);
}

void samplingFrom(JsonReader reader, JobFile &file)
{
    refuseOthers(reader, {"graph", "fanout", "batch", "seed", "seeds", "form", "cache"});
    file.graphFolder = reader.text("graph");
    std::vector<std::int64_t> fanout;
    reader.list("fanout", [&](JsonReader &entry) { fanout.push_back(entry.asInteger(1, kMostFanout)); });
    if (fanout.size() == 2)
        file.sampling.fanout = {fanout[0], fanout[1]};
    else
        reader.fail("fanout", "must be two numbers: neighbours of a seed node, and of each of those");
    file.sampling.batch = reader.integer("batch", 1, 1 << 24);
    file.sampling.seed =
        static_cast<std::uint64_t>(reader.integerOr("seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
    const std::string seeds = reader.text("seeds", "global");
    if (seeds != "global" && seeds != "local")
        reader.fail("seeds", fmt::format("\"{}\" is not known; there are global and local", seeds));
    file.sampling.localSeeds = seeds == "local";
    const std::string form = reader.text("form", "tree");
    if (form != "tree" && form != "rows")
        reader.fail("form", fmt::format("\"{}\" is not known; there are tree and rows", form));
    file.sampling.treeForm = form == "tree";
    file.sampling.cacheShare = reader.number("cache", 0.0);
}

} // namespace

Result<JobFile> jobFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader top(*document);
    JobFile file;
    Job &job = file.job;
    if (const std::string schema = top.text("schema"); schema != kJobSchema)
        top.fail("schema", fmt::format("must be \"{}\"", kJobSchema));
    refuseOthers(top,
                 {"schema", "resources", "machines", "roles", "seconds", "prefetch", "exchange", "iterations",
                  "model_bytes", "volumes", "sampled"});
    top.each("resources", [&job](JsonReader &entry) { job.resources.push_back(entry.asText()); });
    top.list("machines", [&job](JsonReader &reader) { job.machines.push_back(machineFrom(reader, job)); });
    rolesFrom(top, file);
    JsonReader seconds = top.object("seconds");
    refuseOthers(seconds, {"sample", "train", "serve"});
    job.sampleSeconds = seconds.number("sample");
    job.trainSeconds = seconds.number("train");
    job.serveSeconds = seconds.number("serve", 0.0);
    job.prefetch = static_cast<std::int32_t>(top.integerOr("prefetch", 2, 1, kMostIterations));
    if (const auto exchange = gradientExchangeFromName(top.text("exchange", name(GradientExchange::ParameterServers))))
        job.exchange = *exchange;
    else
        top.fail("exchange", exchange.error().message);
    file.iterations = static_cast<std::int32_t>(top.integer("iterations", 1, kMostIterations));
    file.modelBytes = top.number("model_bytes", 0.0);
    if (top.has("volumes") == top.has("sampled"))
        top.fail("volumes", "give either volumes, tables of bytes, or sampled, a graph to count them in");
    if (top.failed())
        return top.failure(text).error();
    if (top.has("volumes"))
        tablesFrom(top.object("volumes"), file);
    else
        samplingFrom(top.object("sampled"), file);
    file.job.volumes.model = file.modelBytes;
    if (Status status = top.failure(text); !status)
        return status.error();
    return file;
}

} // namespace planloom::gnn
