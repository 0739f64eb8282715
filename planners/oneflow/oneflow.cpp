// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/oneflow.h"

#include "engine/compile/stage_model.h"
#include "engine/sharding/megatron.h"
#include "planners/common/memory.h"
#include "planners/oneflow/layout.h"
#include "planners/interface/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace planloom::planners::oneflow {
namespace {

/// A layout that keeps an iteration's time is worth this many times its memory's share of a device at each step of the
/// price of memory (the repository doubles its factor from a tenth to 22; ours are shares of an iteration).
constexpr double kMemoryPrices[] = {0.1, 0.4, 1.6, 6.4};

struct Settings {
    std::vector<int> mesh; ///< empty: all
    std::size_t dimensions = 3;
    bool recompute = false;
    double reserve = 0;
    SolveSettings solve;
};

/// A simulated plan, with the search's estimate.
struct Found {
    plan::Plan plan;
    simulate::Report report;
    bool fits = false;
};

bool beats(const Found &a, const Found &b)
{
    if (a.fits != b.fits)
        return a.fits;
    return a.report.iterationSeconds < b.report.iterationSeconds;
}

/// "2,4" as sizes; empty for "auto". Error: BadInput.
Result<std::vector<int>> meshFrom(const Options &options, std::size_t devices)
{
    const auto option = options.find("mesh");
    const std::string text = option == options.end() ? "auto" : option->second;
    std::vector<int> sizes;
    if (text == "auto")
        return sizes;
    std::size_t product = 1;
    for (const char *at = text.data(), *end = at + text.size(); at <= end;) {
        int size = 0;
        const auto [stop, error] = std::from_chars(at, end, size);
        if (error != std::errc() || size < 1 || (stop != end && *stop != ',')
            || (product *= static_cast<std::size_t>(size)) > devices)
            return badInput(
                fmt::format("option mesh={} is no mesh of up to {} devices; give auto, or sizes such as {},1", text,
                            devices, devices));
        sizes.push_back(size);
        at = stop + 1;
    }
    return sizes;
}

Result<Settings> settingsFrom(const Options &options, const std::vector<OptionInfo> &known, std::size_t devices)
{
    OptionReader reader(options, known);
    Settings settings;
    settings.dimensions = static_cast<std::size_t>(reader.integer("dimensions", 1, 4));
    settings.recompute = reader.choice("recompute") == "auto";
    settings.reserve = reader.number("memory_reserve", 0, 0.9);
    settings.solve.largestTable = static_cast<std::size_t>(reader.integer("largest_table", 1, std::int64_t{1} << 26));
    if (!reader.status())
        return reader.status().error();
    auto mesh = meshFrom(options, devices);
    if (!mesh)
        return mesh.error();
    settings.mesh = *std::move(mesh);
    return settings;
}

/// Devices of the kind that computes most of the model together.
std::vector<DeviceId> strongestKind(const plan::Subject &subject)
{
    std::vector<std::vector<DeviceId>> kinds(subject.cluster->types().size());
    for (const cluster::Device &device : subject.cluster->devices())
        kinds[device.type].push_back(device.id);
    std::size_t best = 0;
    double most = -1;
    for (std::size_t type = 0; type < kinds.size(); ++type) {
        const double seconds = subject.costs->forward(0, subject.layers().size(), 1, type).value();
        const double strength = static_cast<double>(kinds[type].size()) / std::max(seconds, 1e-12);
        if (!kinds[type].empty() && strength > most) {
            best = type;
            most = strength;
        }
    }
    return kinds[best];
}

/// All meshes of @p devices: data parallel first, then up to the given number of dimensions in every order.
void addMeshes(int devices, std::vector<int> mesh, const Settings &settings, std::vector<std::vector<int>> &meshes)
{
    if (devices == 1 && !mesh.empty()) {
        meshes.push_back(std::move(mesh));
        return;
    }
    if (mesh.size() == settings.dimensions)
        return;
    for (int size = devices; size >= (mesh.empty() ? 1 : 2); --size)
        if (devices % size == 0) {
            mesh.push_back(size);
            addMeshes(devices / size, mesh, settings, meshes);
            mesh.pop_back();
        }
}

class Search {
public:
    Search(const Problem &problem, const Options &options, Settings settings, graph::TrainingGraph training,
           Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(std::move(settings)),
          m_training(std::move(training)),
          m_progress(progress),
          m_devices(strongestKind(problem.subject))
    {
    }

    Result<PlanReport> run()
    {
        const std::vector<std::vector<int>> meshes = meshesToTry();
        if (meshes.empty())
            return infeasible(fmt::format("no mesh of {} devices leaves every replica a sample of a batch of {}; give "
                                          "a larger batch or a mesh with a smaller first size",
                                          m_devices.size(), m_problem.globalBatch));
        for (std::size_t i = 0; i < meshes.size() && !m_progress.stopped(); ++i) {
            m_progress.report(static_cast<double>(i) / static_cast<double>(meshes.size()), headline(meshes[i]));
            if (const Status done = mesh(meshes[i]); !done)
                return done.error();
        }
        const bool complete = !m_progress.stopped();
        m_progress.report(1, "done");
        return answer(complete);
    }

private:
    [[nodiscard]] std::string headline(const std::vector<int> &mesh) const
    {
        const std::string at = fmt::format("mesh {}", fmt::join(mesh, " x "));
        if (m_found.empty())
            return at;
        const auto best = std::min_element(m_found.begin(), m_found.end(), beats);
        return fmt::format("{}; best so far {:.4g} ms on {}", at, best->report.iterationSeconds * 1e3,
                           fmt::join(best->plan.stages[0].mesh, " x "));
    }

    [[nodiscard]] std::vector<std::vector<int>> meshesToTry() const
    {
        std::vector<std::vector<int>> meshes;
        if (!m_settings.mesh.empty())
            meshes.push_back(m_settings.mesh);
        else
            addMeshes(static_cast<int>(m_devices.size()), {}, m_settings, meshes);
        std::erase_if(meshes, [&](const std::vector<int> &mesh) { return mesh.front() > m_problem.globalBatch; });
        const auto few = static_cast<int>(
            std::min<std::int64_t>(m_problem.globalBatch, static_cast<std::int64_t>(m_devices.size())));
        if (m_settings.mesh.empty() && few < static_cast<int>(m_devices.size()))
            meshes.push_back({few}); // more devices than samples: some stay idle
        return meshes;
    }

    [[nodiscard]] LayoutProblem layoutProblem(const std::vector<int> &mesh, std::int64_t microBatches) const
    {
        LayoutProblem layout;
        layout.training = &m_training;
        layout.costs = m_problem.subject.costs.get();
        layout.devices = m_devices;
        layout.mesh.sizes = mesh;
        layout.samples = static_cast<double>(m_problem.globalBatch) / static_cast<double>(microBatches) / mesh.front();
        layout.microBatches = static_cast<double>(microBatches);
        layout.update = m_problem.optimizer.rule.footprint();
        return layout;
    }

    /// Fewest micro-batches first; more only where memory asks for it.
    Status mesh(const std::vector<int> &sizes)
    {
        for (const bool recompute : {false, true}) {
            if (recompute && !m_settings.recompute)
                break;
            const std::int64_t most = std::max<std::int64_t>(1, m_problem.globalBatch / sizes.front());
            std::int64_t count = m_problem.microBatch
                ? std::clamp<std::int64_t>(m_problem.globalBatch / (*m_problem.microBatch * sizes.front()), 1, most)
                : 1;
            for (bool last = false; !last && !m_progress.stopped(); count = std::min(2 * count, most)) {
                last = m_problem.microBatch || count == most;
                const auto fits = layouts(layoutProblem(sizes, count), count, recompute);
                if (!fits)
                    return fits.error();
                if (*fits)
                    return {};
            }
        }
        return {};
    }

    /// Every layout of one mesh and number of micro-batches. True if one fits.
    Result<bool> layouts(const LayoutProblem &layout, std::int64_t count, bool recompute)
    {
        bool fits = false;
        const auto consider = [&](const std::map<std::string, sharding::NdSbp> &pins, const char *from,
                                  const Layout *search) -> Status {
            auto found = simulated(layout, pins, count, recompute, search);
            if (!found && found.error().code == ErrorCode::BadInput && search == nullptr)
                return {}; // a seed that this mesh does not allow
            if (!found)
                return found.error();
            fits = fits || found->fits;
            found->plan.estimate[from] = 1;
            m_found.push_back(*std::move(found));
            return {};
        };
        if (layout.mesh.devices() == layout.mesh.sizes.front()) {
            if (const Status done = consider({}, "from_data_parallel", nullptr); !done)
                return done.error();
            return fits;
        }
        for (const auto &pins : megatronLayouts(layout.mesh))
            if (const Status done = consider(pins, "from_megatron", nullptr); !done)
                return done.error();
        const auto search = [&](double price) -> Result<bool> {
            const auto found = searchLayout(layout, price, m_settings.solve);
            if (!found)
                return found.error();
            if (const Status done = consider(found->pins, "from_search", &*found); !done)
                return done.error();
            return m_found.back().fits;
        };
        auto fitted = search(0);
        if (!fitted || *fitted || m_progress.stopped())
            return fitted ? Result<bool>(fits) : fitted;
        // The highest price shows whether anything fits at all; then the lowest that does.
        const double unit = priceOfMemory();
        fitted = search(kMemoryPrices[std::size(kMemoryPrices) - 1] * unit);
        for (std::size_t step = 0; fitted && *fitted && step + 1 < std::size(kMemoryPrices) && !m_progress.stopped();
             ++step) {
            const auto cheaper = search(kMemoryPrices[step] * unit);
            if (!cheaper)
                return cheaper.error();
            if (*cheaper)
                break;
        }
        return fitted ? Result<bool>(fits) : fitted;
    }

    /// Megatron-LM's layouts that differ: where the vocabulary does not divide, or nothing is between blocks, some are
    /// the same.
    [[nodiscard]] std::vector<std::map<std::string, sharding::NdSbp>> megatronLayouts(const sharding::Mesh &mesh) const
    {
        std::vector<std::map<std::string, sharding::NdSbp>> layouts;
        for (const bool sequence : {false, true})
            for (const bool vocabulary : {false, true}) {
                auto pins = sharding::megatronPins(*m_problem.subject.graph, mesh, {sequence, vocabulary});
                if (!pins.empty() && std::find(layouts.begin(), layouts.end(), pins) == layouts.end())
                    layouts.push_back(std::move(pins));
            }
        return layouts;
    }

    /// Seconds for a byte at which a whole device costs as much as an iteration.
    [[nodiscard]] double priceOfMemory() const
    {
        const double capacity =
            static_cast<double>(m_problem.subject.cluster->typeOf(m_devices.front()).memory.value());
        return capacity > 0 ? m_found.back().report.iterationSeconds / capacity : 0;
    }

    Result<Found> simulated(const LayoutProblem &layout, const std::map<std::string, sharding::NdSbp> &pins,
                            std::int64_t count, bool recompute, const Layout *search)
    {
        const auto price = priceOf(layout, pins);
        if (!price)
            return price.error();
        Found found;
        found.plan = emptyPlan(m_problem, "oneflow", m_options);
        found.plan.microBatches = count;
        plan::Stage stage;
        stage.name = "all";
        stage.lastLayer = m_problem.subject.layers().size();
        stage.devices.assign(m_devices.begin(), m_devices.begin() + layout.mesh.devices());
        stage.mesh = layout.mesh.sizes;
        stage.recompute = recompute ? plan::Recompute::Full : plan::Recompute::None;
        stage.zero = stage.replicas() > 1 ? m_problem.zero : 0;
        for (const auto &[name, pin] : pins)
            stage.shardings[name] = sharding::toText(pin);
        found.plan.stages = {std::move(stage)};
        found.plan.estimate = estimateOf(*price, search);
        auto simulation = simulate::simulatePlan(found.plan, m_problem.subject, {false, false});
        if (!simulation)
            return simulation.error();
        found.report = std::move(simulation->report);
        found.fits = std::all_of(found.report.devices.begin(), found.report.devices.end(),
                                 [&](const simulate::DeviceReport &device) {
                                     return static_cast<double>(device.peakBytes)
                                         <= static_cast<double>(device.capacityBytes) * (1 - m_settings.reserve);
                                 });
        return found;
    }

    [[nodiscard]] plan::Estimate estimateOf(const Price &price, const Layout *search) const
    {
        const cost::CostModel &costs = *m_problem.subject.costs;
        const std::size_t type = m_problem.subject.cluster->device(m_devices.front()).type;
        const auto batch = static_cast<double>(m_problem.globalBatch);
        const std::size_t layers = costs.layers().size();
        const double one = (costs.forward(0, layers, batch, type) + costs.backward(0, layers, batch, type)).value();
        plan::Estimate estimate{{"iteration_seconds", price.seconds},
                                {"speedup_over_one_device", price.seconds > 0 ? one / price.seconds : 1},
                                {"boxing_bytes", price.bytes}};
        if (search != nullptr) {
            estimate["search_exact"] = search->exact ? 1 : 0;
            estimate["search_kernel"] = static_cast<double>(search->kernel);
            estimate["search_boxing_bytes"] = search->boxingBytes;
            estimate["operators_changed"] = static_cast<double>(search->changed);
        }
        return estimate;
    }

    Result<PlanReport> answer(bool complete)
    {
        if (m_found.empty())
            return cancelled("stopped before a plan was found");
        std::stable_sort(m_found.begin(), m_found.end(), beats);
        if (!m_found.front().fits)
            return complete ? tooTight() : cancelled("stopped before a plan was found");
        std::vector<Candidate> others;
        for (std::size_t i = 1; i < m_found.size(); ++i)
            if (m_found[i].fits)
                others.push_back({m_found[i].plan, m_found[i].report.iterationSeconds});
        m_found.front().plan.estimate["layouts_simulated"] = static_cast<double>(m_found.size());
        auto report = finish(std::move(m_found.front().plan), m_problem, std::move(others));
        if (report)
            report->complete = complete;
        return report;
    }

    [[nodiscard]] Error tooTight() const
    {
        const auto peak = [](const Found &found) {
            std::int64_t most = 0;
            for (const simulate::DeviceReport &device : found.report.devices)
                most = std::max(most, device.peakBytes);
            return most;
        };
        const auto least = std::min_element(m_found.begin(), m_found.end(),
                                            [&](const Found &a, const Found &b) { return peak(a) < peak(b); });
        return memoryBinds(*m_problem.subject.cluster,
                           limitOf(least->plan, m_problem.subject, least->report, m_settings.reserve));
    }

    const Problem &m_problem;
    const Options &m_options;
    Settings m_settings;
    graph::TrainingGraph m_training;
    Progress &m_progress;
    std::vector<DeviceId> m_devices;
    std::vector<Found> m_found;
};

} // namespace

std::vector<OptionInfo> OneFlowPlanner::options() const
{
    return {{"mesh", "auto",
             "sizes of the device mesh, data parallel first, such as 2,4; auto: every mesh of all devices", "auto"},
            {"dimensions", "3", "dimensions that a mesh may have at most"},
            {"recompute",
             "never",
             "never, or auto: run the forward pass again before backward where nothing fits otherwise",
             "auto",
             {"never", "auto"}},
            {"largest_table", "1048576",
             "entries of the largest table that elimination may leave; larger ones are refined locally"},
            {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"}};
}

Result<PlanReport> OneFlowPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    auto settings = settingsFrom(options, this->options(), strongestKind(problem.subject).size());
    if (!settings)
        return settings.error();
    if (progress.stopped())
        return cancelled("stopped before a plan was found");
    const cost::CostModel &costs = *problem.subject.costs;
    if (const MemoryLimit limit = spreadMemory(costs, MemoryModel(costs, problem.optimizer, settings->reserve),
                                               strongestKind(problem.subject));
        limit.factor() > 1)
        return memoryBinds(*problem.subject.cluster, limit);
    const graph::Graph &graph = *problem.subject.graph;
    if (graph::isLayerProfile(graph))
        return unsupported(fmt::format("model {} is a profile of layers without operators, so there is nothing to lay "
                                       "out; give an .onnx file, a config.json or a zoo model "
                                       "with operators, or use a pipeline planner",
                                       graph.name()));
    auto training = graph::differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {});
    if (!training)
        return training.error();
    return Search(problem, options, *std::move(settings), *std::move(training), progress).run();
}

} // namespace planloom::planners::oneflow
