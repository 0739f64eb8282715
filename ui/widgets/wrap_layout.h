// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLayout>

#include <vector>

namespace planloom::ui {

/// Widgets from left to right, on as many lines as their width takes: none is cut off, however narrow the window is.
/// A line is as high as its highest widget. Its least width is that of the widest widget.
class WrapLayout final : public QLayout {
    Q_OBJECT

public:
    explicit WrapLayout(QWidget *parent, int spacing = 6);
    ~WrapLayout() override;

    void addItem(QLayoutItem *item) override;
    [[nodiscard]] int count() const override { return static_cast<int>(m_items.size()); }
    [[nodiscard]] QLayoutItem *itemAt(int index) const override;
    QLayoutItem *takeAt(int index) override;
    [[nodiscard]] Qt::Orientations expandingDirections() const override { return {}; }
    [[nodiscard]] bool hasHeightForWidth() const override { return true; }
    [[nodiscard]] int heightForWidth(int width) const override;
    [[nodiscard]] QSize minimumSize() const override;
    [[nodiscard]] QSize sizeHint() const override; ///< on one line
    void setGeometry(const QRect &area) override;

private:
    /// Calls @p place(item, geometry) for each that is shown; returns the height that they take.
    template <typename Place>
    int arrange(const QRect &area, const Place &place) const;

    std::vector<QLayoutItem *> m_items;
};

} // namespace planloom::ui
