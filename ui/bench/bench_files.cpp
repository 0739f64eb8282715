// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/bench/bench_files.h"

#include "engine/base/files.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/fingerprint.h"
#include "engine/run/metrics.h"
#include "engine/run/settings.h"
#include "engine/run/summary.h"

#include <QDir>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

namespace {

constexpr std::int64_t kTasksOfLane = 100;        // in a step
constexpr std::int64_t kTaskNanoseconds = 20'000; // on average, with the gap behind it
constexpr std::int64_t kBlockSlices = 1 << 20;

/// Numbers that look like chance and are the same in each call.
std::uint64_t scatter(std::uint64_t number)
{
    number = (number ^ (number >> 31)) * 0x7fb5d329728ea185ULL;
    number = (number ^ (number >> 27)) * 0x81dadef4bc2dd44dULL;
    return number ^ (number >> 33);
}

const char *const kLaneNames[kBenchLanes] = {"compute", "send", "receive"};
const trace::Kind kLaneKinds[kBenchLanes] = {trace::Kind::Forward, trace::Kind::Send, trace::Kind::Receive};

trace::Tables benchTables()
{
    trace::Tables tables;
    tables.kinds = trace::standardKinds();
    tables.lanes = {{kLaneNames[0], trace::Work::Compute, 1},
                    {kLaneNames[1], trace::Work::Communication, 1},
                    {kLaneNames[2], trace::Work::Communication, 1}};
    for (int rank = 0; rank < kBenchRanks; ++rank) {
        tables.ranks.push_back({"gpu" + std::to_string(rank)});
        for (int lane = 0; lane < kBenchLanes; ++lane) {
            for (int task = 0; task < kTasksOfLane; ++task) {
                const bool back = lane == 0 && task % 2 == 1;
                const char *letter = lane == 0 ? (back ? "B" : "F") : lane == 1 ? "SF" : "RF";
                tables.tasks.push_back({"s" + std::to_string(rank) + "." + letter + ".m" + std::to_string(task),
                                        back ? trace::Kind::Backward : kLaneKinds[lane], rank, task});
            }
        }
    }
    return tables;
}

/// Number @p k of the trace: lane by lane within a step.
trace::Record benchRecord(std::int64_t k)
{
    constexpr std::int64_t kStep = kTasksOfLane * kBenchRanks * kBenchLanes;
    const std::int64_t step = k / kStep;
    const std::int64_t lane = k % kStep / kTasksOfLane;
    const std::int64_t task = k % kTasksOfLane;
    const auto chance = static_cast<std::int64_t>(scatter(static_cast<std::uint64_t>(k)) % 16'000);
    const std::int64_t start = (step * kTasksOfLane + task) * kTaskNanoseconds + chance / 8;
    return {start,
            2'000 + chance,
            static_cast<std::int32_t>(lane * kTasksOfLane + task),
            static_cast<std::int32_t>(step),
            static_cast<std::int32_t>(lane / kBenchLanes),
            static_cast<std::int32_t>(lane % kBenchLanes)};
}

using FilePtr = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

Error cannotWrite(const QString &path)
{
    return ioError(path.toStdString() + ": cannot be written; free some room, or set TMPDIR to another folder");
}

graph::TransformerConfig smallBlocks(std::int64_t blocks)
{
    graph::TransformerConfig config;
    config.name = "bench-gpt";
    config.layers = blocks;
    config.heads = 2;
    config.hidden = 64;
    config.feedForward = 256;
    config.vocabulary = 512;
    config.context = 64;
    return config;
}

Status writeText(const QString &path, const std::string &text) { return writeFileAtomically(path.toStdString(), text); }

} // namespace

Status writeBenchTrace(const QString &path, std::int64_t slices)
{
    auto writer = trace::TraceWriter::create(path.toStdString(), "wall", benchTables());
    if (!writer)
        return writer.error();
    std::vector<trace::Record> block;
    for (std::int64_t first = 0; first < slices; first += kBlockSlices) {
        block.clear();
        for (std::int64_t k = first; k < std::min(slices, first + kBlockSlices); ++k)
            block.push_back(benchRecord(k));
        if (const Status written = writer->append(block, 0); !written)
            return written;
    }
    return writer->close();
}

Status writeBenchEvents(const QString &path, std::int64_t slices)
{
    const FilePtr file(std::fopen(path.toLocal8Bit().constData(), "w"), std::fclose);
    if (!file)
        return cannotWrite(path);
    std::fputs("{\"schemaVersion\": 1, \"traceEvents\": [\n", file.get());
    for (std::int64_t k = 0; k < slices; ++k) {
        const trace::Record record = benchRecord(k);
        std::fprintf(file.get(),
                     "%s{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm_f16_128x64_%d\", \"pid\": %d, \"tid\": "
                     "%d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"stream\": %d}}",
                     k == 0 ? "" : ",\n", record.task % 97, record.rank, record.lane,
                     static_cast<double>(record.start) * 1e-3, static_cast<double>(record.duration) * 1e-3,
                     record.lane);
    }
    std::fputs("\n]}\n", file.get());
    return std::ferror(file.get()) ? Status(cannotWrite(path)) : Status();
}

Result<std::int64_t> writeBenchModel(const QString &path, std::int64_t operators)
{
    const auto one = graph::gpt(smallBlocks(1));
    const auto two = graph::gpt(smallBlocks(2));
    if (!one || !two)
        return one ? two.error() : one.error();
    const auto ofBlock = static_cast<std::int64_t>(two->ops().size() - one->ops().size());
    const auto rest = static_cast<std::int64_t>(one->ops().size()) - ofBlock;
    const auto made = graph::gpt(smallBlocks(std::max<std::int64_t>(1, (operators - rest + ofBlock - 1) / ofBlock)));
    if (!made)
        return made.error();
    if (const Status written = writeText(path, graph::toJson(*made)); !written)
        return written.error();
    return static_cast<std::int64_t>(made->ops().size());
}

Status writeBenchBlocks(const QString &path, int blocks)
{
    const auto made = graph::gpt(smallBlocks(blocks));
    return made ? writeText(path, graph::toJson(*made)) : Status(made.error());
}

Status writeBenchCluster(const QString &path, int devices)
{
    return writeText(path,
                     "nodes:\n  count: " + std::to_string(std::max(1, devices / 8))
                         + "\n  devices_per_node: 8\n  device: H100-SXM\n"
                           "  intra: {bandwidth: 360 GB/s, latency: 5 us}\n"
                           "  inter: {bandwidth: 45 GB/s, latency: 10 us}\n");
}

Status writeBenchRuns(const QString &folder, const plan::Document &document, double iterationSeconds, int runs)
{
    const std::string planText = plan::toJson(document);
    const std::string hash = plan::fingerprint(document);
    for (int k = 0; k < runs; ++k) {
        const QString path = folder + QStringLiteral("/run%1").arg(k, 4, 10, QLatin1Char('0'));
        if (!QDir().mkpath(path))
            return cannotWrite(path);
        const auto write = [&](const char *name, const std::string &text) {
            return writeText(path + QLatin1Char('/') + QLatin1String(name), text);
        };
        const double factor = 0.8 + 0.4 * static_cast<double>(scatter(static_cast<std::uint64_t>(k)) % 1000) / 1000;
        run::Request request;
        request.settings.data = "/data";
        request.settings.steps = 20;
        std::string metrics;
        for (std::int64_t step = 0; step < request.settings.steps; ++step)
            metrics += run::toJson(run::StepMetrics{step, 4.0 / static_cast<double>(step + 1) * factor,
                                                    iterationSeconds * factor, 1 / (iterationSeconds * factor)})
                + "\n";
        run::Summary summary;
        summary.steps = request.settings.steps;
        summary.lossFirst = 4 * factor;
        summary.lossLast = 0.2 * factor;
        summary.iterationSecondsMedian = iterationSeconds * factor;
        summary.predictedIterationSeconds = iterationSeconds;
        summary.predictionError = 1 / factor - 1;
        summary.planHash = hash;
        summary.peakBytesPredicted = {1 << 30};
        summary.peakBytesMeasured = {(1 << 30) + k * 1024};
        for (const Status &written : {write("plan.json", planText), write("request.json", run::toJson(request)),
                                      write("metrics.jsonl", metrics), write("summary.json", run::toJson(summary))})
            if (!written)
                return written;
    }
    return {};
}

} // namespace planloom::ui
