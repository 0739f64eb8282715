// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/cost.h"
#include "engine/graph/graph.h"
#include "engine/graph/layers.h"
#include "engine/plan/admm_training.h"
#include "engine/plan/annotation.h"
#include "engine/plan/exchange.h"
#include "engine/plan/memory.h"
#include "engine/plan/sampled_job.h"
#include "engine/plan/why.h"
#include "engine/schedule/schedule.h"
#include "engine/update/configured_rule.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::plan {

/// Order of forward and backward passes on each stage.
enum class ScheduleKind : std::uint8_t {
    GPipe,           ///< all forwards, then all backwards; K_i = min(D, micro-batches) where `warmup` caps them
    OneF1B,          ///< 1f1b: stage i of S warms up with K_i = min(S - i, D) forwards, then alternates
    DappleA,         ///< DAPPLE §5.3 policy A: K_i = min(S - i, D)
    DappleB,         ///< DAPPLE §5.3 policy B: K_i = min(2(S - i) - 1, D)
    Interleaved1F1B, ///< several stages a device, taken in turn (Narayanan et al., 2021, §2.2)
    ZeroBubbleH1,    ///< backward passes cut into gradients of inputs and of weights, these filling the bubbles (Qi et
                     ///< al., 2024, ZB-H1)
    Custom,          ///< as listed in `order`
};
const char *name(ScheduleKind kind);
std::optional<ScheduleKind> scheduleFromName(std::string_view text);
std::vector<std::string> scheduleNames();

/// The order of the passes of micro-batches.
struct Schedule {
    ScheduleKind kind = ScheduleKind::OneF1B;
    std::vector<int>
        warmup; ///< per stage: forwards before the first backward; empty: from the kind. Caps (D) are applied here
    std::map<std::string, std::vector<schedule::PassStep>> order; ///< Custom: device name -> its passes in order
    std::string lanePolicy =
        {}; ///< who goes first on a link that several transfers wait for (engine/dispatch); empty: fifo
};

/// The part of a stage's forward pass that runs a second time, in the backward pass, so that less is kept in between.
enum class Recompute : std::uint8_t {
    None,      ///< everything that backward reads is kept
    Selective, ///< the core of attention, block by block (Korthikanti et al., 2022, §5): what goes into it is kept,
               ///< what it makes is not
    Layers,    ///< each layer keeps its inputs only, and runs again right before its own backward
    Full,      ///< the stage keeps its inputs only, and runs again as a whole before its backward
};
const char *name(Recompute recompute); ///< "none", "selective", "layers", "full"
std::optional<Recompute> recomputeFromName(std::string_view text);

/// A run of layers and the devices that replicate it. Each micro-batch is cut into one slice per replica (DAPPLE §5.2).
/// Several stages may lie on the same devices ("virtual stages", Narayanan et al., 2021), listed alike and as the same
/// mesh; else a device belongs to one stage.
struct Stage {
    std::string name;
    std::size_t firstLayer = 0;
    std::size_t lastLayer = 0;         ///< one past the end
    std::vector<DeviceId> devices;     ///< replicas, in slice order
    std::vector<double> replicaShares; ///< sums to 1; empty: equal
    Recompute recompute = Recompute::None;
    /// Devices as a mesh, row-major; empty: {devices.size()}. Dimension 0 is data parallel: its coordinate is the
    /// replica, each micro-batch is cut along it. Devices that differ only in the others share a slice and hold parts
    /// of tensors.
    std::vector<int> mesh;
    /// Tensor name, or a pattern with `*` -> SBP text, one component per mesh dimension ("B,S(1)"). Parameters and
    /// activations that are not named follow from those that are (engine/sharding). The first component is S(0) for
    /// what carries the batch and B for parameters.
    std::map<std::string, std::string> shardings;
    /// ZeRO (Rajbhandari et al., 2020) over mesh dimension 0: 1 shards optimizer state, 2 gradients too, 3 parameters
    /// too.
    int zero = 0;
    /// Slots of the buffers at this stage's ends: micro-batches that may be in flight towards it (OneFlow's registers);
    /// 0: as many as the schedule can use. At least 1.
    int registers = 0;
    Memory memory = {}; ///< what leaves the devices for want of room, while the stage trains

    [[nodiscard]] std::size_t replicas() const
    {
        return mesh.empty() ? devices.size() : static_cast<std::size_t>(mesh.front());
    }
    /// Devices that share one replica's slice.
    [[nodiscard]] std::size_t shards() const { return replicas() == 0 ? 1 : devices.size() / replicas(); }
};

/// Number format of activations and matrix products. Master weights, gradients, optimizer state and statistics stay
/// float32.
enum class Precision : std::uint8_t { Float32, BFloat16 };
const char *name(Precision precision); ///< "fp32", "bf16"
std::optional<Precision> precisionFromName(std::string_view text);

/// The learning rate over the run, as a factor of Optimizer::learningRate.
struct LearningRateSchedule {
    enum class Kind : std::uint8_t { Constant, Linear, Cosine };
    Kind kind = Kind::Constant;
    std::int64_t warmupSteps = 0; ///< rises linearly from 1/(warmupSteps + 1)
    std::int64_t totalSteps = 0;  ///< where the fall ends; 0: the run's last step
    double minimum = 0;           ///< the factor at the end of the fall
};

/// Settings of the parameters that match; the first group that matches a parameter counts.
struct ParameterGroup {
    std::string match; ///< a name, a pattern with `*`, or "rank<2": biases and norms
    double weightDecay = 0;
    double learningRateFactor = 1;
};

/// How gradients change parameters: the update rule, its rates, and groups that differ.
struct Optimizer {
    update::ConfiguredRule rule; ///< with its settings; a new one is AdamW
    double learningRate = 3e-4;
    double weightDecay = 0.01;
    double clipNorm = 0; ///< gradients are scaled down to this 2-norm over all parameters; 0: never
    LearningRateSchedule schedule;
    std::vector<ParameterGroup> groups;
};

/// Steps by gradients behind others that are trained otherwise.
struct Continuation {
    std::int64_t after = 1; ///< steps before it
    Optimizer optimizer;    ///< which begins then: its steps and learning rate count from there
};

/// How the plan was found.
struct PlannerInfo {
    std::string name; ///< "dapple", "manual"
    std::map<std::string, std::string> options;
    double searchSeconds = 0;
};

/// A planner's own idea of its plan, kept beside the simulator's. Keys are those of the JSON contract:
/// iteration_seconds, speedup_over_one_device, and what else it computes.
using Estimate = std::map<std::string, double>;

/// How a model is spread over a cluster and in which order it computes. A plain value: edit a copy, then validate().
struct Plan {
    std::string modelName;   ///< "gpt2"
    std::string modelSource; ///< "zoo:gpt2" or a path
    std::string clusterName;
    PlannerInfo planner;
    std::vector<Annotation> annotations; ///< the user's; planners that take them made the stages so, and
                                         ///< the next planning starts from them
    std::int64_t globalBatch = 1;
    std::int64_t microBatches = 1;
    std::vector<Stage> stages;
    Schedule schedule;
    Exchange exchange;
    /// Replicas sum up their gradients in buckets of about so many bytes, each as soon as the last of its gradients is
    /// there; 0: all at once. What PyTorch's DistributedDataParallel takes (bucket_cap_mb=25).
    std::int64_t bucketBytes = kBucketBytes;
    static constexpr std::int64_t kBucketBytes = 25 << 20;
    Precision precision = Precision::Float32;
    Optimizer optimizer;
    std::optional<admm::Settings> admm; ///< trains by ADMM, all samples at once; none: by gradients
    std::optional<Continuation> then;   ///< of ADMM: from some step on the same replicas train by gradients
    std::optional<SampledJob> job; ///< the stage's replicas train on mini-batches that samplers send them; none: each
                                   ///< reads its own samples
    std::vector<PlacedRole> roles; ///< of the job: its graph stores, then its samplers
    Estimate estimate;
    std::string predictedJson; ///< the simulator's report as `simulate --json` prints it; empty if not simulated
    std::optional<Why> why;    ///< what the simulated time consists of; absent if it was not computed

    [[nodiscard]] bool replicated(StageId stage) const { return stages[stage.index()].replicas() > 1; }
};

/// The subject of a plan: everything that is needed to validate, simulate and train it. Snapshots, shared.
struct Subject {
    std::shared_ptr<const graph::Graph> graph;
    std::shared_ptr<const cluster::Cluster> cluster;
    std::shared_ptr<const cost::Profile> profile; ///< may be null
    std::shared_ptr<const cost::CostModel> costs; ///< of the three
    std::string modelSource;                      ///< "zoo:gpt2" or a path
    [[nodiscard]] const graph::LayerView &layers() const { return costs->layers(); }
};
Subject makeSubject(std::shared_ptr<const graph::Graph> graph, std::shared_ptr<const cluster::Cluster> cluster,
                    std::shared_ptr<const cost::Profile> profile, std::string modelSource);
/// The same, with costs of computing in @p precision.
Subject inPrecision(const Subject &subject, Precision precision);

/// A plan with its subject: the content of a plan file.
struct Document {
    Plan plan;
    Subject subject;
};

/// Slices of a micro-batch: how many of global batch's samples micro-batch @p m has, and where they begin in the batch.
/// Sizes differ by at most one (larger ones first). Replica slices are cut by replicaShares the same way (largest
/// remainder).
struct SampleRange {
    std::int64_t begin = 0;
    std::int64_t size = 0;
};
SampleRange microBatchRange(const Plan &plan, std::int64_t microBatch);
/// Slice of @p replica within a micro-batch of @p samples.
SampleRange replicaRange(const Stage &stage, std::size_t replica, std::int64_t samples);
/// The sizes of all of them, at the cost of one where shares are given.
std::vector<std::int64_t> replicaSizes(const Stage &stage, std::int64_t samples);

/// Stages by where they lie: for each list of devices, in the order of first appearance, the stages on it, in the order
/// of the pipeline.
std::vector<std::vector<std::size_t>> stageGroups(const Plan &plan);
/// The devices of all stages, each once, in the order of the ranks that a Program has for them.
std::vector<DeviceId> devicesOf(const Plan &plan);
/// True if stage @p stage has passes of its own for the gradients of weights: in zero-bubble schedules, and custom
/// orders that name one.
bool splitsBackward(const Schedule &schedule, std::size_t stage);

/// Warm-up depth of each stage, from the kind or as given: forwards before the first backward, at least 1, at most
/// microBatches.
std::vector<int> warmupDepths(const Plan &plan);

/// Errors (BadInput), each naming the stage and field: stages that leave out or repeat a layer, unknown or repeated
/// devices, no micro-batch, more micro-batches than samples, a replica without a sample, shares that do not sum to 1,
/// unknown kinds, orders that miss a task, annotations of scopes that are not there or nest.
Status validate(const Plan &plan, const Subject &subject);

/// The changes from @p a to @p b, a line each, for people ("stage 1: layers 18..36 -> 16..36").
std::vector<std::string> difference(const Plan &a, const Plan &b);

/// A short form in the literature's notation: "8:8 (18:18)", "straight", "DP".
std::string notation(const Plan &plan);

/// How papers count the layers of the stages: only the model's repeated blocks (layer_0, layer_1 ...; h/0, h/1 ...),
/// "18:18". Empty for one stage, and for a model of which no numbered series is more than half.
std::string blockSplit(const Plan &plan, const graph::LayerView &layers);

/// The plan file (`planloom.plan/1`, resources/docs/formats/plan.md). It embeds graph, cluster and profile (large
/// weights stay outside, named by file and sha256). fromJson validates; errors name the line and field.
std::string toJson(const Document &document);
Result<Document> documentFromJson(std::string_view text);
Result<Document> readPlan(const std::string &path);
Status writePlan(const Document &document, const std::string &path);

} // namespace planloom::plan
