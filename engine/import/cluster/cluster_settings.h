// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/import/import.h"

#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// A cluster's file and what is said behind its name.
struct ClusterSource {
    std::string file;
    ClusterSettings settings;
    std::vector<std::string> given; ///< keys, in their order
};

/// Cuts "FILE,KEY=VALUE,..." apart; a file whose name has commas is taken as it is. Errors (BadInput): a key that does
/// not exist or is given twice, a value that is none.
Result<ClusterSource> parseClusterSource(const std::string &source);

/// How a cluster's file is written.
enum class ClusterFormat { None, Yaml, Nccl, Smi, Slurm };

/// By the file's name and its text.
ClusterFormat clusterFormat(const std::string &name, std::string_view text);

/// Keys that files of @p format leave open.
const std::vector<ClusterSettingInfo> &settingsOf(ClusterFormat format);

/// The type that @p gpu names: a built-in one or a product's name. Error (NotFound): with the names that exist.
Result<cluster::DeviceType> gpuType(const std::string &gpu);

/// False: at least one GPU of the output of `nvidia-smi topo -m` has a type that the text does not tell.
bool namesEveryGpu(std::string_view text);

} // namespace planloom::import
