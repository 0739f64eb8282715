// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/update_formula.h"

#include "executor/device/cpu/simd.h"
#include "executor/device/cpu/update_pieces.h"

#include <algorithm>
#include <cstring>

namespace planloom::device {

namespace {

// --- One operator over one block. Input and output may be the same.
// ---------------------------------------------------

PLANLOOM_CLONES void blockWithBlock(update::Operator type, const float *a, const float *b, float *to, std::int64_t n)
{
    using update::Operator;
    switch (type) {
    case Operator::Add:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] + b[i];
        break;
    case Operator::Subtract:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] - b[i];
        break;
    case Operator::Multiply:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] * b[i];
        break;
    default:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] / b[i];
        break;
    }
}

PLANLOOM_CLONES void scalarWithBlock(update::Operator type, float a, const float *b, float *to, std::int64_t n)
{
    using update::Operator;
    switch (type) {
    case Operator::Add:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a + b[i];
        break;
    case Operator::Subtract:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a - b[i];
        break;
    case Operator::Multiply:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a * b[i];
        break;
    default:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a / b[i];
        break;
    }
}

PLANLOOM_CLONES void blockWithScalar(update::Operator type, const float *a, float b, float *to, std::int64_t n)
{
    using update::Operator;
    switch (type) {
    case Operator::Add:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] + b;
        break;
    case Operator::Subtract:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] - b;
        break;
    case Operator::Multiply:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] * b;
        break;
    default:
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = a[i] / b;
        break;
    }
}

PLANLOOM_CLONES void mapBlock(update::Operator type, const float *a, float *to, std::int64_t n)
{
    if (type == update::Operator::SquareRoot) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = std::sqrt(a[i]);
        return;
    }
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
        to[i] = (a[i] > 0.0F ? 1.0F : 0.0F) - (a[i] < 0.0F ? 1.0F : 0.0F);
}

double scalarWithScalar(update::Operator type, double a, double b)
{
    using update::Operator;
    switch (type) {
    case Operator::Add: return a + b;
    case Operator::Subtract: return a - b;
    case Operator::Multiply: return a * b;
    case Operator::Divide: return a / b;
    default: return std::pow(a, b);
    }
}

bool dependsOnRange(const update::Formula &formula, const update::Node &node, const std::vector<bool> &known)
{
    using update::Operator;
    if (node.type == Operator::LearningRate || node.type == Operator::WeightDecay || node.type == Operator::Norm)
        return true;
    return std::any_of(node.arguments.begin(), node.arguments.end(), [&](std::int16_t argument) {
        return argument >= 0 && !formula.node(argument).each && known[static_cast<std::size_t>(argument)];
    });
}

} // namespace

// --- From nodes to instructions
// ---------------------------------------------------------------------------------------

class UpdateFormula::Compiler {
public:
    Compiler(const update::Formula &formula, int phase)
        : m_formula(formula),
          m_phase(phase),
          m_nodes(formula.elementNodes(phase)),
          m_lastUse(formula.nodes.size(), -1),
          m_places(formula.nodes.size())
    {
        for (std::size_t block = kBlocks; block-- > 0;)
            m_free.push_back(static_cast<std::int16_t>(block));
    }

    Result<Phase> compile()
    {
        findUses();
        for (std::size_t i = 0; i < m_nodes.size(); ++i) {
            if (!append(i))
                return unsupported("update rule " + m_formula.rule
                                   + " has too many intermediate results at a time; write it with fewer");
            appendNorms(m_nodes[i]);
            release(i);
        }
        for (const update::Store &store : m_formula.stores)
            if (const Place from = place(store.node), to = memoryOf(store);
                m_formula.phaseOf(store) == m_phase && (from.kind != to.kind || from.index != to.index))
                m_made.copies.emplace_back(from, to);
        // A norm of an input, or of what lies in memory.
        for (std::size_t id = 0; id < m_formula.nodes.size(); ++id)
            if (const Node &node = m_formula.nodes[id]; isNormOfPhase(node) && !isComputed(node.arguments[0]))
                m_made.instructions.push_back({Operator::Norm, place(node.arguments[0]), {}, {}, node.index});
        return std::move(m_made);
    }

private:
    static constexpr int kEnd = 1 << 30;

    [[nodiscard]] bool isNormOfPhase(const Node &node) const
    {
        return node.type == Operator::Norm && node.phase == m_phase + 1;
    }
    [[nodiscard]] bool isComputed(std::int16_t node) const
    {
        return std::binary_search(m_nodes.begin(), m_nodes.end(), node);
    }

    static Place memoryOf(const update::Store &store)
    {
        return {Place::Kind::Memory,
                static_cast<std::int16_t>(store.target == update::Store::kWeight ? 0 : store.target + 2)};
    }

    /// Where an argument is found.
    [[nodiscard]] Place place(std::int16_t id) const
    {
        if (id < 0)
            return {};
        const Node &node = m_formula.node(id);
        if (!node.each)
            return {Place::Kind::Scalar, id};
        switch (node.type) {
        case Operator::Weight: return {Place::Kind::Memory, 0};
        case Operator::Gradient: return {Place::Kind::Memory, 1};
        case Operator::State: return {Place::Kind::Memory, static_cast<std::int16_t>(node.index + 2)};
        default: break;
        }
        if (const update::Store *stored = m_formula.storedBefore(id, m_phase))
            return memoryOf(*stored);
        return m_places[static_cast<std::size_t>(id)];
    }

    void findUses()
    {
        for (std::size_t i = 0; i < m_nodes.size(); ++i)
            for (const std::int16_t argument : m_formula.node(m_nodes[i]).arguments)
                if (argument >= 0)
                    m_lastUse[static_cast<std::size_t>(argument)] = static_cast<int>(i);
        for (const update::Store &store : m_formula.stores)
            if (m_formula.phaseOf(store) == m_phase)
                m_lastUse[static_cast<std::size_t>(store.node)] = kEnd;
    }

    /// The memory that the value of node @p i of the phase can be written to at once: what it is stored to, if no later
    /// node reads what lies there now.
    [[nodiscard]] Place target(std::size_t i) const
    {
        for (const update::Store &store : m_formula.stores) {
            if (store.node != m_nodes[i])
                continue;
            const Place memory = memoryOf(store);
            for (std::size_t later = i + 1; later < m_nodes.size(); ++later)
                for (const std::int16_t argument : m_formula.node(m_nodes[later]).arguments)
                    if (argument >= 0 && isInput(argument) && place(argument).index == memory.index)
                        return {};
            if (normReads(memory))
                return {};
            return memory;
        }
        return {};
    }

    [[nodiscard]] bool isInput(std::int16_t id) const
    {
        const Operator type = m_formula.node(id).type;
        return type == Operator::Weight || type == Operator::Gradient || type == Operator::State;
    }

    /// Norms of inputs are taken behind all instructions.
    [[nodiscard]] bool normReads(const Place &memory) const
    {
        return std::any_of(m_formula.nodes.begin(), m_formula.nodes.end(), [&](const Node &node) {
            return isNormOfPhase(node) && isInput(node.arguments[0]) && place(node.arguments[0]).index == memory.index;
        });
    }

    bool append(std::size_t i)
    {
        const Node &node = m_formula.node(m_nodes[i]);
        Place to = target(i);
        if (to.kind == Place::Kind::None) {
            if (m_free.empty())
                return false;
            to = {Place::Kind::Block, m_free.back()};
            m_free.pop_back();
        }
        m_made.instructions.push_back({node.type, place(node.arguments[0]), place(node.arguments[1]), to});
        m_places[static_cast<std::size_t>(m_nodes[i])] = to;
        return true;
    }

    void appendNorms(std::int16_t id)
    {
        for (const Node &node : m_formula.nodes)
            if (isNormOfPhase(node) && node.arguments[0] == id)
                m_made.instructions.push_back({Operator::Norm, place(id), {}, {}, node.index});
    }

    /// Gives back the blocks that nothing reads behind instruction @p i.
    void release(std::size_t i)
    {
        for (std::size_t earlier = 0; earlier <= i; ++earlier) {
            const auto id = static_cast<std::size_t>(m_nodes[earlier]);
            if (m_lastUse[id] > static_cast<int>(i) || m_places[id].kind != Place::Kind::Block)
                continue;
            m_free.push_back(m_places[id].index);
            m_places[id] = {};
        }
    }

    const update::Formula &m_formula;
    int m_phase;
    std::vector<std::int16_t> m_nodes; ///< that the phase computes
    std::vector<int> m_lastUse;        ///< per node of the formula: position in m_nodes
    std::vector<Place> m_places;       ///< per node of the formula
    std::vector<std::int16_t> m_free;  ///< blocks
    Phase m_made;
};

Result<UpdateFormula> UpdateFormula::make(const update::Formula &formula)
{
    if (formula.nodes.size() > kMostNodes)
        return unsupported("update rule " + formula.rule + " has too many operators; write it with fewer");
    UpdateFormula made;
    made.m_formula = formula;
    for (int phase = 0; phase < formula.phases(); ++phase) {
        auto compiled = Compiler(formula, phase).compile();
        if (!compiled)
            return compiled.error();
        made.m_phases.push_back(std::move(*compiled));
    }
    std::vector<bool> ofRange(formula.nodes.size(), false);
    for (std::size_t id = 0; id < formula.nodes.size(); ++id) {
        if (formula.nodes[id].each)
            continue;
        ofRange[id] = dependsOnRange(formula, formula.nodes[id], ofRange);
        (ofRange[id] ? made.m_ofRange : made.m_ofStep).push_back(id);
    }
    return made;
}

// --- Scalars
// ----------------------------------------------------------------------------------------------------------

void UpdateFormula::computeOperator(std::size_t id, Scalars &scalars) const
{
    const Node &node = m_formula.nodes[id];
    const auto argument = [&](std::size_t i) { return scalars[static_cast<std::size_t>(node.arguments[i])]; };
    switch (node.type) {
    case Operator::SquareRoot: scalars[id] = std::sqrt(argument(0)); break;
    case Operator::Sign: scalars[id] = argument(0) > 0 ? 1 : argument(0) < 0 ? -1 : 0; break;
    case Operator::WherePositive: scalars[id] = argument(0) > 0 ? argument(1) : argument(2); break;
    default: scalars[id] = scalarWithScalar(node.type, argument(0), argument(1)); break;
    }
}

void UpdateFormula::compute(const UpdateStep &how, Scalars &scalars) const
{
    for (const std::size_t id : m_ofStep) {
        switch (const Node &node = m_formula.nodes[id]; node.type) {
        case Operator::Constant: scalars[id] = node.value; break;
        case Operator::Step: scalars[id] = static_cast<double>(how.step); break;
        case Operator::GradientScale: scalars[id] = how.gradientScale; break;
        default: computeOperator(id, scalars); break;
        }
    }
}

void UpdateFormula::compute(const UpdateStep &how, const UpdateRange &range, Scalars &scalars) const
{
    for (const std::size_t id : m_ofRange) {
        const Node &node = m_formula.nodes[id];
        if (node.phase > how.phase)
            continue;
        switch (node.type) {
        case Operator::LearningRate: scalars[id] = how.learningRate * static_cast<double>(range.rateFactor); break;
        case Operator::WeightDecay: scalars[id] = static_cast<double>(range.decay); break;
        case Operator::Norm:
            scalars[id] =
                std::sqrt(how.allSquares[static_cast<std::int64_t>(range.tensor) * m_formula.norms + node.index]);
            break;
        default: computeOperator(id, scalars); break;
        }
    }
}

// --- Elements
// ---------------------------------------------------------------------------------------------------------

void UpdateFormula::runPiece(const Phase &phase, const Scalars &scalars, const UpdateRange &range, std::int64_t begin,
                             std::int64_t end, double *sums) const
{
    alignas(64) thread_local float blocks[kBlocks][kBlock];
    for (; begin < end; begin += kBlock) {
        const std::int64_t n = std::min(kBlock, end - begin);
        const auto at = [&](Place place) -> float * {
            const auto index = static_cast<std::size_t>(place.index);
            if (place.kind == Place::Kind::Block)
                return blocks[index];
            return begin + (index == 0 ? range.parameter : index == 1 ? range.gradient : range.states[index - 2]);
        };
        const auto scalar = [&](Place place) {
            return static_cast<float>(scalars[static_cast<std::size_t>(place.index)]);
        };
        for (const Instruction &run : phase.instructions) {
            if (run.type == Operator::Norm)
                sums[run.norm] += squaresOfPiece(at(run.a), n);
            else if (run.b.kind == Place::Kind::None)
                mapBlock(run.type, at(run.a), at(run.to), n);
            else if (run.a.kind == Place::Kind::Scalar)
                scalarWithBlock(run.type, scalar(run.a), at(run.b), at(run.to), n);
            else if (run.b.kind == Place::Kind::Scalar)
                blockWithScalar(run.type, at(run.a), scalar(run.b), at(run.to), n);
            else
                blockWithBlock(run.type, at(run.a), at(run.b), at(run.to), n);
        }
        for (const auto &[from, to] : phase.copies)
            std::memcpy(at(to), at(from), static_cast<std::size_t>(n) * sizeof(float));
    }
}

std::size_t UpdateFormula::sumsOf(std::span<const UpdateRange> ranges) const
{
    return static_cast<std::size_t>(piecesOf(ranges) * m_formula.norms);
}

void UpdateFormula::run(const UpdateStep &how, std::span<const UpdateRange> ranges, std::span<double> sums) const
{
    const Phase &phase = m_phases[static_cast<std::size_t>(how.phase)];
    const bool last = how.phase + 1 == m_formula.phases();
    Scalars shared{};
    compute(how, shared);
    std::fill(sums.begin(), sums.end(), 0.0);
    forPieces(ranges, [&](const UpdateRange &range, std::int64_t begin, std::int64_t end, std::int64_t piece) {
        Scalars scalars = shared;
        compute(how, range, scalars);
        runPiece(phase, scalars, range, begin, end, sums.data() + piece * m_formula.norms);
        if (!last)
            return;
        std::memset(range.gradient + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(float));
        if (range.copy != nullptr)
            narrowCopy(range.parameter + begin, range.copy + begin, end - begin);
    });
    if (!last)
        addSquares(how, ranges, sums);
}

/// Piece by piece in their order, so that no number of threads changes a sum.
void UpdateFormula::addSquares(const UpdateStep &how, std::span<const UpdateRange> ranges,
                               std::span<const double> sums) const
{
    const auto norms = static_cast<std::size_t>(m_formula.norms);
    std::size_t next = 0;
    for (const UpdateRange &range : ranges) {
        double *row = how.squares + static_cast<std::size_t>(range.tensor) * norms;
        if (range.counts)
            std::fill_n(row, norms, 0.0);
        for (std::int64_t piece = 0; piece < piecesOf(range); ++piece)
            for (std::size_t norm = 0; norm < norms; ++norm, ++next)
                if (range.counts)
                    row[norm] += sums[next];
    }
}

} // namespace planloom::device
