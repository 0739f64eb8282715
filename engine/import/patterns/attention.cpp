// SPDX-License-Identifier: Apache-2.0
#include "engine/import/patterns/match.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace planloom::import {
namespace {

using graph::Op;
using graph::Shape;
using graph::Tensor;
using Perm = std::vector<std::int64_t>;

/// How exporters lay tensors out around the products of attention.
enum class Order : std::uint8_t {
    SamplesFirst,   ///< (N, T, C), heads beside samples: (N, heads, T, size)
    PositionsFirst, ///< (T, N, C), heads folded into samples: (N heads, T, size), as torch.nn.MultiheadAttention
};

/// Where the queries, the keys or the values come from.
struct Heads {
    TensorId rows;         ///< (N, T, heads size) or (T, N, heads size); invalid: `split` has yet to be laid out so
    TensorId split;        ///< (N, heads, T, size)
    std::int64_t part = 0; ///< of a packed projection (N, T, 3, heads, size), counted from 1; 0: all of `rows`
    std::int64_t heads = 0, size = 0;
    Order order = Order::SamplesFirst;
    graph::Dim samples = {};
};

/// a b = whole, of sizes that a file may have made up.
bool isProduct(std::int64_t whole, std::int64_t a, std::int64_t b) { return b > 0 && whole % b == 0 && whole / b == a; }

/// Follows attention from its Softmax to the projections and to the operators that join the heads again.
class AttentionMatcher {
public:
    AttentionMatcher(const PatternGraph &in, const Op &softmax) : m_in(in), m_softmax(softmax) {}

    std::optional<Pattern> match()
    {
        m_pattern.ops.insert(m_softmax.id);
        const auto &scores = shape(m_softmax.inputs[0]);
        const auto axis = m_softmax.integer("axis", -1);
        const auto rank = static_cast<std::int64_t>(scores.rank());
        if ((rank != 3 && rank != 4) || (axis != -1 && axis != rank - 1)
            || scores.dims()[rank - 1] != scores.dims()[rank - 2] || scores.dims().back().batch)
            return {};
        m_length = scores.dims().back().size;
        if (!readScores(m_softmax.inputs[0]) || !readResult() || !agrees())
            return {};
        m_packed = packed();
        const bool inParts =
            std::any_of(m_heads.begin(), m_heads.end(), [](const Heads &heads) { return heads.part != 0; });
        if (inParts && !m_packed.valid())
            return {};
        write();
        return m_in.closed(m_pattern) ? std::optional(m_pattern) : std::nullopt;
    }

private:
    [[nodiscard]] const Shape &shape(TensorId id) const { return m_in.tensor(id).shape; }
    void take(const Op &op) { m_pattern.ops.insert(op.id); }

    // --- Scores ---------------------------------------------------------------------------------------------------

    /// Takes a product with a number, or a quotient, off @p id.
    bool readScale(TensorId &id)
    {
        const Op *op = m_in.source(id);
        if (!op || (op->type != "Mul" && op->type != "Div"))
            return false;
        for (const std::size_t at : {1, 0}) {
            const auto number = m_in.number(op->inputs[at]);
            if (!number || *number == 0 || (op->type == "Div" && at == 0))
                continue;
            m_scale *= op->type == "Div" ? 1 / *number : *number;
            take(*op);
            id = op->inputs[1 - at];
            return true;
        }
        return false;
    }

    [[nodiscard]] bool scaleIsRight(std::int64_t size) const
    {
        return nearly(m_scale, 1 / std::sqrt(static_cast<double>(size)));
    }

    /// Operators that hide scores, one kind after the other, and operators that only fold heads into samples or unfold
    /// them.
    bool readMask(TensorId &id)
    {
        const Op *op = m_in.source(id);
        if (!op)
            return false;
        if (op->type == "Reshape" && sameBut(op->inputs[0], id)) {
            take(*op);
            id = op->inputs[0];
            return true;
        }
        const auto hiding = readHiding(m_in, *op, m_length);
        if (!hiding || (hiding->causal ? m_causal : m_seen.valid()))
            return false;
        m_causal = m_causal || hiding->causal;
        m_seen = hiding->causal ? m_seen : hiding->seen;
        take(*op);
        id = hiding->scores;
        return true;
    }

    /// True if the last two dimensions are the same.
    [[nodiscard]] bool sameBut(TensorId a, TensorId b) const
    {
        const auto &x = shape(a).dims();
        const auto &y = shape(b).dims();
        return x.size() > 2 && y.size() > 2 && std::equal(x.end() - 2, x.end(), y.end() - 2);
    }

    bool readScores(TensorId id)
    {
        while (readMask(id) || readScale(id)) {
        }
        const Op *product = m_in.source(id, "MatMul");
        if (!product || product->inputs.size() != 2 || product->integer("transA") != 0
            || product->integer("transB") != 0)
            return false;
        take(*product);
        auto keys = readKeys(product->inputs[1]);
        auto queries = keys ? readHeads(product->inputs[0]) : std::nullopt;
        if (!queries)
            return false;
        if (queries->rows.valid() && !scaleIsRight(queries->size)) // written before the heads were split
            while (readScale(queries->rows)) {
            }
        m_heads[0] = *queries;
        m_heads[1] = *keys;
        return scaleIsRight(queries->size);
    }

    // --- Heads ----------------------------------------------------------------------------------------------------

    std::optional<Heads> readKeys(TensorId id)
    {
        while (readScale(id)) {
        }
        const Op *turned = m_in.source(id, "Transpose");
        if (!turned)
            return {};
        const Perm perm = turned->integers("perm");
        take(*turned);
        if (perm == Perm{0, 1, 3, 2} || perm == Perm{0, 2, 1})
            return readHeads(turned->inputs[0]);
        if (perm == Perm{0, 2, 3, 1})
            return readRows(turned->inputs[0], Order::SamplesFirst);
        return perm == Perm{1, 2, 0} ? readRows(turned->inputs[0], Order::PositionsFirst) : std::nullopt;
    }

    /// (N, heads, T, size) or (N heads, T, size).
    std::optional<Heads> readHeads(TensorId id)
    {
        while (readScale(id)) {
        }
        if (shape(id).rank() == 4)
            return readSplit(readRepeated(id));
        const Op *op = m_in.source(id);
        if (!op)
            return {};
        if (op->type == "Transpose" && op->integers("perm") == Perm{1, 0, 2}) {
            take(*op);
            return readRows(op->inputs[0], Order::PositionsFirst);
        }
        if (op->type != "Reshape" || shape(op->inputs[0]).rank() != 4 || !sameBut(op->inputs[0], id))
            return {};
        take(*op);
        id = op->inputs[0];
        while (readScale(id)) {
        }
        return readSplit(id);
    }

    /// Heads that several queries share are repeated for each: (N, kv, T, size) to (N, kv, 1, T, size), (N, kv, g, T,
    /// size), (N, kv g, T, size).
    TensorId readRepeated(TensorId id)
    {
        const Op *joined = m_in.source(id, "Reshape");
        const Op *repeated = joined ? m_in.source(joined->inputs[0], "Expand") : nullptr;
        const Op *apart = repeated ? m_in.source(repeated->inputs[0]) : nullptr;
        if (!apart || (apart->type != "Unsqueeze" && apart->type != "Reshape") || shape(apart->inputs[0]).rank() != 4
            || !sameBut(apart->inputs[0], id))
            return id;
        const auto &few = shape(apart->inputs[0]).dims();
        const auto &spread = shape(repeated->inputs[0]).dims();
        const auto &all = shape(joined->inputs[0]).dims();
        const bool fits = spread.size() == 5 && all.size() == 5 && spread[1] == few[1] && spread[2].size == 1
            && all[1] == few[1] && few[0] == all[0];
        if (!fits)
            return id;
        for (const Op *op : {joined, repeated, apart})
            take(*op);
        return apart->inputs[0];
    }

    /// (N, heads, T, size) to where it was split into heads.
    std::optional<Heads> readSplit(TensorId id)
    {
        const auto &dims = shape(id).dims();
        if (dims[1].batch || dims[2] != graph::Dim{m_length, false} || dims[3].batch)
            return {};
        const Op *op = m_in.source(id);
        if (op && op->type == "Transpose" && op->integers("perm") == Perm{0, 2, 1, 3})
            if (auto heads = readRows(op->inputs[0], Order::SamplesFirst)) {
                take(*op);
                return heads;
            }
        if (auto heads = readPart(id))
            return heads;
        return Heads{{}, id, 0, dims[1].size, dims[3].size, Order::SamplesFirst, dims[0]};
    }

    /// Reshape(x) of x (N, T, heads size), or of x (T, N, heads size) to (T, N heads, size).
    std::optional<Heads> readRows(TensorId id, Order order)
    {
        const Op *split = m_in.source(id, "Reshape");
        if (!split)
            return {};
        const auto &whole = shape(split->inputs[0]).dims();
        const auto &parts = shape(id).dims();
        const std::size_t samples = order == Order::SamplesFirst ? 0 : 1;
        if (whole.size() != 3 || parts.size() != (order == Order::SamplesFirst ? 4U : 3U)
            || whole[1 - samples] != graph::Dim{m_length, false})
            return {};
        const bool folds = whole[1].size > 0 && parts[1].batch == whole[1].batch;
        if (parts[1 - samples] != whole[1 - samples] || (order == Order::SamplesFirst ? parts[0] != whole[0] : !folds))
            return {};
        Heads heads{split->inputs[0], {}, 0, 0, parts.back().size, order, whole[samples]};
        heads.heads = order == Order::SamplesFirst ? parts[2].size : parts[1].size / whole[1].size;
        if (!isProduct(whole[2].size, heads.heads, heads.size))
            return {};
        take(*split);
        return heads;
    }

    /// One of three of a projection that is split with one Reshape (N, T, 3, heads, size) and one Transpose.
    std::optional<Heads> readPart(TensorId id)
    {
        const Op *cut = m_in.source(id);
        if (cut && cut->type == "Squeeze")
            cut = m_in.source(cut->inputs[0]);
        if (!cut || cut->type != (m_in.source(id)->type == "Squeeze" ? "Split" : "Gather") || cut->integer("axis") != 0)
            return {};
        const Op *turned = m_in.source(cut->inputs[0], "Transpose");
        const Op *split = turned && turned->integers("perm") == Perm{2, 0, 3, 1, 4}
            ? m_in.source(turned->inputs[0], "Reshape")
            : nullptr;
        if (!split || shape(split->inputs[0]).rank() != 3)
            return {};
        const auto &whole = shape(split->inputs[0]).dims();
        const auto &parts = shape(split->outputs[0]).dims();
        if (parts.size() != 5 || parts[0] != whole[0] || parts[1] != whole[1] || parts[2].size != 3
            || whole[2].size % 3 != 0 || !isProduct(whole[2].size / 3, parts[3].size, parts[4].size))
            return {};
        std::optional<std::int64_t> part;
        if (cut->type == "Gather")
            part = m_in.integer(cut->inputs[1]);
        else if (const Op &squeeze = *m_in.source(id); cut->outputs.size() == 3)
            part = std::find(cut->outputs.begin(), cut->outputs.end(), squeeze.inputs[0]) - cut->outputs.begin();
        if (!part || *part < 0 || *part > 2)
            return {};
        for (const Op *op : {m_in.source(id), cut, turned, split})
            take(*op);
        return Heads{split->inputs[0], {}, *part + 1, parts[3].size, parts[4].size, Order::SamplesFirst, parts[0]};
    }

    // --- Result ---------------------------------------------------------------------------------------------------

    /// The product with the values, and the heads side by side again.
    bool readResult()
    {
        const Op *product = m_in.onlyReader(m_softmax.outputs[0], "MatMul");
        const Op *unfolded = product ? nullptr : m_in.onlyReader(m_softmax.outputs[0], "Reshape");
        if (unfolded && sameBut(unfolded->inputs[0], unfolded->outputs[0])) {
            take(*unfolded);
            product = m_in.onlyReader(unfolded->outputs[0], "MatMul");
        }
        if (!product || product->inputs.size() != 2 || product->integer("transA") != 0
            || product->integer("transB") != 0)
            return false;
        const Op *weights = m_in.source(product->inputs[0]);
        if (!weights || !m_pattern.ops.contains(weights->id))
            return false;
        const double scale = m_scale;
        const auto values = readHeads(product->inputs[1]);
        if (!values || m_scale != scale)
            return false;
        m_heads[2] = *values;
        take(*product);
        return readJoined(product->outputs[0]);
    }

    bool readJoined(TensorId id)
    {
        const bool positions = m_heads[0].order == Order::PositionsFirst;
        if (!positions && shape(id).rank() == 3) {
            const Op *unfolded = m_in.onlyReader(id, "Reshape");
            if (!unfolded || shape(unfolded->outputs[0]).rank() != 4 || !sameBut(id, unfolded->outputs[0]))
                return false;
            take(*unfolded);
            id = unfolded->outputs[0];
        }
        const Op *turned = m_in.onlyReader(id, "Transpose");
        m_joined = turned && turned->integers("perm") == (positions ? Perm{1, 0, 2} : Perm{0, 2, 1, 3})
            ? m_in.onlyReader(turned->outputs[0], "Reshape")
            : nullptr;
        if (!m_joined)
            return false;
        take(*turned);
        take(*m_joined);
        m_pattern.output = m_joined->outputs[0];
        if (shape(m_pattern.output).rank() == 0)
            return false;
        const graph::Dim &width = shape(m_pattern.output).dims().back();
        return !width.batch && isProduct(width.size, m_heads[0].heads, m_heads[0].size);
    }

    /// True if queries, keys and values fit each other.
    [[nodiscard]] bool agrees() const
    {
        const auto &[q, k, v] = m_heads;
        const bool sizes = q.size > 0 && q.size == k.size && k.size == v.size && k.heads == v.heads && k.heads > 0
            && q.heads % k.heads == 0;
        const bool maskFits = !m_seen.valid() || q.samples == m_in.tensor(m_seen).shape[0];
        return sizes && maskFits && q.order == k.order && k.order == v.order && q.samples == k.samples
            && k.samples == v.samples;
    }

    // --- The replacement ------------------------------------------------------------------------------------------

    Operand add(Step step)
    {
        m_pattern.steps.push_back(std::move(step));
        return Operand::made(m_pattern.steps.size() - 1);
    }

    /// Queries, keys and values of one projection, if they are its parts in this order.
    TensorId packed()
    {
        const auto &[q, k, v] = m_heads;
        if (q.part == 1 && k.part == 2 && v.part == 3 && q.rows == k.rows && k.rows == v.rows)
            return q.rows;
        if (q.part + k.part + v.part != 0 || !q.rows.valid() || !k.rows.valid() || !v.rows.valid())
            return {};
        const std::array<TensorId, 3> rows = {q.rows, k.rows, v.rows};
        const Op *cut = m_in.source(q.rows, "Split");
        if (cut && std::equal(cut->outputs.begin(), cut->outputs.end(), rows.begin(), rows.end())
            && isLast(cut->integer("axis"))) {
            take(*cut);
            return cut->inputs[0];
        }
        return sliced(rows);
    }

    static bool isLast(std::int64_t axis) { return axis == 2 || axis == -1; }

    /// The tensor of which @p rows are consecutive slices that cover all.
    TensorId sliced(const std::array<TensorId, 3> &rows)
    {
        TensorId whole;
        std::int64_t begin = 0;
        for (const TensorId id : rows) {
            const Op *slice = m_in.source(id, "Slice");
            const bool fits = slice && slice->integers("axes").size() == 1 && isLast(slice->integers("axes")[0])
                && slice->integers("starts") == Perm{begin} && slice->integers("steps") == Perm{1}
                && (!whole.valid() || whole == slice->inputs[0]);
            if (!fits)
                return {};
            whole = slice->inputs[0];
            begin += shape(id).dims().back().size;
        }
        if (shape(whole).dims().back().size != begin)
            return {};
        for (const TensorId id : rows)
            take(*m_in.source(id, "Slice"));
        return whole;
    }

    /// One of the three as (N, T, heads size), or (T, N, heads size).
    Operand rowsOf(const Heads &heads)
    {
        if (heads.rows.valid())
            return heads.rows;
        const Operand turned = add({"Transpose", {heads.split}, {{"perm", Perm{0, 2, 1, 3}}}});
        graph::Attributes shape{{"shape", Perm{heads.samples.size, m_length, heads.heads * heads.size}}};
        if (heads.samples.batch)
            shape["batch_axis"] = std::int64_t{0};
        return add({"Reshape", {turned}, std::move(shape)});
    }

    void write()
    {
        const Heads &q = m_heads[0];
        const Heads &k = m_heads[1];
        Operand qkv(m_packed);
        if (!m_packed.valid()) {
            std::vector<Operand> parts;
            for (const Heads &heads : m_heads)
                parts.push_back(rowsOf(heads));
            qkv = add({"Concat", std::move(parts), {{"axis", std::int64_t{2}}}});
        }
        const bool turn = q.order == Order::PositionsFirst;
        if (turn)
            qkv = add({"Transpose", {qkv}, {{"perm", Perm{1, 0, 2}}}});
        Step attention{"Attention",
                       {qkv},
                       {{"heads", q.heads}, {"kv_heads", k.heads}, {"causal", std::int64_t{m_causal ? 1 : 0}}}};
        if (m_seen.valid())
            attention.inputs.push_back(m_in.tensor(m_seen).type == graph::DType::I64 ? Operand(m_seen)
                                                                                     : add(castOf(m_seen)));
        Operand mixed = add(std::move(attention));
        if (turn)
            mixed = add({"Transpose", {mixed}, {{"perm", Perm{1, 0, 2}}}});
        const graph::Dim positions{m_length, false};
        const Shape apart({turn ? positions : q.samples, turn ? q.samples : positions, {q.heads * q.size, false}});
        if (shape(m_pattern.output) != apart)
            add({"Reshape", {mixed}, m_joined->attributes});
    }

    static Step castOf(TensorId mask)
    {
        return {"Cast", {mask}, {{"to", std::string(name(graph::DType::I64))}}, graph::DType::I64};
    }

    const PatternGraph &m_in;
    const Op &m_softmax;
    Pattern m_pattern;
    std::array<Heads, 3> m_heads; ///< queries, keys, values
    const Op *m_joined = nullptr;
    TensorId m_packed; ///< queries, keys and values side by side, if the file has them so
    TensorId m_seen;   ///< the mask of keys
    std::int64_t m_length = 0;
    double m_scale = 1;
    bool m_causal = false;
};

} // namespace

std::optional<Pattern> matchAttention(const PatternGraph &in, const Op &op) { return AttentionMatcher(in, op).match(); }

} // namespace planloom::import
