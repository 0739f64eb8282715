// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/database.h"

namespace planloom::store {

/// Number of the newest schema.
int newestSchema();

/// Checks that the file is a workspace of a known schema (or new and empty), and applies the migrations that it lacks
/// in one transaction. Errors: BadInput (another program's database, a newer schema), and those of Connection.
Status migrate(Connection &connection);

} // namespace planloom::store
