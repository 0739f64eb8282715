// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace planloom::store {

/// A row of a running query.
class Row {
public:
    explicit Row(sqlite3_stmt *statement) : m_statement(statement) {}
    [[nodiscard]] std::string text(int column) const;
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] double number(int column) const;

private:
    sqlite3_stmt *m_statement;
};

/// Values for the ?1, ?2 ... of a statement.
class Binder {
public:
    explicit Binder(sqlite3_stmt *statement) : m_statement(statement) {}
    Binder &text(std::string_view value); ///< must outlive the statement's run
    Binder &integer(std::int64_t value);
    Binder &number(double value);

private:
    sqlite3_stmt *m_statement;
    int m_next = 1;
};

/// A connection to one SQLite file: statements, transactions, and SQLite's error codes as Planloom's errors.
/// Thread contract: one thread at a time.
class Connection {
public:
    static Result<Connection> open(const std::string &path);
    Connection(Connection &&) noexcept = default;
    Connection &operator=(Connection &&) noexcept = default;

    /// Several statements without values or results.
    Status execute(const char *sql);
    /// One statement; @p row is called for every row.
    Status run(const char *sql, const std::function<void(Binder &)> &bind,
               const std::function<void(const Row &)> &row = {});
    /// @p work in one transaction: all of it or nothing.
    Status transaction(const std::function<Status()> &work);
    [[nodiscard]] std::int64_t changes() const; ///< rows that the last statement changed
    [[nodiscard]] const std::string &path() const { return m_path; }

private:
    struct Close {
        void operator()(sqlite3 *handle) const;
    };
    explicit Connection(std::string path) : m_path(std::move(path)) {}
    [[nodiscard]] Error error() const;
    std::string m_path;
    std::unique_ptr<sqlite3, Close> m_handle;
};

} // namespace planloom::store
