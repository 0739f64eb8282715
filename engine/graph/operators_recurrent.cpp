// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, and their gradients. Beyond ONNX's outputs they give out what their gradients need.
#include "engine/graph/operators_families.h"

namespace planloom::graph {
namespace {

/// Sizes of a layer; `steps` and `batch` may carry the batch.
struct Sizes {
    Dim steps, batch;
    std::int64_t directions = 1, hidden = 0, features = 0;
    bool batchFirst = false;
};

struct Kind {
    std::int64_t gates;
    std::size_t states;        ///< Y_h, and LSTM's Y_c
    std::int64_t saved[2];     ///< widths of the saved outputs, in hidden sizes; 0: none
};

constexpr Kind kLstm{4, 2, {4, 1}};
constexpr Kind kGru{3, 1, {3, 1}};
constexpr Kind kRnn{1, 1, {1, 0}};

/// Inputs X, W, R, B?, sequence_lens?, initial_h?, LSTM's initial_c? and P?.
Result<Sizes> sizesOf(const OpView &view, std::size_t first, const Kind &kind)
{
    const Shape &x = view.inputs[first]->shape;
    const Shape &r = view.inputs[first + 2]->shape;
    if (x.rank() != 3 || r.rank() != 3)
        return badInput("X and R must have three dimensions");
    Sizes sizes;
    const std::string direction = view.op.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
        return badInput("attribute 'direction' is '" + direction + "'");
    sizes.directions = direction == "bidirectional" ? 2 : 1;
    sizes.batchFirst = view.op.integer("layout") != 0;
    sizes.steps = x[sizes.batchFirst ? 1 : 0];
    sizes.batch = x[sizes.batchFirst ? 0 : 1];
    sizes.features = x[2].size;
    sizes.hidden = r[2].size;
    if (view.op.integer("hidden_size", sizes.hidden) != sizes.hidden)
        return badInput("attribute 'hidden_size' is not that of R " + r.text());
    constexpr std::int64_t kMost = 1 << 24;
    if (sizes.hidden < 1 || sizes.hidden > kMost)
        return badInput("a hidden size of " + std::to_string(sizes.hidden) + " is out of range");
    const std::int64_t width = kind.gates * sizes.hidden;
    if (view.inputs[first + 1]->shape != Shape::of({sizes.directions, width, sizes.features}) || r != Shape::of({sizes.directions, width, sizes.hidden}))
        return badInput("W " + view.inputs[first + 1]->shape.text() + " and R " + r.text() + " do not fit the input " + x.text());
    if (view.inputs.size() > first + 3 && view.inputs[first + 3] && view.inputs[first + 3]->shape != Shape::of({sizes.directions, 2 * width}))
        return badInput("B must be " + Shape::of({sizes.directions, 2 * width}).text());
    return sizes;
}

Shape stateShape(const Sizes &sizes)
{
    const Dim directions{sizes.directions, false};
    const Dim hidden{sizes.hidden, false};
    return sizes.batchFirst ? Shape({sizes.batch, directions, hidden}) : Shape({directions, sizes.batch, hidden});
}

Result<Infos> inferForward(const OpView &view, const Kind &kind)
{
    const Result<Sizes> sizes = sizesOf(view, 0, kind);
    if (!sizes)
        return sizes.error();
    const Dim directions{sizes->directions, false};
    const Dim hidden{sizes->hidden, false};
    for (std::size_t i = 5; i < 5 + kind.states && i < view.inputs.size(); ++i)
        if (view.inputs[i] && view.inputs[i]->shape != stateShape(*sizes))
            return badInput("an initial state must be " + stateShape(*sizes).text() + ", not " + view.inputs[i]->shape.text());
    const Shape y = sizes->batchFirst ? Shape({sizes->batch, sizes->steps, directions, hidden}) : Shape({sizes->steps, directions, sizes->batch, hidden});
    Infos infos{{DType::F32, y}};
    for (std::size_t i = 0; i < kind.states; ++i)
        infos.push_back({DType::F32, stateShape(*sizes)});
    for (const std::int64_t width : kind.saved)
        if (width > 0)
            infos.push_back({DType::F32, Shape({directions, sizes->steps, sizes->batch, {width * sizes->hidden, false}})});
    return infos;
}

/// The output's gradients, then the inputs and the saved outputs: a gradient for X, W, R and each float among the optional inputs.
Result<Infos> inferBackward(const OpView &view, const Kind &kind)
{
    const std::size_t first = 1 + kind.states;
    const std::size_t lengths = first + 4;
    const std::size_t last = first + 5 + kind.states + (kind.states > 1 ? 1 : 0);
    if (view.inputs.size() < last || !view.inputs[first] || !view.inputs[first + 1] || !view.inputs[first + 2])
        return badInput("X, W and R are expected at inputs " + std::to_string(first) + " to " + std::to_string(first + 2));
    if (const Result<Sizes> sizes = sizesOf(view, first, kind); !sizes)
        return sizes.error();
    Infos infos;
    for (std::size_t i = first; i < last; ++i)
        if (view.inputs[i] && i != lengths)
            infos.push_back({view.inputs[i]->type, view.inputs[i]->shape});
    return infos;
}

/// A multiply-add for each weight at each step of each sample, @p passes times.
double recurrentFlops(const OpView &view, std::size_t first, std::int64_t samples, double passes)
{
    const Shape &x = view.inputs[first]->shape;
    const double rows = static_cast<double>(x[0].at(samples)) * static_cast<double>(x[1].at(samples));
    const double weights = static_cast<double>(view.inputs[first + 1]->shape.elements(1)) + static_cast<double>(view.inputs[first + 2]->shape.elements(1));
    return 2 * passes * rows * weights;
}

void addKind(std::vector<OpSchema> &schemas, const char *forward, const char *backward, int inputs, const Kind &kind)
{
    const std::size_t first = 1 + kind.states;
    const int saved = kind.saved[1] > 0 ? 2 : 1;
    const int all = static_cast<int>(first) + inputs + 1 + saved;
    schemas.push_back({forward, 3, inputs, [kind](const OpView &view) { return inferForward(view, kind); },
                       [](const OpView &view, const Infos &, std::int64_t samples) { return recurrentFlops(view, 0, samples, 1); }});
    schemas.push_back({backward, 0, all, [kind](const OpView &view) { return inferBackward(view, kind); },
                       [first](const OpView &view, const Infos &, std::int64_t samples) { return recurrentFlops(view, first, samples, 2); }});
}

} // namespace

std::vector<OpSchema> recurrentSchemas()
{
    std::vector<OpSchema> schemas;
    addKind(schemas, "LSTM", "LSTMGrad", 8, kLstm);
    addKind(schemas, "GRU", "GRUGrad", 6, kGru);
    addKind(schemas, "RNN", "RNNGrad", 6, kRnn);
    return schemas;
}

} // namespace planloom::graph
