// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::test {

/// Whether the wait that is asked for now is left out: to see that a test notices (leave_out_waits.py). The environment
/// says so, PLANLOOM_WAITS:
///
/// | value | |
/// |---|---|
/// | list:FILE | nothing is left out; FILE gets, once each, the ways by which waits are asked for: return addresses in
/// hexadecimal digits, counted from the beginning of the program, innermost first | | without:ADDRESS | every wait with
/// that return address on its way is left out | | absent | nothing is left out, and this costs one comparison |
[[nodiscard]] bool leavesOutWait();

} // namespace planloom::test
