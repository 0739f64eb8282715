// SPDX-License-Identifier: Apache-2.0
#include "engine/store/database.h"

#include <fmt/format.h>
#include <limits>
#include <sqlite3.h>

namespace planloom::store {
namespace {

/// Another process holds a write lock for milliseconds; a second is ample, and is still short for the user.
constexpr int kBusyMilliseconds = 1000;

struct Finalize {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};

Error explain(int code, const char *message)
{
    switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return badInput(
            "is not a Planloom workspace, or it is damaged; restore it from a backup or choose another file");
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ioError("is in use by another program; close that or try again");
    case SQLITE_FULL: return ioError("cannot be written: the disk is full; free some space, no data were lost");
    case SQLITE_READONLY:
    case SQLITE_PERM: return ioError("cannot be written; check its permissions and those of its folder");
    case SQLITE_CANTOPEN: return ioError("cannot be opened; check that its folder exists and can be written");
    case SQLITE_IOERR:
        return ioError(fmt::format("cannot be written or read ({}); check the disk and its free space", message));
    default: return failed(fmt::format("the workspace failed: {}", message));
    }
}

} // namespace

std::string Row::text(int column) const
{
    const auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(m_statement, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(m_statement, column));
    return bytes ? std::string(bytes, size) : std::string();
}

std::int64_t Row::integer(int column) const { return sqlite3_column_int64(m_statement, column); }
double Row::number(int column) const
{
    // SQLite keeps a NaN as NULL.
    return sqlite3_column_type(m_statement, column) == SQLITE_NULL ? std::numeric_limits<double>::quiet_NaN()
                                                                   : sqlite3_column_double(m_statement, column);
}

Binder &Binder::text(std::string_view value)
{
    sqlite3_bind_text64(m_statement, m_next++, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
    return *this;
}

Binder &Binder::integer(std::int64_t value)
{
    sqlite3_bind_int64(m_statement, m_next++, value);
    return *this;
}

Binder &Binder::number(double value)
{
    sqlite3_bind_double(m_statement, m_next++, value);
    return *this;
}

void Connection::Close::operator()(sqlite3 *handle) const { sqlite3_close_v2(handle); }

Error Connection::error() const
{
    return explain(sqlite3_extended_errcode(m_handle.get()), sqlite3_errmsg(m_handle.get())).in(m_path);
}

Result<Connection> Connection::open(const std::string &path)
{
    Connection connection(path);
    sqlite3 *handle = nullptr;
    const int opened = sqlite3_open_v2(path.c_str(), &handle,
                                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    connection.m_handle.reset(handle); // SQLite gives a handle even for most failures
    if (opened != SQLITE_OK)
        return explain(opened, handle ? sqlite3_errmsg(handle) : sqlite3_errstr(opened)).in(path);
    sqlite3_busy_timeout(handle, kBusyMilliseconds);
    // A file may be hostile: no functions with side effects from its schema, and sizes are checked on every page.
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    return connection;
}

Status Connection::execute(const char *sql)
{
    if (sqlite3_exec(m_handle.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
        return error();
    return {};
}

Status Connection::run(const char *sql, const std::function<void(Binder &)> &bind,
                       const std::function<void(const Row &)> &row)
{
    sqlite3_stmt *prepared = nullptr;
    if (sqlite3_prepare_v2(m_handle.get(), sql, -1, &prepared, nullptr) != SQLITE_OK)
        return error();
    const std::unique_ptr<sqlite3_stmt, Finalize> statement(prepared);
    if (bind) {
        Binder binder(prepared);
        bind(binder);
    }
    int step = sqlite3_step(prepared);
    for (; step == SQLITE_ROW; step = sqlite3_step(prepared)) {
        if (row)
            row(Row(prepared));
    }
    if (step != SQLITE_DONE)
        return error();
    return {};
}

Status Connection::transaction(const std::function<Status()> &work)
{
    if (auto begun = execute("BEGIN IMMEDIATE"); !begun)
        return begun;
    Status done = work();
    if (done)
        done = execute("COMMIT");
    if (!done)
        sqlite3_exec(m_handle.get(), "ROLLBACK", nullptr, nullptr, nullptr); // some failures have rolled back already
    return done;
}

std::int64_t Connection::changes() const { return sqlite3_changes64(m_handle.get()); }

} // namespace planloom::store
