// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/outline/outline.h"

#include <string>
#include <utility>
#include <vector>

namespace planloom::cli {

/// What a man page has beside options.
struct Manual {
    std::string program; ///< "planloom"
    std::string version;
    std::string about;                                       ///< one line
    std::string synopsis;                                    ///< "VERB [OPTION...]"; empty: of the operands
    std::vector<VerbOutline> verbs;                          ///< one without a name: the program's own options
    std::vector<std::pair<std::string, std::string>> status; ///< exit status and what it means
    std::vector<std::pair<std::string, std::string>> files;
    std::vector<std::string> seeAlso; ///< "planloom-studio(1)"
};

/// The page as troff's macros "man" read it, of section 1. The date is left out, so that one source makes one text.
std::string manualPage(const Manual &manual);

} // namespace planloom::cli
