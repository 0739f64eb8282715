// SPDX-License-Identifier: Apache-2.0
// How training depends on the first recurrent weights' size, ADMM against SGD and Adam, in double precision:
// bench_admm_weights DIGITS.csv.gz. Accuracy on the training and on the held-out samples after 60 iterations, for first
// weights W of 0.1, 1, 3 and 10 times their usual size; the best of a few rates for SGD and Adam.
#include "tests/engine/admm/digits.h"
#include "tests/engine/admm/measures.h"

#include <algorithm>
#include <cstdio>

using namespace planloom;
using namespace planloom::admm;

namespace {

constexpr int kIterations = 60;

struct Score {
    double training = 0, heldOut = 0;
};

Score scoreOf(const Parameters &parameters, const Digits &digits)
{
    return {accuracy(parameters, digits.training), accuracy(parameters, digits.heldOut)};
}

Score byAdmm(Parameters parameters, const Digits &digits)
{
    auto training = Training::of(Settings(), parameters, digits.training, 1);
    for (int iteration = 0; training && iteration < kIterations; ++iteration)
        if (!iterate(*training))
            return {};
    return scoreOf(training->parameters, digits);
}

/// Calls @p update(parameter, its gradient, place of its state) for each.
template <class Update>
void eachParameter(Parameters &parameters, const Parameters &gradients, Update update)
{
    int place = 0;
    const auto one = [&](auto &parameter, const auto &gradient) {
        update(parameter.reshaped(), gradient.reshaped(), place++);
    };
    one(parameters.u, gradients.u);
    one(parameters.w, gradients.w);
    one(parameters.b, gradients.b);
    one(parameters.v, gradients.v);
    one(parameters.c, gradients.c);
}

Score byGradients(Parameters parameters, const Digits &digits, double rate, bool adam)
{
    constexpr double kFirst = 0.9;
    constexpr double kSecond = 0.999;
    constexpr double kEpsilon = 1e-8;
    constexpr int kParameters = 5;
    std::vector<Vector> means(kParameters);
    std::vector<Vector> squares(kParameters);
    for (int step = 1; step <= kIterations; ++step) {
        const Gradients gradients = gradientsOf(parameters, digits.training, 0);
        const double scale = 1.0 / static_cast<double>(digits.training.count());
        eachParameter(parameters, gradients.parameters, [&](auto parameter, auto sum, int place) {
            const Vector gradient = scale * sum;
            if (!adam) {
                parameter -= rate * gradient;
                return;
            }
            auto &mean = means[static_cast<std::size_t>(place)];
            auto &square = squares[static_cast<std::size_t>(place)];
            if (step == 1)
                mean = square = Vector::Zero(gradient.size());
            mean = kFirst * mean + (1 - kFirst) * gradient;
            square = kSecond * square + (1 - kSecond) * gradient.cwiseAbs2();
            const Vector corrected = square / (1 - std::pow(kSecond, step));
            parameter -=
                (rate / (1 - std::pow(kFirst, step)) * mean.array() / (corrected.array().sqrt() + kEpsilon)).matrix();
        });
    }
    return scoreOf(parameters, digits);
}

Score bestByGradients(const Parameters &parameters, const Digits &digits, std::initializer_list<double> rates,
                      bool adam)
{
    Score best;
    for (const double rate : rates) {
        const Score score = byGradients(parameters, digits, rate, adam);
        if (score.training > best.training)
            best = score;
    }
    return best;
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 2) {
        std::fprintf(stderr, "bench_admm_weights DIGITS.csv.gz\n");
        return 2;
    }
    const auto packed = readFile(arguments[1]);
    const auto text = packed ? gunzip(*packed) : packed;
    const auto digits = text ? readDigits(*text) : Result<Digits>(text.error());
    if (!digits) {
        std::fprintf(stderr, "%s\n", digits.error().text().c_str());
        return 2;
    }
    std::printf("W times | ADMM | SGD | Adam (training / held out)\n");
    for (const double scale : {0.1, 1.0, 3.0, 10.0}) {
        const Parameters first = drawParameters(8, 32, 10, 1, scale);
        const Score admm = byAdmm(first, *digits);
        const Score sgd = bestByGradients(first, *digits, {0.1, 0.3, 1}, false);
        const Score adam = bestByGradients(first, *digits, {0.003, 0.01, 0.03}, true);
        std::printf("%g | %.3f / %.3f | %.3f / %.3f | %.3f / %.3f\n", scale, admm.training, admm.heldOut, sgd.training,
                    sgd.heldOut, adam.training, adam.heldOut);
    }
    return 0;
}
