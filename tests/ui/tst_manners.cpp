// SPDX-License-Identifier: GPL-3.0-or-later
// What every view shares: keys that can be chosen, layouts, links to a view, the tour, names for screen readers.
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/planview/layer_bars.h"
#include "ui/shell/guided_tour.h"
#include "ui/shell/link_dialog.h"
#include "ui/shell/main_window.h"
#include "ui/shell/preferences_dialog.h"
#include "ui/shell/resources.h"
#include "ui/shell/start_page.h"
#include "ui/theme/theme.h"
#include "ui/timeline/timeline_view.h"

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QAbstractSpinBox>
#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QDir>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QFile>
#include <QImage>
#include <QLineEdit>
#include <QMenuBar>
#include <QPainter>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSet>
#include <QSettings>
#include <QSlider>
#include <QTabBar>
#include <QTabWidget>
#include <QTest>
#include <QTextEdit>

#include <algorithm>

using namespace planloom;
using namespace planloom::ui;

class TestManners : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();
    void everyCommandHasAName();
    void keysOfTheProgramDoNotMeet();
    void aKeyIsChosenAndKept();
    void conflictsAreSaid();
    void keysAreReset();
    void viewsHaveKeysOfTheirOwn();
    void layoutsArrangeTheDocks_data();
    void layoutsArrangeTheDocks();
    void layoutsAreRemembered();
    void linksAreReadBack_data();
    void linksAreReadBack();
    void wrongLinksAreRefused_data();
    void wrongLinksAreRefused();
    void aLinkRestoresTheView();
    void aLinkIsPasted();
    void theTourIsGoneThrough();
    void theTourIsSkipped();
    void unnamedWidgetsAreFound();
    void screenReadersHearEveryWidget();

private:
    [[nodiscard]] QAction *command(const QString &id) const;
    [[nodiscard]] TimelineViewport &viewport() const;
    /// A picture for people, where PLANLOOM_PICTURES names a folder.
    static void keep(QWidget *widget, const QString &name);
    std::unique_ptr<testing::OwnSettings> m_settings;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MainWindow> m_window;
};

void TestManners::initTestCase()
{
    m_settings = std::make_unique<testing::OwnSettings>();
    applyTheme(*qApp, ThemeKind::Light);
}

void TestManners::init()
{
    QSettings().clear();
    m_state = std::make_unique<StudioState>();
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    m_window->resize(1500, 950);
    m_window->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));
    m_window->resetLayout();
}

void TestManners::cleanup()
{
    m_window.reset();
    m_state.reset();
}

QAction *TestManners::command(const QString &id) const
{
    for (const NamedAction &each : m_window->namedActions())
        if (each.id() == id)
            return each.action;
    return nullptr;
}

TimelineViewport &TestManners::viewport() const
{
    return static_cast<TimelineView *>(m_window->view(QStringLiteral("Timeline")))->canvas()->viewport();
}

void TestManners::keep(QWidget *widget, const QString &name)
{
    const QString folder = qEnvironmentVariable("PLANLOOM_PICTURES");
    if (folder.isEmpty())
        return;
    QCoreApplication::processEvents();
    widget->grab().save(folder + QLatin1Char('/') + name + QStringLiteral(".png"));
}

// --- keys

void TestManners::everyCommandHasAName()
{
    QSet<QString> names;
    for (const NamedAction &each : m_window->namedActions()) {
        QVERIFY2(!names.contains(each.id()), qPrintable(each.id()));
        names.insert(each.id());
        static const QRegularExpression form(QStringLiteral("^[a-z0-9]+(\\.[a-z0-9-]+)+$"));
        QVERIFY2(form.match(each.id()).hasMatch(), qPrintable(each.id()));
    }
    QVERIFY(names.size() > 90);
    // What stands in a menu is there; entries made of files and models are not commands.
    int unnamed = 0;
    for (const QAction *top : m_window->menuBar()->actions())
        for (const QAction *each : top->menu()->actions())
            if (!each->menu() && !each->isSeparator() && each->objectName().isEmpty())
                ++unnamed;
    QCOMPARE(unnamed, 0);
    for (const char *name : {"file.open", "plan.find", "view.timeline", "edit.undo", "window.layout-watch",
                             "timeline.zoom-in", "plan.split-the-stage-in-two-of-equal-time"})
        QVERIFY2(names.contains(QLatin1String(name)), name);
}

void TestManners::keysOfTheProgramDoNotMeet()
{
    const KeyMap &map = m_window->keyMap();
    for (const NamedAction &each : map.actions())
        QCOMPARE(map.conflicts(map.programKeys(), each.id()), QStringList());
}

void TestManners::aKeyIsChosenAndKept()
{
    QVERIFY(testing::loadSample(*m_state));
    {
        PreferencesDialog dialog(m_window->keyMap());
        dialog.show();
        QVERIFY(dialog.keyPage()->select(QStringLiteral("edit.clear-selection")));
        auto *edit = dialog.findChild<QKeySequenceEdit *>();
        edit->setFocus();
        QTest::keyClick(edit, Qt::Key_J, Qt::ControlModifier);
        keep(&dialog, QStringLiteral("preferences"));
        QTest::mouseClick(dialog.findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Ok), Qt::LeftButton);
        QCOMPARE(dialog.result(), static_cast<int>(QDialog::Accepted));
    }
    QCOMPARE(command(QStringLiteral("edit.clear-selection"))->shortcut(), QKeySequence(Qt::CTRL | Qt::Key_J));
    m_state->selectStage(StageId(1));
    m_window->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    QTest::keyClick(m_window.get(), Qt::Key_J, Qt::ControlModifier);
    QVERIFY(!m_state->selection().stage.valid());

    StudioState state;
    MainWindow other(&state);
    other.setAsks(false);
    QCOMPARE(keysText(other.keyMap().keys()[QStringLiteral("edit.clear-selection")]), QStringLiteral("Ctrl+J"));
    QVERIFY(other.keyMap().programKeys()[QStringLiteral("edit.clear-selection")].isEmpty());
    QCOMPARE(QSettings().allKeys().filter(QStringLiteral("keys/")).size(), 1); // only what differs is saved
}

void TestManners::conflictsAreSaid()
{
    PreferencesDialog dialog(m_window->keyMap());
    dialog.show();
    KeyPage *page = dialog.keyPage();
    QPushButton *ok = dialog.findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Ok);
    QVERIFY(ok->isEnabled());
    QVERIFY(page->select(QStringLiteral("timeline.zoom-in")));
    page->setKeys({QKeySequence(Qt::CTRL | Qt::Key_S)});
    QVERIFY2(page->warning().contains(QStringLiteral("Ctrl+S")) && page->warning().contains(QStringLiteral("Save plan"))
                 && page->warning().contains(QStringLiteral("Zoom in")),
             qPrintable(page->warning()));
    QVERIFY(!ok->isEnabled());
    keep(&dialog, QStringLiteral("preferences-conflict"));
    // A key that begins another one's would swallow it.
    page->setKeys({QKeySequence(QStringLiteral("Ctrl+K, Ctrl+C"))});
    QVERIFY(page->warning().isEmpty() && ok->isEnabled());
    QVERIFY(page->select(QStringLiteral("timeline.zoom-out")));
    page->setKeys({QKeySequence(QStringLiteral("Ctrl+K"))});
    QVERIFY(!page->warning().isEmpty() && !ok->isEnabled());
    page->setKeys({});
    QVERIFY(page->warning().isEmpty() && ok->isEnabled());
    dialog.reject(); // nothing is in force
    QVERIFY(command(QStringLiteral("timeline.zoom-in"))->shortcut().isEmpty());
}

void TestManners::keysAreReset()
{
    KeyMap &map = m_window->keyMap();
    KeyPage page(map);
    QVERIFY(page.select(QStringLiteral("edit.redo")));
    const auto usual = map.programKeys()[QStringLiteral("edit.redo")];
    QCOMPARE(usual.size(), 2);
    page.setKeys({QKeySequence(Qt::Key_F9)});
    page.apply();
    QCOMPARE(command(QStringLiteral("edit.redo"))->shortcuts(), QList{QKeySequence(Qt::Key_F9)});
    page.reset();
    page.apply();
    QCOMPARE(command(QStringLiteral("edit.redo"))->shortcuts(), usual);
    page.setKeys({});
    page.resetAll();
    page.apply();
    QCOMPARE(map.keys(), map.programKeys());
    QVERIFY(QSettings().allKeys().filter(QStringLiteral("keys/")).isEmpty());
}

/// Ctrl+F is the model's; another view may have it, too, the window may not.
void TestManners::viewsHaveKeysOfTheirOwn()
{
    const KeyMap &map = m_window->keyMap();
    Keys keys = map.programKeys();
    keys[QStringLiteral("cluster.collapse-the-nodes-of-the-map-or-show-their-devices")] = {QKeySequence::Find};
    QCOMPARE(map.conflicts(keys, QStringLiteral("model.find-in-the-model")), QStringList());
    keys[QStringLiteral("file.open")] = {QKeySequence(QKeySequence::Find)};
    QCOMPARE(map.conflicts(keys, QStringLiteral("model.find-in-the-model")).size(), 1);
}

// --- layouts

void TestManners::layoutsArrangeTheDocks_data()
{
    QTest::addColumn<QString>("name");
    QTest::addColumn<QStringList>("front");
    QTest::newRow("plan") << "plan" << QStringList{"Model", "Plan", "Timeline", "Memory"};
    QTest::newRow("watch") << "watch" << QStringList{"Timeline", "Memory", "Run", "Runs"};
    QTest::newRow("compare") << "compare" << QStringList{"Plan", "Timeline", "Runs", "Compare"};
}

void TestManners::layoutsArrangeTheDocks()
{
    QFETCH(QString, name);
    QFETCH(QStringList, front);
    QVERIFY(testing::loadSample(*m_state));
    command(QStringLiteral("window.layout-") + name)->trigger();
    QCoreApplication::processEvents();
    QCOMPARE(layoutName(m_window->currentLayout()), name);
    QVERIFY(command(QStringLiteral("window.layout-") + name)->isChecked());
    QStringList seen;
    for (const QDockWidget *dock : m_window->docks()) {
        QVERIFY(!dock->isHidden() && !dock->isFloating());
        if (!dock->visibleRegion().isEmpty())
            seen << dock->objectName();
    }
    seen.sort();
    front.sort();
    QCOMPARE(seen, front);
    keep(m_window.get(), QStringLiteral("layout-") + name);
}

void TestManners::layoutsAreRemembered()
{
    const auto memory = [&] { return m_window->view(QStringLiteral("Memory"))->parentWidget(); };
    m_window->useLayout(Layout::Watch);
    static_cast<QDockWidget *>(memory())->hide();
    m_window->useLayout(Layout::Compare);
    QVERIFY(!memory()->isHidden());
    m_window->useLayout(Layout::Watch);
    QVERIFY(memory()->isHidden());
    m_window->saveSession();
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    QVERIFY(m_window->restoreLayout());
    QCOMPARE(m_window->currentLayout(), Layout::Watch);
    QVERIFY(memory()->isHidden());
    m_window->useLayout(Layout::Plan);
    QVERIFY(!memory()->isHidden());
    m_window->useLayout(Layout::Watch);
    m_window->resetLayout();
    QVERIFY(!memory()->isHidden());
    QCOMPARE(m_window->currentLayout(), Layout::Watch);
}

// --- links

void TestManners::linksAreReadBack_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QStringList>("files");
    QTest::addColumn<QString>("stage");
    QTest::newRow("a file") << "planloom:/data/plan.json?view=timeline&stage=1" << QStringList{"/data/plan.json"}
                            << "1";
    QTest::newRow("three slashes") << "planloom:///data/plan.json?stage=0" << QStringList{"/data/plan.json"} << "0";
    QTest::newRow("two files") << "planloom:zoo:gpt2?file=preset:h100-8&stage=2"
                               << QStringList{"zoo:gpt2", "preset:h100-8"} << "2";
    QTest::newRow("blanks") << "planloom:/my%20data/a%23b.json" << QStringList{"/my data/a#b.json"} << "";
    QTest::newRow("command line") << "plan.json#stage=3&zoom=0-100" << QStringList{"plan.json"} << "3";
    QTest::newRow("what is open") << "planloom:?stage=3" << QStringList() << "3";
}

void TestManners::linksAreReadBack()
{
    QFETCH(QString, text);
    QFETCH(QStringList, files);
    QFETCH(QString, stage);
    QVERIFY(isLink(text));
    const auto link = readLink(text);
    QVERIFY2(link, link ? "" : link.error().text().c_str());
    QCOMPARE(link->files, files);
    QCOMPARE(fieldOf(link->fields, "stage"), stage);
    const auto again = readLink(linkText(*link));
    QVERIFY(again);
    QCOMPARE(again->files, files);
    QVERIFY(again->fields == link->fields);
}

void TestManners::wrongLinksAreRefused_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("said");
    QTest::newRow("key") << "planloom:/p.json?colour=red"
                         << "there is no key 'colour'; use one of layout";
    QTest::newRow("number") << "planloom:/p.json?stage=x"
                            << "stage=x: give a number of a stage";
    QTest::newRow("range") << "planloom:/p.json?zoom=9-1"
                           << "zoom=9-1: give BEGIN-END";
    QTest::newRow("no pair") << "planloom:/p.json?timeline"
                             << "is not KEY=VALUE";
    QTest::newRow("layout") << "planloom:/p.json?layout=mine"
                            << "plan, watch or compare";
    QTest::newRow("empty") << "planloom:"
                           << "the link is empty";
}

void TestManners::wrongLinksAreRefused()
{
    QFETCH(QString, text);
    QFETCH(QString, said);
    const auto link = readLink(text);
    QVERIFY(!link);
    QVERIFY2(QString::fromStdString(link.error().text()).contains(said), link.error().text().c_str());
    QVERIFY(!m_window->open({text}));
    QCOMPARE(m_window->messageBar()->level(), MessageLevel::Error);
}

void TestManners::aLinkRestoresTheView()
{
    QVERIFY(testing::loadSample(*m_state));
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("a plan#1.json"));
    m_window->copyLink();
    QVERIFY2(m_window->messageBar()->text().contains(QStringLiteral("no file has")),
             qPrintable(m_window->messageBar()->text()));
    QVERIFY(m_state->savePlan(path));

    m_window->useLayout(Layout::Watch);
    m_state->selectTask("s1.F.m0", m_state->cluster()->devices()[1].id);
    Selection selection = m_state->selection();
    selection.time = TimeRange{1000, 50'000};
    m_state->select(selection);
    auto *tabs = m_window->view(QStringLiteral("Plan"))->findChild<QTabWidget *>();
    viewport().showRange(2000, 90'000);
    command(QStringLiteral("view.plan"))->trigger();
    tabs->setCurrentIndex(1);
    const Selection selected = m_state->selection();
    const TimeAxis shown = viewport().axis();
    command(QStringLiteral("view.copy-link"))->trigger();
    const QString link = QApplication::clipboard()->text();
    QVERIFY2(link.startsWith(QStringLiteral("planloom:/")) && link.contains(QStringLiteral("view=plan")),
             qPrintable(link));
    QVERIFY2(m_window->messageBar()->text().startsWith(QStringLiteral("Copied a link to this view")),
             qPrintable(m_window->messageBar()->text()));

    m_window.reset();
    m_state = std::make_unique<StudioState>();
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    m_window->resize(1500, 950);
    m_window->show();
    QVERIFY(m_window->open({link}));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->selection() == selected, 20'000);
    QCOMPARE(m_state->planPath(), path);
    QCOMPARE(m_window->currentLayout(), Layout::Watch);
    QCOMPARE(fieldOf(m_window->viewFields(), "view"), QStringLiteral("plan"));
    QCOMPARE(fieldOf(m_window->viewFields(), "tab"), QStringLiteral("1"));
    QVERIFY2(qAbs(viewport().axis().begin() - shown.begin()) < 2 && qAbs(viewport().axis().end() - shown.end()) < 2,
             qPrintable(QStringLiteral("%1-%2").arg(viewport().axis().begin()).arg(viewport().axis().end())));

    // Of what is open already nothing is read again: an edit stays.
    QVERIFY(m_state->editPlan(QStringLiteral("recompute"),
                              [](plan::Plan &plan) { plan.stages[1].recompute = plan::Recompute::Full; }));
    m_state->clearSelection();
    QVERIFY(m_window->openLink(link));
    QTRY_VERIFY_WITH_TIMEOUT(m_state->selection() == selected, 20'000);
    QVERIFY(m_state->undoStack()->canUndo());
    // However its file is written.
    m_state->clearSelection();
    QVERIFY(m_window->openLink(QDir::current().relativeFilePath(path) + QStringLiteral("#stage=1")));
    QTRY_COMPARE_WITH_TIMEOUT(m_state->selection().stage, StageId(1), 20'000);
    QVERIFY(m_state->undoStack()->canUndo());
    QVERIFY(m_window->openLink(QStringLiteral("planloom:?device=none")));
    QTRY_COMPARE(m_window->messageBar()->level(), MessageLevel::Error);
    QVERIFY(m_window->messageBar()->text().contains(QStringLiteral("'none'")));
}

void TestManners::aLinkIsPasted()
{
    QVERIFY(testing::loadSample(*m_state));
    QApplication::clipboard()->setText(QStringLiteral("planloom:?stage=2&zoom=all"));
    QTest::keyClick(m_window.get(), Qt::Key_L, Qt::ControlModifier);
    auto *dialog = m_window->findChild<LinkDialog *>();
    QVERIFY(dialog);
    QCOMPARE(dialog->link(), QStringLiteral("planloom:?stage=2&zoom=all"));
    QVERIFY(dialog->problem().isEmpty());
    auto *ok = dialog->findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Open);
    dialog->setLink(QStringLiteral("planloom:?stage=two"));
    QVERIFY(!ok->isEnabled() && dialog->problem().contains(QStringLiteral("stage=two")));
    keep(dialog, QStringLiteral("link"));
    dialog->setLink(QStringLiteral("planloom:?stage=2"));
    QTest::mouseClick(ok, Qt::LeftButton);
    QTRY_COMPARE(m_state->selection().stage, StageId(2));
}

// --- the tour

void TestManners::theTourIsGoneThrough()
{
    auto *page = m_window->findChild<StartPage *>();
    const auto buttons = page->findChildren<QPushButton *>();
    const auto tourButton = std::find_if(buttons.begin(), buttons.end(), [](const QPushButton *each) {
        return each->text().contains(QStringLiteral("tour"));
    });
    QVERIFY(tourButton != buttons.end());
    QTRY_VERIFY((*tourButton)->isVisible());
    (*tourButton)->click(); // it moves while the window is laid out
    QTRY_VERIFY_WITH_TIMEOUT(m_window->findChild<GuidedTour *>(), 20'000);
    QVERIFY(m_state->document()); // the sample
    auto *tour = m_window->findChild<GuidedTour *>();
    for (int step = 0; step < 5; ++step) {
        QCOMPARE(tour->step(), step);
        QVERIFY(!tour->hole().isEmpty());
        QVERIFY(tour->rect().contains(tour->hole()));
        QVERIFY(tour->rect().contains(tour->card()->geometry()));
        // The widget is not covered: the mouse reaches it.
        const QPoint middle = tour->hole().center();
        if (!tour->card()->geometry().contains(middle))
            QVERIFY(!tour->mask().contains(middle));
        QVERIFY(tour->mask().contains(tour->card()->geometry().center()));
        for (const QDockWidget *dock : m_window->docks()) { // the rest is covered
            const QPoint at = dock->mapTo(m_window.get(), dock->rect().center());
            if (!dock->visibleRegion().isEmpty() && !tour->hole().contains(at)
                && !tour->card()->geometry().contains(at))
                QCOMPARE(m_window->childAt(at), tour);
        }
        for (const QLabel *label : tour->card()->findChildren<QLabel *>())
            QVERIFY2(label->height() >= label->heightForWidth(label->width()), qPrintable(label->text()));
        keep(m_window.get(), QStringLiteral("tour-%1").arg(step + 1));
        if (step == 2) {
            tour->back();
            QCOMPARE(tour->step(), 1);
            tour->next();
        }
        QTest::keyClick(tour, Qt::Key_Return);
    }
    QTRY_VERIFY(!m_window->findChild<GuidedTour *>());
}

void TestManners::theTourIsSkipped()
{
    QVERIFY(testing::loadSample(*m_state));
    const auto document = m_state->document();
    command(QStringLiteral("help.tour"))->trigger();
    QTRY_VERIFY(m_window->findChild<GuidedTour *>());
    auto *tour = m_window->findChild<GuidedTour *>();
    m_window->resize(1100, 700);
    QTRY_COMPARE(tour->size(), m_window->size());
    QTest::keyClick(tour, Qt::Key_Escape);
    QTRY_VERIFY(!m_window->findChild<GuidedTour *>());
    QCOMPARE(m_state->document(), document); // what is open is toured, not the sample
}

// --- names for screen readers

namespace {

/// True if the widget draws something of its own: it leaves traces where neither its background nor a child is drawn.
bool paintsItself(QWidget *widget)
{
    if (!QByteArray(widget->metaObject()->className()).startsWith("planloom::"))
        return false;
    QImage image(widget->size().expandedTo({40, 40}), QImage::Format_ARGB32);
    image.fill(Qt::transparent);
    widget->render(&image, {}, {}, QWidget::RenderFlags());
    for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x)
            if (qAlpha(image.pixel(x, y)) != 0)
                return true;
    return false;
}

bool isInput(const QWidget *widget)
{
    const bool isPart =
        QByteArray(widget->parentWidget() ? widget->parentWidget()->metaObject()->className() : "").contains("QSpinBox")
        || qobject_cast<const QAbstractSpinBox *>(widget->parentWidget())
        || qobject_cast<const QComboBox *>(widget->parentWidget())
        || widget->objectName().startsWith(QStringLiteral("qt_"));
    return !isPart
        && (qobject_cast<const QAbstractButton *>(widget) || qobject_cast<const QComboBox *>(widget)
            || qobject_cast<const QLineEdit *>(widget) || qobject_cast<const QAbstractSpinBox *>(widget)
            || qobject_cast<const QAbstractSlider *>(widget) || qobject_cast<const QAbstractItemView *>(widget)
            || qobject_cast<const QPlainTextEdit *>(widget) || qobject_cast<const QTextEdit *>(widget));
}

/// Parts that Qt makes and names; and a veil, which says nothing.
bool isOfQt(const QWidget *widget)
{
    const QByteArray name = widget->metaObject()->className();
    return name.startsWith("QHeaderView") || name.startsWith("QTableCornerButton") || name.startsWith("QScrollBar")
        || name.startsWith("QComboBoxListView") || name.startsWith("QComboBoxPrivate") || name == "QToolBarExtension"
        || name == "QLineEditIconButton" || name == "planloom::ui::Veil" || name == "CloseButton"
        || name == "QDockWidgetTitleButton" || widget->inherits("QTabBar")
        || qobject_cast<const QTabBar *>(widget->parentWidget()) || qobject_cast<const QScrollBar *>(widget);
}

/// Widgets of @p whole that a screen reader cannot name: what is drawn by hand, and inputs.
QStringList unnamed(QWidget &whole)
{
    QStringList found;
    for (QWidget *widget : whole.findChildren<QWidget *>()) {
        const auto *button = qobject_cast<QAbstractButton *>(widget);
        const bool hasNoTextYet = button && button->isHidden() && button->text().isEmpty(); // it is shown with one
        if (isOfQt(widget) || hasNoTextYet || !(isInput(widget) || paintsItself(widget)))
            continue;
        QAccessibleInterface *reader = QAccessible::queryAccessibleInterface(widget);
        if (reader && !reader->text(QAccessible::Name).isEmpty())
            continue;
        QStringList path;
        for (const QWidget *each = widget; each && path.size() < 4; each = each->parentWidget())
            path.prepend(QString::fromLatin1(each->metaObject()->className())
                         + (each->objectName().isEmpty() ? QString() : QLatin1Char('#') + each->objectName()));
        found << path.join(QStringLiteral(" > "));
    }
    found.removeDuplicates();
    return found;
}

/// Pictures of @p whole that are seen and do not say what they show.
QStringList undescribed(const QWidget &whole)
{
    QStringList found;
    for (QWidget *widget : whole.findChildren<QWidget *>())
        if (widget->isVisible() && !widget->layout() && !qobject_cast<QLabel *>(widget) && !isInput(widget)
            && !isOfQt(widget) && paintsItself(widget) && widget->accessibleDescription().isEmpty())
            found << QString::fromLatin1(widget->metaObject()->className());
    return found;
}

} // namespace

void TestManners::unnamedWidgetsAreFound()
{
    QWidget page;
    auto *bars = new LayerBars(&page);
    bars->setAccessibleName({});
    bars->setAccessibleDescription({});
    bars->resize(200, 80);
    auto *field = new QLineEdit(&page);
    auto *fine = new QPushButton(QStringLiteral("fine"), &page);
    Q_UNUSED(field);
    Q_UNUSED(fine);
    page.show();
    const QStringList found = unnamed(page);
    QCOMPARE(undescribed(page).size(), 1);
    QVERIFY2(found.size() == 2 && found.join(QLatin1Char(' ')).contains(QStringLiteral("LayerBars")),
             qPrintable(found.join(QLatin1Char('\n'))));
}

void TestManners::screenReadersHearEveryWidget()
{
    QVERIFY(testing::loadSample(*m_state));
    QStringList mute;
    for (QDockWidget *dock : m_window->docks()) {
        dock->raise();
        QCoreApplication::processEvents();
        mute << undescribed(*dock);
        for (QTabWidget *tabs : dock->findChildren<QTabWidget *>())
            for (int page = 0; page < tabs->count(); ++page) {
                tabs->setCurrentIndex(page);
                QCoreApplication::processEvents();
                mute << undescribed(*dock);
            }
    }
    mute.removeDuplicates();
    const QStringList found = unnamed(*m_window);
    for (const QString &each : found)
        qWarning("%s has no name", qPrintable(each));
    for (const QString &each : mute)
        qWarning("%s does not say what it shows", qPrintable(each));
    QVERIFY(found.isEmpty() && mute.isEmpty());
    PreferencesDialog preferences(m_window->keyMap());
    LinkDialog link;
    for (QDialog *dialog : {static_cast<QDialog *>(&preferences), static_cast<QDialog *>(&link)}) {
        dialog->show();
        QVERIFY2(unnamed(*dialog).isEmpty(), qPrintable(unnamed(*dialog).join(QLatin1Char('\n'))));
    }
}

PLANLOOM_UI_MAIN(TestManners)
#include "tst_manners.moc"
