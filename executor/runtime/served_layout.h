// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Which elements of which bucket each parameter server updates: all buckets one behind the other, cut into parts of
/// equal bytes, whatever parameters are there. Immutable.
class ServedLayout {
public:
    /// Elements [begin, end) of a bucket.
    struct Piece {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::int64_t at = 0; ///< where they begin among those of the server
        [[nodiscard]] std::int64_t size() const { return end - begin; }
        [[nodiscard]] std::int64_t bytes() const { return 4 * size(); }
    };

    ServedLayout(const program::Program &program, std::size_t servers);

    [[nodiscard]] std::size_t servers() const { return m_pieces.size(); }
    /// Of a bucket that is not served: empty.
    [[nodiscard]] const Piece &piece(std::size_t server, std::size_t bucket) const { return m_pieces[server][bucket]; }
    [[nodiscard]] std::int64_t elements(std::size_t server) const { return m_elements[server]; }
    /// Buckets of which it has a part.
    [[nodiscard]] std::int64_t pieces(std::size_t server) const;
    /// Bytes of gradients that a trainer sends in a step, and of parameters that it gets.
    [[nodiscard]] std::int64_t bytes(std::size_t server) const { return 4 * m_elements[server]; }

private:
    std::vector<std::vector<Piece>> m_pieces; ///< [server][bucket]
    std::vector<std::int64_t> m_elements;
};

/// Adds up the workers' gradients of elements [begin, begin + count) of a bucket of @p elements, in the order in which
/// an all-reduce of the bucket among as many workers adds them: the same bits. @p gradients: by worker.
void addAsAllReduce(std::int64_t elements, std::int64_t begin, std::int64_t count,
                    const std::vector<const float *> &gradients, float *sum);

} // namespace planloom::runtime
