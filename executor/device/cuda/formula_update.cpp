// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/formula_update.h"

#include "executor/device/cuda/operator_support.h"

#include <algorithm>

namespace planloom::cuda {

namespace {

static_assert(static_cast<int>(FormulaOperator::Norm) == static_cast<int>(update::Operator::Norm)
              && static_cast<int>(FormulaOperator::Constant) == static_cast<int>(update::Operator::Constant)
              && static_cast<int>(FormulaOperator::SquareRoot) == static_cast<int>(update::Operator::SquareRoot)
              && static_cast<int>(FormulaOperator::WherePositive) == static_cast<int>(update::Operator::WherePositive));

FormulaStep stepOf(const update::Node &node)
{
    return {static_cast<FormulaOperator>(node.type),
            static_cast<std::uint8_t>(node.each ? 1 : 0),
            node.index,
            {node.arguments[0], node.arguments[1], node.arguments[2]},
            node.value};
}

/// The steps of one phase: what it reads and computes, each in a slot of its own.
class PhaseSteps {
public:
    PhaseSteps(const update::Formula &formula, int phase)
        : m_formula(formula),
          m_phase(phase),
          m_slots(formula.nodes.size(), -1)
    {
        for (const std::int16_t node : formula.elementNodes(phase))
            compute(node);
        for (const update::Store &store : formula.stores)
            if (formula.phaseOf(store) == phase)
                targets.push_back({slotOf(store.node), store.target});
        norms.assign(static_cast<std::size_t>(formula.norms), -1);
        for (const update::Node &node : formula.nodes)
            if (node.type == update::Operator::Norm && node.phase == phase + 1)
                norms[static_cast<std::size_t>(node.index)] = slotOf(node.arguments[0]);
    }

    std::vector<FormulaStep> steps;
    std::vector<FormulaPhase::Target> targets;
    std::vector<std::int16_t> norms; ///< slots; -1: none in this phase

private:
    void compute(std::int16_t id)
    {
        FormulaStep step = stepOf(m_formula.node(id));
        for (std::int16_t &argument : step.arguments)
            argument = argument >= 0 ? slotOf(argument) : argument;
        add(id, step);
    }
    void add(std::int16_t id, const FormulaStep &step)
    {
        m_slots[static_cast<std::size_t>(id)] = static_cast<std::int16_t>(steps.size());
        steps.push_back(step);
    }
    /// Of a node that was computed before, or is read here.
    std::int16_t slotOf(std::int16_t id)
    {
        if (const std::int16_t known = m_slots[static_cast<std::size_t>(id)]; known >= 0)
            return known;
        FormulaStep step = stepOf(m_formula.node(id));
        if (step.each == 0) {
            step.index = id;
        } else if (const update::Store *stored = m_formula.storedBefore(id, m_phase)) { // lies in memory by now
            const bool weight = stored->target == update::Store::kWeight;
            step.type = weight ? FormulaOperator::Weight : FormulaOperator::State;
            step.index = weight ? std::int16_t{0} : stored->target;
        }
        add(id, step);
        return m_slots[static_cast<std::size_t>(id)];
    }

    const update::Formula &m_formula;
    int m_phase;
    std::vector<std::int16_t> m_slots; ///< per node
};

constexpr std::int64_t kPiece = 8192; ///< elements that a block computes

/// The pieces of all ranges, and where those of each begin.
struct PieceList {
    std::vector<FormulaPiece> pieces;
    std::vector<std::int64_t> begins;
};

PieceList piecesOf(const std::vector<std::int64_t> &counts)
{
    PieceList list;
    for (std::size_t range = 0; range < counts.size(); ++range) {
        list.begins.push_back(static_cast<std::int64_t>(list.pieces.size()));
        for (std::int64_t begin = 0; begin < counts[range]; begin += kPiece)
            list.pieces.push_back({static_cast<std::int32_t>(range),
                                   static_cast<std::int32_t>(std::min(kPiece, counts[range] - begin)), begin});
    }
    list.begins.push_back(static_cast<std::int64_t>(list.pieces.size()));
    return list;
}

} // namespace

Result<FormulaUpdate> FormulaUpdate::make(CudaDevice &device, const update::Formula &formula,
                                          std::span<const device::UpdateRange> ranges, const ParameterRanges &onDevice)
{
    FormulaUpdate made;
    Status status;
    const auto keep = [&](auto memory) -> std::byte * {
        if (!memory) {
            status = memory.error();
            return nullptr;
        }
        made.m_kept.push_back(*memory);
        return made.m_kept.back()->data();
    };
    const auto upload = [&]<class T>(const std::vector<T> &list) {
        return reinterpret_cast<const T *>(
            keep(uploaded(device, list.data(), static_cast<std::int64_t>(list.size() * sizeof(T)))));
    };
    const auto doubles = [&](std::int64_t count) {
        auto memory = device.allocate(device::Space::Device, count * std::int64_t{sizeof(double)});
        using Shared = Result<std::shared_ptr<device::Memory>>;
        return reinterpret_cast<double *>(
            keep(memory ? Shared(std::make_shared<device::Memory>(std::move(*memory))) : Shared(memory.error())));
    };

    std::vector<std::int64_t> counts;
    for (const device::UpdateRange &range : ranges) {
        made.m_tensors = std::max<std::int64_t>(made.m_tensors, range.tensor + 1);
        if (range.count == 0)
            continue;
        const auto number = static_cast<std::int64_t>(counts.size());
        counts.push_back(range.count);
        if (!range.counts)
            continue;
        RowRun *last = made.m_rows.empty() ? nullptr : &made.m_rows.back();
        if (last != nullptr && last->range + last->count == number && last->tensor + last->count == range.tensor)
            ++last->count;
        else
            made.m_rows.push_back({number, range.tensor, 1});
    }
    const PieceList list = piecesOf(counts);
    made.m_norms = formula.norms;
    made.m_rangeCount = static_cast<std::int64_t>(counts.size());

    std::vector<FormulaStep> nodes;
    for (const update::Node &node : formula.nodes)
        nodes.push_back(stepOf(node));
    const auto nodeCount = static_cast<std::int64_t>(nodes.size());
    double *scalars = doubles(made.m_rangeCount * nodeCount);
    made.m_allSquares = doubles(made.m_tensors * made.m_norms);
    made.m_scalars.ranges = onDevice;
    made.m_scalars.nodes = upload(nodes);
    made.m_scalars.count = nodeCount;
    made.m_scalars.scalars = scalars;
    made.m_scalars.squares = made.m_allSquares;
    made.m_scalars.norms = made.m_norms;

    made.m_squares.firstPieces = upload(list.begins);
    made.m_squares.ranges = made.m_rangeCount;
    made.m_squares.norms = made.m_norms;
    double *squares = doubles(static_cast<std::int64_t>(list.pieces.size()) * made.m_norms);
    made.m_squares.squares = squares;
    made.m_squares.sums = doubles(made.m_rangeCount * made.m_norms);
    const FormulaPiece *pieces = upload(list.pieces);

    for (int phase = 0; phase < formula.phases(); ++phase) {
        const PhaseSteps steps(formula, phase);
        FormulaPhase kernel;
        const bool hasNorms = phase + 1 < formula.phases();
        if (steps.steps.size() > FormulaPhase::kMostSlots || formula.norms > FormulaPhase::kMostNorms
            || (hasNorms && std::count(steps.norms.begin(), steps.norms.end(), -1) > 0))
            return unsupported("a GPU has no kernel for the update rule " + formula.rule);
        kernel.ranges = onDevice;
        kernel.pieces = pieces;
        kernel.pieceCount = static_cast<std::int64_t>(list.pieces.size());
        kernel.steps = upload(steps.steps);
        kernel.stepCount = static_cast<std::int64_t>(steps.steps.size());
        kernel.scalars = scalars;
        kernel.nodeCount = nodeCount;
        kernel.stores = upload(steps.targets);
        kernel.storeCount = static_cast<std::int64_t>(steps.targets.size());
        kernel.norms = hasNorms ? formula.norms : 0;
        std::copy_n(steps.norms.begin(), static_cast<std::size_t>(kernel.norms), kernel.normSlots);
        kernel.squares = squares;
        kernel.last = hasNorms ? 0 : 1;
        made.m_phases.push_back(kernel);
    }
    if (!status)
        return status.error();
    return made;
}

void FormulaUpdate::run(CudaQueue &queue, const device::UpdateStep &how)
{
    constexpr std::int64_t kDouble = sizeof(double);
    m_scalars.phase = how.phase;
    m_scalars.learningRate = how.learningRate;
    m_scalars.step = static_cast<double>(how.step);
    m_scalars.gradientScale = how.gradientScale;
    if (how.phase > 0)
        queue.copyToDevice(m_allSquares, how.allSquares, m_tensors * m_norms * kDouble);
    queue.items(m_scalars, m_rangeCount);
    const FormulaPhase &phase = m_phases[static_cast<std::size_t>(how.phase)];
    queue.rows(phase, phase.pieceCount, 0, 2 * phase.norms);
    if (phase.norms == 0)
        return;
    queue.items(m_squares, m_rangeCount * m_norms);
    for (const RowRun &row : m_rows)
        queue.copyToHost(how.squares + row.tensor * m_norms, m_squares.sums + row.range * m_norms,
                         row.count * m_norms * kDouble);
}

} // namespace planloom::cuda
