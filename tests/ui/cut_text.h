// SPDX-License-Identifier: GPL-3.0-or-later
// Texts of widgets that are not to be read as a whole, or hardly at all.
#pragma once

#include "tests/ui/text_recorder.h"
#include "ui/theme/theme.h"
#include "ui/widgets/elided_label.h"

#include <QAbstractButton>
#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QHelpEvent>
#include <QLabel>
#include <QLineEdit>
#include <QScrollBar>
#include <QStringList>
#include <QStyle>
#include <QStyleOptionComboBox>
#include <QToolButton>
#include <QToolTip>
#include <QWidget>

namespace planloom::ui::testing {

inline constexpr double kLeastContrast = 4.5; // WCAG 2, AA, of small text

inline QString placeOf(const QWidget &widget)
{
    QStringList path;
    for (const QWidget *each = &widget; each; each = each->parentWidget())
        path.prepend(QLatin1String(each->metaObject()->className())
                     + (each->objectName().isEmpty() ? QString() : QLatin1Char(' ') + each->objectName()));
    return path.mid(std::max<qsizetype>(0, path.size() - 3)).join(QStringLiteral(" > "));
}

inline int widthOf(const QWidget &widget, const QString &text)
{
    return widget.fontMetrics().size(Qt::TextShowMnemonic, text).width();
}

/// Room for the text of @p widget and what it needs, pixels; equal where there is none, or it breaks lines.
inline std::pair<int, int> roomAndNeed(const QWidget &widget)
{
    if (const auto *label = qobject_cast<const QLabel *>(&widget)) {
        if (qobject_cast<const ElidedLabel *>(label) || label->text().isEmpty())
            return {0, 0};
        if (label->wordWrap())
            return {label->height(), label->heightForWidth(label->width())};
        return {label->width(), label->sizeHint().width()};
    }
    if (const auto *tool = qobject_cast<const QToolButton *>(&widget)) {
        const bool shows = tool->icon().isNull() || tool->toolButtonStyle() != Qt::ToolButtonIconOnly;
        return shows ? std::pair(tool->width(), widthOf(*tool, tool->text())) : std::pair(0, 0);
    }
    if (const auto *button = qobject_cast<const QAbstractButton *>(&widget))
        return {button->width(), button->text().isEmpty() ? 0 : widthOf(*button, button->text())};
    if (const auto *list = qobject_cast<const QComboBox *>(&widget)) {
        QStyleOptionComboBox option;
        option.initFrom(list);
        option.editable = list->isEditable();
        option.frame = true;
        const QRect field = list->style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField);
        return {field.width(), widthOf(*list, list->currentText())};
    }
    if (const auto *field = qobject_cast<const QLineEdit *>(&widget)) {
        const bool own = !qobject_cast<const QComboBox *>(field->parentWidget());
        return own && field->text().isEmpty() ? std::pair(field->width() - 4, widthOf(*field, field->placeholderText()))
                                              : std::pair(0, 0);
    }
    return {0, 0};
}

/// Of the visible widgets in @p whole, those whose text does not fit and is in no tool tip.
inline QStringList cutTexts(const QWidget &whole)
{
    QStringList cut;
    for (const QWidget *widget : whole.findChildren<QWidget *>()) {
        if (!widget->isVisibleTo(&whole) || widget->visibleRegion().isEmpty() || !widget->toolTip().isEmpty())
            continue;
        const auto [room, need] = roomAndNeed(*widget);
        if (need > room + 1)
            cut << QStringLiteral("cut: %1 needs %2 pixels and has %3").arg(placeOf(*widget)).arg(need).arg(room);
    }
    return cut;
}

inline bool hasTip(QWidget &widget, const QPoint &at)
{
    QHelpEvent help(QEvent::ToolTip, at, widget.mapToGlobal(at));
    const bool taken = QApplication::sendEvent(&widget, &help) && help.isAccepted();
    QToolTip::hideText();
    return taken;
}

/// What cannot be read in the picture of @p whole: too little contrast, or elided without a tool tip. Widgets that are
/// not enabled do not count (WCAG 2, 1.4.3).
inline QStringList unreadableTexts(QWidget &whole)
{
    TextRecorder recorder(whole.size(), theme().window);
    {
        QPainter painter(&recorder);
        whole.render(&painter);
    }
    QStringList found;
    for (const PaintedText &painted : recorder.texts()) {
        const QPoint at = painted.place.center().toPoint();
        QWidget *widget = whole.childAt(at);
        // Of a row that is scrolled halfway out of sight, a scroll bar covers the rest.
        if (!widget || !widget->isEnabled() || qobject_cast<QScrollBar *>(widget) || recorder.isCovered(painted))
            continue;
        if (painted.contrast < kLeastContrast)
            found << QStringLiteral("contrast %1 of %2 on %3: \"%4\" of %5")
                         .arg(painted.contrast, 0, 'f', 2)
                         .arg(painted.ink.name(), painted.paper.name(), painted.text, placeOf(*widget));
        const bool own = widget->property("text").toString().contains(painted.text)
            || widget->property("placeholderText").toString().contains(painted.text);
        if (painted.text.contains(QChar(0x2026)) && !own && !hasTip(*widget, widget->mapFrom(&whole, at)))
            found << QStringLiteral("elided without a tool tip: \"%1\" of %2").arg(painted.text, placeOf(*widget));
    }
    found.removeDuplicates();
    return found;
}

} // namespace planloom::ui::testing
