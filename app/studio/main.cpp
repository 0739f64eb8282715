// SPDX-License-Identifier: GPL-3.0-or-later
// planloom-studio: options, then the window. Everything else is in ui/.
#include "app/outline/completion.h"
#include "app/studio/bench_mode.h"
#include "app/studio/options.h"
#include "ui/demo/demo.h"
#include "ui/script/script_tools.h"
#include "ui/shell/main_window.h"
#include "ui/state/local_agent.h"
#include "ui/state/studio_state.h"
#include "ui/theme/theme.h"

#include <QApplication>
#include <QDir>
#include <QFileInfo>
#include <QFontInfo>
#include <QScreen>
#include <QStandardPaths>
#include <QTextStream>
#include <QTimer>
#include <QUrl>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace {

using namespace planloom;

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kBadInput = 2;
constexpr int kDemoPause = 1500;  // milliseconds between two acts of the demo, if it is shown
constexpr int kScriptPause = 400; // likewise between two lines of a script

bool hasDisplay()
{
    const auto set = [](const char *name) {
        const char *value = std::getenv(name);
        return value && *value;
    };
    return set("DISPLAY") || set("WAYLAND_DISPLAY");
}

/// Qt ends the process if it is asked for a window where there is no display: it must be told before it is asked.
bool chooseOffscreen()
{
    if (std::getenv("QT_QPA_PLATFORM"))
        return std::strcmp(std::getenv("QT_QPA_PLATFORM"), "offscreen") == 0;
    if (hasDisplay())
        return false;
    setenv("QT_QPA_PLATFORM", "offscreen", 1);
    return true;
}

int complain(const QString &what)
{
    QTextStream(stderr) << "planloom-studio: error: " << what << Qt::endl;
    return kBadInput;
}

/// @p folder, or a new one under the temporary folder. Empty if it cannot be made.
QString demoFolder(const QString &folder)
{
    const QString path = folder.isEmpty()
        ? QDir::tempPath() + QStringLiteral("/planloom-demo-%1").arg(QCoreApplication::applicationPid())
        : folder;
    return QDir().mkpath(path) ? QDir(path).absolutePath() : QString();
}

/// A text that every Debian has; where it is missing, the text of this program's own help.
QString demoText(const QString &folder)
{
    const QString licence = QStringLiteral("/usr/share/common-licenses/GPL-3");
    if (QFileInfo::exists(licence))
        return licence;
    const QString path = QDir(folder).filePath(QStringLiteral("text.txt"));
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly))
        return {};
    for (int k = 0; k < 2000; ++k)
        file.write("a pipeline is a row of stages, and each stage waits for the one before it. ");
    return path;
}

int playDemo(QApplication &app, ui::StudioState &state, ui::MainWindow &window, const StudioOptions &options,
             bool offscreen)
{
    const QString asked = options.files.isEmpty() ? QString() : options.files.front();
    ui::DemoOptions demo;
    demo.folder = demoFolder(asked);
    if (demo.folder.isEmpty())
        return complain(QStringLiteral("%1: the folder cannot be made; name another one").arg(asked));
    demo.data = demoText(demo.folder);
    demo.steps = options.steps;
    demo.pauseMilliseconds = offscreen ? 0 : kDemoPause;
    ui::Demo play(&state, &window, demo);
    int status = kDone;
    QObject::connect(&play, &ui::Demo::finished, &app, [&](bool ok) {
        status = ok ? kDone : kFailed;
        if (!ok)
            QTextStream(stderr) << "planloom-studio: error: " << play.failure() << Qt::endl;
        if (!ok || offscreen)
            app.exit(status);
    });
    QTimer::singleShot(0, &play, &ui::Demo::start);
    app.exec();
    QTextStream(stdout) << demo.folder << Qt::endl;
    return status;
}

/// Of @p files. The picture is made, too, where one of them cannot be opened.
int takeScreenshot(QApplication &app, ui::StudioState &state, ui::MainWindow &window, const QString &path,
                   const QStringList &files)
{
    int status = kFailed;
    QString refused; // the first file that could not be opened
    QObject::connect(&state, &ui::StudioState::message, &app, [&](ui::MessageLevel level, const QString &text) {
        if (level == ui::MessageLevel::Error && refused.isEmpty())
            refused = text;
    });
    window.open(files);
    // When all is loaded and simulated, and the docks are laid out.
    int quiet = 0; // times in a row that nothing was going on
    QTimer poll;
    QObject::connect(&poll, &QTimer::timeout, &app, [&] {
        quiet = state.loadJob()->running() || state.simulating() ? 0 : quiet + 1;
        if (quiet < 2) // the newest content is not laid out yet
            return;
        status = window.grab().save(path) ? kDone : kFailed;
        app.quit();
    });
    poll.start(200);
    app.exec();
    if (status != kDone)
        QTextStream(stderr) << "planloom-studio: error: " << path << ": cannot be written; choose another folder"
                            << Qt::endl;
    return refused.isEmpty() ? status : complain(refused);
}

/// The offscreen platform warns of every window's size limits, which it has no use for.
void installQuietOffscreen()
{
    static QtMessageHandler before = nullptr;
    before = qInstallMessageHandler([](QtMsgType type, const QMessageLogContext &context, const QString &text) {
        if (!text.contains(QLatin1String("propagateSizeHints")))
            before(type, context, text);
    });
}

/// Exit status: 0, 1 where a line failed, 2 where the script is wrong.
int playScript(QApplication &app, ui::StudioState &state, ui::MainWindow &window, const QString &path, bool offscreen)
{
    ui::ScriptPlayer player(&state, &window);
    player.setPause(offscreen ? 0 : kScriptPause);
    int status = kDone;
    QObject::connect(&player, &ui::ScriptPlayer::began, &app, [&](int line, int of, const QString &title) {
        QTextStream(stdout) << line << '/' << of << "  " << title << Qt::endl;
        state.say(ui::MessageLevel::Info, title);
    });
    QObject::connect(&player, &ui::ScriptPlayer::finished, &app, [&](bool ok) {
        status = ok ? kDone : kFailed;
        if (!ok)
            QTextStream(stderr) << "planloom-studio: error: " << player.failure() << Qt::endl;
        QTimer::singleShot(0, &app, [] { QCoreApplication::quit(); });
    });
    std::optional<QString> wrong;
    QTimer::singleShot(0, &player, [&] {
        if (const Status read = player.play(path); !read) {
            wrong = QString::fromStdString(read.error().text());
            QCoreApplication::quit();
        }
    });
    app.exec();
    return wrong ? complain(*wrong) : status;
}

/// What packages are made with: the man page, and the completion of bash. Needs no display.
std::optional<int> printOutline(int argc, char **argv)
{
    if (argc != 2)
        return std::nullopt;
    const std::string_view what = argv[1];
    const cli::Manual manual = studioManual();
    std::string made;
    if (what == "--manual") {
        made = cli::manualPage(manual);
    } else if (what == "--completion") {
        cli::VerbOutline program = manual.verbs.front();
        program.name = manual.program;
        made = cli::bashCompletion(program);
    } else {
        return std::nullopt;
    }
    return std::fwrite(made.data(), 1, made.size(), stdout) == made.size() && std::fflush(stdout) == 0 ? kDone
                                                                                                       : kFailed;
}

/// Desktops hand over addresses of files.
QStringList localFiles(QStringList names)
{
    for (QString &name : names)
        if (name.startsWith(QLatin1String("file://")))
            name = QUrl(name).toLocalFile();
    return names;
}

ui::ThemeKind themeOf(const QString &name)
{
    if (name == QLatin1String("dark"))
        return ui::ThemeKind::Dark;
    if (name == QLatin1String("high-contrast"))
        return ui::ThemeKind::HighContrast;
    return name == QLatin1String("light") ? ui::ThemeKind::Light : ui::ThemeKind::System;
}

} // namespace

int main(int argc, char **argv)
{
    if (const auto printed = printOutline(argc, argv))
        return *printed;
    const bool offscreen = chooseOffscreen();
    if (offscreen)
        installQuietOffscreen();
    // Every event is measured while targets are.
    const bool benches = std::any_of(argv + 1, argv + argc,
                                     [](const char *argument) { return std::string_view(argument) == "--bench"; });
    const std::unique_ptr<QApplication> made =
        benches ? std::make_unique<ui::WatchedApplication>(argc, argv) : std::make_unique<QApplication>(argc, argv);
    QApplication &app = *made;
    QApplication::setOrganizationName(QStringLiteral("planloom"));
    QApplication::setApplicationName(QStringLiteral("planloom-studio"));
    QApplication::setApplicationVersion(QStringLiteral(PLANLOOM_VERSION));
    QString wrongOption;
    const auto parsed = parseStudioOptions(wrongOption);
    if (!parsed)
        return complain(wrongOption);
    const StudioOptions &options = *parsed;
    if (QFontInfo(QApplication::font()).family().isEmpty())
        return complain(QStringLiteral("there is no font on this machine; install fonts-dejavu-core"));
    ui::applyTheme(app, themeOf(options.theme));
    QApplication::setWindowIcon(ui::icon(QStringLiteral("planloom")));

    if (options.bench) {
        int status = kDone;
        const auto wrong = benchInStudio(static_cast<ui::WatchedApplication &>(app), options.benchRequest, status);
        return wrong ? complain(*wrong) : status;
    }

    ui::StudioState state;
    state.setClientFactory(ui::localAgent());
    ui::MainWindow window(&state);
    const bool plays = !options.play.isEmpty();
    const bool alone = options.demo || plays || !options.screenshot.isEmpty();
    window.setAsks(!alone);
    const bool restores = !alone && !options.freshSession;
    const bool hasLayout = restores && window.restoreLayout();
    if (!hasLayout && !alone) // at twice the scale a screen may be smaller than the window's usual size
        window.resize(window.size().boundedTo(window.screen()->availableSize()));
    window.show();
    if (!hasLayout)
        window.resetLayout();
    if (options.demo)
        return playDemo(app, state, window, options, offscreen);
    if (plays)
        return playScript(app, state, window, options.play, offscreen);
    new ui::ScriptTools(&state, &window); // the window's child
    if (!alone)
        window.keepUnsaved(QStandardPaths::writableLocation(QStandardPaths::AppLocalDataLocation)
                           + QStringLiteral("/unsaved"));
    if (restores)
        window.restoreSession(!options.files.isEmpty());
    if (!options.screenshot.isEmpty())
        return takeScreenshot(app, state, window, options.screenshot, localFiles(options.files));
    window.open(localFiles(options.files));
    if (offscreen && !std::getenv("PLANLOOM_STUDIO_OFFSCREEN"))
        return complain(QStringLiteral("there is no display (DISPLAY and WAYLAND_DISPLAY are not set); use --demo or "
                                       "--screenshot, or the planloom command"));
    return app.exec();
}
