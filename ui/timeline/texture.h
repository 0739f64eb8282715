// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBrush>
#include <QColor>

#include "engine/trace/trace.h"

#include <map>
#include <string>
#include <tuple>

namespace planloom::ui {

/// How a kind of task is filled: hue and texture together, so that either alone tells kinds apart. Communication is
/// outlined.
struct KindStyle {
    QColor fill;    ///< for boxes too narrow for a texture
    QBrush texture; ///< the same hue, with the texture; opaque
    QColor outline; ///< invalid: none
    QColor text;    ///< at least 4.5:1 on fill
};

/// Styles of kinds, made when first asked for, and of idle time, in the theme in force. Made again after a change of
/// theme.
class KindStyles {
public:
    KindStyles();
    /// By hue, texture and work. The reference stays valid as long as this. Cost: some string comparisons.
    [[nodiscard]] const KindStyle &of(const trace::KindInfo &kind) const;
    [[nodiscard]] const QBrush &bubble() const { return m_bubble; }

private:
    using Key = std::tuple<std::string, std::string, bool>; ///< hue, texture, outlined
    mutable std::map<Key, KindStyle> m_styles;
    QBrush m_bubble;
};

} // namespace planloom::ui
