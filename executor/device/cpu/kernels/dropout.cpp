// SPDX-License-Identifier: Apache-2.0
// Dropout in training. The mask is not kept: the gradient draws it again, from the same counters.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/random_kernel.h"

namespace planloom::device {

namespace {

/// Forward: X -> Y, mask?; backward: dY -> dX.
class Dropout final : public RandomKernel {
public:
    Dropout(std::int64_t elements, double ratio, std::string name)
        : m_elements(elements),
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
        parallelFor(m_elements, kGrain, [=, rule = m_rule](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const bool kept = rule.keeps(i);
                y[i] = kept ? x[i] * rule.scale : 0.0F;
                if (mask)
                    mask[i] = kept ? 1 : 0;
            }
        });
    }

private:
    std::int64_t m_elements;
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
    return Made(std::unique_ptr<Kernel>(std::make_unique<Dropout>(request.outputs[0].elements(), ratio, name)));
}

} // namespace planloom::device
