// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/legend.h"

#include "ui/theme/theme.h"
#include "ui/timeline/texture.h"

#include <QPainter>

#include <array>

namespace planloom::ui {

namespace {

constexpr int kSwatch = 18;
constexpr int kGap = 14;
constexpr std::array kShown{trace::Kind::Forward, trace::Kind::Backward,  trace::Kind::WeightGradient, trace::Kind::Recompute,
                            trace::Kind::Send,    trace::Kind::AllReduce, trace::Kind::Optimizer,      trace::Kind::Load};

QString nameOf(trace::Kind kind)
{
    if (kind == trace::Kind::AllReduce)
        return QObject::tr("collectives");
    return kind == trace::Kind::Send ? QObject::tr("send, receive") : kindName(kind);
}

} // namespace

Legend::Legend(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Legend"));
    setAccessibleDescription(tr("Forward plain blue, backward hatched orange, weight gradient in points on orange, recompute dotted yellow, send and receive outlined green, "
                                "collectives outlined purple, optimizer lined vermilion, load grey, bubble cross-hatched"));
}

QSize Legend::sizeHint() const
{
    int width = 8;
    for (const auto kind : kShown)
        width += kSwatch + 5 + fontMetrics().horizontalAdvance(nameOf(kind)) + kGap;
    width += kSwatch + 5 + fontMetrics().horizontalAdvance(tr("bubble")) + kGap;
    return {width, fontMetrics().height() + 8};
}

void Legend::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    const KindStyles styles;
    int x = 8;
    const auto entry = [&](const QBrush &brush, const QColor &outline, const QString &text) {
        const QRect swatch(x, (height() - 12) / 2, kSwatch, 12);
        painter.fillRect(swatch, brush);
        painter.setPen(outline.isValid() ? outline : theme().border);
        painter.drawRect(swatch.adjusted(0, 0, -1, -1));
        painter.setPen(theme().dimText);
        const int length = fontMetrics().horizontalAdvance(text);
        painter.drawText(QRect(swatch.right() + 6, 0, length + 2, height()), Qt::AlignVCenter | Qt::AlignLeft, text);
        x = swatch.right() + 6 + length + kGap;
    };
    for (const auto kind : kShown)
        entry(styles.of(kind).texture, styles.of(kind).outline, nameOf(kind));
    entry(styles.bubble(), {}, tr("bubble"));
}

} // namespace planloom::ui
