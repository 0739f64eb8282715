// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/alignment.h"

#include <algorithm>
#include <limits>

namespace planloom::overlay {
namespace {

constexpr float kScopeBonus = 4; ///< of a pair whose range is called like the model's scope
constexpr float kLoss = 0.25F;   ///< of what is left out, of its weight
constexpr float kPart = 0;       ///< of a further part: better than leaving it out, but nothing is drawn in at the end
constexpr float kNever = -1e30F;

/// How the best score of a cell was reached.
enum class Step : std::uint8_t { None, SkipWanted, SkipFound, Pair, MoreFound, MoreWanted, Close };

bool liesIn(const Wanted &wanted, std::int32_t scope)
{
    return wanted.scopes != nullptr && std::ranges::binary_search(*wanted.scopes, scope);
}

bool isPartOf(const Wanted &wanted, const Found &found)
{
    return (found.kinds & partsOf(wanted.kind)) != 0 && (found.scope < 0 || liesIn(wanted, found.scope));
}

/// Two tables of scores: `apart`, whatever was before; `paired`, the last elements of both belong together.
class Aligner {
public:
    Aligner(std::span<const Wanted> wanted, std::span<const Found> found)
        : m_wanted(wanted),
          m_found(found),
          m_inPieces(std::ranges::find(wanted, OpKind::Attention, &Wanted::kind) == wanted.end()),
          m_width(found.size() + 1),
          m_apart((wanted.size() + 1) * m_width, Step::None),
          m_paired((wanted.size() + 1) * m_width, Step::None)
    {
    }

    Alignment run()
    {
        std::vector<float> apart(m_width, 0), paired(m_width, kNever), lastApart, lastPaired;
        for (std::size_t j = 1; j < m_width; ++j)
            relax(apart[j], apart[j - 1] - lossOf(j - 1), m_apart[j], Step::SkipFound, true);
        for (std::size_t i = 1; i <= m_wanted.size(); ++i) {
            lastApart.swap(apart);
            lastPaired.swap(paired);
            apart.assign(m_width, kNever);
            paired.assign(m_width, kNever);
            for (std::size_t j = 0; j < m_width; ++j)
                cell(i, j, apart, paired, lastApart, lastPaired);
        }
        const auto best = std::ranges::max_element(apart);
        Alignment made;
        made.score = static_cast<double>(*best);
        trace(static_cast<std::size_t>(best - apart.begin()), made.pairs);
        return made;
    }

private:
    /// The score of a pair; kNever: it is none.
    [[nodiscard]] float pairScore(const Wanted &wanted, const Found &found) const
    {
        if (found.scope >= 0 && !liesIn(wanted, found.scope))
            return kNever;
        const float bonus = found.scope >= 0 ? kScopeBonus : 0;
        const auto weighs = static_cast<float>(weight(wanted.kind));
        if ((found.kinds & only(wanted.kind)) != 0)
            return weighs + bonus;
        const bool begins = (found.kinds & beginsOf(wanted.kind)) != 0
            || (isAttention(found) && (beginsOf(OpKind::Attention) & only(wanted.kind)) != 0);
        return begins ? weighs / 2 + bonus : kNever;
    }

    /// Attention in one call, where the model has it in pieces.
    [[nodiscard]] bool isAttention(const Found &found) const
    {
        return m_inPieces && (found.kinds & only(OpKind::Attention)) != 0;
    }

    /// Whether a call, of fused operators, can be @p wanted beside what it is already.
    [[nodiscard]] bool covers(const Found &found, const Wanted &wanted) const
    {
        if (isAttention(found) && (only(wanted.kind) & partsOf(OpKind::Attention)) != 0)
            return true;
        const bool isFused = (found.kinds & (found.kinds - 1)) != 0;
        return isFused && (found.kinds & only(wanted.kind)) != 0;
    }

    [[nodiscard]] float lossOf(std::size_t found) const
    {
        return std::max(0.05F,
                        kLoss * static_cast<float>(m_found[found].kinds == 0 ? 0 : weight(m_found[found].kinds)));
    }

    static void relax(float &best, float score, Step &how, Step step, bool always = false)
    {
        if (!always && score <= best)
            return;
        best = score;
        how = step;
    }

    void cell(std::size_t i, std::size_t j, std::vector<float> &apart, std::vector<float> &paired,
              const std::vector<float> &lastApart, const std::vector<float> &lastPaired)
    {
        const std::size_t at = i * m_width + j;
        const Wanted &wanted = m_wanted[i - 1];
        if (j > 0) {
            const Found &found = m_found[j - 1];
            if (const float score = pairScore(wanted, found); score > kNever)
                relax(paired[j], lastApart[j - 1] + score, m_paired[at], Step::Pair);
            if (paired[j - 1] > kNever && isPartOf(wanted, found))
                relax(paired[j], paired[j - 1] + kPart, m_paired[at], Step::MoreFound);
            if (lastPaired[j] > kNever && covers(found, wanted))
                relax(paired[j], lastPaired[j] + kPart, m_paired[at], Step::MoreWanted);
        }
        relax(apart[j], paired[j], m_apart[at], Step::Close);
        relax(apart[j], lastApart[j] - kLoss * static_cast<float>(weight(wanted.kind)), m_apart[at], Step::SkipWanted);
        if (j > 0)
            relax(apart[j], apart[j - 1] - lossOf(j - 1), m_apart[at], Step::SkipFound);
    }

    void trace(std::size_t j, std::vector<Pair> &pairs) const
    {
        bool inPair = false;
        for (std::size_t i = m_wanted.size(); i > 0 || j > 0;) {
            const Step step = (inPair ? m_paired : m_apart)[i * m_width + j];
            switch (step) {
            case Step::Close: inPair = true; continue;
            case Step::SkipWanted: --i; continue;
            case Step::SkipFound: --j; continue;
            case Step::Pair:
                pairs.push_back({--i, --j});
                inPair = false;
                continue;
            case Step::MoreFound: pairs.push_back({i - 1, --j}); continue;
            case Step::MoreWanted: pairs.push_back({--i, j - 1}); continue;
            case Step::None: i = j = 0; continue;
            }
        }
        std::ranges::reverse(pairs);
    }

    std::span<const Wanted> m_wanted;
    std::span<const Found> m_found;
    bool m_inPieces; ///< the model has no attention as one operator
    std::size_t m_width;
    std::vector<Step> m_apart, m_paired;
};

} // namespace

Alignment align(std::span<const Wanted> wanted, std::span<const Found> found)
{
    if (wanted.empty() || found.empty())
        return {};
    return Aligner(wanted, found).run();
}

} // namespace planloom::overlay
