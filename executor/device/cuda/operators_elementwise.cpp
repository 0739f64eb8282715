// SPDX-License-Identifier: Apache-2.0
// Element-wise operators.
#include "executor/device/cuda/operator_support.h"

#include <limits>
#include <tuple>

namespace planloom::cuda {

namespace {

/// The operator's attributes, with ONNX's defaults.
std::pair<float, float> attributesOf(const graph::Op &op)
{
    const std::string_view type = op.type;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto pair = [&](const char *a, double defaultA, const char *b, double defaultB) {
        return std::pair(static_cast<float>(op.number(a, defaultA)), static_cast<float>(op.number(b, defaultB)));
    };
    if (type.starts_with("LeakyRelu"))
        return pair("alpha", 0.01, "", 0);
    if (type.starts_with("Elu"))
        return pair("alpha", 1.0, "", 0);
    if (type.starts_with("HardSigmoid"))
        return pair("alpha", 0.2, "beta", 0.5);
    if (type.starts_with("Clip"))
        return pair("min", -kInfinity, "max", kInfinity);
    return {0.0F, 0.0F};
}

/// Whether arithmetic in float32 is right for both: floats, truths.
bool computesInFloat(const device::Argument &argument) { return isFloat(argument) || isTruth(argument); }

template <class F>
Made makeUnary(const Request &request)
{
    const bool floats = request.floatInputs(1) && request.floatOutputs(1);
    const bool truths = request.op.type == "Not" && isTruth(request.inputs[0]) && isTruth(request.outputs[0]);
    if ((!floats && !truths) || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    Unary<F> kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.n = request.outSize(0);
    std::tie(kernel.a, kernel.b) = attributesOf(request.op);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

template <class F>
Made makeGradient(const Request &request)
{
    const std::int64_t n = request.outSize(0);
    if (!request.floatInputs(2) || !request.floatOutputs(1) || request.inSize(0) != n || request.inSize(1) != n)
        return onlyOnHost(request);
    UnaryGradient<F> kernel;
    kernel.dy = from(request, 0);
    kernel.v = from(request, 1);
    kernel.dx = to(request, 0);
    kernel.n = n;
    std::tie(kernel.a, kernel.b) = attributesOf(request.op);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.v.data = in[1];
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

Made makeGelu(const Request &request)
{
    return request.op.text("approximate", "none") == "tanh" ? makeUnary<function::GeluTanh>(request)
                                                            : makeUnary<function::GeluErf>(request);
}
Made makeGeluGrad(const Request &request)
{
    return request.op.text("approximate", "none") == "tanh" ? makeGradient<function::GeluTanhGrad>(request)
                                                            : makeGradient<function::GeluErfGrad>(request);
}

/// Conversions that float32 can carry; of one type to itself, a copy of bytes.
Made makeCast(const Request &request)
{
    const auto readable = [](const device::Argument &argument) {
        return isFloat(argument) || isTruth(argument) || isInteger(argument);
    };
    if (!request.hasInput(0) || !readable(request.inputs[0]) || request.inSize(0) != request.outSize(0)
        || !(isFloat(request.outputs[0]) || isTruth(request.outputs[0])))
        return onlyOnHost(request);
    Unary<function::Identity> kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.n = request.outSize(0);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

template <class F>
Made makeBinary(const Request &request)
{
    if (request.inputs.size() != 2 || !computesInFloat(request.inputs[0]) || !computesInFloat(request.inputs[1])
        || !computesInFloat(request.outputs[0]))
        return onlyOnHost(request);
    const auto first = broadcast(request.in(0), request.out());
    const auto second = broadcast(request.in(1), request.out());
    if (!first || !second)
        return onlyOnHost(request);
    Binary<F> kernel;
    kernel.x0 = from(request, 0);
    kernel.x1 = from(request, 1);
    kernel.y = to(request, 0);
    kernel.n = request.outSize(0);
    kernel.loops = loopsOver<2>(request.out(), {*first, *second});
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x0.data = in[0];
        kernel.x1.data = in[1];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

Made makeWhere(const Request &request)
{
    if (request.inputs.size() != 3 || !isTruth(request.inputs[0]) || !isFloat(request.inputs[1])
        || !isFloat(request.inputs[2]) || !request.floatOutputs(1))
        return onlyOnHost(request);
    std::array<Dims, 3> strides;
    for (std::size_t i = 0; i < 3; ++i) {
        const auto fits = broadcast(request.in(i), request.out());
        if (!fits)
            return onlyOnHost(request);
        strides[i] = *fits;
    }
    Where kernel;
    kernel.condition = from(request, 0);
    kernel.x0 = from(request, 1);
    kernel.x1 = from(request, 2);
    kernel.y = to(request, 0);
    kernel.n = request.outSize(0);
    kernel.loops = loopsOver<3>(request.out(), strides);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.condition.data = in[0];
        kernel.x0.data = in[1];
        kernel.x1.data = in[2];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

Made makeAddN(const Request &request)
{
    if (request.inputs.empty() || request.inputs.size() > Sum::kMost || !request.floatInputs(request.inputs.size())
        || !request.floatOutputs(1))
        return onlyOnHost(request);
    Sum kernel;
    kernel.count = static_cast<int>(request.inputs.size());
    kernel.n = request.outSize(0);
    kernel.y = to(request, 0);
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
        if (request.inSize(i) != kernel.n)
            return onlyOnHost(request);
        kernel.x[i] = from(request, i);
    }
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        for (std::size_t i = 0; i < in.size(); ++i)
            kernel.x[i].data = in[i];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

// clang-format off
constexpr OperatorEntry kElementwise[] = {
#define X(Name) {#Name, makeUnary<function::Name>},
    X(Neg) X(Abs) X(Sqrt) X(Reciprocal) X(Exp) X(Log) X(Erf) X(Tanh) X(Sigmoid) X(Relu) X(LeakyRelu) X(Elu) X(Softplus)
    X(HardSigmoid) X(HardSwish) X(Silu) X(Mish) X(Clip) X(Sin) X(Cos) X(Floor) X(Ceil) X(Round) X(Sign) X(Not)
#undef X
#define X(Name) {#Name, makeGradient<function::Name>},
    X(ReluGrad) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(SiluGrad) X(ErfGrad) X(AbsGrad) X(LeakyReluGrad) X(EluGrad)
    X(SoftplusGrad) X(ClipGrad) X(SinGrad) X(CosGrad) X(HardSigmoidGrad) X(HardSwishGrad) X(MishGrad)
#undef X
#define X(Name) {#Name, makeBinary<function::Name>},
    PLANLOOM_BINARY_FUNCTIONS(X)
#undef X
    {"Gelu", makeGelu}, {"GeluGrad", makeGeluGrad}, {"Cast", makeCast}, {"Where", makeWhere}, {"AddN", makeAddN},
};
// clang-format on

} // namespace

std::span<const OperatorEntry> elementwiseOperators() { return kElementwise; }

} // namespace planloom::cuda
