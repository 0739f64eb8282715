// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"

namespace planloom {

/// Is stopped from when it has been asked so many times. One thread.
class StoppedAfter final : public Progress {
public:
    explicit StoppedAfter(int asked) : m_left(asked) {}
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return m_left-- <= 0; }

private:
    mutable int m_left;
};

} // namespace planloom
