// SPDX-License-Identifier: Apache-2.0
// Element-wise operators.
#include "executor/device/cuda/operator_support.h"
#include "executor/device/random_kernel.h"

#include <limits>
#include <tuple>

namespace planloom::cuda {

namespace {

/// The attributes of a function of one tensor and of its gradient, with ONNX's defaults; 0 of types that are not named.
std::pair<float, float> attributesOf(const graph::Op &op)
{
    const auto isOf = [type = std::string_view(op.type)](std::string_view function) {
        return type.starts_with(function) && (type.size() == function.size() || type.substr(function.size()) == "Grad");
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto pair = [&](const char *a, double defaultA, const char *b, double defaultB) {
        return std::pair(static_cast<float>(op.number(a, defaultA)), static_cast<float>(op.number(b, defaultB)));
    };
    if (isOf("LeakyRelu"))
        return pair("alpha", 0.01, "", 0);
    if (isOf("Elu"))
        return pair("alpha", 1.0, "", 0);
    if (isOf("HardSigmoid"))
        return pair("alpha", 0.2, "beta", 0.5);
    if (isOf("Clip"))
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
        queue.elements(kernel, kernel.n);
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
        queue.elements(kernel, kernel.n);
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
        queue.elements(kernel, kernel.n);
    });
}

/// Whether the innermost of @p loops walks whole pieces of 16 bytes of all tensors, and the others go from one to
/// another.
template <int K>
bool areWhole(Kind kind, const Loops<K> &loops)
{
    const int last = loops.depth - 1;
    if (last < 0 || !isWhole(kind, loops.dims[last]))
        return false;
    for (int k = 0; k < K; ++k)
        for (int d = 0; d <= last; ++d)
            if (d == last ? loops.strides[k][d] != 1 : !isWhole(kind, loops.strides[k][d]))
                return false;
    return true;
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
    const bool inPieces = kIsInPieces<F> && kernel.x0.kind == kernel.y.kind && kernel.x1.kind == kernel.y.kind
        && areWhole(kernel.y.kind, kernel.loops);
    return makeFunction([kernel, inPieces](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x0.data = in[0];
        kernel.x1.data = in[1];
        kernel.y.data = out[0];
        kernel.wide = inPieces && areAligned({in[0], in[1], out[0]}) ? 1 : 0;
        queue.items(kernel, kernel.items());
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

Made makeMod(const Request &request)
{
    return request.op.integer("fmod") != 0 ? makeBinary<function::Fmod>(request) : makeBinary<function::Mod>(request);
}

Made makeMinMaxGrad(const Request &request)
{
    const std::string kind = request.op.text("op", "Min");
    if (!request.floatInputs(3) || !request.floatOutputs(1) || (kind != "Min" && kind != "Max"))
        return onlyOnHost(request);
    std::array<Dims, 3> strides;
    for (std::size_t i = 0; i < 3; ++i) {
        const auto fits = broadcast(request.in(i), request.out());
        if (!fits)
            return onlyOnHost(request);
        strides[i] = *fits;
    }
    MinMaxGradient kernel;
    kernel.dy = from(request, 0);
    kernel.x0 = from(request, 1);
    kernel.x1 = from(request, 2);
    kernel.dx = to(request, 0);
    kernel.sign = kind == "Min" ? 1.0F : -1.0F;
    kernel.first = request.op.integer("which", 0) == 0 ? 1 : 0;
    kernel.n = request.outSize(0);
    kernel.loops = loopsOver<3>(request.out(), strides);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.x0.data = in[1];
        kernel.x1.data = in[2];
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

/// Draws the masks that the processor draws.
class Dropout final : public CudaKernel {
public:
    Dropout(const Drop &kernel, const graph::Op &op)
        : CudaKernel(op.number("ratio", 0.0) > 0 ? std::uint32_t{kDraws} : 0U),
          m_kernel(kernel),
          m_name(op.text("key", op.name)),
          m_ratio(op.number("ratio", 0.0))
    {
    }
    void begin(const device::Draw &draw) override
    {
        m_kernel.rule = device::dropRule(draw, m_name, m_ratio, m_kernel.n);
    }
    void run(CudaQueue &queue, device::Mode /*mode*/, Inputs inputs, Outputs outputs) override
    {
        m_kernel.x.data = inputs[0];
        m_kernel.y.data = outputs[0];
        m_kernel.mask = static_cast<std::uint8_t *>(given(outputs, 1));
        queue.items(m_kernel, m_kernel.n);
    }

private:
    Drop m_kernel;
    std::string m_name;
    double m_ratio;
};

Made makeDropout(const Request &request)
{
    const double ratio = request.op.number("ratio", 0.0);
    const bool alike = request.floatInputs(1) && request.floatOutputs(1) && request.in(0) == request.out()
        && request.inputs[0].layout == request.outputs[0].layout
        && (!request.hasOutput(1) || (request.out(1) == request.out() && isTruth(request.outputs[1])));
    if (!alike || !(ratio >= 0 && ratio < 1))
        return onlyOnHost(request);
    Drop kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.n = request.outSize(0);
    if (areLastChannels(request.outputs[0])) {
        kernel.channels = request.out()[1];
        kernel.pixels = productOf(request.out(), 2, request.out().size());
    }
    return Made(std::unique_ptr<device::DeviceKernel>(std::make_unique<Dropout>(kernel, request.op)));
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
        queue.add(kernel);
    });
}

// clang-format off
constexpr auto kAlike = LastChannels::Alike;
constexpr OperatorEntry kElementwise[] = {
#define X(Name) {#Name, makeUnary<function::Name>, kAlike},
    X(Neg) X(Abs) X(Sqrt) X(Reciprocal) X(Exp) X(Log) X(Erf) X(Tanh) X(Sigmoid) X(Relu) X(LeakyRelu) X(Elu) X(Softplus)
    X(HardSigmoid) X(HardSwish) X(Silu) X(Mish) X(Clip) X(Sin) X(Cos) X(Floor) X(Ceil) X(Round) X(Sign) X(Not)
    X(Sinh) X(Cosh) X(Asin) X(Acos) X(Atan) X(Asinh) X(Acosh) X(Atanh)
#undef X
#define X(Name) {#Name, makeGradient<function::Name>, kAlike},
    X(ReluGrad) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(SiluGrad) X(ErfGrad) X(AbsGrad) X(LeakyReluGrad) X(EluGrad)
    X(SoftplusGrad) X(ClipGrad) X(SinGrad) X(CosGrad) X(HardSigmoidGrad) X(HardSwishGrad) X(MishGrad)
#undef X
#define X(Name) {#Name, makeBinary<function::Name>, kAlike},
    X(Add) X(Sub) X(Mul) X(Div) X(Pow) X(Min) X(Max) X(Equal) X(Less) X(Greater) X(LessOrEqual) X(GreaterOrEqual)
    X(And) X(Or) X(Xor)
#undef X
    {"Gelu", makeGelu, kAlike}, {"GeluGrad", makeGeluGrad, kAlike}, {"Cast", makeCast, kAlike},
    {"Where", makeWhere, kAlike}, {"AddN", makeAddN, kAlike}, {"Mod", makeMod, kAlike},
    {"MinMaxGrad", makeMinMaxGrad, kAlike}, {"Dropout", makeDropout, LastChannels::Yes},
    {"DropoutGrad", makeDropout, LastChannels::Yes},
};
// clang-format on

} // namespace

std::span<const OperatorEntry> elementwiseOperators() { return kElementwise; }

} // namespace planloom::cuda
