// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"

namespace planloom::import {

/// The model behind "zoo:NAME". vgg-19 is the executable network with the published layer times of DAPPLE's profile
/// beside it. Error: NotFound that lists the names.
Result<Model> zooModel(const std::string &name, const ModelOptions &options = {});

} // namespace planloom::import
