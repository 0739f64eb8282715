// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/network.h"

#include <Eigen/Core>

#include <array>
#include <cmath>

namespace planloom::planners::automap {
namespace {

using Matrix = Eigen::MatrixXf;
using Vector = Eigen::VectorXf;

/// Weights of a layer, or their gradients.
struct Layer {
    Matrix weight; ///< outputs x inputs
    Vector bias;
};

/// Two hidden layers, the value and the advantages.
using Layers = std::array<Layer, 4>;

Layers like(const Layers &layers)
{
    Layers zeros;
    for (std::size_t i = 0; i < layers.size(); ++i)
        zeros[i] = {Matrix::Zero(layers[i].weight.rows(), layers[i].weight.cols()),
                    Vector::Zero(layers[i].bias.size())};
    return zeros;
}

/// Outputs of a pass over a batch, a column per sample.
struct Pass {
    Matrix input, first, second, values;
};

Matrix affine(const Layer &layer, const Matrix &input) { return (layer.weight * input).colwise() + layer.bias; }

Pass forward(const Layers &layers, Matrix input)
{
    Pass pass;
    pass.first = affine(layers[0], input).cwiseMax(0.0F);
    pass.second = affine(layers[1], pass.first).cwiseMax(0.0F);
    const Matrix value = affine(layers[2], pass.second);
    const Matrix advantage = affine(layers[3], pass.second);
    pass.values = (advantage.rowwise() - advantage.colwise().mean()).rowwise() + value.row(0);
    pass.input = std::move(input);
    return pass;
}

Layers backward(const Layers &layers, const Pass &pass, const Matrix &byValues)
{
    Layers gradient = like(layers);
    const auto layer = [&](std::size_t index, const Matrix &byOutput, const Matrix &input) {
        gradient[index].weight = byOutput * input.transpose();
        gradient[index].bias = byOutput.rowwise().sum();
        return Matrix(layers[index].weight.transpose() * byOutput);
    };
    const Matrix byValue = byValues.colwise().sum();
    const Matrix byAdvantage = byValues.rowwise() - byValues.colwise().mean();
    Matrix bySecond = layer(2, byValue, pass.second);
    bySecond += layer(3, byAdvantage, pass.second);
    bySecond.array() *= (pass.second.array() > 0).cast<float>();
    Matrix byFirst = layer(1, bySecond, pass.first);
    byFirst.array() *= (pass.first.array() > 0).cast<float>();
    layer(0, byFirst, pass.input);
    return gradient;
}

Matrix inputOf(const std::vector<Network::Sample> &batch)
{
    Matrix input(static_cast<Eigen::Index>(batch.front().state->size()), static_cast<Eigen::Index>(batch.size()));
    for (std::size_t i = 0; i < batch.size(); ++i)
        input.col(static_cast<Eigen::Index>(i)) = Eigen::Map<const Vector>(batch[i].state->data(), input.rows());
    return input;
}

float errorOf(const Pass &pass, const Network::Sample &sample, std::size_t column)
{
    return sample.target - pass.values(static_cast<Eigen::Index>(sample.action), static_cast<Eigen::Index>(column));
}

/// By Q: the weighted mean Huber loss's slope is the error, cut off at 1.
Matrix slope(const Pass &pass, const std::vector<Network::Sample> &batch)
{
    Matrix byValues = Matrix::Zero(pass.values.rows(), pass.values.cols());
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const float error = std::fmin(1.0F, std::fmax(-1.0F, errorOf(pass, batch[i], i)));
        byValues(static_cast<Eigen::Index>(batch[i].action), static_cast<Eigen::Index>(i)) =
            -error * batch[i].weight / static_cast<float>(batch.size());
    }
    return byValues;
}

} // namespace

struct Network::Parameters {
    Layers layers;
    Layers mean, square; ///< Adam's moments
    std::int64_t steps = 0;
};

Network::Network(std::size_t states, std::size_t hidden, std::size_t actions, std::mt19937_64 &random)
    : m_parameters(std::make_unique<Parameters>())
{
    const auto make = [&random](std::size_t outputs, std::size_t inputs) {
        // He et al.: keeps the variance through ReLU. Drawn bit by bit, so that every standard library gives the same.
        const auto deviation = static_cast<float>(std::sqrt(6.0 / static_cast<double>(inputs)));
        Layer layer{Matrix(static_cast<Eigen::Index>(outputs), static_cast<Eigen::Index>(inputs)),
                    Vector::Zero(static_cast<Eigen::Index>(outputs))};
        for (Eigen::Index i = 0; i < layer.weight.size(); ++i)
            layer.weight.data()[i] =
                deviation * (2 * static_cast<float>(random() >> 40U) / static_cast<float>(1 << 24) - 1);
        return layer;
    };
    m_parameters->layers = {make(hidden, states), make(hidden, hidden), make(1, hidden), make(actions, hidden)};
    m_parameters->mean = like(m_parameters->layers);
    m_parameters->square = like(m_parameters->layers);
}

Network::~Network() = default;
Network::Network(const Network &other) : m_parameters(std::make_unique<Parameters>(*other.m_parameters)) {}
Network &Network::operator=(const Network &other)
{
    *m_parameters = *other.m_parameters;
    return *this;
}

std::vector<float> Network::values(const std::vector<float> &state) const
{
    const Pass pass =
        forward(m_parameters->layers, Eigen::Map<const Vector>(state.data(), static_cast<Eigen::Index>(state.size())));
    return {pass.values.data(), pass.values.data() + pass.values.size()};
}

std::vector<std::vector<float>> Network::values(const std::vector<const std::vector<float> *> &states) const
{
    if (states.empty())
        return {};
    Matrix input(static_cast<Eigen::Index>(states.front()->size()), static_cast<Eigen::Index>(states.size()));
    for (std::size_t i = 0; i < states.size(); ++i)
        input.col(static_cast<Eigen::Index>(i)) = Eigen::Map<const Vector>(states[i]->data(), input.rows());
    const Pass pass = forward(m_parameters->layers, std::move(input));
    std::vector<std::vector<float>> result;
    for (Eigen::Index i = 0; i < pass.values.cols(); ++i)
        result.emplace_back(pass.values.col(i).data(), pass.values.col(i).data() + pass.values.rows());
    return result;
}

std::vector<float> Network::train(const std::vector<Sample> &batch, float learningRate)
{
    constexpr float kMean = 0.9F;
    constexpr float kSquare = 0.999F;
    constexpr float kEpsilon = 1e-8F;
    Parameters &own = *m_parameters;
    const Pass pass = forward(own.layers, inputOf(batch));
    const Layers gradient = backward(own.layers, pass, slope(pass, batch));
    ++own.steps;
    const float first = 1 - std::pow(kMean, static_cast<float>(own.steps));
    const float second = 1 - std::pow(kSquare, static_cast<float>(own.steps));
    const auto update = [&](auto &value, auto &mean, auto &square, const auto &slope) {
        mean = kMean * mean + (1 - kMean) * slope;
        square = kSquare * square + (1 - kSquare) * slope.cwiseProduct(slope);
        value.array() -= learningRate * (mean.array() / first) / ((square.array() / second).sqrt() + kEpsilon);
    };
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        update(own.layers[i].weight, own.mean[i].weight, own.square[i].weight, gradient[i].weight);
        update(own.layers[i].bias, own.mean[i].bias, own.square[i].bias, gradient[i].bias);
    }
    std::vector<float> errors;
    for (std::size_t i = 0; i < batch.size(); ++i)
        errors.push_back(errorOf(pass, batch[i], i));
    return errors;
}

double Network::loss(const std::vector<Sample> &batch) const
{
    const Pass pass = forward(m_parameters->layers, inputOf(batch));
    double sum = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const double error = std::fabs(errorOf(pass, batch[i], i));
        sum += batch[i].weight * (error <= 1 ? 0.5 * error * error : error - 0.5);
    }
    return sum / static_cast<double>(batch.size());
}

std::vector<float> Network::weights() const
{
    std::vector<float> all;
    for (const Layer &layer : m_parameters->layers) {
        all.insert(all.end(), layer.weight.data(), layer.weight.data() + layer.weight.size());
        all.insert(all.end(), layer.bias.data(), layer.bias.data() + layer.bias.size());
    }
    return all;
}

void Network::setWeights(const std::vector<float> &weights)
{
    const float *at = weights.data();
    for (Layer &layer : m_parameters->layers) {
        std::copy(at, at + layer.weight.size(), layer.weight.data());
        at += layer.weight.size();
        std::copy(at, at + layer.bias.size(), layer.bias.data());
        at += layer.bias.size();
    }
}

std::vector<float> Network::gradient(const std::vector<Sample> &batch) const
{
    const Pass pass = forward(m_parameters->layers, inputOf(batch));
    Network slopes(*this);
    slopes.m_parameters->layers = backward(m_parameters->layers, pass, slope(pass, batch));
    return slopes.weights();
}

} // namespace planloom::planners::automap
