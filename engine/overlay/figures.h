// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/laid_records.h"
#include "engine/overlay/overlay.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace planloom::overlay {

/// What was found of a process, over its steps.
struct Shares {
    double wanted = 0, found = 0;   ///< weights of operators
    double time = 0, timeFound = 0; ///< seconds of calls, without those of passes that the plan runs again
};

/// Sums up the figures of an overlay: by layer, by kind, and what has no counterpart.
class Figures {
public:
    /// @p read: the trace that is laid. All arguments must outlive it.
    Figures(const trace::Trace &read, const plan::Document &document, const program::Program &program,
            const Expected &expected, Overlay &overlay);

    void addProcess(const Candidate &candidate);
    /// @p isFirst: of the measured steps of the process.
    void addStep(const Process &process, const Candidate &candidate, const Matcher &matcher, const FoundStep &step,
                 const std::set<std::size_t> &matched, bool isFirst, Shares &shares);
    void addExchanges(const std::vector<ExchangesOfKind> &exchanges);
    /// Fills the overlay's rows, lists and notes.
    void finish();

private:
    /// A unit in one pass.
    struct Measured {
        std::vector<double> seconds; ///< by step
        std::int64_t found = 0;      ///< passes
        std::int64_t wanted = 0;
    };

    /// The time of calls goes to the units that they were matched with, in proportion to the prediction where one call
    /// is several.
    void addUnits(const Process &process, const Matcher &matcher, const FoundStep &step, bool isFirst);
    /// Where devices hold parts of tensors the sizes are those of parts.
    void checkSizes(std::size_t at, const Call &call);
    void addTimes(const Process &process, const Candidate &candidate, std::int32_t step,
                  const std::set<std::size_t> &matched, Shares &shares);
    void sumUnits();
    /// The optimizer and collectives, by the kinds of tasks.
    void sumWork();

    const trace::Trace &m_read;
    const plan::Document &m_document;
    const program::Program &m_program;
    const Expected &m_expected;
    Overlay &m_overlay;
    std::vector<Measured> m_units;                     ///< by unit and pass
    std::vector<std::int64_t> m_laidOn;                ///< processes, by stage
    std::map<std::string, std::vector<double>> m_work; ///< seconds a step, by kind of task
    /// By pass and name: how often, and seconds.
    std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, double>> m_onlyInTrace;
    std::int64_t m_steps = 0; ///< of all processes
    bool m_byOrder = false, m_otherExchanges = false;
};

} // namespace planloom::overlay
