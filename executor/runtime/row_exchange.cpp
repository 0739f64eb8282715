// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/row_exchange.h"

#include "executor/runtime/row_packing.h"

#include <algorithm>
#include <cstring>

namespace planloom::runtime {

using cost::RowIds;
using program::RowPart;

namespace {

constexpr std::int64_t kFloat = sizeof(float);

/// Those of @p rows that @p member holds.
std::span<const std::int64_t> heldBy(const program::Table::Member &member, const RowIds &rows)
{
    const auto first = std::lower_bound(rows.begin(), rows.end(), member.firstRow);
    return {first, std::lower_bound(first, rows.end(), member.endRow)};
}

} // namespace

// --- Which rows -----------------------------------------------------------------------------------------------------

Status LookedUpRows::prepare(const program::Program &program, const program::Table &table, StageId stage,
                             const Feed &feed)
{
    m_feed = &feed;
    m_globalBatch = program.globalBatch;
    m_tableRows = table.rows;
    const auto &known = feed.needs.inputs;
    const auto need = std::find_if(known.begin(), known.end(),
                                   [&](const data::Needs::Input &input) { return input.name == table.ids; });
    if (need == known.end())
        return unsupported("there is no data for the model's input \"" + table.ids + "\", which looks up table "
                           + table.parameter + "; name it in the data, or exchange the table by all-reduce");
    m_input = static_cast<std::size_t>(need - known.begin());
    m_ids.resize(static_cast<std::size_t>(need->perSample));
    m_marks = cost::RowMarks(table.rows);
    for (const RankId rank : program.team(table.team).ranks)
        for (const program::Body &body : program.bodies)
            if (body.rank == rank && body.stage == stage)
                m_slices.emplace_back(body.slices);
    return {};
}

void LookedUpRows::mark(std::int64_t sample)
{
    m_feed->data->fillInputAt(m_input, sample, m_ids.data());
    for (const std::int64_t id : m_ids) {
        const std::int64_t row = id < 0 ? id + m_tableRows : id; // as Gather counts
        if (row >= 0 && row < m_tableRows)
            m_marks.mark(row);
    }
}

/// What is marked, in place of @p rows.
void LookedUpRows::take(RowIds &rows)
{
    rows.clear();
    m_marks.append(rows);
    m_marks.clear();
}

void LookedUpRows::ofStep(std::int64_t step, std::vector<RowIds> &rows)
{
    rows.resize(m_slices.size());
    for (std::size_t member = 0; member < m_slices.size(); ++member) {
        for (const plan::SampleRange &slice : m_slices[member])
            for (std::int64_t i = 0; i < slice.size; ++i)
                mark(m_feed->order.sampleIndex(step, m_globalBatch, slice.begin + i));
        take(rows[member]);
    }
}

void LookedUpRows::ofHeldOut(std::int64_t first, std::vector<RowIds> &rows)
{
    rows.resize(m_slices.size());
    for (std::size_t member = 0; member < m_slices.size(); ++member) {
        const plan::SampleRange &slice = m_slices[member].front();
        for (std::int64_t i = 0; i < slice.size; ++i)
            mark(m_feed->order.heldOutIndex((first + slice.begin + i) % m_feed->order.heldOut()));
        take(rows[member]);
    }
}

// --- Before the first step ------------------------------------------------------------------------------------------

Status RowExchange::prepare(RankParts &parts, const Feed &feed, const ExecutorOptions &options)
{
    const plan::Optimizer &how = options.optimizer;
    m_parts = &parts;
    m_options = &options;
    m_formula = &how.rule.formula();
    for (std::size_t t = 0; t < parts.program.tables.size(); ++t) {
        const program::Table &table = parts.program.tables[t];
        const auto &ranks = parts.program.team(table.team).ranks;
        m_delays = m_delays || table.delays;
        if (!std::binary_search(ranks.begin(), ranks.end(), parts.rank))
            continue;
        if (!parts.device.hostAddressable())
            return unsupported("tables are exchanged by rows between processors only; exchange table " + table.parameter
                               + " by all-reduce on this device");
        for (const BodyId index : parts.own().bodies) {
            const program::Body &body = parts.program.body(index);
            const bool holds =
                std::any_of(body.persistent.begin(), body.persistent.end(),
                            [&](const program::PersistentTensor &held) { return held.name == table.parameter; });
            if (!holds)
                continue;
            if (Status added = add(table, TableId(static_cast<std::int64_t>(t)), body.stage, feed, how); !added)
                return added;
        }
    }
    return {};
}

Status RowExchange::add(const program::Table &table, TableId id, StageId stage, const Feed &feed,
                        const plan::Optimizer &how)
{
    Table made;
    made.id = id;
    made.table = &table;
    made.at = m_parts->program.team(table.team).position(m_parts->rank);
    made.own = &table.members[made.at];
    const program::Bucket &bucket = m_parts->program.bucket(table.bucket);
    made.gradients = m_parts->arena.use(bucket.gradients[made.at], table.window * table.columns * kFloat);
    made.rowsHere = m_parts->arena.use(bucket.parameters[made.at],
                                       (table.isCut() ? table.window : table.rows) * table.columns * kFloat);
    made.inWindow = cost::RowMarks(table.rows);
    made.marks = cost::RowMarks(table.rows);
    if (Status known = made.lookedUp.prepare(m_parts->program, table, stage, feed); !known)
        return known;
    if (Status ready = makeUpdates(made, how); !ready)
        return ready;
    m_tables.push_back(std::move(made));
    return {};
}

/// For all rows that may come at once, for half of them, and so on: a step updates no more than twice what came.
Status RowExchange::makeUpdates(Table &table, const plan::Optimizer &how)
{
    const plan::ParameterSettings settings = plan::settingsOf(how, table.table->parameter, 2);
    constexpr std::int64_t kFewest = 1024;
    for (std::int64_t count = table.table->updatedRows(*table.own) * table.width(); count > 0; count /= 2) {
        device::UpdateRange range;
        range.parameter = floats(table.own->updated, count);
        range.gradient = floats(table.own->sums, count);
        for (std::size_t s = 0; s < table.own->updatedStates.size(); ++s)
            range.states[s] = floats(table.own->updatedStates[s], count);
        range.count = count;
        range.rateFactor = static_cast<float>(settings.learningRateFactor);
        range.decay = static_cast<float>(settings.weightDecay);
        auto updates = m_parts->device.makeUpdates(*m_formula, {&range, 1});
        if (!updates)
            return updates.error();
        table.updates.push_back(std::move(*updates));
        table.updateSizes.push_back(count);
        if (count < kFewest)
            break;
    }
    return {};
}

float *RowExchange::floats(std::int64_t offset, std::int64_t count)
{
    return reinterpret_cast<float *>(m_parts->arena.use(offset, count * kFloat));
}

RowExchange::Table &RowExchange::of(TableId id)
{
    return *std::find_if(m_tables.begin(), m_tables.end(), [id](const Table &table) { return table.id == id; });
}

// --- Places ---------------------------------------------------------------------------------------------------------

std::int32_t RowExchange::tableOf(std::string_view input) const
{
    for (std::size_t t = 0; t < m_tables.size(); ++t)
        if (m_tables[t].table->places == input)
            return static_cast<std::int32_t>(t);
    return -1;
}

const std::string &RowExchange::idsOf(std::int32_t table) const
{
    return m_tables[static_cast<std::size_t>(table)].table->ids;
}

void RowExchange::enter(std::int64_t step)
{
    for (Table &table : m_tables)
        enter(table, step);
}

void RowExchange::enter(Table &table, std::int64_t step)
{
    if (table.step == step && table.window == &table.rows[table.at])
        return;
    if (table.step != step && table.nextStep == step)
        table.rows.swap(table.next);
    else if (table.step != step)
        table.lookedUp.ofStep(step, table.rows);
    if (table.step != step)
        table.nextStep = -1;
    table.step = step;
    setWindow(table, table.rows[table.at]);
}

void RowExchange::setWindow(Table &table, const RowIds &rows)
{
    table.window = &rows;
    table.inWindow.clear();
    table.inWindow.mark(rows);
    table.inWindow.countPlaces();
}

void RowExchange::toPlaces(std::int32_t index, std::int64_t *ids, std::int64_t count) const
{
    const Table &table = m_tables[static_cast<std::size_t>(index)];
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = ids[i] < 0 ? ids[i] + table.table->rows : ids[i];
        const std::int64_t place = row >= 0 && row < table.table->rows ? table.inWindow.placeOf(row) : -1;
        ids[i] = place >= 0 ? place : table.table->window;
    }
}

// --- Tasks ----------------------------------------------------------------------------------------------------------

void RowExchange::work(const program::RowWork &work, const Step &step)
{
    Table &table = of(work.table);
    switch (work.kind) {
    case program::RowWork::Kind::LookUp:
        enter(table, step.number);
        lookUp(table, table.rows);
        return;
    case program::RowWork::Kind::Collect: collect(table, step); return;
    case program::RowWork::Kind::Update: break;
    }
    if (work.part != RowPart::Delayed)
        return update(table, gradientsOf(table, work.part), table.own->others, step);
    if (table.pending)
        update(table, table.delayed, table.own->delayedOthers, table.delayedOf);
    table.pending = false;
}

/// What this rank holds of a row, for each member that looks it up.
void RowExchange::lookUp(Table &table, const PerMember &rows)
{
    const std::int64_t width = table.width();
    const float *held = floats(table.own->held, table.own->rows() * width);
    float *to = floats(table.own->others, table.table->otherNumbers(*table.own));
    for (const RowIds &each : rows)
        to = packRows(to, held, table.own->firstRow, width, heldBy(*table.own, each));
}

void RowExchange::unpack(Table &table, const PerMember &rows)
{
    const RowIds &here = rows[table.at];
    const std::int64_t columns = table.table->columns;
    const float *from = floats(table.own->own, table.table->ownNumbers());
    auto *window = reinterpret_cast<float *>(table.rowsHere);
    for (const program::Table::Member &member : table.table->members) {
        const std::span<const std::int64_t> theirs = heldBy(member, here);
        from = unpackNeighbours(window + (theirs.data() - here.data()) * columns + member.begin, columns, from,
                                member.width(), std::ssize(theirs));
    }
}

/// Packs the gradient of the window's rows, and clears it. What the next step looks up is worked out here, as sums of
/// other gradients travel meanwhile.
void RowExchange::collect(Table &table, const Step &step)
{
    enter(table, step.number);
    table.lookedUp.ofStep(step.number + 1, table.next);
    table.nextStep = step.number + 1;
    if (table.table->delays) {
        splitRows(table);
        table.delayedOf = step;
        table.pending = true;
        pack(table, table.delayed[table.at], table.own->delayedOwn);
    }
    pack(table, gradientsOf(table, table.table->delays ? RowPart::Prior : RowPart::All)[table.at], table.own->own);
    std::memset(table.gradients, 0, table.window->size() * static_cast<std::size_t>(table.table->columns * kFloat));
    if (table.at == 0 && m_options->onRows)
        tellRows(table);
}

/// Of the step whose gradients were collected.
void RowExchange::tellRows(const Table &table) const
{
    const auto sum = [](const PerMember &rows) {
        std::int64_t count = 0;
        for (const RowIds &each : rows)
            count += std::ssize(each);
        return static_cast<double>(count);
    };
    run::RowCounts counts;
    counts.ids = static_cast<double>(m_parts->program.globalBatch * table.table->idsPerSample);
    counts.unique = sum(table.rows);
    if (table.table->delays) {
        counts.prior = sum(table.prior);
        counts.delayed = sum(table.delayed);
    }
    m_options->onRows(table.id, table.step, counts);
}

/// Into those that some member looks up in the next step, and the others.
void RowExchange::splitRows(Table &table)
{
    for (const RowIds &rows : table.next)
        table.marks.mark(rows);
    table.prior.resize(table.rows.size());
    table.delayed.resize(table.rows.size());
    for (std::size_t member = 0; member < table.rows.size(); ++member) {
        table.prior[member].clear();
        table.delayed[member].clear();
        table.marks.split(table.rows[member], table.prior[member], table.delayed[member]);
    }
    table.marks.clear();
}

void RowExchange::pack(Table &table, const RowIds &rows, std::int64_t offset)
{
    const std::int64_t columns = table.table->columns;
    const auto *gradients = reinterpret_cast<const float *>(table.gradients);
    float *to = floats(offset, table.table->ownNumbers());
    for (const program::Table::Member &member : table.table->members) {
        auto place = table.window->begin();
        for (const std::int64_t row : heldBy(member, rows)) {
            while (*place < row) // all of them are in the window
                ++place;
            copyFloats(to, gradients + (place - table.window->begin()) * columns + member.begin, member.width());
            to += member.width();
        }
    }
}

const RowExchange::PerMember &RowExchange::gradientsOf(const Table &table, RowPart part) const
{
    return part == RowPart::All ? table.rows : part == RowPart::Prior ? table.prior : table.delayed;
}

/// Adds up what came of @p rows, member by member, and updates them.
void RowExchange::update(Table &table, const PerMember &rows, std::int64_t arrived, const Step &step)
{
    const std::int64_t width = table.width();
    if (width == 0)
        return;
    table.updated.clear();
    for (const RowIds &each : rows)
        table.marks.mark(heldBy(*table.own, each));
    table.marks.append(table.updated);
    table.marks.clear();
    const auto count = static_cast<std::int64_t>(table.updated.size());
    if (count == 0)
        return;
    const std::int64_t most = table.table->updatedRows(*table.own) * width;
    const float *from = floats(arrived, table.table->otherNumbers(*table.own));
    float *sums = floats(table.own->sums, most);
    std::fill_n(sums, count * width, 0.0F);
    for (const RowIds &each : rows)
        from = addRows(sums, table.updated, width, from, heldBy(*table.own, each));
    const auto move = [&](std::int64_t held, std::int64_t packed, bool back) {
        float *whole = floats(held, table.own->rows() * width);
        float *part = floats(packed, most);
        if (back)
            unpackRows(whole, part, table.own->firstRow, width, table.updated);
        else
            packRows(part, whole, table.own->firstRow, width, table.updated);
    };
    const auto moveAll = [&](bool back) {
        move(table.own->held, table.own->updated, back);
        for (std::size_t s = 0; s < table.own->states.size(); ++s)
            move(table.own->states[s], table.own->updatedStates[s], back);
    };
    std::size_t size = 0;
    while (size + 1 < table.updates.size() && table.updateSizes[size + 1] >= count * width)
        ++size;
    std::fill_n(sums + count * width, table.updateSizes[size] - count * width, 0.0F);
    moveAll(false);
    m_parts->queue(program::Lane::Compute)
        .update(*table.updates[size], {.learningRate = step.learningRate, .step = step.number + 1});
    moveAll(true);
}

// --- Communication --------------------------------------------------------------------------------------------------

Result<comm::Request> RowExchange::start(const program::RowExchange &exchange, const RankCollectives &collectives)
{
    Table &table = of(exchange.table);
    if (!exchange.gradients)
        return send(table, false, table.rows, false, collectives);
    const bool delayed = exchange.part == RowPart::Delayed;
    if (delayed && !table.pending) { // nothing is left of the step before: all pieces are empty
        table.delayed.resize(table.table->members.size());
        for (RowIds &rows : table.delayed)
            rows.clear();
    }
    return send(table, true, gradientsOf(table, exchange.part), delayed, collectives);
}

Result<comm::Request> RowExchange::send(Table &table, bool gradients, const PerMember &rows, bool delayed,
                                        const RankCollectives &collectives)
{
    const std::vector<program::Table::Member> &members = table.table->members;
    table.bytesTo.clear();
    table.bytesFrom.clear();
    std::int64_t byOwn = 0, byOthers = 0; // bytes of the buffers that are used
    for (std::size_t m = 0; m < members.size(); ++m) {
        const std::int64_t ownRows = std::ssize(heldBy(members[m], rows[table.at])) * members[m].width() * kFloat;
        const std::int64_t theirs = std::ssize(heldBy(*table.own, rows[m])) * table.width() * kFloat;
        table.bytesTo.push_back(gradients ? ownRows : theirs);
        table.bytesFrom.push_back(gradients ? theirs : ownRows);
        byOwn += ownRows;
        byOthers += theirs;
    }
    std::byte *ours = m_parts->forTransport(delayed ? table.own->delayedOwn : table.own->own, byOwn);
    std::byte *others = m_parts->forTransport(delayed ? table.own->delayedOthers : table.own->others, byOthers);
    return m_parts->comm.allToAll(collectives.group(table.table->team), gradients ? ours : others, table.bytesTo,
                                  gradients ? others : ours, table.bytesFrom);
}

void RowExchange::ended(const program::RowExchange &exchange)
{
    if (!exchange.gradients)
        unpack(of(exchange.table), of(exchange.table).rows);
}

Status RowExchange::settle(const RankCollectives &collectives)
{
    for (Table &table : m_tables) {
        if (!table.pending)
            continue;
        Result<comm::Request> request = send(table, true, table.delayed, true, collectives);
        if (!request)
            return request.error();
        if (Status done = m_parts->comm.wait(*request, m_parts->deadline, "the other replicas' rows"); !done)
            return done;
        update(table, table.delayed, table.own->delayedOthers, table.delayedOf);
        table.pending = false;
    }
    return {};
}

Status RowExchange::lookUpHeldOut(std::int64_t first, const RankCollectives &collectives)
{
    for (Table &table : m_tables) {
        table.lookedUp.ofHeldOut(first, table.heldOut);
        setWindow(table, table.heldOut[table.at]);
        if (!table.table->isCut())
            continue;
        lookUp(table, table.heldOut);
        Result<comm::Request> request = send(table, false, table.heldOut, false, collectives);
        if (!request)
            return request.error();
        if (Status done = m_parts->comm.wait(*request, m_parts->deadline, "the other replicas' rows"); !done)
            return done;
        unpack(table, table.heldOut);
    }
    return {};
}

} // namespace planloom::runtime
