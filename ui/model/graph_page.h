// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QSplitter>
#include <QToolButton>
#include <QWidget>

#include "ui/model/color_legend_bar.h"
#include "ui/model/graph_canvas.h"
#include "ui/model/properties_pane.h"

#include <array>
#include <memory>
#include <optional>

namespace planloom::ui {

/// The graph with the legend of its colours and the properties of its current box: beside the graph in a wide view,
/// below it in a high one. In a view without room for both the properties are hidden until they are asked for. What the
/// user chose of colours, properties and sizes is there in the next start (QSettings).
class GraphPage final : public QWidget {
    Q_OBJECT

public:
    using FiguresPtr = std::shared_ptr<const ModelFigures>;

    explicit GraphPage(QWidget *parent = nullptr);

    [[nodiscard]] GraphCanvas *canvas() { return m_canvas; }
    [[nodiscard]] PropertiesPane *properties() { return m_properties; }
    [[nodiscard]] ColorLegendBar *legend() { return m_legend; }
    /// Choice of colours and the button of the properties, for the view that has the page.
    [[nodiscard]] QWidget *controls() { return m_controls; }

    /// @p graph: of the boxes that are shown from now on; null: none.
    void setModel(std::shared_ptr<const graph::Graph> graph);
    void showGraph(const VisibleGraph &visible, const PlainLayout &layout, const std::string &anchor);
    /// Null while they are computed.
    void setFigures(FiguresPtr figures);
    void setColorBy(ColorBy by);
    [[nodiscard]] ColorBy colorBy() const { return static_cast<ColorBy>(m_colorBy->currentData().toInt()); }
    void showProperties(bool shown);
    /// FLOPs and bytes in every box, from the next showGraph() on.
    void showCards(bool shown) { m_canvas->showCards(shown); }

    /// The graph at its own scale with the legend below it.
    [[nodiscard]] QSizeF pictureSize() const;
    void paintPicture(QPainter &painter, const QSize &size);

protected:
    void resizeEvent(QResizeEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    void build();
    void restore();
    void arrange();
    void recolor();
    void describe();
    void describeCurrent();

    GraphCanvas *m_canvas;
    ColorLegendBar *m_legend;
    PropertiesPane *m_properties;
    QSplitter *m_splitter;
    QWidget *m_controls;
    QComboBox *m_colorBy;
    QToolButton *m_button;
    std::array<QByteArray, 2> m_sizes; ///< of the splitter in a high and in a wide view, as the user left them
    std::optional<bool> m_asked;       ///< whether the user wants the properties; nothing: as there is room
    std::shared_ptr<const graph::Graph> m_graph;
    FiguresPtr m_figures;
};

} // namespace planloom::ui
