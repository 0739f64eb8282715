// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QUndoStack>

#include "engine/import/import.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "planners/interface/planner.h"
#include "ui/state/latest_job.h"
#include "ui/state/load_queue.h"
#include "ui/state/measured_trace.h"
#include "ui/state/plan_search.h"
#include "ui/state/run_session.h"
#include "ui/state/selection.h"
#include "ui/state/simulator.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace planloom::ui {

enum class MessageLevel { Info, Warning, Error };

/// The open plan with its edits, and what belongs to it; brings together the parts that load, search, simulate and run
/// (see README.md). All calls and signals on the UI thread.
class StudioState : public QObject {
    Q_OBJECT

public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;
    using SimulationPtr = std::shared_ptr<const simulate::Simulation>;
    using IndexPtr = std::shared_ptr<const trace::Index>;
    using AlternativesPtr = std::shared_ptr<const std::vector<planners::Candidate>>;

    explicit StudioState(QObject *parent = nullptr);
    ~StudioState() override;

    // --- snapshots; each may be null
    [[nodiscard]] const std::shared_ptr<const import::Model> &model() const { return m_model; }
    [[nodiscard]] const std::shared_ptr<const cluster::Cluster> &cluster() const { return m_cluster; }
    /// The name or file that cluster() was loaded from; empty for a plan's and for an edited one.
    [[nodiscard]] QString clusterSource() const
    {
        return m_cluster && m_cluster == m_loadedCluster.first ? m_loadedCluster.second : QString();
    }
    /// Model and cluster with their costs; missing until both are loaded.
    [[nodiscard]] const std::optional<plan::Subject> &subject() const { return m_subject; }
    [[nodiscard]] const DocumentPtr &document() const { return m_document; }
    /// Of the newest document that could be simulated; look at simulationCurrent() before calling it the document's.
    [[nodiscard]] const SimulationPtr &simulation() const { return m_prediction.simulation; }
    /// Of its trace.
    [[nodiscard]] const IndexPtr &predictedIndex() const { return m_prediction.index; }
    /// For each device of the simulation the number of its curve of memory (memory_curves.h).
    [[nodiscard]] const std::vector<std::size_t> &memoryCurves() const { return m_prediction.memoryCurves; }
    /// Of each device of the simulation the bytes that stay for each of its samples, as ADMM's duals do, of a plan for
    /// 64 devices at most; empty: it has none.
    [[nodiscard]] const std::vector<std::int64_t> &sampleBytes() const { return m_prediction.sampleBytes; }
    /// What memory policies decide in that simulation; null: it has none.
    [[nodiscard]] const std::shared_ptr<const MemoryMoves> &memoryMoves() const { return m_prediction.memoryMoves; }
    [[nodiscard]] bool simulationCurrent() const { return simulation() && m_simulatedDocument == m_document; }
    /// True if simulation() is of an earlier plan and stays so, as the document could not be simulated: views show it
    /// pale. busyChanged() is sent when it changes.
    [[nodiscard]] bool simulationOutdated() const { return simulation() && !simulationCurrent() && !simulating(); }
    /// Breakdown of that simulation's time and memory.
    [[nodiscard]] const std::shared_ptr<const plan::Why> &why() const { return m_prediction.why; }
    /// The report before the last edit, to show its effect; missing at first.
    [[nodiscard]] const std::optional<simulate::Report> &previousReport() const { return m_previousReport; }
    /// Alternatives of the search that the document comes from.
    [[nodiscard]] const std::vector<planners::Candidate> &alternatives() const;
    /// Plans that the user keeps beside the alternatives, over searches and undo, until another model or plan is
    /// opened.
    [[nodiscard]] const std::vector<planners::Candidate> &keptPlans() const { return m_kept; }
    void keepPlan(planners::Candidate plan); ///< no effect where it is kept (plan::simulationKey)
    void keepDocument();                     ///< the open plan, with its simulated figures where they are there
    void forgetPlan(std::size_t kept);       ///< a number of keptPlans()
    /// What the planner had to say of the document (planners::PlanReport::notes); nothing where it was edited since.
    [[nodiscard]] const std::vector<std::string> &notes() const;

    /// The graph that was opened or planned for last.
    [[nodiscard]] const SampledGraph &graph() const { return m_graph; }
    /// True if it is the one that the open plan samples.
    [[nodiscard]] bool graphIsOfDocument() const
    {
        return m_graph.data && m_document && m_document->plan.job
            && m_document->plan.job->graph.sha256 == m_graph.sha256;
    }

    // --- editing: undoable; false if refused, and message() has said why
    bool editPlan(const QString &what, const std::function<void(plan::Plan &)> &edit);
    bool replacePlan(const QString &what, plan::Plan plan);
    /// Shows and simulates @p plan in the place of the open one while something is dragged: no edit yet. Figures
    /// compare with the plan before the first trial. False: it is refused, and what is shown stays.
    bool tryPlan(plan::Plan plan);
    bool keepTrial(const QString &what); ///< makes one edit of the trials; false: there was none
    void endTrial();                     ///< back to the plan before them
    /// The same plan on a changed cluster, for example with another link speed, or with a node more: devices are those
    /// of the same names. Refused where the plan uses one that is gone. Alternatives and kept plans that do are
    /// forgotten.
    bool editCluster(const QString &what, std::shared_ptr<const cluster::Cluster> cluster);
    /// Whether @p cluster has all devices of the open plan, by their names; true without a plan.
    [[nodiscard]] bool planStaysOn(const cluster::Cluster &cluster) const;
    /// Plans on @p cluster in place of cluster(), which the open plan need not fit: with the planner that made it
    /// (auto, where no planner did). The cluster changes with the new plan, as one step of undo. False: refused, and
    /// message() has said why.
    bool planOnCluster(std::shared_ptr<const cluster::Cluster> cluster);
    [[nodiscard]] QUndoStack *undoStack() { return &m_undo; }

    // --- selection
    [[nodiscard]] const Selection &selection() const { return m_selection; }
    void select(const Selection &selection);
    void selectStage(StageId stage); ///< with its layers; keeps the time range
    void selectDevice(DeviceId device);
    /// A task by its id ("s1.F.m3"), its stage and, where known, its device.
    void selectTask(const std::string &task, DeviceId device = {});
    void clearSelection();

    // --- work in the background. Loading waits its turn; planning is refused (false) while a search is under way.
    /// @p loss: of a model that computes none (import/loss/choice.h); empty: by what it ends in.
    bool loadModel(const QString &source, const std::vector<std::string> &loss = {});
    /// The losses that model() was loaded with; empty for a plan's.
    [[nodiscard]] const std::vector<std::string> &modelLoss() const;
    bool loadCluster(const QString &source);
    bool openPlan(const QString &path);
    /// The plan in @p file as an unsaved version of that in @p planPath (empty: it never had a file).
    bool recoverPlan(const QString &file, const QString &planPath);
    /// One trace, or several files of another program as the ranks of one training.
    bool openTrace(const QStringList &paths);
    /// The same of another program, laid over the open plan: its operators in place of the plan's tasks. Refused
    /// without a plan.
    bool layTrace(const QStringList &paths);
    /// A run's folder: its plan, without its own file (saving must not change the run), and its trace.
    bool openRun(const QString &folder);
    /// The plan that another program's configuration stands for, on the model and cluster that are open (planner
    /// manual).
    bool importSetup(const QString &path);
    /// The order of passes in a schedule of torch.distributed.pipelining, for the plan that is open.
    bool importOrder(const QString &path);
    /// The folder of a graph that training samples: for planners, and for figures of its parts.
    bool openGraph(const QString &folder);
    /// By its kind (file_kind.h).
    bool open(const QString &nameOrPath);
    /// Calls @p next when everything that was asked to be loaded is loaded (or has failed); at once if nothing is.
    void whenLoaded(std::function<void()> next) { m_loading.whenEmpty(std::move(next)); }
    bool runPlanner(const PlanRequest &request);
    /// @p last with the training settings of the open plan: batch, optimizer, precision, ZeRO, exchange; and, where it
    /// names no graph, with the one that is open.
    [[nodiscard]] PlanRequest requestLikeDocument(PlanRequest last) const;
    [[nodiscard]] Job *loadJob() { return m_loading.job(); }
    [[nodiscard]] Job *planJob() { return m_search.job(); }
    [[nodiscard]] bool simulating() const { return m_simulator.busy(); }

    // --- training
    void setClientFactory(ClientFactory factory) { m_clientFactory = std::move(factory); }
    bool startRun(agent::TrainRequest request);
    void stopRun() { m_run.stop(); }
    /// Of the active run: every kernel of its GPUs is recorded for so many seconds.
    void lookCloser(double seconds) { m_run.lookCloser(seconds); }
    [[nodiscard]] const RunData &run() const { return m_run.data(); }
    /// False where another plan was run than the one that is open: its figures say nothing of this plan.
    [[nodiscard]] bool runIsOfDocument() const;
    /// The same of measured(); false where its plan is not known.
    [[nodiscard]] bool measuredIsOfDocument() const;
    /// The plan that made measured(), and its own prediction.
    [[nodiscard]] const PlanOrigin &measuredOrigin() const { return m_measured.origin(); }
    /// Of the run, or of an opened file; no ranks: there is none. Grows while a run lasts.
    [[nodiscard]] const trace::Trace &measured() const { return m_measured.trace(); }
    /// The same, for who reads it on another thread (RunSession::sharedTrace).
    [[nodiscard]] MeasuredTrace::TracePtr sharedMeasured() const { return m_measured.shared(); }
    /// The same of an opened file, for who keeps it; null for a run.
    [[nodiscard]] const MeasuredTrace::TracePtr &measuredFile() const { return m_measured.file(); }
    /// Of an opened file; null for a run.
    [[nodiscard]] const IndexPtr &measuredIndex() const { return m_measured.index(); }
    /// How measured() was laid over the plan; null: it is a trace of itself.
    [[nodiscard]] const MeasuredTrace::LaidPtr &laidTrace() const { return m_measured.laid(); }
    [[nodiscard]] QString measuredPath() const { return m_measured.path(); }

    // --- saving
    [[nodiscard]] QString planPath() const { return m_planPath; }
    bool savePlan(const QString &path);
    /// cluster() as our own JSON (cluster::toJson), which clusterSource() names then. False: message() has said why.
    bool saveCluster(const QString &path);

    void say(MessageLevel level, const QString &text) { Q_EMIT message(level, text); }

Q_SIGNALS:
    void modelChanged();
    void clusterChanged();
    /// The file of @p source was not opened: it leaves open what one of @p settings has to say (import::loadCluster).
    void clusterSettingsNeeded(const QString &source,
                               const std::vector<planloom::import::ClusterSettingInfo> &settings);
    void documentChanged();
    void simulationChanged();
    void keptPlansChanged();
    void messageWithdrawn(const QString &text); ///< a message() that is true no more
    void notesChanged();                        ///< notes() of the document have come
    void selectionChanged();
    void graphChanged();
    void runChanged();
    void measuredReset();                     ///< measured() is another trace
    void traceLaid();                         ///< likewise, and it was laid over the plan: laidTrace()
    void measuredAppended(std::size_t first); ///< its records from here on are new
    void busyChanged();                       ///< a job or the simulator started, progressed or ended
    void message(planloom::ui::MessageLevel level, const QString &text);

private:
    void setSubject(std::shared_ptr<const import::Model> model, std::shared_ptr<const cluster::Cluster> cluster,
                    std::optional<plan::Subject> subject);
    void startDocument(plan::Document document, const QString &path);
    /// With the alternatives of the document before.
    bool push(const QString &what, plan::Document document);
    bool push(const QString &what, plan::Document document, AlternativesPtr alternatives);
    void pushCluster(const QString &what, std::shared_ptr<const cluster::Cluster> cluster,
                     std::optional<plan::Subject> subject);
    void applyDocument(const DocumentPtr &document);
    void dropDocument();
    void loadPlan(const QString &file, const std::function<void(plan::Document)> &use);
    void planSetup(const QString &path);
    void adoptPlan(const FoundPlan &found);
    void showGraph(SampledGraph graph);
    void sayNotes(std::vector<std::string> notes);
    void onSimulated(const DocumentPtr &document, const Simulator::Answer &answer);
    [[nodiscard]] const std::string &documentFingerprint() const; ///< empty until a new subject is hashed
    [[nodiscard]] PlanOrigin documentOrigin() const;
    void predictOpened(const DocumentPtr &document, const PlanOrigin &origin,
                       const std::optional<memory::RunTimes> &times);
    void showLaid(const QString &path, const MeasuredTrace::TracePtr &trace, const IndexPtr &index,
                  const MeasuredTrace::LaidPtr &laid);
    void watchCourse();
    void join(const std::shared_ptr<const import::Model> &model,
              const std::shared_ptr<const cluster::Cluster> &cluster);
    void sayError(const Error &error);

    std::shared_ptr<const import::Model> m_model;
    std::shared_ptr<const cluster::Cluster> m_cluster;
    std::pair<std::shared_ptr<const cluster::Cluster>, QString> m_loadedCluster;             ///< with its source
    std::pair<std::shared_ptr<const import::Model>, std::vector<std::string>> m_loadedModel; ///< with its losses
    std::optional<plan::Subject> m_subject;
    DocumentPtr m_document;
    AlternativesPtr m_alternatives; ///< null: none
    std::vector<planners::Candidate> m_kept;
    std::pair<DocumentPtr, std::vector<std::string>> m_notes; ///< of the newest search, with its plan
    /// What was open and compared with before tryPlan().
    struct Trial {
        DocumentPtr document;
        std::optional<simulate::Report> report;
        std::optional<simulate::Report> previous;
    };
    std::optional<Trial> m_trial; ///< none: m_document is what was opened or edited
    QUndoStack m_undo;
    QString m_planPath;
    plan::Fingerprints m_fingerprints;
    mutable std::pair<DocumentPtr, std::string> m_fingerprint; ///< of the document
    Simulator::Answer m_prediction;                            ///< the newest that there is, of m_simulatedDocument
    DocumentPtr m_simulatedDocument;
    std::shared_ptr<const cluster::Cluster>
        m_plannedFrom; ///< cluster() when planOnCluster() was asked; null: it was not
    std::optional<simulate::Report> m_previousReport;
    QString m_notSimulated; ///< what message() said of the newest plan; empty: nothing
    Selection m_selection;
    SampledGraph m_graph;
    ClientFactory m_clientFactory;
    // Last, so that their threads end before the objects to which they post.
    Simulator m_simulator;
    LoadQueue m_loading;
    PlanSearch m_search;
    RunSession m_run;
    MeasuredTrace m_measured{m_run};
    QString m_courseOf; ///< file and time of what the run has measured; empty: nothing
    LatestJob m_courseJob{tr("The course by measured times")};
};

} // namespace planloom::ui
