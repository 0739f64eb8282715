// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace planloom::cli {

/// An option as shells and manuals know it.
struct OptionOutline {
    std::vector<std::string> names; ///< "--output", "-o"; of an operand its name alone
    std::string about;
    bool takesValue = false;
    std::vector<std::string> choices; ///< of its value; empty: files
    std::string value;                ///< "FILE"; empty: it takes none, or it has no name
};

/// A verb as shells and manuals know it; a program without verbs is one.
struct VerbOutline {
    std::string name;
    std::string about;
    std::vector<OptionOutline> options;
    std::vector<std::string> choices;    ///< of its first operand; empty: files
    std::vector<OptionOutline> operands; ///< in their order
    std::vector<std::string> examples;
};

} // namespace planloom::cli
