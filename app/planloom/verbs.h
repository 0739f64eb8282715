// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/base/result.h"
#include "engine/gnn/graph_data.h"
#include "engine/run/settings.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace planloom::cli {

// A verb is a function from its options to an exit: it prints through Output and returns its error. One file each, of
// the verb's name.

Status models(Output &output);
Status planners(Output &output);
Status clusters(Output &output);

/// `--framework`, `--attention` and `--dropout`: how a framework computes beside plans (cost/framework.h).
struct FrameworkChoice {
    std::string name;              ///< empty: none
    std::string attention;         ///< "fused" or "unfused"; empty: the framework's, else the model's
    std::optional<double> dropout; ///< unset: likewise
};

/// Command line of `inspect`.
struct InspectOptions {
    std::string what;              ///< a file, a run's folder, zoo:NAME, preset:NAME, local[:N]
    std::int64_t sequence = 0;     ///< of a model; 0: its own
    std::vector<std::string> loss; ///< of a model without one; empty: by what it ends in
    double profileSamples = 0;     ///< of a layer profile that does not say them; 0: not given
    std::string plan;              ///< or a run, which another program's trace is laid over; empty: none
};
Status inspect(const InspectOptions &options, Output &output);

/// Command line of `plan`.
struct PlanOptions {
    std::string model;
    std::int64_t sequence = 0;     ///< tokens of a sample; 0: the model's own
    std::vector<std::string> loss; ///< of a model without one; empty: by what it ends in
    double profileSamples = 0;     ///< of a layer profile that does not say them; 0: not given
    std::string cluster;
    std::string profile; ///< empty: none
    FrameworkChoice framework;
    std::string from; ///< another program's configuration to make the plan of, with planner manual; empty: none
    std::string planner = "dapple";
    std::int64_t batch = 0;
    std::optional<std::int64_t> microBatch;
    std::map<std::string, std::string> set;
    std::string graph;                 ///< folder of the graph that is sampled, for planner gnn; empty: none
    std::vector<std::string> annotate; ///< "h/3=split:4"
    std::string optimizer = "adamw";   ///< with settings: "adamw,beta2=0.95"
    bool optimizerGiven = false;       ///< by the user, if only by one of its settings
    std::optional<double> learningRate;
    std::optional<double> momentum;
    std::optional<double> weightDecay;
    std::vector<std::string> noDecay; ///< parameters without weight decay: names, patterns, rank<N
    double clipNorm = 0;
    std::string learningRateSchedule = "constant";
    std::int64_t warmupSteps = 0;
    std::int64_t decaySteps = 0;    ///< where the fall of the learning rate ends; 0: the run's last step
    double minimumLearningRate = 0; ///< as a factor
    std::string precision = "fp32";
    std::string memory = "limit"; ///< "ignore": search as if devices held every plan; else a policy, plan::Memory
    int zero = 0;
    bool largestBatch = false; ///< --batch times the largest number with which the plan fits, in one micro-batch
    std::string exchange;      ///< "dasgd,local_steps=4,delay=auto"; empty: the planner's
    std::string out;           ///< plan file; empty: none
    std::string workspace;
};
Status plan(const PlanOptions &options, Output &output);

/// Command line of `simulate`.
struct SimulateOptions {
    std::string plan;
    FrameworkChoice framework; ///< beside what the plan file has
    std::string trace;         ///< .json: Chrome's format, .pftrace: Perfetto's, else ours; empty: none
    std::string csv;           ///< table of the tasks; empty: none
    std::string order;         ///< PyTorch's schedule in CSV, instead of the plan's; empty: none
    std::string out;           ///< plan file to write; empty: none
    std::string times;         ///< file with what a run has measured; empty: none
    std::string decisions;     ///< file for what memory policies decide; empty: none
    std::string failIf;        ///< limits that the prediction may not pass (gate.h); empty: none
};
Status simulate(const SimulateOptions &options, Output &output);

/// Command line of `edit`.
struct EditOptions {
    std::string plan;             ///< file, or the folder of a run
    std::vector<std::string> set; ///< "stages.1.layers=6-11", in order
    std::string out;              ///< plan file to write; empty: none
};
Status edit(const EditOptions &options, Output &output);

/// Command line of `query`.
struct QueryOptions {
    std::string what; ///< a trace, the folder of a run, or a plan, whose prediction it is
    std::string sql;  ///< one SELECT
};
Status query(const QueryOptions &options, Output &output);

/// Command line of `profile`.
struct ProfileOptions {
    std::string model;             ///< or a plan
    std::int64_t sequence = 0;     ///< of the model; 0: its own
    std::vector<std::string> loss; ///< of the model, if it has none; empty: by what it ends in
    std::string plan;              ///< the model, the sizes of its slices and its number of ranks
    std::string graph;             ///< folder: what samplers and stores of the plan do on it is measured, too
    std::string data;              ///< with a plan: whose rows of tables are counted; empty: none are
    std::string device = "cpu";
    std::vector<std::int64_t> samples; ///< empty: those of the plan, or a few small ones
    int ranks = 0;                     ///< 0: those of the plan, or one
    int threads = 0;
    int repetitions = 0;
    std::string out;
    std::string workspace;
    std::string on;      ///< target to measure on; empty: this machine
    std::string cluster; ///< whose links are measured; empty: those of the plan's hosts
    std::string links;   ///< cluster file to write, with measured links; empty: none
};
Status profile(const ProfileOptions &options, Output &output);

/// Command line of `train`.
struct TrainOptions {
    std::string plan; ///< or the folder of a run to resume
    run::Settings settings;
    std::string kernels;         ///< seconds, as given; settings has them
    std::set<std::string> given; ///< keys of the settings that were given
    std::string runDir;          ///< empty: a new folder in the agent's place for runs
    bool resume = false;         ///< settings that are not given are as the run began
    std::string agent;           ///< socket of an agent that is running; empty: a child of this process
    std::string on;              ///< a target's name or URL; empty: this machine
    std::string workspace;
    std::string decisions; ///< file for what memory policies did, step by step; empty: none
};
Status train(const TrainOptions &options, Output &output);

/// Command line of `attach`.
struct AttachOptions {
    std::string folder;      ///< of a run that `train --on` has started
    std::string checkpoints; ///< fetched, too: newest, all; empty: none
};
Status attach(const AttachOptions &options, Output &output);

/// Command line of `targets`.
struct TargetsOptions {
    std::string action = "list"; ///< list, add, remove, check, clean
    std::string name;
    std::string url;
    std::string program;   ///< over there; empty: planloom
    std::string sshConfig; ///< for ssh -F; empty: the user's own
    double days = 30;      ///< since what is cleaned up was last written
};
Status targets(const TargetsOptions &options, Output &output);

/// Command line of `compare`: two plans, runs, traces or reports, or a plan and another program's trace.
struct CompareOptions {
    std::string a;
    std::string b;
};
Status compare(const CompareOptions &options, Output &output);
/// Whether @p path is a report of the benchmark 'gpu'.
bool isGpuCheck(const std::string &path);
Status compareGpuChecks(const CompareOptions &options, Output &output);

/// Command line of `export`.
struct ExportOptions {
    std::string what; ///< a plan file or a run's folder
    std::string format;
    std::string out;
    std::string dtype = "fp32"; ///< of weights
};
Status exportTo(const ExportOptions &options, Output &output);

/// Command line of `graph`.
struct GraphOptions {
    std::string kind;             ///< debian, sbm, karate
    std::string packages;         ///< debian: list of packages; empty: apt's own
    std::int64_t width = 0;       ///< debian, sbm: features of a node; 0: 64 and 16
    gnn::BlockModel blocks;       ///< sbm; its width and its seed are in the other fields
    std::int32_t parts = 0;       ///< 0: not partitioned
    std::string method = "metis"; ///< of making parts
    bool balanceTraining = false;
    std::int64_t seed = 1; ///< of the block model and of the parts
    std::string out;
};
Status graph(const GraphOptions &options, Output &output);

/// Command line of `place`.
struct PlaceOptions {
    std::string job;
    std::string policy = "degree";
    std::string search = "explore"; ///< initial, explore, exhaustive
    bool joint = false;             ///< choose partition, exchange, cache and prefetch, too
    std::int64_t proposals = 0;     ///< 0: 1,000, fewer for large jobs
    std::int64_t patience = 0;      ///< 0: all proposals
    double beta = 0;                ///< 0: from the first placement
    std::int64_t seed = 1;
    std::string out;   ///< file of the placement; empty: none
    std::string trace; ///< file of the timeline: .json: Chrome's format, else ours; empty: none
};
Status place(const PlaceOptions &options, Output &output);

/// Command line of `bench`.
struct BenchOptions {
    std::string name; ///< empty: list them
    // Of the benchmark 'gpu'.
    std::string out;                ///< file of its report; empty: none
    std::vector<std::string> timed; ///< "MODEL,BATCH,MICRO-BATCH,PRECISION" or "none"; empty: its own
    std::string python;             ///< command with PyTorch; empty: python3
    bool full = false;
};
/// Becomes the benchmark's process.
Status bench(const BenchOptions &options, Output &output);

/// Command line of `agent`.
struct AgentOptions {
    std::string socket;
    std::string root;
    bool exitWithParent = false;
};
/// Serves until it is told to end; its exit status.
int agent(const AgentOptions &options);

/// Command line of `host`, which ssh starts for another machine's planloom.
struct HostOptions {
    std::string keep; ///< id of a run to keep; empty: answer a request
};
/// Its exit status.
int host(const HostOptions &options);

/// Command line of `worker`, which the agent starts on every rank.
struct WorkerOptions {
    std::string runDir;
    std::string agent;
};
/// Its exit status is the worker's.
int worker(const WorkerOptions &options);

/// Command line of `transport`, which `profile` starts on every rank.
struct TransportOptions {
    std::string out;
    std::vector<int> nodes; ///< of each rank, whose links are measured; empty: curves of one machine
};
/// One of the ranks that `profile` starts to measure messages and collectives; its exit status.
int transport(const TransportOptions &options);

} // namespace planloom::cli
