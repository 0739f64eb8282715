// SPDX-License-Identifier: GPL-3.0-or-later
// The part of StudioState that loads and plans in the background.
#include "engine/base/files.h"
#include "engine/import/pytorch_schedule.h"
#include "engine/import/setup/setup.h"
#include "planners/common/explain.h"
#include "planners/manual/from_setup.h"
#include "planners/registry.h"
#include "ui/state/file_kind.h"
#include "ui/state/freed_elsewhere.h"
#include "ui/state/run_files.h"
#include "ui/state/studio_state.h"

#include <QDir>
#include <QFileInfo>

#include <algorithm>
#include <chrono>
#include <utility>

namespace planloom::ui {

namespace {

struct OpenedPlan {
    plan::Document document;
    std::string subjectHash;
};

/// Not for the UI thread.
Result<OpenedPlan> readAndHash(const QString &file)
{
    auto document = plan::readPlan(file.toStdString());
    if (!document)
        return document.error();
    std::string hash = plan::subjectHash(document->subject);
    return OpenedPlan{*std::move(document), std::move(hash)};
}

struct TraceSource {
    PlanOrigin origin;
    std::shared_ptr<const plan::Document> document; ///< null: not found
};

/// Plan files in the folder of @p path, plan.json first. Cost: the heads of the folder's JSON files.
QStringList plansBeside(const QString &path)
{
    constexpr qsizetype kMost = 16; // files that are read in search of a trace's plan
    const QDir folder = QFileInfo(path).dir();
    QStringList names = folder.entryList({QStringLiteral("*.json")}, QDir::Files, QDir::Name).mid(0, 10 * kMost);
    if (const qsizetype own = names.indexOf(QStringLiteral("plan.json")); own > 0)
        names.move(own, 0);
    QStringList plans;
    for (const QString &name : std::as_const(names)) {
        if (classifyFile(folder.filePath(name)) == FileKind::Plan && plans.size() < kMost)
            plans << folder.filePath(name);
    }
    return plans;
}

/// By the trace's own fingerprint, and by the plans that stand beside it. A run's trace without one is of its folder's
/// plan.json; any other file is the trace's plan only if the fingerprints agree.
TraceSource sourceOf(const trace::Trace &trace, const trace::Index &index, const QString &path)
{
    TraceSource source;
    source.origin.fingerprint = trace.plan;
    source.origin.contents = contentsOf(trace, index);
    const bool ofRun = trace.plan.empty() && QFileInfo(path).fileName() == QLatin1String("trace.pltrace");
    if (trace.plan.empty() && !ofRun)
        return source;
    for (const QString &file : plansBeside(path)) {
        auto document = plan::readPlan(file.toStdString());
        if (!document)
            continue;
        const std::string fingerprint = plan::fingerprint(*document);
        if (trace.plan != fingerprint && !(ofRun && QFileInfo(file).fileName() == QLatin1String("plan.json")))
            continue;
        source.origin.fingerprint = fingerprint;
        source.origin.name = nameOf(document->plan);
        source.document = std::make_shared<const plan::Document>(*std::move(document));
        break;
    }
    return source;
}

} // namespace

bool StudioState::open(const QString &nameOrPath)
{
    switch (classifyFile(nameOrPath)) {
    case FileKind::Model: return loadModel(nameOrPath);
    case FileKind::Cluster: return loadCluster(nameOrPath);
    case FileKind::Plan: return openPlan(nameOrPath);
    case FileKind::Trace: return openTrace(nameOrPath);
    case FileKind::Run: return openRun(nameOrPath);
    case FileKind::Setup: return importSetup(nameOrPath);
    case FileKind::Order: return importOrder(nameOrPath);
    case FileKind::ForeignTrace:
        say(MessageLevel::Error,
            tr("%1: a %2, which the studio does not open yet; it opens .pltrace, as runs and 'planloom simulate "
               "--trace' write it")
                .arg(nameOrPath, foreignTraceIn(nameOrPath)));
        return false;
    case FileKind::Unknown: break;
    }
    say(MessageLevel::Error,
        tr("%1: not a supported model, cluster, plan or trace; open .onnx, config.json, a run's folder, a "
           "layer "
           "profile, .yaml, a topology file, a plan, .pltrace, or a configuration of Megatron-LM, DeepSpeed or "
           "torchtitan")
            .arg(nameOrPath));
    return false;
}

bool StudioState::load(const QString &title, Job::Work work)
{
    if (!m_loadJob.running())
        return m_loadJob.start(title, std::move(work));
    m_line.emplace_back([this, title, work = std::move(work)] { m_loadJob.start(title, work); });
    return true;
}

void StudioState::nextInLine()
{
    while (!m_loadJob.running() && !m_line.empty()) {
        const auto next = std::move(m_line.front());
        m_line.pop_front();
        next();
    }
}

void StudioState::whenLoaded(std::function<void()> next)
{
    m_line.push_back(std::move(next));
    nextInLine();
}

bool StudioState::loadModel(const QString &source, const std::vector<std::string> &loss)
{
    return load(tr("Loading %1").arg(source), [this, source, loss](Progress &) -> Job::Completion {
        import::ModelOptions how;
        how.loss = loss;
        auto loaded = import::loadModel(source.toStdString(), how);
        if (!loaded)
            return [this, error = loaded.error()] { sayError(error); };
        auto model = std::make_shared<const import::Model>(std::move(*loaded));
        return [this, model, loss] {
            m_loadedModel = {model, loss};
            for (const std::string &warning : model->warnings)
                say(MessageLevel::Warning, QString::fromStdString(warning));
            if (!model->noLoss.empty())
                say(MessageLevel::Warning, tr("The model has no loss: %1").arg(QString::fromStdString(model->noLoss)));
            join(model, m_cluster);
        };
    });
}

bool StudioState::loadCluster(const QString &source)
{
    return load(tr("Loading %1").arg(source), [this, source](Progress &) -> Job::Completion {
        auto cluster = import::loadCluster(source.toStdString());
        if (!cluster)
            return [this, error = cluster.error()] { sayError(error); };
        return [this, source, cluster = *cluster] {
            m_loadedCluster = {cluster, source};
            join(m_model, cluster);
        };
    });
}

void StudioState::join(const std::shared_ptr<const import::Model> &model,
                       const std::shared_ptr<const cluster::Cluster> &cluster)
{
    if (!model || !cluster)
        return setSubject(model, cluster, std::nullopt);
    load(tr("Estimating costs"), [this, model, cluster](Progress &) -> Job::Completion {
        auto subject = plan::makeSubject(model->graph, cluster, model->profile, model->source);
        return [this, model, cluster, subject = std::move(subject)] { setSubject(model, cluster, subject); };
    });
}

void StudioState::setSubject(std::shared_ptr<const import::Model> model,
                             std::shared_ptr<const cluster::Cluster> cluster, std::optional<plan::Subject> subject)
{
    const bool otherModel = model != m_model;
    const bool otherCluster = cluster != m_cluster;
    m_model = std::move(model);
    m_cluster = std::move(cluster);
    m_subject = std::move(subject);
    dropDocument();
    if (otherModel)
        Q_EMIT modelChanged();
    if (otherCluster)
        Q_EMIT clusterChanged();
}

bool StudioState::openPlan(const QString &path)
{
    return loadPlan(path, [this, path](plan::Document opened) { startDocument(std::move(opened), path); });
}

bool StudioState::recoverPlan(const QString &file, const QString &planPath)
{
    return loadPlan(file, [this, planPath](plan::Document opened) {
        startDocument(std::move(opened), planPath);
        m_undo.resetClean();
    });
}

bool StudioState::loadPlan(const QString &file, const std::function<void(plan::Document)> &use)
{
    return load(tr("Opening %1").arg(file), [this, file, use](Progress &) -> Job::Completion {
        const auto opened = readAndHash(file);
        if (!opened)
            return [this, error = opened.error()] { sayError(error); };
        return [this, use, opened = *opened] {
            m_fingerprints.add(opened.document.subject, opened.subjectHash);
            use(opened.document);
        };
    });
}

void StudioState::startDocument(plan::Document document, const QString &path)
{
    import::Model model;
    model.graph = document.subject.graph;
    model.profile = document.subject.profile;
    model.source = document.subject.modelSource;
    setSubject(std::make_shared<const import::Model>(std::move(model)), document.subject.cluster, document.subject);
    m_planPath =
        path.isEmpty() ? QString() : QFileInfo(path).absoluteFilePath(); // the next session may start in another folder
    applyDocument(std::make_shared<const plan::Document>(std::move(document)));
}

bool StudioState::openRun(const QString &folder)
{
    if (run().active()) {
        say(MessageLevel::Warning, tr("A run is active; stop it before opening another one."));
        return false;
    }
    const QDir files(folder);
    load(tr("Opening %1").arg(folder), [this, folder, files](Progress &) -> Job::Completion {
        auto opened = readAndHash(files.filePath(QStringLiteral("plan.json")));
        if (!opened)
            return [this, error = opened.error()] { sayError(error); };
        return [this, opened = std::move(*opened), ended = readRunFiles(folder)]() mutable {
            m_fingerprints.add(opened.document.subject, opened.subjectHash);
            startDocument(std::move(opened.document), {});
            if (!ended)
                return sayError(ended.error());
            ended->origin = documentOrigin();
            m_run.show(*std::move(ended));
        };
    });
    const QString trace = files.filePath(QStringLiteral("trace.pltrace"));
    if (QFileInfo::exists(trace))
        return openTrace(trace);
    say(MessageLevel::Info, tr("%1: the run has no trace yet; this is its plan.").arg(folder));
    return true;
}

bool StudioState::openTrace(const QString &path)
{
    if (run().active()) {
        say(MessageLevel::Warning, tr("A run is active; stop it before opening another trace."));
        return false;
    }
    return load(tr("Opening %1").arg(path), [this, path](Progress &) -> Job::Completion {
        auto trace = trace::readTrace(path.toStdString());
        if (!trace)
            return [this, error = trace.error()] { sayError(error); };
        const auto opened = freedElsewhere(std::move(*trace));
        const auto index = freedElsewhere(trace::Index(opened));
        const auto source = sourceOf(*opened, *index, path);
        return [this, path, opened, index, source] {
            showTrace(path, opened, index, source.origin);
            if (source.document && !measuredIsOfDocument())
                predictOpened(source.document, source.origin.fingerprint);
        };
    });
}

/// The prediction of the plan of the opened trace, where another plan is open.
void StudioState::predictOpened(const DocumentPtr &document, const std::string &fingerprint)
{
    load(tr("Simulating the plan of the trace"), [this, document, fingerprint](Progress &) -> Job::Completion {
        const Simulator::Answer answer = Simulator::answer(*document);
        return [this, fingerprint, answer] {
            if (!answer.simulation || !m_openedTrace || !m_openedOrigin.sameAs(fingerprint))
                return;
            m_openedOrigin.simulation = answer.simulation;
            m_openedOrigin.index = answer.index;
            Q_EMIT simulationChanged();
        };
    });
}

bool StudioState::importSetup(const QString &path)
{
    whenLoaded([this, path] { planSetup(path); });
    return true;
}

bool StudioState::planSetup(const QString &path)
{
    if (!m_subject) {
        say(MessageLevel::Warning,
            tr("%1 is a parallel configuration without a model and a cluster; open these first.").arg(path));
        return false;
    }
    return m_planJob.start(tr("Planning from %1").arg(path),
                           [this, path, subject = *m_subject](Progress &progress) -> Job::Completion {
                               const auto setup = import::loadSetup(path.toStdString());
                               if (!setup)
                                   return [this, error = setup.error()] { sayError(error); };
                               const auto request = planners::manual::requestFrom(*setup, subject);
                               if (!request)
                                   return [this, error = request.error()] { sayError(error); };
                               auto report = planners::planAndExplain(**planners::findPlanner("manual"),
                                                                      request->problem, request->options, progress);
                               return [this, report = std::move(report), planned = request->problem.subject,
                                       name = setup->format, notes = setup->notes] {
                                   for (const std::string &note : notes)
                                       say(MessageLevel::Info, QString::fromStdString(note));
                                   adoptPlan(report, planned, name);
                               };
                           });
}

bool StudioState::importOrder(const QString &path)
{
    if (!m_document) {
        say(MessageLevel::Warning, tr("%1 is a pipeline schedule; open its plan first.").arg(path));
        return false;
    }
    const auto text = readFile(path.toStdString());
    if (!text) {
        sayError(text.error());
        return false;
    }
    auto schedule =
        import::readPytorchSchedule(*text, path.toStdString(), m_document->plan, *m_document->subject.cluster);
    if (!schedule) {
        sayError(schedule.error());
        return false;
    }
    return editPlan(tr("Use the schedule of %1").arg(path),
                    [&](plan::Plan &plan) { plan.schedule = *std::move(schedule); });
}

PlanRequest StudioState::requestLikeDocument(PlanRequest last) const
{
    if (!m_document)
        return last;
    const plan::Plan &plan = m_document->plan;
    last.globalBatch = plan.globalBatch;
    last.optimizer = plan.optimizer;
    last.precision = plan.precision;
    last.zero = 0;
    for (const plan::Stage &stage : plan.stages)
        last.zero = std::max(last.zero, stage.zero);
    last.exchange.reset();
    if (plan::textOf(plan.exchange) != plan::textOf(plan::Exchange{}) || !plan.exchange.groups.empty())
        last.exchange = planners::ExchangeRequest{plan.exchange, false};
    return last;
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
    problem.subject = plan::inPrecision(*m_subject, request.precision);
    problem.globalBatch = request.globalBatch;
    problem.microBatch = request.microBatch;
    problem.optimizer = request.optimizer;
    problem.precision = request.precision;
    problem.zero = request.zero;
    if ((*planner)->takesAnnotations() && m_document)
        problem.annotations = m_document->plan.annotations;
    const QString title = tr("Planning with %1").arg(QString::fromStdString(request.planner));
    return m_planJob.start(title,
                           [this, planner = *planner, problem, options = request.options,
                            exchange = request.exchange](Progress &progress) -> Job::Completion {
                               const auto begin = std::chrono::steady_clock::now();
                               auto report = planners::planAndExplain(*planner, problem, options, progress);
                               if (report)
                                   report->plan.planner.searchSeconds =
                                       std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                               if (report && exchange) {
                                   report = planners::withExchange(*std::move(report), problem, *exchange);
                                   if (report)
                                       report = planners::explained(*std::move(report), problem);
                               }
                               return [this, report = std::move(report), subject = problem.subject,
                                       name = planner->name()] { adoptPlan(report, subject, name); };
                           });
}

void StudioState::adoptPlan(Result<planners::PlanReport> report, const plan::Subject &subject,
                            const std::string &planner)
{
    if (!report)
        return sayError(report.error());
    if (!m_subject || m_subject->graph != subject.graph || m_subject->cluster != subject.cluster) {
        say(MessageLevel::Warning, tr("The model or the cluster changed while the planner ran; its plan is not used."));
        return;
    }
    // The user's annotations outlive a planner without support for them.
    if (report->plan.annotations.empty() && m_document && m_document->subject.graph == subject.graph)
        report->plan.annotations = m_document->plan.annotations;
    if (!report->complete)
        say(MessageLevel::Info, tr("The search was stopped early; this is its best plan."));
    const QString title = report->complete ? tr("Plan with %1") : tr("Plan with %1, stopped early");
    auto notes = std::move(report->notes);
    auto alternatives = std::make_shared<const std::vector<planners::Candidate>>(std::move(report->alternatives));
    push(title.arg(QString::fromStdString(planner)), {std::move(report->plan), subject}, std::move(alternatives));
    m_notes = {m_document, std::move(notes)};
    if (!m_notes.second.empty()) {
        const QString first = QString::fromStdString(m_notes.second.front());
        const auto others = static_cast<int>(m_notes.second.size()) - 1;
        say(MessageLevel::Info, others > 0 ? tr("%1 (%n more under Why)", nullptr, others).arg(first) : first);
        Q_EMIT notesChanged();
    }
}

} // namespace planloom::ui
