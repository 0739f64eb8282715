// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::memory {

/// What a policy did with a storage that had to leave, and what it knew then. A line of the decision log.
struct Decision {
    enum class Action : std::uint8_t {
        Recompute, ///< dropped, and made again by its operator
        Swap,      ///< copied to the host and back
        Drop,      ///< dropped, as the host has it, and copied back (Storage::hosted)
    };
    double seconds = 0; ///< on the stream's clock
    std::int32_t storage = 0;
    std::int64_t bytes = 0;
    double staleness = 0; ///< seconds since its last use
    double cost = 0;      ///< seconds of its operator; Drop: of the copy back
    double chainCost = 0; ///< seconds of all operators that would have to run again for it now
    double score = 0;     ///< F of the filter: the smallest leaves
    double ratio = 0;     ///< D of the director: there and back, against running again; Drop: 0
    Action action = Action::Recompute;
    std::int32_t event = -1; ///< that carries it out: the copy to the host, or what brings it back otherwise
    std::int32_t room = -1;  ///< the first operator's event behind it, for which there is room then
    friend bool operator==(const Decision &, const Decision &) = default;
};

/// Something that the device does, in the order in which it was decided.
struct Event {
    enum class Kind : std::uint8_t {
        Run,   ///< an operator of the stream
        Again, ///< an operator of the stream, once more
        Out,   ///< a storage is copied to the host
        In,    ///< and back
    };
    Kind kind = Kind::Run;
    std::int32_t subject = 0;  ///< operator, or storage
    std::int32_t position = 0; ///< operator of the stream that it happens for
    std::int32_t after = -1;   ///< copies: the operator's event that must have ended; -1: none
    /// Other events that must have ended: [firstWait, lastWait) of Course::waits.
    std::int32_t firstWait = 0;
    std::int32_t lastWait = 0;
    /// Operators: [firstPlace, ...) of Course::places: of its inputs, then its outputs. Copies: one.
    std::int32_t firstPlace = 0;
    std::int64_t scratch = -1;   ///< Again: place of Operator::scratchAgain bytes
    std::int64_t hostPlace = -1; ///< copies: in the host's pool; -1: where the hosted storage lies
    double delay = 0;            ///< operators: seconds longer than alone, as copies take from its cores
    std::int64_t used = 0;       ///< bytes of the pool in use, while it runs
    std::int64_t usedAfter = 0;  ///< and when it and all that was decided behind it has been done
};

/// A stream under a policy: what happens, where everything lies, and what it costs.
struct Course {
    std::vector<Event> events;
    std::vector<std::int32_t> waits;  ///< events
    std::vector<std::int64_t> places; ///< offsets in the pool; -1: of what is always there
    std::vector<Decision> decisions;
    double seconds = 0;      ///< of the whole stream on its clock
    double againSeconds = 0; ///< of operators that ran again
    double stallSeconds = 0; ///< that operators waited for copies
    std::int64_t recomputes = 0;
    std::int64_t swaps = 0;      ///< to the host
    std::int64_t drops = 0;      ///< of hosted storages
    std::int64_t peakBytes = 0;  ///< in use at once
    std::int64_t poolBytes = 0;  ///< that the pool needs, holes included
    std::int64_t hostBytes = 0;  ///< that the host's pool needs
    std::int64_t fragmented = 0; ///< times that there was room enough, but in no single hole
};

} // namespace planloom::memory
