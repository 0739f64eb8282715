// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/source.h"
#include "engine/program/program.h"

#include <optional>

namespace planloom::compile {

/// The parameter server of training by ADMM whose workers go on alone; none otherwise. What solves a version costs what
/// the operators would.
Result<std::optional<program::ParameterServer>> serverOf(const Source &source);

/// Who brings the samples of a plan with roles (plan::Plan::job); none otherwise.
std::optional<program::SampledRoles> sampledRolesOf(const Source &source);

} // namespace planloom::compile
