// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/studio/options.h"

#include <QCommandLineParser>
#include <QCoreApplication>

#include <algorithm>

namespace planloom {

namespace {

/// An option of the studio: parser, help, completion and man page are made of this table.
struct StudioOption {
    const char *name;
    const char *value; ///< "N"; nullptr: it takes none
    const char *usual; ///< value if it is left out; nullptr: none
    const char *about;
    std::vector<std::string> choices = {};
};

const std::vector<StudioOption> &studioOptions()
{
    static const std::vector<StudioOption> options{
        {"play", "SCRIPT", nullptr,
         "Do what a script says, as Tools > Record actions writes it, and end; without a display it draws offscreen."},
        {"demo", nullptr, nullptr,
         "Play the whole story by itself; the first FILE is the folder for its pictures, plan and trace. Without a "
         "display it draws offscreen and ends by itself."},
        {"demo-steps", "N", "12", "Training steps of the demo."},
        {"screenshot", "PNG", nullptr, "Save a picture of the window and end."},
        {"theme", "NAME", nullptr, "light, dark or high-contrast.", {"light", "dark", "high-contrast"}},
        {"fresh", nullptr, nullptr, "Do not reopen the files of the last start."},
        {"bench", nullptr, nullptr,
         "Measure the studio's targets and end; FILE names some of them, such as T3,T9. Without a display it draws "
         "offscreen."},
        {"json", nullptr, nullptr, "Print the measured targets as JSON."},
        {"bench-size", "SHARE", "1", "Share of the targets' sizes, for a quick look."},
        {"bench-seconds", "N", "10", "Length of the live run of T6; the target is 600."},
    };
    return options;
}

constexpr const char *kAbout =
    "The studio of Planloom: load a model and a cluster, find plans, see and change them, train.";
constexpr const char *kFiles = "models, clusters, plans, traces, runs or links to open: net.onnx, zoo:gpt2, "
                               "preset:h100-8, local:4, plan.json, plan.json#view=timeline&stage=1";

QString text(const char *utf8) { return QString::fromUtf8(utf8); }

} // namespace

std::optional<StudioOptions> parseStudioOptions(QString &wrong)
{
    QCommandLineParser parser;
    parser.setApplicationDescription(text(kAbout));
    parser.addHelpOption();
    parser.addVersionOption();
    parser.addPositionalArgument(QStringLiteral("FILE"), text(kFiles), QStringLiteral("[FILE...]"));
    for (const StudioOption &each : studioOptions())
        parser.addOption(QCommandLineOption(text(each.name), text(each.about),
                                            each.value ? text(each.value) : QString(),
                                            each.usual ? text(each.usual) : QString()));
    if (!parser.parse(QCoreApplication::arguments())) {
        wrong = parser.errorText();
        return std::nullopt;
    }
    parser.process(*QCoreApplication::instance()); // --help and --version
    const auto value = [&parser](const char *name) { return parser.value(text(name)); };
    const auto isSet = [&parser](const char *name) { return parser.isSet(text(name)); };
    bool isNumber = false;
    StudioOptions options;
    options.steps = value("demo-steps").toInt(&isNumber);
    if (!isNumber || options.steps < kFewestSteps) {
        wrong = QStringLiteral("--demo-steps %1: is not a number of steps; use %2 or more")
                    .arg(value("demo-steps"))
                    .arg(kFewestSteps);
        return std::nullopt;
    }
    options.theme = value("theme");
    const auto theme = std::find_if(studioOptions().begin(), studioOptions().end(),
                                    [](const StudioOption &each) { return std::string(each.name) == "theme"; });
    if (!options.theme.isEmpty() && std::ranges::count(theme->choices, options.theme.toStdString()) == 0) {
        wrong = QStringLiteral("--theme %1: unknown; use light, dark or high-contrast").arg(options.theme);
        return std::nullopt;
    }
    options.demo = isSet("demo");
    options.bench = isSet("bench");
    options.benchRequest = {parser.positionalArguments(), value("bench-size"), value("bench-seconds"), isSet("json")};
    options.screenshot = value("screenshot");
    options.play = value("play");
    if (isSet("play") && options.play.isEmpty()) {
        wrong = QStringLiteral("--play: names no script; use --play FILE");
        return std::nullopt;
    }
    options.freshSession = isSet("fresh");
    options.files = parser.positionalArguments();
    return options;
}

cli::Manual studioManual()
{
    cli::VerbOutline program;
    program.operands.push_back({{"FILE"}, kFiles, true, {}, {}});
    program.options.push_back({{"--help", "-h"}, "Displays help on commandline options.", false, {}, {}});
    program.options.push_back({{"--version", "-v"}, "Displays version information.", false, {}, {}});
    for (const StudioOption &each : studioOptions()) {
        std::string about = each.about;
        if (each.usual)
            about += std::string(" Default: ") + each.usual + ".";
        program.options.push_back({{std::string("--") + each.name},
                                   std::move(about),
                                   each.value != nullptr,
                                   each.choices,
                                   each.value ? each.value : ""});
    }
    cli::Manual manual;
    manual.program = "planloom-studio";
    manual.version = PLANLOOM_VERSION;
    manual.about = "studio for plans of parallel training";
    manual.synopsis = "[OPTION...] [FILE...]";
    manual.verbs.push_back(std::move(program));
    manual.status = {{"0", "done"},
                     {"1", "the demo or a script failed, or a picture could not be written"},
                     {"2", "an option, a file or a line of a script is wrong"}};
    manual.files = {{"~/.config/planloom/planloom-studio.conf", "Layouts, keys, recent files"},
                    {"~/.local/share/planloom/planloom-studio/unsaved", "The unsaved plan, for a start after a crash"},
                    {"/usr/share/planloom/docs", "What Help shows"}};
    manual.seeAlso = {"planloom(1)"};
    return manual;
}

} // namespace planloom
