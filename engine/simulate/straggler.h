// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/program/program.h"

#include <optional>

namespace planloom::simulate {

/// What one worker that computes more slowly than the others costs training by ADMM, where workers wait for each other
/// and where they wait for a parameter server. Compiles a form when it is first asked for; an answer is a simulation of
/// one of them. Thread contract: one thread at a time.
class Straggler {
public:
    /// @p plan trains by ADMM; the server's barrier and delay are those of its settings. Both must outlive it.
    Straggler(const plan::Plan &plan, const plan::Subject &subject);

    [[nodiscard]] int workers() const { return m_workers; }
    /// Samples that all workers go through in a second while computations of @p worker take @p factor times as long.
    /// Errors: those of compilePlan, where @p plan cannot have this form.
    [[nodiscard]] Result<double> samplesPerSecond(admm::Parallel form, int worker, double factor);

private:
    using Compiled = std::optional<Result<program::Program>>;

    int m_workers;
    const plan::Plan &m_plan;
    const plan::Subject &m_subject;
    Compiled m_synchronous;
    Compiled m_asynchronous;
};

} // namespace planloom::simulate
