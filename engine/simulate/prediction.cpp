// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/prediction.h"

#include "engine/compile/compile.h"
#include "engine/plan/fingerprint.h"
#include "engine/program/kernel_rows.h"
#include "engine/simulate/simulate.h"

namespace planloom::simulate {

Result<Prediction> predict(const plan::Document &document, bool kernels)
{
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = kernels});
    if (!program)
        return program.error();
    const auto &cluster = *document.subject.cluster;
    const auto simulation = simulate(*program, cluster, {.trace = false, .memory = false});
    if (!simulation)
        return simulation.error();
    Prediction prediction;
    prediction.iterationSeconds = simulation->report.iterationSeconds;
    prediction.periodSteps = program->periodSteps;
    for (const auto &rank : program->ranks)
        prediction.peakBytes.push_back(rank.arenaBytes);
    prediction.tables = program::traceTables(*program, cluster);
    if (kernels)
        program::addKernelRows(*program, prediction.tables);
    if (program->server)
        prediction.tables.ranks.push_back({"parameter server"});
    prediction.peakBytes.resize(prediction.tables.ranks.size()); // neither roles nor servers have an arena
    prediction.globalBatch = document.plan.globalBatch;
    prediction.modelName = document.plan.modelName;
    prediction.plan = plan::fingerprint(document);
    return prediction;
}

} // namespace planloom::simulate
