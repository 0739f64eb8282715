// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "ui/shell/view_link.h"
#include "ui/state/studio_state.h"

#include <QString>
#include <QStringList>

#include <string>
#include <vector>

namespace planloom::ui {

/// "KEY=VALUE" words. Error: BadInput of the first that is something else.
Result<ViewFields> pairsOf(const QStringList &words);

/// What `find-plan` asks for.
struct Search {
    QString model;   ///< empty: the one that is open
    QString cluster; ///< likewise
    std::vector<std::string> loss;
    PlanRequest request;
};

/// "dapple batch=8 set.memory=..."; what has its usual value is left out.
QStringList searchWords(const Search &search);
/// Error: BadInput.
Result<Search> searchFromWords(const QStringList &words);

/// "data=FILE steps=100"; without the run's folder, which the next run must not have.
QStringList trainingWords(const run::Settings &settings);
Result<agent::TrainRequest> trainingFromWords(const QStringList &words);

/// The cluster's own JSON in one line; names keep their blanks.
QString clusterWord(const cluster::Cluster &cluster);

/// The difference of two plans as an RFC 6902 patch of their JSON, without what the simulator and the planner add.
/// @p before may be null: the patch has the whole plan. Cost: both plans as JSON, with their models.
QString planPatch(const plan::Document *before, const plan::Document &after);
Status checkPatch(const QString &patch);
/// @p patch on the plan of @p document. Errors: BadInput (it does not fit this plan, or makes one that is not valid).
Result<plan::Plan> patchedPlan(const plan::Document &document, const QString &patch);

} // namespace planloom::ui
