// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cost/cost.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace planloom::cost {

/// What a training framework does beside what plans say, as a set of facts: documented features and few fitted figures
/// (resources/docs/cost.md). Immutable.
struct Framework {
    std::string name;                    ///< "megatron-2021"
    std::string about;                   ///< one line
    std::optional<bool> fusedAttention;  ///< of the models that it trains; unset: as the model has it
    std::optional<double> dropout;       ///< likewise
    std::map<std::string, double> facts; ///< Profile::extra
    bool halfGradients = false;          ///< gradients of models in float16 travel in 16 bits
    int mostZero = 3;                    ///< ZeRO level by which gradients are handed out, whatever level is asked for
};

/// In Profile::source, before the name of a framework whose facts the profile has.
inline constexpr const char *kFrameworkSource = "framework ";

/// By name.
std::span<const Framework> frameworks();
/// Error: NotFound, with the names that exist.
Result<const Framework *> findFramework(const std::string &name);
/// A profile with the facts of @p framework beside what @p profile (which may be null) has, whose own figures stay. @p
/// float16: the model is trained in float16, not in bfloat16 or float32.
std::shared_ptr<const Profile> withFacts(const std::shared_ptr<const Profile> &profile, const Framework &framework,
                                         bool float16);

} // namespace planloom::cost
