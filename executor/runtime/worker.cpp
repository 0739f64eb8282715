// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/worker.h"

#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/compile/compile.h"
#include "engine/plan/plan.h"
#include "engine/run/settings.h"
#include "executor/comm/local_group.h"
#include "executor/comm/mpi_communicator.h"
#include "engine/admm/training_graph.h"
#include "executor/runtime/admm_record.h"
#include "executor/runtime/affinity.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/clock.h"
#include "executor/runtime/drain.h"
#include "executor/runtime/measured_course.h"
#include "executor/runtime/parameter_server.h"
#include "executor/runtime/rank_executor.h"
#include "executor/runtime/rank_gpu.h"
#include "executor/runtime/sampled_processes.h"
#include "executor/runtime/series_record.h"
#include "executor/runtime/trainer_communicator.h"
#include "executor/runtime/training_watch.h"
#include "executor/runtime/version_link.h"
#include "executor/runtime/version_server.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

namespace planloom::runtime {

namespace {

/// 2 MiB: more than a drain's period at a million records a second.
constexpr std::size_t kRingRecords = 1 << 16;

/// Where a model's weight files lie: beside the model file. Built-in models have none.
std::string modelFolder(const std::string &source)
{
    return source.starts_with("zoo:") ? std::string() : std::filesystem::path(source).parent_path().string();
}

/// This process dies with its parent, however that ends.
void followParent()
{
    const pid_t parent = ::getppid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) // it died before the kernel knew
        ::raise(SIGKILL);
}

Result<std::unique_ptr<comm::Communicator>> connect()
{
    if (comm::underMpiLauncher())
        return comm::joinMpi();
    return comm::LocalGroup(1).end(0);
}

/// One rank's run from the folder to the last record.
class Worker {
public:
    Worker(const WorkerOptions &options, comm::Communicator &communicator)
        : m_options(options),
          m_all(communicator),
          m_comm(&communicator)
    {
    }

    Status run()
    {
        Drain drain(m_recording, *m_options.channel); // from here on the parent gets heartbeats
        if (const Status status = load(); !status)
            return status;
        if (m_document.plan.job)
            return m_request.settings.arrivals.empty() ? runSampled(drain) : Status(noArrivals());
        Result<program::Program> program = compile::compilePlan(m_document.plan, m_document.subject);
        if (!program)
            return program.error();
        if (!program->server && !m_request.settings.arrivals.empty())
            return noArrivals();
        return program->server ? runServed(*program, drain) : runTogether(*program, drain);
    }

    [[nodiscard]] const MemoryUse &memory() const { return m_memory; }
    [[nodiscard]] std::int64_t sentBytes() const { return m_sentBytes; }

private:
    static Error noArrivals()
    {
        return badInput("recorded arrivals are for plans that train by ADMM with a parameter server; leave out "
                        "--arrivals");
    }

    Status runTogether(const program::Program &program, Drain &drain)
    {
        const Result<data::Needs> needs = data::needsOf(*m_document.subject.graph);
        if (!needs)
            return needs.error();
        const auto data = data::openDataSet(m_request.settings.data, *needs);
        if (!data)
            return data.error();
        data::SampleOrder order((*data)->samples(), m_request.settings.seed, m_request.settings.holdout);
        if (const Status keeps = keepSamples(order); !keeps)
            return keeps;
        return trainOn({data->get(), *needs, order}, program, drain);
    }

    /// The steps of one Program in a run.
    struct Stretch {
        const plan::Plan &plan;
        std::int64_t first = 0;
        std::int64_t last = 0;        ///< behind it
        std::int64_t updatesFrom = 0; ///< ExecutorOptions::updatesFrom
        bool ends = true;             ///< with it the run
        std::int64_t until = -1;      ///< ExecutorOptions::until, if its steps are measured
        [[nodiscard]] std::int64_t end() const { return until < 0 ? last : until; }
    };

    /// Steps by the logical clock's course, then by the one that follows from what those have been measured to take.
    Status trainMeasured(const program::Program &program, const Feed &feed, Drain &drain)
    {
        const plan::Plan &plan = m_document.plan;
        const std::int64_t steps = m_request.settings.steps;
        const std::int64_t from = m_request.from.step + OperatorTimes::kSteps;
        if (from >= steps)
            return train({plan, m_request.from.step, steps}, program, feed, drain);
        if (const Status done = train({plan, m_request.from.step, steps, 0, false, from}, program, feed, drain);
            !done || m_stopped)
            return done;
        m_request.from.step = m_measured.times.fromStep = from;
        m_request.from.checkpoint.clear(); // what it had is at hand
        const auto measured = compile::compilePlan(plan, m_document.subject, {.times = &m_measured.times});
        if (!measured) { // the same on every rank
            if (m_comm->rank() == 0)
                log(LogLevel::Warning,
                    fmt::format("there is no course by measured times: {}; the run keeps to the first one",
                                measured.error().text()));
            return train({plan, from, steps}, program, feed, drain);
        }
        m_recording.endKernels();
        if (m_comm->rank() == 0) {
            const std::string file = m_options.runDir + "/" + kMeasuredTimes;
            if (const Status written = writeFileAtomically(file, memory::toJson(m_measured.times)); !written)
                return written;
        }
        if (m_request.settings.traceEvery > 0) {
            auto trace = openMeasuredTrace(m_options.runDir, m_comm->rank(), *measured, m_document);
            if (!trace)
                return trace.error();
            drain.traceInto(from, *std::move(trace));
        }
        return train({plan, from, steps}, *measured, feed, drain);
    }

    /// What the next executor goes on with.
    Status keepState(RankExecutor &executor, const TrainingWatch &watch, const Stretch &stretch)
    {
        if (stretch.until >= 0) {
            auto measured = takeMeasured(executor, *m_comm);
            if (!measured)
                return measured.error();
            m_measured = *std::move(measured);
            m_measured.notes = watch.notes();
            return {};
        }
        auto parameters = parametersOf(executor);
        if (!parameters)
            return parameters.error();
        m_parameters = *std::move(parameters);
        return {};
    }

    /// Iterations of ADMM, then steps by gradients with the parameters that these leave.
    Status trainInTurn(const program::Program &program, const plan::Plan &later, const Feed &feed, Drain &drain)
    {
        const std::int64_t after = m_document.plan.then->after;
        const run::Beginning from = m_request.from;
        const std::int64_t steps = m_request.settings.steps;
        if (from.step < after) {
            const Stretch before{m_document.plan, from.step, std::min(after, steps), 0, steps <= after};
            if (const Status done = train(before, program, feed, drain); !done || before.ends || m_stopped)
                return done;
            m_request.from.step = after;
            m_request.from.checkpoint.clear(); // the parameters are at hand
        }
        const auto behind = compile::compilePlan(later, m_document.subject);
        if (!behind)
            return behind.error();
        m_recording.endTracing(); // a run's trace has the tasks of one Program
        return train({later, m_request.from.step, steps, after}, *behind, feed, drain);
    }

    /// A rank of a Program with a parameter server, or the server itself. None leaves before all have ended.
    Status runServed(const program::Program &program, Drain &drain)
    {
        const auto ranks = static_cast<int>(program.ranks.size());
        if (m_all.size() != ranks + 1)
            return badInput(
                fmt::format("{} processes were started for {} workers and a parameter server", m_all.size(), ranks));
        const auto deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(m_request.settings.timeout() * 1e9));
        if (m_all.rank() == ranks) {
            m_recording.traceEvery(m_request.settings.traceEvery, program.periodSteps);
            const auto origin = agreeOnOrigin(m_all, kIdle * deadline);
            if (!origin)
                return origin.error();
            const Status served =
                runVersionServer({m_document.plan, m_document.subject, m_request, m_all, m_options.runDir,
                                  [&drain](const run::StepMetrics &version) { drain.report(version); },
                                  &drain.stopRequested(), &program, &m_recording, *origin});
            return served ? m_all.barrier(kIdle * deadline) : served;
        }
        auto workers = TrainerCommunicator::create(m_all, ranks);
        if (!workers)
            return workers.error();
        m_trainers = *std::move(workers);
        m_comm = m_trainers.get();
        m_versions.emplace(m_all, *program.server, m_request.from.step);
        const Status trained = runTogether(program, drain);
        return trained ? m_all.barrier(kIdle * deadline) : trained;
    }

    /// Where variables belong to samples, every step has all of them, at the same places.
    Status keepSamples(data::SampleOrder &order) const
    {
        if (!m_document.plan.admm)
            return {};
        const std::int64_t shards = m_document.plan.admm->shards;
        if (order.trained() != m_document.plan.globalBatch * shards)
            return badInput(
                       shards == 1
                           ? fmt::format("training by ADMM takes all samples at once: the plan is for {}, and {} are "
                                         "left to train on; plan with --batch {}, or hold out another share",
                                         m_document.plan.globalBatch, order.trained(), order.trained())
                           : fmt::format(
                               "training by ADMM takes {} equal shards of all samples: the plan is for {} of {}, and "
                               "{} "
                               "are left to train on; plan with another --batch or number of shards, or hold out "
                               "another share",
                               shards, shards, m_document.plan.globalBatch, order.trained()))
                .in(m_request.settings.data);
        order.repeatFirstEpoch();
        return {};
    }

    /// More processes than cores. Before this one is pinned.
    [[nodiscard]] bool isCrowded() const { return static_cast<int>(m_all.sharers().size()) > coresHere(); }

    Status trainOn(Feed feed, const program::Program &program, Drain &drain)
    {
        if (m_request.settings.validateEvery > 0 && feed.order.heldOut() == 0)
            return badInput(fmt::format("a share of {:g} of {} samples leaves none to validate with; hold out more",
                                        m_request.settings.holdout, feed.data->samples()))
                .in(m_request.settings.data);
        if (m_request.from.sample >= 0)
            feed.order.goOn(m_request.from.step, m_document.plan.globalBatch, m_request.from.sample);
        m_sharesCores = isCrowded();
        // Roles of a sampled job run where the scheduler puts them, and trainers have all cores among them.
        const comm::Communicator &pinned = m_document.plan.job ? *m_comm : m_all;
        const int threads = pinToShare(pinned.rank(), pinned.sharers());
        omp_set_num_threads(m_request.settings.threads > 0 ? static_cast<int>(m_request.settings.threads) : threads);
        m_recording.traceEvery(m_request.settings.traceEvery, program.periodSteps);
        if (const auto later = plan::continuationOf(m_document.plan))
            return trainInTurn(program, *later, feed, drain);
        if (decidesByMeasured(m_document.plan))
            return trainMeasured(program, feed, drain);
        return train({m_document.plan, m_request.from.step, m_request.settings.steps}, program, feed, drain);
    }

    /// A process of a sampled job: a trainer, or one of another role. None leaves before all have ended.
    Status runSampled(Drain &drain)
    {
        const SampledRanks ranks(m_document.plan);
        if (m_all.size() != ranks.size())
            return badInput(fmt::format("{} processes were started for a job of {}", m_all.size(), ranks.size()));
        Result<program::Program> program = compile::compilePlan(m_document.plan, m_document.subject);
        if (!program)
            return program.error();
        // Answers come within some hundred microseconds. Where processes outnumber cores, others need them meanwhile.
        constexpr std::int64_t kSpins = 1'000'000; // nanoseconds
        RoleLink link(*program, m_all, m_document.plan.job->chunkBytes, m_recording, isCrowded() ? 0 : kSpins);
        SentBytes sent;
        const SampledContext context{m_document.plan, m_request, link, sent,
                                     plan::batchFormOf(*m_document.subject.graph)};
        if (const Status opened = sent.open(m_options.runDir, ranks.nameOf(m_all.rank()), m_request.from.step); !opened)
            return opened;
        if (m_request.settings.paced > 0) {
            if (const Status paced = link.pace(kIdle * context.deadline()); !paced)
                return paced;
        }
        const plan::PlacedRole *role = ranks.roleOf(m_all.rank());
        const Status ran =
            role == nullptr ? trainSampled(context, *program, drain) : serve(context, *program, role->kind);
        if (!ran)
            return ran;
        if (const Status closed = sent.close(); !closed)
            return closed;
        return m_all.barrier(kIdle * context.deadline());
    }

    /// A process beside the trainers: one thread, as several share this machine.
    Status serve(const SampledContext &context, const program::Program &program, gnn::RoleKind kind)
    {
        omp_set_num_threads(1);
        m_recording.traceEvery(m_request.settings.traceEvery);
        const auto origin = agreeOnOrigin(m_all, kIdle * context.deadline());
        if (!origin)
            return origin.error();
        context.link.setOrigin(*origin);
        return kind == gnn::RoleKind::ParameterServer ? runParameterServer(context, program)
                                                      : runSampledProcess(context);
    }

    Status trainSampled(const SampledContext &context, const program::Program &program, Drain &drain)
    {
        const Result<data::Needs> needs = data::needsOf(*m_document.subject.graph);
        if (!needs)
            return needs.error();
        auto source = SampledSource::open(m_document.plan, m_request);
        if (!source)
            return source.error();
        if (needs->classes > 0 && source->graph().classes() > needs->classes)
            return badInput(fmt::format("has {} classes, and the model tells {} apart; use a model that fits",
                                        source->graph().classes(), needs->classes))
                .in(m_request.settings.data);
        std::optional<data::BlockShape> blocks;
        if (context.form != plan::BatchForm::Trees) {
            auto shape = data::blockShapeOf(*needs);
            if (!shape)
                return shape.error().in(m_request.settings.data);
            blocks = *std::move(shape);
        }
        SampledBatches batches(context, blocks, source->samples());
        auto trainers = TrainerCommunicator::create(m_all, SampledRanks(m_document.plan).trainers());
        if (!trainers)
            return trainers.error();
        m_trainers = *std::move(trainers);
        m_comm = m_trainers.get();
        m_link = &context.link;
        if (m_document.plan.exchange.policy == plan::ExchangePolicy::ParameterServer)
            m_served = ServedParameters::create(context, program);
        const Feed feed{&batches, *needs, source->order(), &batches};
        source = failed("dropped"); // its arrays are the samplers' alone from here on
        if (const Status trained = trainOn(feed, program, drain); !trained)
            return trained;
        if (const Status closed = batches.close(); !closed)
            return closed;
        return m_served ? m_served->close() : Status();
    }

    /// Time zero of all processes, which the ranks of the Program have agreed on among themselves.
    Status shareOrigin(RankExecutor &executor)
    {
        const auto deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(m_request.settings.timeout() * 1e9));
        const auto origin = agreeOnOrigin(m_all, kIdle * deadline);
        if (!origin)
            return origin.error();
        executor.setOrigin(*origin);
        if (m_link != nullptr)
            m_link->setOrigin(*origin);
        return {};
    }

    Status load()
    {
        auto request = run::readRequest(m_options.runDir + "/request.json");
        if (!request)
            return request.error();
        m_request = std::move(*request);
        Result<plan::Document> document = plan::readPlan(m_options.runDir + "/plan.json");
        if (!document)
            return document.error();
        m_document = std::move(*document);
        return {};
    }

    Status train(const Stretch &stretch, const program::Program &program, const Feed &feed, Drain &drain)
    {
        ExecutorOptions options;
        options.steps = stretch.last;
        options.firstStep = stretch.first;
        options.until = stretch.until;
        options.measures = stretch.until >= 0;
        options.updatesFrom = stretch.updatesFrom;
        options.seed = m_request.settings.seed;
        options.optimizer = stretch.plan.optimizer;
        std::shared_ptr<const graph::Graph> model = m_document.subject.graph;
        if (m_options.firstValues) {
            auto whole = m_options.firstValues(model, m_document.plan.modelSource);
            if (!whole)
                return whole.error();
            model = *std::move(whole);
        }
        options.modelFolder = modelFolder(m_document.plan.modelSource);
        options.deadline = std::chrono::nanoseconds(static_cast<std::int64_t>(m_request.settings.timeout() * 1e9));
        options.stop = &drain.stopRequested();
        options.sharesCores = m_sharesCores;
        if (m_versions) {
            options.link = &*m_versions;
            options.deadline *= 2; // the server knows who is late, and says so first
        }
        if (m_link != nullptr)
            options.deadline *= 3; // as SampledContext::trainersDeadline()
        if (m_comm->rank() == 0)
            options.onStep = [&drain](const run::StepMetrics &result) { drain.report(result); };
        ResidualsLog residuals;
        const bool records = stretch.plan.admm && m_comm->rank() == 0;
        if (const auto names = records ? admm::residualNames(*m_document.subject.graph, *stretch.plan.admm)
                                       : std::vector<std::string>();
            !names.empty()) {
            if (const Status opened = residuals.open(m_options.runDir, stretch.first, names); !opened)
                return opened;
            options.onResiduals = [&residuals](std::int64_t step, std::span<const float> squares) {
                return residuals.add(step, squares);
            };
        }
        SeriesRecord series(program, m_comm->rank(), m_document.subject.costs->profile().get(), m_options.runDir,
                            options);
        TrainingWatch *watch = nullptr; // known once there is an executor
        if (m_request.settings.checkpointEvery > 0 || m_request.settings.validateEvery > 0) {
            options.afterStep = [&watch](const run::StepMetrics &result, bool &stop) {
                return watch->afterStep(result, stop);
            };
            options.pausesAfter = [&watch, period = program.periodSteps](std::int64_t step) {
                return watch->pausesAfter(step, period);
            };
        }
        const auto deadline = options.deadline;
        const auto gpu = RankGpu::open(program, *m_document.subject.cluster, *m_comm, m_request.settings.kernelSeconds,
                                       m_recording, deadline);
        if (!gpu)
            return gpu.error();
        options.device = (*gpu)->device();
        options.marks = (*gpu)->marks();
        options.served = m_served.get();
        auto executor =
            RankExecutor::create(program, *model, (*gpu)->communicator(), feed, m_recording, std::move(options));
        model.reset();
        if (!executor)
            return executor.error();
        if (m_link != nullptr || m_versions) {
            if (const Status shared = shareOrigin(**executor); !shared)
                return shared;
        }
        const RankGpu::Communication communication(**gpu);
        if (m_comm->rank() == 0)
            (*gpu)->nameHostOperators();
        if (!m_parameters.empty()) {
            if (const Status set = setParameters(**executor, m_parameters); !set)
                return set;
        }
        if (!m_measured.holdings.empty()) {
            if (const Status set = setHoldings(**executor, std::exchange(m_measured.holdings, {})); !set)
                return set;
        }
        auto made = TrainingWatch::create(**executor, m_request, stretch.plan, feed, m_options.runDir, drain);
        if (!made)
            return made.error();
        watch = made->get();
        if (m_measured.times.fromStep > 0)
            watch->goOnWith(m_measured.notes);
        if (KernelRecords *kernels = (*gpu)->kernels())
            kernels->begin((*executor)->origin());
        drain.setTraining(true);
        Status status = (*executor)->run();
        drain.setTraining(false);
        if (KernelRecords *kernels = (*gpu)->kernels())
            kernels->end();
        const std::int64_t arena = std::max(m_memory.arena, (*executor)->peakBytes());
        m_memory = memoryUse();
        m_memory.arena = arena;
        m_sentBytes += (*executor)->collectiveBytes();
        if (status)
            status = watch->finish();
        if (!status)
            return status;
        if (records) {
            if (const Status written =
                    writeDuals(**executor, feed, *m_document.subject.graph, *stretch.plan.admm, m_options.runDir);
                !written)
                return written;
        }
        if (watch->stoppedEarly())
            m_options.channel->stoppedEarly();
        m_stopped = watch->stoppedEarly() || stretch.first + (*executor)->stepsDone() < stretch.end();
        if (!stretch.ends && !m_stopped) {
            status = keepState(**executor, *watch, stretch);
            if (status)
                status = m_comm->barrier(deadline);
        } else {
            status = evaluate(**executor, feed, drain);
        }
        if (status)
            (*gpu)->leave(deadline);
        return status;
    }

    Status evaluate(RankExecutor &executor, const Feed &feed, Drain &drain)
    {
        if (feed.order.heldOut() > 0) {
            Result<run::Validation> evaluation = executor.evaluate();
            if (!evaluation)
                return evaluation.error();
            evaluation->step = m_request.from.step + executor.stepsDone() - 1;
            if (m_comm->rank() == 0)
                drain.reportLast(*evaluation);
        }
        // No rank leaves before all have arrived: an early end would look like a crash to the others.
        return m_comm->barrier(std::chrono::nanoseconds(static_cast<std::int64_t>(m_request.settings.timeout() * 1e9)));
    }

    const WorkerOptions &m_options;
    static constexpr int kIdle = 10; ///< deadlines that others may need to end

    comm::Communicator &m_all;
    std::unique_ptr<TrainerCommunicator> m_trainers; ///< of a sampled job
    comm::Communicator *m_comm;                      ///< of the ranks of the Program
    RoleLink *m_link = nullptr;                      ///< of a trainer of a sampled job
    std::unique_ptr<ServedParameters> m_served;      ///< where the plan has parameter servers
    std::optional<VersionLink> m_versions;           ///< to the parameter server of its versions
    Recording m_recording{kRingRecords};
    run::Request m_request;
    plan::Document m_document;
    MemoryUse m_memory;
    std::int64_t m_sentBytes = 0; ///< RankExecutor::collectiveBytes() of all its steps
    Parameters m_parameters;      ///< that the steps before have left to those of another Program
    Measured m_measured;          ///< likewise, to those by the measured course
    bool m_sharesCores = false;
    bool m_stopped = false; ///< before its last step
};

int exitStatus(const Error &error)
{
    switch (error.code) {
    case ErrorCode::BadInput:
    case ErrorCode::NotFound:
    case ErrorCode::Unsupported:
    case ErrorCode::Infeasible: return 2;
    default: return 1;
    }
}

} // namespace

int runWorker(const WorkerOptions &options)
{
    followParent();
    std::signal(SIGXFSZ, SIG_IGN); // a write over the limit is an error like that of a full disk
    auto communicator = connect();
    if (!communicator) {
        options.channel->finished({}, communicator.error().text());
        return exitStatus(communicator.error());
    }
    options.channel->hello((*communicator)->rank(), ::getpid());
    Worker worker(options, **communicator);
    const Status status = worker.run();
    if (!status)
        options.channel->failing(status.error().code);
    options.channel->sent(worker.sentBytes());
    options.channel->finished(worker.memory(), status ? std::string() : status.error().text());
    if (status)
        return 0;
    // The others may be waiting for this rank, so that their collectives cannot end.
    (*communicator)->abort(status.error().text());
    return exitStatus(status.error());
}

} // namespace planloom::runtime
