// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/store.h"

#include <string>
#include <string_view>
#include <vector>

namespace planloom::store {

/// How a field of a run is shown and compared.
enum class Measure : std::uint8_t {
    Text,
    Date, ///< text, too: "2026-11-27 11:43", local time, so that order and beginning of the text are those of the time
    Count,
    Seconds,
    Rate,  ///< per second
    Share, ///< 0.1 is 10 %
    Value,
};

/// One field of a run, for lists and filters: the only table of them.
struct RunField {
    const char *key;   ///< of filters: "iteration"
    const char *title; ///< of columns: "Iteration"
    Measure measure;
    const char *about;                          ///< what it is, for people
    std::string (*text)(const Run &) = nullptr; ///< Text, Date
    double (*number)(const Run &) = nullptr;    ///< the others; NaN: not known
};

const std::vector<RunField> &runFields();
/// nullptr: there is none of that key.
const RunField *findRunField(std::string_view key);
/// As a list shows the field of @p run; "–" where it is not known.
std::string textOf(const RunField &field, const Run &run);

} // namespace planloom::store
