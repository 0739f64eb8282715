// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11: it takes seconds to compile.
#include "app/planloom/cli.h"

#include "app/outline/completion.h"
#include "app/outline/manual.h"
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/cost/framework.h"
#include "engine/export/export.h"
#include "engine/import/loss/choice.h"
#include "engine/plan/edit.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

namespace planloom::cli {
namespace {

using Verb = std::function<Status(Output &)>;

/// The parser, the places of its values, and the chosen command.
struct Command {
    CLI::App app{"Plans, simulates, runs and explains the parallel training of neural networks", "planloom"};
    OutputOptions output;
    InspectOptions inspect;
    PlanOptions plan;
    std::vector<std::string> planSet;
    SimulateOptions simulate;
    EditOptions edit;
    QueryOptions query;
    ProfileOptions profile;
    TrainOptions train;
    CompareOptions compare;
    ExportOptions exportTo;
    GraphOptions graph;
    PlaceOptions place;
    BenchOptions bench;
    AgentOptions agent;
    AttachOptions attach;
    TargetsOptions targets;
    HostOptions host;
    WorkerOptions worker;
    TransportOptions transport;
    std::string shell; ///< of completion
    Verb chosen;
    std::function<int()> process; ///< agent and worker: they print for themselves
};

constexpr const char *kModel =
    "FILE.onnx, config.json of Hugging Face, a layer profile FILE.txt, or zoo:NAME (see planloom models)";
constexpr const char *kCluster =
    "FILE.yaml, FILE.json, NCCL FILE.xml, text of `nvidia-smi topo -m`[,gpu=TYPE], Slurm's "
    "topology.conf,gpu=TYPE,gpus=N,network=RATE, local[:N] or preset:NAME (see planloom "
    "clusters)";

CLI::App *addVerb(Command &command, const std::string &name, const std::string &about, const std::string &example,
                  Verb run)
{
    CLI::App *verb = command.app.add_subcommand(name, about);
    verb->add_flag("--json", command.output.json, "Print only the result, as JSON, on stdout");
    verb->add_flag("--quiet", command.output.quiet, "Print no text for people and no progress, only errors");
    verb->footer("Example:\n  " + example);
    verb->callback([&command, run = std::move(run)] { command.chosen = run; });
    return verb;
}

CLI::Validator finite()
{
    return CLI::Validator(
        [](std::string &text) {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value) || !std::isfinite(value))
                return fmt::format("'{}' is not a number", text);
            return std::string();
        },
        "NUMBER");
}

void addBuiltIn(Command &command)
{
    addVerb(command, "models", "List the built-in models", "planloom models",
            [](Output &output) { return models(output); });
    addVerb(command, "planners", "List the planners and their options", "planloom planners",
            [](Output &output) { return planners(output); });
    addVerb(command, "clusters", "List the built-in clusters", "planloom clusters --json",
            [](Output &output) { return clusters(output); });
}

CLI::Option *addSequence(CLI::App *verb, std::int64_t &sequence)
{
    constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
    return verb
        ->add_option("--sequence", sequence,
                     "Tokens of a sample; default: the model's context, at most 4096 of it "
                     "with rotary positions")
        ->check(CLI::Range(std::int64_t{1}, kMostTokens))
        ->type_name("N");
}

CLI::Option *addLoss(CLI::App *verb, std::vector<std::string> &loss)
{
    return verb
        ->add_option("--loss", loss,
                     "Loss of a model that computes none: " + import::lossNames()
                         + "; OUTPUT=NAME, once for each of several outputs; default: by what the model ends in "
                           "(planloom inspect)")
        ->type_name("NAME")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void addFramework(CLI::App *verb, FrameworkChoice &choice)
{
    std::vector<std::string> names;
    for (const cost::Framework &framework : cost::frameworks())
        names.push_back(framework.name);
    constexpr double kMostDropped = 0.99;
    verb->add_option("--framework", choice.name,
                     "Framework whose fused kernels, launches, sends and exchanges are predicted")
        ->check(CLI::IsMember(names))
        ->type_name("NAME");
    verb->add_option("--attention", choice.attention,
                     "Whether attention is one kernel or keeps scores in memory; default: the framework's, or the "
                     "model's")
        ->check(CLI::IsMember({"fused", "unfused"}))
        ->type_name("FORM");
    verb->add_option("--dropout", choice.dropout,
                     "Share of activations that are dropped, each mask kept in memory; default: likewise")
        ->check(CLI::Range(0.0, kMostDropped))
        ->type_name("X");
}

void addProfileSamples(CLI::App *verb, double &samples)
{
    constexpr double kMostSamples = 1e9;
    verb->add_option("--profile-samples", samples,
                     "Samples that the times of a layer profile are of; default: one sample is a minibatch of it")
        ->check(finite() & CLI::Range(1.0, kMostSamples))
        ->type_name("N");
}

void addInspect(Command &command)
{
    CLI::App *verb = addVerb(
        command, "inspect",
        "Describe a model, cluster, profile, plan, run, trace, memory snapshot of PyTorch, workspace, graph, job or "
        "placement",
        "planloom inspect zoo:gpt2", [&command](Output &output) { return inspect(command.inspect, output); });
    verb->add_option("what", command.inspect.what,
                     "A file, the folder of a run or graph, zoo:NAME, preset:NAME or local[:N]")
        ->required();
    addSequence(verb, command.inspect.sequence);
    addLoss(verb, command.inspect.loss);
    addProfileSamples(verb, command.inspect.profileSamples);
    verb->add_option("--plan", command.inspect.plan,
                     "Plan or run that the trace of another program is laid over: operators by layer and kind, "
                     "predicted against measured")
        ->type_name("PLAN");
}

/// The training settings of a plan, beyond its layout.
void addTrainingSettings(CLI::App *verb, PlanOptions &options)
{
    constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
    verb->add_option("--no-decay", options.noDecay,
                     "Parameters without weight decay: a name, a pattern with *, or rank<2 (biases and norms); may be "
                     "given several times")
        ->type_name("PATTERN");
    verb->add_option("--lr-schedule", options.learningRateSchedule, "Decay of the learning rate after the warm-up")
        ->check(CLI::IsMember({"constant", "linear", "cosine"}))
        ->capture_default_str();
    verb->add_option("--warmup-steps", options.warmupSteps, "Learning-rate warm-up steps")
        ->check(CLI::Range(std::int64_t{0}, kMostSteps));
    verb->add_option("--decay-steps", options.decaySteps, "Step at which the decay ends; default: the run's last")
        ->check(CLI::Range(std::int64_t{1}, kMostSteps));
    verb->add_option("--lr-minimum", options.minimumLearningRate, "Share of the learning rate after the decay")
        ->check(CLI::Range(0.0, 1.0));
    verb->add_option("--clip-norm", options.clipNorm, "Scale gradients down to this 2-norm over all parameters")
        ->check(finite() & CLI::NonNegativeNumber);
    verb->add_option("--precision", options.precision, "Precision of activations and matrix products")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->capture_default_str();
    verb->add_option("--zero", options.zero,
                     "ZeRO stage: 1 shards optimizer state, 2 also gradients, 3 also parameters")
        ->check(CLI::Range(0, 3))
        ->capture_default_str();
    verb->add_option(
            "--exchange", options.exchange,
            "How replicas combine what they learn: all-reduce; dasgd with local_steps=N, delay=N or auto, "
            "local_weight=X, merge=corrected or convex, warmup_steps=N, inside=replica or machine; embrace "
            "with scheduling=fifo, horizontal or 2d, tables=PARAMETER[:STRATEGY[:split]][+...], where STRATEGY "
            "is all-to-all, all-gather, parameter-server or all-reduce (tables left out: all, in the way that "
            "simulates fastest), and dense=dasgd with its settings for all other parameters; all-reduce and embrace "
            "with across_steps=true, false or auto: sums end in the next step, before what reads them")
        ->check([](const std::string &text) {
            return text.empty() ? std::string("it is empty; give all-reduce, dasgd or embrace, or leave the option out")
                                : std::string();
        })
        ->type_name("KIND[,KEY=VALUE...]");
}

void addPlan(Command &command)
{
    PlanOptions &options = command.plan;
    CLI::App *verb = addVerb(command, "plan", "Find a plan that trains a model on a cluster",
                             "planloom plan --model zoo:gpt-nano --cluster local:4 --batch 32 -o nano.plan.json",
                             [&command](Output &output) { return plan(command.plan, output); });
    verb->add_option("--model", options.model, kModel)->required();
    addSequence(verb, options.sequence);
    addLoss(verb, options.loss);
    addProfileSamples(verb, options.profileSamples);
    verb->add_option("--cluster", options.cluster, kCluster)->required();
    verb->add_option("--profile", options.profile, "Measured times, from planloom profile");
    addFramework(verb, options.framework);
    verb->add_option("--planner", options.planner,
                     "Planner to use (see planloom planners); all: compare every planner that searches")
        ->capture_default_str();
    CLI::Option *from = verb->add_option("--from", options.from,
                                         "Plan from another program's configuration (planner manual): arguments of "
                                         "Megatron-LM in a file or a script, DeepSpeed's JSON, torchtitan's TOML");
    from->type_name("FILE");
    CLI::Option *batch =
        verb->add_option("--batch", options.batch, "Samples of one training step; required without --from");
    batch->excludes(from);
    verb->parse_complete_callback([batch, from] {
        if (batch->empty() && from->empty())
            throw CLI::RequiredError("--batch");
    });
    verb->add_option("--micro-batch", options.microBatch,
                     "Samples of one micro-batch on one device; the planner chooses if not given")
        ->excludes(from);
    verb->add_option(
            "--memory", options.memory,
            "limit: the plan fits its devices; ignore: search as if they held every plan, as published "
            "searches that know no limit do; or what leaves the devices while a stage trains: none, delta, dtr, "
            "dtr-eq, local, lru, size, msps, random, capuchin, knapsack, ahead, with budget=60%, bytes or fit, "
            "director=rule, chain, swap or recompute, trigger=before or after, and more")
        ->type_name("limit|ignore|POLICY[,KEY=VALUE...]")
        ->capture_default_str();
    verb->add_flag(
            "--largest-batch", options.largestBatch,
            "Find the largest multiple of --batch that fits in one micro-batch, each device with an equal share; "
            "with --memory POLICY,budget=fit the largest that the policy makes room for")
        ->excludes(from);
    verb->add_option("--set", command.planSet, "Option of the planner, KEY=VALUE; may be given several times")
        ->type_name("KEY=VALUE");
    verb->add_option("--graph", options.graph,
                     "Graph that is sampled in training (planner gnn): a folder of planloom graph")
        ->type_name("DIR");
    verb->add_option("--annotate", options.annotate,
                     "Parallel strategy for a scope: SCOPE=split:4, SCOPE=replicate:2, *=STRATEGY for the rest; "
                     "may be given several times")
        ->type_name("SCOPE=STRATEGY");
    verb->add_option("--optimizer", options.optimizer, "Optimizer of the training: " + update::ruleNames())
        ->type_name("NAME[,SETTING=VALUE...]")
        ->capture_default_str();
    verb->add_option("--learning-rate", options.learningRate, "Its learning rate")
        ->check(finite() & CLI::NonNegativeNumber);
    verb->add_option("--momentum", options.momentum, "Momentum of sgd")->check(CLI::Range(0.0, 1.0));
    verb->add_option("--weight-decay", options.weightDecay, "Its weight decay")
        ->check(finite() & CLI::NonNegativeNumber);
    addTrainingSettings(verb, options);
    for (const char *name : {"--optimizer", "--learning-rate", "--momentum", "--weight-decay"})
        verb->get_option(name)->each([&options](const std::string &) { options.optimizerGiven = true; });
    verb->add_option("-o,--output", options.out, "Plan file to write; -: standard output")->type_name("PLAN");
    verb->add_option("--workspace", options.workspace, "Workspace to record the plan in")->type_name("FILE");
}

void addSimulate(Command &command)
{
    CLI::App *verb = addVerb(command, "simulate", "Predict one iteration of a plan: time, memory, bubbles",
                             "planloom simulate nano.plan.json --trace nano.trace.json",
                             [&command](Output &output) { return simulate(command.simulate, output); });
    verb->add_option("plan", command.simulate.plan, "Plan file; -: standard input")->required()->type_name("PLAN");
    addFramework(verb, command.simulate.framework);
    verb->add_option(
            "--trace", command.simulate.trace,
            "Write the timeline: FILE.json in Chrome's format, FILE.pftrace in Perfetto's, else Planloom's own")
        ->type_name("FILE");
    verb->add_option("--csv", command.simulate.csv, "Write a table of the tasks, comma-separated")->type_name("FILE");
    verb->add_option("--order", command.simulate.order,
                     "Compute in the order of a schedule of torch.distributed.pipelining")
        ->type_name("CSV");
    verb->add_option("-o,--output", command.simulate.out, "Plan file to write, with that order; -: standard output")
        ->type_name("PLAN");
    verb->add_option("--times", command.simulate.times,
                     "What a run of the plan has measured (measured.json in its folder), for memory policies with "
                     "clock=measured")
        ->type_name("FILE");
    verb->add_option("--decisions", command.simulate.decisions,
                     "Write what the memory policies decide, tensor by tensor, as tab-separated text")
        ->type_name("FILE");
    verb->add_option(
            "--fail-if", command.simulate.failIf,
            "Limits that the prediction may not pass, for tests of plans: step>1.2s, peak>70GiB or peak>95% of "
            "a device, bubble>30%, samples/s<4000, with commas between them; the exit status is 3 if it "
            "passes one")
        ->type_name("LIMIT[,LIMIT...]");
}

/// "\n\nKeys:" and a line for each field of a plan that `edit` changes.
std::string editKeys()
{
    std::string keys = "\n\nKeys (stages.*.KEY sets all stages):";
    for (const plan::EditField &field : plan::editFields())
        keys += fmt::format("\n  {:<22} {:<28} {}", (field.ofStage ? "stages.N." : "") + std::string(field.key),
                            field.value, field.about);
    return keys;
}

void addEdit(Command &command)
{
    CLI::App *verb = addVerb(command, "edit", "Change a plan as the studio's plan view does, and predict it anew",
                             "planloom edit nano.plan.json --set micro_batches=8 --set stages.0.recompute=full "
                             "-o new.plan.json"
                                 + editKeys(),
                             [&command](Output &output) { return edit(command.edit, output); });
    verb->add_option("plan", command.edit.plan, "Plan file or folder of a run; -: standard input")
        ->required()
        ->type_name("PLAN");
    verb->add_option("--set", command.edit.set, "What to change; may be given several times, all of which are one edit")
        ->required()
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    verb->add_option("-o,--output", command.edit.out,
                     "Plan file to write; -: standard output; none: only show what it would be")
        ->type_name("PLAN");
}

void addQuery(Command &command)
{
    CLI::App *verb = addVerb(
        command, "query", "Ask a trace, a run or a plan's prediction in SQL",
        "planloom query nano.plan.json 'SELECT device, kind, sum(duration) AS seconds FROM slices GROUP BY 1, 2'\n\n"
        "Tables, times in seconds:\n"
        "  slices   task, kind, work, stage, micro_batch, rank, device, lane, step, start, duration\n"
        "  tasks    number, task, kind, work, stage, micro_batch\n"
        "  devices  rank, device\n"
        "  lanes    number, lane, work",
        [&command](Output &output) { return query(command.query, output); });
    verb->add_option("what", command.query.what, "Trace of any program, folder of a run, or plan file")
        ->required()
        ->type_name("FILE");
    verb->add_option("sql", command.query.sql, "One SELECT of SQLite")->required()->type_name("SQL");
}

void addProfile(Command &command)
{
    ProfileOptions &options = command.profile;
    CLI::App *verb =
        addVerb(command, "profile",
                "Measure how long a model's operators take on a device, and what links between machines carry",
                "planloom profile --model zoo:gpt-nano --device cpu --samples 4 -o nano.profile.json",
                [&command](Output &output) { return profile(command.profile, output); });
    CLI::Option *model = verb->add_option("--model", options.model, kModel);
    CLI::Option *plan = verb->add_option("--plan", options.plan,
                                         "Measure a plan's model with as many ranks and samples as the plan uses");
    verb->add_option("--data", options.data,
                     "Count the rows that its steps look up of the plan's tables (exchange embrace)")
        ->type_name("DATA")
        ->needs(plan);
    CLI::Option *loss = addLoss(verb, options.loss);
    plan->type_name("PLAN")->excludes(model)->excludes(addSequence(verb, options.sequence))->excludes(loss);
    CLI::Option *graph =
        verb->add_option("--graph", options.graph, "Graph that the plan samples: measure its samplers and stores, too")
            ->type_name("FOLDER");
    CLI::Option *on = verb->add_option("--on", options.on,
                                       "Measure on another machine: a target's name (planloom targets) or "
                                       "ssh://user@host[:port]; also the links between the hosts of the plan")
                          ->type_name("TARGET")
                          ->excludes(graph)
                          ->excludes(loss);
    verb->add_option("--cluster", options.cluster,
                     "Measure the links of this cluster, whose nodes have addresses that the target reaches")
        ->type_name("CLUSTER")
        ->needs(on)
        ->excludes(plan);
    verb->add_option("--links", options.links, "Cluster file to write: the cluster with its measured links")
        ->type_name("FILE")
        ->needs(on);
    verb->add_option("--device", options.device, "Device to measure on: cpu, or a GPU such as cuda:0")
        ->capture_default_str();
    verb->add_option("--samples", options.samples, "Sizes of a slice to measure, such as 1,4,16")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20))
        ->type_name("N,...");
    verb->add_option("--ranks", options.ranks, "Workers that will share this machine; default 1, or the plan's")
        ->check(CLI::Range(1, 1024));
    verb->add_option("--threads", options.threads, "OpenMP threads of a rank; default: its share of the cores")
        ->check(CLI::Range(1, 4096));
    verb->add_option("--repetitions", options.repetitions,
                     "Runs of each pass; default: as many as a steady median needs")
        ->check(CLI::Range(1, 10000));
    verb->add_option("-o,--output", options.out, "Profile file to write")->type_name("PROFILE");
    verb->add_option("--workspace", options.workspace, "Workspace to record the profile in")->type_name("FILE");
}

void addTrain(Command &command)
{
    TrainOptions &options = command.train;
    CLI::App *verb =
        addVerb(command, "train", "Train a plan's model, one process a device",
                "planloom train nano.plan.json --data /usr/share/common-licenses/GPL-3 --steps 100 --seed 1",
                [&command](Output &output) { return train(command.train, output); });
    run::Settings &settings = options.settings;
    constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
    constexpr int kMostOften = 1 << 20;
    /// An option that sets one of run::Settings, which has @p key in a request.
    const auto setting = [&](const char *name, const char *key, auto &value, const char *about) {
        return verb->add_option(name, value, about)->each([&options, key](const std::string &) {
            options.given.insert(key);
        });
    };
    verb->add_option("plan", options.plan, "Plan file; with --resume also the folder of the run")
        ->required()
        ->type_name("PLAN");
    setting("--data", "data", settings.data,
            "Text, token file, .npy, CSV(.gz), IDX, or a folder of .npy files; needed unless a run is resumed");
    setting("--steps", "steps", settings.steps, "Training steps; default 100")
        ->check(CLI::Range(std::int64_t{1}, kMostSteps));
    setting("--seed", "seed", settings.seed, "Seed of weights and order of samples; default 1");
    verb->add_option("--run-dir", options.runDir, "Folder of the run, for its trace and metrics; default: a new one")
        ->type_name("FOLDER");
    setting("--holdout", "holdout", settings.holdout, "Share of the samples held out for validation")
        ->check(CLI::Range(0.0, 0.9));
    setting("--threads", "threads", settings.threads, "OpenMP threads of each rank; default: its share of the cores")
        ->check(CLI::Range(1, 4096));
    setting("--validate-every", "validate_every", settings.validateEvery,
            "Steps between evaluations on the validation set")
        ->check(CLI::Range(std::int64_t{1}, kMostSteps));
    setting("--early-stop", "early_stop", settings.earlyStop,
            "Number of validations without a better loss after which training ends")
        ->check(CLI::Range(1, kMostOften));
    setting("--checkpoint-every", "checkpoint_every", settings.checkpointEvery,
            "Steps between checkpoints; one more is written when the run ends or is stopped")
        ->check(CLI::Range(std::int64_t{1}, kMostSteps));
    setting("--keep", "keep", settings.keep, "Number of newest checkpoints to keep; 0: all")
        ->capture_default_str()
        ->check(CLI::Range(0, kMostOften));
    setting("--arrivals", "arrivals", settings.arrivals,
            "arrivals.csv of a run with a parameter server, to make its versions again as they were made")
        ->check(CLI::ExistingFile)
        ->type_name("FILE");
    verb->add_flag("--resume", options.resume,
                   "Resume from the run's newest complete checkpoint; options not given keep their values");
    setting("--restarts", "restarts", settings.restarts,
            "Number of restarts from the newest checkpoint after a rank died or hung")
        ->check(CLI::Range(0, kMostOften));
    setting("--timeout", "timeout_seconds", settings.timeoutSeconds,
            "Seconds for which communication of a rank may stand still before the run ends; default 60")
        ->check(finite() & CLI::PositiveNumber);
    setting("--hung-after", "hung_seconds", settings.hungSeconds,
            "Seconds without progress after which a rank is considered hung; default 30, at least five steps")
        ->check(finite() & CLI::PositiveNumber);
    verb->add_option_function<std::string>(
            "--trace",
            [&options](const std::string &which) {
                options.given.insert("trace_every");
                options.settings.traceEvery = which == "on" ? 1 : which == "off" ? 0 : std::stoll(which);
            },
            "Steps recorded in the run's trace: on (all), off (none), or a number N: one in N")
        ->check(CLI::IsMember({"on", "off"}) | CLI::Range(std::int64_t{1}, kMostSteps))
        ->type_name("WHICH");
    verb->add_flag("--kernels{2}", options.kernels, // a number would be taken for a count, without its fraction
                   "Record kernels and copies of GPUs, too, for 2 seconds from the first one on, or --kernels=SECONDS")
        ->check(CLI::Range(0.0, run::Settings::kMostKernelSeconds))
        ->each([&options](const std::string &seconds) {
            options.settings.kernelSeconds = std::stod(seconds);
            options.given.insert("kernel_seconds");
        });
    verb->add_flag("--paced{1}", settings.paced,
                   "Of a plan with roles, on one machine: messages take as long as on the network cards of the plan's "
                   "machines")
        ->each([&options](const std::string &) { options.given.insert("paced"); })
        ->check(CLI::Range(0, 1));
    verb->add_option("--agent", options.agent, "Socket of a running agent; default: start one")->type_name("SOCKET");
    verb->add_option("--on", options.on,
                     "Train on another machine: a target's name (planloom targets), ssh://user@host[:port], or local")
        ->type_name("TARGET")
        ->excludes("--agent");
    verb->add_option("--workspace", options.workspace, "Workspace to record the run in")->type_name("FILE");
    verb->add_option("--decisions", options.decisions,
                     "Write what the memory policies did in each step, from the run's trace, as tab-separated text")
        ->type_name("FILE");
}

std::string formatList()
{
    std::string list = "Formats:";
    for (const auto &format : exporting::formats())
        list += fmt::format("\n  {:<17} {}", format.name, format.about);
    return list;
}

void addRest(Command &command)
{
    CLI::App *compareVerb =
        addVerb(command, "compare", "Lay two plans, runs, traces or reports of bench gpu side by side",
                "planloom compare a.plan.json b.plan.json",
                [&command](Output &output) { return compare(command.compare, output); });
    compareVerb
        ->add_option(
            "a", command.compare.a,
            "Plan file, folder of a run, trace of any program, or report of bench gpu; another program's trace "
            "is laid over a plan")
        ->required();
    compareVerb->add_option("b", command.compare.b, "The same")->required();

    CLI::App *exportVerb = addVerb(command, "export", "Write a plan or a run in another program's format",
                                   "planloom export nano.plan.json --to chrome-trace -o nano.json\n\n" + formatList(),
                                   [&command](Output &output) { return exportTo(command.exportTo, output); });
    exportVerb->add_option("what", command.exportTo.what, "Plan file or folder of a run")->required();
    exportVerb->add_option("--to", command.exportTo.format, "Format to write")->required()->type_name("FORMAT");
    exportVerb->add_option("-o,--output", command.exportTo.out, "File to write")->required()->type_name("PATH");
    exportVerb->add_option("--dtype", command.exportTo.dtype, "Numbers of safetensors")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->capture_default_str();

    CLI::App *benchVerb = addVerb(command, "bench", "Run a benchmark of this build, or list them", "planloom bench",
                                  [&command](Output &output) { return bench(command.bench, output); });
    benchVerb->add_option("name", command.bench.name, "Benchmark; none: list them");
    benchVerb->add_option("-o,--output", command.bench.out, "gpu: file to write its report to, in JSON")
        ->type_name("FILE");
    benchVerb
        ->add_option("--time", command.bench.timed,
                     "gpu: a step to time instead of GPT-2's, such as zoo:gpt2,64,8,bf16: samples of a step and of a "
                     "micro-batch, precision; or none")
        ->type_name("WHAT");
    benchVerb->add_option("--python", command.bench.python, "gpu: command with PyTorch; default: python3");
    benchVerb->add_flag("--full", command.bench.full,
                        "gpu: train GPT-2, BERT-base, ResNet-50 and an LSTM instead of small models");
}

/// An option of one kind of graph is not taken for another one.
Status checkGraphOptions(const Command &command)
{
    constexpr std::pair<const char *, const char *> kKinds[] = {{"--packages", "debian"}, {"--width", "debian or sbm"},
                                                                {"--blocks", "sbm"},      {"--block-nodes", "sbm"},
                                                                {"--inside", "sbm"},      {"--outside", "sbm"},
                                                                {"--separation", "sbm"}};
    const GraphOptions &options = command.graph;
    const CLI::App *verb = command.app.get_subcommand("graph");
    for (const auto &[option, kinds] : kKinds) {
        const bool own = std::string_view(kinds).find(options.kind) != std::string_view::npos;
        if (!own && verb->count(option) > 0)
            return badInput(fmt::format("{} is for a graph of kind {}, and {} was asked for; leave it out", option,
                                        kinds, options.kind));
    }
    if (options.balanceTraining && options.method != "metis")
        return badInput(fmt::format("--balance-training is for --partition metis, and {} was asked for; leave it out",
                                    options.method));
    return {};
}

void addGraph(Command &command)
{
    GraphOptions &options = command.graph;
    CLI::App *verb = addVerb(command, "graph", "Make a graph for sampled training: nodes, edges, features, labels",
                             "planloom graph sbm --parts 4 -o blocks.graph", [&command](Output &output) {
                                 const Status own = checkGraphOptions(command);
                                 return own ? graph(command.graph, output) : own;
                             });
    constexpr std::int64_t kMostWidth = 65536;
    constexpr std::int64_t kMostNodes = std::int64_t{1} << 31;
    verb->add_option("kind", options.kind,
                     "debian: dependencies of the packages that apt knows; sbm: blocks with more edges inside than "
                     "between; karate: Zachary's club")
        ->required()
        ->check(CLI::IsMember({"debian", "sbm", "karate"}));
    verb->add_option("--packages", options.packages, "debian: list of packages; default: apt's of main")
        ->type_name("FILE");
    verb->add_option("--width", options.width, "debian, sbm: features of a node; default: 64 and 16")
        ->check(CLI::Range(std::int64_t{1}, kMostWidth));
    verb->add_option("--blocks", options.blocks.blocks, "sbm: blocks")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    verb->add_option("--block-nodes", options.blocks.blockNodes, "sbm: nodes of a block")
        ->check(CLI::Range(std::int64_t{1}, kMostNodes))
        ->capture_default_str();
    verb->add_option("--inside", options.blocks.degreeInside, "sbm: mean number of neighbours in the block")
        ->check(finite() & CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_option("--outside", options.blocks.degreeOutside, "sbm: mean number of neighbours in other blocks")
        ->check(finite() & CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_option("--separation", options.blocks.separation, "sbm: distance of the blocks' features, in deviations")
        ->check(finite())
        ->capture_default_str();
    verb->add_option("--parts", options.parts, "Parts to cut the graph into, one for each graph store; default: none")
        ->check(CLI::Range(1, 65536));
    verb->add_option("--partition", options.method, "How to cut: metis (few edges between parts) or hash")
        ->check(CLI::IsMember({"metis", "hash"}))
        ->capture_default_str();
    verb->add_flag("--balance-training", options.balanceTraining,
                   "metis: as many labelled nodes and neighbours in each part");
    verb->add_option("--seed", options.seed, "Seed of blocks and parts")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_option("-o,--output", options.out, "Folder to write")->required()->type_name("DIR");
}

void addPlace(Command &command)
{
    PlaceOptions &options = command.place;
    CLI::App *verb = addVerb(command, "place", "Place samplers, trainers and servers of sampled training on machines",
                             "planloom place job.json --policy degree -o placement.json",
                             [&command](Output &output) { return place(command.place, output); });
    constexpr std::int64_t kMostProposals = std::int64_t{1} << 40;
    verb->add_option("job", options.job, "Job file: machines, roles, seconds, bytes or a graph")->required();
    verb->add_option("--policy", options.policy,
                     "How connections share a network card: static, degree, max-min, iteration-first")
        ->check(CLI::IsMember({"static", "degree", "max-min", "iteration-first"}))
        ->capture_default_str();
    verb->add_option(
            "--search", options.search,
            "initial: the first feasible placement; explore: from there by the load of the cards and by Markov "
            "chain Monte Carlo; exhaustive: all")
        ->check(CLI::IsMember({"initial", "explore", "exhaustive"}))
        ->capture_default_str();
    verb->add_flag(
        "--joint", options.joint,
        "Choose partition, exchange of gradients, cache of features and prefetch with the placement, and say what "
        "each was worth");
    verb->add_option("--proposals", options.proposals,
                     "Moves and swaps to try; default: 1000, fewer where a schedule has many steps")
        ->check(CLI::Range(std::int64_t{1}, kMostProposals));
    verb->add_option("--patience", options.patience, "Stop after so many proposals without a better placement")
        ->check(CLI::Range(std::int64_t{1}, kMostProposals));
    verb->add_option("--beta", options.beta,
                     "Inverse temperature, 1/seconds; default: 50 over the seconds of the first placement")
        ->check(finite() & CLI::PositiveNumber);
    verb->add_option("--seed", options.seed, "Seed of the search")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_option(
            "--trace", options.trace,
            "Write the timeline: FILE.json in Chrome's format, FILE.pftrace in Perfetto's, else Planloom's own")
        ->type_name("FILE");
    verb->add_option("-o,--output", options.out, "Placement file to write")->type_name("FILE");
}

/// A verb of `targets`; its name is the action.
CLI::App *addTargetsVerb(Command &command, CLI::App *parent, const char *action, const char *about)
{
    CLI::App *verb = parent->add_subcommand(action, about);
    verb->add_flag("--json", command.output.json, "Print only the result, as JSON, on stdout");
    verb->add_flag("--quiet", command.output.quiet, "Print no text for people and no progress, only errors");
    verb->callback([&command, action] { command.targets.action = action; });
    return verb;
}

void addRemote(Command &command)
{
    TargetsOptions &options = command.targets;
    CLI::App *verb = addVerb(command, "targets", "List, add, remove, check and clean up machines that runs can go to",
                             "planloom targets add lab ssh://ada@lab.example.org\n  planloom targets check lab",
                             [&command](Output &output) { return targets(command.targets, output); });
    verb->require_subcommand(0, 1);
    addTargetsVerb(command, verb, "list", "List the targets, as without a verb");
    CLI::App *add = addTargetsVerb(command, verb, "add", "Add a target, or change one");
    add->add_option("name", options.name, "Its name")->required();
    add->add_option("url", options.url, "ssh://user@host[:port]; user and port as ssh has them if left out")
        ->required();
    add->add_option("--program", options.program, "planloom over there, if it is not on the PATH of ssh's sessions")
        ->type_name("PATH");
    add->add_option("--ssh-config", options.sshConfig, "File for ssh -F instead of the user's own")->type_name("FILE");
    CLI::App *remove = addTargetsVerb(command, verb, "remove", "Remove a target from the list");
    remove->add_option("name", options.name, "Its name")->required();
    CLI::App *check = addTargetsVerb(command, verb, "check", "Say what is there and what is missing; installs nothing");
    check->add_option("name", options.name, "Its name, or a URL")->required();
    CLI::App *cleanVerb = addTargetsVerb(command, verb, "clean",
                                         "Remove what runs that ended have left there: their folders, data, models");
    cleanVerb->add_option("name", options.name, "Its name, or a URL")->required();
    cleanVerb
        ->add_option("--days", options.days, "What was written since then stays; 0: remove all, while no run starts")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();

    CLI::App *attachVerb =
        addVerb(command, "attach", "Follow a run on another machine again, until it ends; Ctrl-C ends the run",
                "planloom attach RUN --checkpoints newest",
                [&command](Output &output) { return attach(command.attach, output); });
    attachVerb->add_option("folder", command.attach.folder, "Its folder here, as train --on made it")
        ->required()
        ->type_name("FOLDER");
    attachVerb->add_option("--checkpoints", command.attach.checkpoints, "Fetch checkpoints, too: newest or all")
        ->check(CLI::IsMember({"newest", "all"}))
        ->type_name("WHICH");

    CLI::App *hostVerb =
        command.app.add_subcommand("host", "Answer a request of another machine's planloom; started by ssh")->group("");
    hostVerb->add_option("--keep", command.host.keep, "Run to keep");
    hostVerb->callback([&command] { command.process = [&command] { return host(command.host); }; });
}

void addProcesses(Command &command)
{
    CLI::App *agentVerb =
        command.app.add_subcommand("agent",
                                   "Serve training runs to studios and command lines on a private Unix socket");
    agentVerb->add_flag("--json", command.output.json,
                        "Accepted for uniformity: the agent's answers go over its socket");
    agentVerb->add_flag("--quiet", command.output.quiet, "Accepted for uniformity");
    agentVerb->footer("Example:\n  planloom agent --socket ~/agent.sock");
    agentVerb->add_option("--socket", command.agent.socket,
                          "Socket to make, with mode 0600; default: in a new private folder, printed on stdout");
    agentVerb
        ->add_option("--root", command.agent.root,
                     "Where runs without a folder go; default: ~/.local/share/planloom/runs")
        ->type_name("FOLDER");
    agentVerb->add_flag("--exit-with-parent", command.agent.exitWithParent, "End when standard input ends");
    agentVerb->callback([&command] { command.process = [&command] { return agent(command.agent); }; });

    CLI::App *workerVerb =
        command.app.add_subcommand("worker", "One training process of a run; started by an agent")->group("");
    workerVerb->add_option("--run-dir", command.worker.runDir, "Folder of the run")->required();
    workerVerb->add_option("--agent", command.worker.agent, "Socket of the agent")->required();
    workerVerb->callback([&command] { command.process = [&command] { return worker(command.worker); }; });

    CLI::App *transportVerb =
        command.app.add_subcommand("transport", "One of the ranks that measure messages; started by profile")
            ->group("");
    transportVerb->add_option("--out", command.transport.out, "File that rank 0 writes")->required();
    transportVerb->add_option("--nodes", command.transport.nodes, "Machine of each rank: measure links between them")
        ->delimiter(',')
        ->check(CLI::NonNegativeNumber);
    transportVerb->callback([&command] { command.process = [&command] { return transport(command.transport); }; });
}

/// Every exit status and what it means.
constexpr std::pair<int, const char *> kExitStatus[] = {
    {0, "done"},
    {1, "failed while running"},
    {2, "the input or the options are wrong"},
    {3, "a prediction passes a limit of simulate --fail-if"},
    {130, "stopped by Ctrl-C with the best result so far"},
};

std::string footer()
{
    std::string text = "planloom VERB --help shows a verb's options and an example.\nExit status: ";
    for (const auto &[status, meaning] : kExitStatus)
        text += fmt::format("{}{} {}", text.ends_with(' ') ? "" : status == 3 ? ",\n" : ", ", status, meaning);
    return text + ".";
}

/// The values that an option takes, where these are few: "NAME:{fp32,bf16}".
std::vector<std::string> choicesOf(const CLI::Option &option)
{
    const std::string type = option.get_type_name();
    const std::size_t begin = type.find('{');
    const std::size_t end = type.find('}', begin);
    if (begin == std::string::npos || end == std::string::npos)
        return {};
    return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

/// What a value is called: "FILE" of "FILE", "NUMBER" of "FLOAT:NUMBER"; empty where choices say it.
std::string valueOf(const CLI::Option &option)
{
    const std::string type = option.get_type_name();
    if (type.find('{') != std::string::npos)
        return {};
    const std::size_t colon = type.find(':');
    const std::string name = type.substr(0, colon);
    return name == "TEXT" ? "" : name == "INT" || name == "UINT" ? "N" : name == "FLOAT" ? "X" : name;
}

OptionOutline outlineOf(const CLI::Option &option)
{
    OptionOutline made{
        {}, option.get_description(), option.get_items_expected_max() != 0, choicesOf(option), valueOf(option)};
    for (const std::string &name : option.get_lnames())
        made.names.push_back("--" + name);
    for (const std::string &name : option.get_snames())
        made.names.push_back("-" + name);
    if (option.get_positional())
        made.names = {option.get_name()};
    return made;
}

/// The lines of a footer "Example:\n  planloom ...".
std::vector<std::string> examplesOf(const CLI::App &verb)
{
    std::vector<std::string> examples;
    for (const std::string &line : CLI::detail::split(verb.get_footer(), '\n'))
        if (const std::string text = CLI::detail::trim_copy(line); text.starts_with("planloom "))
            examples.push_back(text);
    return examples;
}

VerbOutline outlineOf(const CLI::App &verb)
{
    VerbOutline outline{verb.get_name(), verb.get_description(), {}, {}, {}, examplesOf(verb)};
    for (const CLI::Option *option : verb.get_options()) {
        if (!option->get_positional()) {
            outline.options.push_back(outlineOf(*option));
            continue;
        }
        outline.choices = outline.choices.empty() ? choicesOf(*option) : outline.choices;
        outline.operands.push_back(outlineOf(*option));
    }
    return outline;
}

/// The verbs that people call.
std::vector<VerbOutline> outlinesOf(const CLI::App &app)
{
    std::vector<VerbOutline> verbs;
    for (const CLI::App *verb : app.get_subcommands([](const CLI::App *) { return true; }))
        if (!verb->get_group().empty())
            verbs.push_back(outlineOf(*verb));
    return verbs;
}

Status completion(const Command &command, Output &output)
{
    const std::vector<VerbOutline> verbs = outlinesOf(command.app);
    const std::string script = command.shell == "zsh" ? zshCompletion(verbs) : bashCompletion(verbs);
    output.line(script.substr(0, script.size() - 1)); // which ends the line
    output.result(nlohmann::ordered_json{{"shell", command.shell}, {"script", script}});
    return {};
}

/// The man page, with the verbs of a verb ("targets add") behind it.
int manual(const CLI::App &app)
{
    Manual page{"planloom",
                PLANLOOM_VERSION,
                "plan, simulate and run the parallel training of neural networks",
                "VERB [OPTION...]",
                {},
                {},
                {},
                {"planloom-studio(1)"}};
    for (const CLI::App *verb : app.get_subcommands([](const CLI::App *) { return true; })) {
        if (verb->get_group().empty())
            continue;
        page.verbs.push_back(outlineOf(*verb));
        for (const CLI::App *inner : verb->get_subcommands([](const CLI::App *) { return true; })) {
            page.verbs.push_back(outlineOf(*inner));
            page.verbs.back().name = verb->get_name() + " " + inner->get_name();
        }
    }
    for (const auto &[status, meaning] : kExitStatus)
        page.status.emplace_back(std::to_string(status), meaning);
    page.files = {{"~/.local/share/planloom/runs", "Runs without a folder of their own"},
                  {"/usr/share/planloom/docs", "Documentation: the tour, formats of files, planners"},
                  {"/usr/share/planloom/samples", "A plan, clusters and models to try"}};
    const std::string text = manualPage(page);
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}

void addManual(Command &command)
{
    CLI::App *verb = command.app.add_subcommand("manual", "Print the man page; for packages")->group("");
    verb->callback([&command] { command.process = [&command] { return manual(command.app); }; });
}

void addCompletion(Command &command)
{
    CLI::App *verb = addVerb(command, "completion", "Print a script with which a shell completes verbs and options",
                             "planloom completion bash > ~/.local/share/bash-completion/completions/planloom",
                             [&command](Output &output) { return completion(command, output); });
    verb->add_option("shell", command.shell, "Shell that is to complete")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh"}));
}

Status parseSettings(Command &command)
{
    for (const auto &setting : command.planSet) {
        const auto equals = setting.find('=');
        if (equals == std::string::npos || equals == 0)
            return badInput(fmt::format("--set {} is not KEY=VALUE; see planloom planners for the keys", setting));
        if (!command.plan.set.emplace(setting.substr(0, equals), setting.substr(equals + 1)).second)
            return badInput(fmt::format("--set {} is given twice; leave one out", setting.substr(0, equals)));
    }
    return {};
}

int statusOf(const Error &error)
{
    switch (error.code) {
    case ErrorCode::BadInput:
    case ErrorCode::NotFound:
    case ErrorCode::Unsupported:
    case ErrorCode::Infeasible: return 2;
    case ErrorCode::Cancelled:
    case ErrorCode::Io:
    case ErrorCode::Failed: return 1;
    }
    return 1;
}

int report(const Error &error)
{
    say(fmt::format("planloom: error: {}\n", printable(error.text())));
    return statusOf(error);
}

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

int parseFailure(const Command &command, const CLI::ParseError &failure)
{
    if (failure.get_exit_code() == 0) // --help, --version
        return command.app.exit(failure) == 0 && std::fflush(stdout) == 0 ? 0 : 1;
    const auto verbs = command.app.get_subcommands();
    const std::string help = verbs.empty() ? "planloom --help" : "planloom " + verbs.front()->get_name() + " --help";
    return report(badInput(fmt::format("{}; see {}", firstLine(failure.what()), help)));
}

/// CLI11 reports an unknown verb as a missing one; this names it.
Status checkVerb(const Command &command, int argc, char **argv)
{
    if (argc < 2)
        return {};
    if (argv[1][0] == '-')
        return command.app.get_option_no_throw(argv[1])
            ? Status()
            : badInput(
                fmt::format("there is no option '{}' in front of a verb; planloom --help shows the verbs", argv[1]));
    std::string known;
    for (const CLI::App *verb : command.app.get_subcommands([](const CLI::App *) { return true; })) {
        if (verb->get_name() == argv[1])
            return {};
        if (!verb->get_group().empty())
            known += (known.empty() ? "" : ", ") + verb->get_name();
    }
    return notFound(fmt::format("there is no verb '{}'; choose one of {}", argv[1], known));
}

/// The exit status.
Result<int> runVerb(Command &command)
{
    if (auto good = parseSettings(command); !good)
        return good.error();
    catchInterrupts();
    const bool toStandardOutput = command.plan.out == kStandardStream || command.simulate.out == kStandardStream
        || command.edit.out == kStandardStream;
    if (toStandardOutput && command.output.json)
        return badInput("-o - and --json both write to standard output; leave one out");
    command.output.quiet = command.output.quiet || toStandardOutput;
    Output output(command.output);
    if (auto done = command.chosen(output); !done)
        return done.error();
    if (auto written = output.finish(); !written)
        return written.error();
    return output.isStoppedEarly() ? kStoppedEarly : output.isLimitPassed() ? kLimitPassed : 0;
}

} // namespace

int run(int argc, char **argv)
{
    Command command;
    command.app.set_version_flag("--version", "planloom " PLANLOOM_VERSION);
    command.app.require_subcommand(1);
    command.app.footer(footer());
    addBuiltIn(command);
    addInspect(command);
    addPlan(command);
    addSimulate(command);
    addEdit(command);
    addQuery(command);
    addProfile(command);
    addTrain(command);
    addRest(command);
    addGraph(command);
    addPlace(command);
    addRemote(command);
    addProcesses(command);
    addCompletion(command);
    addManual(command);
    if (auto good = checkVerb(command, argc, argv); !good)
        return report(good.error());
    try {
        command.app.parse(argc, argv);
    } catch (const CLI::ParseError &failure) {
        return parseFailure(command, failure);
    }
    if (command.process)
        return command.process();
    try {
        const Result<int> done = runVerb(command);
        return done ? *done : report(done.error());
    } catch (const std::bad_alloc &) {
        return report(failed("there is not enough memory; close other programs or use a smaller model"));
    } catch (const std::exception &unexpected) { // a library's: ours do not throw across folders
        return report(failed(fmt::format("an unexpected failure: {}", unexpected.what())));
    }
}

} // namespace planloom::cli
