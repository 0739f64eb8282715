// SPDX-License-Identifier: Apache-2.0
#include "engine/store/migrations.h"

#include <fmt/format.h>
#include <iterator>

namespace planloom::store {
namespace {

// Migration N takes a file from schema N - 1 to N. Entries are only ever added: files of every age are out there.
constexpr const char *kMigrations[] = {
    // 1: named documents
    R"sql(
        CREATE TABLE models   (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL, sha256 TEXT NOT NULL,
                               saved_at INTEGER NOT NULL, text TEXT NOT NULL);
        CREATE TABLE clusters (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL, sha256 TEXT NOT NULL,
                               saved_at INTEGER NOT NULL, text TEXT NOT NULL);
        CREATE TABLE plans    (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL, sha256 TEXT NOT NULL,
                               saved_at INTEGER NOT NULL, text TEXT NOT NULL);
        CREATE TABLE profiles (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL, sha256 TEXT NOT NULL,
                               saved_at INTEGER NOT NULL, text TEXT NOT NULL);
    )sql",
    // 2: runs with their summaries
    R"sql(
        CREATE TABLE runs (id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, plan TEXT NOT NULL, model TEXT NOT NULL,
                           cluster TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL, started_at INTEGER NOT NULL,
                           ended_at INTEGER NOT NULL, steps INTEGER NOT NULL, loss_first REAL NOT NULL, loss_last REAL NOT NULL,
                           iteration_seconds_median REAL NOT NULL, predicted_iteration_seconds REAL NOT NULL,
                           peak_bytes_measured INTEGER NOT NULL, peak_bytes_predicted INTEGER NOT NULL);
        CREATE INDEX runs_by_start ON runs (started_at DESC);
    )sql",
    // 3: what runs report while they go on
    R"sql(
        CREATE TABLE steps (run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, step INTEGER NOT NULL, loss REAL, seconds REAL NOT NULL,
                            learning_rate REAL NOT NULL, gradient_norm REAL NOT NULL, samples INTEGER NOT NULL,
                            PRIMARY KEY (run, step)) WITHOUT ROWID;
        CREATE TABLE validations (run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, step INTEGER NOT NULL, loss REAL, accuracy REAL,
                                  perplexity REAL, samples INTEGER NOT NULL,
                                  PRIMARY KEY (run, step)) WITHOUT ROWID;
    )sql",
    // 4: runs whose replicas are averaged
    R"sql(
        ALTER TABLE steps ADD COLUMN consensus_distance REAL NOT NULL DEFAULT 0;
    )sql",
    // 5: runs that train by ADMM
    R"sql(
        ALTER TABLE steps ADD COLUMN objective REAL NOT NULL DEFAULT 0;
        ALTER TABLE steps ADD COLUMN primal_residual REAL NOT NULL DEFAULT 0;
        ALTER TABLE steps ADD COLUMN dual_residual REAL NOT NULL DEFAULT 0;
    )sql",
    // 6: their augmented Lagrangian
    R"sql(
        ALTER TABLE steps ADD COLUMN lagrangian REAL NOT NULL DEFAULT 0;
    )sql",
    // 7: speed and plan of runs; what users note of them, by folder, so that a run that is recorded again keeps it
    R"sql(
        ALTER TABLE runs ADD COLUMN plan_hash TEXT NOT NULL DEFAULT '';
        ALTER TABLE runs ADD COLUMN samples_per_second REAL NOT NULL DEFAULT 0;
        ALTER TABLE runs ADD COLUMN tokens_per_second REAL NOT NULL DEFAULT 0;
        ALTER TABLE runs ADD COLUMN mfu REAL NOT NULL DEFAULT 0;
        ALTER TABLE runs ADD COLUMN mfu_precision TEXT NOT NULL DEFAULT '';
        ALTER TABLE runs ADD COLUMN ranks_on_processors INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE run_notes   (folder TEXT PRIMARY KEY, tags TEXT NOT NULL, notes TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE run_folders (path TEXT PRIMARY KEY) WITHOUT ROWID;
    )sql",
};

Result<std::int64_t> pragma(Connection &connection, const char *sql)
{
    std::int64_t value = 0;
    const Status read = connection.run(sql, {}, [&](const Row &row) { value = row.integer(0); });
    if (!read)
        return read.error();
    return value;
}

Status checkOwner(Connection &connection, std::int64_t version)
{
    const auto owner = pragma(connection, "PRAGMA application_id");
    if (!owner)
        return owner.error();
    const auto tables = pragma(connection, "SELECT count(*) FROM sqlite_master");
    if (!tables)
        return tables.error();
    const bool empty = *tables == 0 && *owner == 0 && version == 0;
    if (!empty && *owner != kApplicationId)
        return badInput("is a database of another program; choose another file for the workspace")
            .in(connection.path());
    if (version > newestSchema() || version < 0) {
        return badInput(fmt::format("was written by a newer Planloom (schema {}, this one knows up to {}); update "
                                    "Planloom or choose another file",
                                    version, newestSchema()))
            .in(connection.path());
    }
    return {};
}

Status apply(Connection &connection, std::int64_t number)
{
    if (auto done = connection.execute(kMigrations[number - 1]); !done)
        return done;
    return connection.execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, number).c_str());
}

} // namespace

int newestSchema() { return static_cast<int>(std::size(kMigrations)); }

Status migrate(Connection &connection)
{
    const auto before = pragma(connection, "PRAGMA user_version");
    if (!before)
        return before.error();
    if (auto checked = checkOwner(connection, *before); !checked)
        return checked;
    if (*before == newestSchema())
        return {};
    return connection.transaction([&]() -> Status {
        // Read again under the lock: another process may have been faster.
        const auto version = pragma(connection, "PRAGMA user_version");
        if (!version)
            return version.error();
        for (std::int64_t number = *version + 1; number <= newestSchema(); ++number) {
            if (auto done = apply(connection, number); !done)
                return done;
        }
        return {};
    });
}

} // namespace planloom::store
