// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace planloom {

/// Progress reports of long work, and requests to stop it. Pure interface: a terminal's bar, a dialog and a test
/// each bring their own. Both calls are made from the working thread only, and are cheap enough for once a millisecond.
class Progress {
public:
    virtual ~Progress() = default;

    /// @p fraction in 0..1 (negative: unknown), @p what: a short text.
    virtual void report(double fraction, std::string_view what) = 0;

    /// True once the user asked to stop: return ErrorCode::Cancelled, or the best answer so far where one exists.
    [[nodiscard]] virtual bool stopped() const = 0;
};

/// Discards reports and is never stopped.
class NoProgress final : public Progress {
public:
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return false; }
};

} // namespace planloom
