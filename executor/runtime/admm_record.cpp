// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/admm_record.h"

#include "engine/admm/sample_gradients.h"
#include "engine/base/files.h"
#include "engine/run/admm_record.h"
#include "executor/runtime/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace planloom::runtime {
namespace {

constexpr std::int64_t kSamplesWritten = 8;

using Values = std::vector<float>;

Values floatsIn(const std::vector<std::byte> &bytes)
{
    const auto *first = reinterpret_cast<const float *>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
}

/// A row a sample.
void addPairs(char variable, int step, const Values &duals, const std::vector<double> &gradients,
              std::vector<run::DualPair> &pairs)
{
    for (std::size_t i = 0; i < std::min(duals.size(), gradients.size()); ++i)
        pairs.push_back({variable, step, static_cast<double>(duals[i]), gradients[i]});
}

} // namespace

Status ResidualsLog::open(const std::string &folder, std::int64_t firstStep, const std::vector<std::string> &names)
{
    m_path = folder + "/" + run::kResidualsFile;
    std::string kept = run::residualsHeader(names);
    const auto text = firstStep > 0 ? readFile(m_path) : Result<std::string>(std::string());
    if (const auto before = text ? run::residualsFromCsv(*text) : Result<run::Residuals>(text.error());
        before && before->names == names)
        for (std::size_t row = 0; row < before->steps.size(); ++row)
            if (before->steps[row] < firstStep) {
                const auto first = before->norms.begin() + static_cast<std::ptrdiff_t>(row * names.size());
                kept +=
                    run::residualsLine(before->steps[row], {first, first + static_cast<std::ptrdiff_t>(names.size())});
            }
    m_file.open(m_path, std::ios::trunc);
    m_file << kept << std::flush;
    return check();
}

Status ResidualsLog::add(std::int64_t step, std::span<const float> squares)
{
    std::vector<double> norms;
    for (const float square : squares)
        norms.push_back(std::sqrt(std::max(0.0, static_cast<double>(square))));
    m_file << run::residualsLine(step, norms) << std::flush;
    return check();
}

Status ResidualsLog::check()
{
    if (m_file)
        return {};
    return planloom::ioError("cannot be written; look at the disk's free space").in(m_path);
}

Status writeDuals(RankExecutor &executor, const Feed &feed, const graph::Graph &model, const admm::Settings &settings,
                  const std::string &folder)
{
    const auto pattern = admm::findPattern(model);
    if (!pattern || !pattern->batchFirst || settings.timeRanges > 1 || settings.shards > 1)
        return {};
    const auto parameters = parametersOf(executor);
    const auto states = statesOfSamples(executor);
    if (!parameters || !states)
        return parameters ? states.error() : parameters.error();
    const auto values = [&](TensorId id) { return floatsIn(parameters->at(model.tensor(id).name)); };
    const program::Program &program = executor.program();
    const auto rank = static_cast<std::size_t>(executor.communicator().rank());
    const plan::SampleRange own = program.body(program.ranks[rank].bodies.front()).slices.front();
    const std::int64_t count = std::min(kSamplesWritten, own.size);
    const std::int64_t width = pattern->steps * pattern->inputs;
    Values x(static_cast<std::size_t>(count * width));
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    for (std::int64_t m = 0; m < count; ++m) {
        const std::int64_t sample = feed.order.sampleIndex(0, program.globalBatch, own.begin + m);
        feed.data->fillInput(sample, x.data() + m * width);
        feed.data->fillLabels(sample, &labels[static_cast<std::size_t>(m)]);
    }
    const admm::SampleGradients gradients =
        admm::sampleGradients(*pattern,
                              {values(pattern->u), values(pattern->w), values(pattern->bias), values(pattern->v),
                               values(pattern->c)},
                              x, labels);
    std::vector<run::DualPair> pairs;
    const auto add = [&](const std::string &dual, char variable, int step, const std::vector<double> &of) {
        if (const auto found = states->find(dual); found != states->end())
            addPairs(variable, step, floatsIn(found->second), of, pairs);
    };
    for (std::size_t t = 0; t < gradients.a.size(); ++t) {
        const int step = static_cast<int>(t) + 1;
        add(fmt::format("admm/p{}", step), 'a', step, gradients.a[t]);
        add(fmt::format("admm/q{}", step), 'h', step, gradients.h[t]);
    }
    add("admm/r", 'o', static_cast<int>(gradients.a.size()), gradients.o);
    return writeFileAtomically(folder + "/" + run::kDualsFile, run::toCsv(pairs));
}

} // namespace planloom::runtime
