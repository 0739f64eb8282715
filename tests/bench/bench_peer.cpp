// SPDX-License-Identifier: Apache-2.0
// GPT-2 training steps of this engine and of PyTorch, taken in turn with the same weights, samples and optimizer: time, ratio, rate against
// the machine's rate of one large matrix product, and how far the losses are apart.
// On a machine that does other work too, the seconds of processor time per core tell more than those of the clock: both are printed.
//     bench_peer [MODEL [STEPS [SAMPLES [fp32 | bf16 [PYTHON]]]]]        default zoo:gpt2 5 1 fp32 /usr/bin/python3
// FLOPs are counted as 6 N + 6 L C T a token (N parameters, the shared table once; L layers of width C over T tokens, causal).
#include "engine/import/import.h"
#include "engine/program/program.h"
#include "executor/device/kernel.h"
#include "executor/runtime/arena.h"
#include "executor/runtime/body_runner.h"
#include "executor/runtime/sleeping_threads.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace planloom;

constexpr std::int64_t kSeed = 1;
constexpr int kWarmUp = 1; ///< first steps that are not timed

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What this process has computed so far, on all cores.
double processorSeconds()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double cores()
{
    return static_cast<double>(std::max(1U, std::thread::hardware_concurrency()));
}

struct Spent {
    double clock = 0;
    double processor = 0; ///< per core
};

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

struct Options {
    std::string model = "zoo:gpt2";
    std::int64_t steps = 5;
    std::int64_t samples = 1;
    plan::Precision precision = plan::Precision::Float32;
    std::string python = "/usr/bin/python3";
};

Options parse(int argc, char **argv)
{
    Options options;
    if (argc > 1)
        options.model = argv[1];
    if (argc > 2)
        options.steps = std::strtol(argv[2], nullptr, 10);
    if (argc > 3)
        options.samples = std::strtol(argv[3], nullptr, 10);
    if (argc > 4 && std::string(argv[4]) == "bf16")
        options.precision = plan::Precision::BFloat16;
    if (argc > 5)
        options.python = argv[5];
    return options;
}

/// Sequences in which each token has a likely successor, so that there is something to learn.
class Sequences final : public data::DataSet {
public:
    explicit Sequences(const data::Needs &needs) : m_needs(needs) {}
    [[nodiscard]] std::int64_t samples() const override { return 1 << 16; }
    void fillInput(std::int64_t sample, void *out) const override
    {
        for (std::int64_t i = 0; i < m_needs.perSample; ++i)
            static_cast<std::int64_t *>(out)[i] = token(sample, i);
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        for (std::int64_t i = 0; i < m_needs.perSample; ++i)
            out[i] = token(sample, i + 1);
    }

private:
    [[nodiscard]] std::int64_t token(std::int64_t sample, std::int64_t i) const
    {
        const auto mixed = (static_cast<std::uint64_t>(sample + i / 4) + 1) * 0x9e3779b97f4a7c15U >> 40;
        return static_cast<std::int64_t>((mixed + static_cast<std::uint64_t>(i % 4) * 7) % static_cast<std::uint64_t>(m_needs.classes));
    }
    data::Needs m_needs;
};

/// The whole model as the one rank of a plan holds it.
class Ours final : private runtime::Between {
public:
    static Result<std::unique_ptr<Ours>> make(const std::shared_ptr<const graph::Graph> &graph, const Options &options)
    {
        std::unique_ptr<Ours> ours(new Ours(graph));
        auto needs = data::needsOf(*graph);
        if (!needs)
            return needs.error();
        ours->m_data = std::make_unique<Sequences>(*needs);
        if (const Status status = ours->compile(options); !status)
            return status.error();
        ours->m_feed = std::make_unique<runtime::Feed>(runtime::Feed{ours->m_data.get(), *needs, data::SampleOrder(ours->m_data->samples(), kSeed, 0)});
        auto arena = runtime::Arena::allocate(ours->m_program.ranks.front().arenaBytes);
        if (!arena)
            return arena.error();
        ours->m_arena = std::move(*arena);
        auto body = runtime::BodyRunner::create(ours->m_program, ours->m_program.bodies.front(), ours->m_arena, *ours->m_feed);
        if (!body)
            return body.error();
        ours->m_body = std::move(*body);
        ours->m_body->prepareUpdate(ours->m_plan.optimizer);
        if (const Status status = ours->m_body->initialize(*graph, kSeed, {}); !status)
            return status.error();
        return ours;
    }

    /// Loss of the step.
    double step(Spent *spent)
    {
        const double begin = now();
        const double processorBegin = processorSeconds();
        m_body->forward(0, m_step, *this);
        m_body->backward(0, *this);
        m_body->optimize(m_plan.optimizer, {m_step++, m_plan.optimizer.learningRate, 1});
        *spent = {now() - begin, (processorSeconds() - processorBegin) / cores()};
        return m_body->takeLoss();
    }

    [[nodiscard]] const plan::Plan &plan() const { return m_plan; }
    [[nodiscard]] const runtime::Feed &feed() const { return *m_feed; }

private:
    explicit Ours(const std::shared_ptr<const graph::Graph> &graph) : m_graph(graph) {}
    void betweenOperators() override {}

    Status compile(const Options &options)
    {
        cluster::RegularCluster spec;
        spec.name = "one";
        spec.type = {"CPU", {{"float32", 1e11}}, Bytes(std::int64_t{1} << 50), 1e10}; // only its memory matters: it must not bind
        spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
        auto cluster = cluster::regular(spec);
        if (!cluster)
            return cluster.error();
        const auto subject = plan::makeSubject(m_graph, std::make_shared<const cluster::Cluster>(std::move(*cluster)), nullptr, {});
        m_plan.globalBatch = options.samples;
        m_plan.precision = options.precision;
        m_plan.optimizer.kind = plan::Optimizer::Kind::AdamW;
        m_plan.optimizer.learningRate = 1e-4;
        plan::Stage stage;
        stage.name = "all";
        stage.lastLayer = subject.layers().size();
        stage.devices = {DeviceId(0)};
        m_plan.stages.push_back(std::move(stage));
        auto program = program::compile(m_plan, subject);
        if (!program)
            return program.error();
        m_program = std::move(*program);
        return {};
    }

    std::shared_ptr<const graph::Graph> m_graph;
    plan::Plan m_plan;
    program::Program m_program;
    std::unique_ptr<Sequences> m_data;
    std::unique_ptr<runtime::Feed> m_feed;
    runtime::Arena m_arena;
    std::unique_ptr<runtime::BodyRunner> m_body;
    std::int64_t m_step = 0;
};

/// What the peer has to know of the model, read off its operators.
struct Sizes {
    std::int64_t layers = 0, heads = 0, width = 0, context = 0;
};

Sizes sizesOf(const graph::Graph &graph)
{
    Sizes sizes;
    for (const graph::Op &op : graph.ops()) {
        if (op.type != "Attention")
            continue;
        ++sizes.layers;
        sizes.heads = op.integer("heads");
        sizes.context = graph.tensor(op.outputs[0]).shape[1].size;
        sizes.width = graph.tensor(op.outputs[0]).shape[2].size;
    }
    return sizes;
}

void writeExchange(const std::filesystem::path &folder, const graph::Graph &graph, const Ours &ours, const Options &options)
{
    const Sizes sizes = sizesOf(graph);
    const plan::Optimizer &how = ours.plan().optimizer;
    std::ofstream settings(folder / "settings.txt");
    settings << "layers " << sizes.layers << "\nheads " << sizes.heads << "\ncontext " << sizes.context << "\nbatch " << options.samples << "\nthreads "
             << std::thread::hardware_concurrency() << "\nlearning_rate " << how.learningRate << "\nbeta1 " << how.beta1 << "\nbeta2 " << how.beta2 << "\nepsilon "
             << how.epsilon << "\nweight_decay " << how.weightDecay << "\n";
    std::ofstream index(folder / "weights.txt");
    std::ofstream weights(folder / "weights.bin", std::ios::binary);
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role != graph::TensorRole::Parameter)
            continue;
        std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements(1)));
        if (!device::initialize(tensor, tensor.shape.elements(1), kSeed, {}, values.data()))
            std::abort();
        index << tensor.name;
        for (const std::int64_t size : tensor.shape.at(1))
            index << " " << size;
        index << "\n";
        weights.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
    }
    std::ofstream tokens(folder / "tokens.bin", std::ios::binary);
    std::vector<std::int64_t> row(static_cast<std::size_t>(sizes.context));
    for (std::int64_t step = 0; step < options.steps + kWarmUp; ++step) {
        for (const bool labels : {false, true}) {
            for (std::int64_t i = 0; i < options.samples; ++i) {
                const std::int64_t sample = ours.feed().order.sampleIndex(step, options.samples, i);
                if (labels)
                    ours.feed().data->fillLabels(sample, row.data());
                else
                    ours.feed().data->fillInput(sample, row.data());
                tokens.write(reinterpret_cast<const char *>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(std::int64_t)));
            }
        }
    }
}

/// The peer, a process that makes one step for each line it is sent.
class Peer {
public:
    Peer(const std::string &python, const std::string &script, const std::string &folder)
    {
        int request[2];
        int reply[2];
        if (pipe(request) != 0 || pipe(reply) != 0)
            return;
        m_process = fork();
        if (m_process == 0) {
            dup2(request[0], STDIN_FILENO);
            dup2(reply[1], STDOUT_FILENO);
            for (const int end : {request[0], request[1], reply[0], reply[1]})
                close(end);
            execl(python.c_str(), python.c_str(), script.c_str(), folder.c_str(), static_cast<char *>(nullptr));
            _exit(127);
        }
        close(request[0]);
        close(reply[1]);
        m_request = fdopen(request[1], "w");
        m_reply = fdopen(reply[0], "r");
    }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    ~Peer()
    {
        if (m_request != nullptr)
            std::fclose(m_request);
        if (m_reply != nullptr)
            std::fclose(m_reply);
        if (m_process > 0)
            waitpid(m_process, nullptr, 0);
    }

    /// False if the peer is gone.
    bool step(double *loss, Spent *spent)
    {
        if (m_request == nullptr || std::fputs("step\n", m_request) < 0 || std::fflush(m_request) != 0)
            return false;
        if (std::fscanf(m_reply, "%lf %lf %lf", loss, &spent->clock, &spent->processor) != 3)
            return false;
        spent->processor /= cores();
        return true;
    }

private:
    pid_t m_process = -1;
    std::FILE *m_request = nullptr;
    std::FILE *m_reply = nullptr;
};

/// A 1024 x 1024 x 1024 product; the best of all calls is the machine's rate.
class Product {
public:
    Product() : m_data(static_cast<std::size_t>(3 * kSize * kSize), 0.5F)
    {
        graph::Op op;
        op.type = op.name = "MatMul";
        const device::Argument matrix{graph::DType::F32, {kSize, kSize}};
        auto kernel = device::makeKernel(op, {matrix, matrix}, {matrix});
        if (kernel)
            m_kernel = std::move(*kernel);
    }

    void measure()
    {
        const void *inputs[] = {m_data.data(), m_data.data() + kSize * kSize};
        void *outputs[] = {m_data.data() + 2 * kSize * kSize};
        for (int run = 0; m_kernel && run < 10; ++run) {
            const double begin = processorSeconds();
            m_kernel->run(inputs, outputs);
            m_best = std::min(m_best, (processorSeconds() - begin) / cores());
        }
    }

    /// By processor time.
    [[nodiscard]] double flopsPerSecond() const { return 2.0 * static_cast<double>(kSize * kSize * kSize) / m_best; }

private:
    static constexpr std::int64_t kSize = 1024;
    std::vector<float> m_data;
    std::unique_ptr<device::Kernel> m_kernel;
    double m_best = 1e9;
};

double flopsOfStep(const graph::Graph &graph, std::int64_t samples)
{
    const Sizes sizes = sizesOf(graph);
    const double perToken = 6.0 * static_cast<double>(graph.parameterCount()) + 6.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
    return perToken * static_cast<double>(samples * sizes.context);
}

/// Steps of one side.
struct Times {
    std::vector<double> clock;
    std::vector<double> processor;

    void add(const Spent &spent)
    {
        clock.push_back(spent.clock);
        processor.push_back(spent.processor);
    }
};

void report(const Times &ours, const Times &peer, double flops, double machine)
{
    std::printf("median step by the clock: ours %.3f s, PyTorch %.3f s, ratio %.2f\n", median(ours.clock), median(peer.clock), median(peer.clock) / median(ours.clock));
    const double seconds = median(ours.processor);
    std::printf("by processor time per core: ours %.3f s, PyTorch %.3f s, ratio %.2f\n", seconds, median(peer.processor), median(peer.processor) / seconds);
    std::printf("ours %.1f GFLOP/s (6N + 6LCT), %.1f %% of the %.1f GFLOP/s of one fp32 product; PyTorch %.1f GFLOP/s\n", flops / seconds * 1e-9,
                100 * flops / seconds / machine, machine * 1e-9, flops / median(peer.processor) * 1e-9);
}

int compare(Ours &ours, Peer &peer, const graph::Graph &graph, const Options &options)
{
    Product product;
    Times ourTimes;
    Times peerTimes;
    double worstLoss = 0;
    for (std::int64_t step = 0; step < options.steps + kWarmUp; ++step) {
        product.measure();
        Spent ourSpent;
        Spent peerSpent;
        double peerLoss = 0;
        const double ourLoss = ours.step(&ourSpent);
        if (!peer.step(&peerLoss, &peerSpent)) {
            std::fprintf(stderr, "bench_peer: the peer stopped; it needs %s with torch\n", options.python.c_str());
            return 1;
        }
        const double apart = std::abs(ourLoss - peerLoss) / std::abs(peerLoss);
        worstLoss = std::max(worstLoss, apart);
        std::printf("step %3ld   loss %.6f %.6f (%.1e)   seconds %.3f %.3f   of processor %.3f %.3f\n", static_cast<long>(step), ourLoss, peerLoss, apart,
                    ourSpent.clock, peerSpent.clock, ourSpent.processor, peerSpent.processor);
        std::fflush(stdout);
        if (step < kWarmUp)
            continue;
        ourTimes.add(ourSpent);
        peerTimes.add(peerSpent);
    }
    report(ourTimes, peerTimes, flopsOfStep(graph, options.samples), product.flopsPerSecond());
    std::printf("largest relative difference of losses: %.2e\n", worstLoss);
    return 0;
}

int refuse(const Error &error)
{
    std::fprintf(stderr, "bench_peer: %s\n", error.text().c_str());
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv);
    const Options options = parse(argc, argv);
    const auto model = import::loadModel(options.model);
    if (!model)
        return refuse(model.error());
    auto ours = Ours::make(model->graph, options);
    if (!ours)
        return refuse(ours.error());
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("planloom-peer-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    writeExchange(folder, *model->graph, **ours, options);
    int status = 0;
    {
        Peer peer(options.python, PLANLOOM_PEER_SCRIPT, folder.string());
        status = compare(**ours, peer, *model->graph, options);
    }
    std::filesystem::remove_all(folder);
    return status;
}
