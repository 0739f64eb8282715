// SPDX-License-Identifier: Apache-2.0
// Memory policies, predicted and measured. Without arguments, or by part:
//     bench_memory train [MODEL [POLICY | SHARE% | ROUNDSx]...]   resnet-50, resnet-101, bert-large, gpt2: real ranks
//                                              on this processor; "delta ahead 30% 2x": both, at 30 %, 2 runs each
//     bench_memory predicted                   the same models at full size on a V100: policies by budgets
//     bench_memory optimum                     small graphs against the shortest course that there is
// Training: each model is profiled without a policy, then trained for 5 steps at 60, 45 and 30 % of the activations
// that it takes without a limit, in turn without it and with it. Printed are the seconds of a step without the policy,
// predicted and measured; with it, how much longer the step takes by the prediction and by the clock, the fastest step
// of all runs against that of those without it, as what else the machine does makes steps longer only; the pool of
// activations and its budget; the arena, which has to be the planned one to the byte, and the memory of the process;
// whether the losses are those without the policy to the bit, and whether every step's decisions, read from the run's
// trace, are the predicted ones. A budget that a policy cannot keep is printed as that. Sizes are the smallest that
// still are these models (see kCases).
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/import.h"
#include "engine/plan/plan_json.h"
#include "engine/simulate/simulate.h"
#include "planners/common/memory_policy.h"
#include "planners/registry.h"
#include "tests/bench/planloom_command.h"
#include "tests/gpu/small_images.h"
#include "tests/engine/memory/optimum.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <unistd.h>

using namespace planloom;

namespace {

constexpr int kShares[] = {60, 45, 30}; ///< percent
constexpr int kSteps = 5;

/// What of the training is run.
struct Wanted {
    std::string model; ///< empty: every one
    std::vector<std::string> policies;
    std::vector<int> shares;
    int rounds = 3; ///< runs without the policy and with it, in turn
};

/// The policies of the tables, each with what it is called there.
const std::vector<std::string> &policies()
{
    static const std::vector<std::string> all{
        "delta",    "delta,director=chain", "dtr,director=recompute",   "capuchin",
        "knapsack", "delta,director=swap",  "delta,director=recompute", "ahead"};
    return all;
}

Result<graph::Graph> resnet(bool deep)
{
    constexpr std::int64_t kImage = 64;
    const auto model = deep ? graph::resnet101() : graph::resnet50();
    return model ? test::withImages(*model, kImage) : model;
}

Result<graph::Graph> bertLarge(std::int64_t context)
{
    graph::TransformerConfig config{"bert-large", 24, 16, 1024, 4096, 30522, context, true, 0.02};
    return graph::bert(config);
}

Result<graph::Graph> gpt2(std::int64_t context)
{
    graph::TransformerConfig config;
    config.context = context;
    return graph::gpt(config);
}

struct Case {
    const char *name;
    std::function<Result<graph::Graph>()> model;
    std::int64_t batch;
    const char *size;
};
const Case kCases[] = {
    {"resnet-50", [] { return resnet(false); }, 4, "4 images of 64 x 64"},
    {"resnet-101", [] { return resnet(true); }, 4, "4 images of 64 x 64"},
    {"bert-large", [] { return bertLarge(64); }, 1, "1 sample of 64 tokens"},
    {"gpt2", [] { return gpt2(64); }, 1, "1 sample of 64 tokens"},
};

/// A file of numbers that a folder of data consists of.
template <class Number>
Status writeNumbers(const std::string &path, const char *type, const std::string &shape,
                    const std::vector<Number> &numbers)
{
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
    constexpr std::size_t kBlock = 64;
    constexpr std::size_t kFront = 10; // magic, version, length
    header.append(kBlock - 1 - (kFront + header.size()) % kBlock, ' ');
    header += '\n';
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size() & 0xFF);
    text += static_cast<char>(header.size() >> 8);
    text += header;
    text.append(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(Number));
    return writeFileAtomically(path, text);
}

/// Images of noise in as many classes as there are images.
Status writeImages(const std::string &folder, const graph::Graph &model)
{
    constexpr std::int64_t kImages = 32;
    const TensorId x = model.find("x");
    const std::vector<std::int64_t> sizes = model.tensor(x).shape.at(1);
    std::vector<float> pixels(static_cast<std::size_t>(kImages * sizes[1] * sizes[2] * sizes[3]));
    std::uint32_t state = 1;
    for (float &pixel : pixels) {
        state = state * 1664525U + 1013904223U;
        pixel = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
    }
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < kImages; ++i)
        labels.push_back(i);
    std::filesystem::create_directories(folder);
    if (const Status written =
            writeNumbers(folder + "/x.npy", "<f4",
                         fmt::format("({}, {}, {}, {})", kImages, sizes[1], sizes[2], sizes[3]), pixels);
        !written)
        return written;
    return writeNumbers(folder + "/labels.npy", "<i8", fmt::format("({},)", kImages), labels);
}

Result<planners::PlanReport> planned(const plan::Subject &subject, std::int64_t batch, const std::string &policy)
{
    planners::Problem problem;
    problem.subject = subject;
    problem.globalBatch = batch;
    problem.microBatch = batch;
    auto rule = update::ConfiguredRule::named("sgd");
    if (!rule)
        return rule.error();
    problem.optimizer.rule = *std::move(rule);
    problem.optimizer.learningRate = 1e-3;
    NoProgress progress;
    auto report = (*planners::findPlanner("data-parallel"))->plan(problem, {}, progress);
    if (!report || policy.empty())
        return report;
    const auto request = planners::memoryRequest(policy);
    if (!request)
        return request.error();
    return planners::withMemoryPolicy(*std::move(report), problem, *request);
}

/// What a run of the command said.
struct Run {
    std::vector<double> losses;
    double fastest = std::numeric_limits<double>::infinity(); ///< seconds of a step, the first one apart
    std::int64_t arena = 0, arenaPlanned = 0;
    std::int64_t beyond = 0; ///< bytes of the process beside the arena
    std::int64_t decisions = 0;
    bool decisionsDiffer = false;
};

class Training {
public:
    explicit Training(std::string folder) : m_folder(std::move(folder)) {}

    /// A model without a policy: profiled, planned and trained.
    Status begin(const Case &each)
    {
        m_case = &each;
        auto graph = each.model();
        if (!graph)
            return graph.error();
        m_model = std::make_shared<const graph::Graph>(std::move(*graph));
        const auto cluster = import::loadCluster("local");
        if (!cluster)
            return cluster.error();
        m_data = "/usr/share/common-licenses/GPL-3";
        if (m_model->find("x").valid()) {
            m_data = m_folder + "/images";
            if (Status written = writeImages(m_data, *m_model); !written)
                return written;
        }
        m_subject = plan::makeSubject(m_model, *cluster, nullptr, "zoo:" + m_model->name());
        if (Status written = write(""); !written)
            return written;
        const std::string profileFile = m_folder + "/profile.json";
        if (const auto ran = bench::planloom({"profile", "--plan", freePlan(), "-o", profileFile, "--quiet"}); !ran)
            return ran.error();
        const auto text = readFile(profileFile);
        auto profile = text ? cost::profileFromJson(*text) : Result<cost::Profile>(text.error());
        if (!profile)
            return profile.error();
        fmt::print("\n{}, {}: copies to the host at {:.1f} GB/s\n", each.name, each.size,
                   profile->extra.at("host_copy_bytes_per_second") * 1e-9);
        m_subject = plan::makeSubject(m_model, *cluster, std::make_shared<const cost::Profile>(std::move(*profile)),
                                      "zoo:" + m_model->name());
        if (Status written = write("delta,budget=100%"); !written)
            return written;
        m_unlimited = m_pool;
        if (Status written = write(""); !written)
            return written;
        const auto free = train(freePlan());
        if (!free)
            return free.error();
        m_free = *free;
        m_freePredicted = m_predicted;
        fmt::print("no policy: step predicted {:.1f} ms, measured {:.1f} ms; arena {:.1f} MB, process beyond it {:.1f} "
                   "MB; losses {:.9g} ... {:.9g}\n",
                   m_freePredicted * 1e3, m_free.fastest * 1e3, mega(m_free.arena), mega(m_free.beyond),
                   m_free.losses.front(), m_free.losses.back());
        fmt::print("{:<26} {:>6} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10} {:>8} {:>7} {:>9}\n", "policy", "budget",
                   "predicted", "measured", "differ", "pool MB", "budget MB", "arena MB", "beyond", "losses",
                   "decisions");
        return {};
    }

    Status row(const std::string &policy, int share, int rounds)
    {
        m_budget = m_unlimited * share / 100;
        if (const Status written = write(fmt::format("{},budget={}", policy, m_budget)); !written) {
            fmt::print("{:<26} {:>5}% {}\n", policy, share, written.error().message);
            return {};
        }
        double free = std::numeric_limits<double>::infinity(); // fastest steps
        double limited = free;
        Result<Run> run = Run();
        for (int round = 0; round < rounds; ++round) {
            const auto without = train(freePlan());
            if (!without)
                return without.error();
            free = std::min(free, without->fastest);
            run = train(limitedPlan());
            if (!run)
                return run.error();
            limited = std::min(limited, run->fastest);
        }
        const double predicted = m_predicted / m_freePredicted - 1;
        const double measured = limited / free - 1;
        const bool alike = run->losses == m_free.losses;
        const bool kept = run->arena == run->arenaPlanned && m_pool <= m_budget;
        fmt::print("{:<26} {:>5}% {:>8.1f}% {:>8.1f}% {:>+7.1f}% {:>10.2f} {:>10.2f} {:>10.2f} {:>8.1f} {:>7} {:>9}\n",
                   policy, share, predicted * 100, measured * 100, ((1 + predicted) / (1 + measured) - 1) * 100,
                   mega(m_pool), mega(m_budget), mega(run->arena), mega(run->beyond), alike ? "equal" : "DIFFER",
                   fmt::format("{}{}", run->decisions, run->decisionsDiffer ? " DIFFER" : " equal"));
        std::fflush(stdout);
        m_bad = m_bad || !alike || !kept || run->decisionsDiffer;
        if (!kept)
            fmt::print("  NOT KEPT: arena {} for {}, pool {} for {}\n", run->arena, run->arenaPlanned, m_pool,
                       m_budget);
        return {};
    }

    [[nodiscard]] bool bad() const { return m_bad; }

private:
    [[nodiscard]] std::string freePlan() const { return m_folder + "/plan.json"; }
    [[nodiscard]] std::string limitedPlan() const { return m_folder + "/limited.json"; }

    static double mega(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

    /// The plan's file; its prediction and its pool.
    Status write(const std::string &policy)
    {
        const auto report = planned(m_subject, m_case->batch, policy);
        if (!report)
            return report.error();
        m_predicted = report->predicted.iterationSeconds;
        if (!policy.empty()) {
            const auto program = compile::compilePlan(report->plan, m_subject, {.bodies = false});
            if (!program)
                return program.error();
            m_pool = program->bodies.front().pools[static_cast<std::size_t>(program::Area::Pool)].bytes();
        }
        return plan::writePlan({report->plan, m_subject}, policy.empty() ? freePlan() : limitedPlan());
    }

    Result<Run> train(const std::string &plan)
    {
        const std::string runFolder = m_folder + "/run";
        std::filesystem::remove_all(runFolder);
        std::vector<std::string> words{"train",     plan,      "--data", m_data, "--steps", std::to_string(kSteps),
                                       "--run-dir", runFolder, "--json"};
        if (plan == limitedPlan())
            words.insert(words.end(), {"--decisions", m_folder + "/decisions.tsv"});
        const auto text = bench::planloom(words);
        if (!text)
            return text.error();
        Run run;
        for (std::size_t begin = 0; begin < text->size();) {
            const std::size_t end = std::min(text->find('\n', begin), text->size());
            const auto line = nlohmann::json::parse(text->substr(begin, end - begin), nullptr, false);
            begin = end + 1;
            if (!line.is_object())
                continue;
            if (line.contains("loss")) {
                run.losses.push_back(line.at("loss").get<double>());
                if (run.losses.size() > 1)
                    run.fastest = std::min(run.fastest, line.at("seconds").get<double>());
            }
            if (line.contains("decisions")) {
                run.decisions = line.at("decisions").at("predicted").get<std::int64_t>();
                run.decisionsDiffer = line.at("decisions").at("steps").get<int>() != kSteps
                    || !line.at("decisions").at("differing_steps").empty();
            }
            if (!line.contains("summary"))
                continue;
            const auto &summary = line.at("summary");
            run.arenaPlanned = summary.at("peak_bytes_predicted").at(0).get<std::int64_t>();
            run.arena = summary.at("peak_bytes_measured").at(0).get<std::int64_t>();
            run.beyond = summary.at("beyond_arena_bytes").at(0).get<std::int64_t>();
        }
        if (run.losses.size() != kSteps)
            return failed("train said: " + *text);
        return run;
    }

    std::string m_folder;
    const Case *m_case = nullptr;
    std::shared_ptr<const graph::Graph> m_model;
    plan::Subject m_subject;
    std::string m_data;
    double m_predicted = 0;
    std::int64_t m_pool = 0, m_budget = 0;
    std::int64_t m_unlimited = 0; ///< the pool without a limit
    Run m_free;
    double m_freePredicted = 0;
    bool m_bad = false;
};

/// From "resnet-50 delta ahead 30% 2x".
Wanted wantedOf(const std::vector<std::string> &words)
{
    Wanted wanted;
    for (const std::string &word : words) {
        const int number = std::atoi(word.c_str());
        if (&word == &words.front())
            wanted.model = word;
        else if (number > 0 && word.back() == '%')
            wanted.shares.push_back(number);
        else if (number > 0 && word.back() == 'x')
            wanted.rounds = number;
        else
            wanted.policies.push_back(word);
    }
    if (wanted.policies.empty())
        wanted.policies = policies();
    if (wanted.shares.empty())
        wanted.shares.assign(std::begin(kShares), std::end(kShares));
    return wanted;
}

Status trainModels(const Wanted &wanted, bool &bad)
{
    const std::string folder =
        (std::filesystem::temp_directory_path() / fmt::format("planloom-memory-{}", ::getpid())).string();
    std::filesystem::create_directories(folder);
    Training training(folder);
    Status status;
    for (const Case &each : kCases) {
        if (!wanted.model.empty() && wanted.model != each.name)
            continue;
        status = training.begin(each);
        for (const int share : wanted.shares)
            for (const std::string &policy : wanted.policies)
                if (status)
                    status = training.row(policy, share, wanted.rounds);
        if (!status)
            break;
    }
    bad = bad || training.bad();
    std::filesystem::remove_all(folder);
    return status;
}

/// The zoo's models on one V100 without regard to its 16 GB: how much longer a step takes.
Status predict(bool &bad)
{
    const std::pair<const char *, std::int64_t> models[] = {
        {"zoo:resnet-50", 64}, {"zoo:resnet-101", 64}, {"zoo:bert-large", 8}, {"zoo:gpt2", 4}};
    cluster::RegularCluster spec;
    spec.name = "v100";
    spec.perNode = 1;
    spec.type = *cluster::knownDeviceType("V100-16GB");
    spec.type.memory = Bytes(std::int64_t{1} << 40);
    spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e10;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        return cluster.error();
    const auto shared = std::make_shared<const cluster::Cluster>(*std::move(cluster));
    for (const auto &[name, batch] : models) {
        const auto model = import::loadModel(name);
        if (!model)
            return model.error();
        const plan::Subject subject = plan::makeSubject(model->graph, shared, nullptr, name);
        const auto free = planned(subject, batch, "");
        if (!free)
            return free.error();
        fmt::print("\n{}, batch {}, one V100: {:.1f} ms without a policy; longer with 60 %, 45 %, 30 % of the "
                   "activations\n",
                   name, batch, free->predicted.iterationSeconds * 1e3);
        std::map<int, double> rule;
        for (const std::string &policy : policies()) {
            fmt::print("{:<26}", policy);
            for (const int share : kShares) {
                const auto limited = planned(subject, batch, fmt::format("{},budget={}%", policy, share));
                if (!limited) {
                    fmt::print("{:>10}", "-");
                    continue;
                }
                const double seconds = limited->predicted.iterationSeconds;
                fmt::print("{:>9.1f}%", (seconds / free->predicted.iterationSeconds - 1) * 100);
                if (policy == "delta")
                    rule[share] = seconds;
                if (policy == "ahead" && rule.contains(share) && seconds > rule[share] * (1 + 1e-9)) {
                    fmt::print("  SLOWER THAN delta");
                    bad = true;
                }
            }
            fmt::print("\n");
            std::fflush(stdout);
        }
    }
    return {};
}

/// Forward chains with a backward pass, as the golden tables have them, small enough for the search.
memory::Stream chainOf(int n, std::pair<double, std::int64_t> odd, std::pair<double, std::int64_t> even)
{
    memory::Stream stream;
    stream.storages.push_back({0, -1, false});
    for (int i = 1; i <= n; ++i) {
        const auto &[seconds, bytes] = i % 2 == 1 ? odd : even;
        stream.storages.push_back({bytes, i - 1, true});
        stream.operators.push_back({seconds, {i - 1}, {i}, {}, 0});
    }
    for (int i = n; i >= 1; --i)
        stream.operators.push_back({2 * (i % 2 == 1 ? odd : even).first, {i, i - 1}, {}, {i}, 0});
    return stream;
}

Status compareWithOptimum(bool &bad)
{
    const std::pair<const char *, memory::Stream> streams[] = {
        {"U10", chainOf(10, {1, 1}, {1, 1})}, {"A10", chainOf(10, {5, 4}, {1, 1})},
        {"B10", chainOf(10, {1, 4}, {5, 1})}, {"U12", chainOf(12, {1, 1}, {1, 1})},
        {"A14", chainOf(14, {5, 4}, {1, 1})}, {"B14", chainOf(14, {1, 4}, {5, 1})},
    };
    fmt::print(
        "\nchains at 80 %, 60 % and 50 % of their bytes, copies at 2 bytes/s in the way of operators: seconds, and "
        "over the optimum\n");
    for (const auto &[name, stream] : streams)
        for (const double share : {0.8, 0.6, 0.5}) {
            memory::Limits limits;
            limits.policy.filter = plan::MemoryFilter::Ahead;
            limits.policy.overlaps = false;
            limits.policy.smallShare = 0;
            limits.budget = static_cast<std::int64_t>(std::ceil(static_cast<double>(stream.peakBytes()) * share));
            limits.copies = {2, 2, 0};
            const auto optimum = memory::optimalSeconds(stream, limits);
            const auto ahead = memory::walk(stream, limits);
            limits.policy.filter = plan::MemoryFilter::Delta;
            const auto delta = memory::walk(stream, limits);
            const auto text = [&](const Result<memory::Course> &course) {
                return course && optimum
                    ? fmt::format("{:>7.2f} {:>+6.1f}%", course->seconds, (course->seconds / *optimum - 1) * 100)
                    : std::string("      -       -");
            };
            fmt::print("{} {:>3.0f}%  least {:>7}  without {:>6.2f}  ahead {}  delta {}\n", name, share * 100,
                       optimum ? fmt::format("{:.2f}", *optimum) : std::string("-"), stream.seconds(), text(ahead),
                       text(delta));
            std::fflush(stdout);
            bad = bad || (optimum && (!ahead || ahead->seconds > 1.1 * *optimum));
        }
    return {};
}

} // namespace

int main(int argc, char **argv)
{
    const std::string part = argc > 1 ? argv[1] : "";
    bool bad = false;
    Status status;
    if (part.empty() || part == "optimum")
        status = compareWithOptimum(bad);
    if (status && (part.empty() || part == "predicted"))
        status = predict(bad);
    if (status && (part.empty() || part == "train"))
        status = trainModels(
            wantedOf(argc > 2 ? std::vector<std::string>(argv + 2, argv + argc) : std::vector<std::string>()), bad);
    if (!status) {
        fmt::print(stderr, "bench_memory: {}\n", status.error().text());
        return 1;
    }
    return bad ? 1 : 0;
}
