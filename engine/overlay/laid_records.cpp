// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/laid_records.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace planloom::overlay {
namespace {

std::string passId(std::size_t stage, bool backward, std::int32_t microBatch)
{
    std::string id = fmt::format("s{}.{}", stage, backward ? 'B' : 'F');
    return microBatch < 0 ? id : id + fmt::format(".m{}", microBatch);
}

} // namespace

ExchangeTasks exchangeTasks(const program::Program &program, const Candidate &candidate)
{
    ExchangeTasks made;
    if (candidate.whole)
        return made;
    for (const TaskId id : program.ranks[static_cast<std::size_t>(candidate.ranks.front())].tasks) {
        if (program.task(id).bytes() > 0)
            made[program.task(id).kind()].push_back(id);
    }
    return made;
}

std::vector<ExchangesOfKind> exchangesOf(const ExchangeTasks &tasks, const Process &process, std::int32_t step)
{
    std::map<trace::Kind, ExchangesOfKind> byKind;
    for (const std::size_t at : process.exchangesOfStep.in(step))
        byKind[process.exchanges[at].kind].found.push_back(&process.exchanges[at]);
    std::vector<ExchangesOfKind> made;
    for (auto &[kind, exchanges] : byKind) {
        exchanges.kind = kind;
        if (const auto planned = tasks.find(kind); planned != tasks.end())
            exchanges.tasks = planned->second;
        made.push_back(std::move(exchanges));
    }
    return made;
}

std::set<std::size_t> matchedCalls(const FoundStep &step)
{
    std::set<std::size_t> calls;
    for (const FoundPass &pass : step.passes) {
        for (const auto &[unit, call] : pass.pairs)
            calls.insert(call);
    }
    return calls;
}

LaidRecords::LaidRecords(const plan::Document &document, const program::Program &program, const Expected &expected,
                         trace::Trace &trace)
    : m_document(document),
      m_program(program),
      m_expected(expected),
      m_trace(trace)
{
    static_cast<trace::Tables &>(trace) = program::traceTables(program, *document.subject.cluster);
    trace.clock = "wall";
    m_operators = static_cast<std::int32_t>(trace.lanes.size());
    trace.lanes.push_back({"operators", trace::Work::Device, 1});
    trace.lanes.push_back({"not matched", trace::Work::Device, 1});
}

std::int32_t LaidRecords::rowOf(const std::string &id, trace::Kind kind, std::int32_t rank, std::int32_t stage,
                                std::int32_t microBatch)
{
    auto &tasks = m_trace.tasks;
    const auto [at, isNew] = m_rows.try_emplace({rank, id}, static_cast<std::int32_t>(tasks.size()));
    if (isNew)
        tasks.push_back({id, kind, stage, microBatch, -1});
    return at->second;
}

void LaidRecords::addRecord(std::int64_t begin, std::int64_t end, std::int32_t task, std::int32_t step,
                            std::int32_t rank, std::int32_t lane)
{
    m_trace.records.push_back({begin, std::max<std::int64_t>(0, end - begin), task, step, rank, lane});
}

void LaidRecords::addStep(const Process &process, const Candidate &candidate, const FoundStep &step,
                          const std::set<std::size_t> &matched, std::int32_t number, bool hasTasks)
{
    for (const FoundPass &pass : step.passes)
        addPass(process, candidate, pass, number, hasTasks);
    std::optional<std::pair<std::int64_t, std::int64_t>> update;
    const std::int32_t rank = m_expected.rankOf(candidate, candidate.stages.front());
    for (const std::size_t i : process.callsOfStep.in(step.step)) {
        const Call &call = process.calls[i];
        if (process.hasKernels && call.kernels == 0)
            continue;
        if (call.phase == Phase::Optimizer)
            update = update ? std::pair(std::min(update->first, call.begin), std::max(update->second, call.end))
                            : std::pair(call.begin, call.end);
        else if (!matched.contains(i) && call.busy > 0)
            addRecord(call.begin, call.end,
                      rowOf(fmt::format("not matched/{}", call.name), trace::Kind::Other, rank, -1, -1), number, rank,
                      m_operators + 1);
    }
    if (update)
        addUpdate(candidate, rank, *update, number);
}

void LaidRecords::addPass(const Process &process, const Candidate &candidate, const FoundPass &pass,
                          std::int32_t number, bool hasTasks)
{
    const bool backward = pass.pass->backward;
    const trace::Kind kind = backward ? trace::Kind::Backward : trace::Kind::Forward;
    std::map<std::size_t, std::pair<std::int64_t, std::int64_t>> spans; // by stage
    std::map<std::size_t, std::vector<std::size_t>> unitsOf;            // by call
    for (const auto &[unit, call] : pass.pairs)
        unitsOf[call].push_back(unit);
    for (const auto &[at, units] : unitsOf) {
        const Call &call = process.calls[at];
        if (process.hasKernels && call.kernels == 0)
            continue;
        const Unit &unit = m_expected.units()[units.front()];
        const auto [span, isNew] = spans.try_emplace(unit.stage, call.begin, call.end);
        if (!isNew)
            span->second = {std::min(span->second.first, call.begin), std::max(span->second.second, call.end)};
        const std::int32_t rank = m_expected.rankOf(candidate, unit.stage);
        const std::string task = passId(unit.stage, backward, hasTasks ? pass.pass->microBatch : -1);
        const graph::Op &op = m_document.subject.graph->op(unit.ops.front());
        std::string id = task + "/" + op.name;
        if (units.size() > 1)
            id += fmt::format(" and {} more", units.size() - 1);
        addRecord(call.begin, call.end, rowOf(id, kind, rank, static_cast<std::int32_t>(unit.stage), -1), number, rank,
                  m_operators);
    }
    for (const auto &[stage, span] : spans) {
        const std::int32_t rank = m_expected.rankOf(candidate, stage);
        const TaskId task = hasTasks ? m_expected.task(rank, backward, stage, pass.pass->microBatch) : TaskId();
        m_inPieces = m_inPieces || (hasTasks && !task.valid());
        const std::int32_t row = task.valid()
            ? task.value
            : rowOf(passId(stage, backward, -1), kind, rank, static_cast<std::int32_t>(stage), -1);
        addRecord(span.first, span.second, row, number, rank, 0);
    }
}

void LaidRecords::addUpdate(const Candidate &candidate, std::int32_t rank, std::pair<std::int64_t, std::int64_t> span,
                            std::int32_t number)
{
    const auto [kept, isNew] = m_updates.try_emplace(rank);
    std::vector<TaskId> &updates = kept->second;
    for (const TaskId id : isNew ? m_program.ranks[static_cast<std::size_t>(rank)].tasks : std::vector<TaskId>()) {
        if (m_program.task(id).as<program::Update>() != nullptr)
            updates.push_back(id);
    }
    const bool isTask = updates.size() == 1 && !candidate.whole;
    const std::int32_t row = isTask
        ? updates.front().value
        : rowOf(fmt::format("s{}.O, of all", candidate.stages.front()), trace::Kind::Optimizer, rank, -1, -1);
    addRecord(span.first, span.second, row, number, rank, 0);
}

void LaidRecords::addExchanges(const std::vector<ExchangesOfKind> &exchanges, std::int32_t rank, std::int32_t number)
{
    for (const ExchangesOfKind &kind : exchanges) {
        for (std::size_t i = 0; kind.agree() && i < kind.found.size(); ++i)
            addRecord(kind.found[i]->begin, kind.found[i]->end, kind.tasks[i].value, number, rank,
                      static_cast<std::int32_t>(m_program.task(kind.tasks[i]).lane));
    }
}

} // namespace planloom::overlay
