// SPDX-License-Identifier: GPL-3.0-or-later
// The part of StudioState that loads and plans in the background.
#include "ui/state/file_kind.h"
#include "ui/state/studio_state.h"

#include <chrono>
#include <utility>

namespace planloom::ui {

bool StudioState::open(const QString &nameOrPath)
{
    switch (classifyFile(nameOrPath)) {
    case FileKind::Model: return loadModel(nameOrPath);
    case FileKind::Cluster: return loadCluster(nameOrPath);
    case FileKind::Plan: return openPlan(nameOrPath);
    case FileKind::Trace: return openTrace(nameOrPath);
    case FileKind::Unknown: break;
    }
    say(MessageLevel::Error, tr("%1: not a model, cluster, plan or trace that Planloom knows; open .onnx, config.json, a layer "
                                "profile, .yaml, a topology file, a plan or .pltrace")
                                 .arg(nameOrPath));
    return false;
}

bool StudioState::loadModel(const QString &source)
{
    return m_loadJob.start(tr("Loading %1").arg(source), [this, source, cluster = m_cluster](Progress &) -> Job::Completion {
        auto loaded = import::loadModel(source.toStdString());
        if (!loaded)
            return [this, error = loaded.error()] { sayError(error); };
        auto model = std::make_shared<const import::Model>(std::move(*loaded));
        std::optional<plan::Subject> subject;
        if (cluster)
            subject = plan::makeSubject(model->graph, cluster, model->profile, model->source);
        return [this, model, cluster, subject] {
            for (const std::string &warning : model->warnings)
                say(MessageLevel::Warning, QString::fromStdString(warning));
            setSubject(model, cluster, subject);
            Q_EMIT modelChanged();
        };
    });
}

bool StudioState::loadCluster(const QString &source)
{
    return m_loadJob.start(tr("Loading %1").arg(source), [this, source, model = m_model](Progress &) -> Job::Completion {
        auto cluster = import::loadCluster(source.toStdString());
        if (!cluster)
            return [this, error = cluster.error()] { sayError(error); };
        std::optional<plan::Subject> subject;
        if (model)
            subject = plan::makeSubject(model->graph, *cluster, model->profile, model->source);
        return [this, model, cluster = *cluster, subject] { setSubject(model, cluster, subject); };
    });
}

void StudioState::setSubject(std::shared_ptr<const import::Model> model, std::shared_ptr<const cluster::Cluster> cluster,
                             std::optional<plan::Subject> subject)
{
    const bool otherCluster = cluster != m_cluster;
    m_model = std::move(model);
    m_cluster = std::move(cluster);
    m_subject = std::move(subject);
    dropDocument();
    if (otherCluster)
        Q_EMIT clusterChanged();
}

bool StudioState::openPlan(const QString &path)
{
    return m_loadJob.start(tr("Opening %1").arg(path), [this, path](Progress &) -> Job::Completion {
        auto document = plan::readPlan(path.toStdString());
        if (!document)
            return [this, error = document.error()] { sayError(error); };
        return [this, path, opened = std::move(*document)] { startDocument(opened, path); };
    });
}

void StudioState::startDocument(plan::Document document, const QString &path)
{
    import::Model model;
    model.graph = document.subject.graph;
    model.profile = document.subject.profile;
    model.source = document.subject.modelSource;
    setSubject(std::make_shared<const import::Model>(std::move(model)), document.subject.cluster, document.subject);
    m_planPath = path;
    Q_EMIT modelChanged();
    applyDocument(std::make_shared<const plan::Document>(std::move(document)));
}

bool StudioState::openTrace(const QString &path)
{
    if (run().active()) {
        say(MessageLevel::Warning, tr("A run is active; stop it before opening another trace."));
        return false;
    }
    return m_loadJob.start(tr("Opening %1").arg(path), [this, path](Progress &) -> Job::Completion {
        auto trace = trace::readTrace(path.toStdString());
        if (!trace)
            return [this, error = trace.error()] { sayError(error); };
        return [this, opened = std::move(*trace)] {
            m_openedTrace = opened;
            Q_EMIT measuredReset();
        };
    });
}

bool StudioState::runPlanner(const PlanRequest &request)
{
    if (!m_subject) {
        say(MessageLevel::Warning, tr("A planner needs a model and a cluster; open both first."));
        return false;
    }
    auto planner = planners::findPlanner(request.planner);
    if (!planner) {
        sayError(planner.error());
        return false;
    }
    planners::Problem problem;
    problem.subject = *m_subject;
    problem.globalBatch = request.globalBatch;
    problem.microBatch = request.microBatch;
    problem.optimizer = request.optimizer;
    const QString title = tr("Planning with %1").arg(QString::fromStdString(request.planner));
    return m_planJob.start(title, [this, planner = *planner, problem, options = request.options](Progress &progress) -> Job::Completion {
        const auto begin = std::chrono::steady_clock::now();
        auto report = planner->plan(problem, options, progress);
        if (report)
            report->plan.planner.searchSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return [this, report = std::move(report), subject = problem.subject, name = planner->name()] {
            adoptPlan(report, subject, name);
        };
    });
}

void StudioState::adoptPlan(Result<planners::PlanReport> report, const plan::Subject &subject, const std::string &planner)
{
    if (!report)
        return sayError(report.error());
    if (!m_subject || m_subject->graph != subject.graph || m_subject->cluster != subject.cluster) {
        say(MessageLevel::Warning, tr("The model or the cluster changed while the planner ran; its plan is not used."));
        return;
    }
    m_alternatives = std::move(report->alternatives);
    if (!report->complete)
        say(MessageLevel::Info, tr("The search was stopped; this is the best plan that it had found."));
    push(tr("Plan with %1").arg(QString::fromStdString(planner)), {std::move(report->plan), subject});
}

} // namespace planloom::ui
