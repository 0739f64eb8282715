// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace planloom::store {

/// Whether the file at @p path is a workspace, whatever its name: by the application's number in SQLite's header. False
/// where it cannot be read.
bool isWorkspaceFile(const std::string &path);

} // namespace planloom::store
