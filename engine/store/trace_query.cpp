// SPDX-License-Identifier: Apache-2.0
#include "engine/store/trace_query.h"

#include <cctype>
#include <fmt/format.h>
#include <memory>
#include <sqlite3.h>

namespace planloom::store {
namespace {

constexpr int kStepsBetweenLooks = 10'000;         // SQLite's virtual instructions between two looks at the progress
constexpr std::size_t kRecordsBetweenLooks = 8192; // likewise, while slices are entered

constexpr const char *kSchema = R"sql(
CREATE TABLE tasks(number INTEGER PRIMARY KEY, task TEXT, kind TEXT, work TEXT, stage INT, micro_batch INT);
CREATE TABLE devices(rank INTEGER PRIMARY KEY, device TEXT);
CREATE TABLE lanes(number INTEGER PRIMARY KEY, lane TEXT, work TEXT);
CREATE TABLE records(task INT, rank INT, lane INT, step INT, start REAL, duration REAL);
CREATE VIEW slices AS SELECT tasks.task, tasks.kind, tasks.work, tasks.stage, tasks.micro_batch, records.rank,
  devices.device, lanes.lane, records.step, records.start, records.duration FROM records
  LEFT JOIN tasks ON tasks.number = records.task LEFT JOIN devices ON devices.rank = records.rank
  LEFT JOIN lanes ON lanes.number = records.lane;
)sql";

struct CloseMemory {
    void operator()(sqlite3 *handle) const { sqlite3_close_v2(handle); }
};
struct FinalizeQuery {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};
using Handle = std::unique_ptr<sqlite3, CloseMemory>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeQuery>;

/// Of a query: reading, and nothing else.
int onlyReads(void *, int action, const char *, const char *, const char *, const char *)
{
    return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE
        ? SQLITE_OK
        : SQLITE_DENY;
}

int looksAtProgress(void *progress) { return static_cast<Progress *>(progress)->stopped() ? 1 : 0; }

Error onlySelect() { return badInput("the query may only read the trace; write one SELECT"); }

Error wrong(sqlite3 *handle)
{
    const int code = sqlite3_errcode(handle);
    if (code == SQLITE_INTERRUPT)
        return cancelled();
    if (code == SQLITE_AUTH)
        return badInput("the query may only read the trace; write one SELECT");
    return badInput(
        fmt::format("the query is wrong: {}; the tables are slices, tasks, devices and lanes", sqlite3_errmsg(handle)));
}

Statement prepared(sqlite3 *handle, const std::string &sql, const char **rest = nullptr)
{
    sqlite3_stmt *statement = nullptr;
    sqlite3_prepare_v2(handle, sql.c_str(), static_cast<int>(sql.size()) + 1, &statement, rest);
    return Statement(statement);
}

/// Binds numbers from 1 on; a negative one of a stage, micro-batch or step is NULL.
void bindOrNull(sqlite3_stmt *statement, int place, std::int32_t number)
{
    if (number < 0)
        sqlite3_bind_null(statement, place);
    else
        sqlite3_bind_int(statement, place, number);
}

void bindText(sqlite3_stmt *statement, int place, const std::string &text)
{
    sqlite3_bind_text64(statement, place, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

/// Runs the statement, which has no result, and makes it ready for the next values.
bool entered(sqlite3_stmt *statement)
{
    return sqlite3_step(statement) == SQLITE_DONE && sqlite3_reset(statement) == SQLITE_OK;
}

bool enterTables(sqlite3 *handle, const trace::Trace &trace)
{
    const Statement tasks = prepared(handle, "INSERT INTO tasks VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
        const trace::TaskInfo &task = trace.tasks[i];
        const trace::KindInfo &kind = trace.kind(task.kind);
        sqlite3_bind_int64(tasks.get(), 1, static_cast<std::int64_t>(i));
        bindText(tasks.get(), 2, task.id);
        bindText(tasks.get(), 3, kind.name);
        sqlite3_bind_text(tasks.get(), 4, trace::name(kind.work), -1, SQLITE_STATIC);
        bindOrNull(tasks.get(), 5, task.stage);
        bindOrNull(tasks.get(), 6, task.microBatch);
        if (!entered(tasks.get()))
            return false;
    }
    const Statement devices = prepared(handle, "INSERT INTO devices VALUES(?1, ?2)");
    for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
        sqlite3_bind_int64(devices.get(), 1, static_cast<std::int64_t>(i));
        bindText(devices.get(), 2, trace.ranks[i].device);
        if (!entered(devices.get()))
            return false;
    }
    const Statement lanes = prepared(handle, "INSERT INTO lanes VALUES(?1, ?2, ?3)");
    for (std::size_t i = 0; i < trace.lanes.size(); ++i) {
        sqlite3_bind_int64(lanes.get(), 1, static_cast<std::int64_t>(i));
        bindText(lanes.get(), 2, trace.lanes[i].name);
        sqlite3_bind_text(lanes.get(), 3, trace::name(trace.lanes[i].work), -1, SQLITE_STATIC);
        if (!entered(lanes.get()))
            return false;
    }
    return true;
}

Status enter(sqlite3 *handle, const trace::Trace &trace, Progress &progress)
{
    constexpr double kSeconds = 1e-9; // of a nanosecond
    bool good = sqlite3_exec(handle, kSchema, nullptr, nullptr, nullptr) == SQLITE_OK
        && sqlite3_exec(handle, "BEGIN", nullptr, nullptr, nullptr) == SQLITE_OK && enterTables(handle, trace);
    const Statement records = prepared(handle, "INSERT INTO records VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    for (std::size_t i = 0; good && i < trace.records.size(); ++i) {
        if (i % kRecordsBetweenLooks == 0) {
            progress.report(static_cast<double>(i) / static_cast<double>(trace.records.size()), "entering slices");
            if (progress.stopped())
                return cancelled();
        }
        const trace::Record &record = trace.records[i];
        sqlite3_bind_int(records.get(), 1, record.task);
        sqlite3_bind_int(records.get(), 2, record.rank);
        sqlite3_bind_int(records.get(), 3, record.lane);
        bindOrNull(records.get(), 4, record.step);
        sqlite3_bind_double(records.get(), 5, static_cast<double>(record.start) * kSeconds);
        sqlite3_bind_double(records.get(), 6, static_cast<double>(record.duration) * kSeconds);
        good = entered(records.get());
    }
    if (!good || sqlite3_exec(handle, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK)
        return failed(fmt::format("the trace could not be entered into a table: {}", sqlite3_errmsg(handle)));
    return {};
}

QueryTable::Cell cellOf(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_NULL: return std::monostate();
    default: break;
    }
    const void *bytes = sqlite3_column_blob(statement, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
    return bytes ? std::string(static_cast<const char *>(bytes), size) : std::string();
}

bool isBlank(const char *text)
{
    while (*text == ';' || std::isspace(static_cast<unsigned char>(*text)))
        ++text;
    return *text == '\0';
}

} // namespace

Result<QueryTable> queryTrace(const trace::Trace &trace, const std::string &sql, Progress &progress)
{
    sqlite3 *opened = nullptr;
    const int code = sqlite3_open(":memory:", &opened);
    const Handle handle(opened);
    if (code != SQLITE_OK)
        return failed("there is not enough memory for a query");
    if (const Status in = enter(opened, trace, progress); !in)
        return in.error();
    sqlite3_set_authorizer(opened, onlyReads, nullptr);
    sqlite3_progress_handler(opened, kStepsBetweenLooks, looksAtProgress, &progress);
    const char *rest = nullptr;
    const Statement query = prepared(opened, sql, &rest);
    if (!query)
        return sqlite3_errcode(opened) == SQLITE_OK ? badInput("the query is empty; write one SELECT") : wrong(opened);
    if (!isBlank(rest))
        return badInput("there is more than one statement; write one SELECT");
    if (sqlite3_stmt_readonly(query.get()) == 0 || sqlite3_column_count(query.get()) == 0)
        return onlySelect();
    QueryTable table;
    for (int column = 0; column < sqlite3_column_count(query.get()); ++column)
        table.columns.emplace_back(sqlite3_column_name(query.get(), column));
    int step = sqlite3_step(query.get());
    for (; step == SQLITE_ROW; step = sqlite3_step(query.get())) {
        std::vector<QueryTable::Cell> &row = table.rows.emplace_back();
        for (int column = 0; column < static_cast<int>(table.columns.size()); ++column)
            row.push_back(cellOf(query.get(), column));
    }
    if (step != SQLITE_DONE)
        return wrong(opened);
    return table;
}

} // namespace planloom::store
