// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: projections of all steps by one product, the recurrent ones by a product a step, cells by kernels.
#include "executor/device/cuda/operator_support.h"
#include "executor/device/cuda/product.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace planloom::cuda {

namespace {

using Part = CellForward::Part;
using BackPart = CellBackward::Part;

/// Where arguments behind X, W, R are; only LSTM has the last two.
enum RecurrentInput : std::size_t { kX, kW, kR, kBias, kLengths, kHidden, kCell, kPeephole };

struct NamedGate {
    const char *name;
    GateFunction function; ///< with the file's defaults
    bool alpha, beta;      ///< which of them the attributes give
};

constexpr NamedGate kGateFunctions[] = {
    {"sigmoid", {GateFunction::Kind::Sigmoid, 0, 0}, false, false},
    {"tanh", {GateFunction::Kind::Tanh, 0, 0}, false, false},
    {"relu", {GateFunction::Kind::Relu, 0, 0}, false, false},
    {"affine", {GateFunction::Kind::Affine, 1, 0}, true, true},
    {"leakyrelu", {GateFunction::Kind::LeakyRelu, 0.01F, 0}, true, false},
    {"thresholdedrelu", {GateFunction::Kind::ThresholdedRelu, 1, 0}, true, false},
    {"scaledtanh", {GateFunction::Kind::ScaledTanh, 1, 1}, true, true},
    {"hardsigmoid", {GateFunction::Kind::HardSigmoid, 0.2F, 0.5F}, true, true},
    {"elu", {GateFunction::Kind::Elu, 1, 0}, true, false},
    {"softsign", {GateFunction::Kind::Softsign, 0, 0}, false, false},
    {"softplus", {GateFunction::Kind::Softplus, 0, 0}, false, false},
};

std::vector<std::string> gateNames(const std::string &line)
{
    std::vector<std::string> names;
    std::string name;
    for (const char c : line + ",") {
        if (c != ',') {
            name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            continue;
        }
        if (!name.empty())
            names.push_back(name);
        name.clear();
    }
    return names;
}

/// A layer of one of the three operators.
struct Layer {
    Recurrence how;
    std::int64_t features = 0, gates = 1;
    bool backwards = false; ///< the only direction is the reverse one
    bool resetAfter = false, coupled = false;
    std::vector<GateFunction> functions; ///< of each direction
    std::size_t perDirection = 1;

    [[nodiscard]] std::int64_t width() const { return gates * how.hidden; }
    [[nodiscard]] std::int64_t rows() const { return how.steps * how.batch; }
    [[nodiscard]] bool reversed(std::int64_t direction) const { return backwards || direction == 1; }
    [[nodiscard]] std::int64_t time(std::int64_t step, std::int64_t direction) const
    {
        return reversed(direction) ? how.steps - 1 - step : step;
    }
    /// Slots of a line of states: the one before a step, and the one after.
    [[nodiscard]] std::int64_t before(std::int64_t time, std::int64_t direction) const
    {
        return reversed(direction) ? time + 1 : time;
    }
    [[nodiscard]] std::int64_t after(std::int64_t time, std::int64_t direction) const
    {
        return reversed(direction) ? time : time + 1;
    }
    void giveFunctions(std::int64_t direction, GateFunction (&to)[3]) const
    {
        for (std::size_t i = 0; i < perDirection; ++i)
            to[i] = functions[static_cast<std::size_t>(direction) * perDirection + i];
    }
};

std::optional<std::vector<GateFunction>> gateFunctions(const graph::Op &op, const std::vector<std::string> &defaults,
                                                       std::int64_t directions)
{
    std::vector<std::string> names = gateNames(op.text("activations"));
    for (std::int64_t d = 0; names.size() < defaults.size() * static_cast<std::size_t>(directions) && d < directions
         && op.text("activations").empty();
         ++d)
        names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() != defaults.size() * static_cast<std::size_t>(directions))
        return std::nullopt;
    const std::vector<double> alphas = op.numbers("activation_alpha");
    const std::vector<double> betas = op.numbers("activation_beta");
    std::size_t alpha = 0;
    std::size_t beta = 0;
    std::vector<GateFunction> functions;
    for (const std::string &name : names) {
        const auto *known = std::find_if(std::begin(kGateFunctions), std::end(kGateFunctions),
                                         [&](const NamedGate &gate) { return name == gate.name; });
        if (known == std::end(kGateFunctions))
            return std::nullopt;
        functions.push_back(known->function);
        if (known->alpha && alpha < alphas.size())
            functions.back().alpha = static_cast<float>(alphas[alpha++]);
        if (known->beta && beta < betas.size())
            functions.back().beta = static_cast<float>(betas[beta++]);
    }
    return functions;
}

/// The layer whose X is input @p first; nullopt: arguments that do not fit, or are not float32.
std::optional<Layer> layerOf(const Request &request, std::size_t first)
{
    const std::string &type = request.op.type.name();
    const bool lstm = type.starts_with("LSTM");
    const bool gru = type.starts_with("GRU");
    for (const std::size_t i : {kX, kW, kR})
        if (!request.hasInput(first + i) || !isFull(request.inputs[first + i]) || request.in(first + i).size() != 3)
            return std::nullopt;
    Layer layer;
    Recurrence &how = layer.how;
    const Dims &x = request.in(first);
    how.batchFirst = request.op.integer("layout") != 0 ? 1 : 0;
    how.steps = x[how.batchFirst != 0 ? 1 : 0];
    how.batch = x[how.batchFirst != 0 ? 0 : 1];
    how.hidden = request.in(first + kR)[2];
    how.clip = static_cast<float>(request.op.number("clip"));
    layer.features = x[2];
    layer.gates = lstm ? 4 : (gru ? 3 : 1);
    const std::string direction = request.op.text("direction", "forward");
    how.directions = direction == "bidirectional" ? 2 : 1;
    layer.backwards = direction == "reverse";
    layer.resetAfter = gru && request.op.integer("linear_before_reset") != 0;
    layer.coupled = lstm && request.op.integer("input_forget") != 0;
    const std::vector<std::string> defaults = lstm
        ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
        : (gru ? std::vector<std::string>{"sigmoid", "tanh"} : std::vector<std::string>{"tanh"});
    const auto functions = gateFunctions(request.op, defaults, how.directions);
    if (!functions || (direction != "forward" && how.directions == 1 && !layer.backwards) || how.steps < 1
        || how.batch < 1 || how.hidden < 1 || layer.features < 1)
        return std::nullopt;
    layer.functions = *functions;
    layer.perDirection = defaults.size();
    const std::int64_t d = how.directions;
    const Dims state = how.batchFirst != 0 ? Dims{how.batch, d, how.hidden} : Dims{d, how.batch, how.hidden};
    const std::array<std::pair<std::size_t, Dims>, 6> expected{
        {{kW, {d, layer.width(), layer.features}},
         {kR, {d, layer.width(), how.hidden}},
         {kBias, {d, 2 * layer.width()}},
         {kHidden, state},
         {lstm ? std::size_t{kCell} : std::size_t{kHidden}, state},
         {lstm ? std::size_t{kPeephole} : std::size_t{kHidden}, lstm ? Dims{d, 3 * how.hidden} : state}}};
    for (const auto &[input, dims] : expected)
        if (request.hasInput(first + input)
            && (!isFull(request.inputs[first + input]) || request.inSize(first + input) != productOf(dims)))
            return std::nullopt;
    if (request.hasInput(first + kLengths)) {
        const device::Argument &lengths = request.inputs[first + kLengths];
        how.wideLengths = isInteger(lengths) ? 1 : 0;
        if ((!isInteger(lengths) && lengths.type != graph::DType::I32) || request.inSize(first + kLengths) != how.batch)
            return std::nullopt;
    }
    return layer;
}

/// X between (sample, time, features) and (time, sample, features).
StridedMove turned(const Layer &layer, bool toTime)
{
    const Dims dims{layer.how.steps, layer.how.batch, layer.features};
    const Dims time = rowMajor(dims);
    const Dims sample{layer.features, layer.how.steps * layer.features, 1};
    StridedMove move;
    move.n = productOf(dims);
    move.loops = toTime ? loopsOver<2>(dims, {sample, time}) : loopsOver<2>(dims, {time, sample});
    return move;
}

/// Scratch memory that is handed out piece by piece, once it is known how much there is.
class Pieces {
public:
    /// Where @p floats begin.
    std::int64_t add(std::int64_t floats)
    {
        const std::int64_t at = m_floats;
        m_floats += (floats + 63) / 64 * 64;
        return at;
    }
    Status allocate(const Request &request)
    {
        auto memory = scratchOf<float>(request, m_floats);
        if (!memory)
            return memory.error();
        m_memory = *memory;
        return {};
    }
    [[nodiscard]] float *at(std::int64_t place) const { return cuda::at<float>(m_memory) + place; }

private:
    std::int64_t m_floats = 0;
    std::shared_ptr<device::Memory> m_memory;
};

/// Products of float32 matrices, made once for all steps.
class Products {
public:
    /// What lies within its matrices lies at multiples of rows of features or of states.
    Products(const Request &request, const Layer &layer)
        : m_device(request.device),
          m_aligned(layer.how.hidden % kFloats == 0 && layer.features % kFloats == 0)
    {
    }
    /// Its number; -1: cuBLASLt has none, or is not there.
    int add(std::int64_t rows, std::int64_t inner, std::int64_t columns, bool transA, bool transB, bool adds)
    {
        ProductShape shape;
        shape.rows = rows;
        shape.inner = inner;
        shape.columns = columns;
        shape.transA = transA;
        shape.transB = transB;
        shape.adds = adds;
        if (!m_aligned)
            shape.alignment = sizeof(float);
        auto made = MatrixProduct::make(m_device, shape);
        if (!made) {
            m_failed = true;
            return -1;
        }
        m_products.push_back(std::make_shared<MatrixProduct>(std::move(*made)));
        return static_cast<int>(m_products.size()) - 1;
    }
    [[nodiscard]] bool failed() const { return m_failed; }
    void run(CudaQueue &queue, int number, const float *a, const float *b, float *y) const
    {
        m_products[static_cast<std::size_t>(number)]->run(queue, a, b, y);
    }

private:
    static constexpr std::int64_t kFloats = ProductShape().alignment / sizeof(float);
    CudaDevice &m_device;
    bool m_aligned;
    bool m_failed = false;
    std::vector<std::shared_ptr<MatrixProduct>> m_products;
};

const float *floatsOf(Inputs in, std::size_t i) { return static_cast<const float *>(given(in, i)); }
float *floatsOf(Outputs out, std::size_t i) { return static_cast<float *>(given(out, i)); }
const float *ofDirection(const float *data, std::int64_t direction, std::int64_t each)
{
    return data != nullptr ? data + direction * each : nullptr;
}

// --- Forward --------------------------------------------------------------------------------------------------------

class RecurrentForward final : public CudaKernel {
public:
    RecurrentForward(const Request &request, Layer layer)
        : CudaKernel(0),
          m_layer(std::move(layer)),
          m_products(request, m_layer),
          m_type(request.op.type.name().front())
    {
        const Recurrence &how = m_layer.how;
        const std::int64_t split = m_type == 'G' && !m_layer.resetAfter ? 2 * how.hidden : m_layer.width();
        m_x = m_pieces.add(how.batchFirst != 0 ? m_layer.rows() * m_layer.features : 0);
        m_line = m_pieces.add((how.steps + 1) * how.state());
        m_cell = m_pieces.add(how.state());
        m_first = m_pieces.add(how.batch * split);
        m_second = m_pieces.add(how.state());
        m_project = m_products.add(m_layer.rows(), m_layer.features, m_layer.width(), false, true, false);
        m_recur = m_products.add(how.batch, how.hidden, split, false, true, false);
        if (split != m_layer.width())
            m_recurState = m_products.add(how.batch, how.hidden, how.hidden, false, true, false);
        m_split = split;
    }
    Status prepare(const Request &request)
    {
        return m_products.failed() ? Status(onlyOnHost(request)) : m_pieces.allocate(request);
    }

    void run(CudaQueue &queue, device::Mode /*mode*/, Inputs in, Outputs out) override
    {
        m_layer.how.lengths = given(in, kLengths);
        const float *x = floatsOf(in, kX);
        if (m_layer.how.batchFirst != 0) {
            StridedMove move = turned(m_layer, true);
            move.from = x;
            move.to = m_pieces.at(m_x);
            queue.items(move, move.n);
            x = m_pieces.at(m_x);
        }
        for (std::int64_t d = 0; d < m_layer.how.directions; ++d)
            runDirection(queue, in, out, x, d);
    }

private:
    [[nodiscard]] float *slot(std::int64_t number) const { return m_pieces.at(m_line) + number * m_layer.how.state(); }
    void move(CudaQueue &queue, std::int64_t d, const float *from, float *to, bool writes) const
    {
        MoveState kernel;
        kernel.how = m_layer.how;
        kernel.direction = d;
        kernel.from = from;
        kernel.to = to;
        kernel.writes = writes ? 1 : 0;
        queue.items(kernel, m_layer.how.state());
    }

    void runDirection(CudaQueue &queue, Inputs in, Outputs out, const float *x, std::int64_t d)
    {
        const Recurrence &how = m_layer.how;
        const std::int64_t width = m_layer.width();
        const bool lstm = m_type == 'L';
        const std::size_t saved = lstm ? 3 : 2;
        float *gates = floatsOf(out, saved) + d * m_layer.rows() * width;
        float *cells = m_type != 'R' ? floatsOf(out, saved + 1) + d * m_layer.rows() * how.hidden : nullptr;
        const float *r = floatsOf(in, kR) + d * width * how.hidden;
        m_products.run(queue, m_project, x, floatsOf(in, kW) + d * width * m_layer.features, gates);
        move(queue, d, floatsOf(in, kHidden), slot(m_layer.before(m_layer.time(0, d), d)), false);
        if (lstm)
            move(queue, d, floatsOf(in, kCell), m_pieces.at(m_cell), false);
        CellForward cell;
        cell.how = how;
        cell.direction = d;
        m_layer.giveFunctions(d, cell.functions);
        cell.coupled = m_layer.coupled ? 1 : 0;
        cell.resetAfter = m_layer.resetAfter ? 1 : 0;
        cell.bias = ofDirection(floatsOf(in, kBias), d, 2 * width);
        cell.peephole = lstm ? ofDirection(floatsOf(in, kPeephole), d, 3 * how.hidden) : nullptr;
        cell.cellBefore = m_pieces.at(m_cell);
        cell.y = floatsOf(out, 0);
        for (std::int64_t s = 0; s < how.steps; ++s) {
            cell.time = m_layer.time(s, d);
            cell.before = slot(m_layer.before(cell.time, d));
            cell.after = slot(m_layer.after(cell.time, d));
            cell.gates = gates + cell.time * how.batch * width;
            cell.cells = cells != nullptr ? cells + cell.time * how.state() : nullptr;
            step(queue, cell, r);
            if (lstm)
                cell.cellBefore = cell.cells;
        }
        move(queue, d, slot(m_layer.after(m_layer.time(how.steps - 1, d), d)), floatsOf(out, 1), true);
        if (lstm)
            move(queue, d, cell.cellBefore, floatsOf(out, 2), true);
    }

    void step(CudaQueue &queue, CellForward &cell, const float *r) const
    {
        const Recurrence &how = m_layer.how;
        m_products.run(queue, m_recur, cell.before, r, m_pieces.at(m_first));
        cell.recurrent = m_pieces.at(m_first);
        cell.recurrentWidth = m_split;
        cell.part = m_type == 'L' ? Part::Lstm : (m_type == 'R' ? Part::Rnn : Part::GruGates);
        queue.items(cell, how.state());
        if (m_type != 'G')
            return;
        if (!m_layer.resetAfter) {
            m_products.run(queue, m_recurState, cell.cells, r + 2 * how.hidden * how.hidden, m_pieces.at(m_second));
            cell.recurrent = m_pieces.at(m_second);
            cell.recurrentWidth = how.hidden;
        }
        cell.part = Part::GruState;
        queue.items(cell, how.state());
    }

    Layer m_layer;
    Products m_products;
    Pieces m_pieces;
    char m_type; ///< of its name: L, G or R
    std::int64_t m_split = 0;
    std::int64_t m_x = 0, m_line = 0, m_cell = 0, m_first = 0, m_second = 0;
    int m_project = -1, m_recur = -1, m_recurState = -1;
};

// --- Backward -------------------------------------------------------------------------------------------------------

/// Some of a layer's gates, whose gradients lie together: rows of W and R, and where their gradients are.
struct GateGroup {
    std::int64_t first = 0, count = 0; ///< rows of the weights
    std::int64_t gradients = 0;        ///< (steps, batch, count)
    std::int64_t recurrent = 0;        ///< the same of the recurrent product
    bool scaled = false;               ///< whose recurrent product is of the state that the reset gate has scaled
    int input = -1, weights = -1, state = -1, recurrentWeights = -1; ///< products
};

class RecurrentBackward final : public CudaKernel {
public:
    RecurrentBackward(const Request &request, Layer layer, std::size_t first)
        : CudaKernel(0),
          m_layer(std::move(layer)),
          m_products(request, m_layer),
          m_type(request.op.type.name().front()),
          m_firstInput(first)
    {
        const Recurrence &how = m_layer.how;
        const std::int64_t h = how.hidden;
        const bool gru = m_type == 'G';
        m_x = m_pieces.add(how.batchFirst != 0 ? m_layer.rows() * m_layer.features : 0);
        m_dx = m_pieces.add(how.batchFirst != 0 ? m_layer.rows() * m_layer.features : 0);
        m_line = m_pieces.add((how.steps + 1) * how.state());
        m_cellLine = m_pieces.add(m_type == 'L' ? (how.steps + 1) * how.state() : 0);
        m_dHidden = m_pieces.add(how.state());
        m_dCell = m_pieces.add(how.state());
        addGroup(0, gru ? 2 * h : m_layer.width());
        if (gru)
            addGroup(2 * h, h);
        m_sums = sumsOfRows(request);
    }
    Status prepare(const Request &request)
    {
        return m_products.failed() ? Status(onlyOnHost(request)) : m_pieces.allocate(request);
    }

    void run(CudaQueue &queue, device::Mode /*mode*/, Inputs in, Outputs out) override
    {
        m_layer.how.lengths = given(in, m_firstInput + kLengths);
        const float *x = forward(in, kX);
        float *dx = floatsOf(out, 0);
        if (m_layer.how.batchFirst != 0) {
            StridedMove move = turned(m_layer, true);
            move.from = x;
            move.to = m_pieces.at(m_x);
            queue.items(move, move.n);
            x = m_pieces.at(m_x);
            dx = m_pieces.at(m_dx);
        }
        for (std::int64_t d = 0; d < m_layer.how.directions; ++d) {
            throughTime(queue, in, d);
            weights(queue, in, out, x, dx, d);
        }
        if (m_layer.how.batchFirst != 0) {
            StridedMove move = turned(m_layer, false);
            move.from = dx;
            move.to = out[0];
            queue.items(move, move.n);
        }
    }

private:
    void addGroup(std::int64_t first, std::int64_t count)
    {
        const Recurrence &how = m_layer.how;
        GateGroup group;
        group.first = first;
        group.count = count;
        group.gradients = m_pieces.add(m_layer.rows() * count);
        group.recurrent = group.gradients;
        const bool proposal = first > 0;
        group.scaled = proposal && !m_layer.resetAfter;
        if (proposal && m_layer.resetAfter)
            group.recurrent = m_pieces.add(m_layer.rows() * count);
        group.input = m_products.add(m_layer.rows(), count, m_layer.features, false, false, true);
        group.weights = m_products.add(count, m_layer.rows(), m_layer.features, true, false, false);
        group.state = m_products.add(how.batch, count, how.hidden, false, false, !group.scaled);
        group.recurrentWeights = m_products.add(count, m_layer.rows(), how.hidden, true, false, false);
        m_groups.push_back(group);
    }
    /// The sum over all rows of a group's gradients; of its own width.
    [[nodiscard]] Reduce sumsOfRows(const Request &request) const
    {
        Reduce sums;
        sums.each = m_layer.rows();
        sums.lanes = lanesOf(request);
        return sums;
    }
    [[nodiscard]] const float *forward(Inputs in, std::size_t i) const { return floatsOf(in, m_firstInput + i); }
    [[nodiscard]] float *slot(std::int64_t line, std::int64_t number) const
    {
        return m_pieces.at(line) + number * m_layer.how.state();
    }
    void read(CudaQueue &queue, std::int64_t d, const float *from, float *to) const
    {
        MoveState kernel;
        kernel.how = m_layer.how;
        kernel.direction = d;
        kernel.from = from;
        kernel.to = to;
        queue.items(kernel, m_layer.how.state());
    }
    void write(CudaQueue &queue, std::int64_t d, const float *from, float *to) const
    {
        MoveState kernel;
        kernel.how = m_layer.how;
        kernel.direction = d;
        kernel.from = from;
        kernel.to = to;
        kernel.writes = 1;
        queue.items(kernel, m_layer.how.state());
    }

    void throughTime(CudaQueue &queue, Inputs in, std::int64_t d)
    {
        const Recurrence &how = m_layer.how;
        const bool lstm = m_type == 'L';
        const std::size_t saved = m_firstInput + (lstm ? 8 : 6); // Y, Gates, and States or what was scaled
        const std::int64_t start = m_layer.before(m_layer.time(0, d), d);
        const std::int64_t states = m_layer.reversed(d) ? 0 : 1;
        read(queue, d, forward(in, kHidden), slot(m_line, start));
        ReadStates hidden;
        hidden.how = how;
        hidden.direction = d;
        hidden.y = floatsOf(in, saved);
        hidden.initial = slot(m_line, start);
        hidden.states = slot(m_line, states);
        queue.items(hidden, how.steps * how.state());
        read(queue, d, floatsOf(in, 1), m_pieces.at(m_dHidden));
        if (lstm) {
            read(queue, d, forward(in, kCell), slot(m_cellLine, start));
            queue.copy(slot(m_cellLine, states), floatsOf(in, saved + 2) + d * m_layer.rows() * how.hidden,
                       how.steps * how.state() * std::int64_t{sizeof(float)});
            read(queue, d, floatsOf(in, 2), m_pieces.at(m_dCell));
        }
        CellBackward cell;
        cell.how = how;
        cell.direction = d;
        m_layer.giveFunctions(d, cell.functions);
        cell.resetAfter = m_layer.resetAfter ? 1 : 0;
        cell.dy = floatsOf(in, 0);
        cell.peephole = lstm ? ofDirection(forward(in, kPeephole), d, 3 * how.hidden) : nullptr;
        cell.dHidden = m_pieces.at(m_dHidden);
        cell.dCell = m_pieces.at(m_dCell);
        const float *r = forward(in, kR) + d * m_layer.width() * how.hidden;
        for (std::int64_t s = how.steps; s-- > 0;) {
            cell.time = m_layer.time(s, d);
            const std::int64_t row = d * m_layer.rows() + cell.time * how.batch;
            cell.gates = floatsOf(in, saved + 1) + row * m_layer.width();
            const std::int64_t line = lstm ? m_cellLine : m_line;
            cell.before = slot(line, m_layer.before(cell.time, d));
            cell.cells = lstm ? slot(line, m_layer.after(cell.time, d))
                              : (m_type == 'G' ? floatsOf(in, saved + 2) + row * how.hidden : nullptr);
            step(queue, cell, r);
        }
    }
    [[nodiscard]] float *atTime(std::int64_t place, std::int64_t count, std::int64_t time) const
    {
        return m_pieces.at(place) + time * m_layer.how.batch * count;
    }
    void step(CudaQueue &queue, CellBackward &cell, const float *r) const
    {
        const Recurrence &how = m_layer.how;
        const GateGroup &gates = m_groups.front();
        cell.dGates = atTime(gates.gradients, gates.count, cell.time);
        cell.part = m_type == 'L' ? BackPart::Lstm : (m_type == 'R' ? BackPart::Rnn : BackPart::GruState);
        if (m_type == 'G') {
            const GateGroup &proposal = m_groups.back();
            cell.dProposal = atTime(proposal.gradients, proposal.count, cell.time);
            cell.dRecurrent = m_layer.resetAfter ? atTime(proposal.recurrent, proposal.count, cell.time) : nullptr;
            queue.items(cell, how.state());
            const float *own = atTime(proposal.recurrent, proposal.count, cell.time);
            float *to = m_pieces.at(proposal.scaled ? m_dCell : m_dHidden);
            m_products.run(queue, proposal.state, own, r + proposal.first * how.hidden, to);
            cell.part = BackPart::GruReset;
        }
        if (m_type != 'G' || m_groups.back().scaled)
            queue.items(cell, how.state());
        m_products.run(queue, gates.state, cell.dGates, r, m_pieces.at(m_dHidden));
    }

    void weights(CudaQueue &queue, Inputs in, Outputs out, const float *x, float *dx, std::int64_t d)
    {
        const Recurrence &how = m_layer.how;
        const std::int64_t width = m_layer.width();
        if (d == 0)
            queue.fill(dx, 0, m_layer.rows() * m_layer.features * std::int64_t{sizeof(float)});
        const float *w = forward(in, kW) + d * width * m_layer.features;
        float *dw = floatsOf(out, 1) + d * width * m_layer.features;
        float *dr = floatsOf(out, 2) + d * width * how.hidden;
        std::size_t next = 3;
        float *dBias = forward(in, kBias) != nullptr ? floatsOf(out, next++) + d * 2 * width : nullptr;
        const std::size_t saved = m_firstInput + (m_type == 'L' ? 8 : 6);
        for (const GateGroup &group : m_groups) {
            const float *own = m_pieces.at(group.gradients);
            const float *recurrent = m_pieces.at(group.recurrent);
            m_products.run(queue, group.input, own, w + group.first * m_layer.features, dx);
            m_products.run(queue, group.weights, own, x, dw + group.first * m_layer.features);
            const float *states = group.scaled ? floatsOf(in, saved + 2) + d * m_layer.rows() * how.hidden
                                               : slot(m_line, m_layer.reversed(d) ? 1 : 0);
            m_products.run(queue, group.recurrentWeights, recurrent, states, dr + group.first * how.hidden);
            if (dBias != nullptr) {
                addUp(queue, group, own, dBias + group.first);
                addUp(queue, group, recurrent, dBias + width + group.first);
            }
        }
        if (forward(in, kHidden) != nullptr)
            write(queue, d, m_pieces.at(m_dHidden), floatsOf(out, next++));
        if (m_type != 'L')
            return;
        if (forward(in, kCell) != nullptr)
            write(queue, d, m_pieces.at(m_dCell), floatsOf(out, next++));
        if (forward(in, kPeephole) != nullptr) {
            PeepholeGradient kernel;
            kernel.how = how;
            kernel.dGates = m_pieces.at(m_groups.front().gradients);
            kernel.cells = m_pieces.at(m_cellLine);
            kernel.reversed = m_layer.reversed(d) ? 1 : 0;
            kernel.result = floatsOf(out, next) + d * 3 * how.hidden;
            queue.rows(kernel, 3 * how.hidden);
        }
    }
    void addUp(CudaQueue &queue, const GateGroup &group, const float *gradients, float *to) const
    {
        Reduce sums = m_sums;
        sums.x = {gradients, Kind::F32};
        sums.y = {to, Kind::F32, false};
        sums.outputs = group.count;
        sums.outer.depth = sums.inner.depth = 1;
        sums.outer.dims[0] = group.count;
        sums.outer.strides[0][0] = 1;
        sums.inner.dims[0] = sums.each;
        sums.inner.strides[0][0] = group.count;
        queue.rows(sums, sums.blocks());
    }

    Layer m_layer;
    Products m_products;
    Pieces m_pieces;
    char m_type; ///< of its name: L, G or R
    std::size_t m_firstInput;
    std::int64_t m_x = 0, m_dx = 0, m_line = 0, m_cellLine = 0, m_dHidden = 0, m_dCell = 0;
    std::vector<GateGroup> m_groups;
    Reduce m_sums;
};

template <class K, class... More>
Made prepared(const Request &request, More &&...more)
{
    auto kernel = std::make_unique<K>(request, std::forward<More>(more)...);
    if (const Status ready = kernel->prepare(request); !ready)
        return ready.error();
    return Made(std::unique_ptr<device::DeviceKernel>(std::move(kernel)));
}

Made makeRecurrent(const Request &request)
{
    const auto layer = layerOf(request, 0);
    const std::string &type = request.op.type.name();
    const std::size_t outputs = type == "LSTM" ? 5 : (type == "GRU" ? 4 : 3);
    if (!layer || request.outputs.size() != outputs
        || !std::all_of(request.outputs.begin(), request.outputs.end(), isFull))
        return onlyOnHost(request);
    const std::int64_t all = layer->how.directions * layer->rows();
    const std::size_t saved = type == "LSTM" ? 3 : 2;
    if (request.outSize(0) != all * layer->how.hidden || request.outSize(saved) != all * layer->width()
        || (saved + 1 < outputs && request.outSize(saved + 1) != all * layer->how.hidden))
        return onlyOnHost(request);
    return prepared<RecurrentForward>(request, *layer);
}

Made makeRecurrentGrad(const Request &request)
{
    const bool lstm = request.op.type == "LSTMGrad";
    const std::size_t first = lstm ? 3 : 2;
    const std::size_t saved = first + (lstm ? 8 : 6);
    const std::size_t inputs = saved + (request.op.type == "RNNGrad" ? 2 : 3);
    const auto layer = request.inputs.size() == inputs ? layerOf(request, first) : std::nullopt;
    if (!layer || layer->how.clip > 0 || layer->coupled
        || !std::all_of(request.outputs.begin(), request.outputs.end(), isFull))
        return onlyOnHost(request);
    std::size_t given = 3;
    for (const std::size_t i : {kBias, kHidden, kCell, kPeephole})
        given += i <= (lstm ? kPeephole : kHidden) && request.hasInput(first + i) ? 1 : 0;
    for (std::size_t i = 0; i < first; ++i)
        if (request.hasInput(i) && !isFull(request.inputs[i]))
            return onlyOnHost(request);
    for (std::size_t i = saved; i < inputs; ++i)
        if (!request.hasInput(i) || !isFull(request.inputs[i]))
            return onlyOnHost(request);
    if (request.outputs.size() != given || request.out() != request.in(first))
        return onlyOnHost(request);
    return prepared<RecurrentBackward>(request, *layer, first);
}

constexpr OperatorEntry kRecurrent[] = {
    {"GRU", makeRecurrent}, {"GRUGrad", makeRecurrentGrad},  {"LSTM", makeRecurrent},
    {"RNN", makeRecurrent}, {"LSTMGrad", makeRecurrentGrad}, {"RNNGrad", makeRecurrentGrad},
};

} // namespace

std::span<const OperatorEntry> recurrentOperators() { return kRecurrent; }

} // namespace planloom::cuda
