// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/checkpointing.h"

#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/update/replacement.h"
#include "engine/weights/convert.h"
#include "executor/checkpoint/restore.h"

#include <algorithm>
#include <numeric>
#include <fmt/format.h>
#include <thread>

namespace planloom::runtime {

namespace {

using checkpoint::Kind;
using checkpoint::Piece;

constexpr std::chrono::milliseconds kPause{2}; ///< between looks at the disk, when there is nothing else to do

/// The elements [begin, begin + count) of the tensor of which @p held is a part; data: none yet.
Piece pieceOf(const program::PersistentTensor &held, const checkpoint::Kind &kind, std::int64_t begin,
              std::int64_t count)
{
    Piece piece{.name = held.name,
                .kind = kind,
                .type = held.type,
                .shape = held.sizes,
                .region = held.region,
                .flatBegin = begin,
                .flatCount = count,
                .writes = held.saves};
    if (held.replicas > 0) { // each of them has a row
        piece.shape.insert(piece.shape.begin(), held.replicas);
        piece.region.insert(piece.region.begin(), {{held.replica, held.replica + 1}});
    }
    return piece;
}

Kind parameterKind(const program::PersistentTensor &held)
{
    return held.replicas > 0 ? Kind::Replicas : Kind::Parameter;
}

/// Variables of samples belong to the training, as an optimizer's states do, not to the model.
Kind stateKind(const program::PersistentTensor &held)
{
    if (held.ofSamples)
        return Kind::ofOptimizer("optimizer:samples");
    return held.ofTraining ? Kind::ofOptimizer("optimizer:sums") : Kind::State;
}

Status addStates(HostPieces &pieces, const program::PersistentTensor &held, const update::ConfiguredRule &rule)
{
    for (std::size_t i = 0; i < held.states.size() && held.updateCount > 0; ++i) {
        const auto kind = checkpoint::Kind::ofOptimizer(rule.states()[i].kind());
        const Piece piece = pieceOf(held, kind, held.updateBegin, held.updateCount);
        if (const Status added = pieces.add(piece, held, held.states[i]); !added)
            return added;
    }
    for (const auto &[kind, offset] :
         {std::pair("optimizer:average", held.average), {"optimizer:snapshot", held.snapshot}}) {
        if (offset < 0 || held.updateCount == 0)
            continue;
        const Piece piece = pieceOf(held, Kind::ofOptimizer(kind), held.updateBegin, held.updateCount);
        if (const Status added = pieces.add(piece, held, offset); !added)
            return added;
    }
    return {};
}

Status addSaved(HostPieces &pieces, const program::PersistentTensor &held, const update::ConfiguredRule &rule)
{
    if (held.kind == program::PersistentTensor::Kind::State)
        return pieces.add(pieceOf(held, stateKind(held), held.begin, held.count), held, held.offset);
    if (held.kind != program::PersistentTensor::Kind::Parameter || held.updateCount == 0) // another rank's, under ZeRO
        return {};
    const Piece piece = pieceOf(held, parameterKind(held), held.updateBegin, held.updateCount);
    const std::int64_t begin = held.offset + (held.updateBegin - held.begin) * graph::sizeOf(graph::DType::F32);
    if (const Status added = pieces.add(piece, held, begin); !added)
        return added;
    return addStates(pieces, held, rule);
}

/// The pieces that this rank writes: of parameters the elements that it updates, as updates of others may be on their
/// way here.
Result<HostPieces> piecesToSave(RankExecutor &executor)
{
    auto pieces = HostPieces::create(executor.context(), HostPieces::OfFiles::Read);
    if (!pieces)
        return pieces;
    for (const program::PersistentTensor &held : executor.persistent()) {
        if (const Status added = addSaved(*pieces, held, executor.updateRule()); !added)
            return added.error();
    }
    return pieces;
}

/// Tensors held here in the type of checkpoints.
/// @p states: of the update rule, too.
Status addStored(HostPieces &pieces, const program::PersistentTensor &held, const update::ConfiguredRule &rule,
                 bool states)
{
    if (held.kind == program::PersistentTensor::Kind::Constant)
        return {};
    const bool state = held.kind == program::PersistentTensor::Kind::State;
    if (held.offset >= 0 && held.count > 0) {
        const Piece piece = pieceOf(held, state ? stateKind(held) : parameterKind(held), held.begin, held.count);
        if (const Status added = pieces.add(piece, held, held.offset); !added)
            return added;
    }
    return state || !states ? Status() : addStates(pieces, held, rule);
}

/// Where memory has the whole of it at no time.
bool liesInFile(RankExecutor &executor, const program::PersistentTensor &held)
{
    const HostTier *host = executor.context().host;
    return held.part >= 0 && host != nullptr && host->isFile();
}

/// One tensor of a file: its pieces are in memory for this alone.
Status restoreAlone(RankExecutor &executor, const program::PersistentTensor &held, const checkpoint::Manifest &manifest,
                    bool states)
{
    auto pieces = HostPieces::create(executor.context());
    if (!pieces)
        return pieces.error();
    if (const Status added = addStored(*pieces, held, executor.updateRule(), states); !added)
        return added;
    if (const Status restored = checkpoint::restore(manifest, pieces->pieces(), checkpoint::Checksums::Trust);
        !restored)
        return restored;
    return pieces->upload();
}

/// Parameters whose copies in bfloat16 lie here; the numbers that these are made of go with them.
class Copies {
public:
    void add(const program::PersistentTensor &held)
    {
        if (held.kind == program::PersistentTensor::Kind::Constant || held.copy < 0 || held.copyCount == 0)
            return;
        m_held.push_back(&held);
        m_numbers.emplace_back(static_cast<std::size_t>(held.copyCount));
        m_pieces.push_back(pieceOf(held, parameterKind(held), held.copyBegin, held.copyCount));
        m_pieces.back().data = reinterpret_cast<std::byte *>(m_numbers.back().data());
    }
    [[nodiscard]] const std::vector<Piece> &pieces() const { return m_pieces; }

    Status upload(const ComputeContext &context) const
    {
        auto rounded = HostPieces::create(context);
        if (!rounded)
            return rounded.error();
        for (std::size_t i = 0; i < m_held.size(); ++i) {
            Piece piece = m_pieces[i];
            piece.type = graph::DType::BF16;
            if (const Status added = rounded->add(std::move(piece), *m_held[i], m_held[i]->copy); !added)
                return added;
            auto *to = reinterpret_cast<std::uint16_t *>(rounded->pieces().back().data);
            std::transform(m_numbers[i].begin(), m_numbers[i].end(), to, weights::toBFloat16);
        }
        return rounded->upload();
    }

private:
    std::vector<const program::PersistentTensor *> m_held;
    std::vector<std::vector<float>> m_numbers;
    std::vector<Piece> m_pieces;
};

Result<checkpoint::Manifest> manifestIn(const std::string &folder)
{
    const std::string path = folder + "/" + checkpoint::kManifestName;
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto manifest = checkpoint::manifestFromJson(*text);
    if (!manifest)
        return manifest.error().in(path);
    manifest->folder = folder;
    return manifest;
}

/// How the replicas share out the samples, in least terms: "1,1"; empty where they average no parameters.
std::string sharesOf(const program::Program &program)
{
    std::map<std::size_t, std::int64_t> samples;
    std::int64_t common = 0;
    for (const program::Body &body : program.bodies) {
        const bool averages = std::any_of(body.persistent.begin(), body.persistent.end(),
                                          [](const program::PersistentTensor &held) { return held.replicas > 0; });
        if (!averages || body.stage.value != 0)
            continue;
        std::int64_t &own = samples[body.replica];
        own = 0;
        for (const plan::SampleRange &slice : body.slices)
            own += slice.size;
        common = std::gcd(common, own);
    }
    std::string text;
    for (const auto &[replica, count] : samples)
        text += (text.empty() ? "" : ",") + std::to_string(count / std::max<std::int64_t>(common, 1));
    return text;
}

/// The settings that the program's averages follow, as plans write them; empty: there are none.
std::string averagingOf(const program::Program &program)
{
    plan::Exchange exchange;
    const auto cadenceOf = [&](const program::Task &task) {
        return program.cadences[static_cast<std::size_t>(task.cadence - 1)];
    };
    for (const program::Task &task : program.tasks) {
        if (task.as<program::Snapshot>() != nullptr)
            exchange.averaging.warmupSteps = cadenceOf(task).first;
        if (const auto *sum = task.as<program::Exchange>(); sum != nullptr && sum->inside)
            exchange.averaging.inside = plan::Inside::Machine;
        const auto *merge = task.as<program::Merge>();
        if (merge == nullptr)
            continue;
        exchange.policy = plan::ExchangePolicy::DelayedAveraging;
        plan::DelayedAveraging &averaging = exchange.averaging;
        averaging.localSteps = cadenceOf(task).period;
        averaging.delay = cadenceOf(task).first + 1 - averaging.localSteps - averaging.warmupSteps;
        averaging.merge = merge->rule;
        averaging.localWeight = merge->localWeight;
    }
    return exchange.averages() ? plan::textOf(exchange) : std::string();
}

/// Replicas with parameters of their own go on as the same replicas, with the averages that are under way.
Status checkReplicas(const RankExecutor &executor, const checkpoint::Manifest &manifest)
{
    const auto note = [&](const char *name) {
        const auto stored = manifest.state.notes.find(name);
        return stored == manifest.state.notes.end() ? std::string() : stored->second;
    };
    const auto text = [](const std::string &shares, const std::string &averaging) {
        return shares.empty() ? std::string("one set of parameters")
                              : "replicas that average theirs (shares " + shares + "; " + averaging + ")";
    };
    const std::string before = text(note(checkpoint::kReplicasNote), note(checkpoint::kAveragingNote));
    const std::string now = text(sharesOf(executor.program()), averagingOf(executor.program()));
    if (before == now)
        return {};
    return badInput(
        fmt::format("the checkpoint has {} and the plan {}; resume with the exchange and the replicas of the "
                    "plan that wrote it, or begin a new run with its weights (planloom export --to "
                    "safetensors)",
                    before, now));
}

} // namespace

Status restoreHeld(RankExecutor &executor, const std::string &folder)
{
    const auto manifest = manifestIn(folder);
    if (!manifest)
        return manifest.error();
    if (const Status same = checkReplicas(executor, *manifest); !same)
        return same.error().in(folder + "/" + checkpoint::kManifestName);
    auto stored = HostPieces::create(executor.context());
    if (!stored)
        return stored.error();
    Copies copies;
    // Written by steps without optimizer, whose states begin as zeros.
    const bool begins = executor.beginsUpdates() && manifest->state.optimizer == update::replacement().name;
    for (const program::PersistentTensor &held : executor.persistent()) {
        if (liesInFile(executor, held)) {
            if (const Status filled = restoreAlone(executor, held, *manifest, !begins); !filled)
                return filled;
            continue;
        }
        if (const Status added = addStored(*stored, held, executor.updateRule(), !begins); !added)
            return added;
        copies.add(held);
    }
    std::vector<Piece> pieces(stored->pieces().begin(), stored->pieces().end());
    pieces.insert(pieces.end(), copies.pieces().begin(), copies.pieces().end());
    if (const Status restored = checkpoint::restore(*manifest, pieces, checkpoint::Checksums::Trust); !restored)
        return restored;
    if (const Status uploaded = stored->upload(); !uploaded)
        return uploaded;
    return copies.upload(executor.context());
}

Result<Parameters> parametersIn(const std::string &folder, const graph::Graph &model)
{
    const auto manifest = manifestIn(folder);
    if (!manifest)
        return manifest.error();
    Parameters parameters;
    std::vector<Piece> pieces;
    for (const TensorId id : model.withRole(graph::TensorRole::Parameter)) {
        const graph::Tensor &tensor = model.tensor(id);
        const std::vector<std::int64_t> sizes = tensor.shape.at(1); // a parameter's has no batch axis
        const std::int64_t elements = checkpoint::wholeElements(sizes);
        std::vector<std::byte> &values = parameters[tensor.name];
        values.resize(static_cast<std::size_t>(elements) * sizeof(float));
        pieces.push_back({.name = tensor.name,
                          .shape = sizes,
                          .region = checkpoint::wholeRegion(sizes),
                          .flatCount = elements,
                          .data = values.data()});
    }
    if (const Status restored = checkpoint::restore(*manifest, pieces, checkpoint::Checksums::Trust); !restored)
        return restored.error();
    return parameters;
}

namespace {

/// Parameters, which are whole on every rank, or states of samples, with their places in the arena.
Result<HostPieces> piecesOf(RankExecutor &executor, bool ofSamples)
{
    auto pieces = HostPieces::create(executor.context());
    if (!pieces)
        return pieces;
    for (const program::PersistentTensor &held : executor.persistent())
        if (ofSamples ? held.ofSamples : held.kind == program::PersistentTensor::Kind::Parameter)
            if (const Status added =
                    pieces->add(pieceOf(held, Kind::Parameter, held.begin, held.count), held, held.offset);
                !added)
                return added.error();
    return pieces;
}

std::int64_t bytesOf(const Piece &piece) { return piece.flatCount * graph::sizeOf(piece.type); }

Result<Parameters> downloaded(Result<HostPieces> pieces)
{
    if (!pieces)
        return pieces.error();
    if (const Status read = pieces->download(); !read)
        return read.error();
    Parameters parameters;
    for (const Piece &piece : pieces->pieces())
        parameters.try_emplace(piece.name, piece.data, piece.data + bytesOf(piece));
    return parameters;
}

} // namespace

Result<Parameters> parametersOf(RankExecutor &executor) { return downloaded(piecesOf(executor, false)); }

Result<Parameters> statesOfSamples(RankExecutor &executor) { return downloaded(piecesOf(executor, true)); }

Status setParameters(RankExecutor &executor, const Parameters &parameters)
{
    auto pieces = piecesOf(executor, false);
    if (!pieces)
        return pieces.error();
    for (const Piece &piece : pieces->pieces()) {
        const auto found = parameters.find(piece.name);
        if (found == parameters.end() || std::ssize(found->second) != bytesOf(piece))
            return failed(fmt::format("the steps before have no parameter {} of {} bytes", piece.name, bytesOf(piece)));
        std::copy(found->second.begin(), found->second.end(), piece.data);
    }
    return pieces->upload();
}

Result<std::map<std::string, std::string>> notesOf(const std::string &folder)
{
    auto manifest = manifestIn(folder);
    if (!manifest)
        return manifest.error();
    return std::move(manifest->state.notes);
}

Result<std::unique_ptr<Checkpointing>> Checkpointing::create(RankExecutor &executor, CheckpointOptions options)
{
    auto pieces = piecesToSave(executor);
    if (!pieces)
        return pieces.error();
    std::unique_ptr<Checkpointing> made(new Checkpointing(executor, std::move(options), std::move(*pieces)));
    const comm::Communicator &comm = executor.communicator();
    const std::span<const Piece> saved = made->m_pieces.pieces();
    auto writer = checkpoint::CheckpointWriter::create({saved.begin(), saved.end()},
                                                       {.runDir = made->m_options.runDir,
                                                        .rank = comm.rank(),
                                                        .world = comm.size(),
                                                        .lease = made->m_options.lease,
                                                        .keep = made->m_options.keep,
                                                        .beforePublish = made->m_options.beforePublish});
    if (!writer)
        return writer.error();
    made->m_writer = std::move(*writer);
    return made;
}

Status Checkpointing::afterStep(std::int64_t stepsDone, const std::map<std::string, std::string> &notes)
{
    if (!m_writer->idle()) {
        if (const Status agreed = agree(); !agreed)
            return agreed;
    }
    m_due = m_due || stepsDone % m_options.every == 0;
    if (m_due && m_writer->idle())
        return begin(stepsDone, notes);
    return {};
}

Status Checkpointing::finish(std::int64_t stepsDone, const std::map<std::string, std::string> &notes)
{
    for (;;) {
        while (!m_writer->idle()) {
            if (const Status agreed = agree(); !agreed)
                return agreed;
            std::this_thread::sleep_for(kPause);
        }
        if (m_begun == stepsDone)
            return {};
        if (const Status begun = begin(stepsDone, notes); !begun)
            return begun;
    }
}

Status Checkpointing::begin(std::int64_t stepsDone, const std::map<std::string, std::string> &notes)
{
    checkpoint::TrainingState state = m_options.state;
    state.step = stepsDone;
    state.samples = m_options.order.consumed(stepsDone, m_options.globalBatch);
    state.epoch = state.samples / m_options.order.trained();
    state.notes = notes;
    if (const std::string shares = sharesOf(m_executor.program()); !shares.empty()) {
        state.notes[checkpoint::kReplicasNote] = shares;
        state.notes[checkpoint::kAveragingNote] = averagingOf(m_executor.program());
    }
    if (Status here = m_executor.bringStates(); !here)
        return here;
    if (Status fetched = m_executor.fetchStates(); !fetched)
        return fetched;
    if (Status read = m_pieces.download(); !read)
        return read;
    m_writer->begin(state);
    m_begun = stepsDone;
    m_due = false;
    return {};
}

/// The ranks' votes, summed up: whole numbers, so that every rank sees the same.
Status Checkpointing::agree()
{
    const checkpoint::Votes mine = m_writer->votes();
    float sums[2] = {mine.ready, mine.failures};
    comm::Communicator &comm = m_executor.communicator();
    Result<comm::Request> request = comm.allReduce(comm.world(), sums, 2);
    if (!request)
        return request.error();
    if (const Status done = comm.wait(*request, m_executor.deadline(), "the other ranks' checkpoints"); !done)
        return done;
    tell(m_writer->agree({sums[0], sums[1]}));
    return {};
}

void Checkpointing::tell(checkpoint::CheckpointWriter::Outcome outcome) const
{
    using Outcome = checkpoint::CheckpointWriter::Outcome;
    const bool first = m_executor.communicator().rank() == 0;
    if (outcome == Outcome::Published && first)
        log(LogLevel::Info,
            fmt::format("checkpoint of step {}: {} bytes of rank 0 in {:.3g} s, training waited {:.3g} s",
                        m_writer->step(), m_writer->bytes(), m_writer->writeSeconds(), m_writer->stallSeconds()));
    if (outcome == Outcome::Failed && (first || !m_writer->failure().empty()))
        log(LogLevel::Warning,
            fmt::format("there is no checkpoint of step {}: {}; training goes on", m_writer->step(),
                        m_writer->failure().empty() ? "another rank failed" : m_writer->failure()));
}

} // namespace planloom::runtime
