// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/rewrite/fuse.h"
#include "engine/graph/zoo/zoo.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/device/trained_case.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <thread>

// Operators of a device against the processor's.
namespace planloom::test {

using Buffer = std::vector<std::byte>;

inline std::int64_t bytesOf(const device::Argument &argument)
{
    return argument.elements() * graph::sizeOf(argument.type);
}

/// The outputs of @p op on @p device, then the states that it writes; in Mode::Add with the result added to @p before.
inline Result<std::vector<Buffer>> runOn(device::Device &device, const graph::Op &op,
                                         const std::vector<device::Argument> &inputs,
                                         const std::vector<device::Argument> &outputs,
                                         const std::vector<Buffer> &values, device::Mode mode, const Buffer &before)
{
    auto kernel = device.makeKernel(op, inputs, outputs);
    if (!kernel)
        return kernel.error();
    const auto queue = *device.makeQueue();
    const auto event = *device.makeEvent();
    std::vector<device::Memory> memory, host;
    const auto place = [&](const device::Argument &argument) -> std::byte * {
        if (!argument.present)
            return nullptr;
        memory.push_back(*device.allocate(device::Space::Device, bytesOf(argument)));
        host.push_back(*device.allocate(device::Space::Host, bytesOf(argument)));
        return memory.back().data();
    };
    std::vector<const void *> in;
    std::vector<void *> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        in.push_back(place(inputs[i]));
        if (in.back() == nullptr)
            continue;
        std::copy(values[i].begin(), values[i].end(), host.back().data());
        queue->copyToDevice(memory.back().data(), host.back().data(), bytesOf(inputs[i]));
    }
    std::vector<std::size_t> states; // which inputs
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].present && op.traits().isState(i))
            states.push_back(memory.size()
                             - static_cast<std::size_t>(
                                 std::count_if(inputs.begin() + static_cast<std::ptrdiff_t>(i), inputs.end(),
                                               [](const device::Argument &argument) { return argument.present; })));
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        out.push_back(place(outputs[i]));
        at.push_back(memory.size());
        if (mode == device::Mode::Add && i == 0) {
            std::copy(before.begin(), before.end(), host.back().data());
            queue->copyToDevice(memory.back().data(), host.back().data(), bytesOf(outputs[i]));
        }
    }
    queue->run(**kernel, mode, in, out);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].present)
            queue->copyToHost(host[at[i] - 1].data(), out[i], bytesOf(outputs[i]));
    for (const std::size_t state : states)
        queue->copyToHost(host[state].data(), memory[state].data(), memory[state].bytes());
    queue->record(*event);
    while (true) {
        const auto done = event->poll();
        if (!done)
            return done.error();
        if (*done)
            break;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    std::vector<Buffer> results;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        results.push_back(outputs[i].present
                              ? Buffer(host[at[i] - 1].data(), host[at[i] - 1].data() + bytesOf(outputs[i]))
                              : Buffer());
    for (const std::size_t state : states)
        results.emplace_back(host[state].data(), host[state].data() + memory[state].bytes());
    return results;
}

inline cases::Array numbersOf(const device::Argument &argument, const Buffer &bytes)
{
    if (argument.type != graph::DType::BF16)
        return cases::fromBytes(argument.type, argument.dims, bytes.data());
    cases::Array array(argument.dims);
    for (std::int64_t i = 0; i < array.size(); ++i) {
        const auto *half = reinterpret_cast<const std::uint16_t *>(bytes.data()) + i;
        array[i] = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*half) << 16));
    }
    return array;
}

/// float32 arguments as bfloat16, where mixed precision would have them so.
inline Buffer halved(const Buffer &floats)
{
    Buffer made(floats.size() / 2);
    for (std::size_t i = 0; i < made.size() / 2; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, floats.data() + 4 * i, 4);
        const auto half = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
        std::memcpy(made.data() + 2 * i, &half, 2);
    }
    return made;
}

/// Images channel by channel with channels last, or back.
inline Buffer turned(const Buffer &images, const device::Argument &argument, bool toLast)
{
    const std::vector<std::int64_t> &dims = argument.dims;
    const std::int64_t size = graph::sizeOf(argument.type);
    const std::int64_t pixels = dims[2] * dims[3];
    const std::int64_t middle = toLast ? dims[1] : pixels;
    const std::int64_t inner = toLast ? pixels : dims[1];
    Buffer made(images.size());
    for (std::int64_t sample = 0; sample < dims[0]; ++sample)
        for (std::int64_t a = 0; a < middle; ++a)
            for (std::int64_t b = 0; b < inner; ++b)
                std::memcpy(made.data() + size * ((sample * inner + b) * middle + a),
                            images.data() + size * ((sample * middle + a) * inner + b), static_cast<std::size_t>(size));
    return made;
}

/// An operator with its attributes and arguments: Relu{}(float32[2,3])->(float32[2,3]).
inline std::string describe(const graph::Op &op, const std::vector<device::Argument> &inputs,
                            const std::vector<device::Argument> &outputs)
{
    const auto list = [](const std::vector<device::Argument> &arguments) {
        std::string text;
        for (const device::Argument &each : arguments)
            text +=
                fmt::format("{}{}", text.empty() ? "" : ",",
                            !each.present ? std::string("-")
                                          : fmt::format("{}[{}]{}", graph::name(each.type), fmt::join(each.dims, ","),
                                                        each.layout == graph::Layout::Blocked ? " blocked" : ""));
        return text;
    };
    std::string attributes;
    for (const auto &[name, value] : op.attributes) {
        const std::string text = std::visit(
            [](const auto &v) {
                if constexpr (
                    requires { v.push_back(v.front()); } && !requires { v.c_str(); })
                    return fmt::format("[{}]", fmt::join(v, ","));
                else
                    return fmt::format("{}", v);
            },
            value);
        attributes += (attributes.empty() ? "" : ",") + name + "=" + text;
    }
    return op.type + "{" + attributes + "}(" + list(inputs) + ")->(" + list(outputs) + ")";
}

/// Compares operators of a device with the processor's, and keeps count of what it has compared. Thread contract: one
/// thread.
class OperatorParity {
public:
    /// Of one operator type.
    struct Seen {
        std::int64_t onDevice = 0; ///< comparisons in which the device's library had a kernel
        std::int64_t onHost = 0;
        double worst = 0; ///< largest |difference| / (1 + |expected|), of either
    };

    /// For tests that count what the device does: called around every first run of an operator.
    struct Watch {
        std::function<void()> before;
        std::function<void(const graph::Graph &graph, const graph::Op &op, bool onHost)> after;
    };

    /// @p device is borrowed.
    explicit OperatorParity(device::PluginDevice &device, Watch watch = {})
        : m_device(device),
          m_watch(std::move(watch))
    {
    }

    [[nodiscard]] const std::map<std::string, Seen> &seen() const { return m_seen; }

    /// An operator with its gradients; the difference, or empty.
    std::string compareTrained(const cases::Case &c)
    {
        const cases::TrainedCase trained = cases::TrainedCaseBuilder(c).build();
        if (!trained.part)
            return trained.problem;
        cases::Machine machine(trained.part->graph);
        cases::feed(trained, cases::startValues(trained), machine);
        return compareAll(trained.part->graph, machine, false);
    }

    /// The same on images whose channels come last, as those between convolutions do; where an operator can.
    std::string compareLastChannels(const cases::Case &c)
    {
        m_lastChannels = true;
        std::string wrong = compareTrained(c);
        m_lastChannels = false;
        return wrong;
    }

    /// An operator with these arguments. Those in blocks are so on the device, with channels last; values are rows.
    std::string compareOperator(const graph::Op &op, const std::vector<device::Argument> &inputs,
                                const std::vector<device::Argument> &outputs, const std::vector<Buffer> &values,
                                double tolerance = 2e-5)
    {
        std::string wrong = compareAs(op, inputs, outputs, values, device::Mode::Run, tolerance);
        if (wrong.empty() && op.traits().accumulates && outputs[0].type == graph::DType::F32)
            wrong = compareAs(op, inputs, outputs, values, device::Mode::Add, tolerance);
        return wrong;
    }

    /// An operator that is not differentiated.
    std::string compareForward(const cases::Case &c)
    {
        graph::GraphBuilder builder("case");
        std::vector<TensorId> inputs, outputs;
        for (std::size_t i = 0; i < c.inputs.size(); ++i)
            inputs.push_back(builder.input("x" + std::to_string(i), c.inputs[i].type, c.inputs[i].shape()));
        for (int i = 0; i < c.outputs; ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(c.type, "op", {}, inputs, outputs, c.attributes);
        for (const TensorId id : outputs)
            builder.output(id);
        const auto graph = std::move(builder).build();
        if (!graph)
            return graph.error().text();
        cases::Machine machine(*graph);
        for (std::size_t i = 0; i < c.inputs.size(); ++i)
            machine.set(graph->find("x" + std::to_string(i)), cases::valuesOf(c.inputs[i], i + 1));
        return compareAll(*graph, machine, false);
    }

    /// The operators of a small GPT, or LLaMA if @p decoder, fused as for training, in bfloat16 if @p half.
    std::string compareFused(bool decoder, bool half)
    {
        graph::TransformerConfig config;
        config.layers = 2;
        config.heads = 2;
        config.hidden = 16;
        config.feedForward = 24;
        config.vocabulary = kVocabulary;
        config.context = 6;
        const auto model = decoder ? graph::llama(config, 1, 10000, 1e-6) : graph::gpt(config);
        if (!model)
            return model.error().text();
        const auto training =
            graph::differentiate(*model, OpId(0), OpId(static_cast<std::int64_t>(model->ops().size())), {}, {});
        const auto fused = training ? graph::fuse(*training) : Result<graph::TrainingGraph>(training.error());
        if (!fused)
            return fused.error().text();
        cases::Machine machine(fused->graph);
        fill(fused->graph, machine);
        return compareAll(fused->graph, machine, half);
    }

    /// All operators of a graph, each with what the processor made of those before it.
    std::string compareAll(const graph::Graph &graph, cases::Machine &machine, bool half)
    {
        for (std::size_t i = 0; i < graph.ops().size(); ++i) {
            const graph::Op &op = graph.ops()[i];
            std::vector<Buffer> values;
            for (const TensorId id : op.inputs) {
                values.emplace_back();
                if (!id.valid())
                    continue;
                const Buffer &all = machine.bytes(id);
                values.back().assign(all.begin(), all.end() - 1); // the last one is a mark
            }
            if (std::string problem = machine.run(i, i + 1); !problem.empty())
                return problem;
            if (std::string wrong = compare(graph, op, values, half); !wrong.empty())
                return wrong;
        }
        return {};
    }

private:
    static constexpr std::int64_t kVocabulary = 20;

    static void fill(const graph::Graph &graph, cases::Machine &machine)
    {
        std::uint64_t seed = 1;
        for (const graph::Tensor &tensor : graph.tensors()) {
            if (tensor.role == graph::TensorRole::Activation || tensor.role == graph::TensorRole::Constant)
                continue;
            const cases::Dims dims = tensor.shape.at(cases::kSamples);
            const bool whole = tensor.type == graph::DType::I64;
            machine.set(tensor.id,
                        cases::valuesOf(whole ? cases::index(dims, kVocabulary) : cases::real(dims), ++seed));
        }
    }

    /// Runs @p op on both and compares; the difference, or empty.
    std::string compare(const graph::Graph &graph, const graph::Op &op, const std::vector<Buffer> &values, bool half)
    {
        const auto arguments = [&](const std::vector<TensorId> &ids, bool isInput, std::vector<Buffer> *data) {
            std::vector<device::Argument> made;
            for (std::size_t i = 0; i < ids.size(); ++i) {
                device::Argument argument{graph::DType::F32, {}, false};
                if (ids[i].valid())
                    argument = {graph.tensor(ids[i]).type, graph.tensor(ids[i]).shape.at(cases::kSamples), true};
                // Statistics and sums stay float32 in mixed precision.
                const bool narrows = half && argument.present && argument.type == graph::DType::F32
                    && (isInput || i == 0 || op.type == "MatMulGelu") && argument.dims.size() > 1;
                if (narrows) {
                    argument.type = graph::DType::BF16;
                    if (data != nullptr)
                        (*data)[i] = halved((*data)[i]);
                }
                made.push_back(argument);
            }
            return made;
        };
        std::vector<Buffer> data = values;
        const std::vector<device::Argument> inputs = arguments(op.inputs, true, &data);
        const std::vector<device::Argument> outputs = arguments(op.outputs, false, nullptr);
        const double tolerance = half ? 2e-2 : 2e-5;
        const std::map<std::string, std::int64_t> listed = m_device.onHost();
        if (m_watch.before)
            m_watch.before();
        std::string wrong = compareAs(op, inputs, outputs, data, device::Mode::Run, tolerance);
        if (m_watch.after && wrong.empty() && !half)
            m_watch.after(graph, op, m_device.onHost() != listed);
        const bool adds = op.traits().accumulates && outputs[0].type == graph::DType::F32;
        if (wrong.empty() && adds)
            wrong = compareAs(op, inputs, outputs, data, device::Mode::Add, tolerance);
        if (wrong.empty() && op.traits().states != 0)
            wrong = compareAs(op, inputs, outputs, data, device::Mode::Infer, tolerance);
        if (wrong.empty() && m_lastChannels && op.traits().blocked != graph::Blocked::No)
            wrong = compareAs(op, withLastChannels(op, inputs, true), withLastChannels(op, outputs, false), data,
                              device::Mode::Run, tolerance);
        return wrong;
    }

    /// All images among the arguments in blocks; weights are none.
    static std::vector<device::Argument> withLastChannels(const graph::Op &op, std::vector<device::Argument> arguments,
                                                          bool isInput)
    {
        const std::string &type = op.type.name();
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const bool weight = (type == "ConvGradWeight" && !isInput)
                || ((type == "Conv" || type == "ConvGradInput" || type == "ConvTranspose") && isInput && i == 1);
            if (arguments[i].present && arguments[i].type == graph::DType::F32 && arguments[i].dims.size() == 4
                && !weight)
                arguments[i].layout = graph::Layout::Blocked;
        }
        return arguments;
    }

    static std::vector<device::Argument> asRows(std::vector<device::Argument> arguments)
    {
        for (device::Argument &argument : arguments)
            argument.layout = graph::Layout::RowMajor;
        return arguments;
    }

    std::string compareAs(const graph::Op &op, const std::vector<device::Argument> &inputs,
                          const std::vector<device::Argument> &outputs, const std::vector<Buffer> &values,
                          device::Mode mode, double tolerance)
    {
        const std::map<std::string, std::int64_t> before = m_device.onHost();
        Buffer start(outputs[0].present ? static_cast<std::size_t>(bytesOf(outputs[0])) : 0);
        for (std::size_t i = 0; i + 4 <= start.size(); i += 4) {
            const auto x = static_cast<float>(i % 7);
            std::memcpy(start.data() + i, &x, 4);
        }
        std::vector<Buffer> given = values;
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (inputs[i].present && inputs[i].layout == graph::Layout::Blocked)
                given[i] = turned(given[i], inputs[i], true);
        auto got = runOn(m_device, op, inputs, outputs, given, mode, start);
        const auto expected = runOn(device::cpuDevice(), op, asRows(inputs), asRows(outputs), values, mode, start);
        if (!got || !expected)
            return describe(op, inputs, outputs) + ": " + (!got ? got.error().text() : expected.error().text());
        Seen &seen = m_seen[op.type.name()];
        ++(m_device.onHost() == before ? seen.onDevice : seen.onHost);
        for (std::size_t i = outputs.size(); i < got->size(); ++i) {
            const device::Argument state{graph::DType::F32, {static_cast<std::int64_t>((*got)[i].size() / 4)}, true};
            const std::string wrong =
                cases::difference(numbersOf(state, (*got)[i]), numbersOf(state, (*expected)[i]), tolerance, tolerance);
            if (!wrong.empty())
                return describe(op, inputs, outputs) + " state: " + wrong;
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (!outputs[i].present)
                continue;
            if (outputs[i].layout == graph::Layout::Blocked)
                (*got)[i] = turned((*got)[i], outputs[i], false);
            const cases::Array numbers = numbersOf(outputs[i], (*got)[i]);
            const cases::Array right = numbersOf(outputs[i], (*expected)[i]);
            const std::string wrong = cases::difference(numbers, right, tolerance, tolerance);
            seen.worst = farthest(numbers, right, seen.worst);
            if (!wrong.empty())
                return describe(op, inputs, outputs) + " output " + std::to_string(i) + ": " + wrong;
        }
        return {};
    }

    /// The larger of @p worst and how far apart the numbers are.
    static double farthest(const cases::Array &got, const cases::Array &expected, double worst)
    {
        for (std::int64_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
            const double apart = std::fabs(got[i] - expected[i]) / (1 + std::fabs(expected[i]));
            worst = apart > worst ? apart : worst;
        }
        return worst;
    }

    device::PluginDevice &m_device;
    Watch m_watch;
    bool m_lastChannels = false;
    std::map<std::string, Seen> m_seen;
};

} // namespace planloom::test
