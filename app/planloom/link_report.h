// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/base/result.h"
#include "engine/cluster/cluster.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace planloom::cli {

/// Prints the links of two clusters, of which @p second has the first one's nodes: inside of each machine and between
/// every two, the first 64 of them; returns all as JSON. Error: BadInput (other nodes).
Result<nlohmann::ordered_json> reportLinks(const cluster::Cluster &first, const cluster::Cluster &second,
                                           const std::vector<std::string> &names, Output &output);

/// Whether @p source is a cluster: a preset, this machine, or a file of a form that only clusters have.
bool isCluster(const std::string &source);
/// `compare` of two clusters, such as one with nominal and one with measured links.
Status compareClusters(const std::string &a, const std::string &b, Output &output);

} // namespace planloom::cli
