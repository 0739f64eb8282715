// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/studio/bench_mode.h"

#include "ui/bench/bench.h"

#include <QTextStream>

namespace planloom {

std::optional<QString> benchInStudio(ui::WatchedApplication &app, const BenchRequest &request, int &status)
{
    status = 0;
    if (request.targets == QStringList{QStringLiteral("start")}) {
        status = ui::showStart();
        return std::nullopt;
    }
    const auto targets = ui::benchTargets(request.targets.join(QLatin1Char(',')));
    if (!targets)
        return QString::fromStdString(targets.error().text());
    bool isSize = false;
    bool isTime = false;
    ui::BenchOptions options;
    options.targets = *targets;
    options.size = request.size.toDouble(&isSize);
    options.liveSeconds = request.seconds.toDouble(&isTime);
    options.program = QApplication::applicationFilePath();
    if (!isSize || options.size <= 0 || options.size > 10)
        return QStringLiteral("--bench-size %1: is not a share of the sizes; use a number such as 0.01")
            .arg(request.size);
    if (!isTime || options.liveSeconds < 1 || options.liveSeconds > 86'400)
        return QStringLiteral("--bench-seconds %1: is not a time; use 1 to 86400").arg(request.seconds);
    ui::BenchMachine machine = ui::thisMachine();
    machine.size = options.size;
    machine.window = QStringLiteral("%1 x %2").arg(ui::BenchWindow::kWidth).arg(ui::BenchWindow::kHeight);
    QTextStream progress(stderr);
    const auto figures = ui::runBench(options, app.watch(), [&](const QString &what) { progress << what << Qt::endl; });
    if (request.json)
        QTextStream(stdout) << QString::fromUtf8(ui::benchJson(machine, figures));
    else
        QTextStream(stdout) << ui::benchTable(machine, figures);
    return std::nullopt;
}

} // namespace planloom
