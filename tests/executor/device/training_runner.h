// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "executor/device/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace planloom::test {

/// Runs a TrainingGraph by the kernels, operator by operator, without plan or ranks. A tensor's memory goes back when
/// its last reader has run, and to the next one of its size; what the graph gives out (loss, outputs, gradients,
/// states) stays.
class TrainingRunner {
public:
    static Result<std::unique_ptr<TrainingRunner>> make(const graph::TrainingGraph &training, std::int64_t samples)
    {
        std::unique_ptr<TrainingRunner> runner(new TrainingRunner(training, samples));
        for (const graph::Op &op : runner->graph().ops()) {
            auto kernel = device::makeKernel(op, runner->arguments(op.inputs), runner->arguments(op.outputs));
            if (!kernel)
                return kernel.error();
            runner->m_kernels.push_back(std::move(*kernel));
        }
        runner->place();
        return runner;
    }

    [[nodiscard]] const graph::Graph &graph() const { return m_training.graph; }
    [[nodiscard]] const graph::TrainingGraph &training() const { return m_training; }
    [[nodiscard]] std::int64_t elements(TensorId id) const { return graph().tensor(id).shape.elements(m_samples); }
    [[nodiscard]] void *data(TensorId id) { return m_data[id.index()]; }
    [[nodiscard]] float *floats(TensorId id) { return static_cast<float *>(data(id)); }
    [[nodiscard]] float *floats(std::string_view name) { return floats(graph().find(name)); }
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }

    void run()
    {
        for (std::size_t i = 0; i < m_kernels.size(); ++i) {
            const graph::Op &op = graph().ops()[i];
            const double begin = processorSeconds();
            const auto pointers = [this](const std::vector<TensorId> &ids) {
                std::vector<void *> result;
                for (const TensorId id : ids)
                    result.push_back(id.valid() ? data(id) : nullptr);
                return result;
            };
            const std::vector<void *> in = pointers(op.inputs);
            const std::vector<void *> out = pointers(op.outputs);
            const std::vector<const void *> constant(in.begin(), in.end());
            m_kernels[i]->run(constant, out);
            m_seconds[op.type.name()] += processorSeconds() - begin;
        }
    }

    /// Processor time of this process so far, on all cores.
    static double processorSeconds()
    {
        timespec time{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    }

    /// Processor seconds spent in operators of each type so far.
    [[nodiscard]] const std::map<std::string, double> &seconds() const { return m_seconds; }

private:
    struct Free {
        void operator()(void *p) const { std::free(p); }
    };

    TrainingRunner(const graph::TrainingGraph &training, std::int64_t samples)
        : m_training(training),
          m_samples(samples),
          m_data(training.graph.tensors().size())
    {
    }

    [[nodiscard]] std::vector<device::Argument> arguments(const std::vector<TensorId> &ids) const
    {
        std::vector<device::Argument> result;
        for (const TensorId id : ids) {
            if (id.valid())
                result.push_back(
                    {graph().tensor(id).type, graph().tensor(id).shape.at(m_samples), true, graph().tensor(id).layout});
            else
                result.push_back({graph::DType::F32, {}, false});
        }
        return result;
    }

    void place()
    {
        std::vector<bool> kept(m_data.size());
        for (const auto *list : {&m_training.outputs, &m_training.inputGradients, &m_training.gradients})
            for (const TensorId id : *list)
                if (id.valid())
                    kept[id.index()] = true;
        for (const TensorId id : graph().outputs())
            kept[id.index()] = true;
        for (const graph::Tensor &tensor : graph().tensors())
            if (tensor.role != graph::TensorRole::Activation)
                give(tensor.id);
        std::vector<int> waiting(m_data.size());
        for (const graph::Tensor &tensor : graph().tensors())
            waiting[tensor.id.index()] = static_cast<int>(graph().consumers(tensor.id).size());
        for (const graph::Op &op : graph().ops()) {
            for (const TensorId id : op.outputs)
                if (id.valid())
                    give(id);
            std::vector<TensorId> read;
            for (const TensorId id : op.inputs)
                if (id.valid() && std::find(read.begin(), read.end(), id) == read.end())
                    read.push_back(id);
            for (const TensorId id : read)
                if (graph().tensor(id).role == graph::TensorRole::Activation && --waiting[id.index()] == 0
                    && !kept[id.index()])
                    m_free[graph().tensor(id).bytes(m_samples).value()].push_back(m_data[id.index()]);
        }
    }

    void give(TensorId id)
    {
        const graph::Tensor &tensor = graph().tensor(id);
        const std::int64_t size = tensor.bytes(m_samples).value();
        auto &free = m_free[size];
        if (!free.empty()) {
            m_data[id.index()] = free.back();
            free.pop_back();
            return;
        }
        constexpr std::size_t kAlignment = 64;
        const std::size_t whole = (static_cast<std::size_t>(size) + kAlignment - 1) / kAlignment * kAlignment;
        m_memory.emplace_back(std::aligned_alloc(kAlignment, std::max(whole, kAlignment)));
        m_bytes += static_cast<std::int64_t>(whole);
        m_data[id.index()] = m_memory.back().get();
        std::memset(m_data[id.index()], 0, whole);
        if (tensor.init.kind == graph::Initializer::Kind::Data)
            std::memcpy(m_data[id.index()], tensor.init.data->data(), static_cast<std::size_t>(size));
    }

    graph::TrainingGraph m_training;
    std::int64_t m_samples;
    std::vector<void *> m_data; ///< per tensor
    std::vector<std::unique_ptr<void, Free>> m_memory;
    std::map<std::int64_t, std::vector<void *>> m_free; ///< by size
    std::vector<std::unique_ptr<device::Kernel>> m_kernels;
    std::map<std::string, double> m_seconds;
    std::int64_t m_bytes = 0;
};

} // namespace planloom::test
