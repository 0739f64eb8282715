// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/guided_tour.h"

#include "ui/theme/theme.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QPainter>
#include <QVBoxLayout>

#include <algorithm>
#include <array>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kCardWidth = 380;
constexpr int kCardGap = 12;
constexpr int kRing = 3; // pixels of the frame around the widget
constexpr int kShade = 130;

/// The card's place beside @p hole: below, above, right, left, else in its lower right corner.
QRect placeOf(QSize card, const QRect &hole, const QRect &window)
{
    if (hole.isEmpty())
        return {QPoint(window.center().x() - card.width() / 2, window.center().y() - card.height() / 2), card};
    const int x = std::clamp(hole.center().x() - card.width() / 2, window.left() + kCardGap,
                             std::max(window.left() + kCardGap, window.right() - card.width() - kCardGap));
    const int y = std::clamp(hole.center().y() - card.height() / 2, window.top() + kCardGap,
                             std::max(window.top() + kCardGap, window.bottom() - card.height() - kCardGap));
    const std::array<QPoint, 4> places{QPoint(x, hole.bottom() + kCardGap),
                                       QPoint(x, hole.top() - card.height() - kCardGap),
                                       QPoint(hole.right() + kCardGap, y),
                                       QPoint(hole.left() - card.width() - kCardGap, y)};
    for (const QPoint &place : places)
        if (window.contains(QRect(place, card)))
            return {place, card};
    return {QPoint(hole.right() - card.width() - kCardGap, hole.bottom() - card.height() - kCardGap), card};
}

} // namespace

GuidedTour::GuidedTour(std::vector<TourStep> steps, QWidget *window)
    : QWidget(window),
      m_steps(std::move(steps)),
      m_card(new QFrame(this)),
      m_count(new QLabel(m_card)),
      m_title(new QLabel(m_card)),
      m_text(new QLabel(m_card)),
      m_skip(new QPushButton(tr("S&kip the tour"), m_card)),
      m_back(new QPushButton(tr("&Back"), m_card)),
      m_next(new QPushButton(m_card))
{
    setAttribute(Qt::WA_DeleteOnClose);
    setAccessibleName(tr("Guided tour"));
    setFocusPolicy(Qt::StrongFocus);
    makeCard();
    connect(m_skip, &QPushButton::clicked, this, &GuidedTour::skip);
    connect(m_back, &QPushButton::clicked, this, &GuidedTour::back);
    connect(m_next, &QPushButton::clicked, this, &GuidedTour::next);
    window->installEventFilter(this);
    showStep(0);
    show();
    raise();
    m_next->setFocus();
}

void GuidedTour::makeCard()
{
    m_card->setAutoFillBackground(true);
    m_card->setFrameShape(QFrame::Box);
    m_card->setFixedWidth(kCardWidth);
    QFont bold = m_title->font();
    bold.setBold(true);
    m_title->setFont(bold);
    for (QLabel *label : {m_title, m_text})
        label->setWordWrap(true);
    auto *buttons = new QHBoxLayout;
    buttons->addWidget(m_count);
    buttons->addStretch(1);
    buttons->addWidget(m_skip);
    buttons->addWidget(m_back);
    buttons->addWidget(m_next);
    auto *layout = new QVBoxLayout(m_card);
    layout->addWidget(m_title);
    layout->addWidget(m_text);
    layout->addLayout(buttons);
}

void GuidedTour::showStep(std::size_t step)
{
    m_step = step;
    const TourStep &shown = m_steps[step];
    if (m_target)
        m_target->removeEventFilter(this);
    m_target = shown.target ? shown.target() : nullptr;
    if (m_target)
        m_target->installEventFilter(this);
    m_title->setText(shown.title);
    m_text->setText(shown.text);
    m_count->setText(tr("%1 of %2").arg(step + 1).arg(m_steps.size()));
    m_back->setEnabled(step > 0);
    m_next->setText(step + 1 < m_steps.size() ? tr("&Next") : tr("&Done"));
    m_next->setDefault(true);
    m_card->setAccessibleName(shown.title);
    m_card->setAccessibleDescription(shown.text);
    place();
}

/// The widget's place is cut out of this one, so that the mouse reaches it.
void GuidedTour::place()
{
    setGeometry(parentWidget()->rect());
    m_hole = {};
    if (m_target && m_target->isVisible())
        m_hole = QRect(m_target->mapTo(parentWidget(), QPoint()), m_target->size()).intersected(rect());
    m_card->ensurePolished();
    m_card->layout()->activate();
    const int height = std::max(m_card->sizeHint().height(), m_card->heightForWidth(kCardWidth));
    m_card->setGeometry(placeOf({kCardWidth, height}, m_hole, rect()));
    QRegion seen(rect());
    seen -= m_hole;
    seen += m_card->geometry();
    setMask(seen);
    raise(); // the step's dock was
    update();
}

void GuidedTour::next()
{
    if (m_step + 1 < m_steps.size())
        return showStep(m_step + 1);
    skip();
}

void GuidedTour::back()
{
    if (m_step > 0)
        showStep(m_step - 1);
}

void GuidedTour::skip()
{
    Q_EMIT finished();
    close();
}

void GuidedTour::paintEvent(QPaintEvent * /*event*/)
{
    QPainter painter(this);
    painter.fillRect(rect(), QColor(0, 0, 0, kShade));
    if (m_hole.isEmpty())
        return;
    painter.setPen(QPen(theme().accent, kRing));
    painter.drawRect(m_hole.adjusted(-kRing / 2 - 1, -kRing / 2 - 1, kRing / 2, kRing / 2)); // around it
}

void GuidedTour::keyPressEvent(QKeyEvent *event)
{
    switch (event->key()) {
    case Qt::Key_Escape: return skip();
    case Qt::Key_Right:
    case Qt::Key_Return:
    case Qt::Key_Enter: return next();
    case Qt::Key_Left: return back();
    default: QWidget::keyPressEvent(event);
    }
}

bool GuidedTour::eventFilter(QObject *watched, QEvent *event)
{
    const bool moves = event->type() == QEvent::Resize || event->type() == QEvent::Move || event->type() == QEvent::Show
        || event->type() == QEvent::Hide;
    if (moves && (watched == parentWidget() || watched == m_target))
        place();
    return QWidget::eventFilter(watched, event);
}

} // namespace planloom::ui
