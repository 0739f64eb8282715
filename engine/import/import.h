// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/cost.h"
#include "engine/graph/graph.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// A model and, where the source has them, the times of its layers.
struct Model {
    std::shared_ptr<const graph::Graph> graph;
    std::shared_ptr<const cost::Profile> profile; ///< may be null
    std::string source;                           ///< "zoo:gpt2", or the file with its whole path
    std::vector<std::string> warnings;            ///< parts that were kept but not understood
    std::string noLoss = {};                      ///< why no loss could be told, with the remedy; empty: there is one
};

/// What a model file leaves open.
struct ModelOptions {
    std::int64_t sequence = 0;          ///< tokens of a sample; 0: as many as the model was made for, within reason
    std::vector<std::string> loss = {}; ///< of a model that has none: loss/choice.h; empty: by what it ends in
    double profileSamples = 0; ///< of a layer profile that does not say: samples that its times are of; 0: not given
};

/// Reads @p source: "zoo:NAME", FILE.onnx, config.json of Hugging Face (with the safetensors that lie beside
/// it), a layer profile
/// (.txt), our own graph JSON.
/// Errors: NotFound (with the names that exist), BadInput (file, line, fix; a sequence that the model cannot have),
/// Unsupported, Io.
Result<Model> loadModel(const std::string &source, const ModelOptions &options = {});
/// @p graph as a plan file holds it, which leaves large first values of parameters out, with these: from the model's
/// file @p source, read again. Graphs that lack none and built-in models come back as they are. Errors: those of
/// loadModel, BadInput for a file that is no longer the model.
Result<std::shared_ptr<const graph::Graph>> withFirstValues(std::shared_ptr<const graph::Graph> graph,
                                                            const std::string &source);

/// What the file of a cluster may leave open; said behind its name: "topology.conf,gpu=H100-SXM,gpus=8,network=50GB/s".
struct ClusterSettings {
    std::string gpu;    ///< type of every GPU, or a product's name; empty: not given
    int gpus = 0;       ///< of a node; 0: not given
    int ports = 0;      ///< of a node, into the network; 0: one
    double network = 0; ///< bytes/s of a port and direction; 0: not given
    double uplink = 0;  ///< bytes/s of a switch into the one above, per direction; 0: as much as all nodes beneath it
    double intra = 0;   ///< bytes/s of a GPU inside of its node, per direction; 0: by its type
};

/// A setting, for forms and help.
struct ClusterSettingInfo {
    enum class Kind : std::uint8_t { Gpu, Count, Rate };
    std::string key;   ///< "gpu"
    std::string about; ///< a label, with its default
    Kind kind = Kind::Gpu;
    bool required = false;
};

inline constexpr std::int64_t kLargestClusterFile = 64 << 20; ///< bytes

/// "preset:NAME", "local[:N]", .yaml/.yml/.json, NCCL .xml, text of `nvidia-smi topo -m`, Slurm's topology.conf; the
/// latter two with settings behind the file's name. Errors: NotFound, BadInput (file, line, fix), Unsupported, Io.
Result<std::shared_ptr<const cluster::Cluster>> loadCluster(const std::string &source);
/// All settings of the file that @p source names where one that it needs is not given; empty: nothing is missing, or
/// the file cannot be read. Reads the file.
std::vector<ClusterSettingInfo> openClusterSettings(const std::string &source);
/// @p source without settings behind the file's name.
std::string clusterFileOf(const std::string &source);
/// True if a line of @p text, its first that says something, is one of Slurm's topology.conf.
bool isSlurmTopology(std::string_view text);
/// True if a file called @p name that begins with @p head is a text that describes a cluster: Slurm's or nvidia-smi's.
bool looksLikeCluster(const std::string &name, std::string_view head);
/// Names behind "zoo:", with one line on each.
struct ZooEntry {
    std::string name;
    std::string about;
};
std::vector<ZooEntry> zooEntries();

// The readers themselves, on bytes, for tests and fuzzing. @p name is used in errors.
Result<Model> readOnnx(std::string_view bytes, const std::string &name, const std::string &folder,
                       const std::vector<std::string> &loss = {});
Result<Model> readHuggingFaceConfig(std::string_view text, const std::string &name, const ModelOptions &options = {});
/// Text profiles of the DAPPLE and PipeDream repositories; the contents decide which of the two. @p profileBatch
/// 0: from the file name ("...-pbs-32.txt"), else the model's sample is what the figures are of, one minibatch
/// (graph/layer_profile.h). Layers that work in place are found by their descriptions and times.
Result<Model> readLayerProfile(std::string_view text, const std::string &name, double profileBatch = 0);
Result<cluster::Cluster> readClusterYaml(std::string_view text, const std::string &name);
Result<cluster::Cluster> readNcclTopology(std::string_view text, const std::string &name);
/// GPUs that the text does not name are of the type in @p settings. Errors: BadInput, Unsupported (no type is known).
Result<cluster::Cluster> readNvidiaSmiTopology(std::string_view text, const std::string &name,
                                               const ClusterSettings &settings = {});
/// Slurm's topology.conf (topology/tree): switches and the nodes beneath them, all alike by @p settings. Errors:
/// BadInput (line, fix; a setting that is missing), Unsupported (topology/block, Include).
Result<cluster::Cluster> readSlurmTopology(std::string_view text, const std::string &name,
                                           const ClusterSettings &settings);
/// This machine by hwloc: its GPUs, or @p cpuDevices devices that share its cores and memory evenly (0: all cores as
/// one).
Result<cluster::Cluster> localCluster(int cpuDevices);

} // namespace planloom::import
