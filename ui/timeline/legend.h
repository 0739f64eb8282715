// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

namespace planloom::ui {

/// What each hue and texture stands for.
class Legend final : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent *event) override;
};

} // namespace planloom::ui
