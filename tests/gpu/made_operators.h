// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/operator_case.h"
#include "gpu/operator_parity.h"

#include <cmath>
#include <cstdint>

// Operators that rewrites and shardings make, with arguments, as no case of a model has them.
namespace planloom::test {

struct MadeOperator {
    graph::Op op;
    std::vector<device::Argument> inputs, outputs;
    std::vector<Buffer> values;
    double tolerance = 2e-5;
};

class MadeOperators {
public:
    using Ints = std::vector<std::int64_t>;

    /// Parts between devices, indices of split axes, losses of split classes, blocks of tensors.
    static std::vector<MadeOperator> ofShards()
    {
        constexpr std::int64_t kElsewhere = INT64_MIN;
        constexpr std::int64_t kOne = 1;
        constexpr std::int64_t kTwo = 2;
        MadeOperators made;
        const graph::Attributes deal{{"parts", kTwo}, {"axis", kOne}, {"segments", Ints{4, 2}}, {"mesh_index", kOne}};
        made.add("ShardSlice", deal, {made.floats({3, 12, 2})}, {{3, 6, 2}});
        made.add("ShardPad", deal, {made.floats({3, 6, 2})}, {{3, 12, 2}});
        made.add("Partition", deal, {made.floats({3, 6, 2})}, {{2, 3, 3, 2}});
        made.add("Assemble", deal, {made.floats({2, 3, 3, 2})}, {{3, 6, 2}});
        for (const std::int64_t place : {0, 1})
            made.add("KeepOnFirst", {{"mesh_index", place}}, {made.floats({3, 5})}, {{3, 5}});
        for (const std::int64_t fromEnd : {0, 1})
            made.add("ShiftIndices",
                     {{"parts", kTwo},
                      {"size", std::int64_t{4}},
                      {"mesh_index", kOne},
                      {"keep", std::int64_t{-100}},
                      {"from_end", fromEnd}},
                     {integers({0, 3, 4, 7, 8, -1, -100, kElsewhere})}, {{8}}, graph::DType::I64);
        made.add("ShardGather", {{"axis", kOne}},
                 {made.floats({2, 4, 3}), integers({0, 3, kElsewhere, kElsewhere + 1, 2})}, {{2, 5, 3}});
        const Given labels = integers({0, 2, kElsewhere, -100, 1, 7});
        made.add("LossStatistics", {}, {made.floats({6, 3}), labels}, {{6, 3}});
        made.add("CombineLossStatistics", {}, {made.positive({2, 6, 3})}, {{6, 3}});
        made.add("LossFromStatistics", {}, {made.positive({6, 3}), labels}, {{}, {6, 2}});
        made.add("LossRowShare", {}, {made.floats({}), labels, integers({1, -100, 2, 2, -100, 1, 0, 0})}, {{}});
        made.add("Pack", {{"offsets", Ints{0, 6, 12}}, {"elements", std::int64_t{20}}, {"parts", kTwo}},
                 {made.floats({5}), made.floats({2, 3}), made.floats({4})}, {{2, 10}});
        made.add("Unpack", {{"offsets", Ints{0, 6}}, {"ranks", Ints{1, 2}}, {"sizes", Ints{5, 2, 3}}},
                 {made.floats({2, 10})}, {{5}, {2, 3}});
        return std::move(made.m_all);
    }

    /// Tables and index tensors that more than one block of threads looks through, with indices that meet, count from
    /// the end, or lie outside.
    static std::vector<MadeOperator> ofIndices()
    {
        MadeOperators made;
        const auto scattered = [](std::int64_t count, std::int64_t below, Ints dims = {}) {
            Ints values;
            for (std::int64_t i = 0; i < count; ++i)
                values.push_back(i % 97 == 5 ? below + 3 : (i * i * 31 + i % 7) % (below + below / 8) - below / 8);
            Given given = integers(values);
            if (!dims.empty())
                given.argument.dims = std::move(dims);
            return given;
        };
        const auto alongAxis = [](std::int64_t axis) { return graph::Attributes{{"axis", axis}}; };
        made.add("GatherGrad", alongAxis(0), {made.floats({500, 40}), scattered(500, 300)}, {{300, 40}});
        made.add("GatherGrad", alongAxis(1), {made.floats({3, 150, 2}), scattered(150, 2100)}, {{3, 2100, 2}});
        made.add("Gather", alongAxis(1), {made.floats({3, 90, 2}), scattered(150, 90)}, {{3, 150, 2}});
        // Warps add up rows of a table: of one that all picks name, too.
        made.add("GatherGrad", alongAxis(0), {made.floats({700, 132}), scattered(700, 90)}, {{90, 132}});
        made.add("GatherGrad", alongAxis(1), {made.floats({2, 600, 40}), scattered(600, 2)}, {{2, 2, 40}});
        made.add("Gather", alongAxis(0), {made.floats({90, 12}), scattered(150, 90)}, {{150, 12}});
        made.add("GatherElementsGrad", alongAxis(0), {made.floats({50, 60}), scattered(3000, 90, {50, 60})},
                 {{90, 60}});
        for (const char *reduction : {"none", "add", "mul"}) {
            graph::Attributes how = alongAxis(0);
            how["reduction"] = std::string(reduction);
            made.add("ScatterElements", how,
                     {made.floats({90, 60}), scattered(3000, 90, {50, 60}), made.floats({50, 60})}, {{90, 60}});
            how.erase("axis");
            made.add("ScatterND", how, {made.floats({400, 30}), scattered(200, 350, {200, 1}), made.floats({200, 30})},
                     {{400, 30}});
        }
        for (const std::int64_t largest : {0, 1}) {
            Given equal = made.floats({3, 40, 2});
            for (std::size_t at = 0; at < equal.values.size(); at += 4) { // few values, and some that are none
                float value = 0;
                std::memcpy(&value, equal.values.data() + at, 4);
                value = at % 52 == 8 ? NAN : std::round(4 * value);
                std::memcpy(equal.values.data() + at, &value, 4);
            }
            made.add("TopK", {{"axis", std::int64_t{1}}, {"k", std::int64_t{40}}, {"largest", largest}}, {equal},
                     {{3, 40, 2}, {3, 40, 2}});
            made.m_all.back().outputs[1].type = graph::DType::I64;
        }
        return std::move(made.m_all);
    }

    /// Rows that groups of threads keep, of one to eight warps; odd and long ones, that a block walks. Sums over rows
    /// of them, in parts and as a whole; losses. In float32, or bfloat16 if @p half.
    static std::vector<MadeOperator> ofRows(bool half)
    {
        MadeOperators made;
        const graph::Attributes last{{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}};
        for (const std::int64_t width : {10, 24, 520, 1800, 2600, half ? 4200 : 4100}) {
            const std::int64_t rows = width < 100 ? 70 : 9;
            const Ints shape{rows, width};
            const Ints statistics{rows, 1};
            const auto x = [&] { return made.floats(shape); };
            const auto parameter = [&] { return made.positive({width}); };
            const auto statistic = [&] { return made.positive({rows, 1}); };
            made.add("LayerNormalization", last, {x(), parameter(), parameter()}, {shape, statistics, statistics});
            made.add("AddLayerNormalization", last, {x(), x(), parameter(), parameter()},
                     {shape, shape, statistics, statistics});
            made.add("RMSNormalization", last, {x(), parameter()}, {shape, statistics});
            made.add("LayerNormalizationGrad", last, {x(), x(), parameter(), statistic(), statistic(), x()},
                     {shape, {width}, {width}});
            made.add("RMSNormalizationGrad", last, {x(), x(), parameter(), statistic()}, {shape, {width}});
        }
        for (const Ints &shape : {Ints{300, 7}, Ints{300, 24}, Ints{40, 600}, Ints{5, 300, 16}, Ints{20, 8}})
            made.add("ReduceSum", {{"axes", Ints{static_cast<std::int64_t>(shape.size()) - 2}}}, {made.floats(shape)},
                     {shape.size() > 2 ? Ints{shape[0], 1, shape[2]} : Ints{1, shape[1]}});
        made.add("ReduceSumTo", {{"shape", Ints{24}}, {"batch_axis", std::int64_t{-1}}}, {made.floats({9, 50, 24})},
                 {{24}});
        made.add("ReduceSumTo", {{"shape", Ints{40, 24}}, {"batch_axis", std::int64_t{-1}}}, {made.floats({9, 40, 24})},
                 {{40, 24}});
        for (const char *type : {"Add", "Sub", "Mul"}) { // in whole pieces, and not
            made.add(type, {}, {made.floats({6, 40, 24}), made.floats({40, 24})}, {{6, 40, 24}});
            made.add(type, {}, {made.floats({6, 1, 24}), made.floats({6, 5, 24})}, {{6, 5, 24}});
            made.add(type, {}, {made.floats({9, 24}), made.floats({9, 1})}, {{9, 24}});
        }
        made.add("AddN", {}, {made.floats({9, 31}), made.floats({9, 31}), made.floats({9, 31})}, {{9, 31}});
        for (const std::int64_t classes : {7, 50, 2063}) { // odd ones: rows begin anywhere
            const std::int64_t rows = classes < 100 ? 70 : 5;
            const Ints shape{rows, classes};
            Ints numbers;
            for (std::int64_t row = 0; row < rows; ++row)
                numbers.push_back(row % 4 == 3 ? -100 : (row * 997 + 6) % classes);
            const Given labels = integers(numbers);
            made.add("SoftmaxCrossEntropyLoss", {}, {made.floats(shape), labels}, {{}, {rows, 2}});
            made.add("SoftmaxCrossEntropyLossGrad", {},
                     {made.floats({}), made.floats(shape), labels, made.floats({rows, 2})}, {shape});
            made.add("LossStatistics", {}, {made.floats(shape), labels}, {{rows, 3}});
        }
        if (half)
            for (MadeOperator &op : made.m_all)
                halve(op);
        return std::move(made.m_all);
    }

    /// Batch normalisation with a ReLU and a residual, in rows and with channels last; other operators with these.
    static std::vector<MadeOperator> ofImages()
    {
        MadeOperators made;
        const Ints image{3, 16, 5, 3};
        const graph::Attributes relu{{"relu", std::int64_t{1}}};
        for (const bool last : {false, true}) {
            const auto images = [&] { return made.floats(image, last); };
            made.add("BatchNormalization", relu,
                     {images(), made.positive({16}), made.floats({16}), made.floats({16}), made.positive({16}),
                      images()},
                     {image, {16}, {16}}, graph::DType::F32, last);
            for (const bool second : {false, true}) {
                std::vector<Given> in{
                    images(), images(), made.positive({16}), made.floats({16}), made.positive({16}), made.floats({16})};
                if (second) {
                    in.push_back(images());
                    in.push_back(images());
                }
                made.add("BatchNormalizationGrad", relu, in, {image, {16}, {16}, image}, graph::DType::F32, last);
            }
            made.add("Relu", {}, {images()}, {image}, graph::DType::F32, last);
            made.add("ReluGrad", {}, {images(), images()}, {image}, graph::DType::F32, last);
            made.add("AddN", {}, {images(), images(), images()}, {image}, graph::DType::F32, last);
            made.add("Concat", {{"axis", std::int64_t{1}}}, {images(), images()}, {{3, 32, 5, 3}}, graph::DType::F32,
                     last);
            const graph::Attributes slice{{"axes", Ints{1}}, {"starts", Ints{16}}, {"ends", Ints{32}}};
            made.add("Slice", slice, {made.floats({3, 48, 5, 3}, last)}, {image}, graph::DType::F32, last);
            made.add("SliceGrad", slice, {images()}, {{3, 48, 5, 3}}, graph::DType::F32, last);
            // Of channels that come in rows, as a model's first ones do.
            made.add("Conv", {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}},
                     {made.floats({3, 5, 5, 3}), made.floats({16, 5, 3, 3})}, {image}, graph::DType::F32, last);
        }
        // On tensor cores.
        struct Window {
            std::int64_t size, stride, pad, dilation, inputs, outputs, positions;
        };
        for (const Window &w :
             {Window{1, 1, 0, 1, 64, 128, 9}, Window{3, 1, 1, 1, 64, 64, 9}, Window{3, 2, 1, 1, 128, 64, 5},
              Window{1, 2, 0, 1, 64, 64, 5}, Window{3, 2, 1, 1, 48, 80, 5}, Window{3, 2, 1, 1, 3, 64, 5},
              Window{3, 1, 2, 2, 64, 64, 9}}) {
            made.add("ConvGradWeight",
                     {{"kernel_shape", Ints{w.size, w.size}},
                      {"pads", Ints(4, w.pad)},
                      {"strides", Ints(2, w.stride)},
                      {"dilations", Ints(2, w.dilation)},
                      {"w_shape", Ints{w.outputs, w.inputs, w.size, w.size}}},
                     {inHalf(made.floats({3, w.outputs, w.positions, w.positions}, true)),
                      inHalf(made.floats({3, w.inputs, 9, 9}, w.inputs >= 16))},
                     {{w.outputs, w.inputs, w.size, w.size}});
            made.m_all.back().tolerance = 2e-3;
        }
        return std::move(made.m_all);
    }

    /// Attention in bfloat16 and its gradient, with heads that tensor cores take and with others: tiles that end with
    /// the tokens and tiles that do not, heads that share keys, hidden keys.
    static std::vector<MadeOperator> ofAttention()
    {
        struct Shape {
            std::int64_t n, t, heads, kvHeads, width, causal;
            bool masked;
        };
        constexpr Shape kShapes[]{{1, 130, 2, 2, 64, 1, false}, {2, 64, 2, 1, 64, 0, false},
                                  {2, 70, 1, 1, 64, 0, true},   {1, 75, 4, 2, 64, 1, true},
                                  {1, 1, 1, 1, 64, 1, false},   {1, 99, 2, 1, 128, 1, false},
                                  {2, 64, 1, 1, 128, 0, true},  {1, 40, 2, 2, 32, 1, false}};
        MadeOperators made;
        for (const Shape &shape : kShapes) {
            const graph::Attributes how{{"heads", shape.heads}, {"kv_heads", shape.kvHeads}, {"causal", shape.causal}};
            const Ints rows{shape.n, shape.t, shape.heads * shape.width};
            const Ints packed{shape.n, shape.t, (shape.heads + 2 * shape.kvHeads) * shape.width};
            const Ints sums{shape.n, shape.heads, shape.t};
            std::vector<Given> mask;
            if (shape.masked) {
                Ints seen;
                for (std::int64_t i = 0; i < shape.n * shape.t; ++i)
                    seen.push_back(i % 5 != 0 && i % 64 < 60 ? 1 : 0);
                mask.push_back(integers(seen));
                mask.back().argument.dims = {shape.n, shape.t};
            }
            std::vector<Given> in{inHalf(made.floats(packed))};
            in.insert(in.end(), mask.begin(), mask.end());
            made.add("Attention", how, in, {rows, sums}, graph::DType::BF16);
            made.m_all.back().outputs[1].type = graph::DType::F32;
            in = {inHalf(made.floats(rows)), inHalf(made.floats(packed)), inHalf(made.floats(rows)),
                  made.floats(sums, false, 3, 5)};
            in.insert(in.end(), mask.begin(), mask.end());
            made.add("AttentionGrad", how, in, {packed}, graph::DType::BF16);
        }
        for (MadeOperator &each : made.m_all)
            each.tolerance = 2e-2;
        return std::move(made.m_all);
    }

    /// A convolution in bfloat16 whose padding differs between both ends, and its gradients, in rows and with channels
    /// last. Strides that leave no rest, and one that does.
    static std::vector<MadeOperator> ofUnevenPadding()
    {
        MadeOperators made;
        for (const bool last : {false, true})
            for (const std::int64_t size : {8, 7}) {
                const graph::Attributes how{{"kernel_shape", Ints{3, 3}},
                                            {"pads", Ints{0, 0, 1, 1}},
                                            {"strides", Ints{2, 2}},
                                            {"w_shape", Ints{16, 16, 3, 3}},
                                            {"x_shape", Ints{2, 16, size, size}}};
                const Ints image{2, 16, size, size};
                const std::int64_t positions = (size + 1 - 3) / 2 + 1;
                const Ints result{2, 16, positions, positions};
                const auto images = [&](const Ints &dims) { return inHalf(made.floats(dims, last)); };
                const auto weights = [&] { return inHalf(made.floats({16, 16, 3, 3})); };
                made.add("Conv", how, {images(image), weights()}, {result}, graph::DType::BF16, last);
                made.add("ConvGradInput", how, {images(result), weights()}, {image}, graph::DType::BF16, last);
                made.add("ConvGradWeight", how, {images(result), images(image)}, {{16, 16, 3, 3}});
            }
        for (MadeOperator &each : made.m_all)
            each.tolerance = 2e-2;
        return std::move(made.m_all);
    }

    /// Products of bfloat16 whose result, or one factor, has rows of @p odd elements: no multiple of 16 bytes.
    static std::vector<MadeOperator> ofUnalignedRows(std::int64_t rows, std::int64_t odd)
    {
        constexpr std::int64_t kWidth = 16;
        constexpr std::int64_t kOne = 1;
        MadeOperators made;
        made.add("MatMul", {{"transB", kOne}},
                 {inHalf(made.floats({rows, kWidth})), inHalf(made.floats({odd, kWidth}))}, {{rows, odd}},
                 graph::DType::BF16);
        made.add("MatMul", {{"transB", kOne}},
                 {inHalf(made.floats({rows, kWidth})), inHalf(made.floats({odd, kWidth})), made.floats({odd})},
                 {{rows, odd}}, graph::DType::BF16);
        made.add("MatMul", {}, {inHalf(made.floats({rows, odd})), inHalf(made.floats({odd, kWidth}))}, {{rows, kWidth}},
                 graph::DType::BF16);
        made.add("MatMulWeightGrad", {}, {inHalf(made.floats({rows, odd})), inHalf(made.floats({rows, kWidth}))},
                 {{odd, kWidth}});
        for (MadeOperator &each : made.m_all)
            each.tolerance = 2e-2;
        return std::move(made.m_all);
    }

    struct Given {
        device::Argument argument;
        Buffer values;
    };
    static Given inHalf(Given floats)
    {
        floats.argument.type = graph::DType::BF16;
        floats.values = halved(floats.values);
        return floats;
    }
    static Given integers(const Ints &values)
    {
        Given made{{graph::DType::I64, {static_cast<std::int64_t>(values.size())}, true}, Buffer(8 * values.size())};
        std::memcpy(made.values.data(), values.data(), made.values.size());
        return made;
    }
    Given floats(const Ints &dims, bool last = false, double low = -1, double high = 1)
    {
        Given made{{graph::DType::F32, dims, true}, {}};
        if (last)
            made.argument.layout = graph::Layout::Blocked;
        made.values.resize(static_cast<std::size_t>(4 * made.argument.elements()));
        cases::Sequence sequence(++m_seed);
        for (std::size_t at = 0; at < made.values.size(); at += 4) {
            const auto value = static_cast<float>(sequence.next(low, high));
            std::memcpy(made.values.data() + at, &value, 4);
        }
        return made;
    }
    Given positive(const Ints &dims) { return floats(dims, false, 0.25); }

    void add(const char *type, graph::Attributes attributes, const std::vector<Given> &inputs,
             const std::vector<Ints> &outputs, graph::DType made = graph::DType::F32, bool last = false)
    {
        MadeOperator op;
        op.op.type = graph::OpType(type);
        op.op.name = "made";
        op.op.attributes = std::move(attributes);
        for (const Given &input : inputs) {
            op.inputs.push_back(input.argument);
            op.values.push_back(input.values);
        }
        for (const Ints &dims : outputs) {
            op.outputs.push_back({made, dims, true});
            if (last && dims.size() == 4)
                op.outputs.back().layout = graph::Layout::Blocked;
        }
        m_all.push_back(std::move(op));
    }

    /// Matrices as bfloat16, as mixed precision has them.
    static void halve(MadeOperator &op)
    {
        const auto narrows = [](const device::Argument &argument) {
            return argument.type == graph::DType::F32 && argument.dims.size() > 1 && argument.dims.back() > 3;
        };
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (narrows(op.inputs[i])) {
                op.inputs[i].type = graph::DType::BF16;
                op.values[i] = halved(op.values[i]);
            }
        for (device::Argument &output : op.outputs)
            if (narrows(output) && !op.op.type.name().starts_with("Reduce"))
                output.type = graph::DType::BF16;
    }

    [[nodiscard]] const std::vector<MadeOperator> &all() const { return m_all; }

private:
    std::uint64_t m_seed = 0;
    std::vector<MadeOperator> m_all;
};

} // namespace planloom::test
