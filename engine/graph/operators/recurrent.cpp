// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, and their gradients. Beyond ONNX's outputs they return tensors for their gradients.
#include "engine/graph/operators/families.h"

namespace planloom::graph {
namespace {

/// LayerSizes of a layer; `steps` and `batch` may carry the batch.
struct LayerSizes {
    Dim steps, batch;
    std::int64_t directions = 1, hidden = 0, features = 0;
    bool batchFirst = false;
};

struct Kind {
    std::int64_t gates;
    std::size_t states;    ///< Y_h, and LSTM's Y_c
    std::int64_t saved[2]; ///< widths of the saved outputs, in hidden sizes; 0: none
};

constexpr Kind kLstm{4, 2, {4, 1}};
constexpr Kind kGru{3, 1, {3, 1}};
constexpr Kind kRnn{1, 1, {1, 0}};

/// Inputs X, W, R, B?, sequence_lens?, initial_h?, LSTM's initial_c? and P?.
Result<LayerSizes> sizesOf(const OpView &view, std::size_t first, const Kind &kind)
{
    const Shape &x = view.inputs[first]->shape;
    const Shape &r = view.inputs[first + 2]->shape;
    if (x.rank() != 3 || r.rank() != 3)
        return badInput("X and R must have three dimensions");
    LayerSizes sizes;
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
    if (view.inputs[first + 1]->shape != Shape::of({sizes.directions, width, sizes.features})
        || r != Shape::of({sizes.directions, width, sizes.hidden}))
        return badInput("W " + view.inputs[first + 1]->shape.text() + " and R " + r.text() + " do not fit the input "
                        + x.text());
    if (view.inputs.size() > first + 3 && view.inputs[first + 3]
        && view.inputs[first + 3]->shape != Shape::of({sizes.directions, 2 * width}))
        return badInput("B must be " + Shape::of({sizes.directions, 2 * width}).text());
    return sizes;
}

Shape stateShape(const LayerSizes &sizes)
{
    const Dim directions{sizes.directions, false};
    const Dim hidden{sizes.hidden, false};
    return sizes.batchFirst ? Shape({sizes.batch, directions, hidden}) : Shape({directions, sizes.batch, hidden});
}

Result<Infos> inferForward(const OpView &view, const Kind &kind)
{
    const Result<LayerSizes> sizes = sizesOf(view, 0, kind);
    if (!sizes)
        return sizes.error();
    const Dim directions{sizes->directions, false};
    const Dim hidden{sizes->hidden, false};
    for (std::size_t i = 5; i < 5 + kind.states && i < view.inputs.size(); ++i)
        if (view.inputs[i] && view.inputs[i]->shape != stateShape(*sizes))
            return badInput("an initial state must be " + stateShape(*sizes).text() + ", not "
                            + view.inputs[i]->shape.text());
    const Shape y = sizes->batchFirst ? Shape({sizes->batch, sizes->steps, directions, hidden})
                                      : Shape({sizes->steps, directions, sizes->batch, hidden});
    Infos infos{{DType::F32, y}};
    for (std::size_t i = 0; i < kind.states; ++i)
        infos.push_back({DType::F32, stateShape(*sizes)});
    for (const std::int64_t width : kind.saved)
        if (width > 0)
            infos.push_back(
                {DType::F32, Shape({directions, sizes->steps, sizes->batch, {width * sizes->hidden, false}})});
    return infos;
}

/// The output's gradients, then the inputs and the saved outputs: a gradient for X, W, R and each float among the
/// optional inputs.
Result<Infos> inferBackward(const OpView &view, const Kind &kind)
{
    const std::size_t first = 1 + kind.states;
    const std::size_t lengths = first + 4;
    const std::size_t last = first + 5 + kind.states + (kind.states > 1 ? 1 : 0);
    if (view.inputs.size() < last || !view.inputs[first] || !view.inputs[first + 1] || !view.inputs[first + 2])
        return badInput("X, W and R are expected at inputs " + std::to_string(first) + " to "
                        + std::to_string(first + 2));
    if (const Result<LayerSizes> sizes = sizesOf(view, first, kind); !sizes)
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
    const double weights = static_cast<double>(view.inputs[first + 1]->shape.elements(1))
        + static_cast<double>(view.inputs[first + 2]->shape.elements(1));
    return 2 * passes * rows * weights;
}

/// @p states: Y_h and LSTM's Y_c; @p inputs: how many the forward operator may have; @p saved: outputs kept for here.
void recurrentGrad(Backward &b, std::size_t states, std::size_t inputs, std::size_t saved)
{
    const Op &op = b.op();
    const bool batchFirst = op.integer("layout") != 0;
    if (b.input(0).shape[batchFirst ? 1 : 0].batch)
        b.refuse("the batch lies along its time axis; feed samples along the other one");
    if (op.number("clip") > 0 || op.integer("input_forget") != 0)
        b.refuse("clipped and coupled gates are not trained; leave out 'clip' and 'input_forget'");
    std::vector<TensorId> arguments;
    for (std::size_t i = 0; i <= states; ++i)
        arguments.push_back(b.dy(i));
    std::vector<std::size_t> of; // the inputs whose gradients come out
    constexpr std::size_t kLengths = 4;
    for (std::size_t i = 0; i < inputs; ++i) {
        arguments.push_back(b.hasInput(i) ? b.x(i) : TensorId{});
        if (b.hasInput(i) && i != kLengths)
            of.push_back(i);
    }
    arguments.push_back(b.y(0));
    for (std::size_t i = 0; i < saved; ++i)
        arguments.push_back(b.y(1 + states + i));
    const auto gradients = b.emit(op.type + "Grad", std::move(arguments), op.attributes, of.size());
    for (std::size_t k = 0; k < of.size(); ++k)
        if (b.wants(of[k]))
            b.give(of[k], gradients[k]);
}

void lstmGrad(Backward &b) { recurrentGrad(b, 2, 8, 2); }

void gruGrad(Backward &b) { recurrentGrad(b, 1, 6, 2); }

void rnnGrad(Backward &b) { recurrentGrad(b, 1, 6, 1); }

constexpr std::uint32_t kAllButLengths = ~(1U << 4);

void addKind(std::vector<Operator> &rows, const char *forward, const char *backward, int inputs, const Kind &kind,
             void (*gradient)(Backward &))
{
    const std::size_t first = 1 + kind.states;
    const int saved = kind.saved[1] > 0 ? 2 : 1;
    const int all = static_cast<int>(first) + inputs + 1 + saved;
    rows.push_back({.type = forward,
                    .inputs = {3, inputs},
                    .infer = [kind](const OpView &view) { return inferForward(view, kind); },
                    .flops = [](const OpView &view, const Infos &,
                                std::int64_t samples) { return recurrentFlops(view, 0, samples, 1); },
                    .gradient = gradientBy(gradient, kAllButLengths, true),
                    .traits = {.cost = CostClass::Computing, .ownLayer = true}});
    rows.push_back({.type = backward,
                    .inputs = {0, all},
                    .infer = [kind](const OpView &view) { return inferBackward(view, kind); },
                    .flops = [first](const OpView &view, const Infos &,
                                     std::int64_t samples) { return recurrentFlops(view, first, samples, 2); },
                    .traits = {.cost = CostClass::Computing, .origin = Origin::Gradient}});
}

} // namespace

std::vector<Operator> recurrentOperators()
{
    std::vector<Operator> rows;
    addKind(rows, "LSTM", "LSTMGrad", 8, kLstm, lstmGrad);
    addKind(rows, "GRU", "GRUGrad", 6, kGru, gruGrad);
    addKind(rows, "RNN", "RNNGrad", 6, kRnn, rnnGrad);
    return rows;
}

} // namespace planloom::graph
