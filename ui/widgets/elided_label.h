// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

namespace planloom::ui {

/// One line that ends in "…" where there is no room, and is then whole in the tool tip. Needs no width.
class ElidedLabel final : public QLabel {
    Q_OBJECT

public:
    explicit ElidedLabel(QWidget *parent = nullptr);
    [[nodiscard]] QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;
};

} // namespace planloom::ui
