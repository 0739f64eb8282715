// SPDX-License-Identifier: Apache-2.0
#include "app/outline/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::cli {
namespace {

/// Text of a paragraph: a backslash and a hyphen are themselves, and no line begins with a request.
std::string roff(const std::string &text)
{
    std::string escaped;
    bool begins = true;
    for (const char c : text) {
        if (begins && (c == '.' || c == '\''))
            escaped += "\\&";
        if (c == '\\')
            escaped += "\\e";
        else if (c == '-')
            escaped += "\\-";
        else
            escaped += c;
        begins = c == '\n';
    }
    return escaped;
}

/// The argument of a macro, in quotation marks.
std::string argument(const std::string &text)
{
    std::string escaped;
    for (const char c : roff(text))
        escaped += c == '"' ? std::string("\\(dq") : std::string(1, c);
    return '"' + escaped + '"';
}

/// A definition: its term in bold, its value in italics, then what it means.
std::string entry(const std::string &names, const std::string &value, const std::string &about,
                  const std::vector<std::string> &choices)
{
    std::string text = ".TP\n";
    text +=
        value.empty() ? fmt::format(".B {}\n", names) : fmt::format(".BI {} \" {}\"\n", argument(names), roff(value));
    text += roff(about.empty() ? "No description." : about);
    if (!choices.empty())
        text += roff(fmt::format("{} one of {}", about.ends_with('.') ? " Value:" : ";", fmt::join(choices, ", ")));
    return text + "\n";
}

std::string optionText(const OptionOutline &option)
{
    const std::string value = !option.takesValue ? "" : option.value.empty() ? "VALUE" : option.value;
    return entry(fmt::format("{}", fmt::join(option.names, ", ")), value, option.about, option.choices);
}

std::string verbText(const std::string &program, const VerbOutline &verb)
{
    std::string text;
    if (!verb.name.empty()) {
        std::string operands;
        for (const OptionOutline &operand : verb.operands)
            operands += " " + operand.names.front();
        text += fmt::format(".SS {}\n{}\n", argument(program + " " + verb.name + operands + " [OPTION...]"),
                            roff(verb.about));
    }
    for (const OptionOutline &operand : verb.operands)
        text += entry(operand.names.front(), "", operand.about, operand.choices);
    for (const OptionOutline &option : verb.options)
        text += optionText(option);
    if (!verb.examples.empty()) {
        text += ".PP\nExample:\n.PP\n.nf\n";
        for (const std::string &example : verb.examples)
            text += "    " + roff(example) + "\n";
        text += ".fi\n";
    }
    return text;
}

std::string pairsText(const char *title, const std::vector<std::pair<std::string, std::string>> &pairs)
{
    std::string text = pairs.empty() ? std::string() : fmt::format(".SH {}\n", argument(title));
    for (const auto &[term, meaning] : pairs)
        text += entry(term, "", meaning, {});
    return text;
}

} // namespace

std::string manualPage(const Manual &manual)
{
    std::string upper = manual.program;
    for (char &c : upper)
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const bool hasVerbs = manual.verbs.size() != 1 || !manual.verbs.front().name.empty();
    std::string text = fmt::format(".TH {} 1 \"\" {} {}\n", argument(upper), argument("planloom " + manual.version),
                                   argument("User commands"));
    text += fmt::format(".SH NAME\n{} \\- {}\n", roff(manual.program), roff(manual.about));
    text += fmt::format(".SH SYNOPSIS\n.B {}\n{}\n", roff(manual.program), roff(manual.synopsis));
    text += hasVerbs ? ".SH VERBS\n" : ".SH OPTIONS\n";
    for (const VerbOutline &verb : manual.verbs)
        text += verbText(manual.program, verb);
    text += pairsText("EXIT STATUS", manual.status);
    text += pairsText("FILES", manual.files);
    if (!manual.seeAlso.empty())
        text += fmt::format(".SH \"SEE ALSO\"\n{}\n", roff(fmt::format("{}", fmt::join(manual.seeAlso, ", "))));
    return text;
}

} // namespace planloom::cli
