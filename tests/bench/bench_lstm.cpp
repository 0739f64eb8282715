// SPDX-License-Identifier: Apache-2.0
// A training step of the LSTM language model against PyTorch's, same weights, tokens and optimizer, on all cores:
// bench_lstm [PYTHON]. Prints the losses' largest relative difference and the ratio of the step times.
#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/zoo/zoo.h"
#include "executor/device/kernel.h"
#include "executor/runtime/sleeping_threads.h"

#include <nlohmann/json.hpp>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

using namespace planloom;

namespace {

constexpr std::int64_t kBatch = 20;
constexpr std::int64_t kSteps = 20;
constexpr double kRate = 1e-3;
constexpr std::int64_t kWords = 100; ///< that the text uses, so that the loss falls within the steps

std::string writeFile(const std::filesystem::path &path, const void *data, std::size_t bytes)
{
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
    return path.string();
}

/// One device that runs a whole training graph, operator by operator.
class Trainer {
public:
    explicit Trainer(graph::TrainingGraph part) : m_part(std::move(part))
    {
        for (const graph::Tensor &tensor : m_part.graph.tensors()) {
            const std::int64_t elements = tensor.shape.elements(kBatch);
            m_buffers.emplace_back(static_cast<std::size_t>(elements * graph::sizeOf(tensor.type)));
            if (tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::Constant)
                check(device::initialize(tensor, elements, 1, {}, m_buffers.back().data()));
        }
        for (const graph::Op &op : m_part.graph.ops())
            prepare(op);
        *static_cast<float *>(at(m_part.lossGradient)) = 1.0F;
        for (const TensorId id : m_part.parameters) {
            const auto n = static_cast<std::size_t>(m_part.graph.tensor(id).shape.elements(1));
            m_moments.emplace_back(2 * n, 0.0F);
        }
    }

    void *at(TensorId id) { return id.valid() ? m_buffers[id.index()].data() : nullptr; }
    [[nodiscard]] const graph::TrainingGraph &part() const { return m_part; }

    double step(std::int64_t number)
    {
        for (Call &call : m_calls)
            call.kernel->run(call.in, call.out);
        for (std::size_t i = 0; i < m_part.parameters.size(); ++i) {
            const auto n = static_cast<std::int64_t>(m_moments[i].size() / 2);
            device::AdamWStep how;
            how.learningRate = kRate;
            how.step = number;
            device::adamW(how, static_cast<float *>(at(m_part.parameters[i])),
                          static_cast<float *>(at(m_part.gradients[i])), m_moments[i].data(), m_moments[i].data() + n,
                          n);
        }
        return static_cast<double>(*static_cast<float *>(at(m_part.loss)));
    }

private:
    struct Call {
        std::unique_ptr<device::Kernel> kernel;
        std::vector<const void *> in;
        std::vector<void *> out;
    };

    static void check(const Status &status)
    {
        if (status)
            return;
        std::fprintf(stderr, "%s\n", status.error().text().c_str());
        std::exit(1);
    }

    void prepare(const graph::Op &op)
    {
        std::vector<device::Argument> inputs;
        std::vector<device::Argument> outputs;
        Call call;
        const auto argument = [&](TensorId id) {
            return id.valid()
                ? device::Argument{m_part.graph.tensor(id).type, m_part.graph.tensor(id).shape.at(kBatch), true}
                : device::Argument{graph::DType::F32, {}, false};
        };
        for (const TensorId id : op.inputs) {
            inputs.push_back(argument(id));
            call.in.push_back(at(id));
        }
        for (const TensorId id : op.outputs) {
            outputs.push_back(argument(id));
            call.out.push_back(at(id));
        }
        auto kernel = device::makeKernel(op, inputs, outputs);
        if (!kernel)
            check(kernel.error());
        call.kernel = std::move(*kernel);
        m_calls.push_back(std::move(call));
    }

    graph::TrainingGraph m_part;
    std::vector<std::vector<std::byte>> m_buffers;
    std::vector<Call> m_calls;
    std::vector<std::vector<float>> m_moments;
};

/// Words that follow each other by a rule with noise, so that there is something to learn.
std::vector<std::int64_t> text(std::int64_t count, std::int64_t vocabulary)
{
    std::vector<std::int64_t> words;
    std::uint64_t state = 7;
    std::int64_t word = 1;
    for (std::int64_t i = 0; i < count; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto noise = static_cast<std::int64_t>(state >> 60U);
        word = (word * 31 + 7 + noise) % std::min<std::int64_t>(vocabulary, kWords);
        words.push_back(word);
    }
    return words;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

} // namespace

int main(int argc, char **argv)
{
    runtime::restartWithSleepingThreads(argv); // PyTorch gets the same: its own threads spin in each other's way
    namespace fs = std::filesystem;
    const graph::LstmConfig config;
    auto model = graph::lstmLanguageModel(config);
    if (!model) {
        std::fprintf(stderr, "%s\n", model.error().text().c_str());
        return 1;
    }
    auto part = graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
    if (!part) {
        std::fprintf(stderr, "%s\n", part.error().text().c_str());
        return 1;
    }
    Trainer trainer(std::move(*part));
    const fs::path folder = fs::temp_directory_path() / ("planloom-bench-lstm-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    const std::int64_t each = kBatch * config.context;
    std::vector<std::int64_t> tokens = text(kSteps * each + 1, config.vocabulary);
    writeFile(folder / "tokens.i64", tokens.data(), static_cast<std::size_t>(kSteps * each) * 8);
    writeFile(folder / "labels.i64", tokens.data() + 1, static_cast<std::size_t>(kSteps * each) * 8);
    for (const TensorId id : trainer.part().parameters) {
        const graph::Tensor &tensor = trainer.part().graph.tensor(id);
        writeFile(folder / tensor.name, trainer.at(id), static_cast<std::size_t>(tensor.bytes().value()));
    }
    const nlohmann::json about = {{"layers", config.layers},
                                  {"embedding", config.embedding},
                                  {"hidden", config.hidden},
                                  {"vocabulary", config.vocabulary},
                                  {"context", config.context},
                                  {"batch", kBatch},
                                  {"steps", kSteps},
                                  {"rate", kRate},
                                  {"threads", omp_get_max_threads()}};
    std::ofstream(folder / "config.json") << about;

    std::vector<double> losses;
    std::vector<double> seconds;
    const graph::Graph &graph = trainer.part().graph;
    for (std::int64_t s = 0; s < kSteps; ++s) {
        const auto start = std::chrono::steady_clock::now();
        std::copy_n(tokens.begin() + s * each, each, static_cast<std::int64_t *>(trainer.at(graph.find("tokens"))));
        std::copy_n(tokens.begin() + s * each + 1, each, static_cast<std::int64_t *>(trainer.at(graph.find("labels"))));
        losses.push_back(trainer.step(s + 1));
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("planloom: %.1f ms a step, loss %.5f -> %.5f\n", 1e3 * median(seconds), losses.front(), losses.back());

    const fs::path script = fs::path(PLANLOOM_PEERS) / "lstm.py";
    const std::string command =
        std::string(argc > 1 ? argv[1] : "/usr/bin/python3") + " '" + script.string() + "' '" + folder.string() + "'";
    std::string answer;
    if (std::FILE *pipe = ::popen(command.c_str(), "r")) {
        char buffer[4096];
        while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
            answer.append(buffer, n);
        ::pclose(pipe);
    }
    fs::remove_all(folder);
    const auto peer = nlohmann::json::parse(answer, nullptr, false);
    if (peer.is_discarded()) {
        std::fprintf(stderr, "PyTorch gave no answer; is python3-torch installed for '%s'?\n",
                     argc > 1 ? argv[1] : "/usr/bin/python3");
        return 1;
    }
    double difference = 0;
    for (std::size_t s = 0; s < losses.size(); ++s) {
        const double expected = peer["losses"][s];
        difference = std::max(difference, std::fabs(losses[s] - expected) / std::fabs(expected));
    }
    const double theirs = median(peer["seconds"].get<std::vector<double>>());
    std::printf("torch %s: %.1f ms a step\n", peer["torch"].get<std::string>().c_str(), 1e3 * theirs);
    std::printf("losses of %d steps: largest relative difference %.2e\n", static_cast<int>(kSteps), difference);
    std::printf("ratio torch / planloom: %.2f\n", theirs / median(seconds));
    return 0;
}
