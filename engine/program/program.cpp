// SPDX-License-Identifier: Apache-2.0
#include "engine/program/program.h"

#include "engine/program/server_rows.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace planloom::program {
namespace {

using schedule::letter;

consteval bool lanesInOrder()
{
    std::size_t next = 0;
    for (const LaneRow &row : kLaneTable) {
        if (static_cast<std::size_t>(row.lane) != next++)
            return false;
    }
    return true;
}
static_assert(lanesInOrder());

const char *letters(cost::Collective collective)
{
    switch (collective) {
    case cost::Collective::AllReduce: return "AR";
    case cost::Collective::AllGather: return "AG";
    case cost::Collective::ReduceScatter: return "RS";
    case cost::Collective::AllToAll: return "AA";
    case cost::Collective::Broadcast: return "BC";
    }
    return "X";
}

trace::Kind kindOf(Pass pass)
{
    switch (pass) {
    case Pass::Forward: return trace::Kind::Forward;
    case Pass::Backward: return trace::Kind::Backward;
    case Pass::Recompute: return trace::Kind::Recompute;
    case Pass::WeightGradient: return trace::Kind::WeightGradient;
    }
    return trace::Kind::Other;
}

trace::Kind kindOf(cost::Collective collective)
{
    switch (collective) {
    case cost::Collective::AllReduce: return trace::Kind::AllReduce;
    case cost::Collective::AllGather: return trace::Kind::AllGather;
    case cost::Collective::ReduceScatter: return trace::Kind::ReduceScatter;
    case cost::Collective::AllToAll: return trace::Kind::AllToAll;
    case cost::Collective::Broadcast: break;
    }
    return trace::Kind::Other;
}

/// Calls the first of @p cases that takes the alternative.
template <class... Case>
struct Cases : Case... {
    using Case::operator()...;
};

/// Appends to a task id. Piece by piece: a trace has an id for each of a hundred thousand tasks, and parsing a format
/// is most of the work.
class IdText {
public:
    IdText &operator<<(std::string_view text)
    {
        m_length += text.copy(m_text.data() + m_length, m_text.size() - m_length);
        return *this;
    }
    IdText &operator<<(std::int32_t number)
    {
        const fmt::format_int digits(number);
        return *this << std::string_view(digits.data(), digits.size());
    }
    [[nodiscard]] std::string text() const { return std::string(m_text.data(), m_length); }

private:
    /// The longest is an operator's collective: three numbers, three codes of two letters at most, points between.
    std::array<char, 64> m_text;
    std::size_t m_length = 0;
};

} // namespace

std::size_t Team::position(RankId rank) const
{
    return static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

const char *name(Area area)
{
    switch (area) {
    case Area::Persistent: return "persistent";
    case Area::Inbox: return "inbox";
    case Area::Frame: return "frame";
    case Area::Outbox: return "outbox";
    case Area::GradientInbox: return "gradient inbox";
    case Area::GradientOutbox: return "gradient outbox";
    case Area::Workspace: return "workspace";
    case Area::WeightFrame: return "weight frame";
    case Area::WeightStash: return "weight stash";
    case Area::Pool: return "pool";
    }
    return "?";
}

std::vector<std::string_view> Program::parameters() const
{
    std::vector<std::string_view> names;
    std::unordered_set<std::string_view> seen;
    for (const Bucket &bucket : buckets)
        for (const Bucket::Entry &entry : bucket.entries)
            if (seen.insert(entry.parameter).second)
                names.push_back(entry.parameter);
    return names;
}

std::optional<Pass> Task::pass() const
{
    using Answer = std::optional<Pass>;
    return std::visit(Cases{[](const Compute &compute) -> Answer { return compute.pass; },
                            [](const Transfer &transfer) -> Answer { return transfer.pass; },
                            [](const Copy &copy) -> Answer { return copy.pass; },
                            [](const Boxing &boxing) -> Answer { return boxing.pass; },
                            [](const auto &) -> Answer { return std::nullopt; }},
                      payload);
}

TeamId Task::team() const
{
    if (const auto *boxing = as<Boxing>())
        return boxing->team;
    if (const auto *rows = as<RowExchange>())
        return rows->team;
    const auto *exchange = as<Exchange>();
    return exchange != nullptr ? exchange->team : TeamId();
}

std::int64_t Task::bytes() const
{
    if (const auto *boxing = as<Boxing>())
        return boxing->bytes;
    if (const auto *rows = as<RowExchange>())
        return rows->bytes;
    const auto *exchange = as<Exchange>();
    return exchange != nullptr ? exchange->bytes : 0;
}

trace::Kind Task::kind() const
{
    using trace::Kind;
    return std::visit(
        Cases{[](const Compute &compute) { return kindOf(compute.pass); },
              [](const Transfer &transfer) { return transfer.sends ? Kind::Send : Kind::Receive; },
              [](const Copy &) { return Kind::Receive; },
              [](const Boxing &boxing) { return boxing.served ? Kind::Send : kindOf(boxing.collective); },
              [](const Exchange &exchange) { return exchange.averages ? Kind::Average : kindOf(exchange.collective); },
              [](const Snapshot &) { return Kind::Snapshot; }, [](const Merge &) { return Kind::Merge; },
              [](const Update &) { return Kind::Optimizer; },
              [](const RowWork &work) { return work.kind == RowWork::Kind::Update ? Kind::Optimizer : Kind::Rows; },
              [](const RowExchange &rows) {
                  return !rows.gradients              ? Kind::LookUp
                      : rows.part == RowPart::Delayed ? Kind::DelayedRows
                                                      : Kind::RowGradients;
              },
              [](const Agreement &) { return Kind::Agreement; },
              [](const Swap &swap) { return swap.out ? Kind::CopyOut : Kind::CopyIn; }},
        payload);
}

namespace {

const char *nameOf(Agreement::Subject subject)
{
    switch (subject) {
    case Agreement::Subject::Step: return "step";
    case Agreement::Subject::GradientNorm: return "norm";
    case Agreement::Subject::UpdateNorms: return "update";
    }
    return "?";
}

} // namespace

std::string idOf(const Task &task)
{
    IdText id;
    if (const auto *agreement = task.as<Agreement>())
        return (id << "A." << nameOf(agreement->subject)).text();
    id << "s" << task.stage.value << ".";
    std::visit(Cases{[&](const Compute &compute) {
                         id << letter(compute.pass) << ".m" << task.microBatch;
                         if (compute.run > 0)
                             id << "." << compute.run;
                     },
                     [&](const Transfer &transfer) {
                         id << (transfer.sends ? "S" : "R") << letter(transfer.pass) << ".m" << task.microBatch;
                     },
                     [&](const Copy &copy) { id << "R" << letter(copy.pass) << ".m" << task.microBatch; },
                     [&](const Boxing &boxing) {
                         id << letter(boxing.pass) << ".m" << task.microBatch << "."
                            << (boxing.served ? "PS" : letters(boxing.collective)) << boxing.number;
                     },
                     [&](const Exchange &exchange) {
                         const bool warmsUp =
                             exchange.policy == plan::ExchangePolicy::DelayedAveraging && !exchange.averages;
                         const bool served = exchange.policy == plan::ExchangePolicy::ParameterServer;
                         id << (exchange.inside ? "GI"
                                    : warmsUp   ? "GR"
                                    : served    ? "PS"
                                                : letters(exchange.collective))
                            << ".b" << exchange.bucket.value;
                     },
                     [&](const Snapshot &snapshot) { id << "SN.b" << snapshot.bucket.value; },
                     [&](const Merge &merge) { id << "M.b" << merge.bucket.value; },
                     [&](const Update &update) {
                         id << "O";
                         if (update.bucket.valid())
                             id << ".b" << update.bucket.value;
                         if (update.part >= 0)
                             id << ".p" << update.part + 1;
                         if (update.phase > 0)
                             id << "." << static_cast<int>(update.phase);
                     },
                     [&](const Swap &swap) {
                         id << (swap.out ? "CO" : "CI");
                         if (task.microBatch < 0 && swap.number > 0)
                             id << ".p" << std::int32_t{swap.number};
                         else if (task.microBatch < 0)
                             id << ".o";
                         else
                             id << ".m" << task.microBatch << "." << std::int32_t{swap.number};
                     },
                     [&](const RowWork &work) {
                         using Kind = RowWork::Kind;
                         id << (work.kind == Kind::LookUp        ? "L"
                                    : work.kind == Kind::Collect ? "G"
                                                                 : "O")
                            << ".t" << work.table.value
                            << (work.part == RowPart::Prior         ? "p"
                                    : work.part == RowPart::Delayed ? "d"
                                                                    : "");
                     },
                     [&](const RowExchange &rows) {
                         id << (!rows.gradients                   ? "AF"
                                    : rows.part == RowPart::All   ? "AB"
                                    : rows.part == RowPart::Prior ? "AP"
                                                                  : "AD")
                            << ".t" << rows.table.value;
                     },
                     [](const Agreement &) {}},
               task.payload);
    return id.text();
}

std::int32_t traceLanes(const Program &program)
{
    const bool copies =
        std::any_of(program.ranks.begin(), program.ranks.end(), [](const Rank &rank) { return rank.hostBytes > 0; });
    return copies ? kLanes : static_cast<std::int32_t>(Lane::CopyOut); // the last ones
}

namespace {

/// Processes beside the Program's ranks, and what they do. A sampler works for steps to come.
void addRoles(const Program &program, trace::Tables &tables)
{
    const RoleRows roles(program);
    for (const Lane lane : {Lane::Send, Lane::Receive})
        tables.lanes[static_cast<std::size_t>(lane)].capacity = roles.sharing();
    tables.rounds.overlap = true;
    for (const std::string &process : program.sampled->processes)
        tables.ranks.push_back({process});
    for (const RoleRows::Row &row : roles.rows())
        tables.tasks.push_back({row.task.id, row.task.kind, -1, -1, row.group});
}

/// ServerRows, in its order.
void addServer(const Program &program, trace::Tables &tables)
{
    tables.lanes[static_cast<std::size_t>(ServerRows::kMessages)].capacity =
        static_cast<std::int32_t>(program.ranks.size());
    tables.rounds.overlap = true; // ranks are in steps of their own
    tables.ranks.push_back({"parameter server"});
    tables.tasks.push_back({"S", trace::Kind::Optimizer});
    for (std::size_t worker = 0; worker < program.ranks.size(); ++worker)
        tables.tasks.push_back({"w" + std::to_string(worker), trace::Kind::Receive});
}

} // namespace

trace::Tables traceTables(const Program &program, const cluster::Cluster &cluster)
{
    trace::Tables tables;
    for (const LaneRow &row : std::span(kLaneTable).first(static_cast<std::size_t>(traceLanes(program))))
        tables.lanes.push_back({row.name, row.work, row.capacity});
    tables.kinds = trace::standardKinds();
    tables.rounds = {program.periodSteps, program.steadyFrom, program.spansSteps()};
    tables.ranks.reserve(program.ranks.size());
    for (const Rank &rank : program.ranks)
        tables.ranks.push_back({cluster.device(rank.device).name});
    tables.tasks.reserve(program.tasks.size());
    for (const Task &task : program.tasks)
        tables.tasks.push_back({idOf(task), task.kind(), task.stage.value, task.microBatch, task.group.value});
    if (program.sampled)
        addRoles(program, tables);
    if (program.server)
        addServer(program, tables);
    return tables;
}

} // namespace planloom::program
