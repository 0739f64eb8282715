// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/message_bar.h"

#include "ui/theme/theme.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>
#include <QMouseEvent>
#include <QScreen>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

namespace {
constexpr int kInfoMilliseconds = 6000;
constexpr int kPadding = 8; // pixels
constexpr int kBoxWidth = 640;
} // namespace

MessageBar::MessageBar(QWidget *parent)
    : QFrame(parent),
      m_sign(new QLabel(this)),
      m_text(new QLabel(this)),
      m_more(new QToolButton(this)),
      m_close(new QToolButton(this))
{
    setObjectName(QStringLiteral("messageBar"));
    setAccessibleName(tr("No message")); // until there is one
    m_text->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred); // a long message is cut
    m_text->setTextFormat(Qt::PlainText);
    m_text->installEventFilter(this);
    m_more->setAutoRaise(true);
    m_more->setText(tr("Whole text"));
    m_more->setToolTip(tr("Show the whole message"));
    m_more->setAccessibleName(m_more->toolTip());
    m_more->hide();
    m_close->setAutoRaise(true);
    m_close->setToolTip(tr("Close this message"));
    m_close->setAccessibleName(m_close->toolTip());
    auto *layout = new QHBoxLayout(this);
    layout->setContentsMargins(8, 0, 4, 0);
    setFixedHeight(fontMetrics().height() + kPadding);
    setAutoFillBackground(true);
    layout->addWidget(m_sign);
    layout->addWidget(m_text, 1);
    layout->addWidget(m_more);
    layout->addWidget(m_close);
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &MessageBar::close);
    connect(m_close, &QToolButton::clicked, this, &MessageBar::close);
    connect(m_more, &QToolButton::clicked, this, &MessageBar::showWhole);
    hide();
}

void MessageBar::show(MessageLevel level, const QString &text)
{
    m_level = level;
    m_whole = text;
    m_text->setToolTip(text);
    m_sign->setText(level == MessageLevel::Error
                        ? QStringLiteral("✖")
                        : (level == MessageLevel::Warning ? QStringLiteral("⚠") : QStringLiteral("ℹ")));
    setAccessibleName(text);
    applyColors();
    setVisible(true);
    cut();
    m_timer.stop();
    if (level == MessageLevel::Info)
        m_timer.start(kInfoMilliseconds);
    QAccessibleEvent alert(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&alert);
    Q_EMIT shown(true);
}

/// The text as far as there is room; a line break, which a line cannot show, counts as the end of the room.
void MessageBar::cut()
{
    const QString line = m_whole.section(QLatin1Char('\n'), 0, 0);
    const auto fits = [&](int room) {
        return line == m_whole && m_text->fontMetrics().horizontalAdvance(line) <= room;
    };
    const int others = m_more->isHidden() ? 0 : m_more->sizeHint().width() + layout()->spacing();
    m_more->setVisible(!fits(m_text->width() + others));
    layout()->activate(); // the label has what the button leaves
    const QString shown = line == m_whole ? line : line + QStringLiteral(" …");
    m_text->setText(m_text->fontMetrics().elidedText(shown, Qt::ElideRight, m_text->width()));
    m_text->setCursor(m_more->isHidden() ? Qt::ArrowCursor : Qt::PointingHandCursor);
}

void MessageBar::showWhole()
{
    auto *box = new QFrame(this, Qt::Popup);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("messageBar")); // in the colours of the bar
    auto *text = new QLabel(m_whole, box);
    text->setTextFormat(Qt::PlainText);
    text->setWordWrap(true);
    text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    text->setAccessibleName(m_whole);
    (new QVBoxLayout(box))->addWidget(text);
    box->setFixedWidth(std::min(kBoxWidth, screen()->availableGeometry().width() - 2 * kPadding));
    box->adjustSize();
    const QPoint above = mapToGlobal(QPoint(0, -box->height()));
    box->move(above.x(), std::max(above.y(), screen()->availableGeometry().top()));
    box->show();
    text->setFocus();
}

void MessageBar::resizeEvent(QResizeEvent *event)
{
    QFrame::resizeEvent(event);
    cut();
}

bool MessageBar::eventFilter(QObject *watched, QEvent *event)
{
    if (watched == m_text && event->type() == QEvent::MouseButtonRelease && !m_more->isHidden()
        && static_cast<QMouseEvent *>(event)->button() == Qt::LeftButton)
        showWhole();
    return QFrame::eventFilter(watched, event);
}

void MessageBar::withdraw(const QString &text)
{
    if (text == m_whole)
        close();
}

void MessageBar::close()
{
    setVisible(false);
    Q_EMIT shown(false);
}

void MessageBar::applyColors()
{
    m_applying = true;
    const Theme &t = theme();
    const QColor ink =
        m_level == MessageLevel::Error ? t.error : (m_level == MessageLevel::Warning ? t.warning : t.info);
    const QColor base =
        m_level == MessageLevel::Error ? t.errorBase : (m_level == MessageLevel::Warning ? t.warningBase : t.infoBase);
    setStyleSheet(QStringLiteral(
                      "#messageBar { background: %1; border: 1px solid %2; border-radius: 4px; } QLabel { color: %2; }")
                      .arg(base.name(), ink.name()));
    m_close->setIcon(icon(QStringLiteral("close")));
    m_applying = false;
}

void MessageBar::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && !m_applying)
        applyColors();
    QFrame::changeEvent(event);
}

} // namespace planloom::ui
