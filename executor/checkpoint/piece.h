// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/shape.h"
#include "engine/sharding/region.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planloom::checkpoint {

/// Which tensor of a parameter. State is what is kept without being trained: running means.
enum class Kind : std::uint8_t { Parameter, Moment1, Moment2, State };
const char *name(Kind kind); ///< "parameter", "moment1", "moment2", "state"

/// A part of a tensor, as one rank holds it: `region` is what the rank's local, row-major tensor covers of the whole one, and of that local
/// tensor's elements the rank holds [flatBegin, flatBegin + flatCount), as ZeRO cuts it; perhaps none.
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

    [[nodiscard]] std::int64_t bytes() const { return flatCount * graph::sizeOf(type); }
};

/// All of a tensor of @p shape.
sharding::Region wholeRegion(const std::vector<std::int64_t> &shape);
/// Elements of the whole tensor; -1 where that is no number of this machine or a size is negative.
std::int64_t wholeElements(const std::vector<std::int64_t> &shape);

/// Errors (BadInput), naming the tensor: intervals out of order or outside the tensor, a flat range outside the region.
Status check(const Piece &piece);

/// Calls @p visit for each run of elements that both pieces hold of the same tensor: where it lies in either's data, and how many. Runs come in
/// row-major order. Both pieces pass check() and have the same shape. Cost: O(rows of the overlap), one for what neither cuts.
void eachCommonRun(const Piece &from, const Piece &to, const std::function<void(std::int64_t from, std::int64_t to, std::int64_t count)> &visit);

} // namespace planloom::checkpoint
