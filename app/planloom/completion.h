// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace planloom::cli {

/// What a shell has to know of an option.
struct OptionOutline {
    std::vector<std::string> names; ///< "--output", "-o"
    std::string about;
    bool takesValue = false;
    std::vector<std::string> choices; ///< of its value; empty: files
};

/// What a shell has to know of a verb.
struct VerbOutline {
    std::string name;
    std::string about;
    std::vector<OptionOutline> options;
    std::vector<std::string> choices; ///< of its first operand; empty: files
};

/// Completion scripts of the command, for files that bash and zsh load by themselves
/// (share/bash-completion/completions/planloom, share/zsh/vendor-completions/_planloom).
std::string bashCompletion(const std::vector<VerbOutline> &verbs);
std::string zshCompletion(const std::vector<VerbOutline> &verbs);

} // namespace planloom::cli
