// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::import {

/// One layer of a published layer profile, as the file gives it: figures for the whole profile batch.
struct ProfileLayerSpec {
    std::string name; ///< unique; may not be empty
    double forwardMs = 0;
    double backwardMs = 0;
    double outputBytes = 0;          ///< output activation at the profile batch
    double parameterBytes = 0;       ///< fp32
    std::vector<std::size_t> inputs; ///< indices of earlier or later layers; none: the layer reads the model's input
    bool inPlace = false;            ///< its output takes the place of an input
};

/// A model made of opaque ProfiledLayer operators, one planner layer each, with their times as its profile. Parameters
/// and outputs are fp32: their bytes are rounded to whole elements, outputs per sample. Without a profile batch a
/// sample is what the figures are of, one minibatch. Errors (BadInput), naming the layer: no layers, duplicate or empty
/// names, a negative or non-finite figure, a missing input, a cycle, a profile batch below 1.
Result<Model> profileModel(const std::string &name, std::optional<double> profileBatch,
                           const std::vector<ProfileLayerSpec> &layers);

/// The layer profiles behind "zoo:": vgg-19-layers, xlnet-36, bert-48, amoebanet-36, gnmt-16. Error: NotFound that
/// lists the names.
Result<Model> zooProfile(const std::string &name);
std::vector<ZooEntry> zooProfileEntries();

} // namespace planloom::import
