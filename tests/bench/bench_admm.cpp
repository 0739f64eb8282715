// SPDX-License-Identifier: Apache-2.0
// An iteration of ADMM by operators against a step of AdamW by back-propagation, same model, weights and digits, all
// samples at once: bench_admm DIGITS.csv.gz [ITERATIONS]. Prints accuracy over seconds of both, and the ratio of the
// times.
#include "engine/base/files.h"
#include "engine/graph/gradients/differentiate.h"
#include "tests/executor/device/admm_worker.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace planloom;
using planloom::admm::Buffer;
using planloom::admm::floatsOf;
using planloom::admm::Variables;
using planloom::admm::zeros;

namespace {

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kTraining = 1200;
constexpr std::int64_t kHeldOut = 597;
constexpr double kRate = 0.01;

template <class T>
T check(Result<T> result)
{
    if (result)
        return *std::move(result);
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::exit(2);
}

struct Digits {
    std::vector<float> pixels; ///< by sample, from 0 to 1
    std::vector<std::int64_t> labels;
};

Digits readDigits(const char *path)
{
    const std::string text = check(gunzip(check(readFile(path))));
    Digits digits;
    const char *at = text.data();
    for (std::int64_t row = 0; row < kTraining + kHeldOut; ++row)
        for (std::int64_t column = 0; column <= kSide * kSide; ++column) {
            int value = -1;
            const auto parsed = std::from_chars(at, text.data() + text.size(), value);
            if (parsed.ec != std::errc() || value < 0) {
                std::fprintf(stderr, "%s:%d: a whole number is expected in column %d\n", path,
                             static_cast<int>(row + 1), static_cast<int>(column + 1));
                std::exit(2);
            }
            at = parsed.ptr + 1;
            if (column < kSide * kSide)
                digits.pixels.push_back(static_cast<float>(value) / 16);
            else
                digits.labels.push_back(value);
        }
    return digits;
}

/// Parameters under the names of block graphs; weights are small sines that look random.
Variables firstParameters()
{
    Variables all{{"u", zeros(kHidden * kSide)},
                  {"w", zeros(kHidden * kHidden)},
                  {"b", zeros(kHidden)},
                  {"v", zeros(kClasses * kHidden)},
                  {"c", zeros(kClasses)}};
    std::uint64_t state = 12345;
    const auto fill = [&](const char *name, std::int64_t inputs) {
        Buffer &buffer = all[name];
        for (std::size_t i = 0; i < buffer.size() / 4; ++i) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            const double uniform = static_cast<double>(state >> 11U) * 0x1p-53;
            floatsOf(buffer)[i] = static_cast<float>((2 * uniform - 1) * std::sqrt(3.0 / static_cast<double>(inputs)));
        }
    };
    fill("u", kSide);
    fill("w", kHidden);
    fill("v", kHidden);
    return all;
}

/// Share of the samples from @p first on whose largest output is the label's.
double accuracy(Variables &all, const Digits &digits, std::int64_t first, std::int64_t count)
{
    std::int64_t right = 0;
    const auto at = [&](const char *name) { return floatsOf(all.at(name)); };
    for (std::int64_t m = first; m < first + count; ++m) {
        std::array<float, kHidden> h{};
        for (std::int64_t t = 0; t < kSide; ++t) {
            std::array<float, kHidden> next{};
            for (std::int64_t i = 0; i < kHidden; ++i) {
                float sum = at("b")[i];
                for (std::int64_t j = 0; j < kSide; ++j)
                    sum +=
                        at("u")[i * kSide + j] * digits.pixels[static_cast<std::size_t>((m * kSide + t) * kSide + j)];
                for (std::int64_t j = 0; j < kHidden; ++j)
                    sum += at("w")[i * kHidden + j] * h[static_cast<std::size_t>(j)];
                next[static_cast<std::size_t>(i)] = std::tanh(sum);
            }
            h = next;
        }
        std::int64_t best = 0;
        float largest = -std::numeric_limits<float>::infinity();
        for (std::int64_t k = 0; k < kClasses; ++k) {
            float sum = at("c")[k];
            for (std::int64_t j = 0; j < kHidden; ++j)
                sum += at("v")[k * kHidden + j] * h[static_cast<std::size_t>(j)];
            if (sum > largest) {
                largest = sum;
                best = k;
            }
        }
        right += best == digits.labels[static_cast<std::size_t>(m)] ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(count);
}

/// What a worker with all training samples is given.
Variables givenOf(const Digits &digits)
{
    Variables all = firstParameters();
    for (std::int64_t t = 0; t < kSide; ++t) {
        Buffer &x = all["x" + std::to_string(t + 1)] = zeros(kTraining * kSide);
        for (std::int64_t m = 0; m < kTraining; ++m)
            std::copy_n(digits.pixels.data() + (m * kSide + t) * kSide, kSide, floatsOf(x) + m * kSide);
    }
    all["labels"] = zeros(kTraining, 8);
    std::memcpy(all["labels"].data(), digits.labels.data(), kTraining * sizeof(std::int64_t));
    return all;
}

graph::TrainingGraph recurrentModel()
{
    using graph::Dim;
    using graph::DType;
    using graph::Shape;
    graph::GraphBuilder b("digits");
    const graph::Initializer none;
    const TensorId x = b.input("x", DType::F32, Shape({Dim{1, true}, {kSide, false}, {kSide, false}}));
    const TensorId labels = b.input("labels", DType::I64, Shape({Dim{1, true}}));
    const auto layer = b.addMany("RNN",
                                 {x, b.parameter("u", Shape::of({1, kHidden, kSide}), none),
                                  b.parameter("w", Shape::of({1, kHidden, kHidden}), none),
                                  b.parameter("bias", Shape::of({1, 2 * kHidden}), none)},
                                 2, {{"hidden_size", kHidden}, {"layout", std::int64_t{1}}}, "layer");
    const TensorId h = b.add("Reshape", {layer[1]},
                             {{"shape", std::vector<std::int64_t>{1, kHidden}}, {"batch_axis", std::int64_t{0}}});
    const TensorId logits = b.add("Gemm",
                                  {h, b.parameter("v", Shape::of({kClasses, kHidden}), none),
                                   b.parameter("c", Shape::of({kClasses}), none)},
                                  {{"transB", std::int64_t{1}}});
    const TensorId loss = b.add("SoftmaxCrossEntropyLoss", {logits, labels}, {}, "loss");
    b.output(loss);
    b.loss(loss);
    const graph::Graph graph = check(std::move(b).build());
    return check(graph::differentiate(graph, OpId(0), OpId(static_cast<std::uint32_t>(graph.ops().size())), {}, {}));
}

class BackPropagation {
public:
    explicit BackPropagation(const Digits &digits) : m_variables(firstParameters()), m_part(recurrentModel())
    {
        m_variables["bias"] = zeros(2 * kHidden);
        m_variables["x"] = zeros(kTraining * kSide * kSide);
        std::copy_n(digits.pixels.data(), kTraining * kSide * kSide, floatsOf(m_variables["x"]));
        m_variables["labels"] = zeros(kTraining, 8);
        std::memcpy(m_variables["labels"].data(), digits.labels.data(), kTraining * sizeof(std::int64_t));
        const std::string one = m_part.graph.tensor(m_part.lossGradient).name;
        m_variables[one] = zeros(1);
        *floatsOf(m_variables[one]) = 1;
        m_graph = std::make_unique<admm::BlockRunner>(m_part.graph, kTraining, m_variables);
        for (const TensorId id : m_part.parameters)
            m_moments.emplace_back(static_cast<std::size_t>(2 * m_part.graph.tensor(id).shape.elements(1)), 0.0F);
    }
    void step()
    {
        m_graph->run();
        ++m_steps;
        for (std::size_t i = 0; i < m_part.parameters.size(); ++i) {
            const auto n = static_cast<std::int64_t>(m_moments[i].size() / 2);
            device::AdamWStep how;
            how.learningRate = kRate;
            how.step = m_steps;
            device::adamW(how, floatsOf(m_variables.at(m_part.graph.tensor(m_part.parameters[i]).name)),
                          floatsOf(m_graph->at(m_part.gradients[i])), m_moments[i].data(), m_moments[i].data() + n, n);
        }
        const float *bias = floatsOf(m_variables["bias"]);
        for (std::int64_t i = 0; i < kHidden; ++i)
            floatsOf(m_variables["b"])[i] = bias[i] + bias[kHidden + i];
    }
    Variables &variables() { return m_variables; }

private:
    Variables m_variables;
    graph::TrainingGraph m_part;
    std::unique_ptr<admm::BlockRunner> m_graph;
    std::vector<std::vector<float>> m_moments;
    std::int64_t m_steps = 0;
};

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

template <class Step>
double timed(Step step)
{
    const auto begin = std::chrono::steady_clock::now();
    step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: bench_admm DIGITS.csv.gz [ITERATIONS]\n");
        return 2;
    }
    const Digits digits = readDigits(argv[1]);
    const int iterations = argc > 2 ? std::max(1, std::atoi(argv[2])) : 60;
    const admm::Method method = check(admm::Method::of({}, static_cast<int>(kSide)));
    admm::BlockWorker worker({kSide, kHidden, kClasses, kSide}, method, kTraining, givenOf(digits));
    BackPropagation gradients(digits);
    std::vector<double> admmSeconds;
    std::vector<double> gradientSeconds;
    double admmSum = 0;
    double gradientSum = 0;
    std::printf("%9s %28s   %28s\n", "", "ADMM", "AdamW, back-propagation");
    std::printf("%9s %8s %9s %9s   %8s %9s %9s\n", "iteration", "seconds", "training", "held out", "seconds",
                "training", "held out");
    for (int iteration = 1; iteration <= iterations; ++iteration) {
        admmSum += admmSeconds.emplace_back(timed([&] { worker.iterate(); }));
        gradientSum += gradientSeconds.emplace_back(timed([&] { gradients.step(); }));
        if (iteration % 10 == 0 || iteration == iterations)
            std::printf("%9d %8.3f %9.4f %9.4f   %8.3f %9.4f %9.4f\n", iteration, admmSum,
                        accuracy(worker.variables(), digits, 0, kTraining),
                        accuracy(worker.variables(), digits, kTraining, kHeldOut), gradientSum,
                        accuracy(gradients.variables(), digits, 0, kTraining),
                        accuracy(gradients.variables(), digits, kTraining, kHeldOut));
    }
    std::printf("medians: ADMM %.2f ms, back-propagation %.2f ms; ratio %.2f\n", 1e3 * median(admmSeconds),
                1e3 * median(gradientSeconds), median(admmSeconds) / median(gradientSeconds));
    return 0;
}
