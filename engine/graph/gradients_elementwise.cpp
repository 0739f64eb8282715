// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients.h"

namespace planloom::graph {
namespace {

void addGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i, b.sumTo(i, b.dy()));
}

void subGrad(Backward &b)
{
    if (b.wants(0))
        b.give(0, b.sumTo(0, b.dy()));
    if (b.wants(1))
        b.give(1, b.emit("Neg", {b.sumTo(1, b.dy())}));
}

void mulGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i, b.sumTo(i, b.emit("Mul", {b.dy(), b.x(1 - i)})));
}

/// y = a / b: da = dy / b, db = -dy * y / b.
void divGrad(Backward &b)
{
    if (b.wants(0))
        b.give(0, b.sumTo(0, b.emit("Div", {b.dy(), b.x(1)})));
    if (b.wants(1)) {
        const TensorId ratio = b.emit("Div", {b.emit("Mul", {b.dy(), b.y()}), b.x(1)});
        b.give(1, b.emit("Neg", {b.sumTo(1, ratio)}));
    }
}

/// y = a^e: da = dy * e * a^(e - 1), de = dy * y * log a.
void powGrad(Backward &b)
{
    if (b.input(1).type != DType::F32) {
        b.refuse("its exponent is not float32; cast it");
        return;
    }
    if (b.wants(0)) {
        const TensorId lower = b.emit("Pow", {b.x(0), b.emit("Sub", {b.x(1), b.scalar(1)})});
        b.give(0, b.sumTo(0, b.emit("Mul", {b.dy(), b.emit("Mul", {lower, b.x(1)})})));
    }
    if (b.wants(1))
        b.give(1, b.sumTo(1, b.emit("Mul", {b.emit("Mul", {b.dy(), b.y()}), b.emit("Log", {b.x(0)})})));
}

void minMaxGrad(Backward &b)
{
    for (std::size_t i = 0; i < 2; ++i)
        if (b.wants(i))
            b.give(i, b.sumTo(i, b.emit("MinMaxGrad", {b.dy(), b.x(0), b.x(1)}, {{"op", b.op().type}, {"which", static_cast<std::int64_t>(i)}})));
}

void whereGrad(Backward &b)
{
    if (b.wants(1))
        b.give(1, b.sumTo(1, b.emit("Where", {b.x(0), b.dy(), b.scalar(0)})));
    if (b.wants(2))
        b.give(2, b.sumTo(2, b.emit("Where", {b.x(0), b.scalar(0), b.dy()})));
}

void passOn(Backward &b)
{
    b.give(0, b.dy());
}

void dropoutGrad(Backward &b)
{
    const double ratio = b.op().number("ratio", 0);
    const bool drops = ratio > 0; // what is dropped is drawn again, under the forward operator's name
    b.give(0, drops ? b.emit("DropoutGrad", {b.dy()}, {{"ratio", ratio}, {"key", b.op().name}}) : b.dy());
}

void maskedDropoutGrad(Backward &b) { b.give(0, b.emit("MaskedDropoutGrad", {b.dy(), b.y(1)}, b.op().attributes)); }

void castGrad(Backward &b)
{
    b.give(0, b.emit("Cast", {b.dy()}, {{"to", std::string(name(b.input(0).type))}}));
}

void negGrad(Backward &b)
{
    b.give(0, b.emit("Neg", {b.dy()}));
}

/// y = 1 / x: dx = -dy * y * y.
void reciprocalGrad(Backward &b)
{
    b.give(0, b.emit("Neg", {b.emit("Mul", {b.emit("Mul", {b.dy(), b.y()}), b.y()})}));
}

void expGrad(Backward &b)
{
    b.give(0, b.emit("Mul", {b.dy(), b.y()}));
}

void logGrad(Backward &b)
{
    b.give(0, b.emit("Div", {b.dy(), b.x()}));
}

TensorId squared(Backward &b) { return b.emit("Mul", {b.x(), b.x()}); }

/// dx = sign * dy / sqrt(@p inner).
void overRoot(Backward &b, TensorId inner, bool negative)
{
    const TensorId gradient = b.emit("Div", {b.dy(), b.emit("Sqrt", {inner})});
    b.give(0, negative ? b.emit("Neg", {gradient}) : gradient);
}

void asinGrad(Backward &b) { overRoot(b, b.emit("Sub", {b.scalar(1), squared(b)}), false); }
void acosGrad(Backward &b) { overRoot(b, b.emit("Sub", {b.scalar(1), squared(b)}), true); }
void asinhGrad(Backward &b) { overRoot(b, b.emit("Add", {squared(b), b.scalar(1)}), false); }
void acoshGrad(Backward &b) { overRoot(b, b.emit("Sub", {squared(b), b.scalar(1)}), false); }
void atanGrad(Backward &b) { b.give(0, b.emit("Div", {b.dy(), b.emit("Add", {squared(b), b.scalar(1)})})); }
void atanhGrad(Backward &b) { b.give(0, b.emit("Div", {b.dy(), b.emit("Sub", {b.scalar(1), squared(b)})})); }
void sinhGrad(Backward &b) { b.give(0, b.emit("Mul", {b.dy(), b.emit("Cosh", {b.x()})})); }
void coshGrad(Backward &b) { b.give(0, b.emit("Mul", {b.dy(), b.emit("Sinh", {b.x()})})); }

/// a - b * floor(a / b), of which the second factor is taken as fixed.
void modGrad(Backward &b) { b.give(0, b.sumTo(0, b.dy())); }

/// TYPEGrad(dy, y) with the attributes of the operator.
void fromOutput(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.y()}, b.op().attributes));
}

/// TYPEGrad(dy, x) with the attributes of the operator.
void fromInput(Backward &b)
{
    b.give(0, b.emit(b.op().type + "Grad", {b.dy(), b.x()}, b.op().attributes));
}

} // namespace

std::vector<GradientRule> elementwiseGradients()
{
    std::vector<GradientRule> rules{
        {"Add", addGrad},       {"Sub", subGrad},         {"Mul", mulGrad},   {"Div", divGrad}, {"Pow", powGrad}, {"Min", minMaxGrad},
        {"Max", minMaxGrad},    {"Where", whereGrad, 6U}, {"Identity", passOn}, {"Dropout", dropoutGrad, 1U}, {"MaskedDropout", maskedDropoutGrad}, {"Cast", castGrad},
        {"Neg", negGrad},       {"Reciprocal", reciprocalGrad}, {"Exp", expGrad}, {"Log", logGrad}, {"Mod", modGrad, 1U},
        {"Asin", asinGrad},     {"Acos", acosGrad},       {"Atan", atanGrad}, {"Asinh", asinhGrad}, {"Acosh", acoshGrad},
        {"Atanh", atanhGrad},   {"Sinh", sinhGrad},       {"Cosh", coshGrad},
    };
    for (const char *type : {"Relu", "Tanh", "Sigmoid", "Sqrt", "Softmax", "LogSoftmax"})
        rules.push_back({type, fromOutput});
    for (const char *type : {"Gelu", "Silu", "Erf", "Abs", "LeakyRelu", "Elu", "Softplus", "HardSwish", "HardSigmoid", "Clip", "Sin", "Cos"})
        rules.push_back({type, fromInput});
    for (const char *type : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not", "Floor", "Ceil", "Round", "Sign", "Shape",
                             "ArgMax", "ArgMin", "ConstantOfShape"})
        rules.push_back({type, nullptr});
    return rules;
}

} // namespace planloom::graph
