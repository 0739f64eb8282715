// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/studio_state.h"

#include "engine/plan/edit.h"
#include "planners/common/alternatives.h"
#include "ui/state/cluster_parts.h"
#include "ui/state/commands.h"
#include "ui/state/file_kind.h"

#include <QFileInfo>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

bool sameStructure(const cluster::Cluster &a, const cluster::Cluster &b)
{
    const auto sameName = [](const cluster::Device &x, const cluster::Device &y) { return x.name == y.name; };
    return std::equal(a.devices().begin(), a.devices().end(), b.devices().begin(), b.devices().end(), sameName);
}

/// The plan on the devices of the same names. False: it uses one that is gone.
bool moveDevices(plan::Plan &plan, const std::vector<DeviceId> &now)
{
    for (plan::Stage &stage : plan.stages) {
        for (DeviceId &device : stage.devices) {
            if (device.index() >= now.size() || !now[device.index()].valid())
                return false;
            device = now[device.index()];
        }
    }
    return true;
}

/// Those of @p plans whose devices are all still there.
std::vector<planners::Candidate> onDevices(const std::vector<planners::Candidate> &plans,
                                           const std::vector<DeviceId> &now)
{
    std::vector<planners::Candidate> kept;
    for (planners::Candidate each : plans)
        if (moveDevices(each.plan, now))
            kept.push_back(std::move(each));
    return kept;
}

} // namespace

StudioState::StudioState(QObject *parent) : QObject(parent)
{
    connect(&m_simulator, &Simulator::finished, this, &StudioState::onSimulated);
    connect(&m_loading, &LoadQueue::changed, this, &StudioState::busyChanged);
    connect(&m_search, &PlanSearch::changed, this, &StudioState::busyChanged);
    connect(&m_search, &PlanSearch::found, this, &StudioState::adoptPlan);
    connect(&m_run, &RunSession::changed, this, &StudioState::runChanged);
    connect(&m_run, &RunSession::changed, this, &StudioState::watchCourse);
    connect(&m_run, &RunSession::failed, this,
            [this](const QString &why) { say(MessageLevel::Error, tr("The run failed: %1").arg(why)); });
    connect(&m_run, &RunSession::tablesChanged, this, [this] {
        m_measured.showRun();
        Q_EMIT measuredReset();
    });
    connect(&m_run, &RunSession::recordsAppended, this, &StudioState::measuredAppended);
}

StudioState::~StudioState()
{
    m_loading.job()->cancel();
    m_search.job()->cancel();
    m_run.stop();
    // Members end after this object's signals can no longer be delivered to it.
    for (QObject *part : std::initializer_list<QObject *>{&m_simulator, &m_loading, &m_search, &m_run})
        disconnect(part, nullptr, this, nullptr);
}

// --- editing

bool StudioState::editPlan(const QString &what, const std::function<void(plan::Plan &)> &edit)
{
    if (!m_document) {
        say(MessageLevel::Warning, tr("There is no plan to edit yet; find one with a planner or open a plan file."));
        return false;
    }
    plan::Plan changed = m_document->plan;
    edit(changed);
    return replacePlan(what, std::move(changed));
}

bool StudioState::replacePlan(const QString &what, plan::Plan plan)
{
    const plan::Subject *subject = m_document ? &m_document->subject : (m_subject ? &*m_subject : nullptr);
    if (!subject) {
        say(MessageLevel::Warning, tr("A plan needs a model and a cluster; open both first."));
        return false;
    }
    auto next = plan::withPlan(m_document ? *m_document : plan::Document{plan, *subject}, plan);
    if (!next) {
        sayError(next.error());
        return false;
    }
    return push(what, *std::move(next));
}

bool StudioState::tryPlan(plan::Plan plan)
{
    if (!m_document)
        return false;
    Trial trial = m_trial ? *m_trial : Trial{m_document, {}, m_previousReport};
    if (!m_trial && simulationCurrent())
        trial.report = simulation()->report;
    auto next = plan::withPlan(*trial.document, std::move(plan));
    if (!next)
        return false;
    applyDocument(std::make_shared<const plan::Document>(*std::move(next)));
    m_previousReport = trial.report;
    m_trial = std::move(trial);
    return true;
}

bool StudioState::keepTrial(const QString &what)
{
    if (!m_trial)
        return false;
    const std::optional<simulate::Report> before = m_trial->report;
    push(what, {m_document->plan, m_document->subject});
    m_previousReport = before;
    return true;
}

void StudioState::endTrial()
{
    if (!m_trial)
        return;
    const Trial trial = *m_trial;
    applyDocument(trial.document);
    m_previousReport = trial.previous;
}

bool StudioState::editCluster(const QString &what, std::shared_ptr<const cluster::Cluster> cluster)
{
    std::optional<plan::Subject> subject;
    if (m_model)
        subject = plan::makeSubject(m_model->graph, cluster, m_model->profile, m_model->source);
    if (!m_document) {
        pushCluster(what, std::move(cluster), std::move(subject));
        return true;
    }
    plan::Document next{m_document->plan, plan::inPrecision(*subject, m_document->plan.precision)};
    AlternativesPtr alternatives = m_alternatives;
    if (const cluster::Cluster &before = *m_document->subject.cluster; !sameStructure(before, *cluster)) {
        const std::vector<DeviceId> now = sameDevices(before, *cluster);
        if (!moveDevices(next.plan, now)) {
            say(MessageLevel::Warning,
                tr("The plan uses devices that the changed cluster does not have; find a new plan."));
            return false;
        }
        if (alternatives)
            alternatives = std::make_shared<const std::vector<planners::Candidate>>(onDevices(*alternatives, now));
    }
    if (const Status status = plan::validate(next.plan, next.subject); !status) {
        sayError(status.error());
        return false;
    }
    return push(what, std::move(next), std::move(alternatives));
}

void StudioState::pushCluster(const QString &what, std::shared_ptr<const cluster::Cluster> cluster,
                              std::optional<plan::Subject> subject)
{
    const auto apply = [this](const std::shared_ptr<const cluster::Cluster> &next,
                              const std::optional<plan::Subject> &of) {
        const DeviceId selected =
            m_cluster && m_selection.device.valid() && next && m_selection.device.index() < m_cluster->devices().size()
            ? next->find(m_cluster->device(m_selection.device).name)
            : DeviceId();
        m_cluster = next;
        m_subject = of;
        m_selection = {};
        m_selection.device = selected;
        Q_EMIT clusterChanged();
        Q_EMIT selectionChanged();
    };
    m_undo.push(new Replacement(
        what, [apply, before = m_cluster, of = m_subject] { apply(before, of); },
        [apply, after = std::move(cluster), of = std::move(subject)] { apply(after, of); }));
}

bool StudioState::planStaysOn(const cluster::Cluster &cluster) const
{
    if (!m_document)
        return true;
    plan::Plan plan = m_document->plan;
    return moveDevices(plan, sameDevices(*m_document->subject.cluster, cluster));
}

bool StudioState::push(const QString &what, plan::Document document)
{
    return push(what, std::move(document), m_alternatives);
}

bool StudioState::push(const QString &what, plan::Document document, AlternativesPtr alternatives)
{
    auto after = std::make_shared<const plan::Document>(std::move(document));
    const DocumentPtr before = m_trial ? m_trial->document : m_document;
    m_undo.push(new ReplaceDocument(what, {before, m_alternatives}, {std::move(after), std::move(alternatives)},
                                    [this](const Snapshot &next) {
                                        m_alternatives = next.alternatives;
                                        applyDocument(next.document);
                                    }));
    return true;
}

const std::vector<planners::Candidate> &StudioState::alternatives() const
{
    static const std::vector<planners::Candidate> none;
    return m_alternatives ? *m_alternatives : none;
}

void StudioState::keepPlan(planners::Candidate plan)
{
    const std::string key = plan::simulationKey(plan.plan);
    const bool known = std::any_of(m_kept.begin(), m_kept.end(), [&key](const planners::Candidate &each) {
        return plan::simulationKey(each.plan) == key;
    });
    if (known)
        return;
    m_kept.push_back(std::move(plan));
    Q_EMIT keptPlansChanged();
}

void StudioState::keepDocument()
{
    if (!m_document) {
        say(MessageLevel::Warning, tr("There is no plan to keep."));
        return;
    }
    const bool current = simulationCurrent();
    keepPlan({m_document->plan, current ? simulation()->report.iterationSeconds : 0,
              current ? planners::fullestBytes(simulation()->report) : 0});
}

void StudioState::forgetPlan(std::size_t kept)
{
    if (kept >= m_kept.size())
        return;
    m_kept.erase(m_kept.begin() + static_cast<std::ptrdiff_t>(kept));
    Q_EMIT keptPlansChanged();
}

const std::vector<std::string> &StudioState::notes() const
{
    static const std::vector<std::string> none;
    return m_document && m_document == m_notes.first ? m_notes.second : none;
}

const std::vector<std::string> &StudioState::modelLoss() const
{
    static const std::vector<std::string> none;
    return m_model && m_model == m_loadedModel.first ? m_loadedModel.second : none;
}

void StudioState::applyDocument(const DocumentPtr &document)
{
    if (simulationCurrent())
        m_previousReport = simulation()->report;
    m_trial.reset();
    const DocumentPtr before = std::exchange(m_document, document);
    const bool otherCluster = m_document && m_document->subject.cluster != m_cluster;
    if (otherCluster) {
        if (before && !m_kept.empty() && !sameStructure(*m_cluster, *m_document->subject.cluster)) {
            m_kept = onDevices(m_kept, sameDevices(*m_cluster, *m_document->subject.cluster));
            Q_EMIT keptPlansChanged();
        }
        m_cluster = m_document->subject.cluster;
        m_subject = m_document->subject;
    }
    const Selection selected = m_selection;
    if (m_document)
        m_selection = before ? carriedOver(std::move(m_selection), *before, *m_document)
                             : clamped(std::move(m_selection), *m_document);
    if (otherCluster)
        Q_EMIT clusterChanged();
    Q_EMIT documentChanged();
    if (m_selection != selected)
        Q_EMIT selectionChanged();
    if (m_document) {
        m_simulator.request(m_document, !m_fingerprints.knows(m_document->subject));
    } else {
        m_simulator.abandon();
        m_prediction = {};
        m_simulatedDocument.reset();
        Q_EMIT simulationChanged();
    }
    Q_EMIT busyChanged();
}

void StudioState::dropDocument()
{
    m_undo.clear();
    m_alternatives.reset();
    m_planPath.clear();
    m_selection = {};
    if (!std::exchange(m_kept, {}).empty())
        Q_EMIT keptPlansChanged();
    applyDocument(nullptr);
    m_previousReport.reset(); // of another subject
    Q_EMIT selectionChanged();
}

void StudioState::onSimulated(const DocumentPtr &document, const Simulator::Answer &answer)
{
    if (!answer.subjectHash.empty())
        m_fingerprints.add(document->subject, answer.subjectHash);
    if (answer.simulation) {
        m_prediction = answer;
        m_simulatedDocument = document;
        m_measured.setPrediction(documentOrigin());
        if (!m_notSimulated.isEmpty())
            Q_EMIT messageWithdrawn(std::exchange(m_notSimulated, {}));
        Q_EMIT simulationChanged();
    } else {
        m_notSimulated = tr("The plan cannot be simulated: %1").arg(answer.error);
        say(MessageLevel::Error, m_notSimulated);
        if (!answer.subjectHash.empty())
            Q_EMIT simulationChanged(); // what is measured may be of this plan
    }
    Q_EMIT busyChanged();
}

// --- selection

void StudioState::select(const Selection &selection)
{
    if (selection == m_selection)
        return;
    m_selection = m_document ? clamped(selection, *m_document) : selection;
    Q_EMIT selectionChanged();
}

void StudioState::selectStage(StageId stage)
{
    Selection next = selectionOfStage(stage, m_document.get());
    next.time = m_selection.time;
    select(next);
}

void StudioState::selectDevice(DeviceId device)
{
    Selection next = selectionOfDevice(device, m_document.get());
    next.time = m_selection.time;
    select(next);
}

void StudioState::selectTask(const std::string &task, DeviceId device)
{
    Selection next = selectionOfTask(task, device);
    next.time = m_selection.time;
    select(next);
}

void StudioState::clearSelection() { select({}); }

// --- training and saving

bool StudioState::startRun(agent::TrainRequest request)
{
    if (!m_document) {
        say(MessageLevel::Warning, tr("There is no plan to train; find one with a planner or open a plan file."));
        return false;
    }
    if (!m_clientFactory) {
        say(MessageLevel::Error, tr("This studio was started without an agent; training is not available."));
        return false;
    }
    request.planJson = plan::toJson(*m_document);
    if (!m_fingerprints.knows(m_document->subject)) // it is being simulated
        m_fingerprints.add(m_document->subject, plan::subjectHash(m_document->subject));
    if (m_run.start(m_clientFactory, std::move(request), documentOrigin()))
        return true;
    say(MessageLevel::Warning, tr("A run is active already; stop it first."));
    return false;
}

bool StudioState::runIsOfDocument() const { return m_document && m_run.data().origin.sameAs(documentFingerprint()); }

bool StudioState::measuredIsOfDocument() const { return m_document && measuredOrigin().sameAs(documentFingerprint()); }

const std::string &StudioState::documentFingerprint() const
{
    if (m_fingerprint.first != m_document || m_fingerprint.second.empty())
        m_fingerprint = {m_document, m_fingerprints.of(*m_document)};
    return m_fingerprint.second;
}

PlanOrigin StudioState::documentOrigin() const
{
    PlanOrigin origin;
    origin.fingerprint = documentFingerprint();
    origin.name = nameOf(m_document->plan);
    origin.measures = measures(m_document->plan);
    if (simulationCurrent()) {
        origin.simulation = m_prediction.simulation;
        origin.index = m_prediction.index;
        origin.laterSeconds = m_prediction.laterSeconds;
        origin.work = m_prediction.work;
    }
    return origin;
}

bool StudioState::savePlan(const QString &path)
{
    if (!m_document) {
        say(MessageLevel::Warning, tr("There is no plan to save."));
        return false;
    }
    plan::Document document = *m_document;
    if (simulationCurrent())
        document.plan.predictedJson = simulate::toJson(simulation()->report);
    if (const Status status = plan::writePlan(document, path.toStdString()); !status) {
        sayError(status.error());
        return false;
    }
    m_planPath = QFileInfo(path).absoluteFilePath();
    m_undo.setClean();
    return true;
}

void StudioState::sayError(const Error &error)
{
    if (error.code == ErrorCode::Cancelled)
        say(MessageLevel::Info, tr("Stopped."));
    else
        say(MessageLevel::Error, QString::fromStdString(error.text()));
}

} // namespace planloom::ui
