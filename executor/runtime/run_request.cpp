// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/run_request.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"

namespace planloom::runtime {

Result<RunRequest> readRequest(const std::string &path)
{
    const Result<std::string> text = readFile(path);
    if (!text)
        return text.error();
    const auto json = parseJson(*text);
    if (!json)
        return json.error().in(path);
    constexpr std::int64_t kMost = 1'000'000'000'000;
    JsonReader reader(*json);
    RunRequest request;
    request.data = reader.text("data");
    request.steps = reader.integer("steps", 1, kMost);
    request.seed = reader.integer("seed", std::numeric_limits<std::int64_t>::min());
    request.holdout = reader.number("holdout", 0);
    request.timeoutSeconds = reader.number("timeout_seconds", request.timeoutSeconds);
    request.threads = reader.integerOr("threads", 0, 0, 4096);
    request.traceEvery = reader.integerOr("trace_every", 1, 0, kMost);
    request.validateEvery = reader.integerOr("validate_every", 0, 0, kMost);
    request.earlyStop = reader.integerOr("early_stop", 0, 0, kMost);
    request.checkpointEvery = reader.integerOr("checkpoint_every", 0, 0, kMost);
    request.keep = reader.integerOr("keep", 0, 0, 1'000'000);
    request.lease = reader.integerOr("lease", 0, 0, kMost);
    request.firstStep = reader.integerOr("first_step", 0, 0, kMost);
    request.firstSample = reader.integerOr("first_sample", -1, -1, kMost);
    request.checkpoint = reader.text("checkpoint", std::string());
    if (!(request.holdout >= 0 && request.holdout < 1))
        reader.fail("holdout", "must be at least 0 and less than 1");
    if (!(request.timeoutSeconds > 0 && request.timeoutSeconds < 1e9))
        reader.fail("timeout_seconds", "must be more than 0");
    if (const Status status = reader.failure(*text); !status)
        return status.error().in(path);
    return request;
}

} // namespace planloom::runtime
