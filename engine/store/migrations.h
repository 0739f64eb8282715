// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/database.h"

#include <cstdint>

namespace planloom::store {

/// "PLNL": tells a workspace from any other SQLite file (PRAGMA application_id).
inline constexpr std::int64_t kApplicationId = 0x504c4e4c;

/// Number of the newest schema.
int newestSchema();

/// Checks that the file is a workspace of a known schema (or new and empty), and applies the migrations that it lacks
/// in one transaction. Errors: BadInput (another program's database, a newer schema), and those of Connection.
Status migrate(Connection &connection);

} // namespace planloom::store
