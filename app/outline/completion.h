// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/outline/outline.h"

namespace planloom::cli {

/// Completion scripts of the command, for files that bash and zsh load by themselves
/// (share/bash-completion/completions/planloom, share/zsh/vendor-completions/_planloom).
std::string bashCompletion(const std::vector<VerbOutline> &verbs);
std::string zshCompletion(const std::vector<VerbOutline> &verbs);
/// Of a program without verbs.
std::string bashCompletion(const VerbOutline &program);

} // namespace planloom::cli
