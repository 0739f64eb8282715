// SPDX-License-Identifier: Apache-2.0
#include "profiler/profile_model.h"

#include "profiler/rank_threads.h"
#include "profiler/replica.h"
#include "profiler/shared_reduction.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

namespace planloom::profiler {
namespace {

constexpr int kFewest = 3;
constexpr int kMost = 30;
constexpr double kLongEnough = 0.7; ///< seconds of passes of one size, after which a median is steady to about 1 %
constexpr std::int64_t kMostSamples = 1 << 20;
constexpr int kMostRanks = 256;

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    if (values.size() % 2 == 1)
        return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Status check(const ProfileOptions &options)
{
    if (options.device != "cpu")
        return unsupported(fmt::format("operators cannot be measured on '{}'; 'cpu' can", options.device));
    if (options.samples.empty())
        return badInput("no sample count is given to measure at; name at least one, such as 1");
    for (const std::int64_t samples : options.samples) {
        if (samples < 1 || samples > kMostSamples)
            return badInput(fmt::format("{} samples cannot be measured; name counts from 1 to {}", samples, kMostSamples));
    }
    if (options.ranks < 1 || options.ranks > kMostRanks || options.threads < 0 || options.repetitions < 0)
        return badInput(fmt::format("{} ranks of {} threads, {} times, cannot be measured", options.ranks, options.threads, options.repetitions));
    return {};
}

/// The model on one device, one slice of @p samples per step: what each rank measures.
Result<program::Program> programOf(const std::shared_ptr<const graph::Graph> &graph, std::int64_t samples, const plan::Optimizer &optimizer)
{
    cluster::RegularCluster spec;
    spec.name = "profiled";
    spec.type = {"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 50), 1e10}; // only its memory matters: it must not bind
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        return cluster.error();
    const auto subject = plan::makeSubject(graph, std::make_shared<const cluster::Cluster>(std::move(*cluster)), nullptr, {});
    plan::Plan plan;
    plan.globalBatch = samples;
    plan.optimizer = optimizer;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = subject.layers().size();
    stage.devices = {DeviceId(0)};
    plan.stages.push_back(std::move(stage));
    return program::compile(plan, subject);
}

/// Which operator of the model each operator of the training graph works for.
std::vector<std::string> ownersOf(const graph::Graph &model, const graph::TrainingGraph &training)
{
    std::set<std::string, std::less<>> names;
    for (const graph::Op &op : model.ops())
        names.insert(op.name);
    std::vector<std::string> owners;
    for (const graph::Op &op : training.graph.ops()) {
        constexpr std::string_view kGradient = "grad/";
        std::string_view name = op.name;
        if (owners.size() < training.forwardOps || !name.starts_with(kGradient)) {
            owners.emplace_back(owners.size() < training.forwardOps ? op.name : owners.back());
            continue;
        }
        name.remove_prefix(kGradient.size());
        const TensorId tensor = model.find(name.substr(0, name.rfind('#')));
        if (tensor.valid() && model.tensor(tensor).producer.valid()) { // a sum of gradients
            owners.push_back(model.op(model.tensor(tensor).producer).name);
            continue;
        }
        std::string_view owner = name.substr(0, std::min(name.rfind('/'), name.size()));
        const auto found = names.find(owner);
        owners.push_back(found != names.end() ? *found : owners.back());
    }
    return owners;
}

/// What one rank measured at one sample count.
struct RankTimes {
    Status status;
    PassTimes forward;
    PassTimes backward;
    std::vector<double> optimizer;
};

class Measurement {
public:
    Measurement(const graph::Graph &graph, const program::Program &program, const data::Needs &needs, const ProfileOptions &options)
        : m_graph(graph), m_program(program), m_needs(needs), m_options(options), m_data(needs), m_times(static_cast<std::size_t>(options.ranks))
    {
    }

    Status run(const std::function<bool()> &stopped)
    {
        RankThreads::run(m_options.ranks, m_options.threads, [&](int rank, RankThreads &all) { measure(rank, all, stopped); });
        for (const RankTimes &times : m_times) {
            if (!times.status)
                return times.status;
        }
        return m_stopped ? Status(cancelled()) : Status();
    }

    [[nodiscard]] const std::vector<RankTimes> &times() const { return m_times; }

private:
    void measure(int rank, RankThreads &all, const std::function<bool()> &stopped)
    {
        RankTimes &times = m_times[static_cast<std::size_t>(rank)];
        auto replica = Replica::create(m_program, m_graph, {&m_data, m_needs, data::SampleOrder(m_data.samples(), m_options.seed, 0)}, m_options);
        if (!replica) {
            times.status = replica.error();
            all.leave();
        }
        if (!all.sync())
            return;
        (*replica)->pass(false); // makes what kernels make at their first run, and touches the memory
        (*replica)->optimize(m_options.optimizer);
        const auto begin = std::chrono::steady_clock::now();
        for (int done = 0;; ++done) {
            if (rank == 0 && ((m_stopped = stopped()) || enough(done, begin)))
                all.leave();
            if (!all.sync())
                break;
            (*replica)->pass(true);
            if (done % 4 == 0)
                times.optimizer.push_back((*replica)->optimize(m_options.optimizer));
        }
        times.forward = (*replica)->forward();
        times.backward = (*replica)->backward();
    }

    [[nodiscard]] bool enough(int done, std::chrono::steady_clock::time_point begin) const
    {
        if (m_options.repetitions > 0)
            return done >= m_options.repetitions;
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
        return done >= kMost || (done >= kFewest && spent.count() > kLongEnough);
    }

    const graph::Graph &m_graph;
    const program::Program &m_program;
    const data::Needs &m_needs;
    const ProfileOptions &m_options;
    MadeUpData m_data;
    std::vector<RankTimes> m_times;
    bool m_stopped = false;
};

/// Median time of each operator over all ranks and repetitions, scaled so that the sum is the median of the whole pass: medians of
/// parts add up to less than the median of their sum.
std::vector<double> medianOperators(const std::vector<RankTimes> &ranks, PassTimes RankTimes::*pass)
{
    std::vector<double> whole;
    for (const RankTimes &rank : ranks)
        whole.insert(whole.end(), (rank.*pass).whole.begin(), (rank.*pass).whole.end());
    std::vector<double> operators((ranks.front().*pass).operators.size());
    for (std::size_t i = 0; i < operators.size(); ++i) {
        std::vector<double> all;
        for (const RankTimes &rank : ranks)
            all.insert(all.end(), (rank.*pass).operators[i].begin(), (rank.*pass).operators[i].end());
        operators[i] = median(std::move(all));
    }
    const double sum = std::accumulate(operators.begin(), operators.end(), 0.0);
    for (double &seconds : operators)
        seconds *= sum > 0 ? median(whole) / sum : 1;
    return operators;
}

void addTimes(cost::Profile &profile, const graph::Graph &graph, const program::Program &program, const std::vector<RankTimes> &ranks, std::int64_t samples)
{
    const graph::TrainingGraph &training = program.bodies.front().training;
    const std::vector<std::string> owners = ownersOf(graph, training);
    std::map<std::string, cost::OpTime> times;
    for (const graph::Op &op : graph.ops())
        times[op.name].samples = static_cast<double>(samples);
    const auto forward = medianOperators(ranks, &RankTimes::forward);
    const auto backward = medianOperators(ranks, &RankTimes::backward);
    for (std::size_t i = 0; i < forward.size(); ++i)
        times[owners[i]].forward += Seconds(forward[i]);
    for (std::size_t i = 0; i < backward.size(); ++i)
        times[owners[training.forwardOps + i]].backward += Seconds(backward[i]);
    for (const auto &[name, time] : times)
        profile.ops[name].push_back(time);
}

std::string sourceText(const ProfileOptions &options)
{
    return fmt::format("measured on this machine ({} cores) by planloom: {} rank(s) at a time, {} thread(s) each", std::thread::hardware_concurrency(), options.ranks,
                       options.threads > 0 ? std::to_string(options.threads) : std::string("its share of the cores in"));
}

} // namespace

std::vector<std::int64_t> samplesOf(const plan::Plan &plan)
{
    std::set<std::int64_t> sizes;
    for (std::int64_t m = 0; m < plan.microBatches; ++m) {
        const std::int64_t samples = plan::microBatchRange(plan, m).size;
        for (const plan::Stage &stage : plan.stages) {
            for (std::size_t replica = 0; replica < stage.devices.size(); ++replica)
                sizes.insert(plan::replicaRange(stage, replica, samples).size);
        }
    }
    sizes.erase(0);
    return {sizes.begin(), sizes.end()};
}

int ranksOf(const plan::Plan &plan)
{
    std::set<DeviceId> devices;
    for (const plan::Stage &stage : plan.stages)
        devices.insert(stage.devices.begin(), stage.devices.end());
    return static_cast<int>(devices.size());
}

Result<cost::Profile> profileModel(const std::shared_ptr<const graph::Graph> &graph, const ProfileOptions &options, Progress &progress)
{
    if (const Status good = check(options); !good)
        return good.error();
    const auto needs = data::needsOf(*graph);
    if (!needs)
        return needs.error();
    cost::Profile profile;
    profile.model = graph->name();
    profile.deviceType = "CPU";
    profile.source = sourceText(options);
    const std::set<std::int64_t> sizes(options.samples.begin(), options.samples.end());
    std::vector<double> optimizer;
    std::size_t done = 0;
    for (const std::int64_t samples : sizes) {
        progress.report(static_cast<double>(done++) / static_cast<double>(sizes.size()), fmt::format("measuring {} sample(s)", samples));
        const auto program = programOf(graph, samples, options.optimizer);
        if (!program)
            return program.error();
        Measurement measurement(*graph, *program, *needs, options);
        if (const Status measured = measurement.run([&] { return progress.stopped(); }); !measured)
            return measured.error();
        addTimes(profile, *graph, *program, measurement.times(), samples);
        for (const RankTimes &rank : measurement.times())
            optimizer.insert(optimizer.end(), rank.optimizer.begin(), rank.optimizer.end());
    }
    if (graph->parameterCount() > 0)
        profile.extra["optimizer_seconds_per_parameter"] = median(std::move(optimizer)) / static_cast<double>(graph->parameterCount());
    if (options.ranks > 1)
        profile.extra["allreduce_bytes_per_second"] = sharedReductionRate(options.ranks, graph->parameterBytes());
    progress.report(1, "measured");
    return profile;
}

} // namespace planloom::profiler
