// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/log.h"
#include "executor/device/device.h"
#include "executor/runtime/kernel_marks.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace planloom::runtime {

/// Passes of a stage as graphs of commands. A pass is given command by command the first time; then its commands are
/// captured, as far as they can be, and replayed from the next time on. Addresses do not change: the arena is planned.
/// What changes from step to step is none of the captured commands' arguments: samples, losses, updates and the seeds
/// of random numbers are given outside of graphs.
///
/// Thread contract: one thread.
class PassGraphs {
public:
    /// What the commands of a pass depend on.
    struct Key {
        const void *list = nullptr;  ///< the calls, made for the samples of a slice
        const void *calls = nullptr; ///< where a memory policy places tensors
        std::int32_t slotRow = 0;    ///< of the micro-batch, program::Body::slotTable
        std::int32_t first = 0, last = 0;
        bool opens = false;
        auto operator<=>(const Key &) const = default;
    };

    /// @p queue and @p marks must outlive it.
    PassGraphs(device::Queue &queue, KernelMarks *marks) : m_queue(queue), m_marks(marks) {}

    /// Gives pieces [0, @p count) of a pass to the queue: by give(piece), or by graphs of those of which
    /// captures(piece) says that they can be. between() is called after each piece, or after each graph.
    template <class Captures, class Give, class Between>
    void run(const Key &key, std::int32_t count, const Captures &captures, const Give &give, const Between &between)
    {
        const auto known = m_passes.find(key);
        if (known != m_passes.end()) {
            replay(known->second, give, between);
            return;
        }
        for (std::int32_t piece = 0; piece < count; ++piece) {
            give(piece);
            between(piece);
        }
        m_passes.emplace(key, capture(count, captures, give));
    }

private:
    static constexpr std::int32_t kFewest = 2; ///< pieces of a graph: one is as fast without

    struct Run {
        std::int32_t first = 0, last = 0;
        std::unique_ptr<device::CommandGraph> graph; ///< nullptr: piece by piece
    };

    template <class Give, class Between>
    void replay(const std::vector<Run> &runs, const Give &give, const Between &between)
    {
        for (const Run &run : runs) {
            if (run.graph != nullptr) {
                if (m_marks != nullptr)
                    m_marks->afterOperators();
                m_queue.replay(*run.graph);
                between(run.last - 1);
                continue;
            }
            for (std::int32_t piece = run.first; piece < run.last; ++piece) {
                give(piece);
                between(piece);
            }
        }
    }

    template <class Captures, class Give>
    std::vector<Run> capture(std::int32_t count, const Captures &captures, const Give &give)
    {
        std::vector<Run> runs;
        for (std::int32_t piece = 0; piece < count;) {
            Run run{piece, piece + 1, nullptr};
            const bool captured = captures(piece);
            while (run.last < count && captures(run.last) == captured)
                ++run.last;
            if (captured && run.last - run.first >= kFewest)
                run.graph = graphOf(run, give);
            piece = run.last;
            runs.push_back(std::move(run));
        }
        return runs;
    }

    /// nullptr: the queue cannot, and is not asked again.
    template <class Give>
    std::unique_ptr<device::CommandGraph> graphOf(const Run &run, const Give &give)
    {
        const MarkScope none(m_marks, 0); // commands of a graph get the mark of the pass that replays it
        if (m_refused || !m_queue.beginCapture())
            return nullptr;
        for (std::int32_t piece = run.first; piece < run.last; ++piece)
            give(piece);
        auto graph = m_queue.endCapture();
        if (graph)
            return std::move(*graph);
        m_refused = true;
        log(LogLevel::Warning,
            "passes are given to the device command by command, not as graphs: " + graph.error().message);
        return nullptr;
    }

    device::Queue &m_queue;
    KernelMarks *m_marks;
    bool m_refused = false;
    std::map<Key, std::vector<Run>> m_passes;
};

} // namespace planloom::runtime
