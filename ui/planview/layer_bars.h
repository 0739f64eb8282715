// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPoint>
#include <QRect>
#include <QString>
#include <QWidget>

#include "ui/planview/layer_axis.h"
#include "ui/planview/stage_figures.h"
#include "ui/planview/stage_locks.h"
#include "ui/state/selection.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// The layers as columns (height: forward + backward time, by ADMM forward alone; below: parameters, and the bytes that
/// cross in front of the layer), the stages as spans above them with boundaries between. Boundaries are dragged, or
/// moved by the keyboard. Changes nothing itself: the view that owns it reacts to its signals. Keys:
/// resources/docs/studio/keys.md.
class LayerBars final : public QWidget {
    Q_OBJECT

public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;

    explicit LayerBars(QWidget *parent = nullptr);

    void setDocument(const DocumentPtr &document);
    /// Where the stages' seconds are of a simulation (secondsOfStages()), they are there from this on; nullptr: not
    /// yet.
    void setReport(const simulate::Report *report);
    void setSelection(const Selection &selection);
    [[nodiscard]] const LayerAxis &axis() const { return m_axis; }
    [[nodiscard]] int currentBoundary() const { return m_current; } ///< -1: none
    void setCurrentBoundary(int boundary);
    void fit();
    /// Effect of the boundary being dragged; empty while none is.
    [[nodiscard]] QString previewText() const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {240, 112}; }
    [[nodiscard]] QSize sizeHint() const override { return {640, 200}; }

Q_SIGNALS:
    void boundaryMoved(
        int boundary,
        std::size_t layer); ///< dropped before @p layer, or moved there by a key; each stage keeps a layer
    void boundaryDragged(int boundary, std::size_t layer); ///< stands before @p layer now, not dropped yet
    void dragCancelled();                                  ///< it goes back where it was
    void stagePicked(int stage);
    void layerPicked(std::size_t layer);
    void cleared();
    void splitAsked(int stage, std::size_t layer); ///< before @p layer
    void mergeAsked(int stage);                    ///< with the next one
    void stageLockAsked(int stage);
    void boundaryLockAsked(int boundary);
    void previewChanged(const QString &text);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    void leaveEvent(QEvent *event) override;
    bool event(QEvent *event) override;
    bool focusNextPrevChild(bool next) override;

private:
    struct Drag {
        int boundary = 0;
        std::size_t layer = 0;
        bool moved = false;
        std::size_t from = 0;                       ///< the layer that it stood before
        DocumentPtr document;                       ///< that it is dragged in
        std::vector<std::optional<double>> seconds; ///< of its stages
    };

    [[nodiscard]] int stageAt(double pixel) const;
    [[nodiscard]] QString describe(const QPoint &at) const;
    [[nodiscard]] QString stageText(std::size_t stage) const;
    [[nodiscard]] QString secondsOfStage(std::size_t stage) const;
    [[nodiscard]] std::size_t legalLayer(int boundary, std::size_t layer) const;
    [[nodiscard]] bool showsDrag(const plan::Document &document) const;
    void setPreview(std::size_t layer);
    void endDrag();
    void cancelDrag();
    void stepBoundary(int by);
    void moveCurrent(int by);
    bool moveKey(int key, bool far);
    void askMerge();
    void askLock();
    void describeForReaders();

    // layer_bars_paint.cpp
    [[nodiscard]] QRect bandArea() const;
    [[nodiscard]] QRect barArea() const;
    [[nodiscard]] QRect parameterArea() const;
    [[nodiscard]] QRect cutArea() const;
    void paintStages(QPainter &painter) const;
    void paintStage(QPainter &painter, std::size_t stage) const;
    void paintBars(QPainter &painter) const;
    void paintCuts(QPainter &painter) const;
    void paintRuler(QPainter &painter) const;
    void paintGutter(QPainter &painter) const;
    [[nodiscard]] double narrowestStage() const;
    void paintBoundaries(QPainter &painter) const;
    void paintLock(QPainter &painter, double x) const;
    void paintGhost(QPainter &painter) const;
    void paintSelection(QPainter &painter) const;

    DocumentPtr m_document;
    std::vector<LayerFigures> m_figures;
    std::vector<std::optional<double>> m_stageSeconds;
    QStringList m_stageDevices;            ///< the beginning of each stage's
    std::vector<std::size_t> m_boundaries; ///< the layer behind each
    planners::KeptStages m_locks;
    LayerAxis m_axis;
    Selection m_selection;
    int m_current = -1;
    int m_hover = -1; ///< boundary under the mouse
    std::optional<Drag> m_drag;
    bool m_panning = false;
    QPoint m_press;
    QPoint m_last;
};

} // namespace planloom::ui
