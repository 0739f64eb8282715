// SPDX-License-Identifier: GPL-3.0-or-later
// The part of StudioState that loads and plans in the background.
#include "engine/base/files.h"
#include "engine/compare/side.h"
#include "engine/import/pytorch_schedule.h"
#include "planners/common/alternatives.h"
#include "planners/registry.h"
#include "ui/state/file_kind.h"
#include "ui/state/freed_elsewhere.h"
#include "ui/state/opened_files.h"
#include "ui/state/run_files.h"
#include "ui/state/studio_state.h"
#include "ui/state/whole_trace.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>

#include <utility>

namespace planloom::ui {

bool StudioState::open(const QString &nameOrPath)
{
    switch (classifyFile(nameOrPath)) {
    case FileKind::Model: return loadModel(nameOrPath);
    case FileKind::Cluster: return loadCluster(nameOrPath);
    case FileKind::Plan: return openPlan(nameOrPath);
    case FileKind::Trace:
    case FileKind::ForeignTrace: return openTrace({nameOrPath});
    case FileKind::Run: return openRun(nameOrPath);
    case FileKind::Setup: return importSetup(nameOrPath);
    case FileKind::Order: return importOrder(nameOrPath);
    case FileKind::Graph: return openGraph(nameOrPath);
    case FileKind::Unknown: break;
    }
    say(MessageLevel::Error,
        tr("%1: not a supported model, cluster, plan or trace; open .onnx, config.json, the folder of a "
           "run or a graph, a layer profile, .yaml, a topology file (NCCL, Slurm, nvidia-smi), a plan, .pltrace, or a "
           "configuration of "
           "Megatron-LM, DeepSpeed or "
           "torchtitan")
            .arg(nameOrPath));
    return false;
}

bool StudioState::loadModel(const QString &source, const std::vector<std::string> &loss)
{
    m_loading.add(tr("Loading %1").arg(source), [this, source, loss](Progress &) -> Job::Completion {
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
    return true;
}

bool StudioState::loadCluster(const QString &source)
{
    m_loading.add(tr("Loading %1").arg(source), [this, source](Progress &) -> Job::Completion {
        auto cluster = import::loadCluster(source.toStdString());
        if (!cluster) {
            const auto open = import::openClusterSettings(source.toStdString());
            return [this, error = cluster.error(), source, open] {
                sayError(error);
                if (!open.empty())
                    Q_EMIT clusterSettingsNeeded(source, open);
            };
        }
        return [this, source, cluster = *cluster] {
            m_loadedCluster = {cluster, source};
            join(m_model, cluster);
        };
    });
    return true;
}

bool StudioState::saveCluster(const QString &path)
{
    if (!m_cluster) {
        say(MessageLevel::Warning, tr("There is no cluster to save."));
        return false;
    }
    if (const Status status = writeFileAtomically(path.toStdString(), cluster::toJson(*m_cluster) + "\n"); !status) {
        sayError(status.error());
        return false;
    }
    m_loadedCluster = {m_cluster, QFileInfo(path).absoluteFilePath()};
    return true;
}

void StudioState::join(const std::shared_ptr<const import::Model> &model,
                       const std::shared_ptr<const cluster::Cluster> &cluster)
{
    if (!model || !cluster)
        return setSubject(model, cluster, std::nullopt);
    m_loading.add(tr("Estimating costs"), [this, model, cluster](Progress &) -> Job::Completion {
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
    loadPlan(path, [this, path](plan::Document opened) { startDocument(std::move(opened), path); });
    return true;
}

bool StudioState::recoverPlan(const QString &file, const QString &planPath)
{
    loadPlan(file, [this, planPath](plan::Document opened) {
        startDocument(std::move(opened), planPath);
        m_undo.resetClean();
    });
    return true;
}

void StudioState::loadPlan(const QString &file, const std::function<void(plan::Document)> &use)
{
    m_loading.add(tr("Opening %1").arg(file), [this, file, use](Progress &) -> Job::Completion {
        const auto opened = openPlanFile(file);
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
    m_loading.add(tr("Opening %1").arg(folder), [this, folder, files](Progress &) -> Job::Completion {
        auto opened = openPlanFile(files.filePath(QStringLiteral("plan.json")));
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
        return openTrace({trace});
    say(MessageLevel::Info, tr("%1: the run has no trace yet; this is its plan.").arg(folder));
    return true;
}

bool StudioState::openTrace(const QStringList &paths)
{
    if (run().active()) {
        say(MessageLevel::Warning, tr("A run is active; stop it before opening another trace."));
        return false;
    }
    const QString &path = paths.first();
    const QString title = paths.size() == 1 ? path : tr("%n traces", nullptr, static_cast<int>(paths.size()));
    m_loading.add(tr("Opening %1").arg(title), [this, path, paths](Progress &progress) -> Job::Completion {
        auto read = readTraceFiles(paths, progress);
        if (!read)
            return [this, error = read.error()] { sayError(error); };
        const auto opened = freedElsewhere(std::move(read->trace));
        const auto index = freedElsewhere(trace::Index(std::shared_ptr<const trace::Trace>(opened)));
        const auto source = sourceOf(*opened, *index, path);
        releaseRecords(*opened, *index); // before it is shared
        const QString of = paths.size() == 1 ? tr("%1: ").arg(QFileInfo(path).fileName()) : QString();
        return [this, path, of, opened, index, source, notes = read->notes] {
            for (const std::string &note : notes)
                say(MessageLevel::Info, of + QString::fromStdString(note));
            m_measured.showFile(path, opened, index, source.origin);
            if (simulationCurrent())
                m_measured.setPrediction(documentOrigin());
            Q_EMIT measuredReset();
            if (source.document && (source.times || !measuredIsOfDocument()))
                predictOpened(source.document, source.origin, source.times);
        };
    });
    return true;
}

bool StudioState::layTrace(const QStringList &paths)
{
    if (!m_document || run().active()) {
        say(MessageLevel::Warning,
            run().active() ? tr("A run is active; stop it before laying a trace over its plan.")
                           : tr("There is no plan to lay a trace over; open one or find it with a planner first."));
        return false;
    }
    if (documentFingerprint().empty()) { // what is measured would be of no plan
        say(MessageLevel::Warning, tr("The plan is being simulated; lay the trace over it behind that."));
        return false;
    }
    const QString title = paths.size() == 1 ? paths.first() : tr("%n traces", nullptr, static_cast<int>(paths.size()));
    m_loading.add(tr("Laying %1 over the plan").arg(title),
                  [this, paths, document = m_document](Progress &progress) -> Job::Completion {
                      auto read = readTraceFiles(paths, progress);
                      const QString name = paths.size() == 1 ? QFileInfo(paths.first()).fileName()
                                                             : tr("%n traces", nullptr, static_cast<int>(paths.size()));
                      auto over = read ? overlay::layOver(read->trace, *document, name.toStdString(), progress)
                                       : Result<overlay::Overlay>(read.error());
                      if (!over)
                          return [this, error = over.error()] { sayError(error); };
                      over->notes.insert(over->notes.end(), read->notes.begin(), read->notes.end());
                      const auto trace = freedElsewhere(std::exchange(over->trace, {}));
                      const auto index = freedElsewhere(trace::Index(std::shared_ptr<const trace::Trace>(trace)));
                      const auto laid = std::make_shared<const overlay::Overlay>(*std::move(over));
                      return [this, path = paths.first(), document, trace, index, laid] {
                          if (document == m_document)
                              return showLaid(path, trace, index, laid);
                          say(MessageLevel::Warning,
                              tr("The plan changed while a trace was laid over it; lay it over the plan again."));
                      };
                  });
    return true;
}

void StudioState::showLaid(const QString &path, const MeasuredTrace::TracePtr &trace, const IndexPtr &index,
                           const MeasuredTrace::LaidPtr &laid)
{
    m_measured.showFile(path, trace, index, documentOrigin(), laid);
    Q_EMIT measuredReset();
    say(laid->certainty() == overlay::Certainty::High ? MessageLevel::Info : MessageLevel::Warning,
        tr("%1: %2").arg(QString::fromStdString(laid->file), QString::fromStdString(overlay::confidenceText(*laid))));
    Q_EMIT traceLaid();
}

/// The prediction of the plan of the opened trace, where another plan is open, or the trace is of steps by measured
/// times.
void StudioState::predictOpened(const DocumentPtr &document, const PlanOrigin &origin,
                                const std::optional<memory::RunTimes> &times)
{
    m_loading.add(tr("Simulating the plan of the trace"),
                  [this, document, origin, times](Progress &) -> Job::Completion {
                      const Simulator::Answer answer = Simulator::answer(*document, times ? &*times : nullptr);
                      PlanOrigin simulated = origin;
                      simulated.simulation = answer.simulation;
                      simulated.index = answer.index;
                      simulated.laterSeconds = answer.laterSeconds;
                      return [this, simulated] {
                          if (simulated.simulation && m_measured.setFilePrediction(simulated))
                              Q_EMIT simulationChanged();
                      };
                  });
}

/// Of a run that decides by what it measures: as soon as that is in its folder, the prediction of what follows.
void StudioState::watchCourse()
{
    const RunData &data = m_run.data();
    const QFileInfo times(QDir(data.folder).filePath(QString::fromUtf8(run::kMeasuredTimesFile)));
    const bool has = data.origin.measures && !data.folder.isEmpty() && times.exists();
    const QString now = has ? times.filePath() + times.lastModified().toString(Qt::ISODateWithMs) : QString();
    if (now == m_courseOf)
        return;
    m_courseOf = now;
    if (!has) {
        m_courseJob.abandon();
        return m_run.setChange(std::nullopt);
    }
    m_courseJob.ask([this, now, folder = data.folder.toStdString()](Progress &) -> Job::Completion {
        const auto document = plan::readPlan(folder + "/plan.json");
        const auto change = document ? compare::courseChange(*document, folder)
                                     : Result<std::optional<compare::CourseChange>>(document.error());
        return [this, now, change] {
            if (!change)
                sayError(change.error());
            else if (now == m_courseOf)
                m_run.setChange(*change);
        };
    });
}

bool StudioState::importSetup(const QString &path)
{
    whenLoaded([this, path] { planSetup(path); });
    return true;
}

void StudioState::planSetup(const QString &path)
{
    if (m_subject)
        m_search.startSetup(path, *m_subject);
    else
        say(MessageLevel::Warning,
            tr("%1 is a parallel configuration without a model and a cluster; open these first.").arg(path));
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
    if (!m_graph.folder.isEmpty()) // opened or planned for last
        last.graph = m_graph.folder;
    return m_document ? withSettingsOf(m_document->plan, std::move(last)) : last;
}

bool StudioState::openGraph(const QString &folder)
{
    m_loading.add(tr("Opening %1").arg(folder), [this, folder](Progress &) -> Job::Completion {
        auto graph = readSampledGraph(folder);
        if (!graph)
            return [this, error = graph.error()] { sayError(error); };
        return [this, graph = *std::move(graph)] {
            showGraph(graph);
            const bool other = m_document && m_document->plan.job && !graphIsOfDocument();
            const QString what = tr("%1: a graph of %2 nodes and %3 edges")
                                     .arg(graph.folder)
                                     .arg(graph.data->nodes())
                                     .arg(graph.data->edges());
            say(other ? MessageLevel::Warning : MessageLevel::Info,
                other ? tr("%1; the open plan was made for another one.").arg(what)
                      : tr("%1, for planner gnn and its plans.").arg(what));
        };
    });
    return true;
}

void StudioState::showGraph(SampledGraph graph)
{
    m_graph = std::move(graph);
    Q_EMIT graphChanged();
}

bool StudioState::runPlanner(const PlanRequest &request)
{
    if (!m_subject) {
        say(MessageLevel::Warning, tr("A planner needs a model and a cluster; open both first."));
        return false;
    }
    const auto planner = planners::findPlanner(request.planner);
    if (!planner) {
        sayError(planner.error());
        return false;
    }
    m_plannedFrom.reset();
    return m_search.start(**planner, request, *m_subject, m_document ? &m_document->plan : nullptr);
}

bool StudioState::planOnCluster(std::shared_ptr<const cluster::Cluster> cluster)
{
    if (!m_model || !m_document) {
        say(MessageLevel::Warning, tr("There is no plan to find again; find one with a planner first."));
        return false;
    }
    PlanRequest request;
    request.planner = m_document->plan.planner.name;
    if (request.planner == "manual" || !planners::findPlanner(request.planner))
        request.planner = "auto"; // a plan by hand says nothing of other devices
    request = requestLikeDocument(std::move(request));
    const auto planner = planners::findPlanner(request.planner);
    if (!planner) {
        sayError(planner.error());
        return false;
    }
    const plan::Subject subject = plan::makeSubject(m_model->graph, cluster, m_model->profile, m_model->source);
    if (!m_search.start(**planner, request, subject, &m_document->plan))
        return false;
    m_plannedFrom = m_cluster;
    return true;
}

void StudioState::adoptPlan(const FoundPlan &found)
{
    const auto from = std::exchange(m_plannedFrom, nullptr);
    for (const std::string &remark : found.remarks)
        say(MessageLevel::Info, QString::fromStdString(remark));
    if (!found.report)
        return sayError(found.report.error());
    const auto &searched = from ? from : found.subject.cluster; // the cluster that was open then
    if (!m_subject || m_subject->graph != found.subject.graph || m_subject->cluster != searched) {
        say(MessageLevel::Warning, tr("The model or the cluster changed while the planner ran; its plan is not used."));
        return;
    }
    if (found.graph.data)
        showGraph(found.graph);
    const planners::PlanReport &report = *found.report;
    plan::Plan plan = report.plan;
    // The user's annotations outlive a planner without support for them.
    if (plan.annotations.empty() && m_document && m_document->subject.graph == found.subject.graph)
        plan.annotations = m_document->plan.annotations;
    if (!report.complete)
        say(MessageLevel::Info, tr("The search was stopped early; this is its best plan."));
    const QString title = report.complete ? tr("Plan with %1") : tr("Plan with %1, stopped early");
    push(title.arg(QString::fromStdString(found.by)), {std::move(plan), found.subject},
         std::make_shared<const std::vector<planners::Candidate>>(planners::offeredBeside(report)));
    sayNotes(report.notes);
}

void StudioState::sayNotes(std::vector<std::string> notes)
{
    m_notes = {m_document, std::move(notes)};
    if (m_notes.second.empty())
        return;
    const QString first = QString::fromStdString(m_notes.second.front());
    const auto others = static_cast<int>(m_notes.second.size()) - 1;
    say(MessageLevel::Info, others > 0 ? tr("%1 (%n more under Why)", nullptr, others).arg(first) : first);
    Q_EMIT notesChanged();
}

} // namespace planloom::ui
