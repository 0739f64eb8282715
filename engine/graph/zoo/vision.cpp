// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"

#include <array>
#include <cmath>

namespace planloom::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kClasses = 1000; ///< ImageNet

Initializer filled(double value)
{
    return {value == 0 ? Initializer::Kind::Zeros : Initializer::Kind::Ones, 0, 0, nullptr, {}, 0};
}

/// He et al. 2015, "fan out": keeps the variance of gradients through ReLUs.
Initializer heFanOut(std::int64_t out, std::int64_t kernel)
{
    return normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)));
}

/// A chain of layers on images or vectors with labels (N).
class VisionBuilder {
public:
    VisionBuilder(const std::string &name, Shape input) : m_builder(name)
    {
        x = m_builder.input("x", DType::F32, std::move(input));
        m_labels = m_builder.input("labels", DType::I64, Shape::batched({}));
    }

    GraphBuilder &builder() { return m_builder; }

    TensorId conv(TensorId from, const std::string &parameter, std::int64_t in, std::int64_t out, std::int64_t kernel,
                  std::int64_t stride, bool bias, const std::string &name)
    {
        std::vector<TensorId> inputs{from,
                                     m_builder.parameter(parameter + ".weight", Shape::of({out, in, kernel, kernel}),
                                                         heFanOut(out, kernel))};
        if (bias)
            inputs.push_back(m_builder.parameter(parameter + ".bias", Shape::of({out}), filled(0)));
        return m_builder.add("Conv", inputs,
                             {{"kernel_shape", Sizes{kernel, kernel}},
                              {"strides", Sizes{stride, stride}},
                              {"pads", Sizes(4, kernel / 2)},
                              {"dilations", Sizes{1, 1}},
                              {"group", std::int64_t{1}}},
                             name);
    }

    TensorId batchNorm(TensorId from, const std::string &parameter, std::int64_t channels, const std::string &name)
    {
        const Shape shape = Shape::of({channels});
        return m_builder.add("BatchNormalization",
                             {from, m_builder.parameter(parameter + ".weight", shape, filled(1)),
                              m_builder.parameter(parameter + ".bias", shape, filled(0)),
                              m_builder.state(parameter + ".running_mean", shape, filled(0)),
                              m_builder.state(parameter + ".running_var", shape, filled(1))},
                             {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", std::int64_t{1}}}, name);
    }

    TensorId relu(TensorId from, const std::string &name = "relu") { return m_builder.add("Relu", {from}, {}, name); }

    TensorId maxPool(TensorId from, std::int64_t kernel, std::int64_t stride, std::int64_t pad, const std::string &name)
    {
        return m_builder.add(
            "MaxPool", {from},
            {{"kernel_shape", Sizes{kernel, kernel}}, {"strides", Sizes{stride, stride}}, {"pads", Sizes(4, pad)}},
            name);
    }

    TensorId gemm(TensorId from, const std::string &parameter, std::int64_t in, std::int64_t out, double deviation,
                  const std::string &name)
    {
        const TensorId weight = m_builder.parameter(parameter + ".weight", Shape::of({out, in}), normal(deviation));
        const TensorId bias = m_builder.parameter(parameter + ".bias", Shape::of({out}), filled(0));
        return m_builder.add("Gemm", {from, weight, bias},
                             {{"alpha", 1.0}, {"beta", 1.0}, {"transA", std::int64_t{0}}, {"transB", std::int64_t{1}}},
                             name);
    }

    void loss(TensorId logits)
    {
        const TensorId loss = m_builder.add("SoftmaxCrossEntropyLoss", {logits, m_labels},
                                            {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
    }

    Result<Graph> build() && { return std::move(m_builder).build(); }

    TensorId x;

private:
    GraphBuilder m_builder;
    TensorId m_labels;
};

/// A bottleneck of ResNet v1.5. The shortcut is a 1x1 convolution where size or channels change.
TensorId bottleneck(VisionBuilder &b, const std::string &prefix, TensorId x, std::int64_t in, std::int64_t middle,
                    std::int64_t stride)
{
    constexpr std::int64_t kExpansion = 4;
    const std::int64_t out = middle * kExpansion;
    TensorId y = b.conv(x, prefix + ".conv1", in, middle, 1, 1, false, "conv1");
    y = b.relu(b.batchNorm(y, prefix + ".bn1", middle, "bn1"));
    y = b.conv(y, prefix + ".conv2", middle, middle, 3, stride, false, "conv2");
    y = b.relu(b.batchNorm(y, prefix + ".bn2", middle, "bn2"));
    y = b.conv(y, prefix + ".conv3", middle, out, 1, 1, false, "conv3");
    y = b.batchNorm(y, prefix + ".bn3", out, "bn3");
    if (stride != 1 || in != out) {
        x = b.conv(x, prefix + ".downsample.0", in, out, 1, stride, false, "downsample.0");
        x = b.batchNorm(x, prefix + ".downsample.1", out, "downsample.1");
    }
    return b.relu(b.builder().add("Add", {y, x}, {}, "add"));
}

} // namespace

Result<Graph> mlp(const std::string &name, const std::vector<std::int64_t> &sizes)
{
    constexpr std::int64_t kMost = 1 << 24;
    if (sizes.size() < 2 || sizes.size() > 10'000)
        return badInput("model '" + name + "': a perceptron needs an input and an output size");
    for (const std::int64_t size : sizes)
        if (size < 1 || size > kMost)
            return badInput("model '" + name + "': sizes must lie between 1 and " + std::to_string(kMost));
    VisionBuilder b(name, Shape::batched({sizes.front()}));
    TensorId x = b.x;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
        const bool last = i + 2 == sizes.size();
        const double deviation = std::sqrt((last ? 1.0 : 2.0) / static_cast<double>(sizes[i]));
        b.builder().pushScope("layers/" + std::to_string(i));
        x = b.gemm(x, "layers." + std::to_string(i), sizes[i], sizes[i + 1], deviation, "gemm");
        if (last)
            b.loss(x);
        else
            x = b.relu(x);
        b.builder().popScope();
    }
    return std::move(b).build();
}

Result<Graph> vgg19()
{
    struct Block {
        std::int64_t channels;
        int convolutions;
    };
    static constexpr std::array kBlocks{Block{64, 2}, Block{128, 2}, Block{256, 4}, Block{512, 4}, Block{512, 4}};
    VisionBuilder b("vgg19", Shape::batched({3, 224, 224}));
    TensorId x = b.x;
    std::int64_t in = 3;
    int feature = 0; // position in torchvision's "features"
    const auto layer = [&](const std::string &scope, const auto &body) {
        b.builder().pushScope(scope);
        body();
        b.builder().popScope();
    };
    for (std::size_t block = 0; block < kBlocks.size(); ++block) {
        const std::string number = std::to_string(block + 1);
        for (int i = 0; i < kBlocks[block].convolutions; ++i) {
            layer("Conv2d_" + number + "_" + std::to_string(i + 1), [&] {
                x = b.relu(
                    b.conv(x, "features." + std::to_string(feature), in, kBlocks[block].channels, 3, 1, true, "conv"));
            });
            in = kBlocks[block].channels;
            feature += 2;
        }
        layer("MaxPool2d_" + number, [&] { x = b.maxPool(x, 2, 2, 0, "pool"); });
        ++feature;
    }
    constexpr std::int64_t kFlat = 512 * 7 * 7;
    constexpr std::int64_t kWide = 4096;
    constexpr double kDeviation = 0.01;
    layer("FC1", [&] {
        x = b.builder().add("Flatten", {x}, {{"axis", std::int64_t{1}}}, "flatten");
        x = b.relu(b.gemm(x, "classifier.0", kFlat, kWide, kDeviation, "gemm"));
    });
    layer("FC2", [&] { x = b.relu(b.gemm(x, "classifier.3", kWide, kWide, kDeviation, "gemm")); });
    layer("Prediction", [&] { x = b.gemm(x, "classifier.6", kWide, kClasses, kDeviation, "gemm"); });
    layer("Loss", [&] { b.loss(x); });
    return std::move(b).build();
}

namespace {

/// @p blocks: bottlenecks of each of the four layers.
Result<Graph> resnet(const std::string &name, const std::array<int, 4> &blocks)
{
    VisionBuilder b(name, Shape::batched({3, 224, 224}));
    b.builder().pushScope("stem");
    TensorId x = b.conv(b.x, "conv1", 3, 64, 7, 2, false, "conv1");
    x = b.relu(b.batchNorm(x, "bn1", 64, "bn1"));
    x = b.maxPool(x, 3, 2, 1, "maxpool");
    b.builder().popScope();
    std::int64_t in = 64;
    for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
        const std::int64_t middle = std::int64_t{64} << layer;
        const std::string number = std::to_string(layer + 1);
        for (int i = 0; i < blocks[layer]; ++i) {
            b.builder().pushScope("layer" + number + "/" + std::to_string(i));
            x = bottleneck(b, "layer" + number + "." + std::to_string(i), x, in, middle, i == 0 && layer > 0 ? 2 : 1);
            in = middle * 4;
            b.builder().popScope();
        }
    }
    b.builder().pushScope("head");
    x = b.builder().add("GlobalAveragePool", {x}, {}, "avgpool");
    x = b.builder().add("Flatten", {x}, {{"axis", std::int64_t{1}}}, "flatten");
    b.loss(b.gemm(x, "fc", in, kClasses, 1 / std::sqrt(static_cast<double>(in)), "fc"));
    b.builder().popScope();
    return std::move(b).build();
}

} // namespace

Result<Graph> resnet50() { return resnet("resnet50", {3, 4, 6, 3}); }

Result<Graph> resnet101() { return resnet("resnet101", {3, 4, 23, 3}); }

} // namespace planloom::graph
