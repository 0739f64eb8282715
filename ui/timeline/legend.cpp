// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/legend.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QPainter>

#include <algorithm>
#include <limits>

namespace planloom::ui {

namespace {

constexpr int kSwatch = 18;
constexpr int kGap = 14;
constexpr int kMargin = 8;

} // namespace

Legend::Legend(QWidget *parent) : QWidget(parent)
{
    QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Preferred); // a fixed one does not grow to more lines
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
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
    m_placesWidth = -1;
    QStringList texts;
    for (const trace::KindInfo &kind : m_entries)
        texts << tr(kind.work == trace::Work::Communication ? "%1: %2, %3, outlined" : "%1: %2, %3")
                     .arg(qt(kind.legend), qt(kind.hue), qt(kind.texture));
    texts << tr("bubble: cross-hatched");
    setAccessibleDescription(texts.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

QStringList Legend::texts() const
{
    QStringList all;
    for (const trace::KindInfo &kind : m_entries)
        all << qt(kind.legend);
    return all << tr("bubble");
}

/// Of each entry, its swatch and text, within @p width.
const std::vector<QRect> &Legend::places(int width) const
{
    if (width == m_placesWidth)
        return m_places;
    std::vector<QRect> found;
    QPoint at(kMargin, 0);
    for (const QString &text : texts()) {
        const int length = kSwatch + 5 + fontMetrics().horizontalAdvance(text);
        if (at.x() > kMargin && at.x() + length > width)
            at = {kMargin, at.y() + lineHeight()};
        found.emplace_back(at, QSize(length, lineHeight()));
        at.rx() += length + kGap;
    }
    m_placesWidth = width;
    m_places = std::move(found);
    return m_places;
}

QSize Legend::sizeHint() const
{
    const std::vector<QRect> &line = places(std::numeric_limits<int>::max());
    return {line.back().right() + kMargin, lineHeight()};
}

int Legend::heightForWidth(int width) const { return places(width).back().bottom() + 1; }

void Legend::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    paint(painter, width());
}

void Legend::changeEvent(QEvent *event)
{
    m_placesWidth = -1;
    m_styles.reset();
    QWidget::changeEvent(event);
}

void Legend::paint(QPainter &painter, int width) const
{
    const KindStyles &styles = m_styles ? *m_styles : m_styles.emplace();
    const QStringList all = texts();
    const std::vector<QRect> &where = places(width);
    for (std::size_t k = 0; k < where.size(); ++k) {
        const KindStyle *style = k < m_entries.size() ? &styles.of(m_entries[k]) : nullptr;
        const QRect swatch(where[k].x(), where[k].y() + (lineHeight() - 12) / 2, kSwatch, 12);
        painter.fillRect(swatch, style ? style->texture : styles.bubble());
        painter.setPen(style && style->outline.isValid() ? style->outline : theme().border);
        painter.drawRect(swatch.adjusted(0, 0, -1, -1));
        painter.setPen(theme().dimText);
        painter.drawText(where[k].adjusted(kSwatch + 5, 0, 2, 0), Qt::AlignVCenter | Qt::AlignLeft,
                         all[static_cast<qsizetype>(k)]);
    }
}

} // namespace planloom::ui
