// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"

#include <QString>
#include <QStringList>

#include <optional>
#include <utility>
#include <vector>

namespace planloom::ui {

/// What of the open files is seen and selected, as keys with values, in the order of kViewKeys. Links and scripts have
/// the same.
using ViewFields = std::vector<std::pair<QString, QString>>;

/// A key of ViewFields and what its value is.
struct ViewKey {
    const char *name;
    const char *value; ///< for error messages
};

inline constexpr ViewKey kViewKeys[] = {
    {"layout", "plan, watch or compare"},
    {"view", "a view, such as timeline"},
    {"tab", "a number of a tab of that view, from 0"},
    {"stage", "a number of a stage, from 0"},
    {"layers", "FIRST-END, two numbers of layers"},
    {"device", "a name of a device"},
    {"task", "a task, such as s1.F.m3"},
    {"range", "BEGIN-END in nanoseconds"},
    {"zoom", "BEGIN-END in nanoseconds, or all"},
    {"scroll", "a number of pixels"},
};

/// The value of @p key; empty: it is not there.
QString fieldOf(const ViewFields &fields, const char *key);
/// "FIRST-END"; nothing if @p text is something else or END is before FIRST.
std::optional<std::pair<qint64, qint64>> numbersOf(const QString &text);
/// Error: BadInput, which names the key and what its value can be.
Status checkField(const QString &key, const QString &value);

/// Files and what of them is seen: "planloom:/data/plan.json?view=timeline&stage=1".
struct ViewLink {
    QStringList files; ///< paths, or names such as zoo:gpt2; in the order in which they are opened
    ViewFields fields;
};

/// Paths in it are absolute.
QString linkText(const ViewLink &link);
/// Reads "planloom:FILE?KEY=VALUE&...", where "file=" names further files, and "FILE#KEY=VALUE&...". Error: BadInput.
Result<ViewLink> readLink(const QString &text);
/// True of what readLink() may read; other texts are names of files. A file whose name has a "#" is one.
bool isLink(const QString &text);

} // namespace planloom::ui
