// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script.h"

#include "ui/script/script_values.h"
#include "ui/shell/view_link.h"
#include "ui/widgets/text.h"

#include <QJsonDocument>
#include <QJsonArray>

#include <algorithm>
#include <optional>

namespace planloom::ui {

namespace {

constexpr int kTitleLetters = 100;

/// Error of a line: what is wrong and what to write.
Error wrong(const QString &what) { return badInput(what.toStdString()); }

/// The words of a line; a word in "..." is a JSON string, one in '...' is taken as it stands.
Result<QStringList> wordsOf(const QString &line)
{
    QStringList words;
    for (qsizetype at = 0; at < line.size();) {
        const QChar first = line[at];
        if (first.isSpace()) {
            ++at;
            continue;
        }
        if (first == QLatin1Char('#'))
            break;
        qsizetype end = at + 1;
        if (first == QLatin1Char('"') || first == QLatin1Char('\'')) {
            const bool escapes = first == QLatin1Char('"');
            while (end < line.size() && line[end] != first)
                end += escapes && line[end] == QLatin1Char('\\') ? 2 : 1;
            if (end >= line.size())
                return wrong(QStringLiteral("a quotation mark at column %1 has no end; write %2 at the end of the word")
                                 .arg(at + 1)
                                 .arg(first));
            const QString word = line.mid(at, end + 1 - at);
            if (escapes) {
                const auto read = QJsonDocument::fromJson((QLatin1Char('[') + word + QLatin1Char(']')).toUtf8());
                if (!read.array().at(0).isString())
                    return wrong(
                        QStringLiteral("%1 is not a string of JSON; write \\\\ for \\ and \\\" for \"").arg(word));
                words << read.array().at(0).toString();
            } else {
                words << word.mid(1, word.size() - 2);
            }
            at = end + 1;
            if (at < line.size() && !line[at].isSpace())
                return wrong(
                    QStringLiteral("there is no blank behind the word that ends at column %1; write one").arg(at));
            continue;
        }
        while (end < line.size() && !line[end].isSpace())
            ++end;
        words << line.mid(at, end - at);
        at = end;
    }
    return words;
}

QString quoted(const QString &word)
{
    const bool plain = !word.isEmpty() && std::none_of(word.begin(), word.end(), [](QChar each) {
        return each.isSpace() || each == QLatin1Char('"') || each == QLatin1Char('\'');
    }) && !word.startsWith(QLatin1Char('#'));
    if (plain)
        return word;
    const bool isOneLine = std::none_of(word.begin(), word.end(), [](QChar each) { return each < QChar(0x20); });
    if (isOneLine && word.contains(QLatin1Char('"')) && !word.contains(QLatin1Char('\'')))
        return QLatin1Char('\'') + word + QLatin1Char('\'');
    const QByteArray list = QJsonDocument(QJsonArray{word}).toJson(QJsonDocument::Compact);
    return QString::fromUtf8(list.mid(1, list.size() - 2));
}

QString listOf(const QStringList &names) { return names.join(QStringLiteral(", ")); }

/// The name in @p known that is most like @p name: that differs by few letters, or begins alike; empty: none does.
QString likeliest(const QString &name, const QStringList &known)
{
    const auto distance = [&](const QString &other) {
        std::vector<qsizetype> row(static_cast<std::size_t>(other.size()) + 1);
        for (std::size_t k = 0; k < row.size(); ++k)
            row[k] = static_cast<qsizetype>(k);
        for (qsizetype i = 1; i <= name.size(); ++i) {
            qsizetype corner = row[0]++;
            for (qsizetype k = 1; k <= other.size(); ++k) {
                const auto at = static_cast<std::size_t>(k);
                const qsizetype replaced = corner + (name[i - 1] == other[k - 1] ? 0 : 1);
                corner = row[at];
                row[at] = std::min({replaced, row[at] + 1, row[at - 1] + 1});
            }
        }
        return row.back();
    };
    const auto best = std::min_element(known.begin(), known.end(),
                                       [&](const QString &a, const QString &b) { return distance(a) < distance(b); });
    return best != known.end() && distance(*best) <= std::max<qsizetype>(2, name.size() / 3) ? *best : QString();
}

Status checkCommand(const QString &name, const ScriptCommands &commands)
{
    if (commands.names.contains(name))
        return {};
    if (commands.asking.contains(name))
        return wrong(
            QStringLiteral("command '%1' opens a dialog; write what is chosen in it, with one of the verbs open, "
                           "find-plan, edit, train, save, picture")
                .arg(name));
    const QString like = likeliest(name, commands.names);
    return wrong(like.isEmpty() ? QStringLiteral("there is no command '%1'; Edit ▸ Preferences lists them").arg(name)
                                : QStringLiteral("there is no command '%1'; did you mean '%2'?").arg(name, like));
}

Status checkWords(const ScriptLine &line, const ScriptCommands &commands)
{
    if (line.verb == QLatin1String("do"))
        return checkCommand(line.words.front(), commands);
    if (line.verb == QLatin1String("picture")) {
        const QString &view = line.words.front();
        const QString &file = line.words.back();
        if (view != QLatin1String("window") && !commands.views.contains(view))
            return wrong(QStringLiteral("there is no view '%1'; use window, %2").arg(view, listOf(commands.views)));
        if (!file.endsWith(QLatin1String(".png")) && !file.endsWith(QLatin1String(".svg")))
            return wrong(QStringLiteral("%1: write a file that ends in .png or .svg").arg(file));
        if (view == QLatin1String("window") && !file.endsWith(QLatin1String(".png")))
            return wrong(
                QStringLiteral("%1: a picture of the window is a .png; of a view it may be an .svg").arg(file));
        return {};
    }
    if (line.verb == QLatin1String("show")) {
        const auto fields = pairsOf(line.words);
        if (!fields)
            return fields.error();
        for (const auto &[key, value] : *fields)
            if (const Status status = checkField(key, value); !status)
                return status;
        if (const QString view = fieldOf(*fields, "view"); !view.isEmpty() && !commands.views.contains(view))
            return wrong(QStringLiteral("there is no view '%1'; use one of %2").arg(view, listOf(commands.views)));
        return {};
    }
    if (line.verb == QLatin1String("find-plan")) {
        const auto request = searchFromWords(line.words);
        return request ? Status() : Status(request.error());
    }
    if (line.verb == QLatin1String("train")) {
        const auto request = trainingFromWords(line.words);
        return request ? Status() : Status(request.error());
    }
    if (line.verb == QLatin1String("edit"))
        return checkPatch(line.words.back());
    return {};
}

Status checkLine(const ScriptLine &line, const ScriptCommands &commands)
{
    const auto &verbs = scriptVerbs();
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const ScriptVerb &each) { return line.verb == QLatin1String(each.name); });
    if (verb == verbs.end()) {
        QStringList names;
        for (const ScriptVerb &each : verbs)
            names << QString::fromLatin1(each.name);
        return wrong(QStringLiteral("there is no verb '%1'; use one of %2").arg(line.verb, listOf(names)));
    }
    if (line.words.size() < verb->fewest || line.words.size() > verb->most)
        return wrong(QStringLiteral("'%1' has %2 words behind it; write %1 %3")
                         .arg(line.verb)
                         .arg(line.words.size())
                         .arg(QString::fromUtf8(verb->form))
                         .trimmed());
    return checkWords(line, commands);
}

} // namespace

const std::vector<ScriptVerb> &scriptVerbs()
{
    static const std::vector<ScriptVerb> verbs{
        {"open", "NAME...", 1, kAnyWords},
        {"find-plan", "PLANNER batch=N KEY=VALUE...", 1, kAnyWords},
        {"edit", "WHAT '[JSON patch]'", 2, 2},
        {"cluster", "WHAT '{cluster as JSON}'", 2, 2},
        {"plan-again", "'{cluster as JSON}'", 1, 1},
        {"undo", "", 0, 0},
        {"redo", "", 0, 0},
        {"show", "KEY=VALUE...", 1, kAnyWords},
        {"do", "COMMAND", 1, 1},
        {"train", "data=FILE steps=N KEY=VALUE...", 1, kAnyWords},
        {"save", "FILE", 1, 1},
        {"picture", "window|VIEW FILE.png", 2, 2},
    };
    return verbs;
}

QString lineText(const ScriptLine &line)
{
    QString text = line.verb;
    for (const QString &word : line.words)
        text += QLatin1Char(' ') + quoted(word);
    return text;
}

QString lineTitle(const QString &file, const ScriptLine &line)
{
    QString text = lineText(line);
    if (text.size() > kTitleLetters)
        text = text.left(kTitleLetters - 1) + QChar(0x2026);
    return QStringLiteral("%1:%2: %3").arg(file).arg(line.number).arg(text);
}

Result<std::vector<ScriptLine>> readScript(const QString &text, const QString &file, const ScriptCommands &commands)
{
    std::vector<ScriptLine> lines;
    int number = 0;
    bool hasHeader = false;
    const auto at = [&](const Error &error) { return error.in(file.toStdString(), number); };
    for (const QString &each : text.split(QLatin1Char('\n'))) {
        ++number;
        auto words = wordsOf(each);
        if (!words)
            return at(words.error());
        if (words->isEmpty())
            continue;
        if (!hasHeader) {
            if (words->join(QLatin1Char(' ')) != QLatin1String(kScriptHeader.data(), kScriptHeader.size()))
                return at(wrong(QStringLiteral("this is not a script; its first line is %1").arg(qt(kScriptHeader))));
            hasHeader = true;
            continue;
        }
        ScriptLine line{words->takeFirst(), *words, number};
        if (const Status status = checkLine(line, commands); !status)
            return at(status.error());
        lines.push_back(std::move(line));
    }
    if (!hasHeader)
        return at(wrong(QStringLiteral("the script is empty; its first line is %1").arg(qt(kScriptHeader))));
    return lines;
}

} // namespace planloom::ui
