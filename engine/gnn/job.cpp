// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace planloom::gnn {
namespace {

constexpr std::array kRoleNames{"graph-store", "sampler", "trainer", "parameter-server"}; // order of RoleKind

constexpr std::array kExchangeNames{"parameter-server", "all-reduce"}; // order of GradientExchange

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

bool isAmount(double value) { return std::isfinite(value) && value >= 0; }

Status checkMachines(const Job &job)
{
    for (std::size_t i = 0; i < job.resources.size(); ++i) {
        if (std::find(job.resources.begin(), job.resources.begin() + static_cast<std::ptrdiff_t>(i), job.resources[i])
            != job.resources.begin() + static_cast<std::ptrdiff_t>(i))
            return badInput(fmt::format("resource {} is listed twice; list each once", job.resources[i]));
    }
    if (job.machines.empty())
        return badInput("the job has no machines; list at least one");
    for (const Machine &machine : job.machines) {
        if (machine.capacity.size() != job.resources.size())
            return badInput(fmt::format("machine {} has {} capacities for {} resources; give one for each",
                                        machine.name, machine.capacity.size(), job.resources.size()));
        if (!std::all_of(machine.capacity.begin(), machine.capacity.end(), isAmount))
            return badInput(fmt::format("machine {} has a negative or infinite capacity", machine.name));
        if (!isAmount(machine.port.out) || !isAmount(machine.port.in) || machine.port.out == 0 || machine.port.in == 0)
            return badInput(fmt::format("machine {} needs network rates above 0 bytes/s", machine.name));
        if (!isAmount(machine.port.trainingFactor))
            return badInput(fmt::format("machine {} has a negative or infinite factor of trainers' seconds; leave it "
                                        "out if they take as long on every machine",
                                        machine.name));
        if (!isAmount(machine.port.within))
            return badInput(fmt::format("machine {} has a negative or infinite rate of messages that stay on it; leave "
                                        "it out if they take no time",
                                        machine.name));
    }
    return {};
}

Status checkRole(const Job &job, const Role &role)
{
    if (role.demand.size() != job.resources.size())
        return badInput(fmt::format("role {} has {} demands for {} resources; give one for each", role.name,
                                    role.demand.size(), job.resources.size()));
    if (!std::all_of(role.demand.begin(), role.demand.end(), isAmount))
        return badInput(fmt::format("role {} has a negative or infinite demand", role.name));
    if (role.kind == RoleKind::Sampler && (role.trainer < 0 || role.trainer >= job.count(RoleKind::Trainer)))
        return badInput(fmt::format("sampler {} names no trainer of the job; there are {}", role.name,
                                    job.count(RoleKind::Trainer)));
    if (role.kind == RoleKind::GraphStore && (role.machine < 0 || index(role.machine) >= job.machines.size()))
        return badInput(fmt::format("graph store {} has no machine; a part of the graph lies on one", role.name));
    return {};
}

Status checkRoles(const Job &job)
{
    for (std::size_t i = 0; i < job.roles.size(); ++i) {
        if (i > 0 && job.roles[i].kind < job.roles[i - 1].kind)
            return badInput(fmt::format("role {} is out of order; list graph stores, samplers, trainers, "
                                        "parameter servers",
                                        job.roles[i].name));
        if (Status status = checkRole(job, job.roles[i]); !status)
            return status;
    }
    for (const RoleKind kind : {RoleKind::GraphStore, RoleKind::Sampler, RoleKind::Trainer}) {
        if (job.count(kind) == 0)
            return badInput(fmt::format("the job has no {}; it needs at least one", name(kind)));
    }
    if (job.exchange == GradientExchange::AllReduce && job.count(RoleKind::ParameterServer) > 0)
        return badInput(
            fmt::format("parameter server {} has nothing to do, as trainers exchange gradients by all-reduce; "
                        "leave it out, or set exchange to parameter-server",
                        job.roles.back().name));
    std::vector<char> served(index(job.count(RoleKind::Trainer)));
    for (const Role &role : job.roles) {
        if (role.kind == RoleKind::Sampler)
            served[index(role.trainer)] = 1;
    }
    const auto idle = std::find(served.begin(), served.end(), 0);
    if (idle != served.end())
        return badInput(fmt::format(
            "trainer {} has no sampler; add one",
            job.roles[index(job.first(RoleKind::Trainer)) + static_cast<std::size_t>(idle - served.begin())].name));
    return {};
}

Status checkVolumes(const Job &job)
{
    const Volumes &volumes = job.volumes;
    if (volumes.iterations < 1)
        return badInput("the job has no iterations; give at least 1");
    if (volumes.stores != job.count(RoleKind::GraphStore) || volumes.samplers != job.count(RoleKind::Sampler))
        return badInput(fmt::format("the volumes are those of {} stores and {} samplers, and the job has {} and {}; "
                                    "give a table for each of them",
                                    volumes.stores, volumes.samplers, job.count(RoleKind::GraphStore),
                                    job.count(RoleKind::Sampler)));
    if (!std::all_of(volumes.features.begin(), volumes.features.end(), isAmount)
        || !std::all_of(volumes.batches.begin(), volumes.batches.end(), isAmount) || !isAmount(volumes.model))
        return badInput("a volume is negative or infinite; give bytes");
    return {};
}

/// Adds the steps of a job, iteration by iteration.
class JobNetwork {
public:
    JobNetwork(const Job &job, StepLabels *labels)
        : m_job(job),
          m_labels(labels),
          m_stores(job.count(RoleKind::GraphStore)),
          m_samplers(job.count(RoleKind::Sampler)),
          m_trainers(job.count(RoleKind::Trainer)),
          m_servers(job.count(RoleKind::ParameterServer)),
          m_lastDraw(index(m_samplers), -1),
          m_lastSample(index(m_samplers), -1),
          m_lastServe(index(m_servers), -1),
          m_trained(index(m_trainers)),
          m_pulls(index(m_trainers))
    {
    }

    Network build()
    {
        connect();
        for (std::int32_t n = 0; n < m_job.volumes.iterations; ++n)
            iteration(n);
        return std::move(m_builder).build();
    }

private:
    [[nodiscard]] std::int32_t sampler(std::int32_t s) const { return m_job.first(RoleKind::Sampler) + s; }
    [[nodiscard]] std::int32_t trainerOf(std::int32_t s) const { return m_job.roles[index(sampler(s))].trainer; }

    void connect()
    {
        const std::int32_t firstTrainer = m_job.first(RoleKind::Trainer);
        for (std::int32_t g = 0; g < m_stores; ++g) {
            for (std::int32_t s = 0; s < m_samplers; ++s) {
                if (m_job.requestShare > 0)
                    m_requests.push_back(m_builder.connection(sampler(s), g));
                m_features.push_back(m_builder.connection(g, sampler(s)));
            }
        }
        for (std::int32_t s = 0; s < m_samplers; ++s)
            m_batches.push_back(m_builder.connection(sampler(s), firstTrainer + trainerOf(s)));
        m_exchanged = exchangeOf(m_job);
        for (const Exchanged &message : m_exchanged)
            m_exchanges.push_back(m_builder.connection(message.from, message.to));
    }

    void iteration(std::int32_t n)
    {
        std::vector<std::int32_t> batches;
        for (std::int32_t s = 0; s < m_samplers; ++s)
            batches.push_back(sample(s, n));
        for (std::int32_t w = 0; w < m_trainers; ++w)
            train(w, n, batches);
        if (m_job.exchange == GradientExchange::AllReduce)
            reduce(n);
        else
            exchange(n);
    }

    /// The ring between iteration n and the next one.
    void reduce(std::int32_t n)
    {
        const std::int32_t firstTrainer = m_job.first(RoleKind::Trainer);
        std::vector<std::int32_t> messages;
        for (std::size_t i = 0; i < m_exchanged.size(); ++i) {
            const std::int32_t from = m_exchanged[i].from - firstTrainer;
            messages.push_back(m_builder.message(m_exchanges[i], m_exchanged[i].bytes, n));
            label(m_exchanged[i].from, "w{}w{}.n{}", from, m_exchanged[i].to - firstTrainer, n);
            m_builder.after(messages.back(), m_trained[index(from)].back());
        }
        m_pulls.assign(index(m_trainers), messages);
    }

    /// @p step waits for the credit of iteration @p n of sampler @p s.
    void waitForCredit(std::int32_t step, std::int32_t s, std::int32_t n)
    {
        if (n >= m_job.prefetch)
            m_builder.afterStart(step, m_trained[index(trainerOf(s))][index(n - m_job.prefetch)]);
    }

    /// What the features of store @p g wait for; none: the credit alone.
    std::optional<std::int32_t> beforeFeatures(std::int32_t g, std::int32_t s, std::int32_t n,
                                               std::optional<std::int32_t> drawn)
    {
        const auto behind = [&](std::int32_t step) {
            if (drawn)
                m_builder.after(step, *drawn);
            else
                waitForCredit(step, s, n);
            drawn = step;
        };
        if (m_job.requestShare > 0) {
            const double bytes = m_job.requestShare * m_job.volumes.feature(n, g, s);
            behind(m_builder.message(m_requests[index(g * m_samplers + s)], bytes, n));
            label(sampler(s), "s{}g{}.n{}", s, g, n);
        }
        if (m_job.featureSeconds > 0) {
            behind(m_builder.task(m_job.featureSeconds * m_job.volumes.feature(n, g, s), n, g));
            label(g, "g{}.SN.s{}.n{}", g, s, n);
        }
        return drawn;
    }

    std::optional<std::int32_t> draw(std::int32_t s, std::int32_t n)
    {
        if (m_job.drawSeconds <= 0)
            return std::nullopt;
        const std::int32_t task = m_builder.task(m_job.drawSeconds, n, sampler(s));
        label(sampler(s), "s{}.NS.n{}", s, n);
        waitForCredit(task, s, n);
        follow(task, m_lastDraw[index(s)]);
        return task;
    }

    /// The mini-batch's message.
    std::int32_t sample(std::int32_t s, std::int32_t n)
    {
        const std::optional<std::int32_t> drawn = draw(s, n);
        std::vector<std::int32_t> features;
        for (std::int32_t g = 0; g < m_stores; ++g) {
            const std::optional<std::int32_t> before = beforeFeatures(g, s, n, drawn);
            const std::int32_t message =
                m_builder.message(m_features[index(g * m_samplers + s)], m_job.volumes.feature(n, g, s), n);
            label(g, "g{}s{}.n{}", g, s, n);
            if (before)
                m_builder.after(message, *before);
            else
                waitForCredit(message, s, n);
            features.push_back(message);
        }
        const std::int32_t task = m_builder.task(m_job.sampleSeconds, n, sampler(s));
        label(sampler(s), "s{}.LD.n{}", s, n);
        for (const std::int32_t message : features)
            m_builder.after(task, message);
        follow(task, m_lastSample[index(s)]);
        const std::int32_t batch = m_builder.message(m_batches[index(s)], m_job.volumes.batch(n, s), n);
        label(sampler(s), "s{}w{}.n{}", s, trainerOf(s), n);
        m_builder.after(batch, task);
        return batch;
    }

    void train(std::int32_t w, std::int32_t n, const std::vector<std::int32_t> &batches)
    {
        const std::int32_t role = m_job.first(RoleKind::Trainer) + w;
        const std::int32_t task = m_builder.task(m_job.trainSeconds, n, role, true);
        label(role, "w{}.F.n{}", w, n);
        for (std::int32_t s = 0; s < m_samplers; ++s) {
            if (trainerOf(s) == w)
                m_builder.after(task, batches[index(s)]);
        }
        for (const std::int32_t pull : m_pulls[index(w)])
            m_builder.after(task, pull);
        for (std::int32_t v = 0; n > 0 && v < m_trainers; ++v) {
            if (v == w || m_job.sumsGradients)
                m_builder.after(task, m_trained[index(v)][index(n - 1)]);
        }
        m_trained[index(w)].push_back(task);
    }

    void exchange(std::int32_t n)
    {
        const std::int32_t firstServer = m_job.first(RoleKind::ParameterServer);
        for (std::vector<std::int32_t> &pulls : m_pulls)
            pulls.clear();
        for (std::int32_t p = 0; p < m_servers; ++p) {
            std::vector<std::int32_t> pushes;
            for (std::int32_t w = 0; w < m_trainers; ++w) {
                const std::size_t push = index(w * m_servers + p);
                pushes.push_back(m_builder.message(m_exchanges[push], m_exchanged[push].bytes, n));
                label(m_job.first(RoleKind::Trainer) + w, "w{}p{}.n{}", w, p, n);
                m_builder.after(pushes.back(), m_trained[index(w)].back());
            }
            const std::int32_t task = m_builder.task(m_job.serveSeconds, n, firstServer + p);
            label(firstServer + p, "p{}.U.n{}", p, n);
            for (const std::int32_t push : pushes)
                m_builder.after(task, push);
            follow(task, m_lastServe[index(p)]);
            for (std::int32_t w = 0; w < m_trainers; ++w) {
                const std::size_t pull = index((m_trainers + w) * m_servers + p);
                m_pulls[index(w)].push_back(m_builder.message(m_exchanges[pull], m_exchanged[pull].bytes, n));
                label(firstServer + p, "p{}w{}.n{}", p, w, n);
                m_builder.after(m_pulls[index(w)].back(), task);
            }
        }
    }

    void follow(std::int32_t task, std::int32_t &last)
    {
        if (last >= 0)
            m_builder.after(task, last);
        last = task;
    }

    template <class... Numbers>
    void label(std::int32_t role, fmt::format_string<Numbers...> text, Numbers... numbers)
    {
        if (m_labels == nullptr)
            return;
        m_labels->name.push_back(fmt::vformat(text, fmt::make_format_args(numbers...)));
        m_labels->role.push_back(role);
    }

    const Job &m_job;
    StepLabels *m_labels;
    std::int32_t m_stores;
    std::int32_t m_samplers;
    std::int32_t m_trainers;
    std::int32_t m_servers;
    std::vector<std::int32_t> m_lastDraw;
    std::vector<std::int32_t> m_lastSample;
    std::vector<std::int32_t> m_lastServe;
    std::vector<std::vector<std::int32_t>> m_trained; ///< per trainer: its tasks
    std::vector<std::vector<std::int32_t>> m_pulls;   ///< per trainer: the parameters of the iteration before
    NetworkBuilder m_builder;
    std::vector<std::int32_t> m_requests; ///< as m_features; empty: there are none
    std::vector<std::int32_t> m_features;
    std::vector<std::int32_t> m_batches;
    std::vector<Exchanged> m_exchanged;    ///< of an iteration
    std::vector<std::int32_t> m_exchanges; ///< their connections
};

} // namespace

const char *name(RoleKind kind) { return kRoleNames[static_cast<std::size_t>(kind)]; }

Result<RoleKind> roleKindFromName(std::string_view text)
{
    for (std::size_t kind = 0; kind < kRoleNames.size(); ++kind) {
        if (text == kRoleNames[kind])
            return static_cast<RoleKind>(kind);
    }
    return notFound(fmt::format("\"{}\" is no kind of role; there are {}", text, fmt::join(kRoleNames, ", ")));
}

const char *name(GradientExchange exchange) { return kExchangeNames[static_cast<std::size_t>(exchange)]; }

Result<GradientExchange> gradientExchangeFromName(std::string_view text)
{
    for (std::size_t kind = 0; kind < kExchangeNames.size(); ++kind) {
        if (text == kExchangeNames[kind])
            return static_cast<GradientExchange>(kind);
    }
    return notFound(fmt::format("\"{}\" is no exchange; there are {}", text, fmt::join(kExchangeNames, ", ")));
}

std::vector<Exchanged> exchangeOf(const Job &job)
{
    const std::int32_t trainer = job.first(RoleKind::Trainer);
    const std::int32_t server = job.first(RoleKind::ParameterServer);
    const std::int32_t trainers = server - trainer;
    const std::int32_t servers = job.count(RoleKind::ParameterServer);
    std::vector<Exchanged> messages;
    if (job.exchange == GradientExchange::AllReduce) {
        for (std::int32_t w = 0; w < trainers && trainers > 1; ++w)
            messages.push_back(
                {trainer + w, trainer + (w + 1) % trainers, 2 * job.volumes.model * (trainers - 1) / trainers});
        return messages;
    }
    for (const bool back : {false, true}) {
        for (std::int32_t w = 0; w < trainers; ++w) {
            for (std::int32_t p = 0; p < servers; ++p)
                messages.push_back(
                    {back ? server + p : trainer + w, back ? trainer + w : server + p, job.volumes.model / servers});
        }
    }
    return messages;
}

Volumes::Volumes(std::int32_t iterationCount, std::int32_t storeCount, std::int32_t samplerCount)
    : iterations(iterationCount),
      stores(storeCount),
      samplers(samplerCount),
      features(index(iterationCount) * index(storeCount) * index(samplerCount)),
      batches(index(iterationCount) * index(samplerCount))
{
}

Status checkVolumeSize(std::int64_t iterations, std::int64_t stores, std::int64_t samplers)
{
    constexpr std::int64_t kMost = std::int64_t{1} << 26;
    std::int64_t numbers = 0;
    if (!__builtin_mul_overflow(iterations, stores, &numbers) && !__builtin_mul_overflow(numbers, samplers, &numbers)
        && numbers <= kMost)
        return {};
    return badInput(fmt::format("{} iterations of {} stores and {} samplers are too many to simulate; give fewer "
                                "iterations",
                                iterations, stores, samplers));
}

double &Volumes::feature(std::int32_t iteration, std::int32_t store, std::int32_t sampler)
{
    return features[(index(iteration) * index(samplers) + index(sampler)) * index(stores) + index(store)];
}

double Volumes::feature(std::int32_t iteration, std::int32_t store, std::int32_t sampler) const
{
    return features[(index(iteration) * index(samplers) + index(sampler)) * index(stores) + index(store)];
}

double &Volumes::batch(std::int32_t iteration, std::int32_t sampler)
{
    return batches[index(iteration) * index(samplers) + index(sampler)];
}

double Volumes::batch(std::int32_t iteration, std::int32_t sampler) const
{
    return batches[index(iteration) * index(samplers) + index(sampler)];
}

std::int32_t Job::count(RoleKind kind) const
{
    return static_cast<std::int32_t>(
        std::count_if(roles.begin(), roles.end(), [kind](const Role &role) { return role.kind == kind; }));
}

std::int32_t Job::first(RoleKind kind) const
{
    const auto found = std::find_if(roles.begin(), roles.end(), [kind](const Role &role) { return role.kind >= kind; });
    return static_cast<std::int32_t>(found - roles.begin());
}

Status checkJob(const Job &job)
{
    if (Status status = checkMachines(job); !status)
        return status;
    if (Status status = checkRoles(job); !status)
        return status;
    for (const double amount : {job.drawSeconds, job.featureSeconds, job.sampleSeconds, job.trainSeconds,
                                job.serveSeconds, job.requestShare}) {
        if (!isAmount(amount))
            return badInput(
                "the seconds of a task, or a request's share of bytes, are negative or infinite; give numbers "
                "from 0 on");
    }
    if (job.prefetch < 1)
        return badInput(fmt::format("prefetch is {}; a sampler needs a credit of at least 1 mini-batch", job.prefetch));
    return checkVolumes(job);
}

Status checkPlacement(const Job &job, std::span<const std::int32_t> machineOf)
{
    if (machineOf.size() != job.roles.size())
        return badInput(fmt::format("the placement has {} machines for {} roles", machineOf.size(), job.roles.size()));
    std::vector<std::vector<double>> used(job.machines.size(), std::vector<double>(job.resources.size()));
    for (std::size_t i = 0; i < job.roles.size(); ++i) {
        const Role &role = job.roles[i];
        if (machineOf[i] < 0 || index(machineOf[i]) >= job.machines.size())
            return badInput(fmt::format("role {} is on no machine of the cluster", role.name));
        if (role.kind == RoleKind::GraphStore && machineOf[i] != role.machine)
            return badInput(fmt::format("graph store {} must be on {}, where its part lies", role.name,
                                        job.machines[index(role.machine)].name));
        for (std::size_t resource = 0; resource < job.resources.size(); ++resource) {
            double &sum = used[index(machineOf[i])][resource];
            sum += role.demand[resource];
            const Machine &machine = job.machines[index(machineOf[i])];
            constexpr double kSlack = 1e-9; // of sums that fill a machine
            if (sum > machine.capacity[resource] + kSlack)
                return infeasible(fmt::format("machine {} has {} of {}, and its roles up to {} need {}; move one of "
                                              "them",
                                              machine.name, machine.capacity[resource], job.resources[resource],
                                              role.name, sum));
        }
    }
    return {};
}

Network networkOf(const Job &job, StepLabels *labels)
{
    if (labels != nullptr)
        *labels = {};
    return JobNetwork(job, labels).build();
}

std::vector<Port> portsOf(const Job &job)
{
    std::vector<Port> ports;
    for (const Machine &machine : job.machines)
        ports.push_back(machine.port);
    return ports;
}

} // namespace planloom::gnn
