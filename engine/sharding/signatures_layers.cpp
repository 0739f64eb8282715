// SPDX-License-Identifier: Apache-2.0
// Normalisations, softmax, convolutions, pools and losses. What runs over several channels or classes at once keeps
// them together, but for sums, which may stay partial.
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

std::size_t normalizedAxis(const OpAtHand &at, const graph::Tensor &x)
{
    return static_cast<std::size_t>(axisOf(at, -1, x.shape.rank()));
}

void softmax(const OpAtHand &at, Proposals &to)
{
    const graph::Tensor &x = *at.inputs[0];
    for (std::size_t axis = 0; axis < x.shape.rank(); ++axis)
        if (axis != normalizedAxis(at, x))
            to.row(std::vector<int>(at.inputs.size(), static_cast<int>(axis)), {static_cast<int>(axis)});
}

/// LayerNormalization and RMSNormalization: rows by themselves.
void normalization(const OpAtHand &at, Proposals &to)
{
    for (std::size_t axis = 0; axis < normalizedAxis(at, *at.inputs[0]); ++axis)
        to.row({static_cast<int>(axis)}, std::vector<int>(at.outputs.size(), static_cast<int>(axis)));
}

/// A and B, added up and normalised.
void sumNormalization(const OpAtHand &at, Proposals &to)
{
    for (std::size_t axis = 0; axis < normalizedAxis(at, *at.inputs[0]); ++axis) {
        const int a = static_cast<int>(axis);
        to.row({a, a}, std::vector<int>(at.outputs.size(), a));
    }
}

/// dY, X, scale, statistics -> dX, and the sums for scale and bias over the rows at hand.
void normalizationGrad(const OpAtHand &at, Proposals &to)
{
    for (std::size_t axis = 0; axis < normalizedAxis(at, *at.inputs[1]); ++axis) {
        const int a = static_cast<int>(axis);
        std::vector<int> inputs(at.inputs.size(), a);
        inputs[2] = kAll;
        to.row(std::move(inputs), {a, kSum, kSum});
    }
}

/// Channels by themselves; over samples the statistics would differ.
void batchNormalization(const OpAtHand &, Proposals &to) { to.row({1, 0, 0, 0, 0}, {1, 0, 0}); }

void batchNormalizationGrad(const OpAtHand &, Proposals &to) { to.row({1, 1, 0, 0, 0}, {1, 0, 0}); }

bool grouped(const OpAtHand &at) { return at.op.integer("group", 1) != 1; }

bool groupsDivide(const OpAtHand &at) { return at.op.integer("group", 1) % at.parts == 0; }

void conv(const OpAtHand &at, Proposals &to)
{
    to.row({0}, {0});
    if (grouped(at)) {
        if (groupsDivide(at))
            to.plainRow({1, 0, 0}, {1});
        return;
    }
    to.row({kAll, 0, 0}, {1});
    const bool bias = at.inputs.size() > 2 && at.inputs[2];
    to.row({1, 1, bias ? kSum : kAll}, {kSum});
    to.plainRow({kSum, kAll, bias ? kSum : kAll}, {kSum});
}

void convGradInput(const OpAtHand &at, Proposals &to)
{
    to.row({0, kAll}, {0});
    to.plainRow({kSum, kAll}, {kSum});
    if (grouped(at)) {
        if (groupsDivide(at))
            to.plainRow({1, 0}, {1});
        return;
    }
    to.row({1, 0}, {kSum});
    to.row({kAll, 1}, {1});
}

void convGradWeight(const OpAtHand &at, Proposals &to)
{
    to.row({0, 0}, {kSum});
    to.plainRow({kSum, kAll}, {kSum});
    if (grouped(at)) {
        if (groupsDivide(at))
            to.plainRow({1, 1}, {0});
        return;
    }
    to.row({1, kAll}, {0});
    to.row({kAll, 1}, {1});
}

/// Input channels (of a grouped convolution, per group), output channels and groups as they are on one device.
void localizeConv(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    const bool channels = grouped(at) && isSplit(signature.inputs[0]) && signature.inputs[0].axis == 1;
    if (channels)
        attributes["group"] = at.op.integer("group", 1) / at.parts;
    if (at.op.type == "ConvGradInput" || at.op.type == "ConvTranspose")
        localizeShape(at, signature, attributes);
    if (at.op.type != "ConvGradWeight")
        return;
    std::vector<std::int64_t> weight = at.op.integers("w_shape");
    if (isSplit(signature.outputs[0]))
        weight[static_cast<std::size_t>(signature.outputs[0].axis)] /= at.parts;
    attributes["w_shape"] = std::move(weight);
}

void samplesAndChannels(const OpAtHand &at, Proposals &to)
{
    if (at.outputs.size() > 1)
        return; // indices count over the whole tensor
    for (const int axis : {0, 1})
        to.row(std::vector<int>(at.inputs.size(), axis), {axis});
}

/// The same for an operator that is linear in its only input.
void averages(const OpAtHand &at, Proposals &to)
{
    samplesAndChannels(at, to);
    to.linear();
}

/// Classes split (see localize.cpp), or rows with all labels everywhere. The loss comes out whole.
void crossEntropy(const OpAtHand &, Proposals &to)
{
    to.plainRow({1, kAll}, {kAll, kAll});
    to.plainRow({0, kAll}, {kAll, kAll});
}

void crossEntropyGrad(const OpAtHand &, Proposals &to)
{
    to.plainRow({kAll, 1, kAll, kAll}, {1});
    to.plainRow({kAll, 0, kAll, 0}, {0});
}

/// Parts of equal size: the mean over all is the sum of the means over the parts, each divided by their number. Not so
/// with a mask, which may count more elements in one part than in another.
void elementLoss(const OpAtHand &at, Proposals &to)
{
    if (at.inputs.size() > 2)
        return;
    for (int axis = 0; axis < static_cast<int>(at.inputs[0]->shape.rank()); ++axis)
        to.row({axis, axis}, {kSum});
}

void elementLossGrad(const OpAtHand &at, Proposals &to)
{
    if (at.inputs.size() > 3)
        return;
    for (int axis = 0; axis < static_cast<int>(at.outputs[0]->shape.rank()); ++axis)
        to.row({kAll, axis, axis}, {axis});
}

void localizeElementLoss(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes)
{
    if (isSplit(signature.inputs[1]))
        attributes["share"] = at.op.number("share", 1) / at.parts;
}

void lossStatistics(const OpAtHand &, Proposals &to)
{
    to.plainRow({1, kAll}, {kAll});
    to.row({0, 0}, {0});
}

/// Every row for itself, of all inputs and outputs.
void rowsOfAll(const OpAtHand &at, Proposals &to) { to.row({0, 0, 0}, std::vector<int>(at.outputs.size(), 0)); }

/// Sums over rows: each device's rows give a part of both sums.
void outerSums(const OpAtHand &at, Proposals &to)
{
    if (at.inputs.size() < 2)
        return;
    const int rows = static_cast<int>(at.inputs[0]->shape.rank()) - 2;
    to.row({rows, rows}, {kSum, kSum});
}

void combineStatistics(const OpAtHand &, Proposals &to) { to.row({1}, {0}); }

} // namespace

std::vector<SignatureRule> layerRules()
{
    return {
        {"LSTM", nullptr}, // recurrent layers: each device of a line has all of them
        {"LSTMGrad", nullptr},
        {"GRU", nullptr},
        {"GRUGrad", nullptr},
        {"RNN", nullptr},
        {"RNNGrad", nullptr},
        {"Softmax", softmax},
        {"LogSoftmax", softmax},
        {"SoftmaxGrad", softmax},
        {"LogSoftmaxGrad", softmax},
        {"LayerNormalization", normalization},
        {"RMSNormalization", normalization},
        {"AddLayerNormalization", sumNormalization},
        {"AddRMSNormalization", sumNormalization},
        {"LayerNormalizationGrad", normalizationGrad},
        {"RMSNormalizationGrad", normalizationGrad},
        {"BatchNormalization", batchNormalization},
        {"BatchNormalizationGrad", batchNormalizationGrad},
        {"Conv", conv, localizeConv},
        {"ConvGradInput", convGradInput, localizeConv},
        {"ConvTranspose", convGradInput, localizeConv},
        {"ConvGradWeight", convGradWeight, localizeConv},
        {"MaxPool", samplesAndChannels},
        {"MaxPoolGrad", samplesAndChannels},
        {"AveragePool", averages},
        {"AveragePoolGrad", averages, localizeShape},
        {"GlobalAveragePool", averages},
        {"GlobalAveragePoolGrad", averages, localizeShape},
        {"GlobalMaxPool", samplesAndChannels},
        {"GlobalMaxPoolGrad", samplesAndChannels},
        {"SoftmaxCrossEntropyLoss", crossEntropy},
        {"SoftmaxCrossEntropyLossGrad", crossEntropyGrad},
        {"MeanSquaredErrorLoss", elementLoss, localizeElementLoss},
        {"MeanSquaredErrorLossGrad", elementLossGrad, localizeElementLoss},
        {"MeanAbsoluteErrorLoss", elementLoss, localizeElementLoss},
        {"MeanAbsoluteErrorLossGrad", elementLossGrad, localizeElementLoss},
        {"HuberLoss", elementLoss, localizeElementLoss},
        {"HuberLossGrad", elementLossGrad, localizeElementLoss},
        {"SigmoidCrossEntropyLoss", elementLoss, localizeElementLoss},
        {"SigmoidCrossEntropyLossGrad", elementLossGrad, localizeElementLoss},
        {"ProximalCrossEntropy", rowsOfAll},
        {"OuterSums", outerSums},
        {"CholeskySolve", nullptr}, // small: each device solves the same system
        {"KeepState", nullptr},     // of samples, which only data parallelism splits
        {"ReadState", nullptr},     // likewise
        {"SumsOfShards", nullptr},  // whole on each device
        {"LossStatistics", lossStatistics},
        {"CombineLossStatistics", combineStatistics},
        {"LossFromStatistics", nullptr},
        {"LossRowShare", nullptr},
        {"Reorder", nullptr},
        {"ProfiledLayer", nullptr},
        {"Shape", nullptr},
    };
}

} // namespace planloom::sharding
