// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/bfloat16.h"

#include "engine/weights/convert.h"
#include "executor/device/adding_kernel.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <array>

namespace planloom::device {

namespace {

using graph::DType;

constexpr std::size_t kMostArguments = 16; ///< of an element-wise operator; AddN of more is converted whole

PLANLOOM_CLONES void widenPiece(const BFloat16Bits *x, float *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = weights::fromBFloat16(x[i]);
}

PLANLOOM_CLONES void narrowPiece(const float *x, BFloat16Bits *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = weights::toBFloat16(x[i]);
}

void widenAll(const BFloat16Bits *x, float *y, std::int64_t n)
{
    parallelFor(n, kGrain,
                [=](std::int64_t begin, std::int64_t end) { widenPiece(x + begin, y + begin, end - begin); });
}

void narrowAll(const float *x, BFloat16Bits *y, std::int64_t n)
{
    parallelFor(n, kGrain,
                [=](std::int64_t begin, std::int64_t end) { narrowPiece(x + begin, y + begin, end - begin); });
}

bool isHalf(const Argument &argument) { return argument.present && argument.type == DType::BF16; }

std::vector<Argument> asFloats(const std::vector<Argument> &arguments)
{
    std::vector<Argument> result = arguments;
    for (Argument &argument : result)
        argument.type = isHalf(argument) ? DType::F32 : argument.type;
    return result;
}

/// Memory for converted tensors. Kernels made by one thread run one after another, so they share it.
using SharedScratch = std::vector<float>;

std::shared_ptr<SharedScratch> sharedScratch(std::size_t elements)
{
    thread_local std::weak_ptr<SharedScratch> kShared;
    auto scratch = kShared.lock();
    if (!scratch) {
        scratch = std::make_shared<SharedScratch>();
        kShared = scratch;
    }
    if (scratch->size() < elements)
        scratch->resize(elements);
    return scratch;
}

/// Where an argument's float32 form lies: in the scratch memory, or (offset -1) where it was.
struct Converted {
    std::int64_t offset = -1;
    std::int64_t elements = 0;
};

class WholeTensors final : public Kernel {
public:
    WholeTensors(const Request &request, std::unique_ptr<Kernel> kernel) : m_kernel(std::move(kernel))
    {
        std::int64_t offset = 0;
        m_inputs = place(request.inputs, &offset);
        m_outputs = place(request.outputs, &offset);
        m_scratch = sharedScratch(static_cast<std::size_t>(offset));
        m_in.resize(m_inputs.size());
        m_out.resize(m_outputs.size());
    }

    void run(Inputs in, Outputs out) override
    {
        compute(in, out, [](Kernel &kernel, Inputs from, Outputs to) { kernel.run(from, to); });
    }

    /// As AddingKernel::add, if the kernel is one.
    void add(Inputs in, Outputs out)
    {
        compute(in, out,
                [](Kernel &kernel, Inputs from, Outputs to) { static_cast<AddingKernel &>(kernel).add(from, to); });
    }

private:
    template <class F>
    void compute(Inputs in, Outputs out, F run)
    {
        for (std::size_t i = 0; i < in.size(); ++i) {
            m_in[i] = in[i];
            if (m_inputs[i].offset < 0)
                continue;
            float *wide = m_scratch->data() + m_inputs[i].offset;
            widenAll(static_cast<const BFloat16Bits *>(in[i]), wide, m_inputs[i].elements);
            m_in[i] = wide;
        }
        for (std::size_t i = 0; i < out.size(); ++i)
            m_out[i] = m_outputs[i].offset < 0 ? out[i] : m_scratch->data() + m_outputs[i].offset;
        run(*m_kernel, {m_in.data(), in.size()}, {m_out.data(), out.size()});
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (m_outputs[i].offset >= 0 && out[i] != nullptr)
                narrowAll(m_scratch->data() + m_outputs[i].offset, static_cast<BFloat16Bits *>(out[i]),
                          m_outputs[i].elements);
        }
    }

    static std::vector<Converted> place(const std::vector<Argument> &arguments, std::int64_t *offset)
    {
        constexpr std::int64_t kAlignment = 16;
        std::vector<Converted> result(arguments.size());
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            if (!isHalf(arguments[i]))
                continue;
            result[i] = {*offset, arguments[i].elements()};
            *offset += (result[i].elements + kAlignment - 1) / kAlignment * kAlignment;
        }
        return result;
    }

    std::unique_ptr<Kernel> m_kernel;
    std::vector<Converted> m_inputs, m_outputs;
    std::shared_ptr<SharedScratch> m_scratch;
    std::vector<const void *> m_in;
    std::vector<void *> m_out;
};

/// Around a kernel that can add to its output, which is float32.
class AddingWholeTensors final : public AddingKernel {
public:
    AddingWholeTensors(const Request &request, std::unique_ptr<Kernel> kernel) : m_whole(request, std::move(kernel)) {}
    void run(Inputs in, Outputs out) override { m_whole.run(in, out); }
    void add(Inputs in, Outputs out) override { m_whole.add(in, out); }

private:
    WholeTensors m_whole;
};

/// Element-wise: a piece of every argument is converted, computed and converted back while it is in cache. The kernels
/// for pieces keep no state, so all threads use the same.
class Pieces final : public Kernel {
public:
    Pieces(const Request &request, std::unique_ptr<Kernel> whole, std::unique_ptr<Kernel> rest)
        : m_elements(request.outputs[0].elements()),
          m_whole(std::move(whole)),
          m_rest(std::move(rest)),
          m_threads(threadCount())
    {
        for (const Argument &argument : request.inputs)
            m_sizes.push_back(graph::sizeOf(argument.type));
        for (const Argument &argument : request.outputs)
            m_sizes.push_back(graph::sizeOf(argument.type));
        m_inputs = request.inputs.size();
        m_scratch.resize(m_sizes.size() * static_cast<std::size_t>(m_threads * kPiece));
    }

    static constexpr std::int64_t kPiece = 2048; ///< 8 KiB of floats an argument: several stay in a first-level cache

    void run(Inputs in, Outputs out) override
    {
        const std::int64_t perThread = static_cast<std::int64_t>(m_sizes.size()) * kPiece;
        parallelFor(m_elements, 8 * kPiece, [&](std::int64_t begin, std::int64_t end) {
            float *scratch = m_scratch.data() + omp_get_thread_num() * perThread;
            for (; begin < end; begin += kPiece)
                piece(in, out, begin, std::min(kPiece, end - begin), scratch);
        });
    }

private:
    void piece(Inputs in, Outputs out, std::int64_t begin, std::int64_t n, float *scratch)
    {
        std::array<const void *, kMostArguments> inputs;
        std::array<void *, kMostArguments> outputs;
        for (std::size_t i = 0; i < in.size(); ++i, scratch += kPiece) {
            inputs[i] = static_cast<const char *>(in[i]) + begin * m_sizes[i];
            if (m_sizes[i] != sizeof(BFloat16Bits))
                continue;
            widenPiece(static_cast<const BFloat16Bits *>(in[i]) + begin, scratch, n);
            inputs[i] = scratch;
        }
        for (std::size_t i = 0; i < out.size(); ++i) {
            const bool half = m_sizes[m_inputs + i] == sizeof(BFloat16Bits);
            outputs[i] = half ? static_cast<void *>(scratch + static_cast<std::int64_t>(i) * kPiece)
                              : static_cast<char *>(out[i]) + begin * m_sizes[m_inputs + i];
        }
        Kernel &kernel = n == kPiece ? *m_whole : *m_rest;
        kernel.run({inputs.data(), in.size()}, {outputs.data(), out.size()});
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (m_sizes[m_inputs + i] == sizeof(BFloat16Bits))
                narrowPiece(static_cast<const float *>(outputs[i]), static_cast<BFloat16Bits *>(out[i]) + begin, n);
        }
    }

    std::int64_t m_elements;
    std::unique_ptr<Kernel> m_whole;
    std::unique_ptr<Kernel> m_rest; ///< for the rest after the last full piece
    int m_threads;
    std::size_t m_inputs = 0;
    std::vector<std::int64_t> m_sizes; ///< bytes of an element, inputs then outputs
    std::vector<float> m_scratch;
};

bool sameSizes(const Request &request)
{
    const std::int64_t n = request.outputs[0].elements();
    for (const auto *arguments : {&request.inputs, &request.outputs}) {
        for (const Argument &argument : *arguments) {
            if (!argument.present || argument.elements() != n)
                return false;
        }
    }
    return request.inputs.size() <= kMostArguments && request.outputs.size() <= kMostArguments;
}

Made makePiece(const Request &request, std::int64_t elements, const KernelMaker &make)
{
    std::vector<Argument> inputs = asFloats(request.inputs);
    std::vector<Argument> outputs = asFloats(request.outputs);
    for (auto *arguments : {&inputs, &outputs}) {
        for (Argument &argument : *arguments)
            argument.dims = {elements};
    }
    return make(Request{request.op, inputs, outputs});
}

} // namespace

Made makeConverting(const Request &request, bool elementwise, const KernelMaker &make)
{
    if (elementwise && sameSizes(request)) {
        const std::int64_t n = request.outputs[0].elements();
        auto whole = makePiece(request, Pieces::kPiece, make);
        if (!whole)
            return whole;
        auto rest = makePiece(request, n % Pieces::kPiece, make);
        if (!rest)
            return rest;
        return Made(std::make_unique<Pieces>(request, std::move(*whole), std::move(*rest)));
    }
    const std::vector<Argument> inputs = asFloats(request.inputs);
    const std::vector<Argument> outputs = asFloats(request.outputs);
    auto kernel = make(Request{request.op, inputs, outputs});
    if (!kernel)
        return kernel;
    if (dynamic_cast<AddingKernel *>(kernel->get()) != nullptr && !isHalf(request.outputs[0]))
        return Made(std::make_unique<AddingWholeTensors>(request, std::move(*kernel)));
    return Made(std::make_unique<WholeTensors>(request, std::move(*kernel)));
}

Made makeHalfCast(const Request &request)
{
    const std::int64_t n = request.outputs[0].elements();
    if (request.inputs[0].elements() != n)
        return wrong(request, text(request.in(0)) + " and " + text(request.out()) + " differ in size");
    if (request.inputs[0].type == DType::BF16)
        return makeFunction(
            [n](Inputs in, Outputs out) { widenAll(static_cast<const BFloat16Bits *>(in[0]), floats(out[0]), n); });
    return makeFunction(
        [n](Inputs in, Outputs out) { narrowAll(floats(in[0]), static_cast<BFloat16Bits *>(out[0]), n); });
}

} // namespace planloom::device
