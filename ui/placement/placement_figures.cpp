// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/placement_figures.h"

#include "engine/gnn/scheduler.h"
#include "engine/gnn/steady_iteration.h"
#include "engine/run/transfers.h"
#include "planners/gnn/evaluation.h"
#include "planners/gnn/placed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace planloom::ui {

namespace {

using gnn::RoleKind;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

/// Mean bytes an iteration of each connection.
class Cards {
public:
    explicit Cards(PlacementFigures &figures) : m_figures(figures)
    {
        figures.out.assign(figures.job.machines.size(), {});
        figures.in = figures.out;
        figures.sent.clear();
    }
    void send(std::int32_t from, std::int32_t to, double bytes, Cargo cargo)
    {
        m_figures.sent.push_back({from, to, bytes, cargo});
        const std::size_t a = at(m_figures.machineOf[at(from)]);
        const std::size_t b = at(m_figures.machineOf[at(to)]);
        if (a == b)
            return;
        m_figures.out[a].seconds[static_cast<std::size_t>(cargo)] += bytes / m_figures.job.machines[a].port.out;
        m_figures.in[b].seconds[static_cast<std::size_t>(cargo)] += bytes / m_figures.job.machines[b].port.in;
    }

private:
    PlacementFigures &m_figures;
};

void loadCards(PlacementFigures &figures)
{
    Cards cards(figures);
    const gnn::Job &job = figures.withRing;
    const gnn::Volumes &volumes = job.volumes;
    const std::int32_t sampler = job.first(RoleKind::Sampler);
    const std::int32_t trainer = job.first(RoleKind::Trainer);
    figures.features.assign(at(volumes.stores) * at(volumes.samplers), 0);
    for (std::int32_t s = 0; s < volumes.samplers; ++s) {
        double batch = 0;
        for (std::int32_t n = 0; n < volumes.iterations; ++n) {
            batch += volumes.batch(n, s) / volumes.iterations;
            for (std::int32_t g = 0; g < volumes.stores; ++g)
                figures.features[at(g) * at(volumes.samplers) + at(s)] += volumes.feature(n, g, s) / volumes.iterations;
        }
        for (std::int32_t g = 0; g < volumes.stores; ++g)
            cards.send(g, sampler + s, figures.features[at(g) * at(volumes.samplers) + at(s)], Cargo::Features);
        cards.send(sampler + s, trainer + job.roles[at(sampler + s)].trainer, batch, Cargo::Batches);
    }
    for (const gnn::Exchanged &message : gnn::exchangeOf(job))
        cards.send(message.from, message.to, message.bytes, Cargo::Gradients);
    double most = 0;
    for (std::size_t machine = 0; machine < job.machines.size(); ++machine) {
        for (const bool out : {true, false}) {
            const double seconds = (out ? figures.out : figures.in)[machine].sum();
            if (seconds <= most)
                continue;
            most = seconds;
            figures.busiest = static_cast<std::int32_t>(machine);
            figures.busiestOut = out;
        }
    }
}

/// Adds to @p figures what follows from @p plan.
Result<PlacementFigures> figuresOfPlan(const plan::Plan &plan, PlacementFigures figures, Progress &progress)
{
    const std::int64_t slots = planners::gnn::slotsOfPlan(plan);
    auto job = planners::gnn::jobOfPlan(plan, figures.document->subject, slots, figures.machineOf);
    if (!job)
        return job.error();
    auto withRing = planners::gnn::searchJobOf(plan, figures.document->subject, slots, figures.machineOf);
    if (!withRing)
        return withRing.error();
    figures.job = *std::move(job);
    figures.withRing = *std::move(withRing);
    figures.policy = plan.job->transfers;
    constexpr std::size_t kLarge = 20'000; // features that are sent: max-min and iteration-first would take seconds
    for (std::size_t i = 0; i < std::size(gnn::kTransferPolicies); ++i) {
        if (progress.stopped())
            return cancelled();
        const gnn::TransferPolicy policy = gnn::kTransferPolicies[i];
        if (policy != figures.policy && figures.job.volumes.features.size() > kLarge)
            continue;
        figures.byPolicy[i] = gnn::steadyIteration(figures.job, figures.machineOf, policy);
        if (policy == figures.policy)
            figures.seconds = figures.byPolicy[i];
    }
    planners::gnn::Evaluation evaluation(figures.withRing, figures.policy);
    figures.allSeconds = evaluation.seconds(figures.machineOf);
    figures.bounds = evaluation.bounds(figures.machineOf);
    loadCards(figures);
    return figures;
}

} // namespace

double PlacementFigures::busiestSeconds() const { return busiest < 0 ? 0 : (busiestOut ? out : in)[at(busiest)].sum(); }

Result<PlacementFigures> figuresOf(const PlacementFigures::DocumentPtr &document, Progress &progress)
{
    PlacementFigures figures;
    figures.document = document;
    return figuresOfPlan(document->plan, std::move(figures), progress);
}

Result<PlacementFigures> figuresOf(const PlacementFigures::DocumentPtr &document, const gnn::Placement &machineOf,
                                   Progress &progress)
{
    PlacementFigures figures;
    figures.document = document;
    plan::Plan placed = document->plan;
    planners::gnn::placeRoles(machineOf, *document->subject.cluster, placed);
    return figuresOfPlan(placed, std::move(figures), progress);
}

Status checkMove(const PlacementFigures &figures, std::size_t role, std::int32_t machine)
{
    plan::Plan moved = figures.document->plan;
    return planners::gnn::moveRole(figures.job, figures.machineOf, role, machine, *figures.document->subject.cluster,
                                   moved);
}

Result<MovedRole> figuresWith(const PlacementFigures &figures, std::size_t role, std::int32_t machine,
                              Progress &progress)
{
    const plan::Subject &subject = figures.document->subject;
    plan::Plan moved = figures.document->plan;
    if (Status status = planners::gnn::moveRole(figures.job, figures.machineOf, role, machine, *subject.cluster, moved);
        !status)
        return status.error();
    gnn::Placement machineOf = figures.machineOf;
    machineOf[role] = machine;
    std::optional<gnn::Job> other; // trainers' own time is another one on other devices
    if (figures.job.roles[role].kind == RoleKind::Trainer) {
        auto job = planners::gnn::jobOfPlan(moved, subject, planners::gnn::slotsOfPlan(moved), machineOf);
        if (!job)
            return job.error();
        other = *std::move(job);
    }
    if (progress.stopped())
        return cancelled();
    const gnn::Job &job = other ? *other : figures.job;
    MovedRole result;
    result.seconds = gnn::steadyIteration(job, machineOf, figures.policy);
    if (progress.stopped())
        return cancelled();
    planners::gnn::Evaluation evaluation(figures.withRing, figures.policy);
    const double bound = evaluation.bounds(machineOf).lower();
    result.overBound = bound > 0 ? evaluation.seconds(machineOf) / bound : 1;
    return result;
}

Result<std::vector<ConnectionShare>> connectionShares(const PlacementFigures &figures, Progress &progress)
{
    const gnn::Network network = gnn::networkOf(figures.withRing);
    const std::vector<gnn::Port> ports = gnn::portsOf(figures.withRing);
    gnn::StepTimes times;
    gnn::Scheduler(network, ports).run(figures.machineOf, figures.policy, &times, &progress);
    if (progress.stopped())
        return cancelled();
    std::vector<ConnectionShare> shares(network.connections.size());
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::int32_t connection = network.connection[step];
        if (connection == gnn::Network::kTask || network.amount[step] <= 0)
            continue;
        const gnn::Connection &ends = network.connections[at(connection)];
        const std::int32_t from = figures.machineOf[at(ends.from)];
        const std::int32_t to = figures.machineOf[at(ends.to)];
        if (from == to)
            continue;
        ConnectionShare &share = shares[at(connection)];
        const double part = 1.0 / figures.job.volumes.iterations;
        share.from = ends.from;
        share.to = ends.to;
        share.bytes += network.amount[step] * part;
        share.alone += network.amount[step] / std::min(ports[at(from)].out, ports[at(to)].in) * part;
        share.takes += (times.end[step] - times.start[step]) * part;
    }
    std::erase_if(shares, [](const ConnectionShare &share) { return share.bytes <= 0; });
    return shares;
}

std::vector<PartLoad> partLoads(const PlacementFigures &figures)
{
    std::vector<PartLoad> loads(at(figures.stores()));
    for (const Sent &sent : figures.sent) {
        if (sent.cargo != Cargo::Features)
            continue;
        PartLoad &load = loads[at(sent.from)];
        load.bytes += sent.bytes;
        load.away += figures.machineOf[at(sent.from)] != figures.machineOf[at(sent.to)] ? sent.bytes : 0;
    }
    return loads;
}

SentFeatures sentFeatures(const PlacementFigures &figures, const std::string &folder)
{
    SentFeatures sent{std::vector<double>(figures.features.size()), 0};
    const std::int32_t sampler = figures.job.first(RoleKind::Sampler);
    std::map<std::string, std::size_t, std::less<>> samplerOf;
    for (std::int32_t s = 0; s < figures.samplers(); ++s)
        samplerOf[figures.job.roles[at(sampler + s)].name] = at(s);
    std::set<std::int64_t> iterations;
    for (std::int32_t g = 0; g < figures.stores(); ++g) {
        const auto sums = run::readSent(run::transfersFile(folder, figures.job.roles[at(g)].name));
        if (!sums)
            return {};
        for (const auto &[key, bytes] : *sums) {
            const auto to = samplerOf.find(key.second);
            if (to == samplerOf.end())
                continue;
            iterations.insert(key.first);
            sent.bytes[at(g) * at(figures.samplers()) + to->second] += static_cast<double>(bytes);
        }
    }
    sent.iterations = static_cast<std::int64_t>(iterations.size());
    for (double &bytes : sent.bytes)
        bytes /= static_cast<double>(std::max<std::int64_t>(1, sent.iterations));
    return sent;
}

} // namespace planloom::ui
