// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>

namespace planloom::ui {

/// One thing of a cluster: what the mouse points at, what a command is about.
struct ClusterPart {
    enum class Kind {
        None,
        Device, ///< a DeviceId
        Vertex, ///< a switch, network card or network: an index into vertices()
        Link,   ///< an index into links()
        Node,   ///< a NodeId
    };
    Kind kind = Kind::None;
    std::size_t index = 0;
    friend bool operator==(const ClusterPart &, const ClusterPart &) = default;
};

} // namespace planloom::ui
