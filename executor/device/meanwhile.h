// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

namespace planloom::device {

/// What the thread at hand does between the pieces of a kernel that takes long on a processor, such as the steps of a
/// recurrent layer: a rank's messages move on meanwhile. Until it is destroyed; the one before counts again then.
class Meanwhile {
public:
    explicit Meanwhile(std::function<void()> turn) : m_turn(std::move(turn)), m_before(std::exchange(current(), this))
    {
    }
    ~Meanwhile() { current() = m_before; }
    Meanwhile(const Meanwhile &) = delete;
    Meanwhile &operator=(const Meanwhile &) = delete;

    /// Called by kernels, outside of their parallel loops, where none of their data are shared with other kernels.
    static void turn()
    {
        if (current() != nullptr)
            current()->m_turn();
    }

private:
    static Meanwhile *&current()
    {
        thread_local Meanwhile *now = nullptr;
        return now;
    }

    std::function<void()> m_turn;
    Meanwhile *m_before;
};

} // namespace planloom::device
