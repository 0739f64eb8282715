// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPointer>
#include <QPushButton>
#include <QWidget>

#include <functional>
#include <vector>

namespace planloom::ui {

/// A step of the tour: a widget of the window and what can be done there.
struct TourStep {
    QString title;
    QString text;
    std::function<QWidget *()> target; ///< brings it to the front; nullptr: the step has no place
};

/// Shows what a window has, widget by widget: the rest of the window is shaded, a card beside the widget tells of it,
/// and the widget itself can be used. Lies over its parent and deletes itself at the end.
class GuidedTour final : public QWidget {
    Q_OBJECT

public:
    GuidedTour(std::vector<TourStep> steps, QWidget *window);

    [[nodiscard]] int step() const { return static_cast<int>(m_step); }
    [[nodiscard]] QRect hole() const { return m_hole; } ///< where the step's widget is; empty: nowhere
    [[nodiscard]] QWidget *card() { return m_card; }
    [[nodiscard]] QString text() const { return m_text->text(); }
    void next();
    void back();
    void skip(); ///< ends the tour

Q_SIGNALS:
    void finished();

protected:
    void paintEvent(QPaintEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void makeCard();
    void showStep(std::size_t step);
    void place();

    std::vector<TourStep> m_steps;
    std::size_t m_step = 0;
    QPointer<QWidget> m_target;
    QRect m_hole;
    QFrame *m_card;
    QLabel *m_count;
    QLabel *m_title;
    QLabel *m_text;
    QPushButton *m_skip;
    QPushButton *m_back;
    QPushButton *m_next;
};

} // namespace planloom::ui
