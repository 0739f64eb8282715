// SPDX-License-Identifier: Apache-2.0
// Dropout in training. The mask is not kept: the gradient draws it again, from the same counters. Elements of images
// are numbered channel by channel, whatever their layout is: a gradient may have another than what was dropped.
#include "executor/device/cpu/channel_lanes.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/random_kernel.h"

namespace planloom::device {

namespace {

/// Forward: X -> Y, mask?; backward: dY -> dX.
class Dropout final : public RandomKernel {
public:
    Dropout(const Argument &argument, double ratio, std::string name)
        : m_elements(argument.elements()),
          m_width(blockWidth(argument.layout)),
          m_area(m_width > 1 ? product(argument.dims, 2, argument.dims.size()) : 1),
          m_ratio(ratio),
          m_name(std::move(name))
    {
    }

    void begin(const Draw &draw) override { m_rule = dropRule(draw, m_name, m_ratio, m_elements); }

    void run(Inputs in, Outputs out) override
    {
        const float *x = floats(in[0]);
        float *y = floats(out[0]);
        auto *mask = out.size() > 1 ? static_cast<std::uint8_t *>(out[1]) : nullptr;
        const auto put = [=, rule = m_rule](std::int64_t i, std::int64_t number) {
            const bool kept = rule.keeps(number);
            y[i] = kept ? x[i] * rule.scale : 0.0F;
            if (mask)
                mask[i] = kept ? 1 : 0;
        };
        if (m_width == 1) {
            parallelFor(m_elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i)
                    put(i, i);
            });
            return;
        }
        parallelFor(m_elements / m_width, kGrain / m_width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t pixel = begin; pixel < end; ++pixel) {
                const std::int64_t first = pixel / m_area * m_width * m_area + pixel % m_area;
                for (std::int64_t channel = 0; channel < m_width; ++channel)
                    put(pixel * m_width + channel, first + channel * m_area);
            }
        });
    }

private:
    std::int64_t m_elements;
    std::int64_t m_width; ///< channels side by side
    std::int64_t m_area;  ///< pixels of an image
    double m_ratio;
    std::string m_name;
    DropRule m_rule;
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
    return Made(std::unique_ptr<Kernel>(std::make_unique<Dropout>(request.outputs[0], ratio, name)));
}

} // namespace planloom::device
