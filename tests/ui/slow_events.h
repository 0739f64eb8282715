// SPDX-License-Identifier: GPL-3.0-or-later
// Events of tests of the studio that may take more than 50 ms of processor time (watched_main.h), each with the reason.
#pragma once

#include <array>

namespace planloom::ui::testing {

/// An event that is allowed to be slow.
struct SlowEvent {
    const char *test;     ///< class of the test
    const char *function; ///< of the test
    const char *receiver; ///< beginning of "Class objectName"
    const char *type;     ///< "Paint"
    const char *reason;
};

inline constexpr std::array<SlowEvent, 3> kSlowEvents{{
    {"TestBench", "anAllowedEventIsNoFailure", "QObject stove", "User",
     "made to be slow, to see that this table is read"},
    {"TestMainWindow", "theWholeStory", "QTimer", "Timer",
     "the demo's acts take pictures of the window and compress them; it is shown, not worked with"},
    {"TestScript", "picturesAreTaken", "QTimer", "Timer", "likewise a line of a script that takes a picture"},
}};

} // namespace planloom::ui::testing
