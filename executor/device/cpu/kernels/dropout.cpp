// SPDX-License-Identifier: Apache-2.0
// Dropout in training. The mask is not kept: the gradient draws it again, from the same counters.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/random_kernel.h"

#include <algorithm>

namespace planloom::device {

std::uint64_t drawKey(const Draw &draw, std::string_view name)
{
    std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a over the name, then over seed and step
    for (const char letter : name)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    for (const std::int64_t number : {draw.seed, draw.step})
        for (int byte = 0; byte < 8; ++byte)
            hash = (hash ^ (static_cast<std::uint64_t>(number) >> (8 * byte) & 0xFFU)) * 0x100000001b3ULL;
    return hash;
}

/// SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014) at a place of its
/// sequence.
std::uint32_t drawNumber(std::uint64_t key, std::uint64_t counter)
{
    std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return static_cast<std::uint32_t>((z ^ (z >> 31U)) >> 32U);
}

namespace {

/// Forward: X -> Y, mask?; backward: dY -> dX. Element i of the slice has the number that it has in the global batch.
class Dropout final : public RandomKernel {
public:
    Dropout(std::int64_t elements, double ratio, std::string name)
        : m_elements(elements),
          m_ratio(ratio),
          m_name(std::move(name))
    {
    }

    void begin(const Draw &draw) override
    {
        m_training = draw.training;
        m_key = drawKey(draw, m_name);
        m_first = static_cast<std::uint64_t>(draw.firstSample)
            * static_cast<std::uint64_t>(m_elements / std::max<std::int64_t>(1, draw.samples));
    }

    void run(Inputs in, Outputs out) override
    {
        const float *x = floats(in[0]);
        float *y = floats(out[0]);
        auto *mask = out.size() > 1 ? static_cast<std::uint8_t *>(out[1]) : nullptr;
        const auto limit = static_cast<std::uint32_t>(m_ratio * 0x1.0p32);
        const auto scale = static_cast<float>(1.0 / (1.0 - m_ratio));
        parallelFor(m_elements, kGrain, [=, this](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const bool kept = !m_training || drawNumber(m_key, m_first + static_cast<std::uint64_t>(i)) >= limit;
                y[i] = kept ? x[i] * (m_training ? scale : 1.0F) : 0.0F;
                if (mask)
                    mask[i] = kept ? 1 : 0;
            }
        });
    }

private:
    std::int64_t m_elements;
    double m_ratio;
    std::string m_name;
    bool m_training = false;
    std::uint64_t m_key = 0;
    std::uint64_t m_first = 0;
};

} // namespace

Made makeRandomDropout(const Request &request)
{
    const double ratio = request.op.number("ratio", 0.0);
    if (!(ratio >= 0 && ratio < 1))
        return wrong(request, "ratio " + std::to_string(ratio) + " is not in [0, 1)");
    if (request.in(0) != request.out() || (request.hasOutput(1) && request.out(1) != request.out()))
        return wrong(request, text(request.in(0)) + " and " + text(request.out()) + " differ");
    const std::string name = request.op.text("key", request.op.name);
    return Made(std::unique_ptr<Kernel>(std::make_unique<Dropout>(request.outputs[0].elements(), ratio, name)));
}

} // namespace planloom::device
