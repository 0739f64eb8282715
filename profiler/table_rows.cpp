// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "engine/cost/sparse_rows.h"
#include "executor/runtime/row_exchange.h"
#include "profiler/profile_model.h"

#include <algorithm>

namespace planloom::profiler {
namespace {

StageId stageWith(const program::Program &program, const std::string &table)
{
    for (const program::Body &body : program.bodies)
        for (const program::PersistentTensor &held : body.persistent)
            if (held.name == table)
                return body.stage;
    return {};
}

std::int64_t idsOfStep(const program::Program &program, const program::Table &table, StageId stage)
{
    std::int64_t samples = 0;
    for (const program::Body &body : program.bodies)
        for (std::size_t m = 0; body.stage == stage && m < body.slices.size(); ++m)
            samples += body.slices[m].size;
    return samples * table.idsPerSample;
}

/// Over @p steps steps and the one behind them.
cost::TableRows countOver(runtime::LookedUpRows &rows, std::int64_t steps)
{
    cost::TableRows sum;
    std::vector<cost::RowIds> now, next;
    cost::RowIds prior, delayed;
    rows.ofStep(0, now);
    for (std::int64_t step = 0; step < steps; ++step) {
        rows.ofStep(step + 1, next);
        const cost::RowIds nextOfAll = cost::unionOf(next);
        sum.all += static_cast<double>(cost::unionOf(now).size());
        for (const cost::RowIds &each : now) {
            cost::split(each, nextOfAll, prior, delayed);
            sum.unique += static_cast<double>(each.size());
            sum.prior += static_cast<double>(prior.size());
        }
        now.swap(next);
    }
    const auto members = static_cast<double>(now.size()), count = static_cast<double>(steps);
    return {0, sum.unique / count / members, sum.prior / count / members, sum.all / count};
}

} // namespace

Result<std::map<std::string, cost::TableRows>> countTableRows(const plan::Plan &plan, const plan::Subject &subject,
                                                              const data::DataSet &data, std::int64_t seed)
{
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
    auto needs = data::needsOf(*subject.graph);
    if (!needs)
        return needs.error();
    const runtime::Feed feed{&data, *needs, data::SampleOrder(data.samples(), seed, 0)};
    const std::int64_t epoch = std::max<std::int64_t>(data.samples() / plan.globalBatch, 1);
    std::map<std::string, cost::TableRows> tables;
    for (const program::Table &table : program->tables) {
        const StageId stage = stageWith(*program, table.parameter);
        runtime::LookedUpRows rows;
        if (const Status ready = rows.prepare(*program, table, stage, feed); !ready)
            return ready.error();
        cost::TableRows counted = countOver(rows, std::min(epoch, kCountedSteps));
        counted.ids = static_cast<double>(idsOfStep(*program, table, stage))
            / static_cast<double>(program->team(table.team).size());
        tables.emplace(table.parameter, counted);
    }
    return tables;
}

} // namespace planloom::profiler
