// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace planloom::planners::automap {

/// A small multi-layer perceptron with duelling heads (Wang et al., 2016): two hidden layers with ReLU, then Q(s, a) =
/// V(s) + A(s, a) - mean A(s, .). Trained with Adam on the Huber loss. Single-threaded; equal seeds give equal
/// networks. Copyable: a target network is a copy.
class Network {
public:
    Network(std::size_t states, std::size_t hidden, std::size_t actions, std::mt19937_64 &random);
    ~Network();
    Network(const Network &other);
    Network &operator=(const Network &other);

    /// Q of every action.
    [[nodiscard]] std::vector<float> values(const std::vector<float> &state) const;
    /// The same for several states at once, which is much faster than one by one.
    [[nodiscard]] std::vector<std::vector<float>> values(const std::vector<const std::vector<float> *> &states) const;

    struct Sample {
        const std::vector<float> *state = nullptr;
        std::size_t action = 0;
        float target = 0; ///< target of Q(state, action)
        float weight = 1; ///< of its error
    };
    /// One step of Adam on the mean weighted Huber loss; the errors target - Q before it, per sample.
    std::vector<float> train(const std::vector<Sample> &batch, float learningRate);
    /// The mean weighted Huber loss. For tests of the gradient.
    [[nodiscard]] double loss(const std::vector<Sample> &batch) const;
    /// All weights in a row, and the gradient of loss() by them. For tests.
    [[nodiscard]] std::vector<float> weights() const;
    void setWeights(const std::vector<float> &weights);
    [[nodiscard]] std::vector<float> gradient(const std::vector<Sample> &batch) const;

private:
    struct Parameters;
    std::unique_ptr<Parameters> m_parameters;
};

} // namespace planloom::planners::automap
