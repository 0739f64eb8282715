// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <span>
#include <string>
#include <string_view>

namespace planloom::plan {

/// A decision of a plan that is changed by text, as the studio's table of stages and `planloom edit` do.
struct EditField {
    const char *key;   ///< "batch"; of a stage "layers", with its key stages.1.layers
    const char *value; ///< what it takes: "N"
    const char *about; ///< one line
    bool ofStage;
    /// The plan with @p text as value, of stage @p stage. The result is not validated.
    Result<Plan> (*apply)(const Document &document, std::size_t stage, const std::string &text);
};
/// First those of the whole plan.
std::span<const EditField> editFields();

/// @p document's plan with @p text as value of field @p key of stage @p stage ("layers"). Not validated. Errors
/// (BadInput, NotFound): text that the field does not take, or an edit that cannot be tried.
Result<Plan> withStageValue(const Document &document, std::size_t stage, std::string_view key, const std::string &text);
/// The same of "batch", "stages.1.layers", or "stages.*.zero" for all stages. Errors as well: an unknown key, which
/// lists those that there are; a stage that the plan does not have.
Result<Plan> withValue(const Document &document, std::string_view key, const std::string &text);

/// @p plan in the place of @p before's: with costs of its precision, without what was predicted and estimated of the
/// one before. Errors: those of validate().
Result<Document> withPlan(const Document &before, Plan plan);

} // namespace planloom::plan
