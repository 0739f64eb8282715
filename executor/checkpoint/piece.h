// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/shape.h"
#include "engine/sharding/region.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::checkpoint {

/// Which tensor of a parameter: itself, or a state of its optimizer. Or a state of the model, which is kept without
/// being trained: a running mean.
class Kind {
public:
    static const Kind Parameter;
    static const Kind State;
    static const Kind Replicas; ///< a parameter of which each replica has its own: the tensor has a first axis for them
    /// @p text: update::State::kind(), such as "moment1" or "optimizer:exp_avg".
    static Kind ofOptimizer(std::string text) { return Kind(std::move(text)); }
    /// Nothing for a text that no kind has.
    static std::optional<Kind> fromText(std::string_view text);

    [[nodiscard]] const std::string &text() const { return m_text; } ///< as manifests have it
    friend auto operator<=>(const Kind &, const Kind &) = default;

private:
    explicit Kind(std::string text) : m_text(std::move(text)) {}
    std::string m_text;
};
inline const Kind Kind::Parameter{"parameter"};
inline const Kind Kind::State{"state"};
inline const Kind Kind::Replicas{"replicas"};

/// A part of a tensor, as one rank holds it: `region` is the part that the rank's local, row-major tensor covers of the
/// whole one, and of that local tensor's elements the rank holds [flatBegin, flatBegin + flatCount), as ZeRO cuts it;
/// perhaps none.
struct Piece {
    std::string name; ///< of the parameter or state in the model
    Kind kind = Kind::Parameter;
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> shape; ///< of the whole tensor
    sharding::Region region;
    std::int64_t flatBegin = 0;
    std::int64_t flatCount = 0;
    std::byte *data = nullptr; ///< of element flatBegin
    bool writes = true;        ///< this rank saves it; of replicas one does
    /// Where no memory has the data: fetches @p bytes of them from @p begin on. Empty: `data` has them.
    std::function<Status(std::byte *to, std::int64_t begin, std::int64_t bytes)> read = {};

    [[nodiscard]] std::int64_t bytes() const { return flatCount * graph::sizeOf(type); }
};

/// All of a tensor of @p shape.
sharding::Region wholeRegion(const std::vector<std::int64_t> &shape);
/// Elements of the whole tensor; -1 where that is no number of this machine or a size is negative.
std::int64_t wholeElements(const std::vector<std::int64_t> &shape);

/// Errors (BadInput), naming the tensor: intervals out of order or outside the tensor, a flat range outside the region.
Status check(const Piece &piece);

/// Calls @p visit for each run of elements that both pieces hold of the same tensor: where it lies in either's data,
/// and how many. Runs come in row-major order. Both pieces pass check() and have the same shape. Cost: O(rows of the
/// overlap), one for axes that neither cuts.
void eachCommonRun(const Piece &from, const Piece &to,
                   const std::function<void(std::int64_t from, std::int64_t to, std::int64_t count)> &visit);

} // namespace planloom::checkpoint
