// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <vector>

namespace planloom::admm {

/// Which steps in time have dual variables. With `Last`, as published, earlier steps are only penalised: the fixed
/// point is another one than that of gradient descent, by an amount that falls as 1/mu.
enum class Duals : std::uint8_t { All, Last };
/// How a sweep walks the hidden blocks: step by step, or all of one kind, then all of the other.
enum class Order : std::uint8_t { Interleaved, Split };
/// Solve each sub-problem, or take one step on a majorant of it, as published. `Released`: that with the signs that the
/// authors' code gives the steps of u, w and v, by which these move up the Lagrangian: to see what this does, not to
/// train. All other updates are as published.
enum class Subproblems : std::uint8_t { Exact, Linearised, Released };
/// Who waits for whom: all for all, or a server for some of its workers.
enum class Parallel : std::uint8_t { Synchronous, Asynchronous };

/// How P-ADMMiRNN (arXiv 2006.05622) trains. The loss is summed over samples, so penalties and ridge scale with their
/// number.
struct Settings {
    double mu = 10;     ///< penalty of the last step's hidden blocks
    double gamma = 0.7; ///< step t of N has the penalty mu * gamma^(N - t)
    double rho = 1;     ///< penalty of the output
    double ridge = 1;   ///< half of it times the squares of the weights is added to the objective; biases have none
    Duals duals = Duals::All;
    Order order = Order::Interleaved;
    Subproblems subproblems = Subproblems::Exact;
    bool restart = true; ///< an iteration begins with the forward pass's values instead of the last iteration's
    int newtonSteps = 6; ///< of each sample's output; exact form
    int tanhSteps = 3;   ///< of each hidden unit's input; exact form
    int shards = 1;      ///< parts of the samples, fixed, one an iteration; each keeps its variables and its last sums
    int timeRanges = 1;  ///< equal ranges of steps in time, each on a device of its own
    Parallel parallel = Parallel::Synchronous;
    int barrier = 1;     ///< asynchronous: workers that a new version waits for
    int delay = 4;       ///< asynchronous: versions that a worker may be late
    double proximal = 0; ///< asynchronous: weight of the distance between two versions' parameters

    /// Error: BadInput, a setting that is out of its range, with the range.
    [[nodiscard]] Status check() const;
    bool operator==(const Settings &) const = default;
};

/// mu * gamma^(steps - t) for t = 1 .. steps. Error: BadInput if one of them is no normal number of float32, with a
/// gamma that is enough.
Result<std::vector<double>> penalties(const Settings &settings, int steps);

/// The settings with the penalty of each step.
struct Method {
    Settings settings;
    std::vector<double> penalty; ///< by step; of both residuals

    /// Error: as Settings::check() and penalties().
    static Result<Method> of(const Settings &settings, int steps);
};

} // namespace planloom::admm
