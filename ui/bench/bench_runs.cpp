// SPDX-License-Identifier: GPL-3.0-or-later
// T11 and T13: a workspace of many runs.
#include "engine/store/run_fields.h"
#include "ui/bench/bench_files.h"
#include "ui/bench/bench_window.h"
#include "ui/compare/compare_view.h"
#include "ui/run/run_list_view.h"

#include <QDir>
#include <QLocale>

#include <algorithm>
#include <string>

namespace planloom::ui {

namespace {

constexpr double kFilterMilliseconds = 50;
constexpr double kCompareMilliseconds = 200;
constexpr int kCompared = 100;

/// Types filters letter by letter; each changes the list, which is painted.
Samples typeFilters(RunListView &view)
{
    Samples samples;
    for (int round = 0; round < 6; ++round)
        for (const QString &typed : {QStringLiteral("run00"), QStringLiteral("model:bench"),
                                     QStringLiteral("iteration<1s"), QStringLiteral("loss<0.2"), QStringLiteral("zzz")})
            for (qsizetype length = 1; length <= typed.size(); ++length)
                samples.take([&] {
                    view.filterField()->setText(typed.left(length));
                    view.table()->viewport()->repaint();
                });
    view.filterField()->clear();
    settle();
    return samples;
}

/// Compares the first run with each of the others, one after the other; the sum by the clock.
Samples compareAll(CompareView &view, const QStringList &folders)
{
    Samples samples;
    samples.take([&] {
        for (qsizetype k = 1; k < folders.size(); ++k) {
            const auto before = view.comparison();
            view.compareRuns(folders.front(), folders[k]);
            waitUntil([&] { return view.comparison() && view.comparison() != before; });
        }
        view.repaint();
    });
    return samples;
}

/// Of the runs in the list, the share that shows a figure in the column of @p key; 0 without such a column.
double shownShare(RunListView &view, const char *key)
{
    const store::RunField *field = store::findRunField(key);
    const int rows = view.model()->rowCount();
    if (field == nullptr || rows == 0 || view.table()->isColumnHidden(RunListModel::columnOf(key)))
        return 0;
    int shown = 0;
    for (int row = 0; row < rows; ++row)
        shown += view.model()
                     ->data(view.model()->index(row, RunListModel::columnOf(key)), Qt::DisplayRole)
                     .toString()
                     .contains(QLatin1Char('%'))
            ? 1
            : 0;
    return 100.0 * shown / rows;
}

void addShares(BenchContext &context, RunListView &view)
{
    for (const auto &[key, what] :
         {std::pair("error", QStringLiteral("step time")), std::pair("memory_error", QStringLiteral("peak memory"))}) {
        BenchFigure figure =
            benchFigure(QStringLiteral("T13"), QStringLiteral("runs that show the error of predicted %1").arg(what));
        figure.unit = QStringLiteral("%");
        figure.values = {shownShare(view, key)};
        figure.limit = 100;
        figure.atLeast = true;
        figure.events = view.model()->rowCount();
        context.add(std::move(figure));
    }
}

} // namespace

void benchRuns(BenchContext &context)
{
    const auto &targets = context.options().targets;
    const QString target = std::ranges::count(targets, 11) ? QStringLiteral("T11") : QStringLiteral("T13");
    const auto runs = static_cast<int>(context.sized(1000, 10));
    const QString model = context.file(target, QStringLiteral("model-8.json"),
                                       [](const QString &path) { return writeBenchBlocks(path, 8); });
    const QString cluster = context.file(target, QStringLiteral("cluster-8.yaml"),
                                         [](const QString &path) { return writeBenchCluster(path, 8); });
    if (model.isEmpty() || cluster.isEmpty())
        return;
    BenchWindow bench;
    if (!bench.plan(model, cluster, 8, {{"pipeline", "8"}}))
        return context.fail(target, QStringLiteral("plan"), bench.error());
    const QString folder = context.file(target, QStringLiteral("runs"), [&](const QString &path) {
        return writeBenchRuns(path, *bench.state().document(), bench.state().simulation()->report.iterationSeconds,
                              runs);
    });
    if (folder.isEmpty())
        return;
    context.begin(target);
    auto &view = bench.alone<RunListView>(QStringLiteral("Runs"));
    view.setWorkspace(context.path(QStringLiteral("bench.planloom")));
    view.addFolder(folder);
    if (!waitUntil([&] { return !view.busy() && view.model()->rowCount() == runs; }))
        return context.fail(target, QStringLiteral("runs"), bench.error());
    settle();
    const QString of = QStringLiteral("%1 runs").arg(QLocale::c().toString(runs));
    if (std::ranges::count(targets, 11)) {
        context.addFrames(target, QStringLiteral("filter, a letter, %1").arg(of), typeFilters(view),
                          kFilterMilliseconds, runs);
        QStringList folders;
        for (int row = 0; row < std::min(runs, kCompared); ++row)
            folders << QString::fromStdString(view.model()->run(row).folder);
        auto &compare = bench.alone<CompareView>(QStringLiteral("Compare"));
        context.addWaits(target, QStringLiteral("compare one run with %1 others, in turn").arg(folders.size() - 1),
                         compareAll(compare, folders), kCompareMilliseconds, folders.size());
    }
    if (std::ranges::count(targets, 13))
        addShares(context, view);
}

} // namespace planloom::ui
