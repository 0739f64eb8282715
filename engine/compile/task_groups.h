// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/tasks.h"

#include <vector>

namespace planloom::compile {

/// Fields of Program.
struct TaskGroups {
    std::vector<program::Group> groups;
    std::vector<TaskId> members;
};
/// Joins both ends of every message and all members of every collective.
TaskGroups groupTasks(const Source &source, const Instances &instances, const Buckets &buckets, const TaskDraft &draft);

} // namespace planloom::compile
