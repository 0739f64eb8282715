// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/processors.h"

#include <algorithm>

namespace planloom::gnn {

Processors::Processors(std::span<const Port> ports)
{
    for (const Port &port : ports) {
        if (port.processor < 0)
            continue;
        const auto at = static_cast<std::size_t>(port.processor);
        m_processors.resize(std::max(m_processors.size(), at + 1));
        m_processors[at].cores = port.cores;
    }
}

void Processors::reset()
{
    for (Processor &processor : m_processors)
        processor = {.cores = processor.cores};
}

double Processors::rateOf(const Processor &processor)
{
    return processor.threads > processor.cores ? processor.cores / processor.threads : 1;
}

void Processors::advance(Processor &processor, double now)
{
    processor.progress += (now - processor.since) * rateOf(processor);
    processor.since = now;
}

void Processors::setNext(Processor &processor)
{
    processor.next = processor.tasks.empty()
        ? kNoEnd
        : processor.since + (processor.tasks.front().end - processor.progress) / rateOf(processor);
}

void Processors::start(std::int32_t step, std::int32_t processor, double seconds, double threads, double now)
{
    Processor &on = m_processors[static_cast<std::size_t>(processor)];
    advance(on, now);
    on.threads += threads;
    on.tasks.push_back({on.progress + seconds, threads, step});
    std::push_heap(on.tasks.begin(), on.tasks.end());
    setNext(on);
}

double Processors::next() const
{
    double next = kNoEnd;
    for (const Processor &processor : m_processors)
        next = std::min(next, processor.next);
    return next;
}

std::int32_t Processors::takeEnded(double now)
{
    for (Processor &processor : m_processors) {
        // A task ends by its event, never by what is left of it: a rest can be shorter than the clock's last bit.
        if (processor.next > now)
            continue;
        advance(processor, now);
        std::pop_heap(processor.tasks.begin(), processor.tasks.end());
        const Task ended = processor.tasks.back();
        processor.tasks.pop_back();
        processor.progress = std::max(processor.progress, ended.end);
        processor.threads = processor.tasks.empty() ? 0 : processor.threads - ended.threads;
        setNext(processor);
        return ended.step;
    }
    return -1;
}

} // namespace planloom::gnn
