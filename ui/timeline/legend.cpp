// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/legend.h"

#include "ui/theme/theme.h"
#include "ui/timeline/texture.h"
#include "ui/widgets/text.h"

#include <QPainter>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr int kSwatch = 18;
constexpr int kGap = 14;

} // namespace

Legend::Legend(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Legend"));
    setKinds(trace::standardKinds());
}

void Legend::setKinds(const std::vector<trace::KindInfo> &kinds)
{
    std::vector<trace::KindInfo> entries;
    for (const trace::KindInfo &kind : kinds) {
        if (!kind.legend.empty() && std::ranges::count(entries, kind.legend, &trace::KindInfo::legend) == 0)
            entries.push_back(kind);
    }
    std::ranges::stable_sort(entries, {}, &trace::KindInfo::work);
    if (entries == m_entries)
        return;
    m_entries = std::move(entries);
    QStringList texts;
    for (const trace::KindInfo &kind : m_entries)
        texts << tr(kind.work == trace::Work::Communication ? "%1: %2, %3, outlined" : "%1: %2, %3")
                     .arg(qt(kind.legend), qt(kind.hue), qt(kind.texture));
    texts << tr("bubble: cross-hatched");
    setAccessibleDescription(texts.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

QSize Legend::sizeHint() const
{
    int width = 8;
    for (const trace::KindInfo &kind : m_entries)
        width += kSwatch + 5 + fontMetrics().horizontalAdvance(qt(kind.legend)) + kGap;
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
    for (const trace::KindInfo &kind : m_entries)
        entry(styles.of(kind).texture, styles.of(kind).outline, qt(kind.legend));
    entry(styles.bubble(), {}, tr("bubble"));
}

} // namespace planloom::ui
