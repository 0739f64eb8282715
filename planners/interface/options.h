// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::planners {

/// Reads a planner's options against the list that it documents. The first thing that is wrong is kept; the readers
/// then return the fallback, so that a planner reads all of its options and asks status() once.
class OptionReader {
public:
    OptionReader(const Options &options, std::vector<OptionInfo> known);

    std::int64_t integer(const std::string &key, std::int64_t least, std::int64_t most);
    /// A comma-separated list; the fallback names the empty list.
    std::vector<std::int64_t> integers(const std::string &key, std::int64_t least, std::int64_t most);
    double number(const std::string &key, double least, double most);
    /// One of the option's choices.
    std::string choice(const std::string &key);
    /// A comma-separated list of at least one of @p allowed, without repeats, in the order of @p allowed.
    std::vector<std::string> choices(const std::string &key, const std::vector<std::string> &allowed);

    /// Error: BadInput that names the option, its value and the legal ones.
    [[nodiscard]] const Status &status() const { return m_status; }

private:
    [[nodiscard]] const OptionInfo *infoOf(const std::string &key) const;
    [[nodiscard]] std::string fallbackOf(const std::string &key) const;
    [[nodiscard]] std::string textOf(const std::string &key) const;
    void refuse(const std::string &message);

    Options m_options;
    std::vector<OptionInfo> m_known;
    Status m_status;
};

} // namespace planloom::planners
