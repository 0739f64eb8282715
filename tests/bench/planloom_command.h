// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/child.h"

#include <string>
#include <vector>

namespace planloom::bench {

/// Runs the planloom command beside this program to its end; what it wrote. Error: Failed, with what it wrote, if its
/// exit status is not 0.
inline Result<std::string> planloom(const std::vector<std::string> &arguments)
{
    const auto binary = agent::planloomBinary();
    if (!binary)
        return binary.error();
    agent::Command command;
    command.program = *binary;
    command.arguments = arguments;
    command.environment = agent::allowedEnvironment();
    auto child = agent::Child::start(command);
    if (!child)
        return child.error();
    constexpr int kPollMilliseconds = 100;
    std::string text;
    auto exit = child->poll();
    for (; !exit; exit = child->poll())
        text += child->read(kPollMilliseconds);
    text += child->read(0);
    if (exit->status != 0 || exit->signal != 0)
        return failed(arguments.front() + ": " + text);
    return text;
}

} // namespace planloom::bench
