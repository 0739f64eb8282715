// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"

#include <QString>
#include <QStringList>

#include <string_view>
#include <vector>

namespace planloom::ui {

/// A line of a script: a verb and its words (resources/docs/formats/script.md).
struct ScriptLine {
    QString verb;
    QStringList words;
    int number = 0; ///< in the file, from 1
};

/// A verb and the form of what follows it.
struct ScriptVerb {
    const char *name;
    const char *form; ///< "NAME...", for messages
    int fewest;       ///< words
    int most;
};

inline constexpr int kAnyWords = 1 << 20;

/// All verbs of scripts.
const std::vector<ScriptVerb> &scriptVerbs();

/// The line as it stands in a file: words with blanks, quotation marks or # are quoted.
QString lineText(const ScriptLine &line);
/// "FILE:LINE: VERB WORDS", shortened.
QString lineTitle(const QString &file, const ScriptLine &line);

/// What may be done by name: what a line says is checked against it before anything is played.
struct ScriptCommands {
    QStringList names;  ///< of commands without a dialog
    QStringList asking; ///< of those that open one
    QStringList views;  ///< "timeline"
};

/// All lines of @p text but comments and empty ones. Error: BadInput of the first wrong line, with @p file, its number
/// and what to write instead.
Result<std::vector<ScriptLine>> readScript(const QString &text, const QString &file, const ScriptCommands &commands);

/// The first line of a script.
inline constexpr std::string_view kScriptHeader = "planloom-script 1";

} // namespace planloom::ui
