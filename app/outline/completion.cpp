// SPDX-License-Identifier: Apache-2.0
#include "app/outline/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::cli {
namespace {

/// In single quotes.
std::string shellText(const std::string &text)
{
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted += c;
    }
    return quoted + "'";
}

std::string namesOf(const VerbOutline &verb)
{
    std::string names;
    for (const OptionOutline &option : verb.options)
        names += fmt::format("{}{}", names.empty() ? "" : " ", fmt::join(option.names, " "));
    return names;
}

/// The cases of options with values: "plan:--precision) ...".
std::string bashValues(const VerbOutline &verb)
{
    std::string text;
    for (const OptionOutline &option : verb.options) {
        if (!option.takesValue)
            continue;
        std::string patterns;
        for (const std::string &name : option.names)
            patterns += fmt::format("{}{}:{}", patterns.empty() ? "" : "|", verb.name, name);
        text += option.choices.empty()
            ? fmt::format("        {}) return ;;\n", patterns)
            : fmt::format("        {}) COMPREPLY=($(compgen -W {} -- \"$word\")); return ;;\n", patterns,
                          shellText(fmt::format("{}", fmt::join(option.choices, " "))));
    }
    return text;
}

/// For brackets and colons of zsh's _arguments.
std::string zshText(const std::string &text)
{
    std::string escaped;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\')
            escaped += '\\';
        escaped += c == '\n' ? ' ' : c;
    }
    return escaped;
}

std::string zshOption(const OptionOutline &option)
{
    const std::string value = !option.takesValue ? ""
        : option.choices.empty()                 ? ":value:_files"
                                                 : fmt::format(":value:({})", fmt::join(option.choices, " "));
    std::string text;
    for (const std::string &name : option.names)
        text += " \\\n                " + shellText(fmt::format("*{}[{}]{}", name, zshText(option.about), value));
    return text;
}

/// A name of a shell function.
std::string functionName(const std::string &program)
{
    std::string name = "_";
    for (const char c : program)
        name += c == '-' ? '_' : c;
    return name;
}

} // namespace

std::string bashCompletion(const VerbOutline &program)
{
    const std::string function = functionName(program.name);
    std::string values;
    for (const OptionOutline &option : program.options) {
        if (!option.takesValue)
            continue;
        const std::string reply = option.choices.empty()
            ? "return"
            : fmt::format("COMPREPLY=($(compgen -W {} -- \"$word\")); return",
                          shellText(fmt::format("{}", fmt::join(option.choices, " "))));
        values += fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"), reply);
    }
    return fmt::format(R"(# bash completion of {0}, written by "{0} --completion"
{1}()
{{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    COMPREPLY=()
    case $before in
{2}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W {3} -- "$word"))
    fi
}}
complete -o bashdefault -o default -F {1} {0}
)",
                       program.name, function, values, shellText(namesOf(program)));
}

std::string bashCompletion(const std::vector<VerbOutline> &verbs)
{
    std::string names, values, options, operands;
    for (const VerbOutline &verb : verbs) {
        names += (names.empty() ? "" : " ") + verb.name;
        values += bashValues(verb);
        options += fmt::format("        {}) COMPREPLY=($(compgen -W {} -- \"$word\")) ;;\n", verb.name,
                               shellText(namesOf(verb)));
        if (!verb.choices.empty())
            operands += fmt::format("            {}) COMPREPLY=($(compgen -W {} -- \"$word\")) ;;\n", verb.name,
                                    shellText(fmt::format("{}", fmt::join(verb.choices, " "))));
    }
    return fmt::format(R"(# bash completion of planloom, written by "planloom completion bash"
_planloom()
{{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${{COMP_WORDS[i]}} != -* ]]; then
            verb=${{COMP_WORDS[i]}}
            break
        fi
    done
    if [[ -z $verb ]]; then
        COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
        return
    fi
    case $verb:$before in
{}    esac
    if [[ $word != -* ]]; then
        case $verb in
{}            *) ;;
        esac
        return
    fi
    case $verb in
{}    esac
}}
complete -o bashdefault -o default -F _planloom planloom
)",
                       names, values, operands, options);
}

std::string zshCompletion(const std::vector<VerbOutline> &verbs)
{
    std::string names, cases;
    for (const VerbOutline &verb : verbs) {
        names += fmt::format("        {}\n", shellText(verb.name + ":" + zshText(verb.about)));
        std::string arguments;
        for (const OptionOutline &option : verb.options)
            arguments += zshOption(option);
        const std::string operand =
            verb.choices.empty() ? "*:file:_files" : fmt::format("*:operand:({})", fmt::join(verb.choices, " "));
        cases += fmt::format("        {})\n            _arguments{} \\\n                {}\n            ;;\n",
                             verb.name, arguments, shellText(operand));
    }
    return fmt::format(R"(#compdef planloom
# zsh completion of planloom, written by "planloom completion zsh"
_planloom()
{{
    local -a verbs
    verbs=(
{}    )
    if (( CURRENT == 2 )); then
        _describe -t verbs 'verb' verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
{}    esac
}}
_planloom "$@"
)",
                       names, cases);
}

} // namespace planloom::cli
