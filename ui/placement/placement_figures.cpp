// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/placement_figures.h"

#include "engine/base/files.h"
#include "engine/gnn/scheduler.h"
#include "engine/gnn/steady_iteration.h"
#include "planners/gnn/evaluation.h"
#include "planners/gnn/placed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
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
    const gnn::Job &job = figures.job;
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

/// The noted bytes of one store by who got them, and the iterations that it noted.
void readTransfers(const std::string &text, std::map<std::string, double, std::less<>> &bytesTo,
                   std::set<std::string, std::less<>> &iterations)
{
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        begin = end + 1;
        const std::size_t first = line.find(',');
        const std::size_t last = line.rfind(',');
        double bytes = 0;
        if (first == last || first == std::string_view::npos
            || std::from_chars(line.data() + last + 1, line.data() + line.size(), bytes).ec != std::errc())
            continue;
        if (line.front() == '-') // held-out samples
            continue;
        iterations.emplace(line.substr(0, first));
        bytesTo[std::string(line.substr(first + 1, last - first - 1))] += bytes;
    }
}

} // namespace

double PlacementFigures::busiestSeconds() const { return busiest < 0 ? 0 : (busiestOut ? out : in)[at(busiest)].sum(); }

PlacementFigures figuresOf(const gnn::Job &job, const gnn::Placement &machineOf, gnn::TransferPolicy policy)
{
    PlacementFigures figures;
    figures.job = job;
    figures.machineOf = machineOf;
    figures.policy = policy;
    constexpr std::size_t kLarge = 20'000; // features that are sent: max-min and iteration-first would take seconds
    for (std::size_t i = 0; i < std::size(gnn::kTransferPolicies); ++i) {
        if (gnn::kTransferPolicies[i] != policy && job.volumes.features.size() > kLarge)
            continue;
        figures.byPolicy[i] = gnn::steadyIteration(job, machineOf, gnn::kTransferPolicies[i]);
        if (gnn::kTransferPolicies[i] == policy)
            figures.seconds = figures.byPolicy[i];
    }
    planners::gnn::Evaluation evaluation(job, policy);
    figures.allSeconds = evaluation.seconds(machineOf);
    figures.bounds = evaluation.bounds(machineOf);
    loadCards(figures);
    return figures;
}

Result<PlacementFigures> figuresOf(const plan::Plan &plan, const plan::Subject &subject)
{
    gnn::Placement machineOf;
    const auto job = planners::gnn::jobOfPlan(plan, subject, planners::gnn::slotsOfPlan(plan), machineOf);
    if (!job)
        return job.error();
    return figuresOf(*job, machineOf, plan.job->transfers);
}

Result<double> secondsWith(const PlacementFigures &figures, std::size_t role, std::int32_t machine)
{
    const planners::gnn::Room room(figures.job, figures.machineOf);
    const std::int32_t lacking =
        figures.machineOf[role] == machine ? -1 : room.lacking(static_cast<std::int32_t>(role), machine);
    if (lacking >= 0)
        return infeasible(fmt::format("{} has {} of {} {} left, and {} needs {}",
                                      figures.job.machines[at(machine)].name, room.left(machine, at(lacking)),
                                      figures.job.machines[at(machine)].capacity[at(lacking)],
                                      figures.job.resources[at(lacking)], figures.job.roles[role].name,
                                      figures.job.roles[role].demand[at(lacking)]));
    gnn::Placement moved = figures.machineOf;
    moved[role] = machine;
    return gnn::steadyIteration(figures.job, moved, figures.policy);
}

std::vector<ConnectionShare> connectionShares(const PlacementFigures &figures)
{
    const gnn::Network network = gnn::networkOf(figures.job);
    const std::vector<gnn::Port> ports = gnn::portsOf(figures.job);
    gnn::StepTimes times;
    gnn::Scheduler(network, ports).run(figures.machineOf, figures.policy, &times);
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

std::vector<double> sentFeatures(const PlacementFigures &figures, const std::string &folder)
{
    std::vector<double> sent(figures.features.size());
    const std::int32_t sampler = figures.job.first(RoleKind::Sampler);
    for (std::int32_t g = 0; g < figures.stores(); ++g) {
        const auto text = readFile(folder + "/transfers/" + figures.job.roles[at(g)].name + ".csv");
        if (!text)
            return {};
        std::map<std::string, double, std::less<>> bytesTo;
        std::set<std::string, std::less<>> iterations;
        readTransfers(*text, bytesTo, iterations);
        for (std::int32_t s = 0; s < figures.samplers() && !iterations.empty(); ++s) {
            const auto found = bytesTo.find(figures.job.roles[at(sampler + s)].name);
            if (found != bytesTo.end())
                sent[at(g) * at(figures.samplers()) + at(s)] = found->second / static_cast<double>(iterations.size());
        }
    }
    return sent;
}

} // namespace planloom::ui
