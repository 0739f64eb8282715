// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/checkpointing.h"

#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/weights/convert.h"
#include "executor/checkpoint/restore.h"

#include <fmt/format.h>
#include <thread>

namespace planloom::runtime {

namespace {

using checkpoint::Piece;

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::chrono::milliseconds kPause{2}; ///< between looks at the disk, when there is nothing else to do

/// The elements [begin, begin + count) of what @p held is a part of.
Piece pieceOf(const program::Held &held, checkpoint::Kind kind, std::int64_t begin, std::int64_t count, std::byte *data)
{
    return {.name = held.name, .kind = kind, .type = held.type, .shape = held.sizes, .region = held.region, .flatBegin = begin, .flatCount = count, .data = data,
            .writes = held.saves};
}

void addMoments(std::vector<Piece> &pieces, RankExecutor &executor, const program::Held &held)
{
    constexpr checkpoint::Kind kMoments[] = {checkpoint::Kind::Moment1, checkpoint::Kind::Moment2};
    for (std::size_t i = 0; i < std::size(kMoments); ++i) {
        if (held.moments[i] >= 0 && held.updateCount > 0)
            pieces.push_back(pieceOf(held, kMoments[i], held.updateBegin, held.updateCount, executor.address(held.moments[i])));
    }
}

/// What this rank writes: of parameters what it updates, as what others update may be on its way here.
std::vector<Piece> piecesToSave(RankExecutor &executor)
{
    std::vector<Piece> pieces;
    for (const program::Held &held : executor.held()) {
        if (held.kind == program::Held::Kind::Parameter && held.updateCount == 0) // another rank's, under ZeRO
            continue;
        if (held.kind == program::Held::Kind::Parameter) {
            std::byte *data = executor.address(held.offset) + (held.updateBegin - held.begin) * kFloat;
            pieces.push_back(pieceOf(held, checkpoint::Kind::Parameter, held.updateBegin, held.updateCount, data));
            addMoments(pieces, executor, held);
        } else if (held.kind == program::Held::Kind::State) {
            pieces.push_back(pieceOf(held, checkpoint::Kind::State, held.begin, held.count, executor.address(held.offset)));
        }
    }
    return pieces;
}

/// All that lies here, and the numbers that copies in bfloat16 are made of.
struct Wanted {
    struct Copy {
        std::vector<float> numbers;
        std::byte *to = nullptr;
    };
    std::vector<Piece> pieces;
    std::vector<std::unique_ptr<Copy>> copies;
};

Wanted everythingHeld(RankExecutor &executor)
{
    Wanted wanted;
    for (const program::Held &held : executor.held()) {
        if (held.kind == program::Held::Kind::Constant)
            continue;
        const bool state = held.kind == program::Held::Kind::State;
        if (held.offset >= 0 && held.count > 0)
            wanted.pieces.push_back(pieceOf(held, state ? checkpoint::Kind::State : checkpoint::Kind::Parameter, held.begin, held.count, executor.address(held.offset)));
        if (!state)
            addMoments(wanted.pieces, executor, held);
        if (held.copy < 0 || held.copyCount == 0)
            continue;
        auto copy = std::make_unique<Wanted::Copy>();
        copy->numbers.resize(static_cast<std::size_t>(held.copyCount));
        copy->to = executor.address(held.copy);
        wanted.pieces.push_back(pieceOf(held, checkpoint::Kind::Parameter, held.copyBegin, held.copyCount, reinterpret_cast<std::byte *>(copy->numbers.data())));
        wanted.copies.push_back(std::move(copy));
    }
    return wanted;
}

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

} // namespace

Status restoreHeld(RankExecutor &executor, const std::string &folder)
{
    const auto manifest = manifestIn(folder);
    if (!manifest)
        return manifest.error();
    const Wanted wanted = everythingHeld(executor);
    if (const Status restored = checkpoint::restore(*manifest, wanted.pieces, checkpoint::Checksums::Trust); !restored)
        return restored;
    for (const auto &copy : wanted.copies) {
        auto *to = reinterpret_cast<std::uint16_t *>(copy->to);
        for (const float number : copy->numbers)
            *to++ = weights::toBFloat16(number);
    }
    return {};
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
    std::unique_ptr<Checkpointing> made(new Checkpointing(executor, std::move(options)));
    const comm::Communicator &comm = executor.communicator();
    auto writer = checkpoint::CheckpointWriter::create(piecesToSave(executor), {.runDir = made->m_options.runDir,
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
        begin(stepsDone, notes);
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
        begin(stepsDone, notes);
    }
}

void Checkpointing::begin(std::int64_t stepsDone, const std::map<std::string, std::string> &notes)
{
    checkpoint::TrainingState state = m_options.state;
    state.step = stepsDone;
    state.samples = m_options.order.consumed(stepsDone, m_options.globalBatch);
    state.epoch = state.samples / m_options.order.trained();
    state.notes = notes;
    m_writer->begin(state);
    m_begun = stepsDone;
    m_due = false;
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
        log(LogLevel::Info, fmt::format("checkpoint of step {}: {} bytes of rank 0 in {:.3g} s, training waited {:.3g} s", m_writer->step(), m_writer->bytes(),
                                        m_writer->writeSeconds(), m_writer->stallSeconds()));
    if (outcome == Outcome::Failed && (first || !m_writer->failure().empty()))
        log(LogLevel::Warning, fmt::format("there is no checkpoint of step {}: {}; training goes on", m_writer->step(),
                                           m_writer->failure().empty() ? "another rank failed" : m_writer->failure()));
}

} // namespace planloom::runtime
