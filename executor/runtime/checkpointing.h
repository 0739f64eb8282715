// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/checkpoint/writer.h"
#include "executor/data/order.h"
#include "executor/runtime/host_pieces.h"
#include "executor/runtime/rank_executor.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Fills the state of @p executor from the checkpoint in @p folder, cut in whichever way; its caller has compared
/// the checksums. Errors: those of checkpoint::restore.
Status restoreHeld(RankExecutor &executor, const std::string &folder);
/// Parameters of a rank that another executor goes on with, by name: each as a whole.
using Parameters = std::map<std::string, std::vector<std::byte>>;
/// Of @p model, float32, from the checkpoint in @p folder. Errors: those of checkpoint::restore.
Result<Parameters> parametersIn(const std::string &folder, const graph::Graph &model);
/// Of @p executor, between steps. Errors: those of HostPieces.
Result<Parameters> parametersOf(RankExecutor &executor);
/// Its own rows of states that belong to samples, likewise.
Result<Parameters> statesOfSamples(RankExecutor &executor);
/// Takes them for the present ones. Errors: those of HostPieces; Failed, one is missing.
Status setParameters(RankExecutor &executor, const Parameters &parameters);
/// The notes that were kept with the checkpoint in @p folder.
Result<std::map<std::string, std::string>> notesOf(const std::string &folder);

/// When a run writes checkpoints, and what it says in them.
struct CheckpointOptions {
    std::string runDir;
    std::int64_t every = 1; ///< steps
    int keep = 0;
    std::int64_t lease = 0;          ///< epoch
    std::int64_t firstStep = 0;      ///< of which there is a checkpoint, or nothing to keep
    checkpoint::TrainingState state; ///< all but the figures that follow from the step
    std::int64_t globalBatch = 1;
    data::SampleOrder order; ///< of the samples that are trained on
    std::function<Status(std::int64_t step, const std::stop_token &giveUp)> beforePublish; ///< as WriterOptions has it
};

/// A rank's share of the run's checkpoints: when they begin, and how the ranks agree on them. A checkpoint that cannot
/// be written (a full disk) is reported and training goes on. Thread contract: the thread of the executor, between
/// steps.
class Checkpointing {
public:
    /// Collective. Errors: those of CheckpointWriter::create.
    static Result<std::unique_ptr<Checkpointing>> create(RankExecutor &executor, CheckpointOptions options);

    /// True, on every rank alike, while a checkpoint that was begun is neither published nor given up.
    [[nodiscard]] bool inMaking() const { return !m_writer->idle(); }
    /// Collective, after each step; @p stepsDone of the run, those before it resumed included. Error: Failed
    /// (communication, the device).
    Status afterStep(std::int64_t stepsDone, const std::map<std::string, std::string> &notes);
    /// Collective, after the last step: sees to it that it is kept, and waits for the disk.
    Status finish(std::int64_t stepsDone, const std::map<std::string, std::string> &notes);

private:
    Checkpointing(RankExecutor &executor, CheckpointOptions options, HostPieces pieces)
        : m_executor(executor),
          m_options(std::move(options)),
          m_pieces(std::move(pieces)),
          m_begun(m_options.firstStep)
    {
    }
    Status begin(std::int64_t stepsDone, const std::map<std::string, std::string> &notes);
    Status agree();
    void tell(checkpoint::CheckpointWriter::Outcome outcome) const;

    RankExecutor &m_executor;
    CheckpointOptions m_options;
    HostPieces m_pieces; ///< the pieces that this rank writes
    std::unique_ptr<checkpoint::CheckpointWriter> m_writer;
    bool m_due = false;       ///< a checkpoint was due while another one was in the making
    std::int64_t m_begun = 0; ///< step of the last one
};

} // namespace planloom::runtime
