// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/message_bar.h"

#include "ui/theme/theme.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>

namespace planloom::ui {

namespace {
constexpr int kInfoMilliseconds = 6000;
constexpr int kPadding = 8; // pixels
} // namespace

MessageBar::MessageBar(QWidget *parent)
    : QFrame(parent),
      m_sign(new QLabel(this)),
      m_text(new QLabel(this)),
      m_close(new QToolButton(this))
{
    setObjectName(QStringLiteral("messageBar"));
    m_text->setSizePolicy(QSizePolicy::Ignored,
                          QSizePolicy::Preferred); // a long message is cut, and whole in the tool tip
    m_text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    m_close->setAutoRaise(true);
    m_close->setToolTip(tr("Close this message"));
    m_close->setAccessibleName(m_close->toolTip());
    auto *layout = new QHBoxLayout(this);
    layout->setContentsMargins(8, 0, 4, 0);
    setFixedHeight(fontMetrics().height() + kPadding);
    setAutoFillBackground(true);
    layout->addWidget(m_sign);
    layout->addWidget(m_text, 1);
    layout->addWidget(m_close);
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &MessageBar::close);
    connect(m_close, &QToolButton::clicked, this, &MessageBar::close);
    hide();
}

void MessageBar::show(MessageLevel level, const QString &text)
{
    m_level = level;
    m_text->setText(text);
    m_text->setToolTip(text);
    m_sign->setText(level == MessageLevel::Error
                        ? QStringLiteral("✖")
                        : (level == MessageLevel::Warning ? QStringLiteral("⚠") : QStringLiteral("ℹ")));
    setAccessibleName(text);
    applyColors();
    setVisible(true);
    m_timer.stop();
    if (level == MessageLevel::Info)
        m_timer.start(kInfoMilliseconds);
    QAccessibleEvent alert(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&alert);
    Q_EMIT shown(true);
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
