// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBrush>
#include <QColor>

#include "engine/trace/trace.h"

#include <array>

namespace planloom::ui {

/// How a kind of work is filled: hue and texture together, so that either alone tells kinds apart.
///   forward plain · backward 45° hatch · recompute dots · weight gradient points · send, receive, all-reduce outlined · optimizer horizontal lines · load plain grey
struct KindStyle {
    QColor fill;    ///< for boxes too narrow for a texture
    QBrush texture; ///< the same hue, with the texture; opaque
    QColor outline; ///< invalid: none
    QColor text;    ///< at least 4.5:1 on fill
};

/// Styles of all kinds, and of idle time, in the theme in force. Made again after a change of theme.
class KindStyles {
public:
    KindStyles();
    [[nodiscard]] const KindStyle &of(trace::Kind kind) const { return m_kinds[static_cast<std::size_t>(kind)]; }
    [[nodiscard]] const QBrush &bubble() const { return m_bubble; }

private:
    std::array<KindStyle, static_cast<std::size_t>(trace::kLastKind) + 1> m_kinds;
    QBrush m_bubble;
};

/// "forward", ... for legends.
QString kindName(trace::Kind kind);

} // namespace planloom::ui
