// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/compile.h"
#include "executor/runtime/training_fixture.h"

#include <QFile>
#include <QTemporaryDir>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace planloom::test {

/// A GPT whose steps take milliseconds.
inline graph::TransformerConfig tinyConfig(int layers, int heads, bool tied = true)
{
    graph::TransformerConfig config;
    config.name = "tiny";
    config.layers = layers;
    config.heads = heads;
    config.hidden = 32;
    config.feedForward = 128;
    config.vocabulary = 256;
    config.context = 16;
    config.tiedEmbeddings = tied;
    return config;
}

/// Without a graph if the model cannot be made.
inline plan::Subject tinySubject(const graph::TransformerConfig &config,
                                 std::shared_ptr<const cluster::Cluster> cluster)
{
    auto graph = graph::gpt(config);
    return graph ? plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)), std::move(cluster),
                                     nullptr, "zoo:tiny")
                 : plan::Subject{};
}

/// A file of @p words in a fixed pseudo-random order: enough structure to learn something from.
class TextFile {
public:
    explicit TextFile(const std::vector<std::string> &words, std::uint32_t state = 1)
        : m_path(m_folder.filePath("words.txt").toStdString())
    {
        std::string text;
        while (text.size() < 4000) {
            state = state * 1664525U + 1013904223U;
            text += words[static_cast<std::size_t>(std::uint64_t{state} * words.size() >> 32)];
        }
        QFile file(QString::fromStdString(m_path));
        if (!file.open(QIODevice::WriteOnly)
            || file.write(text.data(), static_cast<qint64>(text.size())) != static_cast<qint64>(text.size()))
            m_path.clear();
    }
    /// Empty if it could not be written.
    [[nodiscard]] const std::string &path() const { return m_path; }

private:
    QTemporaryDir m_folder;
    std::string m_path;
};

/// Compiles @p plan and trains it on the text @p path with one thread per rank. That an arena was not as large as
/// planned is a problem, too. Without any, @p look may find more.
inline Outcome trainOn(const std::string &path, const plan::Subject &subject, const plan::Plan &plan,
                       const Training &how = {}, double holdout = 0,
                       const std::function<void(const program::Program &, Outcome &)> &look = {})
{
    Outcome outcome;
    const auto program = compile::compilePlan(plan, subject);
    const auto needs = data::needsOf(*subject.graph);
    const auto data = needs ? data::openDataSet(path, *needs) : Result<std::unique_ptr<data::DataSet>>(needs.error());
    if (!program || !data) {
        outcome.problem = !program ? program.error().text() : data.error().text();
        return outcome;
    }
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), how.seed, holdout)};
    outcome = train(*program, subject, plan.optimizer, feed, how);
    for (std::size_t rank = 0; rank < program->ranks.size() && outcome.problem.empty(); ++rank)
        if (outcome.peaks[rank] != program->ranks[rank].arenaBytes)
            outcome.problem = "rank " + std::to_string(rank) + " used " + std::to_string(outcome.peaks[rank]) + " of "
                + std::to_string(program->ranks[rank].arenaBytes) + " bytes";
    if (outcome.problem.empty() && look)
        look(*program, outcome);
    return outcome;
}

/// The mismatch of a run's losses with @p expected beyond @p tolerance of them. Empty: none.
inline std::string differs(const Outcome &outcome, const std::vector<double> &expected, double tolerance = 1e-4)
{
    if (!outcome.problem.empty())
        return outcome.problem;
    if (outcome.losses.size() != expected.size())
        return std::to_string(outcome.losses.size()) + " steps, not " + std::to_string(expected.size());
    for (std::size_t step = 0; step < expected.size(); ++step)
        if (!(std::fabs(outcome.losses[step] - expected[step]) <= tolerance * expected[step]))
            return "step " + std::to_string(step) + ": " + std::to_string(outcome.losses[step]) + ", on one rank "
                + std::to_string(expected[step]);
    return {};
}

} // namespace planloom::test
