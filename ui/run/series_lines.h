// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QList>
#include <QPointF>
#include <QString>

#include "engine/run/series.h"

#include <vector>

namespace planloom::ui {

/// Losses over the steps of a run whose replicas are averaged, thinned to what a chart draws.
struct ReplicaLines {
    struct Line {
        int replica = 0;
        QList<QPointF> points;
    };
    std::vector<Line> replicas; ///< by number
    QList<QPointF> meanModel;   ///< on held-out samples
    QString problem;            ///< of a file that cannot be read
};
/// Of what the run in @p folder has recorded so far (engine/run/series.h); any thread. Cost: its files are read.
ReplicaLines readReplicaLines(const QString &folder);

/// Rows of a table over the steps, all replicas together.
struct TableLines {
    run::RowSeries of; ///< without its steps
    QList<QPointF> ids, unique, prior, delayed;
    run::RowCounts mean; ///< of a step
    double lastStep = 0;
    double most = 0; ///< of any of them, and of what was expected
};
/// Of each table, in the order of the plan's; @p problem as in ReplicaLines. Any thread.
std::vector<TableLines> readTableLines(const QString &folder, QString &problem);

} // namespace planloom::ui
