// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/refusal_tip.h"

#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"

#include <QTimer>
#include <QToolTip>
#include <QWidget>

namespace planloom::ui {

bool editAt(StudioState &state, QWidget *widget, const QRect &place, const std::function<bool()> &edit)
{
    constexpr int kSettleMilliseconds = 30; // a field that closes moves the focus, which would close the tip
    constexpr int kReadMilliseconds = 12'000;
    QString why;
    const auto heard =
        QObject::connect(&state, &StudioState::message, widget, [&why](MessageLevel level, const QString &text) {
            if (level != MessageLevel::Info)
                why = text;
        });
    const bool done = edit();
    QObject::disconnect(heard);
    if (!done && !why.isEmpty())
        QTimer::singleShot(kSettleMilliseconds, widget, [widget, place, why] {
            if (widget->isVisible())
                QToolTip::showText(widget->mapToGlobal(place.bottomLeft()), why, widget, place, kReadMilliseconds);
        });
    return done;
}

QRect cellRect(const DataTable &table, int row, int column)
{
    for (int shown = 0; shown < table.model()->rowCount(); ++shown) {
        const QModelIndex index = table.model()->index(shown, column);
        if (table.sourceRow(index) == row)
            return table.visualRect(index);
    }
    return {};
}

} // namespace planloom::ui
