// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>

namespace planloom::reference {

inline Function unary(double (*f)(double))
{
    return [f](const Call &c) {
        for (std::int64_t i = 0; i < c.out[0].size(); ++i)
            c.out[0][i] = f(c.in[0][i]);
    };
}

inline Function binary(double (*f)(double, double))
{
    return [f](const Call &c) {
        std::int64_t i = 0;
        forEach(c.out[0].dims, [&](const Dims &index) { c.out[0][i++] = f(c.in[0].at(index), c.in[1].at(index)); });
    };
}

/// With the attributes alpha and beta, or min and max.
inline Function tuned(const char *first, double firstDefault, const char *second, double secondDefault,
                      double (*f)(double, double, double))
{
    return [=](const Call &c) {
        for (std::int64_t i = 0; i < c.out[0].size(); ++i)
            c.out[0][i] = f(c.in[0][i], c.op.number(first, firstDefault), c.op.number(second, secondDefault));
    };
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline void gelu(const Call &c)
{
    const bool approximate = c.op.text("approximate", "none") == "tanh";
    for (std::int64_t i = 0; i < c.out[0].size(); ++i) {
        const double x = c.in[0][i];
        const double inner = approximate ? std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))
                                         : std::erf(x / std::sqrt(2.0));
        c.out[0][i] = 0.5 * x * (1.0 + inner);
    }
}

inline void addSmooth(Table &t)
{
    t["Neg"] = unary([](double x) { return -x; });
    t["Abs"] = unary([](double x) { return std::fabs(x); });
    t["Sqrt"] = unary([](double x) { return std::sqrt(x); });
    t["Reciprocal"] = unary([](double x) { return 1.0 / x; });
    t["Exp"] = unary([](double x) { return std::exp(x); });
    t["Log"] = unary([](double x) { return std::log(x); });
    t["Erf"] = unary([](double x) { return std::erf(x); });
    t["Tanh"] = unary([](double x) { return std::tanh(x); });
    t["Sigmoid"] = unary(sigmoid);
    t["Mish"] = unary([](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
    t["Silu"] = unary([](double x) { return x * sigmoid(x); });
    t["Softplus"] = unary([](double x) { return std::log(1.0 + std::exp(x)); });
    t["Sin"] = unary([](double x) { return std::sin(x); });
    t["Cos"] = unary([](double x) { return std::cos(x); });
    t["Identity"] = unary([](double x) { return x; });
    t["Dropout"] = unary([](double x) { return x; });
    t["Gelu"] = gelu;
}

inline void addPiecewise(Table &t)
{
    t["Relu"] = unary([](double x) { return std::max(x, 0.0); });
    t["Floor"] = unary([](double x) { return std::floor(x); });
    t["Ceil"] = unary([](double x) { return std::ceil(x); });
    t["Round"] = unary([](double x) { return std::nearbyint(x); });
    t["Sign"] = unary([](double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : 0.0); });
    t["Not"] = unary([](double x) { return x == 0.0 ? 1.0 : 0.0; });
    t["HardSwish"] = unary([](double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
    t["LeakyRelu"] = tuned("alpha", 0.01, "", 0, [](double x, double a, double) { return x < 0 ? a * x : x; });
    t["Elu"] =
        tuned("alpha", 1.0, "", 0, [](double x, double a, double) { return x < 0 ? a * (std::exp(x) - 1.0) : x; });
    t["HardSigmoid"] =
        tuned("alpha", 0.2, "beta", 0.5, [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); });
    t["Clip"] = tuned("min", -INFINITY, "max", INFINITY,
                      [](double x, double low, double high) { return std::min(std::max(x, low), high); });
    t["Cast"] = [](const Call &c) {
        const std::string to = c.op.text("to");
        for (std::int64_t i = 0; i < c.out[0].size(); ++i) {
            const double x = c.in[0][i];
            const double whole = to.find("int") != std::string::npos ? std::trunc(x) : x;
            c.out[0][i] = to == "bool" ? (x != 0.0 ? 1.0 : 0.0) : whole;
        }
    };
}

inline void addElementwise(Table &t)
{
    addSmooth(t);
    addPiecewise(t);
    t["Add"] = binary([](double a, double b) { return a + b; });
    t["Sub"] = binary([](double a, double b) { return a - b; });
    t["Mul"] = binary([](double a, double b) { return a * b; });
    t["Div"] = binary([](double a, double b) { return a / b; });
    t["Pow"] = binary([](double a, double b) { return std::pow(a, b); });
    t["Min"] = binary([](double a, double b) { return std::min(a, b); });
    t["Max"] = binary([](double a, double b) { return std::max(a, b); });
    t["Equal"] = binary([](double a, double b) { return a == b ? 1.0 : 0.0; });
    t["Less"] = binary([](double a, double b) { return a < b ? 1.0 : 0.0; });
    t["Greater"] = binary([](double a, double b) { return a > b ? 1.0 : 0.0; });
    t["And"] = binary([](double a, double b) { return a != 0.0 && b != 0.0 ? 1.0 : 0.0; });
    t["Or"] = binary([](double a, double b) { return a != 0.0 || b != 0.0 ? 1.0 : 0.0; });
    t["AddN"] = [](const Call &c) {
        for (const Array &x : c.in) {
            for (std::int64_t i = 0; i < c.out[0].size(); ++i)
                c.out[0][i] += x[i];
        }
    };
    t["Where"] = [](const Call &c) {
        std::int64_t i = 0;
        forEach(c.out[0].dims, [&](const Dims &index) {
            c.out[0][i++] = c.in[0].at(index) != 0.0 ? c.in[1].at(index) : c.in[2].at(index);
        });
    };
}

} // namespace planloom::reference
