// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "engine/plan/plan.h"
#include "planners/common/exchange.h"
#include "planners/interface/planner.h"
#include "ui/state/job.h"
#include "ui/state/sampled_graph.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::ui {

/// A request of the planner dialog.
struct PlanRequest {
    std::string planner = "dapple";
    std::int64_t globalBatch = 1;
    std::optional<std::int64_t> microBatch;
    planners::Options options;
    plan::Optimizer optimizer;
    plan::Precision precision = plan::Precision::Float32;
    int zero = 0;                                      ///< ZeRO level of stages with replicas
    std::optional<planners::ExchangeRequest> exchange; ///< none: as the planner has it
    QString graph; ///< folder of the graph that is sampled, for planners that samplesGraph() names; empty: none
};

/// True if planner @p name places sampled training on a graph, and needs PlanRequest::graph.
bool samplesGraph(std::string_view name);

/// The optimizer of the plan's steps by gradients, which of a plan that begins with ADMM are those behind it; null: it
/// has no such steps.
const plan::Optimizer *optimizerOfGradients(const plan::Plan &plan);

/// @p request with the training settings of @p plan: batch, optimizer, precision, ZeRO, exchange; and, where it names
/// the planner that made a plan of another kind of training (ADMM, sampled), that one's options. A plan without steps
/// by gradients leaves the request's optimizer.
PlanRequest withSettingsOf(const plan::Plan &plan, PlanRequest request);

/// What a search ended with.
struct FoundPlan {
    Result<planners::PlanReport> report;
    plan::Subject subject; ///< of the search
    std::string by;        ///< the planner, or the format of the configuration
    std::vector<std::string> remarks;
    SampledGraph graph = {}; ///< that it was planned for
};

/// Searches for plans in the background, one search at a time. Lives on the UI thread.
class PlanSearch : public QObject {
    Q_OBJECT

public:
    explicit PlanSearch(QObject *parent = nullptr);

    /// Refused (false) while a search is under way. @p open: the plan whose annotations a planner that takes any gets;
    /// null: none.
    bool start(const planners::Planner &planner, const PlanRequest &request, const plan::Subject &subject,
               const plan::Plan *open);
    /// The plan that the configuration of another program in @p path stands for.
    bool startSetup(const QString &path, const plan::Subject &subject);
    [[nodiscard]] Job *job() { return &m_job; }

Q_SIGNALS:
    void changed(); ///< Job::changed of job()
    void found(const planloom::ui::FoundPlan &found);

private:
    Job m_job;
};

} // namespace planloom::ui
