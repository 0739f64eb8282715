// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"
#include "executor/runtime/training_fixture.h"
#include "tests/engine/admm/measures.h"

#include <QtGlobal>

#include <cmath>

/// A small model and samples for plans that train by ADMM, for the engine and for the specification.
namespace planloom::test {

inline constexpr std::int64_t kSamples = 24;
inline constexpr graph::RnnConfig kModel{"rnn", 3, 5, 4, 4};

/// Sines that look random.
class Waves final : public data::DataSet {
public:
    static double at(std::int64_t sample, std::int64_t step, std::int64_t input)
    {
        return std::sin(1.0 + static_cast<double>(7 * sample + 3 * step + 5 * input));
    }
    static std::int64_t labelOf(std::int64_t sample) { return sample * 7 % kModel.classes; }

    [[nodiscard]] std::int64_t samples() const override { return kSamples; }
    void fillInput(std::int64_t sample, void *out) const override
    {
        auto *to = static_cast<float *>(out);
        for (std::int64_t step = 0; step < kModel.steps; ++step)
            for (std::int64_t input = 0; input < kModel.inputs; ++input)
                *to++ = static_cast<float>(at(sample, step, input));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override { *out = labelOf(sample); }
};

inline plan::Subject subjectOf(int devices)
{
    return plan::makeSubject(std::make_shared<const graph::Graph>(*graph::rnnClassifier(kModel)), cpus(devices),
                             nullptr, "zoo:rnn");
}

inline plan::Plan planFor(const plan::Subject &subject, std::size_t workers, const admm::Settings &settings = {})
{
    Layout layout;
    layout.stages.front().shares.assign(workers, 1.0 / static_cast<double>(workers));
    layout.globalBatch = kSamples;
    plan::Plan plan = planOf(subject, layout, plan::admmOptimizer());
    plan.admm = settings;
    if (settings.timeRanges > 1) {
        plan::Stage &stage = plan.stages.front();
        stage.mesh = {static_cast<int>(workers), settings.timeRanges};
        stage.devices.clear();
        for (std::size_t device = 0; device < workers * static_cast<std::size_t>(settings.timeRanges); ++device)
            stage.devices.emplace_back(static_cast<std::int64_t>(device));
    }
    return plan;
}

/// What the model begins with, by the initializers of its tensors.
inline admm::Parameters firstParameters(const graph::Graph &model)
{
    const auto drawn = [&](const char *name, std::int64_t rows, std::int64_t columns) {
        const graph::Tensor &tensor = model.tensor(model.find(name));
        std::vector<float> values(static_cast<std::size_t>(rows * columns));
        const Status made = device::initialize(tensor, rows * columns, 1, {}, values.data());
        Q_ASSERT(made.ok());
        admm::Matrix matrix(rows, columns);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
                matrix(r, c) = static_cast<double>(values[static_cast<std::size_t>(r * columns + c)]);
        return matrix;
    };
    return {drawn("rnn.W", kModel.hidden, kModel.inputs), drawn("rnn.R", kModel.hidden, kModel.hidden),
            admm::Vector::Zero(kModel.hidden), drawn("head.weight", kModel.classes, kModel.hidden),
            admm::Vector::Zero(kModel.classes)};
}

inline admm::Samples allSamples()
{
    admm::Samples samples{
        std::vector<admm::Matrix>(static_cast<std::size_t>(kModel.steps), admm::Matrix(kModel.inputs, kSamples)), {}};
    for (std::int64_t m = 0; m < kSamples; ++m) {
        samples.labels.push_back(static_cast<int>(Waves::labelOf(m)));
        for (std::int64_t t = 0; t < kModel.steps; ++t)
            for (std::int64_t i = 0; i < kModel.inputs; ++i)
                samples.x[static_cast<std::size_t>(t)](i, m) =
                    static_cast<double>(static_cast<float>(Waves::at(m, t, i)));
    }
    return samples;
}

} // namespace planloom::test
